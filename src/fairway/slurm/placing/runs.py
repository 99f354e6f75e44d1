"""The sets of neighbours a need would choose from, kept from one look to the next.

Between two looks few nodes change: only what became of those is worked out, instead of all nodes anew. The same sets
as `quick` finds over arrays. Cost: O(changed nodes), and O(nodes) in C to find them.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairway.slurm.placing.need import Need
from fairway.slurm.placing.quick import Sets, Table, gather, sets_of
from fairway.slurm.placing.uses import Kinds, Numbering, bits, indexes

MOST_CHANGED = 64
"""With more nodes changed than that all is made anew."""


@dataclass(slots=True)
class Runs:
    """For one need: CPUs it would use of each node (0: does not fit, or is not allowed) and each node's weight; `sets`
    by place, which is the node."""

    cpus: list[int]
    weights: list[int]
    sets: Sets
    allowed: int
    kinds: Kinds
    fitting: int
    """Nodes that fit."""
    places: range = field(init=False)

    def __post_init__(self) -> None:
        self.places = range(len(self.cpus))

    def choose(self, need: Need, numbering: Numbering, min_nodes: int) -> list[int] | None:
        """As `choose_quick`."""
        if self.fitting < max(min_nodes, 1):
            return [] if self.fitting < min_nodes else None
        return gather(need, min_nodes, self.places, self.cpus, self.sets, numbering.confs)

    def follow(
        self,
        need: Need,
        table: Table,
        numbering: Numbering,
        kinds: Kinds,
        allowed: int,
        weights: NDArray[np.int64],
    ) -> bool:
        """Catch up with the nodes as they are now; False: too many are different."""
        moved = (kinds != self.kinds).nonzero()[0]
        other = allowed ^ self.allowed
        if len(moved) + other.bit_count() > MOST_CHANGED:
            return False
        nodes: list[int] = moved.tolist()
        nodes += [node for node in bits(other) if node not in nodes]
        for node in nodes:
            cpus, near = table.one(need, numbering, int(kinds[node])) if allowed >> node & 1 else (0, 0)
            if cpus or self.cpus[node]:
                self._put(node, cpus, int(weights[node]) * 256 + (255 - near if need.gres else 0))
        self.kinds[moved] = kinds[moved]
        self.allowed = allowed
        return True

    def _put(self, node: int, cpus: int, weight: int) -> None:
        was = self.cpus[node]
        if was and cpus and weight == self.weights[node]:
            self.sets.totals[bisect_right(self.sets.starts, node) - 1] += cpus - was
            self.cpus[node] = cpus
            return
        if was:
            self._cut(node)
            self.fitting -= 1
        self.cpus[node], self.weights[node] = cpus, weight
        if cpus:
            self._join(node)
            self.fitting += 1

    def _cut(self, node: int) -> None:
        """The node leaves its set, of which nothing, one part or two are left."""
        sets = self.sets
        at = bisect_right(sets.starts, node) - 1
        first, last, total = sets.starts[at], sets.starts[at] + sets.lengths[at] - 1, sets.totals[at]
        weight, rest = sets.weights[at], total - self.cpus[node]
        if node - first < last - node:
            before = sum(self.cpus[first:node])
        else:
            before = rest - sum(self.cpus[node + 1 : last + 1])
        parts = [(first, node - first, before, weight)] if node > first else []
        parts += [(node + 1, last - node, rest - before, weight)] if node < last else []
        self._replace(at, at + 1, parts)

    def _join(self, node: int) -> None:
        """The node begins a set, or joins those beside it."""
        sets, weight = self.sets, self.weights[node]
        low = high = bisect_right(sets.starts, node)
        first, count, total = node, 1, self.cpus[node]
        if low and sets.starts[low - 1] + sets.lengths[low - 1] == node and sets.weights[low - 1] == weight:
            low -= 1
            first, count, total = sets.starts[low], count + sets.lengths[low], total + sets.totals[low]
        if high < len(sets.starts) and sets.starts[high] == node + 1 and sets.weights[high] == weight:
            count, total = count + sets.lengths[high], total + sets.totals[high]
            high += 1
        self._replace(low, high, [(first, count, total, weight)])

    def _replace(self, low: int, high: int, parts: list[tuple[int, int, int, int]]) -> None:
        sets = self.sets
        sets.starts[low:high] = [one[0] for one in parts]
        sets.lengths[low:high] = [one[1] for one in parts]
        sets.totals[low:high] = [one[2] for one in parts]
        sets.weights[low:high] = [one[3] for one in parts]


def new_runs(
    need: Need, table: Table, numbering: Numbering, kinds: Kinds, allowed: int, weights: NDArray[np.int64]
) -> Runs:
    """All nodes looked at. O(nodes)."""
    cpus = np.zeros(len(kinds), dtype=np.int64)
    inside = indexes(allowed, len(kinds))
    cpus[inside] = table.look(need, numbering, kinds[inside])
    weight = weights * 256
    if need.gres:
        weight = weight + 255 - table.near[kinds]
    nodes = cpus.nonzero()[0]
    sets = sets_of(nodes, cpus[nodes], weight[nodes]) if len(nodes) else Sets([], [], [], [])
    sets.starts = nodes[sets.starts].tolist()
    return Runs(cpus.tolist(), weight.tolist(), sets, allowed, kinds.copy(), len(nodes))
