"""The parts of a placement by topology one by one: trees, matches, counts, assumptions, replacements, elastic jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.queueing.queueworld import Case, World, flavor, queue, wl, workload_of

from fairway.kube.nodeselection import node_selection
from fairway.kube.taints import NO_EXECUTE, NO_SCHEDULE, Taint
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.objects import ResourceFlavor, Topology, TopologyNode
from fairway.queueing.facts.podsets import SliceConstraint, TopologyRequest, new_shape
from fairway.queueing.facts.topologyassignments import DomainCount, TopologyAssignment
from fairway.queueing.facts.transformations import Transformations
from fairway.queueing.facts.workloads import DomainUse, PodSetTotal, Workload
from fairway.queueing.quota.accounts import Accounts
from fairway.queueing.tas import elastic
from fairway.queueing.tas.matching import matching_leaves, requirements_of
from fairway.queueing.tas.merging import assume, merged
from fairway.queueing.tas.replacement import replacement_domain, replacement_request, without_node
from fairway.queueing.tas.requests import (
    DEFAULT_SEARCH,
    EMPTY_SEARCH,
    Exclusions,
    PodSetRequest,
    TopologyResult,
    failure_of,
)
from fairway.queueing.tas.search import find_for_flavor
from fairway.queueing.tas.tree import MANY_PODS, FlavorTopology, nodes_of_flavor

HOST = "kubernetes.io/hostname"
LEVELS = ("block", "rack", HOST)
Obj = dict[str, Any]


def node(name: str, block: str = "b", rack: str = "r", gpu: int = 4, **more: Any) -> TopologyNode:
    labels = {"block": block, "rack": rack, HOST: name, **more.pop("labels", {})}
    room = {"gpu": gpu * 1000, "pods": 10}
    plain = TopologyNode(name, labels, (), room, True)
    return replace(plain, **more)


def tree(
    *nodes: TopologyNode, levels: tuple[str, ...] = LEVELS, **foreign: Mapping[str, int]
) -> FlavorTopology:
    spec = ResourceFlavor("f", {}, (), (), "dc")
    return FlavorTopology(Topology("dc", levels), spec, nodes, {k: dict(v) for k, v in foreign.items()})


def request(
    count: int = 1, updates: tuple[Obj, ...] = (), implied: bool = False, **topology: Any
) -> PodSetRequest:
    container = {"name": "c", "resources": {"requests": {"gpu": "1000"}}}
    raw = {"name": "main", "count": count, "template": {"spec": {"containers": [container]}}}
    if topology:
        raw["topologyRequest"] = topology
    (pod_set,) = new_shape([raw], Transformations()).pod_sets
    return PodSetRequest(pod_set, count, "f", is_implied=implied, updates=updates)


def asks(
    required: str = "", preferred: str = "", *slices: tuple[str, int], unconstrained: bool = False
) -> TopologyRequest:
    layers = tuple(SliceConstraint(*s) for s in slices)
    return TopologyRequest(required, preferred, unconstrained, layers, "", True)


def placed(**pods: int) -> TopologyAssignment:
    return TopologyAssignment((HOST,), tuple(DomainCount((host,), n) for host, n in pods.items()))


def said(assignment: TopologyAssignment) -> dict[str, int]:
    return {d.values[-1]: d.pods for d in assignment.domains}


# Trees.


def test_a_tree_is_its_nodes_labels() -> None:
    found = tree(node("n1"), node("n2", rack="s"), node("n3", "c", "r"))
    shape = [
        {d.id: ([c.id for c in d.children], d.parent.id if d.parent else "") for d in level.values()}
        for level in found.per_level
    ]
    assert shape == [
        {"b": (["b,r", "b,s"], ""), "c": (["c,r"], "")},
        {"b,r": (["n1"], "b"), "b,s": (["n2"], "b"), "c,r": (["n3"], "c")},
        {"n1": ([], "b,r"), "n2": ([], "b,s"), "n3": ([], "c,r")},
    ]
    assert [d.id for d in found.roots] == ["b", "c"] and found.is_lowest_level_node
    # Without hosts, nodes with the same labels are one domain, together.
    racks = tree(node("n1"), node("n2", gpu=1), node("n3", rack="s"), levels=("block", "rack"))
    assert not racks.is_lowest_level_node
    assert {d.id: d.capacity for d in racks.leaves.values()} == {
        "b,r": {"gpu": 5000, "pods": 20},
        "b,s": {"gpu": 4000, "pods": 10},
    }
    assert [d.node for d in racks.leaves.values()] == [None, None]
    assert {name: leaf.id for name, leaf in racks.leaf_of_node.items()} == {
        "n1": "b,r",
        "n2": "b,r",
        "n3": "b,s",
    }
    flat = tree(node("n1"), levels=(HOST,))
    assert [d.id for d in flat.roots] == ["n1"] and flat.leaves["n1"].parent is None


def test_what_is_used_and_what_others_take_is_not_free() -> None:
    found = tree(node("n1"), node("n2"), n1={"gpu": 1000, "cpu": 500})
    one, two = found.leaves["n1"], found.leaves["n2"]
    assert one.capacity == {"gpu": 3000, "pods": 10, "cpu": -500}
    assert two.capacity == {"gpu": 4000, "pods": 10} and two.remaining() == two.capacity
    uses = [
        DomainUse(("n2",), {"gpu": 1000}, 2),
        DomainUse(("n9",), {"gpu": 1000}, 1),
        DomainUse(("n2",), {}, 1),
    ]
    found.count(uses, 1)
    assert (one.used, two.used) == ({}, {"gpu": 2000, "pods": 3})
    assert two.remaining() == {"gpu": 2000, "pods": 7}
    found.count(uses[:1], 1)
    assert two.used == {"gpu": 4000, "pods": 5}
    found.count(uses, -1)
    assert two.used == {"gpu": 2000, "pods": 2}
    found.take_foreign("n2", {"gpu": 500, "mem": 7}, 1)
    found.take_foreign("n2", {"gpu": 200}, -1)
    found.take_foreign("n9", {"gpu": 200}, 1)
    assert two.capacity == {"gpu": 3700, "pods": 10, "mem": -7}
    assert two.remaining() == {"gpu": 1700, "pods": 8, "mem": -7}
    fits = {n: found.fits([DomainUse(("n2",), {"gpu": 100}, n)]) for n in (16, 17, 18)}
    assert fits == {16: True, 17: True, 18: False}
    assert found.fits([]) and not found.fits([DomainUse(("n2",), {"other": 1}, 1)])


def test_which_level_a_request_is_about() -> None:
    found = tree(node("n1"))
    cases: list[tuple[TopologyRequest | None, str, str, bool]] = [
        (None, "", HOST, False),
        (asks("rack"), "rack", HOST, True),
        (asks("", "block"), "block", HOST, True),
        (asks("zone"), "zone", HOST, False),
        (asks(unconstrained=True), HOST, HOST, True),
        (asks(), "", HOST, False),
        (asks("", "", ("rack", 2)), "block", "rack", True),
        (asks("block", "", ("rack", 2), (HOST, 1)), "block", "rack", True),
        (asks("block", "", ("zone", 2)), "block", "zone", False),
        (asks("block", "", ("rack", 2), ("zone", 1)), "block", "rack", False),
    ]
    for asked, level, slices, is_there in cases:
        assert (found.level_key(asked), found.slice_level_key(asked)) == (level, slices), asked
        assert asked is None or found.has_level(asked) is is_there, asked
    assert [found.level_index(name) for name in (*LEVELS, "zone", "")] == [0, 1, 2, -1, -1]


def test_nodes_of_a_flavor_are_ready_and_have_its_labels_and_every_level() -> None:
    spec = ResourceFlavor("f", {"pool": "x", "empty": ""}, (), (), "dc")
    pool: Any = {"labels": {"pool": "x"}}
    nodes = [
        node("well", **pool),
        node("ill", **pool, is_schedulable_and_ready=False),
        node("other", labels={"pool": "y"}),
        node("none"),
        node("full", labels={"pool": "x", "empty": "no"}),
        replace(node("bare"), labels={"pool": "x", "block": "b", HOST: "bare"}),
    ]
    assert [n.name for n in nodes_of_flavor(nodes, spec, Topology("dc", LEVELS))] == ["well"]


# Matches.


def test_which_leaves_may_be_used_and_why_the_others_may_not() -> None:
    taint = Taint("broken", "yes", NO_EXECUTE)
    found = tree(
        node("well"),
        node("bad", taints=(taint,)),
        node("full", taints=(Taint("full", "", NO_SCHEDULE),)),
        node("soft", taints=(Taint("soft", "", "PreferNoSchedule"),)),
        node("far", labels={"zone": "z"}),
    )
    plain = requirements_of(request())
    assert not isinstance(plain, str)
    matching = matching_leaves(found, plain, scores_preferences=False)
    assert [(leaf.id, score) for leaf, score in matching.leaves] == [("well", 0), ("soft", 0), ("far", 0)]
    stats = matching.exclusions
    assert (stats.total_nodes, stats.taints) == (5, {"broken=yes:NoExecute": 1, "full:NoSchedule": 1})
    assert (stats.node_selector, stats.affinity, stats.topology_domain, stats.resources) == (0, 0, 0, {})
    assert matching_leaves(found, plain, scores_preferences=False) is matching, "remembered"
    assert matching_leaves(found, plain, scores_preferences=True) is not matching
    updates: tuple[Obj, ...] = (
        {"nodeSelector": {"zone": "z"}},
        {"tolerations": [{"key": "broken", "operator": "Exists"}], "nodeSelector": {"zone": "z"}},
    )
    narrowed = requirements_of(request(updates=updates))
    assert not isinstance(narrowed, str)
    matching = matching_leaves(found, narrowed, scores_preferences=False)
    assert [leaf.id for leaf, _ in matching.leaves] == ["far"]
    assert (matching.exclusions.node_selector, matching.exclusions.taints) == (3, {"full:NoSchedule": 1})
    torn = requirements_of(request(updates=(*updates, {"nodeSelector": {"zone": "y"}})))
    assert torn == (
        "invalid podSetUpdate for PodSet main, error: invalid admission check PodSetUpdate: "
        "conflict for nodeSelector: conflict for key=zone, value1=z, value2=y"
    )
    wants = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}
    required = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wants]}}
    }
    selection = node_selection({"affinity": required})
    bound = replace(request(), pod_set=replace(request().pod_set, selection=selection))
    only = requirements_of(bound)
    assert not isinstance(only, str)
    matching = matching_leaves(found, only, scores_preferences=False)
    assert [leaf.id for leaf, _ in matching.leaves] == ["far"]
    assert (matching.exclusions.affinity, matching.exclusions.node_selector) == (2, 0)
    racks = tree(node("bad", taints=(taint,)), levels=("block", "rack"))
    assert [leaf.id for leaf, _ in matching_leaves(racks, plain, scores_preferences=True).leaves] == ["b,r"]


# Assumptions and assignments.


def test_what_is_assumed_adds_up() -> None:
    taken: dict[str, dict[str, int]] = {"n1": {"gpu": 500}}
    asked = request(2)
    per_pod = asked.pod_set.per_pod_on_node["gpu"]
    assume(taken, placed(n1=2, n2=1), asked)
    assume(taken, placed(n2=3), asked)
    assert taken == {
        "n1": {"gpu": 500 + 2 * per_pod, "pods": 2},
        "n2": {"gpu": 4 * per_pod, "pods": 4},
    }
    found = tree(node("n1", "b"), node("n2", "a"), node("n3", "c"))
    both = merged(found, placed(n1=2, n3=1), placed(n2=1, n1=3))
    assert [(d.values, d.pods) for d in both.domains] == [(("n2",), 1), (("n1",), 5), (("n3",), 1)]
    assert both.levels == (HOST,)


def test_an_assignment_without_one_of_its_nodes() -> None:
    whole = placed(n1=2, n2=3)
    kept, missing = without_node(whole, "n1")
    assert (said(kept), missing, kept.levels) == ({"n2": 3}, 2, (HOST,))
    assert (said(without_node(whole, "n9")[0]), without_node(whole, "n9")[1]) == ({"n1": 2, "n2": 3}, 0)


FOUR = tree(*(node(f"n{i}", "b", r) for i, r in ((1, "r"), (2, "r"), (3, "s"), (4, "s"))))
PLACES: list[tuple[str, PodSetRequest, dict[str, int], str]] = [
    ("required: where the others are", request(1, required="rack"), {"n3": 1}, "b,s"),
    ("required above", request(1, required="block"), {"n3": 1}, "b"),
    ("preferred: anywhere", request(1, preferred="rack"), {"n3": 1}, ""),
    ("nothing asked", request(1), {"n3": 1}, ""),
    ("implied", request(1, implied=True), {"n3": 1}, ""),
    ("a level that is none", request(1, required="zone"), {"n3": 1}, ""),
    ("nobody is left", request(1, required="rack"), {}, ""),
    (
        "a slice that is not whole",
        request(1, preferred="block", podSetSliceRequiredTopology="rack", podSetSliceSize=2),
        {"n1": 2, "n3": 1},
        "b,s",
    ),
    (
        "whole slices",
        request(2, preferred="block", podSetSliceRequiredTopology="rack", podSetSliceSize=2),
        {"n1": 1, "n3": 1},
        "",
    ),
    (
        "whole slices of what must be together",
        request(2, required="block", podSetSliceRequiredTopology="rack", podSetSliceSize=2),
        {"n1": 1, "n3": 1},
        "b",
    ),
    (
        "slices of one pod are always whole",
        request(1, required="rack", podSetSliceRequiredTopology=HOST, podSetSliceSize=1),
        {"n3": 1},
        "b,s",
    ),
    (
        "the first of two that are not whole",
        request(1, preferred="block", podSetSliceRequiredTopology="rack", podSetSliceSize=2),
        {"n3": 1, "n1": 1},
        "b,r",
    ),
    (
        "none that it would complete",
        request(1, preferred="block", podSetSliceRequiredTopology="rack", podSetSliceSize=3),
        {"n1": 1, "n3": 1},
        "",
    ),
]


@pytest.mark.parametrize(("asked", "kept", "within"), [p[1:] for p in PLACES], ids=[p[0] for p in PLACES])
def test_where_the_pods_of_a_node_that_is_gone_have_to_stay(
    asked: PodSetRequest, kept: dict[str, int], within: str
) -> None:
    assert replacement_domain(FOUR, asked, placed(**kept)) == within


def test_the_innermost_slices_that_missing_pods_fill_stay() -> None:
    layered = replace(request().pod_set, topology=asks("", "block", ("rack", 4), (HOST, 2)))
    asked = PodSetRequest(layered, 4, "f", is_implied=True, updates=({"nodeSelector": {}},))
    left = {
        n: [tuple(s) for s in (replacement_request(asked, n).pod_set.topology or asks()).slices]
        for n in range(1, 5)
    }
    assert left == {1: [], 2: [(HOST, 2)], 3: [], 4: [(HOST, 2)]}
    found = replacement_request(asked, 2)
    assert (found.count, found.flavor, found.is_implied, found.updates) == (4, "f", True, asked.updates)
    assert found.pod_set.topology == asks("", "block", (HOST, 2))


# Elastic jobs.


def placing(answer: dict[str, TopologyAssignment] | str) -> tuple[Any, list[tuple[int, str | None]]]:
    seen: list[tuple[int, str | None]] = []

    def find(workers: PodSetRequest, leader: PodSetRequest | None) -> dict[str, TopologyAssignment] | str:
        assert workers.previous is None
        seen.append((workers.count, None if leader is None else leader.pod_set.name))
        return answer

    return find, seen


def sized(count: int, previous: TopologyAssignment | None, name: str = "main") -> PodSetRequest:
    asked = request(count)
    return replace(asked, pod_set=replace(asked.pod_set, name=name), previous=previous)


def test_an_elastic_job_keeps_its_places_and_is_given_more() -> None:
    per_pod = request().pod_set.per_pod_on_node["gpu"]

    def played(
        count: int,
        before: TopologyAssignment | None,
        leader: PodSetRequest | None = None,
        answer: Any = "none",
    ) -> tuple[Any, dict[str, int], list[tuple[int, str | None]]]:
        taken: dict[str, dict[str, int]] = {}
        find, seen = placing(answer)
        found = elastic.place_elastic(FOUR, sized(count, before), leader, taken, find)
        results: Any = found and {
            name: r.failure or (said(r.assignment) if r.assignment is not None else {})
            for name, r in found.items()
        }
        return results, {name: room["gpu"] // per_pod for name, room in taken.items()}, seen

    assert played(1, None) == (None, {}, [])
    assert played(1, placed(n9=1)) == (None, {}, []), "one of its nodes is gone"
    assert played(3, placed(n1=2, n2=1)) == ({"main": {"n1": 2, "n2": 1}}, {"n1": 2, "n2": 1}, [])
    assert played(2, placed(n1=2, n2=1)) == ({"main": {"n1": 2}}, {"n1": 2}, [])
    assert played(1, placed(n1=2, n2=1)) == ({"main": {"n1": 1}}, {"n1": 1}, [])
    more = {"main": placed(n2=1, n3=1)}
    whole = {"n1": 1, "n2": 2, "n3": 1}
    assert played(4, placed(n1=1, n2=1), answer=more) == ({"main": whole}, whole, [(2, None)])
    assert played(4, placed(n1=1, n2=1), answer="no room") == (
        {"main": "no room"},
        {"n1": 1, "n2": 1},
        [(2, None)],
    )
    # A leader stays where it was; a new one is placed with what comes to the workers.
    leader, new = sized(1, placed(n4=1), "leader"), sized(1, None, "leader")
    assert played(1, placed(n1=1), sized(1, placed(n9=1), "leader")) == (None, {}, [])
    assert played(1, placed(n1=1), leader) == (
        {"main": {"n1": 1}, "leader": {"n4": 1}},
        {"n1": 1, "n4": 1},
        [],
    )
    assert played(1, placed(n1=1), new) == ({"main": {"n1": 1}}, {"n1": 1}, [])
    both = {"main": {"n1": 1, "n2": 1, "n3": 1}, "leader": {"n4": 1}}
    taken = {"n1": 1, "n4": 1, "n2": 1, "n3": 1}
    assert played(3, placed(n1=1), leader, more) == (both, taken, [(2, None)])
    assert played(3, placed(n1=1), new, {**more, "leader": placed(n4=1)}) == (both, taken, [(2, "leader")])


# What a ClusterQueue is, of its flavors and checks.


def described(
    *checks: tuple[str, str, tuple[str, ...]], aware: str = ""
) -> tuple[bool, bool, list[str], str]:
    accounts = Accounts()
    levels = {"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": HOST}]}}
    accounts.set_topology(facts.topology(levels))
    for name in ("default", "spot"):
        spec = {"topologyName": "dc"} if name in aware else {}
        accounts.set_flavor(facts.resource_flavor(flavor(name, **spec)))
    for name, controller, _ in checks:
        active = [{"type": "Active", "status": "True"}]
        raw = {
            "metadata": {"name": name},
            "spec": {"controllerName": controller},
            "status": {"conditions": active},
        }
        accounts.set_check(facts.admission_check(raw))
    rules = [{"name": name, "onFlavors": list(on)} for name, _, on in checks]
    obj = queue("a", {"default": 4, "spot": 4})
    obj["spec"]["admissionChecksStrategy"] = {"admissionChecks": rules}
    accounts.set_cluster_queue(facts.cluster_queue(obj))
    accounts.settle()
    found = accounts.queues["a"]
    why = "" if found.inactivity is None else found.inactivity.reason
    assert found.is_active is (found.inactivity is None)
    return found.is_topology_only, found.has_multikueue_check, sorted(found.provisioned_flavors), why


def test_what_a_queue_is_by_its_flavors_and_checks() -> None:
    ours, remote = "kueue.x-k8s.io/provisioning-request", "kueue.x-k8s.io/multikueue"
    assert described() == (False, False, [], "")
    assert described(aware="default") == (False, False, [], "")
    assert described(aware="default spot") == (True, False, [], "")
    assert described(("p", ours, ("spot",))) == (False, False, ["spot"], "")
    assert described(("p", ours, ())) == (False, False, ["default", "spot"], "")
    assert described(("p", "other", ("spot",))) == (False, False, [], "")
    assert described(("p", ours, ("spot",)), ("q", "other", ("default",))) == (False, False, ["spot"], "")
    assert described(("p", ours, ("spot",)), ("q", ours, ("default",)))[2] == ["default", "spot"]
    assert described(("m", remote, ())) == (False, True, [], "")
    assert described(("m", remote, ("spot",)))[1:] == (True, [], "MultiKueueAdmissionCheckAppliedPerFlavor")
    assert described(("m", remote, ()), ("p", ours, ()))[3] == "MultiKueueWithProvisioningRequest"


def test_flavors_that_were_passed_over_are_told_with_why() -> None:
    """Too much for its whole quota, for what is free of it, and what borrows: each in the words of the event."""
    three = Case(
        queues=[
            queue("a", {"small": 1, "busy": (4, 0), "lent": 1}, cohort="c"),
            queue("b", {"lent": 4}, cohort="c"),
        ],
        waiting=[wl("train", "a", 3)],
        want={},
        flavors=[flavor(n) for n in ("small", "busy", "lent")],
    )
    world = World(three)
    world.accounts.queues["a"].usage[
        next(fr for fr in world.accounts.queues["a"].quotas if fr.flavor == "busy")
    ] = 2
    (outcome,) = world.cycle().entries
    assert outcome.is_admitted
    assert outcome.considered == (
        "main: busy(preemptionMode=NoCandidates;borrow=1;insufficient unused quota for gpu in flavor busy, "
        "1 more needed), lent(Fit;borrow=1), "
        "small(NoFit;insufficient quota for gpu in flavor small, previously considered podsets requests (0) + "
        "current podset request (3) > maximum capacity (1))"
    )


def test_no_more_pods_than_an_integer_holds() -> None:
    assert MANY_PODS == 2147483647


# Searches: every way one ends.


def holder(unhealthy: str, owners: Any = (), **places: TopologyAssignment) -> Workload:
    totals = tuple(PodSetTotal(n, p.pod_count(), {}, {}, p, "", ()) for n, p in places.items())
    obj = {"metadata": {"name": "w", "ownerReferences": list(owners)}}
    return workload_of(unhealthy_nodes=(unhealthy,) if unhealthy else (), totals=totals, obj=obj)


def searched(
    topology: FlavorTopology,
    *requests: PodSetRequest,
    of: Workload | None = None,
    empty: bool = False,
    **on: bool,
) -> tuple[Any, Any]:
    """(pod set → where to or why not, what is assumed taken: GPUs by domain)."""
    gates, unknown = gates_from(on)
    assert not unknown
    taken: dict[str, dict[str, int]] = {}
    options = EMPTY_SEARCH if empty else DEFAULT_SEARCH
    found = find_for_flavor(topology, list(requests), of or workload_of(), options, taken, gates)
    results = {
        name: r.failure or (None if r.assignment is None else said(r.assignment)) for name, r in found.items()
    }
    return results, {domain: room.get("pods") for domain, room in taken.items()}


def named(name: str, asked: PodSetRequest, **slices: Any) -> PodSetRequest:
    return replace(asked, pod_set=replace(asked.pod_set, name=name, **slices))


def test_searches_that_cannot_be_made() -> None:
    found = tree(node("n1", gpu=4))
    nothing = replace(request().pod_set, topology=asks())
    assert searched(found, request())[0] == {"main": "topology level not specified"}
    assert searched(found, replace(request(), pod_set=nothing))[0] == {"main": "topology level not specified"}
    assert searched(found, request(required="zone"))[0] == {"main": "no requested topology level: zone"}
    empty_slices = replace(
        request(), pod_set=replace(request().pod_set, topology=asks("rack", "", ("rack", 0)))
    )
    assert searched(found, empty_slices)[0] == {
        "main": "slice topology requested, but slice size not provided"
    }
    odd = replace(request(), pod_set=replace(request().pod_set, topology=asks("rack", "", ("zone", 2))))
    assert searched(found, odd)[0] == {"main": "no requested topology level for slices: zone"}
    above = replace(request(), pod_set=replace(request().pod_set, topology=asks("rack", "", ("block", 2))))
    assert searched(found, above)[0] == {
        "main": "podset slice topology block is above the podset topology rack"
    }
    layered = replace(
        request(), pod_set=replace(request().pod_set, topology=asks("", "", ("block", 4), ("zone", 2)))
    )
    assert searched(found, layered)[0] == {
        "main": "no requested topology level for additional slice layer: zone"
    }
    torn = request(updates=({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "c"}}), required="rack")
    assert searched(found, torn)[0]["main"].startswith("invalid podSetUpdate for PodSet main, error: ")
    assert searched(tree(), request(required="rack"))[0] == {"main": "no topology domains at level: rack"}


def test_searches_end_at_the_first_pod_set_without_a_place() -> None:
    """What was placed before stays and is assumed taken; those after are not looked at."""
    found = tree(node("n1", gpu=4), node("n2", gpu=2))
    on: Any = {"required": HOST}
    first, large, last = (
        named("a", request(3, **on)),
        named("b", request(3, **on)),
        named("c", request(1, **on)),
    )
    why = 'topology "dc" allows to fit only 2 out of 3 pod(s)'
    assert searched(found, first, large, last) == ({"a": {"n1": 3}, "b": why}, {"n1": 3})
    assert searched(found, first, last, large) == (
        {"a": {"n1": 3}, "c": {"n1": 1}, "b": f'{why}. Total nodes: 2; excluded: resource "gpu": 1'},
        {"n1": 4},
    )
    assert searched(found, named("a", request(9, required=HOST)))[0]["a"].endswith(
        "allows to fit only 4 out of 9 pod(s)"
    )
    found.count([DomainUse(("n1",), {"gpu": 1000}, 4), DomainUse(("n2",), {"gpu": 1000}, 2)], 1)
    full, _ = searched(found, first)
    assert full["a"] == (
        'topology "dc" doesn\'t allow to fit any of 3 pod(s). Total nodes: 2; excluded: resource "gpu": 2'
    )
    assert searched(found, first, empty=True) == ({"a": {"n1": 3}}, {"n1": 3})


def test_a_group_is_placed_together_the_smaller_as_leader() -> None:
    found = tree(node("n1", gpu=2), node("n2", gpu=4))
    grouped: Any = {"required": HOST, "podSetGroupName": "g"}
    workers, leader = named("w", request(3, **grouped)), named("l", request(1, **grouped))
    both = ({"w": {"n2": 3}, "l": {"n2": 1}}, {"n2": 4})
    assert searched(found, workers, leader) == searched(found, leader, workers) == both
    few = named("w", request(4, **grouped))
    # As Kueue says it: the domain's room without the leader.
    why = 'topology "dc" allows to fit only 4 out of 4 pod(s)'
    assert searched(found, leader, few)[0] == {"l": why, "w": why}
    alike = named("x", request(1, **grouped))
    assert searched(found, leader, alike)[0] == {"l": {"n1": 1}, "x": {"n1": 1}}
    # Of two that are as large the second leads: it is the first that is told of where nothing fits.
    found = tree(node("n1", gpu=0))
    first = named("f", request(1, **grouped), per_pod_on_node={"cpu": 1000})
    second = named("s", request(1, **grouped), per_pod_on_node={"gpu": 1000})
    for pair, resource in (((first, second), "cpu"), ((second, first), "gpu")):
        why = f'topology "dc" doesn\'t allow to fit any of 1 pod(s). Total nodes: 1; excluded: resource "{resource}": 1'
        assert searched(found, *pair)[0] == {"f": why, "s": why}


def test_who_does_not_ask_for_a_level_is_placed_by_hosts() -> None:
    """In a queue that has flavors with domains alone: the host with the least room, whatever its rack has."""
    found = tree(node("n1", gpu=3), node("n2", gpu=2, rack="s"), node("n3", gpu=9, rack="s"))
    assert searched(found, request(1, implied=True))[0] == {"main": {"n2": 1}}
    assert searched(found, request(3, implied=True))[0] == {"main": {"n1": 3}}
    assert searched(found, request(4, implied=True))[0] == {"main": {"n3": 4}}
    why = {"main": "topology level not specified"}
    assert searched(found, request(1))[0] == why


def test_a_slice_that_lost_pods_is_made_whole_where_the_rest_of_it_is() -> None:
    found = tree(node("n2", gpu=0), node("n3", gpu=2), node("n4", gpu=9, rack="s"))
    slices = {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 4}
    asked = request(4, preferred="block", **slices)
    assert searched(found, asked, of=holder("n1", main=placed(n1=2, n2=2)))[0] == {"main": {"n2": 2, "n3": 2}}
    # A whole one may go elsewhere.
    assert searched(found, asked, of=holder("n1", main=placed(n1=4)))[0] == {"main": {"n4": 4}}


def test_workers_and_leader_without_a_wish_go_where_least_is_left() -> None:
    grouped: Any = {"unconstrained": True, "podSetGroupName": "g"}
    found = tree(node("n1", gpu=2), node("n2", gpu=4), node("n3", gpu=9))
    for workers, want in ((1, "n1"), (2, "n2"), (3, "n2"), (4, "n3"), (8, "n3")):
        both = searched(found, named("w", request(workers, **grouped)), named("l", request(1, **grouped)))[0]
        assert both == {"w": {want: workers}, "l": {want: 1}}, workers
    # Of one host alone there is no place: the leader's first, and then as few as it takes.
    both = searched(found, named("w", request(12, **grouped)), named("l", request(1, **grouped)))[0]
    assert sum(both["w"].values()) == 12 and sum(both["l"].values()) == 1
    too_many = searched(found, named("w", request(15, **grouped)), named("l", request(1, **grouped)))[0]
    assert too_many["w"] == too_many["l"] == 'topology "dc" allows to fit only 14 out of 15 pod(s)'
    none = tree(node("n1", gpu=0))
    why = searched(none, named("w", request(1, **grouped)), named("l", request(1, **grouped)))[0]["w"]
    assert why == (
        'topology "dc" doesn\'t allow to fit any of 1 pod(s). Total nodes: 1; excluded: resource "gpu": 1'
    )


def test_what_layers_are_short_of_is_told_of_the_best_domain() -> None:
    """The one with the most slices; of those the first by its name."""
    layers = [
        {"topology": "block", "size": 8},
        {"topology": "rack", "size": 4},
        {"topology": HOST, "size": 2},
    ]
    asked = request(16, required="block", podsetSliceRequiredTopologyConstraints=layers)
    want = (
        'topology "dc" doesn\'t allow to fit; 1/2 slice(s) fit on level block; 2/4 slice(s) fit on level rack; '
        "{}/8 slice(s) fit on level kubernetes.io/hostname"
    )
    small, large = node("n1", "a", gpu=9), node("n2", "b", gpu=8)
    poor = node("n3", "c", gpu=7)
    for nodes in ((small, large, poor), (poor, large, small)):
        assert searched(tree(*nodes), asked)[0] == {"main": want.format(4)}
    (few,) = searched(tree(poor, node("n4", "d", gpu=1)), asked)[0].values()
    assert few.startswith(
        'topology "dc" doesn\'t allow to fit; 0/2 slice(s) fit on level block; 1/4 slice(s)'
    )


def test_a_block_is_not_preferred_for_its_racks() -> None:
    """Where the lowest level is no host, nodes are not asked what the pods prefer."""
    levels = ("block", "rack")
    found = tree(
        node("n1", "many", "r1", gpu=3),
        node("n2", "many", "r2", gpu=3),
        node("n3", "many", "r3", gpu=3),
        node("n4", "one", "r4", gpu=4),
        levels=levels,
    )
    placed_at = searched(found, request(4, required="block"), TASRespectNodeAffinityPreferred=True)[0]
    assert placed_at == {"main": {"r4": 4}}


# Flavors that share their nodes.


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("level", [HOST, "rack"])
def test_what_one_flavor_is_given_is_taken_for_the_next(shared: bool, level: str) -> None:
    gates, _ = gates_from({"TASHandleOverlappingFlavors": shared})
    accounts = Accounts(gates)
    raw = {"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": level}]}}
    accounts.set_topology(facts.topology(raw))
    for name in ("one", "two"):
        accounts.set_flavor(facts.resource_flavor(flavor(name, topologyName="dc")))
    accounts.set_cluster_queue(facts.cluster_queue(queue("a", {"one": 9, "two": 9})))
    accounts.set_node(node("n1", gpu=4))
    accounts.settle()
    asked = {name: [named(name, request(3, required=level))] for name in ("two", "one")}
    found = accounts.queues["a"].find_domains(asked, workload_of(), DEFAULT_SEARCH)
    assert list(found) == ["one", "two"] and [r.flavor for r in found.values()] == ["one", "two"]
    is_taken = shared and level == HOST
    assert [bool(r.failure) for r in found.values()] == [False, is_taken]
    assert accounts.queues["a"].find_domains({}, workload_of(), DEFAULT_SEARCH) == {}


@pytest.mark.parametrize("shared", [True, False])
def test_pods_count_on_a_node_in_every_flavor_that_has_it(shared: bool) -> None:
    """Of topologies whose lowest level is the host, where the gate says so; else of its own flavor alone."""
    gates, _ = gates_from({"TASHandleOverlappingFlavors": shared})
    accounts = Accounts(gates)
    for name, levels in (("hosts", (HOST,)), ("racks", ("rack",))):
        raw = {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": level} for level in levels]}}
        accounts.set_topology(facts.topology(raw))
    for name, of in (("one", "hosts"), ("two", "hosts"), ("three", "racks")):
        accounts.set_flavor(facts.resource_flavor(flavor(name, topologyName=of)))
    accounts.set_cluster_queue(facts.cluster_queue(queue("a", {"one": 4, "two": 4, "three": 4})))
    accounts.set_node(node("n1"))

    def holding(flavor_name: str, *values: str) -> Workload:
        use = ((flavor_name, (DomainUse(values, {"gpu": 1000}, 2),)),)
        return workload_of(key=f"ns/{flavor_name}", cluster_queue="a", topology_usage=use)

    def used() -> dict[str, int]:
        return {
            name: leaf.used.get("gpu", 0)
            for name, of in accounts.topologies.items()
            for leaf in of.leaves.values()
        }

    accounts.settle()
    accounts.hold(holding("one", "n1"))
    assert used() == {"one": 2000, "two": 2000 * shared, "three": 0}
    accounts.hold(holding("three", "r"))
    assert used() == {"one": 2000, "two": 2000 * shared, "three": 2000}
    accounts.hold(holding("gone", "n1"))
    assert used() == {"one": 2000, "two": 2000 * shared, "three": 2000}
    accounts.release("ns/one")
    accounts.release("ns/three")
    assert set(used().values()) == {0}


def test_cohorts_and_queues_are_kept_by_name_however_they_came() -> None:
    names = ("z", "a", "m")
    accounts = Accounts()
    for name in names:
        accounts.set_cohort(facts.cohort({"metadata": {"name": name}, "spec": {"parentName": "top"}}))
        accounts.set_cluster_queue(facts.cluster_queue(queue(f"q{name}", 1, cohort=name)))
        accounts.set_cluster_queue(facts.cluster_queue(queue(f"p{name}", 1, cohort="top")))
    accounts.settle()
    assert list(accounts.cohorts) == ["a", "m", "top", "z"]
    assert list(accounts.queues) == ["pa", "pm", "pz", "qa", "qm", "qz"]
    top = accounts.cohorts["top"]
    assert [c.name for c in top.cohorts] == ["a", "m", "z"]
    assert [q.name for q in top.subtree_queues()] == ["pa", "pm", "pz", "qa", "qm", "qz"]
    raw = {"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": HOST}]}}
    accounts.set_topology(facts.topology(raw))
    for name in names:
        accounts.set_flavor(facts.resource_flavor(flavor(name, topologyName="dc")))
        accounts.set_node(node(f"n{name}"))
    accounts.settle()
    assert {name: list(of.leaves) for name, of in accounts.topologies.items()} == {
        name: ["na", "nm", "nz"] for name in sorted(names)
    }
    assert list(accounts.topologies) == sorted(names)


def test_a_node_that_is_ill_is_replaced_and_the_rest_stays() -> None:
    found = tree(node("n1", gpu=2), node("n2", gpu=2), node("n3", gpu=2, rack="s"))
    on: Any = {"preferred": "rack"}
    asked = request(3, **on)
    result, taken = searched(found, asked, of=holder("n1", main=placed(n1=1, n2=2)))
    assert sum(result["main"].values()) == 3 and result["main"]["n2"] >= 2 and sum(taken.values()) == 1
    # Somewhere it stood is no more.
    stale = (
        "Cannot replace the node, because the existing topologyAssignment is invalid, "
        "as it contains the stale domain n9"
    )
    assert searched(found, asked, of=holder("n1", main=placed(n1=1, n9=2))) == ({"main": stale}, {})
    # Nothing of it stood there.
    none = "cannot find replacement assignment for unhealthy node: n3"
    assert searched(found, asked, of=holder("n3", main=placed(n1=1, n2=2)))[0] == {"main": none}
    # Of a pod set without a place nothing is to be found.
    assert searched(found, named("else", asked), of=holder("n1", main=placed(n1=1))) == ({}, {})
    no_room = searched(found, request(9, required="rack"), of=holder("n1", main=placed(n1=9, n2=1)))[0][
        "main"
    ]
    assert no_room.startswith('topology "dc" allows to fit only ')
    single = [{"kind": "Pod", "apiVersion": "v1", "name": "p"}]
    alone = holder("n1", single, main=placed(n1=1))
    assert searched(found, request(1, **on), of=alone, SkipReassignmentForPodOwnedWorkloads=True) == (
        {"main": {"n1": 1}},
        {},
    )
    moved, _ = searched(found, request(1, **on), of=alone, SkipReassignmentForPodOwnedWorkloads=False)
    assert len(moved["main"]) == 1


def test_the_first_that_failed_by_name() -> None:
    fits, no = TopologyResult(placed(n1=1)), TopologyResult(None, "no", "f")
    assert failure_of({"b": no, "a": fits, "c": no}) == ("b", no)
    assert failure_of({"a": fits}) is None and failure_of({}) is None


def test_why_nodes_were_left_out_in_the_order_of_words() -> None:
    every = Exclusions(9, 1, 2, 3, {"t=x:NoSchedule": 4, "a:NoExecute": 5}, {"gpu": 6, "cpu": 7})
    assert every.text() == (
        'affinity: 2, nodeSelector: 1, resource "cpu": 7, resource "gpu": 6, taint "a:NoExecute": 5, '
        'taint "t=x:NoSchedule": 4, topologyDomain: 3'
    )
    assert Exclusions(9).text() == ""
