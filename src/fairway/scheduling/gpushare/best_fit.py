"""BestFit: the node with the least left over.

What would stay free, CPU and GPU as fractions of the largest node, averaged; less is better. Baseline of the
FGD paper.
"""

from fairway.kernels import kernel
from fairway.scheduling.gpushare.devices import COUNT, CPU, EACH, Int64s, fits, gpu_milli_free, tightest
from fairway.scheduling.gpushare.dot_product import LARGEST_NODE_CPU_MILLI, LARGEST_NODE_GPU_MILLI

WEIGHT = 0.5  # of CPU, and of GPU


@kernel
def score(nodes: Int64s, rows: Int64s, pod: Int64s, scores: Int64s, chosen: Int64s) -> None:
    """0 … 100, rounded down, 0 on far larger nodes; the tightest devices."""
    for row in rows:
        scores[row], chosen[row] = -1, 0
        if fits(nodes, row, pod):
            gpu_left = gpu_milli_free(nodes, row) - pod[COUNT] * pod[EACH]
            left = (nodes[row, CPU] - pod[CPU]) / LARGEST_NODE_CPU_MILLI * WEIGHT
            left += gpu_left / LARGEST_NODE_GPU_MILLI * WEIGHT
            scores[row] = max(0, int((1.0 - left) * 100.0))
            chosen[row] = tightest(nodes, row, pod)
