"""Partial admission: the most pods a workload can be admitted with.

A binary search between the full counts and the minimums, lowering all pod sets in proportion.

Source: pkg/scheduler/flavorassigner/podset_reducer.go; KEP-420.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from fairway.queueing.facts.podsets import PodSet

R = TypeVar("R")


def most_that_fits(pod_sets: Sequence[PodSet], attempt: Callable[[list[int]], R | None]) -> R | None:
    """What `attempt` found for the largest counts it accepts; None where not even the minimums do.

    O(log of the pods to spare) attempts. Source for the rounding: fillPodSetSizesForSearchIndex.
    """
    deltas = [ps.count - ps.min_count for ps in pod_sets]
    total = sum(deltas)
    if total == 0:
        return None
    low, high = 0, total + 1
    found: R | None = None
    while low < high:
        middle = (low + high) // 2
        counts = [ps.count - delta * middle // total for ps, delta in zip(pod_sets, deltas, strict=True)]
        result = attempt(counts)
        if result is None:
            low = middle + 1
        else:
            found, high = result, middle
    return found
