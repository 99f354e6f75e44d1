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
        first, count, rest = sets.starts[at], sets.lengths[at], sets.totals[at] - self.cpus[node]
        last = first + count - 1
        if first == last:
            sets.drop(at)
        elif node in (first, last):
            sets.starts[at], sets.lengths[at], sets.totals[at] = first + (node == first), count - 1, rest
        else:
            if node - first < last - node:
                before = sum(self.cpus[first:node])
            else:
                before = rest - sum(self.cpus[node + 1 : last + 1])
            sets.lengths[at], sets.totals[at] = node - first, before
            sets.insert(at + 1, node + 1, last - node, rest - before, sets.weights[at])

    def _join(self, node: int) -> None:
        """The node begins a set, or joins those beside it."""
        sets, weight, cpus = self.sets, self.weights[node], self.cpus[node]
        after = bisect_right(sets.starts, node)
        at = after - 1
        follows = after > 0 and sets.starts[at] + sets.lengths[at] == node and sets.weights[at] == weight
        leads = after < len(sets.starts) and sets.starts[after] == node + 1 and sets.weights[after] == weight
        if follows:
            sets.lengths[at] += 1
            sets.totals[at] += cpus
            if leads:
                sets.lengths[at] += sets.lengths[after]
                sets.totals[at] += sets.totals[after]
                sets.drop(after)
        elif leads:
            sets.starts[after] = node
            sets.lengths[after] += 1
            sets.totals[after] += cpus
        else:
            sets.insert(after, node, 1, cpus, weight)


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
