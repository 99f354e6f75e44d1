"""DotProduct: the node whose free resources point least along the pod's needs.

Tetris (Grandl et al., SIGCOMM 2014) as the FGD paper runs it as a baseline: CPU and GPU as fractions of the
largest node, all GPUs of a node merged. The smaller the product, the scarcer the node for this pod.
"""

from fairway.kernels import kernel
from fairway.scheduling.gpushare.devices import COUNT, CPU, EACH, Int64s, fits, gpu_milli_free, tightest

LARGEST_NODE_CPU_MILLI = 128_000.0  # of the trace's cluster; makes CPU a fraction
LARGEST_NODE_GPU_MILLI = 8_000.0  # eight devices; makes GPU a fraction


@kernel
def score(nodes: Int64s, rows: Int64s, pod: Int64s, scores: Int64s, chosen: Int64s) -> None:
    """0 … 100, rounded down, 0 on far larger nodes; the tightest devices."""
    cpu = pod[CPU] / LARGEST_NODE_CPU_MILLI
    gpu = pod[COUNT] * pod[EACH] / LARGEST_NODE_GPU_MILLI
    for row in rows:
        scores[row], chosen[row] = -1, 0
        if fits(nodes, row, pod):
            product = nodes[row, CPU] / LARGEST_NODE_CPU_MILLI * cpu
            product += gpu_milli_free(nodes, row) / LARGEST_NODE_GPU_MILLI * gpu
            scores[row] = max(0, int(100.0 * (1.0 - product / 2.0)))
            chosen[row] = tightest(nodes, row, pod)
