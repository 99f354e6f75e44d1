"""Which CPUs does a container get out of those that are free? The CPU manager's two ways of picking.

*Packed*: whole NUMA nodes and sockets where it needs that much, then whole caches (where asked for), whole cores,
single threads; always of what has fewest free CPUs. *Distributed*: evenly over as few NUMA nodes as can serve it, and
of those choices the one that leaves the machine most balanced.

Source: pkg/kubelet/cm/cpumanager/cpu_assignment.go (v1.36), KEP-2902.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from math import floor, inf, sqrt

from fairway.devices.numa.cputopology import NO_CPUS, Cpu, Cpus, CpuTopology


class PickError(Exception):
    """There are not enough."""


class Picking:
    """CPUs taken so far, of those that are free. `needed`: how many more."""

    def __init__(self, topology: CpuTopology, free: Cpus, needed: int, *, spread: bool = False) -> None:
        self.topology = topology
        self.free = {n: topology.cpus[n] for n in sorted(free) if n in topology.cpus}
        self.needed = needed
        self.taken: set[int] = set()
        self._spread = spread
        self._numa_holds_sockets = topology.sockets >= topology.numa

    # What is free, in the order in which it is taken: that with fewest free CPUs first

    def _ordered(self, ids: Iterable[int], part: Callable[[Cpu], int]) -> list[int]:
        sizes = dict.fromkeys(ids, 0)
        for cpu in self.free.values():
            if part(cpu) in sizes:
                sizes[part(cpu)] += 1
        return sorted(sizes, key=lambda i: (sizes[i], i))

    def _below(
        self, parents: Sequence[int], parent: Callable[[Cpu], int], part: Callable[[Cpu], int]
    ) -> list[int]:
        """Parts of the parents, in the parents' order."""
        return [
            found
            for at in parents
            for found in self._ordered({part(c) for c in self.free.values() if parent(c) == at}, part)
        ]

    def numa_nodes(self) -> list[int]:
        if self._numa_holds_sockets:
            return self._ordered({c.numa for c in self.free.values()}, _numa)
        return self._below(self.sockets(), _socket, _numa)

    def sockets(self) -> list[int]:
        if self._numa_holds_sockets:
            return self._below(self.numa_nodes(), _numa, _socket)
        return self._ordered({c.socket for c in self.free.values()}, _socket)

    def caches(self) -> list[int]:
        return self._below(self.numa_nodes(), _numa, _cache)

    def cores(self) -> list[int]:
        if self._numa_holds_sockets:
            return self._below(self.sockets(), _socket, _core)
        return self._below(self.numa_nodes(), _numa, _core)

    def cpus(self) -> list[int]:
        if self._spread:
            return [n for s in self.sockets() for n, c in self.free.items() if c.socket == s]
        return [n for core in self.cores() for n, c in self.free.items() if c.core == core]

    def free_in(self, part: Callable[[Cpu], int], at: int) -> Cpus:
        return frozenset(n for n, c in self.free.items() if part(c) == at)

    def whole(self, ids: Sequence[int], part: Callable[[Cpu], int], size: int | None = None) -> list[int]:
        """Those of which every CPU is free. `size`: CPUs of each, where all are alike."""
        return [i for i in ids if len(self.free_in(part, i)) == (size or len(self._all_in(part, i)))]

    def _all_in(self, part: Callable[[Cpu], int], at: int) -> Cpus:
        return frozenset(n for n, c in self.topology.cpus.items() if part(c) == at)

    # Taking

    def take(self, cpus: Iterable[int]) -> None:
        found = set(cpus)
        self.taken |= found
        self.free = {n: c for n, c in self.free.items() if n not in found}
        self.needed -= len(found)

    def take_whole(self, ids: Sequence[int], part: Callable[[Cpu], int], size: int | None = None) -> None:
        for at in self.whole(ids, part, size):
            cpus = self._all_in(part, at)
            if self.needed >= len(cpus):
                self.take(cpus)

    def take_levels(self) -> None:
        """Whole NUMA nodes and sockets; the larger of them first."""
        order = (True, False) if self._numa_holds_sockets else (False, True)
        for is_numa in order:
            if self.needed > 0 and is_numa:
                self.take_whole(self.numa_nodes(), _numa)
            elif self.needed > 0:
                self.take_whole(self.sockets(), _socket, self.topology.per_socket)

    def take_caches(self) -> None:
        """Whole caches, and the last CPUs out of one."""
        for cache in self.caches():
            if self.needed >= self.topology.per_cache:
                self.take_whole(self.caches(), _cache)
            if self.needed < 1:
                return
            self._take_part_of(cache)
            if self.needed < 1:
                return

    def _take_part_of(self, cache: int) -> None:
        per_core = self.topology.per_core
        wanted = -(-self.needed // per_core)
        cores = sorted({c.core for c in self.free.values() if c.uncore == cache})[:wanted]
        cpus = [n for n, c in self.free.items() if c.core in set(cores)]
        if self.needed % 2 and per_core > 1 and len(cpus) > self.needed:
            cpus = cpus[:-1]
        if len(cpus) == self.needed:
            self.take(cpus)

    def take_rest(self) -> None:
        if not self._spread:
            self.take_whole(self.cores(), _core, self.topology.per_core)
        if self.needed > 0:
            self.take(self.cpus()[: self.needed])


def packed(
    topology: CpuTopology, free: Cpus, count: int, *, spread: bool = False, by_cache: bool = False
) -> Cpus:
    """Raises: PickError. `spread`: single threads over the cores; `by_cache`: of few last-level caches."""
    if count < 1:
        return NO_CPUS
    picking = _begun(topology, free, count, spread=spread)
    picking.take_levels()
    if by_cache and picking.needed > 0:
        picking.take_caches()
    if picking.needed > 0:
        picking.take_rest()
    return frozenset(picking.taken)


def _begun(topology: CpuTopology, free: Cpus, count: int, *, spread: bool) -> Picking:
    if count > len(free & topology.cpus.keys()):
        raise PickError(
            f"not enough cpus available to satisfy request: requested={count}, available={len(free)}"
        )
    return Picking(topology, free, count, spread=spread)


def distributed(topology: CpuTopology, free: Cpus, count: int, group: int, *, spread: bool = False) -> Cpus:
    """In groups of so many CPUs (a core's, or one). Raises: PickError."""
    if count < 1:
        return NO_CPUS
    if count % group:
        return packed(topology, free, count, spread=spread)
    picking = _begun(topology, free, count, spread=spread)
    for size in _sizes(picking, group):
        chosen = _most_balanced(picking, count, size, group)
        if chosen is None:
            continue
        nodes, rest_nodes = chosen
        each = count // len(nodes) // group * group
        for numa in nodes:
            picking.take(packed(topology, picking.free_in(_numa, numa), each, spread=spread))
        while picking.needed > 0:
            for numa in rest_nodes:
                there = picking.free_in(_numa, numa)
                if picking.needed > 0 and len(there) >= group:
                    picking.take(packed(topology, there, group, spread=spread))
        return frozenset(picking.taken)
    return packed(topology, free, count, spread=spread)


def _sizes(picking: Picking, group: int) -> range:
    """How many NUMA nodes could do."""
    topology = picking.topology
    groups = -(-len(topology.cpus) // group)
    groups_per_node = -(-groups // len(topology.numa_nodes))
    needed = -(-picking.needed // group)
    return range(-(-needed // groups_per_node), min(needed, len(picking.numa_nodes())) + 1)


Choice = tuple[tuple[int, ...], tuple[int, ...]]
"""NUMA nodes that give evenly, and those of them that give what is left over."""


def _most_balanced(picking: Picking, count: int, size: int, group: int) -> Choice | None:
    order = picking.numa_nodes()
    there = {numa: len(picking.free_in(_numa, numa)) for numa in order}
    best: Choice | None = None
    best_balance = inf
    for nodes in combinations(order, size):
        if best_balance == 0:
            break
        if sum(there[n] // group for n in nodes) * group < count or sum(there[n] for n in nodes) < count:
            continue
        each = count // size // group * group
        if any(there[n] < each for n in nodes):
            continue
        after = {n: there[n] - (each if n in nodes else 0) for n in order}
        balance, rest = _balanced(after, nodes, count - each * size, group)
        if balance < best_balance:
            best_balance, best = balance, (nodes, rest)
    return best


def _balanced(
    after: dict[int, int], nodes: Sequence[int], left: int, group: int
) -> tuple[float, tuple[int, ...]]:
    """The least deviation that the rest can leave, and which nodes give it."""
    if not left:
        return _deviation(list(after.values())), ()
    best, best_balance = tuple[int, ...](), inf
    able = [n for n in nodes if after[n] >= group]
    for size in range(len(able), 0, -1):
        for subset in combinations(able, size):
            if sum(after[n] for n in subset) < left:
                continue
            given = _given(after, subset, left, group)
            balance = inf if given is None else _deviation(list(given.values()))
            if balance < best_balance:
                best_balance, best = balance, subset
    return best_balance, best


def _given(after: dict[int, int], subset: Sequence[int], left: int, group: int) -> dict[int, int] | None:
    """What is free once these nodes gave the rest in turns; None where they have it in no such groups."""
    free = dict(after)
    while left > 0:
        before = left
        for n in subset:
            if left > 0 and free[n] >= group:
                free[n] -= group
                left -= group
        if left == before:
            return None
    return free


def _deviation(values: Sequence[int]) -> float:
    """Mean and deviation to three digits, as upstream compares them."""
    mean = floor(sum(values) / len(values) * 1000 + 0.5) / 1000
    return floor(sqrt(sum((v - mean) ** 2 for v in values) / len(values)) * 1000 + 0.5) / 1000


def _numa(cpu: Cpu) -> int:
    return cpu.numa


def _socket(cpu: Cpu) -> int:
    return cpu.socket


def _core(cpu: Cpu) -> int:
    return cpu.core


def _cache(cpu: Cpu) -> int:
    return cpu.uncore
