"""Requirements field by field, and what is told apart of pods: labels asked for, ports, taints, shapes, costs."""

from __future__ import annotations

import pickle
from itertools import product
from typing import Any

import pytest
from karpenterworlds import (
    pod,
    wants,
)

from fairway.kube.taints import parse_taints, parse_tolerations
from fairway.provisioning.karpenter.labels import (
    HOSTNAME,
    ZONE,
)
from fairway.provisioning.karpenter.podfacts import (
    DELETION_COST,
    HostPort,
    Shapes,
    eviction_cost,
    facts_of,
    host_ports,
    port_conflict,
    untolerated,
)
from fairway.provisioning.karpenter.requirement import Requirement, one_of, requirement
from fairway.provisioning.karpenter.requirements import (
    Requirements,
    affinity_requirements,
    label_requirements,
    selector_requirements,
)

# Requirements


def _fields(made: Requirement) -> tuple[Any, ...]:
    return made.complement, sorted(made.values), made.gte, made.lte, made.min_values


@pytest.mark.parametrize("least", [None, 2])
def test_every_operator_field_by_field(least: int | None) -> None:
    most = 2**63 - 1
    for operator, values, want in (
        ("In", ["b", "a"], (False, ["a", "b"], None, None, least)),
        ("NotIn", ["b", "a"], (True, ["a", "b"], None, None, least)),
        ("Exists", [], (True, [], None, None, least)),
        ("Exists", ["a"], (True, [], None, None, least)),
        ("DoesNotExist", ["a"], (False, [], None, None, least)),
        ("Gt", ["4"], (True, [], 5, None, least)),
        ("Gte", ["4"], (True, [], 4, None, least)),
        ("Lt", ["4"], (True, [], None, 3, least)),
        ("Lte", ["4"], (True, [], None, 4, least)),
        ("Gt", ["+7", "9"], (True, [], 8, None, least)),
        ("Lte", ["-3"], (True, [], None, -3, least)),
        ("Gt", ["x"], (True, [], 1, None, least)),
        ("Lt", [], (True, [], None, -1, least)),
        ("Gt", [str(most)], (False, [], None, None, None)),
        ("Gte", [str(most)], (True, [], most, None, least)),
        ("Gt", [str(most - 1)], (True, [], most, None, least)),
    ):
        assert _fields(requirement("k", operator, values, least)) == want, (operator, values)


def test_requirements_are_values() -> None:
    base = Requirement("k", True, frozenset("a"), 1, 9, 2)
    assert base == Requirement("k", True, frozenset("a"), 1, 9, 2) == pickle.loads(pickle.dumps(base))
    assert hash(base) == hash(pickle.loads(pickle.dumps(base)))
    for other in (
        Requirement("l", True, frozenset("a"), 1, 9, 2),
        Requirement("k", False, frozenset("a"), 1, 9, 2),
        Requirement("k", True, frozenset("b"), 1, 9, 2),
        Requirement("k", True, frozenset("a"), 2, 9, 2),
        Requirement("k", True, frozenset("a"), 1, 8, 2),
        Requirement("k", True, frozenset("a"), 1, 9, 3),
    ):
        assert base != other
        assert Requirements([base]) != Requirements([other])
    assert base != "k" and Requirements([base]) != [base]
    assert repr(base) == "Requirement(k NotIn [a] >=1 <=9 minValues 2)"
    assert _fields(base.with_min_values(5)) == (True, ["a"], 1, 9, 5)
    several = Requirements([one_of("b", "x"), base, one_of("b", "xy")])
    copied = pickle.loads(pickle.dumps(several))
    assert copied == several and hash(copied) == hash(several)
    assert [r.key for r in several] == ["b", "k"] and len(several) == 2
    assert ("b" in several, "c" in several) == (True, False)
    assert several.get("b") == one_of("b", "x")
    assert _fields(several.get("c")) == (True, [], None, None, None)
    assert several.find("c") is None
    assert several.replacing(one_of("b", "z")) == Requirements([base, one_of("b", "z")])
    assert several.without("k", "z") == Requirements([one_of("b", "x")])
    assert (several.has_min_values, several.without("k").has_min_values) == (True, False)
    assert str(several.plus([one_of(HOSTNAME, "h")])) == "b In [x], k NotIn [a] >=1 <=9 minValues 2"


def test_what_is_left_of_two_bounds() -> None:
    for a, b in product(range(1, 5), repeat=2):
        both = requirement("k", "Gte", [str(a)]).intersection(requirement("k", "Lte", [str(b)]))
        assert _fields(both) == ((True, [], a, b, None) if a <= b else (False, [], None, None, None))
        assert requirement("k", "Gte", [str(a)]).intersects(requirement("k", "Lte", [str(b)])) is (a <= b)
        for values in (["2"], ["2", "3"], ["x"], ["2", "x"]):
            listed, bound = requirement("k", "In", values, 3), requirement("k", "Gte", [str(a)])
            want = [v for v in values if v.isdigit() and int(v) >= a]
            for one, other in ((listed, bound), (bound, listed)):
                assert _fields(one.intersection(other)) == (False, want, None, None, 3)
                assert one.intersects(other) is bool(want)
            without = requirement("k", "NotIn", values).intersection(bound)
            assert _fields(without) == (True, want, a, None, None)
    assert _fields(requirement("k", "Gte", ["3"]).intersection(requirement("k", "Gte", ["5"])))[2:4] == (
        5,
        None,
    )
    assert _fields(requirement("k", "Lte", ["3"]).intersection(requirement("k", "Lte", ["5"])))[2:4] == (
        None,
        3,
    )
    crossed = requirement("k", "Gt", ["5"], 4).intersection(requirement("k", "Lt", ["5"], 2))
    assert _fields(crossed) == (False, [], None, None, 4)


