"""DotProduct: the node whose free resources point least along the pod's needs.

Tetris (Grandl et al., SIGCOMM 2014) as the FGD paper runs it as a baseline: CPU and GPU as fractions of the largest
node, all GPUs of a node merged; the smaller the product, the scarcer the node for this pod, the better.
"""

from numba import njit

from fairway.scheduling.gpushare.devices import MAX_DEVICES, GpuNodes, PodNeeds

LARGEST_NODE_CPU_MILLI = 128_000.0  # of the trace's cluster; normalises CPU
LARGEST_NODE_GPU_MILLI = 8_000.0  # eight devices; normalises GPU


@njit(cache=True, nogil=True)
def score(nodes: GpuNodes, row: int, pod: PodNeeds) -> int:
    """0 … 100, rounded down."""
    gpu_free = 0
    for device in range(MAX_DEVICES):
        gpu_free += nodes.gpu_milli_free[row, device]
    product = nodes.cpu_milli_free[row] / LARGEST_NODE_CPU_MILLI * (pod.cpu_milli / LARGEST_NODE_CPU_MILLI)
    gpu_need = pod.gpu_count * pod.gpu_milli
    product += gpu_free / LARGEST_NODE_GPU_MILLI * (gpu_need / LARGEST_NODE_GPU_MILLI)
    return int(100.0 * (1.0 - product / 2.0))
