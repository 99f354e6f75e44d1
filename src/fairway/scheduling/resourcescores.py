"""How good is a node's resource picture for a pod: least or most allocated, ratio, balance.

Scores are whole numbers 0–100 per node. Integer divisions and float steps follow upstream operation by
operation, because a score off by one picks another node.

Source: pkg/scheduler/framework/plugins/noderesources (v1.36): resource_allocation.go, least_allocated.go,
most_allocated.go, requested_to_capacity_ratio.go, balanced_allocation.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from fairway.cluster.accounts import CPU_COLUMN, MEMORY_COLUMN, NodeAccounts
from fairway.cluster.shapes import PodShape
from fairway.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from fairway.scheduling.profile import LEAST_ALLOCATED, MOST_ALLOCATED, FitStrategy

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rows = Ints | slice

MAX_SCORE: Final = 100
# Points of a ratio shape are given on 0–10. Source: MaxCustomPriorityScore.
_SHAPE_SCALE: Final = MAX_SCORE // 10


def fit_scores(accounts: NodeAccounts, shape: PodShape, strategy: FitStrategy, rows: Rows) -> Ints:
    """int64[rows], 0–100: the weighted mean of each resource's score, over resources the node has."""
    total: Ints | int = 0
    weights: Ints | int = 0
    for resource, weight in strategy.resources:
        asked = shape.scored.get(resource, 0)
        if asked == 0 and _is_scalar(resource):
            continue
        capacity, used = _capacity_and_use(accounts, resource, rows, non_zero=True)
        present = capacity > 0
        divisor = np.where(present, capacity, 1)
        score = _score_of(strategy, used + asked, divisor)
        if strategy.kind not in (LEAST_ALLOCATED, MOST_ALLOCATED):
            present = present & (score > 0)
        counted = present * weight
        total = total + score * counted
        weights = weights + counted
    if isinstance(weights, int):
        return np.zeros(accounts.alive[rows].shape, np.int64)
    some = weights > 0
    if strategy.kind in (LEAST_ALLOCATED, MOST_ALLOCATED):
        return np.asarray(np.where(some, total // np.where(some, weights, 1), 0), np.int64)
    # math.Round: halves away from zero; scores are never negative.
    mean = np.asarray(total, np.float64) / np.where(some, weights, 1)
    return np.where(some, np.floor(mean + 0.5), 0).astype(np.int64)


def _score_of(strategy: FitStrategy, requested: Ints, capacity: Ints) -> Ints:
    if strategy.kind == LEAST_ALLOCATED:
        return np.where(requested > capacity, 0, (capacity - requested) * MAX_SCORE // capacity)
    if strategy.kind == MOST_ALLOCATED:
        return np.minimum(requested, capacity) * MAX_SCORE // capacity
    utilization = np.where(requested > capacity, 100, requested * 100 // capacity)
    return _broken_line(strategy.shape, utilization)


def _broken_line(shape: Sequence[tuple[int, int]], utilization: Ints) -> Ints:
    """Linear between points, flat outside; integer division truncates toward zero as Go's does."""
    points = [(u, s * _SHAPE_SCALE) for u, s in shape]
    out = np.full(utilization.shape, points[-1][1], np.int64)
    for (u0, s0), (u1, s1) in reversed(list(pairwise(points))):
        rise = (s1 - s0) * (utilization - u0)
        step = np.sign(rise) * (np.abs(rise) // (u1 - u0))
        out = np.where(utilization <= u1, s0 + step, out)
    return np.where(utilization <= points[0][0], points[0][1], out)


def balanced_scores(
    accounts: NodeAccounts, shape: PodShape, resources: Sequence[str], rows: Rows
) -> Ints | None:
    """int64[rows], 50–100: how much the pod evens out a node's use; None for a pod that asks for none of these.

    75 is no change; towards 100 the node gets more balanced, towards 50 less (since v1.36).
    """
    asked = [shape.requests.get(r, 0) for r in resources]
    if not any(asked):
        return None
    capacities, uses, after = [], [], []
    for resource, amount in zip(resources, asked, strict=True):
        if amount == 0 and _is_scalar(resource):
            continue
        capacity, used = _capacity_and_use(accounts, resource, rows, non_zero=False)
        capacities.append(capacity)
        uses.append(used)
        after.append(used + amount)
    with_pod = _balance(after, capacities)
    without = _balance(uses, capacities)
    return MAX_SCORE // 2 + (MAX_SCORE // 2 + with_pod - without) // 2


def _balance(requested: Sequence[Ints], capacities: Sequence[Ints]) -> Ints:
    """`int((1 − std) × 100)` over the used fractions of the resources a node has."""
    fractions: list[Floats] = []
    present: list[npt.NDArray[np.bool_]] = []
    for use, capacity in zip(requested, capacities, strict=True):
        there = capacity > 0
        fractions.append(np.where(there, np.minimum(use / np.where(there, capacity, 1), 1.0), 0.0))
        present.append(there)
    count = sum(p.astype(np.int64) for p in present)
    if len(fractions) == 2:
        std = np.where(count == 2, np.abs((fractions[0] - fractions[1]) / 2), 0.0)
    else:
        std = _deviation(fractions, present, np.asarray(count))
    return ((1 - std) * float(MAX_SCORE)).astype(np.int64)


def _deviation(fractions: Sequence[Floats], present: Sequence[npt.NDArray[np.bool_]], count: Ints) -> Floats:
    divisor = np.where(count > 0, count, 1)
    total = np.zeros(count.shape)
    for fraction in fractions:
        total = total + fraction
    mean = total / divisor
    squares = np.zeros(count.shape)
    for fraction, there in zip(fractions, present, strict=True):
        squares = squares + np.where(there, (fraction - mean) * (fraction - mean), 0.0)
    std = np.sqrt(squares / divisor)
    # With two resources present upstream halves the difference instead; the bits may differ from the root.
    low = np.full(count.shape, np.inf)
    high = np.full(count.shape, -np.inf)
    for fraction, there in zip(fractions, present, strict=True):
        low = np.where(there, np.minimum(low, fraction), low)
        high = np.where(there, np.maximum(high, fraction), high)
    pair = np.abs(np.where(count == 2, high - low, 0.0) / 2)
    return np.where(count > 2, std, np.where(count == 2, pair, 0.0))


def _is_scalar(resource: str) -> bool:
    return resource not in (CPU, MEMORY, EPHEMERAL_STORAGE)


def _capacity_and_use(
    accounts: NodeAccounts, resource: str, rows: Rows, *, non_zero: bool
) -> tuple[Ints, Ints]:
    if resource == CPU:
        use = accounts.non_zero[rows, 0] if non_zero else accounts.requested[rows, CPU_COLUMN]
        return accounts.allocatable[rows, CPU_COLUMN], use
    if resource == MEMORY:
        use = accounts.non_zero[rows, 1] if non_zero else accounts.requested[rows, MEMORY_COLUMN]
        return accounts.allocatable[rows, MEMORY_COLUMN], use
    column = accounts.column(resource)
    return accounts.allocatable[rows, column], accounts.requested[rows, column]
