"""NodeResourcesFit's and NodeResourcesBalancedAllocation's scores of one node, step by step.

Source: noderesources/{least_allocated,most_allocated,requested_to_capacity_ratio,balanced_allocation}.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from oracle.world import Obj

Amounts = Mapping[str, int]


def is_scalar(resource: str) -> bool:
    return resource not in ("cpu", "memory", "ephemeral-storage")


def fit_score(strategy: Obj, there: Amounts, used: Amounts, asked: Amounts) -> int:
    """`strategy`: a scoringStrategy as it is written; `used`, `asked`: with what counts for those who do not say."""
    kind = strategy.get("type") or "LeastAllocated"
    total = weights = 0
    for resource in strategy.get("resources") or [{"name": "cpu"}, {"name": "memory"}]:
        name, weight = resource["name"], resource.get("weight") or 1
        has, use = there.get(name, 0), used.get(name, 0) + asked.get(name, 0)
        if not has or (is_scalar(name) and not asked.get(name)):
            continue
        if kind == "LeastAllocated":
            score = 0 if use > has else (has - use) * 100 // has
        elif kind == "MostAllocated":
            score = min(use, has) * 100 // has
        else:
            points = strategy["requestedToCapacityRatio"]["shape"]
            score = along(points, 100 if use > has else use * 100 // has)
            if not score:
                continue
        total, weights = total + weight * score, weights + weight
    if not weights:
        return 0
    return math.floor(total / weights + 0.5) if kind == "RequestedToCapacityRatio" else total // weights


def along(points: Sequence[Mapping[str, int]], at: int) -> int:
    """Source: helper/shape_score.go BuildBrokenLinearFunction."""
    for i, point in enumerate(points):
        if at <= point["utilization"]:
            if i == 0:
                return 10 * point["score"]
            before = points[i - 1]
            rise = 10 * (point["score"] - before["score"]) * (at - before["utilization"])
            return 10 * before["score"] + math.trunc(rise / (point["utilization"] - before["utilization"]))
    return 10 * points[-1]["score"]


def balance_score(resources: Sequence[str], there: Amounts, used: Amounts, asked: Amounts) -> int:
    """0 for a pod that asks for none of them."""
    if not any(asked.get(name) for name in resources):
        return 0
    counted = [n for n in resources if there.get(n) and (asked.get(n) or not is_scalar(n))]
    before, after = (
        [min((used.get(n, 0) + more.get(n, 0)) / there[n], 1.0) for n in counted] for more in ({}, asked)
    )
    return 50 + (50 + _evenness(after) - _evenness(before)) // 2


def _evenness(shares: list[float]) -> int:
    apart = 0.0
    if len(shares) == 2:
        apart = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        mean = sum(shares) / len(shares)
        apart = math.sqrt(sum((share - mean) * (share - mean) for share in shares) / len(shares))
    return int((1 - apart) * 100.0)
