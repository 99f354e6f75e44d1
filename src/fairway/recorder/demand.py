"""How much of the free GPU could the pods of this run not use?

Draw a GPU pod from those of the run: the free GPU of a node is lost to it where it does not fit there. The
expected loss over all free GPU is the fragmentation. GPU, CPU and memory of each node decide; taints,
affinity and which device of a node is free do not.
Source: the measure F of Weng et al., USENIX ATC 2023, restricted to GPU pods and without device indexes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairway.recorder.facts import Facts
from fairway.recorder.nodes import NodeLife
from fairway.recorder.steps import FAR, Floats, Ints

# The most frequent sizes stand for all: in the openb trace eight cover nine GPU pods of ten.
SIZES = 8


def fragmentation_at(facts: Facts, lives: Sequence[NodeLife], moments: Ints) -> list[float | None]:
    """Just before each of these moments, which rise; None where no GPU is free or no pod asked for any.

    O(changes + moments × nodes × SIZES), on arrays.
    """
    sizes, shares = demand_of(facts)
    if not len(sizes) or not lives:
        return [None] * len(moments)
    times, life, deltas = _changes(facts, lives)
    free = np.zeros((len(lives), 3), np.int64)
    found: list[float | None] = []
    last: float | None = None
    done = 0
    for upto in np.searchsorted(times, moments, side="left").tolist():
        if upto > done or not found:
            np.add.at(free, life[done:upto], deltas[done:upto])
            done = upto
            last = fragmentation(free, sizes, shares)
        found.append(last)
    return found


def fragmentation(free: Ints, sizes: Ints, shares: Floats) -> float | None:
    """Expected share of free GPU lost: `free`, `sizes` int64[n, 3] of milli-GPU, milli-CPU, bytes."""
    # Full nodes have nothing to lose, nor has one that is not there: of an elastic fleet's month, most.
    free = free[free[:, 0] != 0]
    gpu = free[:, 0]
    total = int(gpu.sum())
    if total <= 0:
        return None
    unfit = np.zeros((len(sizes), len(free)), np.bool_)
    for column in range(3):
        unfit |= free[:, column] < sizes[:, column : column + 1]
    return float(shares @ (unfit @ gpu)) / total


def demand_of(facts: Facts) -> tuple[Ints, Floats]:
    """The most frequent sizes of GPU pods that held anything, and their shares."""
    rows = np.stack([facts.interval_gpu, facts.interval_cpu, facts.interval_memory], axis=1)
    sizes, counts = np.unique(rows[facts.interval_gpu > 0], axis=0, return_counts=True)
    order = np.lexsort((np.arange(len(counts)), -counts))[:SIZES]
    return sizes[order], counts[order] / max(int(counts[order].sum()), 1)


def _changes(facts: Facts, lives: Sequence[NodeLife]) -> tuple[Ints, Ints, Ints]:
    """What became free or taken: times (rising), node lives, int64[n, 3] of milli-GPU, milli-CPU, bytes."""
    offers = []
    for index, life in enumerate(lives):
        before = (0, 0, 0)
        for offer in life.offers:
            after = offer[1:4]
            offers.append((offer.since, index, *(a - b for a, b in zip(after, before, strict=True))))
            before = after
        if life.deleted >= 0:
            offers.append((life.deleted, index, *(-b for b in before)))
    rows = np.array(offers, np.int64).reshape(-1, 5)
    held = np.stack([facts.interval_gpu, facts.interval_cpu, facts.interval_memory], axis=1)
    is_over = facts.interval_is_open == 0
    times = np.concatenate([rows[:, 0], facts.interval_start, facts.interval_end[is_over]])
    life_of = np.concatenate([rows[:, 1], facts.interval_life, facts.interval_life[is_over]])
    deltas = np.concatenate([rows[:, 2:], -held, held[is_over]])
    order = np.argsort(np.minimum(times, FAR), kind="stable")
    return times[order], life_of[order], deltas[order]
