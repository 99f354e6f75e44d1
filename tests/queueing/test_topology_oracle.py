"""Placement in small topologies against a plain reading of KEP-2724, and replacements against trying every place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any, NamedTuple

import pytest
from tests.queueing.queueworld import workload_of

from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.objects import ResourceFlavor, Topology, TopologyNode
from fairway.queueing.facts.podsets import new_shape
from fairway.queueing.facts.topologyassignments import DomainCount, TopologyAssignment
from fairway.queueing.facts.transformations import Transformations
from fairway.queueing.facts.workloads import DomainUse
from fairway.queueing.tas.replacement import replacement_domain, without_node
from fairway.queueing.tas.requests import DEFAULT_SEARCH, EMPTY_SEARCH, PodSetRequest
from fairway.queueing.tas.search import find_for_flavor
from fairway.queueing.tas.tree import FlavorTopology, pods_in

HOST = "kubernetes.io/hostname"
LEVELS = ("block", "rack", HOST)
Free = dict[tuple[str, ...], int]
Placed = dict[tuple[str, ...], int]


def _topology(free: Free) -> FlavorTopology:
    nodes = [
        TopologyNode(
            values[-1], dict(zip(LEVELS, values, strict=True)), (), {"gpu": 1000 * count, "pods": 50}, True
        )
        for values, count in free.items()
    ]
    return FlavorTopology(Topology("dc", LEVELS), ResourceFlavor("f", {}, (), (), "dc"), nodes, {})


def _request(count: int, name: str = "main", **topology: Any) -> PodSetRequest:
    containers = [{"name": "c", "resources": {"requests": {"gpu": "1000"}}}]
    raw = {"name": name, "count": count, "template": {"spec": {"containers": containers}}}
    (pod_set,) = new_shape([raw | {"topologyRequest": topology}], Transformations()).pod_sets
    return PodSetRequest(pod_set, count, "f", is_implied=False)


def _found(
    topology: FlavorTopology, request: PodSetRequest, *, mixed: bool, empty: bool = False
) -> Placed | None:
    gates, _ = gates_from({"TASProfileMixed": mixed})
    nobody = workload_of()
    options = EMPTY_SEARCH if empty else DEFAULT_SEARCH
    result = find_for_flavor(topology, [request], nobody, options, {}, gates)["main"]
    if result.assignment is None:
        assert result.failure
        return None
    assert result.assignment.levels == (HOST,)
    names = [d.values[0] for d in result.assignment.domains]
    assert names == sorted(names)
    return {tuple(d.values): d.pods for d in result.assignment.domains}


# The reading: a domain is its labels, what it holds follows from its hosts.


class _Ask(NamedTuple):
    count: int
    size: int
    level: int
    slice_level: int
    kind: str
    least_free: bool


def _pods(free: Free, domain: tuple[str, ...]) -> int:
    return sum(n for host, n in free.items() if host[: len(domain)] == domain)


def _below(free: Free, domain: tuple[str, ...], level: int) -> list[tuple[str, ...]]:
    return sorted({host[: level + 1] for host in free if host[: len(domain)] == domain})


def _slices(free: Free, domain: tuple[str, ...], ask: _Ask) -> int:
    return sum(_pods(free, d) // ask.size for d in _below(free, domain, ask.slice_level))


def _handed_out(
    domains: Sequence[tuple[str, ...]],
    room: dict[tuple[str, ...], int],
    order: Any,
    need: int,
    *,
    least: bool,
) -> Placed | None:
    """One after another; the last part goes to whoever has just enough (or, least free first, to the next)."""
    left, out = sorted(domains, key=order), Placed()
    while need > 0 and left:
        domain = left[0]
        if room[domain] >= need and not least:
            domain = min(left, key=lambda d: (room[d] if room[d] >= need else 10**9, left.index(d)))
        out[domain] = min(room[domain], need)
        need -= out[domain]
        left.remove(domain)
    return None if need > 0 else {d: n for d, n in out.items() if n}


def _read(free: Free, ask: _Ask) -> Placed | None:
    if ask.count % ask.size:
        return None
    need = ask.count // ask.size
    sign = 1 if ask.least_free else -1

    def order(d: tuple[str, ...]) -> tuple[Any, ...]:
        return (sign * _slices(free, d, ask), _pods(free, d), d)

    def slices(domains: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
        return {d: _slices(free, d, ask) for d in domains}

    level = ask.level
    while True:
        domains = _below(free, (), level)
        room = slices(domains)
        enough = [d for d in sorted(domains, key=order) if room[d] >= need]
        if enough:
            chosen: list[tuple[str, ...]] = [min(enough, key=lambda d: room[d])]
            break
        if ask.kind == "required":
            return None
        if ask.kind == "preferred" and level > 0:
            level -= 1
            continue
        several = _handed_out(domains, room, order, need, least=ask.least_free)
        if several is None:
            return None
        chosen = list(several)
        break
    # Down to the slices over all that was chosen, then each slice's domain for itself.
    given = _handed_out(chosen, slices(chosen), chosen.index, need, least=ask.least_free) or {}
    while level < ask.slice_level:
        level += 1
        lower = [c for d in given for c in _below(free, d, level)]
        given = _handed_out(lower, slices(lower), order, need, least=ask.least_free) or {}
    pods = {d: n * ask.size for d, n in given.items()}
    while level < len(LEVELS) - 1:
        level += 1
        below: Placed = {}
        for domain, count in pods.items():
            lower = _below(free, domain, level)
            holds = {d: _pods(free, d) for d in lower}
            below |= (
                _handed_out(lower, holds, lambda d: (_pods(free, d), d), count, least=ask.least_free) or {}
            )
        pods = below
    return {(host[-1],): n for host, n in pods.items()}


def _world(draw: Random) -> Free:
    return {
        (f"b{b}", f"r{b}{r}", f"h{b}{r}{h}"): draw.choice((0, 1, 2, 2, 3, 4))
        for b in range(draw.randint(1, 2))
        for r in range(draw.randint(1, 3))
        for h in range(draw.randint(1, 3))
    }


@pytest.mark.parametrize("seed", range(24))
def test_pods_go_where_the_proposal_says(seed: int) -> None:
    draw = Random(seed)
    free = _world(draw)
    topology = _topology(free)
    total = sum(free.values())
    for kind, level, mixed in product(("required", "preferred", "unconstrained"), range(3), (False, True)):
        for count in sorted({1, 2, 3, 4, 6, total, total + 1, draw.randint(1, total + 1)}):
            for size, slice_level in ((1, 2), (2, max(level, 1)), (3, level), (2, 2)):
                if kind == "unconstrained" and (level < 2 or size > 1):
                    continue
                asked: dict[str, Any] = {kind: True if kind == "unconstrained" else LEVELS[level]}
                if size > 1:
                    asked["podSetSliceRequiredTopology"] = LEVELS[slice_level]
                    asked["podSetSliceSize"] = size
                    if count % size:
                        continue
                ask = _Ask(count, size, level, slice_level, kind, kind == "unconstrained" and mixed)
                found = _found(topology, _request(count, **asked), mixed=mixed)
                assert found == _read(free, ask), (free, asked, count)


@pytest.mark.parametrize("seed", range(8))
def test_what_others_hold_is_not_there(seed: int) -> None:
    draw = Random(500 + seed)
    full = _world(draw)
    taken = {host: draw.randint(0, n) for host, n in full.items()}
    topology = _topology(full)
    uses = [DomainUse((host[-1],), {"gpu": 1000}, n) for host, n in taken.items()]
    topology.count(uses, 1)
    topology.take_foreign(next(iter(full))[-1], {"gpu": 0, "pods": 1}, 1)
    left = {host: n - taken[host] for host, n in full.items()}
    for count in range(1, sum(full.values()) + 2):
        request = _request(count, required="rack")
        ask = _Ask(count, 1, 1, 2, "required", False)
        assert _found(topology, request, mixed=False) == _read(left, ask)
        assert _found(topology, request, mixed=False, empty=True) == _read(full, ask)
    for host, n in left.items():
        for more in (0, 1):
            use = DomainUse((host[-1],), {"gpu": 1000, "pods": 1}, n + more)
            assert topology.fits([use]) == (more == 0)
            assert topology.fits([DomainUse(("nobody",), {"gpu": 1}, 1), use]) is False
    topology.count(uses, -1)
    whole = _Ask(sum(full.values()), 1, 0, 2, "preferred", False)
    assert _found(topology, _request(whole.count, preferred="block"), mixed=False) == _read(full, whole)


def test_how_many_pods_fit_and_what_limits_them() -> None:
    for cpu, gpu, free_cpu, free_gpu in product((0, 1, 2), (0, 1, 3), (-1, 0, 2, 5), (0, 3, 7)):
        rooms = {
            name: free // asked if asked else 2**31 - 1
            for name, asked, free in (("cpu", cpu, max(free_cpu, 0)), ("gpu", gpu, free_gpu))
        }
        fewest = min(rooms.values())
        limiting = min(name for name, n in rooms.items() if n == fewest)
        assert pods_in({"gpu": gpu, "cpu": cpu}, {"cpu": free_cpu, "gpu": free_gpu}) == (fewest, limiting)
    assert pods_in({}, {"cpu": 1}) == (0, "")
    assert pods_in({"x": 1}, {}) == (0, "x")


# A leader and its workers


def _together(
    topology: FlavorTopology, workers: int, *, mixed: bool, **asked: Any
) -> tuple[Placed, Placed] | None:
    """Where the leader and the workers go, one group of pod sets."""
    group = {"podSetGroupName": "g", **asked}
    plain = {k: v for k, v in group.items() if not k.startswith("podSetSlice")}
    leader = _request(1, "leader", **plain)
    gates, _ = gates_from({"TASProfileMixed": mixed})
    found = find_for_flavor(
        topology, [leader, _request(workers, **group)], workload_of(), DEFAULT_SEARCH, {}, gates
    )
    placed = [found[name].assignment for name in ("leader", "main")]
    if placed[0] is None or placed[1] is None:
        assert any(found[name].failure for name in ("leader", "main"))
        return None
    first, second = ({tuple(d.values): d.pods for d in a.domains} for a in placed if a is not None)
    return first, second


def _slices_beside(
    free: Free, host: tuple[str, ...], domain: tuple[str, ...], size: int, slice_level: int
) -> int:
    """Slices of workers that a domain holds once the leader is on a host."""
    left = {h: n - (h == host) for h, n in free.items()}
    return sum(_pods(left, d) // size for d in _below(left, domain, slice_level))


@pytest.mark.parametrize("seed", range(6))
def test_a_leader_goes_where_its_workers_go(seed: int) -> None:
    """Found just where some domain has room for both, all of it in one such domain, on hosts that hold it."""
    free = _world(Random(900 + seed))
    topology, hosts = _topology(free), {host[-1]: host for host in free}
    for kind, level, (size, slice_level), mixed in product(
        ("required", "preferred", "unconstrained"), range(3), ((1, 2), (2, 1), (2, 2), (3, 1)), (False, True)
    ):
        if slice_level < level or (kind == "unconstrained" and (level or size > 1)):
            continue
        for workers in range(size, sum(free.values()) + 2, size):
            asked: dict[str, Any] = {kind: True if kind == "unconstrained" else LEVELS[level]}
            if size > 1:
                asked |= {"podSetSliceRequiredTopology": LEVELS[slice_level], "podSetSliceSize": size}
            places = _below(free, (), level) if kind == "required" else [()]
            can = [
                place
                for place in places
                for host, n in free.items()
                if n and host[: len(place)] == place
                if _slices_beside(free, host, place, size, slice_level) * size >= workers
            ]
            found = _together(topology, workers, mixed=mixed, **asked)
            case = (free, asked, workers, mixed)
            assert (found is not None) == bool(can), case
            if found is None:
                continue
            leader, main = found
            assert (sum(leader.values()), sum(main.values())) == (1, workers), case
            held = {h: leader.get((h,), 0) + main.get((h,), 0) for h in hosts}
            assert all(n <= free[hosts[h]] for h, n in held.items()), case
            assert {hosts[h][: level + 1] for h, n in held.items() if n} <= set(can) or kind != "required", (
                case
            )
            for domain in _below(free, (), slice_level):
                inside = sum(n for (h,), n in main.items() if hosts[h][: slice_level + 1] == domain)
                assert inside % size == 0, case


# Replacements


def _assigned(*hosts: tuple[str, int]) -> TopologyAssignment:
    return TopologyAssignment((HOST,), tuple(DomainCount((host,), pods) for host, pods in hosts))


def test_what_is_left_of_an_assignment() -> None:
    whole = _assigned(("h000", 2), ("h001", 3), ("h010", 1))
    kept, missing = without_node(whole, "h001")
    assert (kept, missing) == (_assigned(("h000", 2), ("h010", 1)), 3)
    assert without_node(whole, "elsewhere") == (whole, 0)


@pytest.mark.parametrize("missing", [1, 2, 3, 4])
def test_missing_pods_complete_the_slice_they_were_of(missing: int) -> None:
    free = {(f"b{b}", f"r{b}{r}", f"h{b}{r}{h}"): 4 for b in (0, 1) for r in (0, 1) for h in (0, 1)}
    topology = _topology(free)
    for size, first, second in product((2, 3, 4), range(5), range(5)):
        kept = _assigned(*((h, n) for h, n in (("h000", first), ("h101", second)) if n))
        request = _request(
            missing, required="block", podSetSliceRequiredTopology="rack", podSetSliceSize=size
        )
        racks = {"b0,r00": first, "b1,r10": second}
        if not kept.domains:
            want = ""
        elif missing % size == 0:
            want = "b0" if first else "b1"
        else:
            fitting = [rack for rack, n in racks.items() if n and (n + missing) % size == 0]
            want = min(fitting, default="")
        assert replacement_domain(topology, request, kept) == want, (size, first, second)
    plain = _assigned(("h010", 1))
    assert replacement_domain(topology, _request(missing, required="rack"), plain) == "b0,r01"
    assert replacement_domain(topology, _request(missing, required=HOST), plain) == "h010"
    assert replacement_domain(topology, _request(missing, preferred="rack"), plain) == ""
    assert replacement_domain(topology, _request(missing, required="row"), plain) == ""
