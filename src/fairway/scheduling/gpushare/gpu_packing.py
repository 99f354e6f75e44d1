"""GpuPacking: used devices first, then free devices of used nodes, then idle nodes.

Baseline of the FGD paper, after AntMan (Xiao et al., OSDI 2020).
"""

from fairway.kernels import kernel, leaf
from fairway.scheduling.gpushare.devices import (
    COUNT,
    DEVICES,
    GPU,
    MAX_DEVICES,
    MILLI,
    Int64s,
    fits,
    tightest,
)

BEST, HALF, THIRD = 100, 50, 33  # the top of the scale, and of its two lower bands


@kernel
def score(nodes: Int64s, rows: Int64s, pod: Int64s, scores: Int64s, chosen: Int64s) -> None:
    """50 … 100 if no idle device is opened, 33 … 50 if no idle node is; 0 for pods without GPUs."""
    for row in rows:
        scores[row], chosen[row] = -1, 0
        if not fits(nodes, row, pod):
            continue
        scores[row] = 0
        if pod[COUNT] > 0:
            chosen[row] = tightest(nodes, row, pod)
            scores[row] = packing(nodes, row, chosen[row])


@leaf
def packing(nodes: Int64s, row: int, chosen: int) -> int:
    """The score of a GPU pod that gets the chosen devices."""
    idle = opened = free_pct = 0
    for device in range(MAX_DEVICES):
        free = nodes[row, GPU + device]
        idle += free == MILLI
        if (chosen >> device) & 1:
            opened += free == MILLI
            free_pct += free * 100 // MILLI
    if idle == nodes[row, DEVICES]:
        return max(THIRD - idle, idle)
    if opened > 0:
        return max(HALF - opened, THIRD)
    return max(BEST - free_pct // 10, HALF)
