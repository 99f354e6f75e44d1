"""Random: a drawn node among those that fit, for a sharing pod a drawn device among those with enough free.

Baseline of the FGD paper. The draws are arguments: a decision owns no generator.
"""

import numpy as np

from fairway.kernels import kernel
from fairway.scheduling.gpushare.devices import COUNT, EACH, GPU, MILLI, RUNNING, Int64s, fits, tightest


@kernel
def score(nodes: Int64s, rows: Int64s, pod: Int64s, scores: Int64s, chosen: Int64s) -> None:
    """0 wherever the pod fits, with the tightest devices: `drawn_row` and `drawn_device` decide."""
    for row in rows:
        scores[row], chosen[row] = -1, 0
        if fits(nodes, row, pod):
            scores[row] = 0
            chosen[row] = tightest(nodes, row, pod)


def drawn_row(scores: Int64s, draw: int) -> int:
    """The drawn node among those that fit, or -1. `draw` is a non-negative integer, uniform and large."""
    fitting = np.flatnonzero(scores >= 0)
    return int(fitting[draw % len(fitting)]) if len(fitting) else -1


def drawn_device(nodes: Int64s, row: int, pod: Int64s, tightest_devices: int, draw: int) -> int:
    """Bit mask of the drawn device; a pod that takes whole devices has no choice."""
    if pod[COUNT] != 1 or pod[EACH] >= MILLI:
        return tightest_devices
    able = np.flatnonzero(nodes[row, GPU:RUNNING] >= pod[EACH])
    return 1 << int(able[draw % len(able)])
