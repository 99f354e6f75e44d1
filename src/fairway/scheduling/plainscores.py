"""The resource scores of the default strategy on cpu and memory, twice: for one node and for many; and nodes in
plain integers, which is what takes longest where one node is looked at.

`resourcescores` answers for any strategy, at three times the array calls. On a single row even few calls cost
more than the arithmetic, and re-scoring the few nodes that changed is what a busy scheduler does most.
Property tests hold all three equal.
"""

from __future__ import annotations

import numpy as np

from fairway.cluster.accounts import CPU_COLUMN, MEMORY_COLUMN, Ints, NodeAccounts
from fairway.cluster.shapes import PodShape
from fairway.kube.resources import CPU, MEMORY
from fairway.scheduling.profile import LEAST_ALLOCATED, Profile
from fairway.scheduling.resourcescores import MAX_SCORE, Rows

_CPU_AND_MEMORY = (CPU, MEMORY)
# Rows kept in plain integers: half a kilobyte each.
_ROWS_KEPT = 8192


def is_plain(shape: PodShape, profile: Profile) -> bool:
    """Whether `PlainScores` speaks for this shape under this profile."""
    return (
        not shape.host_ports
        and profile.filters_with("NodeResourcesFit")
        and profile.fit.kind == LEAST_ALLOCATED
        and profile.fit.resources == ((CPU, 1), (MEMORY, 1))
        and profile.balanced_resources == _CPU_AND_MEMORY
    )


class PlainRow:
    """A row of the accounts' arrays in plain integers, as it was when it was read; `is_full`: no room for a pod."""

    def __init__(self, accounts: NodeAccounts, row: int) -> None:
        self.allocatable: list[int] = accounts.allocatable[row].tolist()
        self.requested: list[int] = accounts.requested[row].tolist()
        self.non_zero: list[int] = accounts.non_zero[row].tolist()
        self.is_full = bool(accounts.pod_count[row] >= accounts.allowed_pods[row])
        self.is_alive = bool(accounts.alive[row])


class PlainRows:
    """The rows that shapes asked about, each read once per change: every shape in use asks about every change."""

    def __init__(self, accounts: NodeAccounts) -> None:
        self._accounts = accounts
        self._known: dict[int, PlainRow] = {}
        self._columns = len(accounts.columns)
        self._touched = len(accounts.touched)
        self._respecced = len(accounts.respecced)

    def refresh(self) -> None:
        """Forget what changed. O(changes)."""
        accounts, known = self._accounts, self._known
        if len(accounts.columns) != self._columns or len(known) >= _ROWS_KEPT:
            self._columns = len(accounts.columns)
            known.clear()
        for row in accounts.touched[self._touched :]:
            known.pop(row, None)
        for row in accounts.respecced[self._respecced :]:
            known.pop(row, None)
        self._touched, self._respecced = len(accounts.touched), len(accounts.respecced)

    def at(self, row: int) -> PlainRow:
        """A row as it was at the last `refresh`, or is."""
        found = self._known.get(row)
        if found is None:
            found = self._known[row] = PlainRow(self._accounts, row)
        return found


class PlainScores:
    """The weighted sum of LeastAllocated and BalancedAllocation that a shape gets from nodes."""

    def __init__(self, shape: PodShape, least_weight: int, balance_weight: int) -> None:
        self._least_weight = least_weight
        self._balance_weight = balance_weight
        self._cpu_scored = shape.scored.get(CPU, 0)
        self._memory_scored = shape.scored.get(MEMORY, 0)
        self._cpu_asked = shape.requests.get(CPU, 0)
        self._memory_asked = shape.requests.get(MEMORY, 0)

    def of(self, node: PlainRow) -> int:
        cpu, memory = node.allocatable[CPU_COLUMN], node.allocatable[MEMORY_COLUMN]
        non_zero = node.non_zero
        total = self._least_weight * _least(
            cpu, non_zero[0] + self._cpu_scored, memory, non_zero[1] + self._memory_scored
        )
        if self._cpu_asked or self._memory_asked:
            cpu_used, memory_used = node.requested[CPU_COLUMN], node.requested[MEMORY_COLUMN]
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
