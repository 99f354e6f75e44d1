"""Leaders and workers, elastic jobs, layers of slices and what is said where there is no place."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest
from tests.queueing.queueworld import workload_of

from fairway.kube.resources import Resources
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.objects import ResourceFlavor, Topology, TopologyNode
from fairway.queueing.facts.podsets import PodSet, new_shape
from fairway.queueing.facts.topologyassignments import DomainCount, TopologyAssignment
from fairway.queueing.facts.transformations import Transformations
from fairway.queueing.tas.elastic import place_elastic
from fairway.queueing.tas.replacement import replacement_domain, replacement_request
from fairway.queueing.tas.requests import DEFAULT_SEARCH, PodSetRequest, TopologyResults
from fairway.queueing.tas.search import find_for_flavor
from fairway.queueing.tas.tree import FlavorTopology

HOST = "kubernetes.io/hostname"
LEVELS = ("block", "rack", HOST)
Free = dict[str, int]
Placed = dict[str, dict[str, int]]


def topology_of(free: Free, **nodes: Any) -> FlavorTopology:
    """Hosts are called by their block, rack and number: `123`."""
    made = [
        TopologyNode(
            host,
            {"block": host[0], "rack": host[:2], HOST: host, "kind": host[2]},
            nodes.get("taints", {}).get(host, ()),
            {"gpu": 1000 * count, "pods": 50},
            True,
        )
        for host, count in free.items()
    ]
    return FlavorTopology(Topology("dc", LEVELS), ResourceFlavor("f", {}, (), (), "dc"), made, {})


def pod_set(name: str, count: int, gpus: int = 1, spec: Any = None, **asked: Any) -> PodSet:
    container = {"name": "c", "resources": {"requests": {"gpu": str(1000 * gpus)}}}
    template = {"spec": {"containers": [container], **(spec or {})}}
    raw = {"name": name, "count": count, "template": template, "topologyRequest": asked}
    (made,) = new_shape([raw], Transformations()).pod_sets
    return made


def request(name: str, count: int, gpus: int = 1, spec: Any = None, **asked: Any) -> PodSetRequest:
    return PodSetRequest(pod_set(name, count, gpus, spec, **asked), count, "f", is_implied=False)


def search(topology: FlavorTopology, *requests: PodSetRequest, **gates: bool) -> TopologyResults:
    on, _ = gates_from(gates)
    return find_for_flavor(topology, requests, workload_of(), DEFAULT_SEARCH, {}, on)


def hosts(results: TopologyResults) -> Placed:
    return {
        name: {d.values[-1]: d.pods for d in result.assignment.domains}
        for name, result in results.items()
        if result.assignment is not None
    }


def failure(topology: FlavorTopology, *requests: PodSetRequest, **gates: bool) -> str:
    said = {result.failure for result in search(topology, *requests, **gates).values()}
    assert len(said) == 1
    return said.pop()


# Leaders


def beside(free: Free, gpus: int) -> int:
    """Workers that fit where one host has the leader; -1: none has."""
    return sum(free.values()) - gpus if max(free.values(), default=0) >= gpus else -1


def within(free: Free, domain: str) -> Free:
    return {host: n for host, n in free.items() if host.startswith(domain)}


@pytest.mark.parametrize("seed", range(24))
def test_a_leader_is_in_the_tightest_domain_with_its_workers(seed: int) -> None:
    draw = Random(seed)
    free = {
        f"{b}{r}{h}": draw.choice((0, 1, 2, 3, 4))
        for b in range(draw.randint(1, 2))
        for r in range(draw.randint(1, 3))
        for h in range(draw.randint(1, 3))
    }
    topology = topology_of(free)
    for level, kind, gpus, mixed in product((1, 2, 3), ("required", "preferred"), (1, 2), (False, True)):
        for count in range(2, sum(free.values()) + 1):
            asked = {kind: LEVELS[level - 1], "podSetGroupName": "g"}
            both = (request("workers", count, **asked), request("leader", 1, gpus, **asked))
            placed = hosts(search(topology, *both, TASProfileMixed=mixed))
            wanted = level
            while True:
                domains = sorted({host[:wanted] for host in free})
                room = {d: beside(within(free, d), gpus) for d in domains}
                enough = [n for n in room.values() if n >= count]
                if enough or kind == "required" or wanted == 0:
                    break
                wanted -= 1
            if not enough:
                if kind == "required":
                    assert placed == {}, (free, asked, count)
                continue
            (leading,) = placed["leader"]
            used = {host: n + (gpus if host == leading else 0) for host, n in placed["workers"].items()}
            used.setdefault(leading, gpus)
            assert sum(placed["workers"].values()) == count
            assert all(n <= free[host] for host, n in used.items()), (free, asked, count, placed)
            (domain,) = {host[:wanted] for host in used}
            assert room[domain] == min(enough), (free, asked, count, placed)


def test_the_smaller_pod_set_of_a_group_leads() -> None:
    topology = topology_of({"111": 2, "112": 4})
    asked = {"required": "rack", "podSetGroupName": "g"}
    few, many = request("few", 2, **asked), request("many", 4, **asked)
    assert hosts(search(topology, few, many)) == hosts(search(topology, many, few)) != {}
    assert hosts(search(topology, request("a", 1, 3, **asked), request("b", 1, 1, **asked)))["b"] == {
        "112": 1
    }


# Where there is no place

NO_PLACE: dict[str, tuple[PodSetRequest, str]] = {
    "some fit": (
        request("main", 6, required="rack"),
        'topology "dc" allows to fit only 4 out of 6 pod(s)',
    ),
    "some slices fit": (
        request("main", 8, required="rack", podSetSliceRequiredTopology=HOST, podSetSliceSize=2),
        'topology "dc" allows to fit only 1 out of 4 slice(s)',
    ),
    "none fits": (
        request("main", 2, 9, required="rack"),
        'topology "dc" doesn\'t allow to fit any of 2 pod(s). Total nodes: 4; excluded: resource "gpu": 4',
    ),
    "no slice fits": (
        request("main", 8, required="rack", podSetSliceRequiredTopology=HOST, podSetSliceSize=4),
        'topology "dc" doesn\'t allow to fit any of 2 slice(s)',
    ),
    "all together are too few": (
        request("main", 9, preferred="rack"),
        'topology "dc" allows to fit only 8 out of 9 pod(s)',
    ),
    "nodes of another kind": (
        request("main", 4, spec={"nodeSelector": {"kind": "1"}}, required="rack"),
        'topology "dc" allows to fit only 3 out of 4 pod(s). Total nodes: 4; excluded: nodeSelector: 2',
    ),
    "layers": (
        request(
            "main",
            12,
            required="block",
            podsetSliceRequiredTopologyConstraints=[
                {"topology": "rack", "size": 4},
                {"topology": HOST, "size": 2},
            ],
        ),
        'topology "dc" doesn\'t allow to fit; 0/3 slice(s) fit on level rack; 2/6 slice(s) fit on level '
        "kubernetes.io/hostname",
    ),
    "no such level": (request("main", 1, required="row"), "no requested topology level: row"),
    "slices above": (
        request("main", 2, required="rack", podSetSliceRequiredTopology="block", podSetSliceSize=2),
        "podset slice topology block is above the podset topology rack",
    ),
    "slices of no level": (
        request("main", 2, required="rack", podSetSliceRequiredTopology="row", podSetSliceSize=2),
        "no requested topology level for slices: row",
    ),
    "a layer of no level": (
        request(
            "main",
            2,
            required="block",
            podsetSliceRequiredTopologyConstraints=[
                {"topology": "rack", "size": 2},
                {"topology": "row", "size": 1},
            ],
        ),
        "no requested topology level for additional slice layer: row",
    ),
    "a layer that is not below": (
        request(
            "main",
            2,
            required="block",
            podsetSliceRequiredTopologyConstraints=[
                {"topology": "rack", "size": 2},
                {"topology": "rack", "size": 1},
            ],
        ),
        "additional slice layer topology rack must be at a lower level than rack",
    ),
    "a layer that does not divide": (
        request(
            "main",
            3,
            required="block",
            podsetSliceRequiredTopologyConstraints=[
                {"topology": "rack", "size": 3},
                {"topology": HOST, "size": 2},
            ],
        ),
        "additional slice layer size 2 must evenly divide parent layer size 3",
    ),
}


@pytest.mark.parametrize("name", NO_PLACE)
def test_what_is_said_where_there_is_no_place(name: str) -> None:
    asked, want = NO_PLACE[name]
    assert failure(topology_of({"111": 3, "112": 1, "121": 3, "122": 1}), asked) == want


def test_pods_of_layers_stay_together() -> None:
    """Four pods a rack, two of them a host: a host with three has room for one pair."""
    topology = topology_of({"111": 3, "112": 3, "121": 5, "122": 1})
    asked = request(
        "main",
        8,
        required="block",
        podsetSliceRequiredTopologyConstraints=[
            {"topology": "rack", "size": 4},
            {"topology": HOST, "size": 2},
        ],
    )
    assert hosts(search(topology, asked)) == {"main": {"111": 2, "112": 2, "121": 4}}


def test_later_pod_sets_go_where_earlier_ones_left_room() -> None:
    topology = topology_of({"111": 2, "112": 1})
    one, two = request("one", 2, required=HOST), request("two", 1, required=HOST)
    assert hosts(search(topology, one, two)) == {"one": {"111": 2}, "two": {"112": 1}}
    three = request("three", 2, required=HOST)
    results = search(topology, one, three, two)
    assert list(results) == ["one", "three"]
    assert results["three"].failure == (
        'topology "dc" allows to fit only 1 out of 2 pod(s). Total nodes: 2; excluded: resource "gpu": 1'
    )


# Elastic jobs


def assigned(**counts: int) -> TopologyAssignment:
    return TopologyAssignment((HOST,), tuple(DomainCount((h[1:],), n) for h, n in counts.items()))


def elastic(
    topology: FlavorTopology, workers: PodSetRequest, leader: PodSetRequest | None = None
) -> tuple[Placed | None, dict[str, Resources], list[tuple[int, bool]]]:
    """What is placed, what is taken by it, and what was looked for: how many workers, and a leader or not."""
    asked: list[tuple[int, bool]] = []
    assumed: dict[str, Resources] = {}

    def find(more: PodSetRequest, lead: PodSetRequest | None) -> dict[str, TopologyAssignment] | str:
        asked.append((more.count, lead is not None))
        assert more.previous is None
        if more.count > 3:
            return "too many"
        found = {more.pod_set.name: assigned(h112=more.count)}
        return found | ({lead.pod_set.name: assigned(h121=1)} if lead is not None else {})

    results = place_elastic(topology, workers, leader, assumed, find)
    return (None if results is None else hosts(results)), assumed, asked


def test_an_elastic_job_keeps_its_places() -> None:
    topology = topology_of({"111": 9, "112": 9, "121": 9})
    before = assigned(h111=2, h112=3)

    def sized(count: int, previous: TopologyAssignment | None = before) -> PodSetRequest:
        made = request("workers", count)
        made.previous = previous
        return made

    def taken(assumed: dict[str, Resources]) -> dict[str, int]:
        return {host: used["gpu"] // 1_000 for host, used in assumed.items()}

    for count, want in (
        (5, {"111": 2, "112": 3}),
        (4, {"111": 2, "112": 2}),
        (2, {"111": 2}),
        (1, {"111": 1}),
        (6, {"111": 2, "112": 4}),
        (8, {"111": 2, "112": 6}),
    ):
        placed, assumed, asked = elastic(topology, sized(count))
        assert placed == {"workers": want}
        assert taken(assumed) == want
        assert asked == ([(count - 5, False)] if count > 5 else [])
    assert elastic(topology, sized(3, None)) == (None, {}, [])
    assert elastic(topology, sized(3, assigned(h111=1, h999=2))) == (None, {}, [])
    failed = place_elastic(topology, sized(9), None, {}, lambda more, lead: "too many")
    assert failed is not None
    assert [(name, r.assignment, r.failure) for name, r in failed.items()] == [("workers", None, "too many")]
    leader = request("leader", 1)
    for count in (4, 7):
        leader.previous = assigned(h111=1)
        placed, assumed, asked = elastic(topology, sized(count), leader)
        assert placed is not None
        assert placed["leader"] == {"111": 1}
        assert taken(assumed)["111"] == 3
        assert asked == ([(2, False)] if count > 5 else [])
    leader.previous = assigned(h999=1)
    assert elastic(topology, sized(4), leader) == (None, {}, [])
    leader.previous = None
    placed, assumed, asked = elastic(topology, sized(7), leader)
    assert placed == {"workers": {"111": 2, "112": 5}, "leader": {"121": 1}}
    assert taken(assumed) == {"111": 2, "112": 5, "121": 1}
    assert asked == [(2, True)]


def test_elastic_jobs_are_a_gate_and_fall_back() -> None:
    topology = topology_of({"111": 2, "112": 4})
    made = request("main", 3, required="rack")
    made.previous = assigned(h111=1)
    on = {"ElasticJobsViaWorkloadSlicesWithTAS": True}
    assert hosts(search(topology, made, **on)) == {"main": {"111": 1, "112": 2}}
    assert hosts(search(topology, made)) == {"main": {"112": 3}}
    made.previous = assigned(h999=1)
    assert hosts(search(topology, made, **on)) == {"main": {"112": 3}}
    made = request("main", 9, required="rack")
    made.previous = assigned(h111=1)
    later = request("later", 1, required=HOST)
    assert list(search(topology, made, later, **on)) == ["main"]


# Replacements


def test_missing_pods_are_searched_by_the_innermost_slice_they_fill() -> None:
    constraints = [
        {"topology": "block", "size": 8},
        {"topology": "rack", "size": 4},
        {"topology": HOST, "size": 2},
    ]
    asked = request("main", 8, required="block", podsetSliceRequiredTopologyConstraints=constraints)
    for missing, want in ((1, []), (2, [(HOST, 2)]), (4, [(HOST, 2)]), (3, []), (8, [(HOST, 2)])):
        found = replacement_request(asked, missing).pod_set.topology
        assert found is not None
        assert [(layer.topology, layer.size) for layer in found.slices] == want
        assert found.required == "block"
    assert replacement_request(asked, 2).count == 8
    topology = topology_of({"111": 9, "112": 9, "121": 9, "211": 9})
    kept = assigned(h111=1, h112=2, h121=4)

    def domain(count: int, *layers: Any) -> str:
        given = request("main", count, required="block", podsetSliceRequiredTopologyConstraints=layers)
        return replacement_domain(topology, given, kept)

    assert domain(1, *constraints) == "111"
    assert domain(2, *constraints) == ""
    assert domain(1, *constraints[:2]) == "1,11"
    assert domain(4, *constraints[:2]) == ""
    assert domain(3, *constraints[1:]) == "111"
    assert domain(1, {"topology": "row", "size": 4}) == ""
