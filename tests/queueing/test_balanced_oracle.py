"""Balanced placement in small topologies against trying every set of domains that could be taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product
from random import Random
from typing import Any, NamedTuple

import pytest
from tests.queueing.queueworld import workload_of

from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.objects import ResourceFlavor, Topology, TopologyNode
from fairway.queueing.facts.podsets import new_shape
from fairway.queueing.facts.transformations import Transformations
from fairway.queueing.tas.requests import DEFAULT_SEARCH, PodSetRequest
from fairway.queueing.tas.search import find_for_flavor
from fairway.queueing.tas.tree import FlavorTopology

LEVELS = ("block", "rack", "kubernetes.io/hostname")
Domain = tuple[str, ...]
Free = dict[Domain, int]
# Pods of the workers by host, and the host of the leader.
Placed = tuple[dict[str, int], str]


class _Ask(NamedTuple):
    """`leader`: what the leader asks for; 0: there is none."""

    count: int
    size: int
    level: int
    slice_level: int
    leader: int

    @property
    def slices(self) -> int:
        return self.count // self.size


def _found(free: Free, ask: _Ask, *, balanced: bool, likes: str = "") -> Placed | None:
    """`likes`: a host that is preferred."""
    nodes = [
        TopologyNode(
            values[-1], dict(zip(LEVELS, values, strict=True)), (), {"gpu": 1000 * count, "pods": 50}, True
        )
        # The order in which nodes are told decides nothing.
        for values, count in sorted(free.items(), reverse=True)
    ]
    topology = FlavorTopology(Topology("dc", LEVELS), ResourceFlavor("f", {}, (), (), "dc"), nodes, {})
    wish: dict[str, Any] = {"preferred": LEVELS[ask.level], "podSetGroupName": "g"}
    workers = wish | {
        "podSetSliceRequiredTopology": LEVELS[ask.slice_level],
        "podSetSliceSize": ask.size,
    }
    asked = [("workers", ask.count, 1000, workers)]
    if ask.leader:
        asked.append(("leader", 1, 1000 * ask.leader, wish))
    raw = [
        {
            "name": name,
            "count": count,
            "template": {
                "spec": {
                    "containers": [{"name": "c", "resources": {"requests": {"gpu": f"{gpus}"}}}],
                    **_preferring(likes),
                }
            },
            "topologyRequest": topology_request,
        }
        for name, count, gpus, topology_request in asked
    ]
    shape = new_shape(raw, Transformations())
    requests = [PodSetRequest(p, p.count, "f", is_implied=False) for p in shape.pod_sets]
    gates, _ = gates_from({"TASBalancedPlacement": balanced, "TASRespectNodeAffinityPreferred": bool(likes)})
    results = find_for_flavor(topology, requests, workload_of(), DEFAULT_SEARCH, {}, gates)
    hosts = {
        name: {d.values[0]: d.pods for d in result.assignment.domains}
        for name, result in results.items()
        if result.assignment is not None
    }
    if "workers" not in hosts:
        return None
    return hosts["workers"], next(iter(hosts.get("leader", {"": 1})))


def _preferring(host: str) -> dict[str, Any]:
    if not host:
        return {}
    chosen = [{"key": LEVELS[-1], "operator": "In", "values": [host]}]
    term = {"weight": 9, "preference": {"matchExpressions": chosen}}
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


# The reading: every domain has room for pods and slices, alone and beside the leader.


class _Room(NamedTuple):
    name: Domain
    pods: int
    slices: int
    pods_beside: int
    slices_beside: int
    leads: bool
    below: tuple[_Room, ...] = ()

    def at_least(self, threshold: int) -> _Room:
        """What is left of it where each domain takes so much: nothing, or all but the leader's place."""
        if self.slices < threshold:
            return _Room(self.name, 0, 0, 0, 0, False, tuple(b.at_least(10**9) for b in self.below))
        if self.leads and self.slices_beside < threshold:
            return self._replace(pods_beside=0, slices_beside=0, leads=False)
        return self


