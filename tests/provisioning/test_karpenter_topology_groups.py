"""Groups of pods that want to be near or far from one another: where may the next one go?"""

from __future__ import annotations

from itertools import product

import pytest

from fairway.kube.labels import Requirement as LabelRequirement
from fairway.kube.labels import Selector
from fairway.kube.taints import parse_taints, parse_tolerations
from fairway.provisioning.karpenter.requirement import Requirement, one_of, requirement
from fairway.provisioning.karpenter.requirements import Requirements, selector_requirements
from fairway.provisioning.karpenter.topologygroups import (
    AFFINITY,
    ANTI_AFFINITY,
    SPREAD,
    GroupKey,
    NodeFilter,
    TopologyGroup,
)

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SELECTOR = Selector((LabelRequirement("app", "In", ("a",)),))
COUNTS = (0, 1, 2, 3)


def group(
    kind: str, key: str = ZONE, skew: int = 1, least: int | None = None, **counts: int
) -> TopologyGroup:
    made = TopologyGroup(GroupKey(key, kind, frozenset(("n",)), SELECTOR, skew, None), (), least)
    for domain, count in counts.items():
        made.register(domain)
        for _ in range(count):
            made.record(domain)
    return made


def anything(key: str = ZONE) -> Requirement:
    (found,) = selector_requirements([{"key": key, "operator": "Exists"}])
    return found


def values(found: Requirement) -> list[str]:
    return found.sorted_values()


def test_what_is_counted() -> None:
    made = group(SPREAD, a=0, b=2)
    assert (made.counts, made.empty) == ({"a": 0, "b": 2}, 1)
    made.register("a")
    made.register("b")
    assert (made.counts, made.empty) == ({"a": 0, "b": 2}, 1)
    made.register("c")
    assert made.empty == 2
    made.record("d")
    made.record("c")
    made.record("c")
    assert (made.counts, made.empty) == ({"a": 0, "b": 2, "c": 2, "d": 1}, 1)
    assert TopologyGroup(made.key, ("y", "x"), None).counts == {"x": 0, "y": 0}
    assert made.selects("n", {"app": "a"})
    assert not made.selects("m", {"app": "a"})
    assert not made.selects("n", {"app": "b"})


@pytest.mark.parametrize("skew", [1, 2])
def test_spread_takes_the_emptiest_domain_within_the_skew(skew: int) -> None:
    for a, b, c in product(COUNTS, repeat=3):
        counts = {"a": a, "b": b, "c": c}
        made = group(SPREAD, ZONE, skew, a=a, b=b, c=c)
        for own, pod, node in product((True, False), ("abc", "ab"), ("abc", "bc", "c", "x")):
            fewest = min(counts[d] for d in pod)
            fine = [(counts[d] + own, d) for d in node if d in counts and counts[d] + own - fewest <= skew]
            found = made.next_domains(own, one_of(ZONE, pod), one_of(ZONE, node))
            assert values(found) == [d for _, d in sorted(fine)[:1]], (counts, own, pod, node)
    many = group(SPREAD, ZONE, 1, 3, a=1, b=1)
    assert values(many.next_domains(False, anything(), anything())) == ["a"]
    assert values(many.next_domains(True, anything(), anything())) == []
    enough = group(SPREAD, ZONE, 1, 2, a=1, b=1)
    assert values(enough.next_domains(True, anything(), anything())) == ["a"]


def test_affinity_goes_to_its_kind_or_starts_somewhere() -> None:
    for a, b, c in product((0, 1), repeat=3):
        counts = {"a": a, "b": b, "c": c}
        made = group(AFFINITY, ZONE, a=a, b=b, c=c)
        for own, pod, node in product((True, False), ("abc", "ab", "c"), ("abc", "bc", "a", "x")):
            want = [d for d in node if d in pod and counts.get(d)]
            if not want and own and not any(counts[d] for d in pod):
                both = [d for d in "abc" if d in pod and d in node]
                want = both[:1] or list(pod)[:1]
            found = made.next_domains(own, one_of(ZONE, pod), one_of(ZONE, node))
            assert values(found) == want, (counts, own, pod, node)
    elsewhere = group(AFFINITY, ZONE, a=1, b=0)
    assert values(elsewhere.next_domains(True, anything(), one_of(ZONE, "b"))) == []
    nowhere = group(AFFINITY, ZONE, a=0, b=0)
    assert values(nowhere.next_domains(True, anything(), one_of(ZONE, "b"))) == ["b"]
    assert values(nowhere.next_domains(False, anything(), one_of(ZONE, "b"))) == []


def test_anti_affinity_goes_where_nobody_is() -> None:
    for a, b, c in product((0, 1), repeat=3):
        counts = {"a": a, "b": b, "c": c}
        made = group(ANTI_AFFINITY, ZONE, a=a, b=b, c=c)
        for pod, node in product(("abc", "ab"), ("abc", "bc", "x")):
            want = [d for d in node if d in pod and counts.get(d) == 0]
            assert values(made.next_domains(True, one_of(ZONE, pod), one_of(ZONE, node))) == want
    assert values(group(ANTI_AFFINITY, ZONE, a=0, b=1).next_domains(True, anything(), anything())) == ["a"]


