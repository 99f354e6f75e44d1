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

from fairway.kernels import kernel, leaf
from fairway.scheduling.gpushare.devices import (
    COUNT,
    CPU,
    EACH,
    GPU,
    MODEL,
    MODELS,
    POD_COLUMNS,
    RUNNING,
    Float64s,
    Int64s,
    gpu_milli_free,
    move,
)

POPULARITY_PCT = 95  # the most popular shapes that make up this share of all pods are the typical ones


class TypicalPods(NamedTuple):
    """The expected workload, most popular shape first.

    needs: int64[shape, POD_COLUMNS], memory 0
    share: float64[shape], sums to 1
    """

    needs: Int64s
    share: Float64s


def typical_pods(
    pods: Iterable[tuple[int, ...]], models_as_written: Iterable[str], popularity_pct: int = POPULARITY_PCT
) -> TypicalPods:
    """The shapes that make up `popularity_pct` of the pods.

    Takes each pod's row of POD_COLUMNS and its wish for GPU models as the user wrote it. Two spellings of one
    wish are two shapes, memory does not matter. Among equally popular shapes the one with more CPU, then
    milli, devices, a later spelling comes first: the order of the input does not matter.
    """
    counts = Counter(
        (p[CPU], p[EACH], p[COUNT], written, p[MODELS])
        for p, written in zip(pods, models_as_written, strict=True)
    )
    ranked = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
    total = sum(counts.values())
    covered, kept = 0, []
    for shape, count in ranked:
        if covered * 100 >= popularity_pct * total:
            break
        covered += count
        kept.append((shape, count))
    needs = [(s[0], 0, s[2], s[1], s[4]) for s, _ in kept]
    share = [count / total / (covered / total) for _, count in kept]
    return TypicalPods(np.array(needs, np.int64).reshape(-1, POD_COLUMNS), np.array(share))


@kernel
def lost_over_moves(
    nodes: Int64s, pods: Int64s, moves: Int64s, needs: Int64s, share: Float64s, now: Float64s, out: Float64s
) -> None:
    """Carry the moves out on `nodes`; write the fragmentation of all nodes visited so far, after each, to `out`.

    pods: int64[shape, POD_COLUMNS]
    moves: int64[move, 4] of row (-1: no node), shape, devices, and sign (1 placed, -1 removed, 0 only visited)
    now: float64[node], zeros: becomes the fragmentation of each node visited; out: float64[move]
    """
    total = 0.0
    for step in range(len(moves)):
        row = moves[step, 0]
        if row >= 0:
            move(nodes, row, pods[moves[step, 1]], moves[step, 2], moves[step, 3])
            total -= now[row]
            now[row] = lost(nodes, row, needs, share)
            total += now[row]
        out[step] = total


@leaf
def lost(nodes: Int64s, row: int, needs: Int64s, share: Float64s) -> float:
    """The fragmentation of a node: expected unusable GPU-milli.

    Sums per cause, in the order of the typical pods, then over the causes: a policy that rounds its score
    down sees the last bit, and the published runs were summed like this.
    """
    total = gpu_milli_free(nodes, row)
    no_gpu_asked = no_gpu_asked_no_cpu = no_access = lacks_both = lacks_gpu = lacks_cpu = 0.0
    for t in range(len(share)):
        each = needs[t, EACH]
        able = 0
        small = 0
        for device in range(GPU, RUNNING):
            free = nodes[row, device]
            able += free >= each
            small += free * (free < each)
        enough_cpu = nodes[row, CPU] >= needs[t, CPU]
        if each == 0:
            no_gpu_asked += share[t] * total * enough_cpu
            no_gpu_asked_no_cpu += share[t] * total * (not enough_cpu)
        elif (needs[t, MODELS] >> nodes[row, MODEL]) & 1 == 0:
            no_access += share[t] * total
        elif enough_cpu:
            lacks_gpu += share[t] * (small if able >= needs[t, COUNT] else total)
        elif able >= needs[t, COUNT]:
            lacks_cpu += share[t] * total
        else:
            lacks_both += share[t] * total
    return lacks_both + lacks_gpu + lacks_cpu + no_gpu_asked + no_gpu_asked_no_cpu + no_access