def _of_host(host: Domain, free: int, ask: _Ask) -> _Room:
    leads = 0 < ask.leader <= free
    beside = free - ask.leader if leads else free
    size = ask.size if ask.slice_level == 2 else 10**9
    return _Room(host, free, free // size, beside, beside // size, leads)


def _of_all(name: Domain, below: Sequence[_Room], ask: _Ask) -> _Room:
    """A domain loses to the leader what that child loses which loses least."""
    pods = sum(room.pods for room in below)
    slices = sum(room.slices for room in below)
    hosts_leader = [room for room in below if room.leads or not ask.leader]
    pods_beside = pods - min((r.pods - r.pods_beside for r in hosts_leader), default=pods)
    slices_beside = slices - min((r.slices - r.slices_beside for r in hosts_leader), default=slices)
    if len(name) - 1 == ask.slice_level:
        slices, slices_beside = pods // ask.size, pods_beside // ask.size
    leads = any(room.leads for room in below)
    return _Room(name, pods, slices, pods_beside, slices_beside, leads, tuple(below))


def _rooms(free: Free, ask: _Ask, above: Domain, level: int) -> list[_Room]:
    names = sorted({host[: level + 1] for host in free if host[: len(above)] == above})
    if level == 2:
        return [_of_host(name, free[name], ask) for name in names]
    return [_of_all(name, _rooms(free, ask, name, level + 1), ask) for name in names]


def _leaders_first(rooms: Sequence[_Room]) -> list[_Room]:
    return sorted(rooms, key=lambda r: (not r.leads, -r.slices_beside, r.pods_beside, r.name))


def _largest_first(rooms: Sequence[_Room], ask: _Ask) -> tuple[list[_Room], list[_Room]] | None:
    """Whom it takes, largest first: those with the leader, and the others; None: that is not enough."""
    leading, others, need = list[_Room](), list(rooms), ask.slices
    if ask.leader:
        first, *others = _leaders_first(rooms)
        if not first.leads:
            return None
        leading, need = [first], need - first.slices_beside
    taken = list[_Room]()
    for room in sorted(others, key=lambda r: (-r.slices, r.pods, r.name)):
        if need > 0 and room.slices:
            taken.append(room)
            need -= room.slices
    return None if need > 0 else (leading, taken)


def _tightest(ordered: Sequence[_Room], ask: _Ask) -> list[_Room] | None:
    """Of all sets of that many domains, and all places for the leader, the one that wastes least."""
    greedy = _largest_first(ordered, ask)
    if greedy is None:
        return None
    most = len(greedy[0]) + len(greedy[1])
    sets: list[tuple[Any, list[_Room]]] = []
    for indexes in combinations(range(len(ordered)), most):
        for leader in indexes if ask.leader else (-1,):
            left, is_led, is_possible = ask.count, not ask.leader, True
            for index in indexes:
                room = ordered[index]
                # What is enough already takes nobody else.
                is_possible &= left > 0 or not is_led
                is_possible &= room.leads if index == leader else room.slices > 0
                left -= room.pods_beside if index == leader else room.pods
                is_led |= index == leader
            if is_possible and left <= 0:
                earliest = [(index, index == leader) for index in reversed(indexes)]
                sets.append(((-left, earliest), [ordered[index] for index in indexes]))
    return min(sets, key=lambda s: s[0])[1] if sets else None


def _evenness(room: _Room) -> float:
    shares = [below.pods / room.pods for below in room.below if below.pods]
    return -sum(share * math.log2(share) for share in shares)


def _siblings(free: Free, ask: _Ask) -> tuple[int, list[_Room]]:
    """Of the domains with one parent, those that let the smallest part be largest."""
    best, fewest, chosen = 0, 0, list[_Room]()
    for parent in sorted({host[: ask.level] for host in free}):
        rooms = _rooms(free, ask, parent, ask.level)
        is_above = ask.level < ask.slice_level
        greedy = _largest_first([b for r in rooms for b in r.below] if is_above else rooms, ask)
        if greedy is None:
            continue
        leading, others = greedy
        threshold = ask.slices // (len(leading) + len(others))
        threshold = min([threshold, *(r.slices_beside for r in leading[-1:]), *(r.slices for r in others)])
        careful = min([threshold, *(r.slices_beside for r in others[-1:] if ask.leader)])
        for tried in sorted({threshold, careful}, reverse=True):
            if threshold < best or tried <= 0 or tried < best:
                continue
            pruned = [
                (_of_all(r.name, [b.at_least(tried) for b in r.below], ask) if r.below else r).at_least(tried)
                for r in rooms
            ]
            after = _largest_first(pruned, ask)
            if after is None:
                continue
            used = len(after[0]) + len(after[1])
            if tried > best or used < fewest:
                best, fewest, chosen = tried, used, pruned
            break
    return best, chosen


def _balanced(free: Free, ask: _Ask) -> tuple[dict[Domain, int], Domain] | None:
    """Slices by domain, and which of them has the leader."""
    threshold, rooms = _siblings(free, ask)
    if ask.level < ask.slice_level and threshold:
        order = sorted(rooms, key=lambda r: (not r.leads, -r.slices_beside, -_evenness(r), r.name))
        rooms = [below for room in _tightest(order, ask) or () for below in room.below]
    chosen = _tightest(sorted(rooms, key=lambda r: r.name), ask) if threshold and rooms else None
    if chosen is None or ask.slices < len(chosen) * threshold:
        return None
    ranked = _leaders_first(chosen)
    extra, given = ask.slices - len(ranked) * threshold, dict[Domain, int]()
    for index, room in enumerate(ranked):
        most = room.slices_beside if ask.leader and index == 0 else room.slices
        more = min(extra, most - threshold)
        given[room.name] = threshold + more
        extra -= more
    return None if extra else (given, ranked[0].name if ask.leader else ())


def _world(draw: Random) -> Free:
    return {
        (f"b{b}", f"r{b}{r}", f"h{b}{r}{h}"): draw.choice((0, 1, 2, 2, 3, 4, 5))
        for b in range(draw.randint(1, 2))
        for r in range(draw.randint(1, 3))
        for h in range(draw.randint(1, 4))
    }


def _expected(free: Free, ask: _Ask) -> tuple[Placed | None, bool]:
    """Slices on hosts, and whether they are balanced."""
    want = _balanced(free, ask)
    if want is None:
        return _found(free, ask, balanced=False), False
    given, leading = want
    return ({d[-1]: n * ask.size for d, n in given.items()}, leading[-1] if leading else ""), True


@pytest.mark.parametrize("seed", range(36))
def test_balanced_pods_are_where_every_way_was_tried(seed: int) -> None:
    draw = Random(seed)
    free = _world(draw)
    total, balanced = sum(free.values()), 0
    for level, size, leader in product((2, 1), (1, 2, 3), (0, 1, 2)):
        for slices in range(1, min(total // size, 9) + 1):
            ask = _Ask(slices * size, size, level, 2, leader)
            expected, is_balanced = _expected(free, ask)
            balanced += is_balanced
            assert _found(free, ask, balanced=True) == expected, (free, ask)
    assert balanced or max(free.values()) == 0


@pytest.mark.parametrize("seed", range(12))
def test_balanced_racks_of_a_block(seed: int) -> None:
    draw = Random(1000 + seed)
    free = _world(draw)
    for size, slice_level, leader in product((1, 2, 3), (1, 2), (0, 1, 2)):
        for slices in range(1, 10):
            ask = _Ask(slices * size, size, 0, slice_level, leader)
            want, found = _balanced(free, ask), _found(free, ask, balanced=True)
            if want is None:
                assert found == _found(free, ask, balanced=False), (free, ask)
                continue
            assert found is not None
            by_rack: dict[str, int] = {}
            for host, pods in found[0].items():
                by_rack[host[1:3]] = by_rack.get(host[1:3], 0) + pods
                assert pods <= free[next(h for h in free if h[-1] == host)]
                assert slice_level == 1 or pods % size == 0
            assert by_rack == {d[1][1:]: n * size for d, n in want[0].items()}, (free, ask)
            assert found[1][1:3] == (want[1][1][1:] if leader else ""), (free, ask)


def _racks(*racks: tuple[int, ...]) -> Free:
    return {
        ("b0", f"r0{r}", f"h0{r}{h}"): count for r, rack in enumerate(racks) for h, count in enumerate(rack)
    }


@pytest.mark.parametrize(
    ("free", "ask"),
    [
        # With 2 on each host too little is left beside a leader; with 1 the host of 3 is there, too, and leads.
        (_racks((6, 4, 3), (5,)), _Ask(14, 2, 1, 2, 1)),
        # Two sets of hosts have just enough: that counts which has its leader before the last of them.
        (_racks((4, 4, 3, 5, 3, 6)), _Ask(15, 1, 2, 2, 2)),
        # A rack without a host that is large enough for the leader; its own hosts are told apart all the same.
        (_racks((4, 2), (5, 2), (3,)), _Ask(5, 1, 1, 2, 4)),
        # As few racks as it takes, and of those as even ones.
        (_racks((1, 4, 5, 4), (4, 2), (5, 0, 5, 3)), _Ask(12, 3, 1, 2, 1)),
        (_racks((2, 0, 3), (2, 2)), _Ask(2, 1, 2, 2, 2)),
        (_racks((4, 5, 3, 3), (0,), (4, 3)), _Ask(15, 3, 1, 2, 1)),
    ],
)
def test_balanced_pods_in_worlds_that_are_hard(free: Free, ask: _Ask) -> None:
    expected, is_balanced = _expected(free, ask)
    assert is_balanced and _found(free, ask, balanced=True) == expected


@pytest.mark.parametrize(
    ("hosts", "likes", "wanted"),
    [
        ((1, 3, 3), "", {"h001": 2, "h002": 2}),
        ((0, 3, 3), "h002", {"h001": 2, "h002": 2}),
        # A host that is preferred comes first. Where it is full, or has less than each is to have, it ends the search
        # for an even way: what fits best it is.
        ((0, 3, 3), "h000", {"h001": 3, "h002": 1}),
        ((1, 3, 3), "h000", {"h000": 1, "h001": 3}),
        ((2, 3, 3), "h000", {"h000": 2, "h001": 2}),
        ((3, 3, 2), "h002", {"h000": 2, "h002": 2}),
    ],
)
def test_what_is_preferred_and_what_is_even(
    hosts: tuple[int, ...], likes: str, wanted: dict[str, int]
) -> None:
    found = _found(_racks(hosts), _Ask(4, 1, 2, 2, 0), balanced=True, likes=likes)
    assert found is not None and found[0] == wanted
