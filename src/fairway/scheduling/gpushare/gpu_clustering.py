"""GpuClustering: like with like.

Pods of one width (sharing a device, or taking 1, 2, 4, 8 whole ones) gather on the same nodes; among equally
related nodes the fuller one wins. Baseline of the FGD paper (Gandiva's packing, Xiao et al., OSDI 2018).
"""

from numba import njit

from fairway.scheduling.gpushare.devices import MAX_DEVICES, WIDTHS, GpuNodes, PodNeeds, width

QUARTER = 25  # each of the four kinds of kinship owns a quarter of the 0 … 100 scale
LARGEST_NODE_GPU_MILLI = 8_000


@njit(cache=True, nogil=True)
def score(nodes: GpuNodes, row: int, pod: PodNeeds) -> int:
    """75+: only its own width runs there; 50+: its own and others; 25+: empty; 0+: only others."""
    if pod.gpu_count == 0:
        return 0
    gpu_free = 0
    for device in range(MAX_DEVICES):
        gpu_free += nodes.gpu_milli_free[row, device]
    fullness = QUARTER * (LARGEST_NODE_GPU_MILLI - gpu_free) // LARGEST_NODE_GPU_MILLI
    kinds = 0
    for kind in range(WIDTHS):
        kinds += nodes.pods_by_width[row, kind] > 0
    if nodes.pods_by_width[row, width(pod)] > 0:
        return fullness + (3 * QUARTER if kinds == 1 else 2 * QUARTER)
    return fullness + (QUARTER if kinds == 0 else 0)
