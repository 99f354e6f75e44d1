"""Random: a node drawn from those that fit, a device drawn from those with enough free.

The baseline of the FGD paper. The draws are arguments: a decision never owns a generator.
"""

from numba import njit

from fairway.scheduling.gpushare.devices import MAX_DEVICES, MILLI, GpuNodes, Int64s, PodNeeds, devices_with
from fairway.scheduling.gpushare.devices import tightest_devices


@njit(cache=True, nogil=True)
def pick_row(fitting: Int64s, draw: int) -> int:
    """The row of a uniformly drawn node among those with a score >= 0, or -1. `draw` is in [0, 2**31)."""
    count = 0
    for row in range(len(fitting)):
        count += fitting[row] >= 0
    if count == 0:
        return -1
    skip = draw % count
    for row in range(len(fitting)):
        if fitting[row] >= 0:
            if skip == 0:
                return row
            skip -= 1
    return -1


@njit(cache=True, nogil=True)
def pick_devices(nodes: GpuNodes, row: int, pod: PodNeeds, draw: int) -> int:
    """Bit mask: a drawn device for a pod that shares one, the first free ones for a pod that takes whole ones."""
    free = nodes.gpu_milli_free[row]
    if pod.gpu_count != 1 or pod.gpu_milli >= MILLI:
        return tightest_devices(free, pod)
    skip = draw % devices_with(free, pod.gpu_milli)
    for device in range(MAX_DEVICES):
        if free[device] >= pod.gpu_milli:
            if skip == 0:
                return 1 << device
            skip -= 1
    return 0
