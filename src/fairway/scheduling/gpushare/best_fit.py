"""BestFit: the node with the least left over.

What would stay free, CPU and GPU as fractions of the largest node, averaged; less is better. The device is
the fitting one with the least free. Baseline of the FGD paper.
"""

from numba import njit

from fairway.scheduling.gpushare.devices import MAX_DEVICES, GpuNodes, PodNeeds
from fairway.scheduling.gpushare.dot_product import LARGEST_NODE_CPU_MILLI, LARGEST_NODE_GPU_MILLI

WEIGHT = 0.5  # of CPU, and of GPU


@njit(cache=True, nogil=True)
def score(nodes: GpuNodes, row: int, pod: PodNeeds) -> int:
    """0 … 100, rounded down."""
    gpu_free = 0
    for device in range(MAX_DEVICES):
        gpu_free += nodes.gpu_milli_free[row, device]
    left = (nodes.cpu_milli_free[row] - pod.cpu_milli) / LARGEST_NODE_CPU_MILLI * WEIGHT
    left += (gpu_free - pod.gpu_count * pod.gpu_milli) / LARGEST_NODE_GPU_MILLI * WEIGHT
    return int((1.0 - left) * 100.0)
