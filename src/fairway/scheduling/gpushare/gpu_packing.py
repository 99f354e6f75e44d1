"""GpuPacking: used devices first, then free devices of used nodes, then empty nodes.

Baseline of the FGD paper (AntMan's packing, Xiao et al., OSDI 2020).
"""

from numba import njit

from fairway.scheduling.gpushare.devices import MAX_DEVICES, MILLI, GpuNodes, PodNeeds, devices_with
from fairway.scheduling.gpushare.devices import tightest_devices

BEST, HALF, THIRD = 100, 50, 33  # the scale, and where its two lower bands begin


@njit(cache=True, nogil=True)
def score(nodes: GpuNodes, row: int, pod: PodNeeds) -> int:
    """50 … 100: shares used devices, the tighter the better; 33 … 50: opens devices; below: opens a node."""
    if pod.gpu_count == 0:
        return 0
    free = nodes.gpu_milli_free[row]
    untouched = devices_with(free, MILLI)
    if untouched == nodes.gpu_count[row]:
        return max(THIRD - untouched, untouched)
    chosen = tightest_devices(free, pod)
    opened = 0
    free_pct = 0
    for device in range(MAX_DEVICES):
        if (chosen >> device) & 1:
            opened += free[device] == MILLI
            free_pct += free[device] * 100 // MILLI
    if opened > 0:
        return max(HALF - opened, THIRD)
    return max(BEST - free_pct // 10, HALF)