def test_hosts_have_room_one_by_one() -> None:
    def room(made: TopologyGroup, host: str, *, own: bool) -> bool:
        return values(made.next_domains(own, anything(HOST), one_of(HOST, (host,)))) == [host]

    for count, own, skew in product(COUNTS, (True, False), (1, 2)):
        assert room(group(SPREAD, HOST, skew, a=count, b=5), "a", own=own) == (count + own <= skew)
        assert room(group(ANTI_AFFINITY, HOST, a=count), "a", own=own) == (count == 0)
        assert room(group(AFFINITY, HOST, a=count), "a", own=own) == (count > 0 or own)
        assert room(group(AFFINITY, HOST, a=count, b=1), "a", own=own) == (count > 0)
    assert room(group(SPREAD, HOST, 1, b=1), "new", own=True)
    assert room(group(ANTI_AFFINITY, HOST, b=1), "new", own=True)


def test_the_first_of_a_kind_may_start_where_its_own_bounds_leave_nobody() -> None:
    """Any place will do for a pod without bounds, so one that is taken elsewhere is in its way."""
    for a, b in product((0, 1), repeat=2):
        made = group(AFFINITY, ZONE, **{"1": a, "5": b})
        for of_pod, allowed in (
            (requirement(ZONE, "Gte", ["3"]), ["5"]),
            (requirement(ZONE, "Lte", ["3"]), ["1"]),
            (anything(), ["1", "5"]),
        ):
            held = [d for d, count in (("1", a), ("5", b)) if count]
            near = [d for d in held if d in allowed]
            may_start = not held or (len(allowed) == 1 and not near)
            want = near or (allowed[:1] if may_start else [])
            assert values(made.next_domains(True, of_pod, anything())) == want, (a, b, str(of_pod))


def test_domains_are_counted_by_every_pod_of_the_first_only_once() -> None:
    hosts = group(AFFINITY, HOST, a=1)
    two = one_of(HOST, ("a", "b"))
    assert values(hosts.next_domains(False, anything(HOST), two)) == ["a"]
    assert values(group(SPREAD, HOST, 1, a=3, b=1).next_domains(False, anything(HOST), two)) == ["b"]
    assert values(group(SPREAD, HOST, 1, a=3, b=2).next_domains(False, anything(HOST), two)) == []
    # No domain of the pod's is known: any other will do.
    assert values(group(SPREAD, ZONE, 1, a=3).next_domains(True, one_of(ZONE, ("x",)), anything())) == ["a"]
    assert not hosts.has_room(True, one_of(HOST, ("b",)), "a")
    assert hosts.has_room(False, one_of(HOST, ("a",)), "a")


@pytest.mark.parametrize("taints", ["Honor", "Ignore"])
@pytest.mark.parametrize("affinity", ["Honor", "Ignore"])
def test_which_nodes_take_part_in_a_spread(taints: str, affinity: str) -> None:
    red, blue = (Requirements([one_of("team", (name,))]) for name in ("red", "blue"))
    tainted = parse_taints([{"key": "k", "effect": "NoSchedule"}])
    filters = NodeFilter((red,), taints, affinity, ())
    for held, labels in product(((), tainted), (red, blue)):
        want = (affinity == "Ignore" or labels is red) and (taints == "Ignore" or not held)
        assert filters.matches(held, labels) is want
    assert NodeFilter((blue, red), taints, affinity, ()).matches((), red)
    tolerant = parse_tolerations([{"operator": "Exists"}])
    assert NodeFilter((), taints, affinity, tolerant).matches(tainted, red)
    key = GroupKey(ZONE, SPREAD, frozenset("n"), SELECTOR, 1, filters)
    assert TopologyGroup(key, ()).takes_part((), red)
    assert TopologyGroup(key._replace(node_filter=None), ()).takes_part(tainted, blue)


def test_which_groups_are_one() -> None:
    """By the labels that filters name, not by what they ask; of two alike none is left."""
    red, blue, any_zone = (
        Requirements([one_of("team", ("red",))]),
        Requirements([one_of("team", ("blue",))]),
        Requirements([anything()]),
    )
    plain = NodeFilter((red,), "Ignore", "Honor", ())
    key = GroupKey(ZONE, SPREAD, frozenset("n"), SELECTOR, 1, plain)
    for alternatives, is_one in (
        ((blue,), True),
        ((any_zone,), False),
        ((red, blue, red), True),
        ((), False),
    ):
        other = key._replace(node_filter=plain._replace(alternatives=alternatives))
        assert (other.identity == key.identity) is is_one
    for part in (
        {"topology_key": HOST},
        {"type": AFFINITY},
        {"namespaces": frozenset("m")},
        {"selector": Selector(())},
        {"max_skew": 2},
        {"node_filter": None},
        {"node_filter": plain._replace(taint_policy="Honor")},
        {"node_filter": plain._replace(affinity_policy="Ignore")},
        {"node_filter": plain._replace(tolerations=parse_tolerations([{"operator": "Exists"}]))},
    ):
        assert key._replace(**part).identity != key.identity


def test_a_refusal_shows_twenty_five_domains() -> None:
    few = group(ANTI_AFFINITY, ZONE, b=1, a=2).refusal(anything(), one_of(ZONE, "b"), ["c", "a"])
    assert few == (
        f"unsatisfiable topology constraint for {ANTI_AFFINITY}, key={ZONE} (counts = a: 2, b: 1, c: 0, "
        f"podDomains = {ZONE} Exists, nodeDomains = {ZONE} In [b]"
    )
    many = group(SPREAD, ZONE, **{f"z{n:03}": 0 for n in range(40)}).refusal(anything(), anything())
    shown = many.partition("(counts = ")[2].partition(", podDomains")[0]
    assert shown == ", ".join(f"z{n:03}: 0" for n in range(25)) + " and 15 other(s)"
    just = group(SPREAD, ZONE, **{f"z{n:03}": 0 for n in range(25)}).refusal(anything(), anything())
    assert "other(s)" not in just and "z024: 0, podDomains" in just
