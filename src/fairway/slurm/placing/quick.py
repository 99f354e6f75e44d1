"""Choosing nodes over arrays, for needs without special wishes: the same nodes as `choosing`, found faster.

What a node offers depends on its kind; sets of neighbours, the best of them and the tightest node in it are found with
numpy. Only which nodes, and in which order; `placing` then works them out exactly. Gives up (None) where `choosing`
must look. Cost: O(nodes) in C, a few ten µs for a thousand nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairway.slurm.model.node import NodeConf
from fairway.slurm.placing.fitting import fit, select_cores
from fairway.slurm.placing.need import Need
from fairway.slurm.placing.uses import Numbering

UNKNOWN = -1
Ints = NDArray[np.int64]


def is_simple(need: Need) -> bool:
    """Nothing that needs more than counts of a node's free cores, memory and devices."""
    special = (
        need.contiguous
        or need.spread
        or need.lln
        or need.enforce_binding
        or need.overcommit
        or (need.serial_at_end and need.min_cpus == 1)
        or need.tasks_per_socket
        or need.tasks_per_core
        or need.threads_per_core
        or need.sockets_per_node
        or need.cores_per_socket
        or need.max_cpus is not None
        or need.units != "core"
        or need.max_cpus_per_node
    )
    return not special and not any(one.per_job or one.per_socket for one in need.gres)


@dataclass(slots=True)
class Table:
    """For one need: `cpus: int64[kind]` it would use of a node (0: does not fit, UNKNOWN), `near: int64[kind]`."""

    cpus: Ints = field(default_factory=lambda: np.full(64, UNKNOWN, dtype=np.int64))
    near: Ints = field(default_factory=lambda: np.zeros(64, dtype=np.int64))
    seen: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Kind → both, for those who look at few."""

    def one(self, need: Need, numbering: Numbering, kind: int) -> tuple[int, int]:
        """CPUs it would use of a node of this kind, and how near its GPUs are."""
        found = self.seen.get(kind)
        if found is None:
            self.look(need, numbering, np.array([kind]))
            found = self.seen[kind] = int(self.cpus[kind]), int(self.near[kind])
        return found

    def look(self, need: Need, numbering: Numbering, kinds: NDArray[np.integer[Any]]) -> Ints:
        """CPUs by node; kinds not seen before are looked at now."""
        count = len(numbering.examples)
        if count > len(self.cpus):
            more = max(count, len(self.cpus) * 2)
            self.cpus = np.concatenate([self.cpus, np.full(more - len(self.cpus), UNKNOWN, dtype=np.int64)])
            self.near = np.concatenate([self.near, np.zeros(more - len(self.near), dtype=np.int64)])
        found: Ints = self.cpus[kinds]
        unseen = (found < 0).nonzero()[0]
        if len(unseen):
            for kind in sorted(set(kinds[unseen].tolist())):
                self._fill(need, numbering, kind)
            found = self.cpus[kinds]
        return found

    def _fill(self, need: Need, numbering: Numbering, kind: int) -> None:
        node, use = numbering.examples[kind]
        conf = numbering.confs[node]
        one = fit(need, conf, use)
        if one is None:
            self.cpus[kind] = 0
            return
        self.cpus[kind] = select_cores(need, conf, one, (0,) * len(need.gres), True).cpus
        self.near[kind] = one.near_gpus


def choose_quick(
    need: Need,
    table: Table,
    numbering: Numbering,
    kinds: NDArray[np.integer[Any]],
    nodes: NDArray[np.intp],
    *,
    weights: Ints,
    min_nodes: int,
) -> list[int] | None:
    """The nodes in the order they are taken; [] where too few fit; None: `choosing` must look. `kinds`: by node."""
    kinds = kinds[nodes]
    cpus = table.look(need, numbering, kinds)
    fitting = cpus.nonzero()[0]
    if len(fitting) < max(min_nodes, 1):
        return [] if len(fitting) < min_nodes else None
    nodes, cpus, kinds = nodes[fitting], cpus[fitting], kinds[fitting]
    weight = weights[nodes] * 256
    if need.gres:
        weight = weight + 255 - table.near[kinds]
    return gather(
        need, min_nodes, nodes.tolist(), cpus.tolist(), sets_of(nodes, cpus, weight), numbering.confs
    )


@dataclass(slots=True)
class Sets:
    """Neighbours of one weight: each set's place, nodes, CPUs and weight."""

    starts: list[int]
    lengths: list[int]
    totals: list[int]
    weights: list[int]

    def insert(self, at: int, start: int, length: int, total: int, weight: int) -> None:
        self.starts.insert(at, start)
        self.lengths.insert(at, length)
        self.totals.insert(at, total)
        self.weights.insert(at, weight)

    def drop(self, at: int) -> None:
        del self.starts[at], self.lengths[at], self.totals[at], self.weights[at]


