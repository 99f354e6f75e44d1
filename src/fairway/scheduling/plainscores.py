"""The resource scores of the default strategy on cpu and memory, twice: for one node and for many.

`resourcescores` answers for any strategy, at three times the array calls. On a single row even few calls cost
more than the arithmetic, and re-scoring the few nodes that changed is what a busy scheduler does most.
Property tests hold all three equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fairway.cluster.accounts import CPU_COLUMN, MEMORY_COLUMN, Ints, NodeAccounts
from fairway.cluster.shapes import PodShape
from fairway.kube.resources import CPU, MEMORY
from fairway.scheduling.profile import LEAST_ALLOCATED, Profile
from fairway.scheduling.resourcescores import MAX_SCORE, Rows

_CPU_AND_MEMORY: Final = (CPU, MEMORY)


def is_plain(shape: PodShape, profile: Profile) -> bool:
    """Whether `PlainScores` speaks for this shape under this profile."""
    return (
        not shape.host_ports
        and profile.filters_with("NodeResourcesFit")
        and profile.fit.kind == LEAST_ALLOCATED
        and profile.fit.resources == ((CPU, 1), (MEMORY, 1))
        and profile.balanced_resources == _CPU_AND_MEMORY
    )


class PlainScores:
    """The weighted sum of LeastAllocated and BalancedAllocation that a shape gets from nodes."""

    def __init__(self, shape: PodShape, least_weight: int, balance_weight: int) -> None:
        self._least_weight = least_weight
        self._balance_weight = balance_weight
        self._cpu_scored = shape.scored.get(CPU, 0)
        self._memory_scored = shape.scored.get(MEMORY, 0)
        self._cpu_asked = shape.requests.get(CPU, 0)
        self._memory_asked = shape.requests.get(MEMORY, 0)

    def of(self, allocatable: Sequence[int], requested: Sequence[int], non_zero: Sequence[int]) -> int:
        """One node's, from its row of each of the accounts' arrays in plain integers."""
        cpu, memory = allocatable[CPU_COLUMN], allocatable[MEMORY_COLUMN]
        total = self._least_weight * _least(
            cpu, non_zero[0] + self._cpu_scored, memory, non_zero[1] + self._memory_scored
        )
        if self._cpu_asked or self._memory_asked:
            cpu_used, memory_used = requested[CPU_COLUMN], requested[MEMORY_COLUMN]
            after = _balance(cpu_used + self._cpu_asked, cpu, memory_used + self._memory_asked, memory)
            before = _balance(cpu_used, cpu, memory_used, memory)
            total += self._balance_weight * (MAX_SCORE // 2 + (MAX_SCORE // 2 + after - before) // 2)
        return total

    def of_rows(self, accounts: NodeAccounts, rows: Rows) -> Ints:
        """Those of many nodes in as few array calls as it takes: int64[rows]."""
        capacity = accounts.allocatable[rows, :2]
        present = capacity > 0
        divisor = np.maximum(capacity, 1)
        use = accounts.non_zero[rows] + np.array([self._cpu_scored, self._memory_scored], np.int64)
        each = np.maximum((capacity - use) * MAX_SCORE // divisor, 0) * present
        has = present[:, 0].astype(np.int64) + present[:, 1]
        total: Ints = self._least_weight * ((each[:, 0] + each[:, 1]) // np.maximum(has, 1))
        if self._cpu_asked or self._memory_asked:
            used = accounts.requested[rows, :2]
            asked = np.array([self._cpu_asked, self._memory_asked], np.int64)
            # [before, after] × rows × [cpu, memory]
            fractions = np.minimum(np.stack((used, used + asked)) / divisor, 1.0)
            spread = np.abs((fractions[..., 0] - fractions[..., 1]) / 2) * (has == 2)
            balance = ((1 - spread) * float(MAX_SCORE)).astype(np.int64)
            change = balance[1] - balance[0]
            total += self._balance_weight * (MAX_SCORE // 2 + (MAX_SCORE // 2 + change) // 2)
        return total


def _least(cpu: int, cpu_use: int, memory: int, memory_use: int) -> int:
    total = weights = 0
    if cpu > 0:
        weights = 1
        if cpu_use <= cpu:
            total = (cpu - cpu_use) * MAX_SCORE // cpu
    if memory > 0:
        weights += 1
        if memory_use <= memory:
            total += (memory - memory_use) * MAX_SCORE // memory
    return total // weights if weights else 0


def _balance(cpu_use: int, cpu: int, memory_use: int, memory: int) -> int:
    if cpu <= 0 or memory <= 0:
        return MAX_SCORE
    spread = abs((min(cpu_use / cpu, 1.0) - min(memory_use / memory, 1.0)) / 2)
    return int((1 - spread) * float(MAX_SCORE))
