"""FGD: the node and device whose fragmentation grows least.

Fragmentation gradient descent (Weng et al., USENIX ATC 2023): place the pod in thought, measure the node's
fragmentation before and after, take the steepest descent. Which device a sharing pod gets is part of the
search; a pod that takes whole devices gets the first free ones.
"""

from math import exp

from fairway.kernels import kernel, leaf
from fairway.scheduling.gpushare.devices import (
    COUNT,
    CPU,
    EACH,
    GPU,
    MAX_DEVICES,
    MILLI,
    Float64s,
    Int64s,
    charge,
    fits,
    tightest,
)
from fairway.scheduling.gpushare.fragmentation import lost


@kernel
def score(
    nodes: Int64s, rows: Int64s, pod: Int64s, scores: Int64s, chosen: Int64s, needs: Int64s, share: Float64s
) -> None:
    """0 … 100, 50 for no change: the best over the devices the pod could get, which become `chosen`."""
    for row in rows:
        scores[row], chosen[row] = -1, 0
        if not fits(nodes, row, pod):
            continue
        before = lost(nodes, row, needs, share)
        for candidate in range(MAX_DEVICES):
            devices = candidate_devices(nodes, row, pod, candidate)
            if devices < 0:
                continue
            charge(nodes, row, pod[CPU], devices, pod[EACH])
            drop = before - lost(nodes, row, needs, share)
            charge(nodes, row, -pod[CPU], devices, -pod[EACH])
            points = int(1.0 / (1.0 + exp(-(drop / 1000.0))) * 100.0)
            if points > scores[row]:
                scores[row], chosen[row] = points, devices


@leaf
def candidate_devices(nodes: Int64s, row: int, pod: Int64s, candidate: int) -> int:
    """The n-th of eight bit masks worth trying, or -1: each device for a sharing pod, else the tightest ones."""
    if pod[COUNT] != 1 or pod[EACH] >= MILLI:
        return tightest(nodes, row, pod) if candidate == 0 else -1
    free = nodes[row, GPU + candidate]
    for lower in range(candidate):  # as much free on a lower device: the same node, and it wins the tie
        if nodes[row, GPU + lower] == free:
            return -1
    return 1 << candidate if free >= pod[EACH] else -1