def sets_of(nodes: NDArray[np.intp], cpus: Ints, weights: Ints) -> Sets:
    """The sets of nodes that fit, all three in order of nodes; some do."""
    first = np.ones(len(nodes), dtype=np.bool_)
    first[1:] = (nodes[1:] - nodes[:-1] != 1) | (weights[1:] != weights[:-1])
    starts = first.nonzero()[0]
    lengths = np.append(starts[1:], len(nodes)) - starts
    totals = np.add.reduceat(cpus, starts)
    return Sets(starts.tolist(), lengths.tolist(), totals.tolist(), weights[starts].tolist())


def gather(
    need: Need,
    min_nodes: int,
    nodes: Sequence[int],
    cpus: Sequence[int],
    sets: Sets,
    confs: Sequence[NodeConf],
) -> list[int] | None:
    """Nodes of the best sets until they suffice; None: `choosing` must look. `nodes`, `cpus`: by place."""
    most = need.max_nodes
    if need.num_tasks and most > need.num_tasks:
        most = max(need.num_tasks, min_nodes)
    left_nodes, left_cpus = max(min_nodes, need.req_nodes), need.min_cpus
    slack = need.req_nodes - min_nodes if need.req_nodes > min_nodes else 0
    room = max(need.min_cpus, need.min_gres_cpus * left_nodes, need.min_job_gres_cpus)
    min_left, taken = min_nodes, list[int]()
    alive = list(range(len(sets.starts)))
    least_cpus = max(need.node_min_cpus, need.min_gres_cpus)
    while most > 0 and alive:
        at = _best(sets, alive, left_cpus, left_nodes - slack)
        alive.remove(at)
        first, count = sets.starts[at], sets.lengths[at]
        order = range(first, first + count)
        if left_nodes <= 1:
            tight = _tightest(cpus[first : first + count], left_cpus)
            if tight >= 0:
                order = range(first + tight, first + tight + 1)
        for place in order:
            if most == 0 or (left_nodes <= 0 and left_cpus <= 0):
                break
            offered, node = cpus[place], nodes[place]
            if most == 1 and offered < left_cpus:
                continue
            if not need.whole_node:
                others = max(min_left - 1, 0) * confs[node].threads
                offered = min(offered, max(room - others, least_cpus))
            taken.append(node)
            left_cpus, room = left_cpus - offered, room - offered
            left_nodes, min_left, most = left_nodes - 1, min_left - 1, most - 1
        if left_nodes <= 0 and left_cpus <= 0:
            return taken
    return taken if left_cpus <= 0 and left_nodes - slack <= 0 else None


def _tightest(cpus: Sequence[int], least: int) -> int:
    """The place of the fewest CPUs that suffice, the first of equals; -1: none does."""
    fewest = min(cpus)
    if fewest < least:
        fewest = min([count for count in cpus if count >= least], default=-1)
    return cpus.index(fewest) if fewest >= least else -1


def _best(sets: Sets, alive: list[int], cpus: int, least: int) -> int:
    """The lightest set; of those the smallest that suffices, else the largest, as they come (_eval_nodes)."""
    totals, lengths, weights = sets.totals, sets.lengths, sets.weights
    lightest = min([weights[at] for at in alive])
    best, best_ok = -1, False
    for at in alive:
        if weights[at] != lightest:
            continue
        more = totals[at]
        ok = more >= cpus and lengths[at] >= least
        if best < 0 or (ok and (not best_ok or more < totals[best])) or (not ok and more > totals[best]):
            best, best_ok = at, ok
    return best
