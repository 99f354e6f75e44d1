"""Which devices can a node use: slices gathered into pools, in the order in which the allocator looks at them.

Old generations are left out. A pool may be incomplete (not all slices of its newest generation are there) or invalid
(names twice, counters that do not exist): it gives nothing then, and the reason is kept.

Source: structured/internal/incubating/pools_incubating.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from fairway.scheduling.devices.facts import Slice

CounterSets = Mapping[str, Mapping[str, Fraction]]


class PoolId(NamedTuple):
    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """`slices`: those with devices for the node, by name; `elsewhere`: the pool's others, whose devices take counters
    too."""

    id: PoolId
    slices: tuple[Slice, ...] = ()
    elsewhere: tuple[Slice, ...] = ()
    counters: CounterSets | None = None
    is_incomplete: bool = False
    invalid: str = ""

    @property
    def gives_nothing(self) -> bool:
        return self.is_incomplete or bool(self.invalid)


class Published:
    """All slices of a cluster, indexed: by node, shared between nodes, by pool."""

    def __init__(self, slices: Iterable[Slice] = ()) -> None:
        self._of_node: dict[str, list[Slice]] = {}
        self._shared: list[Slice] = []
        self._of_pool: dict[PoolId, list[Slice]] = {}
        for one in sorted(slices, key=lambda s: s.name):
            node = one.where.node if one.where is not None else ""
            if node and not one.counters:
                self._of_node.setdefault(node, []).append(one)
            else:
                self._shared.append(one)
            self._of_pool.setdefault(PoolId(one.driver, one.pool), []).append(one)

    def own_pools(self, node: str) -> frozenset[PoolId]:
        return frozenset(PoolId(s.driver, s.pool) for s in self._of_node.get(node, ()))

    def shared_pools(self) -> frozenset[PoolId]:
        """Pools with a slice that more than one node may use."""
        return frozenset(PoolId(s.driver, s.pool) for s in self._shared)

    def pools_for(self, node: str, labels: Mapping[str, str]) -> tuple[Pool, ...]:
        """The pools that one node can use. O(its slices + shared slices)."""
        gathered: dict[PoolId, list[Slice]] = {}
        for one in (*self._of_node.get(node, ()), *self._shared):
            if _is_relevant(one, node, labels):
                _add(gathered, one)
        plain: list[Pool] = []
        binding: list[Pool] = []
        for pool_id, slices in gathered.items():
            found = self._pool(pool_id, slices)
            if found is not None:
                (binding if _has_binding_conditions(found) else plain).append(found)
        return (*sorted(plain, key=_order), *sorted(binding, key=_order))

    def _pool(self, pool_id: PoolId, slices: list[Slice]) -> Pool | None:
        first = slices[0]
        if len(slices) == first.count:
            return _built(pool_id, slices, ())
        of_pool = self._of_pool[pool_id]
        if any(s.generation > first.generation for s in of_pool):
            # A newer generation has nothing for this node: the driver is about to take this one away.
            return None
        every = [s for s in of_pool if s.generation == first.generation]
        if len(every) != first.count:
            return Pool(pool_id, is_incomplete=True)
        return _built(pool_id, slices, every)


def _order(pool: Pool) -> PoolId:
    return pool.id


def _is_relevant(one: Slice, node: str, labels: Mapping[str, str]) -> bool:
    if one.counters:
        return True
    if one.where is not None:
        return one.where.reaches(node, labels)
    return any(d.where.reaches(node, labels) for d in one.devices)


def _add(gathered: dict[PoolId, list[Slice]], one: Slice) -> None:
    """Only the newest generation stays."""
    pool_id = PoolId(one.driver, one.pool)
    known = gathered.get(pool_id)
    if known is None or one.generation > known[0].generation:
        gathered[pool_id] = [one]
    elif one.generation == known[0].generation:
        known.append(one)


def _built(pool_id: PoolId, slices: list[Slice], every: Sequence[Slice]) -> Pool:
    ordered = sorted(slices, key=lambda s: s.name)
    with_devices = tuple(s for s in ordered if not s.counters)
    wrong = _repeated_device(with_devices)
    if wrong:
        return Pool(pool_id, invalid=wrong)
    counters: dict[str, Mapping[str, Fraction]] = {}
    for one in ordered:
        if one.duplicate_set:
            return Pool(pool_id, invalid=f"duplicate counter set name {one.duplicate_set}")
        for name, of_set in one.counters.items():
            if name in counters:
                return Pool(pool_id, invalid=f"duplicate counter set name {name}")
            counters[name] = of_set
    seen = {s.name for s in ordered}
    elsewhere = tuple(s for s in every if s.name not in seen)
    wrong = _unknown_counter(counters, ordered) or _unknown_counter(counters, elsewhere)
    if wrong:
        return Pool(pool_id, invalid=wrong)
    return Pool(pool_id, with_devices, elsewhere, counters)


def _repeated_device(slices: Iterable[Slice]) -> str:
    seen = set()
    for one in slices:
        for device in one.devices:
            if device.id.device in seen:
                return f"duplicate device name {device.id.device}"
            seen.add(device.id.device)
    return ""


def _unknown_counter(counters: CounterSets, slices: Iterable[Slice]) -> str:
    for one in slices:
        for device in one.devices:
            for consumed in device.consumes:
                of_set = counters.get(consumed.counter_set)
                if of_set is None:
                    return f"counter set {consumed.counter_set} not found"
                for name, _ in consumed.counters:
                    if name not in of_set:
                        return f"counter {name} not found in counter set {consumed.counter_set}"
    return ""


def _has_binding_conditions(pool: Pool) -> bool:
    return any(d.binding for s in pool.slices for d in s.devices)
