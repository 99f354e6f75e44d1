"""Which groups a pod brings, what each counts from the start, and what it counts when pods are put somewhere."""

from __future__ import annotations

from typing import Any

import pytest
from karpenterworlds import ZONES, kind, pod, pool, state_node, wants, world

from fairway.kube.taints import parse_taints
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, HOSTNAME, ZONE
from fairway.provisioning.karpenter.podfacts import Shape, Shapes
from fairway.provisioning.karpenter.requirement import one_of, requirement
from fairway.provisioning.karpenter.requirements import Requirements
from fairway.provisioning.karpenter.statenode import StateNode
from fairway.provisioning.karpenter.topology import Topology
from fairway.provisioning.karpenter.topologygroups import AFFINITY, ANTI_AFFINITY, SPREAD, TopologyGroup
from fairway.provisioning.karpenter.world import World

SMALL = kind("s.small", 4)
APP = {"app": "x"}
SELF = {"matchLabels": APP}
REQUIRED, PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
RED = {"key": "team", "value": "red", "effect": "NoSchedule"}
TOLERANT: dict[str, Any] = {"tolerations": [{"key": "team", "operator": "Exists"}]}


def spread(**more: Any) -> dict[str, Any]:
    one = {"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELF, **more}
    return {"topologySpreadConstraints": [one]}


def term(**more: Any) -> dict[str, Any]:
    return {"topologyKey": ZONE, "labelSelector": SELF, **more}


def near(which: str, *required: dict[str, Any], preferred: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    soft = [{"weight": 1, "podAffinityTerm": one} for one in preferred]
    return {"affinity": {which: {REQUIRED: list(required), PREFERRED: soft}}}


def shape(labels: dict[str, str] | None = None, **spec: Any) -> Shape:
    return Shapes().of(pod("p", labels=APP if labels is None else labels, **spec))


def groups(topology: Topology, of: Shape) -> list[TopologyGroup]:
    """Those that restrict it, by hostname first."""
    bearing = topology.bearing(of)
    return [group for group, _ in (*bearing.by_host, *bearing.by_label)]


def only(made: World, of: Shape, **more: Any) -> TopologyGroup:
    (found,) = groups(Topology(made, **more), of)
    return found


def node(name: str, *pods: str, zone: str = ZONES[0], **more: Any) -> StateNode:
    held = tuple(pod(f"{name}-{i}", labels={"app": app}, node=name) for i, app in enumerate(pods))
    return state_node(name, SMALL, held, zone=zone, **more)


# What a group is


@pytest.mark.parametrize(
    ("given", "skew", "least", "policies"),
    [
        ({}, 1, None, ("Ignore", "Honor")),
        ({"maxSkew": 1}, 1, None, ("Ignore", "Honor")),
        ({"maxSkew": 3, "minDomains": 2}, 3, 2, ("Ignore", "Honor")),
        ({"nodeTaintsPolicy": "Honor"}, 1, None, ("Honor", "Honor")),
        ({"nodeAffinityPolicy": "Ignore"}, 1, None, ("Ignore", "Ignore")),
        (
            {"nodeTaintsPolicy": "Ignore", "nodeAffinityPolicy": "Honor", "minDomains": 1},
            1,
            1,
            ("Ignore", "Honor"),
        ),
    ],
)
def test_what_a_spread_says_and_what_it_leaves_out(
    given: dict[str, Any], skew: int, least: int | None, policies: tuple[str, str]
) -> None:
    made = only(world([SMALL]), shape(**spread(**given), nodeSelector={ZONE: ZONES[0]}))
    key = made.key
    assert (key.topology_key, key.type, key.namespaces, key.max_skew, made.min_domains) == (
        ZONE,
        SPREAD,
        frozenset(("default",)),
        skew,
        least,
    )
    assert key.node_filter is not None
    assert (key.node_filter.taint_policy, key.node_filter.affinity_policy) == policies
    assert [str(one) for one in key.node_filter.alternatives] == [f"{ZONE} In [{ZONES[0]}]"]
    assert key.node_filter.tolerations == ()


@pytest.mark.parametrize(
    ("named", "selector", "want"),
    [
        (None, None, ["default"]),
        ([], None, ["default"]),
        (["a"], None, ["a"]),
        (["a", "b"], {"matchLabels": {"env": "test"}}, ["a", "b", "t"]),
        (None, {"matchLabels": {"env": "test"}}, ["t"]),
        (None, {"matchLabels": {"env": "none"}}, []),
        (None, {}, ["default", "t", "u"]),
    ],
)
def test_the_namespaces_a_term_means(named: list[str] | None, selector: Any, want: list[str]) -> None:
    made = world([SMALL])
    made.namespaces = {"default": {}, "t": {"env": "test"}, "u": {"env": "live"}}
    own = term(
        **({} if named is None else {"namespaces": named}),
        **({} if selector is None else {"namespaceSelector": selector}),
    )
    for which, type_ in (("podAffinity", AFFINITY), ("podAntiAffinity", ANTI_AFFINITY)):
        found = groups(Topology(made), shape(**near(which, own)))
        assert {(tuple(sorted(g.key.namespaces)), g.key.type, g.topology_key) for g in found} == {
            (tuple(want), type_, ZONE)
        }
        assert {g.key.max_skew for g in found} == {2**31 - 1}


def test_labels_of_the_pod_that_make_its_group_another() -> None:
    labels = {**APP, "rev": "7"}
    for own, selects in (
        ([], ["x", "x7", "x8"]),
        (["rev"], ["x7"]),
        (["rev", "none"], ["x7"]),
        (["none"], ["x", "x7", "x8"]),
    ):
        made = only(world([SMALL]), shape(labels, **spread(matchLabelKeys=own)))
        held = {
            "x": APP,
            "x7": labels,
            "x8": {**APP, "rev": "8"},
            "y7": {"app": "y", "rev": "7"},
        }
        assert [name for name, given in held.items() if made.selects("default", given)] == selects
    nobody = only(world([SMALL]), shape(labels, **spread(labelSelector=None)))
    assert not nobody.selects("default", labels)
    revision = only(world([SMALL]), shape(labels, **spread(labelSelector=None, matchLabelKeys=["rev"])))
    assert revision.selects("default", {"rev": "7"}) and not revision.selects("default", {"rev": "8"})


def test_wishes_are_groups_where_they_are_respected() -> None:
    soft = {**spread(whenUnsatisfiable="ScheduleAnyway"), **near("podAffinity", preferred=(term(),))}
    both = [(SPREAD, ZONE), (AFFINITY, ZONE)]
    for respects, want in ((True, both), (False, [])):
        found = groups(Topology(world([SMALL]), respects_preferences=respects), shape(**soft))
        assert [(g.key.type, g.topology_key) for g in found] == want
    hard = {**spread(), **near("podAffinity", term(topologyKey=HOSTNAME), preferred=(term(),))}
    for respects, wanted in (
        (True, [(AFFINITY, HOSTNAME), (SPREAD, ZONE), (AFFINITY, ZONE)]),
        (False, [(AFFINITY, HOSTNAME), (SPREAD, ZONE)]),
    ):
        found = groups(Topology(world([SMALL]), respects_preferences=respects), shape(**hard))
        assert [(g.key.type, g.topology_key) for g in found] == wanted


# What it counts from the start


def test_domains_are_those_of_pools_that_the_pod_may_use() -> None:
    open_ = pool("open", requirements=[wants(ZONE, "In", *ZONES[:2])])
    tainted = pool("tainted", requirements=[wants(ZONE, "In", *ZONES[1:])], taints=[RED])
    every, untainted = dict.fromkeys(ZONES, 0), dict.fromkeys(ZONES[:2], 0)
    for pools in ([open_, tainted], [tainted, open_]):
        made = world([SMALL], pools)
        for given, want in (
            (spread(), every),
            (spread(nodeTaintsPolicy="Honor"), untainted),
            ({**spread(nodeTaintsPolicy="Honor"), **TOLERANT}, every),
            (near("podAffinity", term()), untainted),
            ({**near("podAffinity", term()), **TOLERANT}, every),
            (near("podAffinity", term(topologyKey="nowhere")), {}),
        ):
            found = only(made, shape(**given))
            assert (found.counts, found.empty) == (want, len(want))
    alone = pool("alone", requirements=[wants(ZONE, "In", ZONES[0])], taints=[{**RED, "key": "other"}])
    found = only(world([SMALL], [tainted, alone]), shape(**near("podAffinity", term()), **TOLERANT))
    assert found.counts == dict.fromkeys(ZONES[1:], 0)


def test_pods_on_nodes_are_counted_where_they_are() -> None:
    nodes = (
        node("a", "x", "y", "x"),
        node("b", "x", zone=ZONES[1]),
        node("c", zone="far"),
        node("d", "y", zone="farther"),
    )
    made = world([SMALL], nodes=nodes)
    zones = {ZONES[0]: 2, ZONES[1]: 1, ZONES[2]: 0, "far": 0, "farther": 0}
    assert only(made, shape(**spread())).counts == zones
    assert only(made, shape(**near("podAffinity", term()))).counts == zones
    assert only(made, shape(**spread(topologyKey=HOSTNAME))).counts == {"a": 2, "b": 1, "c": 0, "d": 0}
    assert only(made, shape(**spread()), moving=("a-0", "b-0")).counts == {
        **zones,
        ZONES[0]: 1,
        ZONES[1]: 0,
    }
    # Of nodes that go only the pods are known.
    made.gone = frozenset(("b", "c"))
    assert only(made, shape(**spread())).counts == {k: v for k, v in zones.items() if k != "far"}
    assert only(made, shape(**spread(topologyKey=HOSTNAME))).counts == {"a": 2, "b": 1, "d": 0}


def test_which_nodes_a_spread_counts() -> None:
    nodes = (
        node("a", "x", zone="z-a", labels={"disk": "ssd"}),
        node("b", "x", zone="z-b", labels={"disk": "hdd"}),
        node("c", "x", zone="z-c", labels={"disk": "ssd"}, taints=[RED]),
        node("d", "x", zone="z-d", labels={"disk": "ssd"}, has_node=False),
        node("e", "x", zone=""),
    )
    made = world([SMALL], nodes=nodes)
    ssd = {"nodeSelector": {"disk": "ssd"}}
    terms = [{"matchExpressions": [wants("disk", "In", v)]} for v in ("hdd", "ssd")]
    either = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}
    for given, want in (
        ({}, "abcd"),
        (ssd, "acd"),
        (either, "abcd"),
        ({**either, **ssd}, "acd"),
        ({**ssd, **spread(nodeAffinityPolicy="Ignore")}, "abcd"),
    ):
        found = only(made, shape(**{**spread(), **given})).counts
        assert {k: v for k, v in found.items() if k not in ZONES} == {f"z-{n}": 1 for n in want}
    # A claim without a node yet brings no domain of its own.
    empty = world([SMALL], nodes=(node("d", zone="z-d", has_node=False), node("f", zone="z-f")))
    assert only(empty, shape(**spread())).counts == {**dict.fromkeys(ZONES, 0), "z-f": 0}


# What is counted later


def labels_of(**values: str | tuple[str, ...]) -> Requirements:
    keys = {"zone": ZONE, "kind": CAPACITY_TYPE, "disk": "disk"}
    return Requirements([one_of(keys[k], (v,) if isinstance(v, str) else v) for k, v in values.items()])


@pytest.mark.parametrize(
    ("labels", "of_spread", "of_others"),
    [
        (labels_of(zone="zone-1"), ["zone-1"], ["zone-1"]),
        (labels_of(zone=("zone-1", "zone-2")), [], ["zone-1", "zone-2"]),
        (labels_of(zone="new"), ["new"], ["new"]),
        (labels_of(kind="spot"), [], []),
        (Requirements([requirement(ZONE, "NotIn", ["zone-1"])]), [], ["zone-1"]),
    ],
)
def test_where_a_pod_was_put_is_counted(
    labels: Requirements, of_spread: list[str], of_others: list[str]
) -> None:
    """A spread or an affinity counts a domain that is settled, an anti-affinity all that the node may come to have."""
    for given, want in (
        (spread(), of_spread),
        (near("podAffinity", term()), of_spread),
        (near("podAntiAffinity", term()), of_others),
    ):
        topology, own = Topology(world([SMALL])), shape(**given)
        topology.record(own, (), labels, "host-1")
        for found in groups(topology, own):
            assert [d for d, count in found.counts.items() if count] == want, found.key.type
            assert set(found.counts.values()) <= {0, 1}
            assert found.empty == sum(1 for count in found.counts.values() if not count)
    topology, other = Topology(world([SMALL])), shape({"app": "y"}, **spread())
    topology.record(other, (), labels, "host-1")
    (found,) = groups(topology, other)
    assert set(found.counts.values()) == {0}  # a spread that does not select its own pod does not count it
    for given in (spread(topologyKey=HOSTNAME), near("podAffinity", term(topologyKey=HOSTNAME))):
        topology, own = Topology(world([SMALL])), shape(**given)
        topology.record(own, (), labels, "host-1")
        (found,) = groups(topology, own)
        assert found.counts == {"host-1": 1}


@pytest.mark.parametrize("policy", ["Ignore", "Honor"])
def test_a_new_node_counts_where_it_takes_part(policy: str) -> None:
    own = shape(**spread(nodeTaintsPolicy=policy), nodeSelector={"disk": "ssd"})
    topology = Topology(world([SMALL]))
    (found,) = groups(topology, own)
    red = parse_taints([RED])
    for taints, disk, zone, counts in (
        ((), "ssd", "z-1", True),
        ((), "hdd", "z-2", False),
        (red, "ssd", "z-3", policy == "Ignore"),
        (red, "hdd", "z-4", False),
    ):
        topology.record(own, taints, labels_of(zone=zone, disk=disk), "host-1")
        assert found.counts.get(zone, 0) == counts, zone
    tied = shape(**spread(), nodeSelector={HOSTNAME: "host-1"})
    topology = Topology(world([SMALL]))
    (found,) = groups(topology, tied)
    for host, zone in (("host-1", "z-1"), ("host-2", "z-2")):
        topology.record(tied, (), labels_of(zone=zone), host)
    assert [d for d, count in found.counts.items() if count] == ["z-1"]


def test_who_keeps_others_off_is_heard_by_those_it_selects() -> None:
    """Required anti-affinities of pods that are there, of nodes they stand on; not of pods that move."""
    shy = pod("shy", labels={"app": "shy"}, node="a", **near("podAntiAffinity", term()))
    there = world([SMALL], nodes=(state_node("a", SMALL, (shy,), zone=ZONES[1]),))
    for moving, app, want in (
        ((), "x", {ZONES[1]: 1}),
        ((), "y", None),
        (("shy",), "x", None),
        (("other",), "x", {ZONES[1]: 1}),
    ):
        found = groups(Topology(there, moving), shape({"app": app}))
        assert [g.key.type for g in found] == ([] if want is None else [ANTI_AFFINITY])
        for one in found:
            assert {d: count for d, count in one.counts.items() if count} == want
    unlabelled = world([SMALL], nodes=(state_node("a", SMALL, (shy,), zone=""),))
    (one,) = groups(Topology(unlabelled), shape())
    assert set(one.counts.values()) == {0}


def test_hosts_without_pods_that_a_refusal_names() -> None:
    made = world([SMALL], nodes=(node("a"), node("b"), node("c")))
    made.gone = frozenset(("b",))
    topology = Topology(made)
    early = shape(**near("podAffinity", term(topologyKey=HOSTNAME)))
    late = shape({"app": "y"}, **near("podAffinity", term(topologyKey=HOSTNAME, labelSelector=None)))
    zonal = shape(**spread(topologyKey="rack"))

    def told(of: Shape) -> str:
        bearing = topology.bearing(of)
        none = Requirements([one_of(HOSTNAME, ("none",)), one_of("rack", ())])
        found = topology.restrict(of, [*bearing.by_host, *bearing.by_label], none, Requirements())
        assert isinstance(found, str), found
        return found.partition("(counts = ")[2].partition(", podDomains")[0]

    topology.follow(early)
    topology.follow(zonal)
    topology.begin()
    (unselected,) = groups(topology, shape({"app": "z"}, **near("podAffinity", term(topologyKey=HOSTNAME))))
    assert unselected.since == -1  # the same group
    topology.opened("new-1")
    assert told(late) == "a: 0, c: 0"
    topology.opened("new-2")
    assert told(late) == "a: 0, c: 0, new-2: 0"
    topology.opened("new-1")
    assert told(late) == "a: 0, c: 0, new-1: 0, new-2: 0"
    assert told(zonal) == ""