def test_how_requirements_are_listed() -> None:
    for made, want in (
        (one_of("k", "ba"), [{"key": "k", "operator": "In", "values": ["a", "b"]}]),
        (one_of("k", ()), [{"key": "k", "operator": "DoesNotExist"}]),
        (requirement("k", "Exists", (), 3), [{"key": "k", "operator": "Exists", "minValues": 3}]),
        (requirement("k", "NotIn", ["a"]), [{"key": "k", "operator": "NotIn", "values": ["a"]}]),
        (
            Requirement("k", True, frozenset("a"), 0, 9, 2),
            [
                {"key": "k", "operator": "Gte", "values": ["0"], "minValues": 2},
                {"key": "k", "operator": "Lte", "values": ["9"], "minValues": 2},
            ],
        ),
    ):
        assert made.as_selectors() == want
    several = Requirements([one_of("z", "a"), requirement("b", "Exists")])
    assert [s["key"] for s in several.as_selectors()] == ["b", "z"]
    assert str(one_of("k", "abcde")) == "k In [a b c d e]"
    assert str(one_of("k", "abcdef")) == "k In [a b c d e and 1 others]"


def test_what_a_pod_asks_of_labels() -> None:
    spec = {
        "nodeSelector": {"beta.kubernetes.io/arch": "arm64", "team": "red"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [wants("disk", "In", "ssd", "hdd")]},
                        {"matchExpressions": [wants("disk", "In", "tape")]},
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 3, "preference": {"matchExpressions": [wants("disk", "In", "hdd")]}},
                    {"weight": 8, "preference": {"matchExpressions": [wants("disk", "In", "ssd")]}},
                    {"weight": 8, "preference": {"matchExpressions": [wants("disk", "In", "no")]}},
                    {},
                ],
            }
        },
    }
    strict = affinity_requirements(spec, with_preferred=False)
    assert str(strict) == "disk In [hdd ssd], kubernetes.io/arch In [arm64], team In [red]"
    wished = affinity_requirements(spec, with_preferred=True)
    assert str(wished) == "disk In [ssd], kubernetes.io/arch In [arm64], team In [red]"
    for empty in ({}, {"affinity": {"nodeAffinity": {}}}, {"affinity": {"podAffinity": {}}}):
        assert len(affinity_requirements(empty, with_preferred=True)) == 0
    assert selector_requirements(None) == label_requirements(None) == Requirements()
    assert str(selector_requirements([{"key": "n", "operator": "Gt", "values": [3], "minValues": 2}])) == (
        "n Exists >=4 minValues 2"
    )


def test_the_words_of_what_conflicts_and_of_what_may_be_meant() -> None:
    node = Requirements(
        [one_of("a", "x"), one_of("b", "x"), one_of(HOSTNAME, "n"), one_of("gpu.example/kind", "v")]
    )
    wanted = Requirements([one_of("b", "y"), one_of("a", "y"), requirement("c", "NotIn", ["z"])])
    assert node.conflict(wanted) == "key a, a In [y] not in a In [x]; key b, b In [y] not in b In [x]"
    assert node.incompatible(wanted) == node.conflict(wanted)
    assert node.conflict(Requirements([one_of("a", "xy"), one_of("c", "y")])) is None
    for key, want in (
        ("gpu", ' (typo of "gpu.example/kind"?)'),
        ("other/kind", ' (typo of "gpu.example/kind"?)'),
        ("kind", ' (typo of "gpu.example/kind"?)'),
        ("kinds", ""),
        ("zone", ' (typo of "topology.kubernetes.io/zone"?)'),
    ):
        said = node.incompatible(Requirements([one_of(key, "v")]), frozenset({ZONE}))
        assert said == f'label "{key}" does not have known values{want}'
    first = node.incompatible(Requirements([one_of("t", "v"), one_of("s", "v")]))
    assert first is not None and first.startswith('label "s" ')


# Pods


