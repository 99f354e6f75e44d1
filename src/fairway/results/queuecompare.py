"""What a comparison of runs says about queues; nothing where a run had none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.results.queuefigures import ALL, CLUSTER_QUEUE, GANGS, PRIORITY, QueueFigures, QueueWaits

Value = float | None
_Of = Callable[[QueueFigures], Value]


class QueueMeasure(NamedTuple):
    """As `compare.Measure`; `is_lower_better` None: neither is."""

    name: str
    unit: str
    is_lower_better: bool | None
    least: float
    least_relative: float
    of: _Of


def queue_measures(figures: Sequence[QueueFigures | None]) -> list[QueueMeasure]:
    """Those that every run has something to say about, most telling first."""
    if any(f is None for f in figures):
        return []
    found = [*_MEASURES]
    first = figures[0]
    assert first is not None
    for by in (CLUSTER_QUEUE, PRIORITY):
        for waits in first.waits:
            if waits.by == by and any(f and f.waits_of(by, waits.group) for f in figures[1:]):
                name = f"queue wait p95, {by} {waits.group or '(none)'}"
                of = _wait(by, waits.group, lambda w: w.p95_us)
                found.append(QueueMeasure(name, "duration", True, 10 * SECOND_US, 0.1, of))
    return found


def _wait(by: str, group: str, what: Callable[[QueueWaits], int | None]) -> _Of:
    def of(figures: QueueFigures) -> Value:
        waits = figures.waits_of(by, group)
        value = None if waits is None else what(waits)
        return None if value is None else float(value)

    return of


def _waiting(figures: QueueFigures) -> Value:
    return float(sum(u.workloads for u in figures.unadmitted))


def _jain(figures: QueueFigures) -> Value:
    """Of the least fair cohort."""
    return min((f.jain for f in figures.fairness if f.jain is not None), default=None)


def _lost(figures: QueueFigures) -> Value:
    return float(sum(p.lost_gpu_milli_us for p in figures.preemptions))


_HOUR = 1000 * 3_600_000_000

_MEASURES = (
    QueueMeasure("workloads not admitted at the end", "count", True, 1, 0.05, _waiting),
    QueueMeasure("queue wait p50", "duration", True, 5 * SECOND_US, 0.1, _wait(ALL, "", lambda w: w.p50_us)),
    QueueMeasure("queue wait p95", "duration", True, 10 * SECOND_US, 0.1, _wait(ALL, "", lambda w: w.p95_us)),
    QueueMeasure("queue wait max", "duration", True, MINUTE_US, 0.1, _wait(ALL, "", lambda w: w.max_us)),
    QueueMeasure(
        "queue wait p95, gangs", "duration", True, 10 * SECOND_US, 0.1, _wait(GANGS, "", lambda w: w.p95_us)
    ),
    QueueMeasure("workloads preempted by Kueue", "count", True, 1, 0.05, lambda f: f.preempted),
    QueueMeasure("GPU-hours interrupted by Kueue", "gpu_time", True, _HOUR / 10, 0.05, _lost),
    QueueMeasure("fairness (Jain), least fair cohort", "ratio", False, 0.01, 0.01, _jain),
    QueueMeasure("quota borrowed, mean", "number", None, 0.5, 0.05, lambda f: f.borrowed),
)
