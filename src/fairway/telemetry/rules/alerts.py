"""When was an alert pending, firing, resolved? One rule's state over many evaluations at once.

An alert is pending from the first evaluation that finds it, fires when it has been found for `for`, and goes on firing
for `keep_firing_for` after it is found no longer. Only changes cost: evaluations at which nothing changes are skipped.

Source: rules/alerting.go, Eval (Prometheus 3.14).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from fairway.telemetry.rules.reading import Rule
from fairway.telemetry.store import Bools, Labels, Times, Values

INACTIVE: Final = 0
PENDING: Final = 1
FIRING: Final = 2
States = npt.NDArray[np.int8]


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


@dataclass(slots=True)
class _Live:
    alert: Alert
    # Since when it has been found no longer, though it is kept firing.
    missing_since: int | None = None


class Tracker:
    """The alerts of one rule as evaluations go on."""

    def __init__(self, rule: Rule, group: str) -> None:
        self.rule, self.group = rule, group
        self.alerts: list[Alert] = []
        # When each became active, time after time.
        self.began_ms: dict[Labels, list[int]] = {}
        self._live: dict[Labels, _Live] = {}

    def follow(
        self, steps: Times, labels: list[Labels], values: Values, present: Bools
    ) -> dict[Labels, States]:
        """The next evaluations: what each found. Returns: every alert's state at each, int8[step]."""
        states: dict[Labels, States] = {}
        found = dict(zip(labels, range(len(labels)), strict=True))
        for one in [*self._live, *(name for name in labels if name not in self._live)]:
            row = found.get(one)
            there = present[row] if row is not None else np.zeros(len(steps), np.bool_)
            state = np.zeros(len(steps), np.int8)
            self._follow_one(one, steps, there, values[row] if row is not None else None, state)
            states[one] = state
        return states

    def _follow_one(
        self, labels: Labels, steps: Times, there: Bools, values: Values | None, state: States
    ) -> None:
        edges = np.flatnonzero(np.diff(there)) + 1
        for first, end in zip([0, *edges.tolist()], [*edges.tolist(), len(there)], strict=True):
            if end > first:
                if there[first]:
                    assert values is not None
                    self._found(labels, steps, first, end, values, state)
                else:
                    self._missing(labels, steps, first, end, state)

    def _found(
        self, labels: Labels, steps: Times, first: int, end: int, values: Values, state: States
    ) -> None:
        live = self._live.get(labels)
        if live is None:
            alert = Alert(self.rule, self.group, labels, int(steps[first]), float(values[first]))
            self.alerts.append(alert)
            self.began_ms.setdefault(labels, []).append(alert.active_ms)
            live = self._live[labels] = _Live(alert)
        live.missing_since = None
        alert = live.alert
        if alert.fired_ms is not None:
            state[first:end] = FIRING
            return
        fires = first + int(np.searchsorted(steps[first:end], alert.active_ms + self.rule.for_ms))
        state[first:fires] = PENDING
        state[fires:end] = FIRING
        if fires < end:
            alert.fired_ms, alert.value = int(steps[fires]), float(values[fires])

    def _missing(self, labels: Labels, steps: Times, first: int, end: int, state: States) -> None:
        live = self._live.get(labels)
        if live is None:
            return
        last = first
        if live.alert.fired_ms is not None and self.rule.keep_firing_ms:
            if live.missing_since is None:
                live.missing_since = int(steps[first])
            over = live.missing_since + self.rule.keep_firing_ms
            last = first + int(np.searchsorted(steps[first:end], over))
            state[first:last] = FIRING
        if last < end:
            live.alert.ended_ms = int(steps[last])
            del self._live[labels]
