"""FGD: the node and device whose fragmentation grows least.

Fragmentation gradient descent (Weng et al., USENIX ATC 2023): place the pod in thought, measure the node's
fragmentation before and after, take the steepest descent. Which device a sharing pod gets is part of the
search; a pod that takes whole devices gets the first free ones.
"""

from math import exp

from fairway.scheduling.gpushare.devices import (
    COUNT,
    CPU,
    EACH,
    GPU,
    MAX_DEVICES,
    MILLI,
    MODEL,
    Float64s,
    Int64s,
    fits,
    tightest,
)
from fairway.scheduling.gpushare.fragmentation import copy_free, lost, workspace
from fairway.scheduling.gpushare.kernels import kernel, leaf


@kernel
def score(
    nodes: Int64s,
    rows: Int64s,
    pod: Int64s,
    scores: Int64s,
    chosen: Int64s,
    needs: Int64s,
    share: Float64s,
    levels: Int64s,
) -> None:
    """0 … 100, 50 for no change: the best over the devices the pod could get, which become `chosen`."""
    free, work = workspace(levels)
    for row in rows:
        scores[row], chosen[row] = -1, 0
        if not fits(nodes, row, pod):
            continue
        copy_free(nodes, row, free)
        cpu = nodes[row, CPU]
        before = lost(cpu, nodes[row, MODEL], free, needs, share, levels, work)
        for device in range(MAX_DEVICES):
            choice = nth_choice(nodes, row, pod, device)
            if choice < 0:
                continue
            for d in range(MAX_DEVICES):
                free[d] -= pod[EACH] * ((choice >> d) & 1)
            after = lost(cpu - pod[CPU], nodes[row, MODEL], free, needs, share, levels, work)
            for d in range(MAX_DEVICES):
                free[d] += pod[EACH] * ((choice >> d) & 1)
            points = int(1.0 / (1.0 + exp(-((before - after) / 1000.0))) * 100.0)
            if points > scores[row]:
                scores[row], chosen[row] = points, choice


@leaf
def nth_choice(nodes: Int64s, row: int, pod: Int64s, n: int) -> int:
    """The n-th of eight candidate device masks, or -1: one device each for a sharing pod, else the tightest ones."""
    if pod[COUNT] != 1 or pod[EACH] >= MILLI:
        return tightest(nodes, row, pod) if n == 0 else -1
    free = nodes[row, GPU + n]
    if free < pod[EACH]:
        return -1
    for lower in range(n):  # a lower device with as much free leaves the same node, and wins the tie
        if nodes[row, GPU + lower] == free:
            return -1
    return 1 << n