def test_which_host_ports_are_in_each_others_way() -> None:
    """Of one port and protocol: one address, or any address on either side."""
    for ip, other in product(("0.0.0.0", "::", "", "10.0.0.1", "10.0.0.2"), repeat=2):
        both = {"0.0.0.0", "::", ""} & {ip, other}
        assert HostPort(ip, 80, "TCP").conflicts(HostPort(other, 80, "TCP")) is (bool(both) or ip == other)
        assert not HostPort(ip, 80, "TCP").conflicts(HostPort(other, 81, "TCP"))
        assert not HostPort(ip, 80, "TCP").conflicts(HostPort(other, 80, "UDP"))
    held = host_ports(
        {
            "containers": [
                {"ports": [{"hostPort": 80}, {"containerPort": 9}, {"hostPort": 0}]},
                {},
                {"ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]},
            ],
            "initContainers": [{"ports": [{"hostPort": 1}]}],
        }
    )
    assert held == (HostPort("0.0.0.0", 80, "TCP"), HostPort("10.0.0.1", 53, "UDP"))
    assert port_conflict([held[1]], held) and not port_conflict([HostPort("", 54, "UDP")], held)
    assert not port_conflict([], held) and not port_conflict(held, [])


def test_every_taint_that_is_not_tolerated_is_named() -> None:
    taints = parse_taints(
        [{"key": "a", "value": "v", "effect": "NoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"}]
    )
    assert untolerated(taints, ()) == (
        "did not tolerate taint (taint=a=v:NoSchedule); did not tolerate taint (taint=b:PreferNoSchedule)"
    )
    of_a = parse_tolerations([{"key": "a", "operator": "Exists"}])
    assert untolerated(taints, iter(of_a)) == "did not tolerate taint (taint=b:PreferNoSchedule)"
    assert untolerated(taints[:1], of_a) is untolerated((), ()) is None


def test_what_makes_a_shape() -> None:
    """Namespace, labels, volumes and what of the spec decides where a pod may go; nothing else."""
    shapes = Shapes()
    base = pod("a", labels={"app": "x"})
    same = {**pod("b", labels={"app": "x"}), "status": {}}
    same["spec"] = {**same["spec"], "restartPolicy": "Never", "priority": 9, "affinity": {}}
    first = shapes.of(base)
    assert shapes.of(same) is first and (first.index, len(shapes)) == (0, 1)
    both = [pod("l", labels={"app": "x", "tier": "1"}), pod("m", labels={"tier": "1", "app": "x"})]
    ordered = Shapes()
    assert ordered.of(both[1]) is ordered.of(both[0]) and len(ordered) == 1
    assert ordered.of(both[1]).peers == ("default", (("app", "x"), ("tier", "1")))
    zone = (Requirements([one_of(ZONE, ("z",))]),)
    others = [
        shapes.of(base, zone),
        shapes.of({**base, "metadata": {**base["metadata"], "namespace": "other"}}),
        shapes.of(pod("c", labels={"app": "y"})),
        shapes.of(pod("d", "2", labels={"app": "x"})),
        *(
            shapes.of(pod("e", labels={"app": "x"}, **more))
            for more in (
                {"nodeSelector": {"a": "b"}},
                {"tolerations": [{"operator": "Exists"}]},
                {"topologySpreadConstraints": [{"maxSkew": 1}]},
                {"initContainers": [{"name": "i"}]},
                {"overhead": {"cpu": "1"}},
                {"resources": {"requests": {"cpu": "9"}}},
                {"resourceClaims": [{"name": "c"}]},
                {"affinity": {"podAffinity": {}}},
            )
        ),
    ]
    assert [s.index for s in others] == list(range(1, 13))
    assert (others[0].volumes, others[0].peers) == (zone, ("default", (("app", "x"),)))
    assert [s.claims_devices for s in (first, others[10])] == [False, True]
    fewer = shapes.with_spec(others[4], {"containers": first.spec["containers"]})
    assert fewer is first
    tied = Shapes(respects_preferences=False).of(pod("f", nodeSelector={HOSTNAME: "h", "team": "red"}))
    assert (str(tied.host), str(tied.requirements)) == (f"{HOSTNAME} In [h]", "team In [red]")
    assert tied.strict.get(HOSTNAME).has("h") and not tied.strict.get(HOSTNAME).has("g")


def test_facts_of_a_pod_without_a_uid() -> None:
    shape = Shapes().of({})
    assert facts_of({}, shape)[:4] == ("/", "", "", "")
    facts = facts_of(
        {"metadata": {"name": "p", "namespace": "n", "creationTimestamp": "t"}}, shape, is_pending=False
    )
    assert (facts.uid, facts.key, facts.created, facts.is_pending) == ("n/p", "n/p", "t", False)
    assert facts_of({"metadata": {"uid": "u"}}, shape).is_pending


@pytest.mark.parametrize(
    ("annotation", "priority", "want"),
    [
        (None, None, 1.0),
        (str(2**27), None, 2.0),
        (str(-(2**27)), None, 0.0),
        (None, 2**25, 2.0),
        (None, -(2**26), -1.0),
        (None, 0, 1.0),
        ("x", 2**24, 1.5),
        (str(2**31), 2**31, 10.0),
        (str(-(2**31)), -(2**31), -10.0),
    ],
)
def test_the_cost_of_moving_a_pod_is_its_formula(
    annotation: str | None, priority: int | None, want: float
) -> None:
    notes = {} if annotation is None else {DELETION_COST: annotation}
    spec = {} if priority is None else {"priority": priority}
    assert eviction_cost({"metadata": {"annotations": notes}, "spec": spec}) == want
