"""GpuClustering: like with like.

Pods of one width (sharing a device, or taking 1, 2, 4, 8 whole ones) gather on the same nodes; among equally
related nodes the fuller one wins. Baseline of the FGD paper, after Gandiva (Xiao et al., OSDI 2018).
"""

from fairway.kernels import kernel, leaf
from fairway.scheduling.gpushare.devices import (
    COUNT,
    RUNNING,
    WIDTHS,
    Int64s,
    fits,
    gpu_milli_free,
    tightest,
    width,
)

QUARTER = 25  # each of four degrees of kinship owns a quarter of the scale 0 … 100
LARGEST_NODE_GPU_MILLI = 8_000  # eight devices


@kernel
def score(nodes: Int64s, rows: Int64s, pod: Int64s, scores: Int64s, chosen: Int64s) -> None:
    """A quarter by kinship, within it the fuller the better; 0 for pods without GPUs. The tightest devices."""
    for row in rows:
        scores[row], chosen[row] = -1, 0
        if not fits(nodes, row, pod):
            continue
        scores[row] = 0
        if pod[COUNT] > 0:
            used = LARGEST_NODE_GPU_MILLI - gpu_milli_free(nodes, row)
            scores[row] = QUARTER * used // LARGEST_NODE_GPU_MILLI + QUARTER * kinship(nodes, row, pod)
            chosen[row] = tightest(nodes, row, pod)


@leaf
def kinship(nodes: Int64s, row: int, pod: Int64s) -> int:
    """3: only pods of its width run there; 2: such pods and others; 1: no GPU pod; 0: only others."""
    kinds = 0
    for kind in range(WIDTHS):
        kinds += nodes[row, RUNNING + kind] > 0
    if nodes[row, RUNNING + width(pod)] > 0:
        return 3 if kinds == 1 else 2
    return 1 if kinds == 0 else 0
