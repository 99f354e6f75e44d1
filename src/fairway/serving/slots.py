"""Servers that take whole requests: one queue, so many slots, each alone or in batches as Triton's dynamic batcher.

A free slot takes the oldest request, waits at most a time for more, and computes all of them together. With one request
a batch this is the queue of the textbooks (M/M/c, M/G/1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairway.kernels import kernel

Floats = NDArray[np.float64]


@kernel
def serve(
    arrived: Floats, work: Floats, free: Floats, factors: Floats, delay_s: float, began: Floats, done: Floats
) -> None:
    """`arrived`, `work` (seconds alone): float64[request], in order of arrival. `free`: float64[slot], when each is;
    it is moved on. `factors`: float64[size − 1], how much longer a batch takes than its longest request.
    Writes `began` and `done`. O(requests × slots).
    """
    i, n, most = 0, arrived.shape[0], factors.shape[0]
    while i < n:
        slot = np.argmin(free)
        start = max(free[slot], arrived[i])
        deadline = max(start, arrived[i] + delay_s)
        size = 1
        while size < most and i + size < n and arrived[i + size] <= deadline:
            size += 1
        if size == most:
            start = max(start, arrived[i + size - 1])
        elif most > 1:
            start = deadline
        longest = 0.0
        for j in range(i, i + size):
            longest = max(longest, work[j])
        free[slot] = start + longest * factors[size - 1]
        for j in range(i, i + size):
            began[j], done[j] = start, free[slot]
        i += size
