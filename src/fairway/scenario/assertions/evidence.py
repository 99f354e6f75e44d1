"""What an assertion is judged by: the outcome of a run, and the curves and samples drawn from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from fairway.kube.objects import Key
from fairway.recorder.tables import Outcome, PodRow, SeriesRow, WorkloadRow
from fairway.scenario.assertions import queueevidence
from fairway.scenario.assertions.alertwords import AlertRow
from fairway.scenario.assertions.curves import Curve, ratio, stepping
from fairway.scenario.assertions.grammar import (
    IN,
    LIKE,
    NOT_IN,
    All,
    Condition,
    Either,
    FieldTest,
    Not,
    Reaching,
)
from fairway.scenario.assertions.vocabulary import (
    ALERTS,
    CPUS,
    FIELDS,
    LABEL,
    METRICS,
    NODES,
    PODS,
    QUEUED,
    QUEUES,
    QUOTAS,
    RATIO,
    SCALINGS,
    SERVICES,
    WORKLOADS,
    Row,
)

Reached = dict[Key, tuple[int, int | None]]
"""Objects a `Reaching` is about: when each was created, and when it first reached the state."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One row's value; `is_bound`: it had not ended, this is how long it was at least."""

    value: float
    row: Row
    is_bound: bool = False


@dataclass(frozen=True)
class Evidence:
    """`reached[i]` belongs to the i-th assertion about objects. `lost_work_us` None: nobody measured it."""

    outcome: Outcome
    reached: dict[Reaching, Reached] = field(default_factory=dict)
    lost_work_us: int | None = None
    alerts: Callable[[], Sequence[AlertRow]] | None = None
    """What the scenario's rules raised; None: nobody evaluates them. Asked for when an assertion speaks of it."""
    _rows: dict[tuple[str, Condition | None], list[Any]] = field(default_factory=dict, repr=False)

    @property
    def start_us(self) -> int:
        return self.outcome.began_us

    @property
    def end_us(self) -> int:
        return self.outcome.ended_us

    def rows(self, of: str, condition: Condition | None) -> list[Any]:
        """The rows a condition chooses; made once. Workloads are those that nobody else owns."""
        known = self._rows.get((of, condition))
        if known is None:
            if condition is not None:
                known = [row for row in self.rows(of, None) if holds(condition, row, of)]
            elif of == ALERTS:
                known = list(self.alerts()) if self.alerts is not None else []
            elif of == WORKLOADS:
                known = [row for row in self.outcome.workloads if not row.owner_kind]
            else:
                known = list(_TABLES[of](self.outcome))
            self._rows[(of, condition)] = known
        return known

    # Samples

    def samples(self, metric: str, condition: Condition | None) -> Iterator[Sample]:
        """One per row that the metric means anything for."""
        of = METRICS[metric].rows
        rows = self.rows(of, condition)
        if metric in queueevidence.COUNTS:
            yield from (Sample(queueevidence.COUNTS[metric](row), row) for row in rows)
            return
        if metric == "restarts":
            yield from (Sample(float(row.restarts), row) for row in rows)
            return
        span = _SPANS[metric]
        for row in rows:
            start_us, end_us = span(row)
            if start_us is None:
                continue
            if end_us is not None:
                yield Sample(float(end_us - start_us), row)
            else:
                last = (None if of == ALERTS else row.finished_us or row.deleted_us) or self.end_us
                yield Sample(float(max(last - start_us, 0)), row, True)

    # Curves

    def curve(self, metric: str, unit: str, condition: Condition | None) -> Curve:
        """The metric over the whole run, in `unit`."""
        if metric in queueevidence.CURVES:
            chosen = self.rows(METRICS[metric].chooses, condition) if METRICS[metric].can_choose else ()
            return queueevidence.curve(self.outcome, metric, unit, chosen, condition)
        if metric in _FROM_SERIES:
            return self._from_series(metric, unit)
        if metric == "nodes":
            return self._nodes(lambda node: 1.0)
        if metric in _HELD:
            column = _HELD[metric]
            held = self._held(column, condition)
            return ratio(held, self._nodes(lambda n: float(getattr(n, column)))) if unit == RATIO else held
        return self._pods_curve(metric, condition)

    def ratio_mean(self, metric: str, condition: Condition | None, start_us: int, end_us: int) -> float:
        """Allocated time over capacity time: the mean of a share, weighted by how much there was."""
        column = _HELD[metric]
        held = self._held(column, condition).within(start_us, end_us)
        whole = self._nodes(lambda n: float(getattr(n, column))).within(start_us, end_us)
        total = whole.integral() if whole.is_defined else 0.0
        return held.integral() / total if total else float("nan")

    def _held(self, column: str, condition: Condition | None) -> Curve:
        intervals = self.outcome.intervals
        amounts, starts, ends = (intervals.column(c) for c in (column, "start_us", "end_us"))
        chosen = self._chosen_intervals(condition)
        deltas: list[tuple[int, float]] = []
        for i in chosen:
            deltas.append((starts[i], float(amounts[i])))
            if ends[i] is not None:
                deltas.append((ends[i], -float(amounts[i])))
        return stepping(deltas, self.start_us, self.end_us)

    def _chosen_intervals(self, condition: Condition | None) -> Iterable[int]:
        intervals = self.outcome.intervals
        if condition is None:
            return range(len(intervals))
        good = [holds(condition, row, PODS) for row in self.rows(PODS, None)]
        pods = intervals.column("pod")
        return [i for i in range(len(intervals)) if good[pods[i]]]

    def _nodes(self, amount: Callable[[Any], float]) -> Curve:
        deltas = []
        for node in self.rows(NODES, None):
            deltas.append((node.created_us, amount(node)))
            if node.deleted_us is not None:
                deltas.append((node.deleted_us, -amount(node)))
        return stepping(deltas, self.start_us, self.end_us)

    def _pods_curve(self, metric: str, condition: Condition | None) -> Curve:
        deltas = []
        for pod in self.rows(PODS, condition):
            start_us, end_us = _PRESENT[metric](pod)
            if start_us is None:
                continue
            amount = float(pod.gpu_milli) if metric == "gpu pending" else 1.0
            deltas.append((start_us, amount))
            last_us = end_us if end_us is not None else _last(pod)
            if last_us is not None:
                deltas.append((last_us, -amount))
        return stepping(deltas, self.start_us, self.end_us)

    def _from_series(self, metric: str, unit: str) -> Curve:
        """Means over the recorder's bins."""
        rows = list(self.outcome.series)
        if not rows:
            return Curve(np.array([self.start_us], np.int64), np.array([np.nan]), self.end_us)
        value = _FROM_SERIES[metric]
        values = np.array([value(row, unit) for row in rows], np.float64)
        return Curve(np.array([row.start_us for row in rows], np.int64), values, rows[-1].end_us)


