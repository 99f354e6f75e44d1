"""Curves of queues: quota, what waits, shares, fairness, from the recorder's rows.

Rows are means over their stretch of time: exact up to `queueseries.POINTS` stretches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fairway.cluster.gpurequests import DEFAULT_GPUS
from fairway.recorder.tables import Outcome
from fairway.scenario.assertions.curves import Curve, ratio
from fairway.scenario.assertions.grammar import All, Condition, Either, FieldTest, Not
from fairway.scenario.assertions.terms import BYTES, CPUS, GPUS, RATIO

COUNTS: dict[str, Callable[[Any], float]] = {
    "evictions": lambda row: float(row.evictions),
    "preemptions": lambda row: float(row.preemptions),
}
_QUOTA = {"quota used": "used", "quota borrowed": "borrowed", "quota lent": "lent"}
_COUNTED = {"pending workloads": "pending", "pending gangs": "gangs_pending"}
_SHARE, _FAIRNESS = "weighted share", "fairness"
CURVES = frozenset({*_QUOTA, *_COUNTED, _SHARE, _FAIRNESS})


def why_undefined(metric: str) -> str:
    if metric == _FAIRNESS:
        return "never two ClusterQueues of a cohort that contended"
    return "no ClusterQueue (or no quota) of this kind was there"


def curve(
    outcome: Outcome, metric: str, unit: str, rows: Sequence[Any], condition: Condition | None
) -> Curve:
    """`rows`: those that `where` chooses; `unit`: what the bound is in."""
    if metric in _QUOTA:
        return _quota(outcome, metric, unit, rows, condition)
    if metric == _FAIRNESS:
        found = [(r.start_us, r.end_us, r.jain) for r in outcome.queues.fairness if r.jain is not None]
        return _joined(outcome, found, min)
    column = _COUNTED.get(metric, "weighted_share")
    values = [(r.start_us, r.end_us, getattr(r, column)) for r in rows]
    return _joined(outcome, values, max if metric == _SHARE else sum)


def _quota(
    outcome: Outcome, metric: str, unit: str, rows: Sequence[Any], condition: Condition | None
) -> Curve:
    """Summed over the rows of the unit's resource; of GPUs, where neither unit nor `where` names one."""
    factors = {resource: _factor(resource, unit) for resource in sorted({r.resource for r in rows})}
    if unit not in (GPUS, CPUS, BYTES) and not _names(condition, "resource"):
        gpus = {resource: 1.0 for resource in factors if _factor(resource, GPUS)}
        factors = gpus or factors
    chosen = [(r, factors.get(r.resource, 0.0)) for r in rows]
    column = _QUOTA[metric]
    part = _joined(outcome, [(r.start_us, r.end_us, getattr(r, column) * f) for r, f in chosen if f], sum)
    if unit != RATIO:
        return part
    whole = _joined(outcome, [(r.start_us, r.end_us, r.nominal * f) for r, f in chosen if f], sum)
    return ratio(part, whole)


def _factor(resource: str, unit: str) -> float:
    """How much of the unit's base (milli-GPU, milli-CPU, bytes) one unit of a resource's quota is."""
    if unit == GPUS:
        return DEFAULT_GPUS.asked({resource: 7_000}) / 7_000
    if unit == CPUS:
        return 1.0 if resource == "cpu" else 0.0
    if unit == BYTES:
        return 1.0 if resource == "memory" else 0.0
    return 1.0


def _names(condition: Condition | None, field: str) -> bool:
    """Whether a condition tests a field anywhere."""
    if isinstance(condition, FieldTest):
        return condition.field == field
    if isinstance(condition, Not):
        return _names(condition.part, field)
    if isinstance(condition, All | Either):
        return any(_names(part, field) for part in condition.parts)
    return False


def _joined(
    outcome: Outcome,
    rows: Iterable[tuple[int, int, float]],
    joined: Callable[[list[float]], float],
) -> Curve:
    """One value per stretch of the rows; all rows stand on the same stretches."""
    groups: dict[tuple[int, int], list[float]] = {}
    for start, end, value in rows:
        groups.setdefault((start, end), []).append(value)
    times, values = [outcome.began_us], [np.nan]
    for (start, end), found in sorted(groups.items()):
        if start > times[-1]:
            times.append(start)
            values.append(np.nan)
        values[-1] = joined(found)
        times.append(end)
        values.append(np.nan)
    inside = [i for i, time in enumerate(times) if time < max(outcome.ended_us, outcome.began_us + 1)]
    return Curve(
        np.array([times[i] for i in inside], np.int64),
        np.array([values[i] for i in inside], np.float64),
        outcome.ended_us,
    )
