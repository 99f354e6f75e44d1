"""When was an alert pending, firing, resolved? One rule's state over many evaluations at once.

An alert is pending from the first evaluation that finds it, fires when it has been found for `for`, and goes on firing
for `keep_firing_for` after it is found no longer. What is found comes as runs: only changes cost.

Source: rules/alerting.go, Eval (Prometheus 3.14).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from fairway.telemetry.promql.matrix import Matrix
from fairway.telemetry.rules.reading import Rule
from fairway.telemetry.store import Labels, Times


@dataclass(slots=True)
class Alert:
    """One time that a rule found something. `fired_ms`: None if it never fired; `ended_ms`: None while it lasts."""

    rule: Rule
    group: str
    labels: Labels
    active_ms: int
    value: float
    fired_ms: int | None = None
    ended_ms: int | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


class Run(NamedTuple):
    """What somebody found at evaluations `first` to `end` (not included), one value each."""

    labels: Labels
    first: int
    end: int
    values: Any


def runs_of(matrix: Matrix) -> Iterator[Run]:
    """Series by series, each in the order of time."""
    rows, steps = matrix.present.shape
    edges = np.zeros((rows, steps + 1), np.int8)
    edges[:, :-1] = matrix.present
    edges[:, 1:] -= matrix.present
    row, first = np.nonzero(edges > 0)
    end = np.nonzero(edges < 0)[1]
    for r, lo, hi in zip(row.tolist(), first.tolist(), end.tolist(), strict=True):
        yield Run(matrix.labels[r], lo, hi, matrix.values[r, lo:hi])


@dataclass(slots=True)
class _Live:
    alert: Alert
    # The first evaluation at which it was found no longer, though it may be kept firing.
    missing_ms: int | None
    # The part of the span in which it was last found.
    part: int


class Tracker:
    """The alerts of one rule as evaluations go on."""

    def __init__(self, rule: Rule, group: str) -> None:
        self.rule, self.group = rule, group
        self.alerts: list[Alert] = []
        # The last evaluation, and those that failed: from when to when.
        self.reached_ms: int | None = None
        self.failed_ms: list[tuple[int, int]] = []
        self._live: dict[Labels, _Live] = {}
        self._part = 0

    def follow(self, steps: Times, runs: Iterable[Run]) -> None:
        """The next evaluations, and what they found; runs of one series come in the order of time."""
        grid: list[int] = steps.tolist()
        self._part += 1
        labels: Labels | None = None
        live: _Live | None = None
        for run in runs:
            if run.labels is not labels:
                labels = run.labels
                live = self._live.get(labels)
            if live is not None and self._is_over(live, grid, run.first):
                live = None
            if live is None:
                alert = Alert(self.rule, self.group, run.labels, grid[run.first], float(run.values[0]))
                self.alerts.append(alert)
                live = self._live[labels] = _Live(alert, None, self._part)
            alert = live.alert
            if alert.fired_ms is None:
                fires = bisect_left(grid, alert.active_ms + self.rule.for_ms, run.first, run.end)
                if fires < run.end:
                    alert.fired_ms, alert.value = grid[fires], float(run.values[fires - run.first])
            live.part = self._part
            live.missing_ms = grid[run.end] if run.end < len(grid) else None
        over = [labels for labels, live in self._live.items() if self._is_over(live, grid, len(grid))]
        for labels in over:
            del self._live[labels]
        self.reached_ms = grid[-1]

    def active(self) -> list[Alert]:
        """Those that are pending or firing."""
        return [live.alert for live in self._live.values()]

    def copy(self) -> Tracker:
        """One that goes on by itself."""
        twin = Tracker(self.rule, self.group)
        twins = {id(alert): replace(alert) for alert in self.alerts}
        twin.alerts = list(twins.values())
        twin.reached_ms, twin.failed_ms, twin._part = self.reached_ms, list(self.failed_ms), self._part
        twin._live = {
            labels: replace(live, alert=twins.get(id(live.alert)) or replace(live.alert))
            for labels, live in self._live.items()
        }
        return twin

    def _is_over(self, live: _Live, grid: list[int], until: int) -> bool:
        """Whether it ended before an evaluation of this part."""
        if live.part != self._part and live.missing_ms is None and until:
            live.missing_ms = grid[0]
        if live.missing_ms is None:
            return False
        kept_ms = self.rule.keep_firing_ms if live.alert.fired_ms is not None else 0
        over = bisect_left(grid, live.missing_ms + kept_ms)
        if over < until:
            live.alert.ended_ms = grid[over]
            return True
        return False
