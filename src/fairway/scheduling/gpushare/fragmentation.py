"""How much of the free GPU of a node can the expected workload not use?

The FGD paper's measure (Weng et al., USENIX ATC 2023): draw a pod from the typical pods; which of the node's
free GPU-milli could it not use? All of them if it cannot run here, else those on devices with less free
than it wants of each. The expectation is the node's fragmentation, in GPU-milli; summed over the nodes and
relative to all free GPU-milli it is the cluster's fragmentation ratio.

A pod that asks for no GPU uses none, so its share of the typical pods always counts as lost: the ratio of an
empty cluster is the share of such pods.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fairway.scheduling.gpushare.devices import (
    COUNT,
    CPU,
    EACH,
    GPU,
    MAX_DEVICES,
    MODEL,
    MODELS,
    POD_COLUMNS,
    Float64s,
    Int64s,
    move,
)
from fairway.scheduling.gpushare.kernels import kernel, leaf

POPULARITY_PCT = 95  # the most popular shapes that make up this share of all pods are the typical ones
LEVEL = POD_COLUMNS  # column of a typical pod: which of the levels its EACH is
ABLE, SMALL = range(2)  # rows of a workspace: devices at or above a level; milli free on those below


class TypicalPods(NamedTuple):
    """The expected workload, most popular shape first.

    needs: int64[shape, POD_COLUMNS + 1], the last column LEVEL
    share: float64[shape], sums to 1
    levels: int64[level], the distinct EACH, ascending
    """

    needs: Int64s
    share: Float64s
    levels: Int64s


def typical_pods(pods: Iterable[tuple[int, ...]], popularity_pct: int = POPULARITY_PCT) -> TypicalPods:
    """The shapes that make up `popularity_pct` of the pods (rows of POD_COLUMNS); memory does not matter.

    Among equally popular shapes the one with more CPU, then milli, devices, models comes first, so that
    the order of the input does not matter.
    """
    counts = Counter((p[CPU], p[EACH], p[COUNT], p[MODELS]) for p in pods)
    ranked = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
    total = sum(counts.values())
    covered, kept = 0, []
    for shape, count in ranked:
        if covered * 100 >= popularity_pct * total:
            break
        covered += count
        kept.append((shape, count))
    levels = sorted({shape[1] for shape, _ in kept})
    needs = [(s[0], 0, s[2], s[1], s[3], levels.index(s[1])) for s, _ in kept]
    share = [count / total / (covered / total) for _, count in kept]
    return TypicalPods(
        np.array(needs, np.int64).reshape(-1, POD_COLUMNS + 1), np.array(share), np.array(levels, np.int64)
    )


@kernel
def lost_over_moves(
    nodes: Int64s, pods: Int64s, moves: Int64s, needs: Int64s, share: Float64s, levels: Int64s
) -> Float64s:
    """Carry the moves out on `nodes`; the fragmentation of all nodes visited so far, after each: float64[move].

    pods: int64[shape, POD_COLUMNS]
    moves: int64[move, 4] of row (-1: no node), shape, devices, and sign (1 placed, -1 removed, 0 only visited)
    """
    out = np.empty(len(moves))
    now = np.zeros(len(nodes))
    free, work = workspace(levels)
    total = 0.0
    for step in range(len(moves)):
        row = moves[step, 0]
        if row >= 0:
            move(nodes, row, pods[moves[step, 1]], moves[step, 2], moves[step, 3])
            copy_free(nodes, row, free)
            total -= now[row]
            now[row] = lost(nodes[row, CPU], nodes[row, MODEL], free, needs, share, levels, work)
            total += now[row]
        out[step] = total
    return out


@leaf
def workspace(levels: Int64s) -> tuple[Int64s, Int64s]:
    """What `lost` reads and overwrites: free milli per device, int64[8], and int64[2, level]."""
    return np.empty(MAX_DEVICES, np.int64), np.empty((2, len(levels)), np.int64)


@leaf
def copy_free(nodes: Int64s, row: int, free: Int64s) -> None:
    """Write the node's free milli per device into free: int64[8]."""
    for device in range(MAX_DEVICES):
        free[device] = nodes[row, GPU + device]


@leaf
def lost(
    cpu_milli_free: int,
    model: int,
    free: Int64s,
    needs: Int64s,
    share: Float64s,
    levels: Int64s,
    work: Int64s,
) -> float:
    """The fragmentation of a node with that much CPU and `free` milli on its devices. Overwrites `work`.

    Sums per cause, in the order of the typical pods, then over the causes: a policy that rounds its score
    down sees the last bit, and the published runs were summed like this.
    """
    total = _count_levels(free, levels, work)
    no_gpu_asked = no_gpu_asked_no_cpu = no_access = lacks_both = lacks_gpu = lacks_cpu = 0.0
    for t in range(len(share)):
        enough_cpu = cpu_milli_free >= needs[t, CPU]
        level = needs[t, LEVEL]
        if needs[t, COUNT] == 0:
            if enough_cpu:
                no_gpu_asked += share[t] * total
            else:
                no_gpu_asked_no_cpu += share[t] * total
        elif (needs[t, MODELS] >> model) & 1 == 0:
            no_access += share[t] * total
        elif work[ABLE, level] >= needs[t, COUNT]:
            if enough_cpu:
                lacks_gpu += share[t] * work[SMALL, level]
            else:
                lacks_cpu += share[t] * total
        elif enough_cpu:
            lacks_gpu += share[t] * total
        else:
            lacks_both += share[t] * total
    return lacks_both + lacks_gpu + lacks_cpu + no_gpu_asked + no_gpu_asked_no_cpu + no_access


@leaf
def _count_levels(free: Int64s, levels: Int64s, work: Int64s) -> int:
    """Fill `work` for these devices; return the milli free on all of them."""
    total = 0
    for level in range(len(levels)):
        work[ABLE, level] = 0
        work[SMALL, level] = 0
    for device in range(MAX_DEVICES):
        here = free[device]
        total += here
        for level in range(len(levels)):
            able = here >= levels[level]
            work[ABLE, level] += able
            work[SMALL, level] += 0 if able else here
    return total