def _last(pod: PodRow) -> int | None:
    return pod.finished_us if pod.finished_us is not None else pod.deleted_us


Span = tuple[int | None, int | None]
_POD_SPANS: dict[str, Callable[[PodRow], Span]] = {
    "wait": lambda r: (r.created_us, r.started_us),
    "scheduling wait": lambda r: (r.created_us, r.scheduled_us),
    "startup": lambda r: (r.scheduled_us, r.started_us),
    "run time": lambda r: (r.started_us, _last(r)),
}
_WORKLOAD_SPANS: dict[str, Callable[[WorkloadRow], Span]] = {
    "job wait": lambda r: (r.created_us, r.started_us),
    "job run time": lambda r: (r.started_us, r.finished_us),
    "turnaround": lambda r: (r.created_us, r.finished_us),
}
_SPANS: dict[str, Callable[[Any], Span]] = {
    **_POD_SPANS,
    **_WORKLOAD_SPANS,
    "queue wait": lambda r: (r.created_us, r.admitted_us),
    "firing time": lambda r: (r.fired_us, r.ended_us),
}
_TABLES: dict[str, Callable[[Outcome], Iterable[Any]]] = {
    PODS: lambda outcome: outcome.pods,
    NODES: lambda outcome: outcome.nodes,
    SCALINGS: lambda outcome: outcome.scalings,
    SERVICES: lambda outcome: outcome.services,
    QUEUED: lambda outcome: outcome.queues.workloads,
    QUOTAS: lambda outcome: outcome.queues.quotas,
    QUEUES: lambda outcome: outcome.queues.queues,
}
_PRESENT: dict[str, Callable[[PodRow], Span]] = {
    "pending": lambda r: (r.created_us, r.scheduled_us),
    "gpu pending": lambda r: (r.created_us, r.scheduled_us),
    "starting": lambda r: (r.scheduled_us, r.started_us),
    "running": lambda r: (r.started_us, _last(r)),
}
_HELD = {"gpu allocated": "gpu_milli", "cpu allocated": "cpu_milli", "memory allocated": "memory_bytes"}


def _gpu_used(row: SeriesRow, unit: str) -> float:
    if unit != RATIO:
        return row.gpu_milli_used
    return row.gpu_milli_used / row.gpu_milli_total if row.gpu_milli_total else float("nan")


def _efficiency(row: SeriesRow, _unit: str) -> float:
    return row.gpu_milli_used / row.gpu_milli_told if row.gpu_milli_told else float("nan")


_FROM_SERIES: dict[str, Callable[[SeriesRow, str], float]] = {
    "gpu used": _gpu_used,
    "gpu efficiency": _efficiency,
    "queue length": lambda row, _unit: row.queue_length,
    "fragmentation": lambda row, _unit: float("nan") if row.fragmentation is None else row.fragmentation,
}

# Conditions


def holds(condition: Condition, row: Row, of: str) -> bool:
    """Whether the row is one of those the condition chooses. What a row does not have, holds for nothing."""
    if isinstance(condition, All):
        return all(holds(part, row, of) for part in condition.parts)
    if isinstance(condition, Either):
        return any(holds(part, row, of) for part in condition.parts)
    if isinstance(condition, Not):
        return not holds(condition.part, row, of)
    return _test(condition, row, of)


def _test(test: FieldTest, row: Row, of: str) -> bool:
    if test.field == LABEL:
        value: Any = row.labels.get(test.key, "")
    else:
        value = FIELDS[of][test.field].get(row)
    if value is None:
        return False
    if test.operator == IN:
        return value in test.values
    if test.operator == NOT_IN:
        return value not in test.values
    if test.operator == LIKE:
        return fnmatchcase(str(value), str(test.values[0]))
    return compares(value, test.operator, test.values[0])


def compares(value: Any, operator: str, bound: Any) -> bool:
    if operator == "==":
        return bool(value == bound)
    if operator == "!=":
        return bool(value != bound)
    if operator in ("<", "<="):
        return bool(value < bound or (operator == "<=" and value == bound))
    return bool(value > bound or (operator == ">=" and value == bound))


__all__ = ["CPUS", "Evidence", "Reached", "Sample", "compares", "holds"]
