"""How much of the free GPU could the pods of this run not use?

Draw a GPU pod from those created so far: the free GPU of a node is lost to it where it does not fit there.
The expected loss over all free GPU is the fragmentation. GPU, CPU and memory of each node decide; taints,
affinity and which device of a node is free do not.
Source: the measure F of Weng et al., USENIX ATC 2023, restricted to GPU pods and without device indexes.
"""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

Size = tuple[int, int, int]
"""(milli-GPU, milli-CPU, bytes) of a pod."""

Ints = npt.NDArray[np.int64]

# The most frequent sizes stand for all: in the openb trace eight cover nine pods of ten.
SIZES = 8


class Demand:
    """Sizes of GPU pods seen, and the most frequent of them as arrays."""

    __slots__ = ("_counts", "_needs", "_refresh_at", "_shares", "_total")

    def __init__(self) -> None:
        self._counts: dict[Size, int] = {}
        self._total = 0
        self._refresh_at = 1
        self._needs: Ints = np.zeros((0, 3), np.int64)
        self._shares: npt.NDArray[np.float64] = np.zeros(0)

    def see(self, size: Size) -> None:
        self._counts[size] = self._counts.get(size, 0) + 1
        self._total += 1

    def fragmentation(self, free: tuple[array[int], array[int], array[int]]) -> float | None:
        """Share of free GPU lost; `free` are milli-GPU, milli-CPU and bytes by node. None: nothing free or asked.

        O(nodes × SIZES), on arrays.
        """
        if not self._total:
            return None
        if self._total >= self._refresh_at:
            self._refresh()
        gpu, cpu, memory = (np.frombuffer(column, np.int64) for column in free)
        total = int(gpu.sum())
        if total <= 0:
            return None
        needs = self._needs
        unfit = gpu < needs[:, 0:1]
        unfit |= cpu < needs[:, 1:2]
        unfit |= memory < needs[:, 2:3]
        return float(self._shares @ (unfit @ gpu)) / total

    def _refresh(self) -> None:
        """Pick the most frequent sizes anew; due when a tenth more pods were seen."""
        ranked = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))[:SIZES]
        self._needs = np.array([size for size, _ in ranked], np.int64)
        counts = np.array([count for _, count in ranked], np.float64)
        self._shares = counts / counts.sum()
        self._refresh_at = self._total + max(1, self._total // 10)

    def fork(self) -> Demand:
        twin = Demand()
        twin._counts = dict(self._counts)
        twin._total, twin._refresh_at = self._total, self._refresh_at
        twin._needs, twin._shares = self._needs, self._shares
        return twin
