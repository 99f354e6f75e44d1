"""Which NodeClaims come of which pods: facts of Karpenter's scheduling tests and documentation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from karpenterworlds import (
    FAMILY,
    GPU,
    ZONES,
    kind,
    names,
    pod,
    pool,
    solve,
    state_node,
    wants,
    world,
)

from fairway.kube.objects import Obj
from fairway.provisioning.karpenter.labels import ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, SPOT, ZONE
from fairway.provisioning.karpenter.packing import Options, Results
from fairway.provisioning.karpenter.requirement import one_of
from fairway.provisioning.karpenter.requirements import Requirements
from fairway.provisioning.karpenter.statenode import StateNode
from fairway.provisioning.karpenter.world import World

SMALL = kind("s.small", 4, spot=60_000)
LARGE = kind("l.large", 16, spot=250_000)
GPUS = kind("g.gpu", 8, gpu=4, spot=1_500_000)
ARM = kind("a.arm", 4, arch="arm64", price=100_000)
TYPES = [SMALL, LARGE, GPUS, ARM]
SELF = {"matchLabels": {"app": "x"}}
APP = {"app": "x"}


def spread(key: str, skew: int = 1, when: str = "DoNotSchedule", **more: Any) -> dict[str, Any]:
    one = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": SELF, **more}
    return {"topologySpreadConstraints": [one]}


def affinity(which: str, key: str, selector: dict[str, Any] | None = None) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": selector or SELF}
    return {"affinity": {which: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def near_nodes(
    *terms: list[dict[str, Any]], preferred: list[tuple[int, dict[str, Any]]] = ()
) -> dict[str, Any]:  # type: ignore[assignment]
    part: dict[str, Any] = {}
    if terms:
        chosen = [{"matchExpressions": t} for t in terms]
        part["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": chosen}
    if preferred:
        part["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": w, "preference": {"matchExpressions": [e]}} for w, e in preferred
        ]
    return {"affinity": {"nodeAffinity": part}}


def cheapest(results: Results) -> list[str]:
    return [c.type_names[0] for c in results.claims]


def zones(results: Results) -> list[str]:
    return sorted(z for c in results.claims for z in c.requirements.get(ZONE).values)


def why(results: Results) -> str:
    return " | ".join(str(r) for _, r in results.refused)


APART = affinity("podAntiAffinity", HOSTNAME)
Case = tuple[World, list[Obj], Callable[[Results], Any], Any]
CASES: dict[str, Case] = {
    "pods share a node that holds them": (
        world(TYPES), [pod("a"), pod("b")], names, [["a", "b"]]
    ),
    "the cheapest type comes first, spot counted": (
        world(TYPES), [pod("a")], lambda r: r.claims[0].type_names, ["s.small", "a.arm", "l.large", "g.gpu"]
    ),
    "the largest pod goes first": (
        world([kind("t", 4)]), [pod("a", "1"), pod("b", "3"), pod("c", "3")], names, [["b", "a"], ["c"]]
    ),
    "of equal CPU, the larger memory goes first": (
        world([kind("t", 2, 6)]), [pod("a", "1", "1Gi"), pod("b", "1", "5Gi"), pod("c", "1", "3Gi")],
        names, [["b", "a"], ["c"]],
    ),
    "the claim with the fewest pods is tried first": (
        world([kind("t", 4)]),
        [pod("a", "3"), pod("b", "2", "2Gi"), pod("c", "1", "2Gi"), pod("d", "1", "1Gi")],
        names, [["a", "c"], ["b", "d"]],
    ),
    "GPUs are asked of types that have them": (world(TYPES), [pod("a", gpu=2)], cheapest, ["g.gpu"]),
    "too many GPUs for any type": (
        world(TYPES), [pod("a", gpu=8)], why,
        'no instance type has enough resources, requirements=example.com/nodeclass In [default], karpenter.sh/'
        'initialized In [true], karpenter.sh/nodepool In [default], karpenter.sh/registered In [true], '
        'resources={"cpu":"1","memory":"1Gi","nvidia.com/gpu":"8","pods":"1"}',
    ),
    "an architecture nobody has": (
        world(TYPES), [pod("a", nodeSelector={ARCH: "riscv"})],
        lambda r: why(r).partition(",")[0],
        "no instance type met all requirements",
    ),
    "a zone nobody has": (
        world(TYPES), [pod("a", nodeSelector={ZONE: "mars"})],
        lambda r: why(r).partition(",")[0],
        "no instance type met the scheduling requirements or had enough resources or had a required offering",
    ),
    "a zone of one type only": (
        world([kind("one", 4, zones=("zone-1",)), kind("two", 4, zones=("zone-2",))]),
        [pod("a", nodeSelector={ZONE: "zone-2"})], cheapest, ["two"],
    ),
    "what is sold out is not launched": (
        world([kind("t", 4, zones=("zone-1",), sold_out=(("zone-1", "on-demand"),)), LARGE]),
        [pod("a")], cheapest, ["l.large"],
    ),
    "sold out everywhere: no offering": (
        world([kind("t", 4, zones=("zone-1",), sold_out=(("zone-1", "on-demand"),))], [pool()]),
        [pod("a")], why, "nodepool requirements filtered out all available instance types",
    ),
    "a custom label that no NodePool has": (
        world(TYPES), [pod("a", nodeSelector={"team": "x"})], why,
        'incompatible requirements, label "team" does not have known values',
    ),
    "a custom label of the NodePool": (
        world(TYPES, [pool(labels={"team": "x"})]), [pod("a", nodeSelector={"team": "x"})], names, [["a"]]
    ),
    "a custom label of several values narrows": (
        world(TYPES, [pool(requirements=[wants("team", "In", "x", "y")])]),
        [pod("a", nodeSelector={"team": "x"}), pod("b", nodeSelector={"team": "y"})], names, [["a"], ["b"]],
    ),
    "spot only": (
        world(TYPES, [pool(requirements=[wants(CAPACITY_TYPE, "In", SPOT)])]), [pod("a")],
        lambda r: r.claims[0].type_names, ["s.small", "l.large", "g.gpu"],
    ),
    "NotIn of a NodePool leaves the rest": (
        world(TYPES, [pool(requirements=[wants(FAMILY, "NotIn", "s", "a")])]), [pod("a")], cheapest, ["l.large"]
    ),
    "Gt of a NodePool": (
        world(TYPES, [pool(requirements=[wants("fairway.dev/instance-cpu", "Gt", "8")])]),
        [pod("a")], cheapest, ["l.large"],
    ),
    "Exists means types that have it": (
        world(TYPES, [pool(requirements=[wants("fairway.dev/instance-gpu-count", "Exists")])]),
        [pod("a")], cheapest, ["g.gpu"],
    ),
    "DoesNotExist keeps pods off GPU machines": (
        world([GPUS, LARGE], [pool(requirements=[wants("fairway.dev/instance-gpu-count", "DoesNotExist")])]),
        [pod("a")], lambda r: r.claims[0].type_names, ["l.large"],
    ),
    "the heaviest NodePool wins": (
        world(TYPES, [pool("light", weight=1), pool("heavy", weight=50)]), [pod("a")],
        lambda r: r.claims[0].pool.name, "heavy",
    ),
    "of equal weight the name later in the alphabet": (
        world(TYPES, [pool("a-pool"), pool("b-pool")]), [pod("a")], lambda r: r.claims[0].pool.name, "b-pool"
    ),
    "a lighter NodePool where the heavy one will not do": (
        world(TYPES, [pool("light"), pool("heavy", weight=9, requirements=[wants(FAMILY, "In", "s")])]),
        [pod("a", "9")], lambda r: r.claims[0].pool.name, "light",
    ),
    "taints are tolerated or avoided": (
        world(TYPES, [pool(taints=[{"key": "t", "value": "v", "effect": "NoSchedule"}])]), [pod("a")], why,
        "did not tolerate taint (taint=t=v:NoSchedule)",
    ),
    "a toleration lets it in": (
        world(TYPES, [pool(taints=[{"key": "t", "effect": "NoSchedule"}])]),
        [pod("a", tolerations=[{"key": "t", "operator": "Exists"}])], names, [["a"]],
    ),
    "a preferred taint is given way to last": (
        world(TYPES, [pool(taints=[{"key": "t", "effect": "PreferNoSchedule"}])]), [pod("a")], names, [["a"]]
    ),
    "two NodePools, two reasons": (
        world(TYPES, [
            pool("a-pool", taints=[{"key": "t", "effect": "NoSchedule"}]), pool("b-pool", limits={"cpu": "1"})
        ]),
        [pod("a")], why,
        "all available instance types exceed limits for nodepool (NodePool=b-pool); "
        "did not tolerate taint (taint=t:NoSchedule)",
    ),
    "limits count what the largest type would bring": (
        world([kind("t", 4)], [pool(limits={"cpu": "8"})]), [pod(f"p{i}", "3") for i in range(3)],
        lambda r: (len(r.claims), why(r)),
        (2, "all available instance types exceed limits for nodepool (NodePool=default)"),
    ),
    "GPU limits": (
        world([GPUS], [pool(limits={GPU: "4"})]), [pod("a", gpu=4), pod("b", gpu=4)], names, [["a"]]
    ),
    "limits leave the types within them": (
        world([SMALL, LARGE], [pool(limits={"cpu": "10"})]), [pod("a")], cheapest, ["s.small"]
    ),
    "limits count nodes that are there": (
        world([SMALL], [pool(limits={"cpu": "7"})], (state_node("n", SMALL, (pod("x", "4", node="n"),)),)),
        [pod("a")], lambda r: len(r.claims), 0,
    ),
    "node limits": (
        world([SMALL], [pool(limits={"nodes": "1"})], (state_node("n", SMALL, (pod("x", "4", node="n"),)),)),
        [pod("a")], why, "node limits have been exhausted for nodepool (NodePool=default)",
    ),
    "existing nodes come first": (
        world(TYPES, None, (state_node("n", SMALL),)), [pod("a")],
        lambda r: (names(r), [(n.name, len(p)) for n, p in r.pods_on]), ([], [("n", 1)]),
    ),
    "initialized nodes before others": (
        world(TYPES, None, (state_node("a", SMALL, is_initialized=False), state_node("b", SMALL))),
        [pod("p")], lambda r: [n.name for n, _ in r.pods_on], ["b"],
    ),
    "an existing node that is full": (
        world(TYPES, None, (state_node("n", SMALL, (pod("x", "4", node="n"),)),)), [pod("a")], names, [["a"]]
    ),
    "daemons take their part of a node": (
        world([kind("t", 4), kind("u", 6)], None, (), (pod("ds", "1"),)), [pod("a", "4")], cheapest, ["u"]
    ),
    "daemons that tolerate nothing stay off tainted pools": (
        world([kind("t", 4)], [pool(taints=[{"key": "t", "effect": "NoSchedule"}])], (), (pod("ds", "1"),)),
        [pod("a", "4", tolerations=[{"operator": "Exists"}])], names, [["a"]],
    ),
    "daemons for other machines do not count": (
        world([kind("t", 4)], None, (), (pod("ds", "1", nodeSelector={ARCH: "arm64"}),)),
        [pod("a", "4")], names, [["a"]],
    ),
    "the claim's requests include its daemons": (
        world([kind("t", 4)], None, (), (pod("ds", "1"),)), [pod("a", "2")],
        lambda r: (r.claims[0].requests["cpu"], r.claims[0].requests["pods"]), (3000, 2),
    ),
    "overhead is kept free": (
        world([kind("t", 4, overhead={"cpu": 100}), kind("u", 8)]), [pod("a", "4")], cheapest, ["u"]
    ),
    "pods per node": (world([kind("t", 16, pods=2)]), [pod(f"p{i}") for i in range(3)], lambda r: len(r.claims), 2),
    "host ports keep pods apart": (
        world(TYPES), [pod(n, container={"ports": [{"hostPort": 80}]}) for n in "ab"], names, [["a"], ["b"]]
    ),
    "different ports do not": (
        world(TYPES),
        [pod("a", container={"ports": [{"hostPort": 80}]}), pod("b", container={"ports": [{"hostPort": 81}]})],
        names, [["a", "b"]],
    ),
    "a daemon's host port is taken on every node": (
        world(TYPES, None, (), (pod("ds", container={"ports": [{"hostPort": 80}]}),)),
        [pod("a", container={"ports": [{"hostPort": 80}]})], lambda r: len(r.refused), 1,
    ),
    "spread over zones": (
        world([kind("t", 4)]), [pod(n, labels=APP, **spread(ZONE)) for n in "abc"], zones, list(ZONES)
    ),
    "spread over zones, four pods: skew one": (
        world([kind("t", 16)]), [pod(n, labels=APP, **spread(ZONE)) for n in "abcd"],
        lambda r: sorted(len(c.pods) for c in r.claims), [1, 1, 2],
    ),
    "spread over hosts": (
        world([kind("t", 16)]), [pod(n, labels=APP, **spread(HOSTNAME)) for n in "abc"], lambda r: len(r.claims), 3
    ),
    "spread over hosts with more skew": (
        world([kind("t", 16)]), [pod(n, labels=APP, **spread(HOSTNAME, 2)) for n in "abcd"], lambda r: len(r.claims), 2
    ),
    "a soft spread gives way": (
        world([kind("t", 4, zones=("zone-1",)), kind("u", 4, zones=("zone-2",), price=-1)]),
        [pod(n, labels=APP, **spread(ZONE, when="ScheduleAnyway")) for n in "abcde"], lambda r: len(r.refused), 0,
    ),
    "minDomains holds a spread back": (
        world([kind("t", 4, zones=("zone-1",))]),
        [pod(n, labels=APP, **spread(ZONE, minDomains=2)) for n in "ab"], lambda r: len(r.refused), 1,
    ),
    "pods that are there count in a spread": (
        world([kind("t", 4)], None, (state_node("n", SMALL, (pod("x", "4", labels=APP, node="n"),)),)),
        [pod(n, labels=APP, **spread(ZONE)) for n in "ab"], zones, ["zone-2", "zone-3"],
    ),
    "affinity to one's own kind stays in one zone": (
        world([kind("t", 1)]), [pod(n, labels=APP, **affinity("podAffinity", ZONE)) for n in "abc"],
        lambda r: len(set(zones(r))), 1,
    ),
    "affinity to one's own kind on one host": (
        world([kind("t", 16)]), [pod(n, labels=APP, **affinity("podAffinity", HOSTNAME)) for n in "abc"],
        names, [["a", "b", "c"]],
    ),
    "affinity to a pod that comes later in the batch": (
        world([kind("t", 16)]), [pod("z", "2", **affinity("podAffinity", HOSTNAME)), pod("a", "1", labels=APP)],
        lambda r: sorted(map(sorted, names(r))), [["a", "z"]],
    ),
    "affinity to nobody": (
        world([kind("t", 16)]), [pod("z", **affinity("podAffinity", ZONE))], lambda r: why(r)[:76],
        "unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.",
    ),
    "anti-affinity over hosts": (
        world([kind("t", 16)]), [pod(n, labels=APP, **affinity("podAntiAffinity", HOSTNAME)) for n in "abc"],
        lambda r: len(r.claims), 3,
    ),
    "anti-affinity over zones blocks every zone a claim may land in": (
        world([kind("t", 16)]), [pod(n, labels=APP, **affinity("podAntiAffinity", ZONE)) for n in "ab"],
        lambda r: (len(r.claims), len(r.refused)), (1, 1),
    ),
    "a pod others refuse is kept away from them": (
        world([kind("t", 16)]), [pod("a", "2", **affinity("podAntiAffinity", HOSTNAME)), pod("b", labels=APP)],
        names, [["a"], ["b"]],
    ),
    "a bound pod's anti-affinity": (
        world([kind("t", 4)], None, (state_node("n", SMALL, (pod("x", node="n", **APART),)),)),
        [pod("a", labels=APP)], names, [["a"]],
    ),
    "the first alternative that works": (
        world(TYPES),
        [pod("a", **near_nodes([wants(ZONE, "In", "mars")], [wants(ZONE, "In", "zone-2")]))], zones, ["zone-2"],
    ),
    "the heaviest preference that works": (
        world(TYPES),
        [pod("a", **near_nodes(preferred=[(1, wants(ZONE, "In", "zone-1")), (9, wants(ZONE, "In", "zone-3"))]))],
        zones, ["zone-3"],
    ),
    "a preference nobody can meet gives way": (
        world(TYPES), [pod("a", **near_nodes(preferred=[(9, wants(ZONE, "In", "mars"))]))], names, [["a"]]
    ),
    "minValues met": (
        world(TYPES, [pool(requirements=[wants(FAMILY, "Exists", least=3)])]), [pod("a")], names, [["a"]]
    ),
    "minValues not met": (
        world(TYPES, [pool(requirements=[wants(FAMILY, "Exists", least=3)])]), [pod("a", gpu=1)],
        lambda r: why(r).partition(", req")[0],
        "minValues requirement is not met for label(s) (label(s)=[fairway.dev/instance-family])",
    ),
    "minValues beyond the fleet closes the NodePool": (
        world(TYPES, [pool(requirements=[wants(FAMILY, "Exists", least=9)])]), [pod("a")],
        lambda r: [n for n, _ in r.unusable_pools], ["default"],
    ),
    "a static NodePool takes no pods": (
        world(TYPES, [pool(replicas=2)]), [pod("a")], lambda r: len(r.refused), 1
    ),
    "a CPU request of millions is a typo": (
        world([SMALL]), [pod("a", "1000000")], lambda r: why(r).partition("} ")[2],
        "(CPU request >= 1 Million, m vs M typo?)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    made, pods, read, want = CASES[case]
    assert read(solve(made, pods)) == want


def test_min_values_give_way_when_asked_to() -> None:
    made = world(TYPES, [pool(requirements=[wants(FAMILY, "Exists", least=3)])])
    results = solve(made, [pod("a", gpu=1)], Options(min_values_policy="BestEffort"))
    assert results.claims[0].min_values_relaxed
    assert results.claims[0].requirements.get(FAMILY).min_values == 1


def test_preferences_can_be_ignored() -> None:
    made = world(TYPES)
    wish = near_nodes(preferred=[(9, wants(ZONE, "In", "zone-3"))])
    assert zones(solve(made, [pod("a", **wish)], Options(preference_policy="Ignore"))) == []


def test_a_volume_ties_its_pod_to_its_zone() -> None:
    made = world(TYPES)
    tied = World(made.pools, made.fleets, volumes={"a": (Requirements([one_of(ZONE, ("zone-2",))]),)})
    assert zones(solve(tied, [pod("a")])) == ["zone-2"]


def test_the_types_that_may_be_launched_are_capped_by_price() -> None:
    made = world([kind(f"t{i}", 4 + i) for i in range(9)])
    results = solve(made, [pod("a")], Options(max_instance_types=3))
    assert results.claims[0].type_names == ["t0", "t1", "t2"]
    short = world(
        [kind(f"t{i}", 4 + i) for i in range(9)],
        [pool(requirements=[wants(INSTANCE_TYPE, "Exists", least=5)])],
    )
    refused = solve(short, [pod("a")], Options(max_instance_types=3)).refused
    assert "couldn’t meet minValues requirements, validating minValues" in str(refused[0][1])


@pytest.mark.parametrize(
    "spec",
    [
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]},
        {"containers": [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}]},
    ],
)
def test_pods_that_claim_devices_are_left_alone(spec: dict[str, Any]) -> None:
    """Nowhere: not on a node that is there, and without giving up a wish."""
    claiming = pod("claims", cpu="1")
    claiming["spec"] = {**claiming["spec"], **spec}
    found = solve(world(TYPES), [claiming, pod("plain", cpu="1")])
    assert names(found) == [["plain"]]
    ((facts, why),) = found.refused
    assert (facts.name, str(why)) == (
        "claims",
        "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter",
    )


@pytest.mark.parametrize(
    "taints_of_node", [[], [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]]
)
@pytest.mark.parametrize("has_node", [True, False])
def test_a_spread_that_honors_taints_sees_those_a_node_will_lose(
    taints_of_node: list[dict[str, str]], has_node: bool
) -> None:
    """Of a node that is not initialized; of a claim without a node those that will stay."""
    plain = state_node("n", SMALL, (pod("x", "4", labels=APP, node="n"),))
    same = ("name", "labels", "taints", "capacity", "available", "claim_facts", "pods")
    starting = StateNode(
        **{name: getattr(plain, name) for name in same},
        node_object={"metadata": {"name": "n"}, "spec": {"taints": taints_of_node}},
        has_node=has_node,
        is_initialized=False,
    )
    asked = spread(ZONE, nodeTaintsPolicy="Honor")
    found = solve(world([kind("t", 4)], None, (starting,)), [pod("a", labels=APP, **asked)])
    assert zones(found) == ["zone-1" if taints_of_node and has_node else "zone-2"]


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        ("", "", "zone-1: 0, zone-2: 0"),
        ("hard", "", "zone-2: 0"),
        ("", "hard", "zone-1: 0, zone-2: 0"),
        ("hard", "hard", ""),
    ],
)
def test_domains_are_of_pools_that_a_pod_tolerates(first: str, second: str, want: str) -> None:
    """A zone of two pools is a domain where either may be had; one of a tainted pool alone is none."""
    pools = [
        pool(
            name,
            taints=[{"key": taint, "effect": "NoSchedule"}] if taint else [],
            requirements=[wants(ZONE, "In", *of)],
        )
        for name, taint, of in (("a", first, ZONES[:2]), ("b", second, ZONES[1:2]))
    ]
    near = affinity("podAffinity", ZONE, {"matchLabels": {"app": "y"}})
    found = why(solve(world([kind("t", 4)], pools), [pod("p", **near)]))
    assert found.partition("(counts = ")[2].partition(", podDomains")[0] == want


def test_what_a_pod_excludes_on_a_node_narrows_it_for_those_after_it() -> None:
    """Source: existingnode.go Add. What a spread leaves of a label that the node lacks is its value from then on."""
    node = state_node("n", LARGE)
    teams = pool(requirements=[wants("team", "In", "blue", "red")])
    evenly = {"labels": APP, **spread("team")}
    excluding = near_nodes([wants("team", "NotIn", "green")])
    found = solve(
        world([LARGE], [teams], (node,)),
        [pod("a", "2", **evenly, **excluding), pod("b", "1", **evenly, **excluding)],
    )
    assert [[p.name for p in pods] for _, pods in found.pods_on] == [["a"]]
    assert [str(c.requirements.get("team")) for c in found.claims] == ["team In [red]"]


_SIDES = list(product((True, False), repeat=3))


@pytest.mark.parametrize("first", _SIDES)
def test_what_no_two_types_have_together(first: tuple[bool, bool, bool]) -> None:
    """Each of the right machine or not, large enough or not, to be had there or not.

    Source: filterInstanceTypesByRequirements, InstanceTypeFilterError. A type is large enough only if it can be had.
    """
    for second in _SIDES:
        sides = (first, second)
        types = [
            kind(
                f"t{i}.x",
                8 if is_large else 2,
                arch="arm64" if is_right else "amd64",
                zones=ZONES[:2],
                sold_out=() if is_there else ((ZONES[0], "on-demand"),),
            )
            for i, (is_right, is_large, is_there) in enumerate(sides)
        ]
        asked = pod("p", "4", nodeSelector={ARCH: "arm64", ZONE: ZONES[0]})
        found = solve(world(types), [asked])
        fits = [is_large and is_there for _, is_large, is_there in sides]
        if (True, True, True) in sides:
            assert [c.type_names for c in found.claims] == [
                [t.name for t, side in zip(types, sides, strict=True) if all(side)]
            ]
            continue
        missing = [
            text
            for text, there in (
                ("met the scheduling requirements", any(side[0] for side in sides)),
                ("had enough resources", any(fits)),
                ("had a required offering", any(side[2] for side in sides)),
            )
            if not there
        ]
        alone = {
            "met the scheduling requirements": "met all requirements",
            "had enough resources": "has enough resources",
            "had a required offering": "has the required offering",
        }
        if len(missing) > 1:
            want = " or ".join(missing)
        elif missing:
            want = alone[missing[0]]
        else:
            want = "which had enough resources and the required offering met the scheduling requirements"
        assert why(found).partition(", requirements=")[0] == f"no instance type {want}", sides
