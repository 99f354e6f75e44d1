"""Which alerts would a run's own series have raised: when, how late, and what was wasted before?

A rule's alert is late by how long its condition held before it fired; where its labels point at GPUs (`gpu` with
`Hostname`, a `pod`, a `namespace`), what these wasted meanwhile is looked up in their utilisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final

import numpy as np

from fairway.catalog.catalog import Catalog
from fairway.kube.objects import meta_of
from fairway.kube.timestamps import HOUR_US, parse_rfc3339
from fairway.metering.rates import UNPRICED
from fairway.recorder.tables import Outcome as RunOutcome
from fairway.results.billing import machine_rates
from fairway.results.telemetry import series_of_run
from fairway.scenario.assertions.alertwords import AlertRow
from fairway.telemetry.promql import Matrix, query_range
from fairway.telemetry.promql.evaluating import Evaluation
from fairway.telemetry.promql.nodes import SCALAR, Binary, Number, kind_of
from fairway.telemetry.rules.alerts import Alert, Tracker, runs_of
from fairway.telemetry.rules.dividing import evaluate_long
from fairway.telemetry.rules.evaluating import Outcome as Evaluated
from fairway.telemetry.rules.reading import KIND, Group, Rule, rules_of
from fairway.telemetry.store import SeriesSource
from fairway.twin.twin import Twin

# An alert that is over so soon after it fired helped nobody.
BRIEF_MS: Final = 600_000
# A GPU below this utilisation (%) does nothing.
IDLE_BELOW: Final = 5
_UTIL: Final = "DCGM_FI_DEV_GPU_UTIL"
_WHOSE: Final = ("UUID", "Hostname", "gpu", "namespace", "pod", "container")
_THRESHOLDS: Final = (1, 5, 10, 25, 50)
_MOST_STEPS: Final = 1_000


@dataclass(frozen=True, slots=True)
class RuleTest:
    """One alerting rule over a span. `late_ms`: of each alert that fired, how long its condition had held;
    `idle_gpu_s`: what its GPUs idled in that time, `idle_micros`: their share of what their machines cost meanwhile
    (None where nobody says); `brief`: alerts that were over within ten minutes."""

    rule: Rule
    group: str
    fired: tuple[Alert, ...]
    pending_only: int
    brief: int
    firing_ms: int
    late_ms: tuple[int, ...]
    idle_gpu_s: float | None
    idle_micros: int | None = None

    @property
    def late_p50_ms(self) -> int | None:
        return round(median(self.late_ms)) if self.late_ms else None


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a rule would have done with another threshold."""

    value: float
    fired: int
    firing_ms: int


class GpuPrices:
    """What a GPU's share of its machine cost, by node."""

    def __init__(self, outcome: RunOutcome, catalog: Catalog) -> None:
        machines, rates = machine_rates(outcome, catalog)
        self._began_us = outcome.began_us
        self._rates: dict[str, list[tuple[int, int, float]]] = {}
        columns = (rates.machine, rates.start_us, rates.end_us, rates.micros_per_hour)
        for machine, start, end, micros in zip(*(c.tolist() for c in columns), strict=True):
            if micros != UNPRICED and machines.gpus[machine] > 0:
                share = micros / float(machines.gpus[machine])
                self._rates.setdefault(machines.names[machine], []).append((start, end, share))

    def between(self, node: str, start_ms: int, end_ms: int) -> int | None:
        """Micro-dollars of one GPU; None where nobody says what it costs."""
        start, end = start_ms * 1000 - self._began_us, end_ms * 1000 - self._began_us
        pieces = [
            (min(end, until) - max(start, since)) * rate / HOUR_US
            for since, until, rate in self._rates.get(node, ())
            if min(end, until) > max(start, since)
        ]
        return round(sum(pieces)) if pieces else None


def try_rules(
    groups: Sequence[Group],
    source: SeriesSource,
    start_ms: int,
    end_ms: int,
    prices: GpuPrices | None = None,
) -> tuple[Evaluated, list[RuleTest]]:
    """Rules in their order."""
    found = evaluate_long(groups, source, start_ms, end_ms)
    tests = []
    for group in groups:
        for rule in group.rules:
            if rule.alert:
                ours = [a for a in found.alerts if a.rule is rule]
                tests.append(_tested(rule, group, ours, source, end_ms, prices))
    return found, tests


def _tested(
    rule: Rule,
    group: Group,
    alerts: list[Alert],
    source: SeriesSource,
    end_ms: int,
    prices: GpuPrices | None,
) -> RuleTest:
    fired = tuple(a for a in alerts if a.fired_ms is not None)
    late: list[int] = []
    idle: float | None = None
    micros: int | None = None
    brief = firing = 0
    for alert in fired:
        assert alert.fired_ms is not None
        over = alert.ended_ms if alert.ended_ms is not None else end_ms
        firing += over - alert.fired_ms
        brief += alert.ended_ms is not None and over - alert.fired_ms < BRIEF_MS
        wasted = _idle_before(alert, source) if len(late) < _MOST_STEPS else None
        late.append(alert.fired_ms - alert.active_ms if wasted is None else max(ms for _, ms in wasted))
        for node, ms in wasted or ():
            idle = (idle or 0.0) + ms / 1000.0
            paid = prices.between(node, alert.fired_ms - ms, alert.fired_ms) if prices is not None else None
            micros = micros if paid is None else (micros or 0) + paid
    pending = len(alerts) - len(fired)
    return RuleTest(rule, group.name, fired, pending, brief, firing, tuple(late), idle, micros)


def _idle_before(alert: Alert, source: SeriesSource) -> list[tuple[str, int]] | None:
    """Of every GPU that it points at and that was idle when it fired: its node, and how long it had been (ms); None
    where it points at none, or they were not idle."""
    labels = dict(alert.labels)
    chosen = [f'{name}="{_escaped(labels[name])}"' for name in _WHOSE if name in labels]
    if not chosen or not any(name in labels for name in ("UUID", "gpu", "pod", "namespace", "Hostname")):
        return None
    fired = alert.fired_ms or 0
    step = 30_000
    begin = max(fired - 86_400_000, 0)
    found = query_range(source, f"{_UTIL}{{{','.join(chosen)}}}", begin + (fired - begin) % step, fired, step)
    if not found.labels:
        return None
    busy = found.present & (found.values >= IDLE_BELOW)
    idle = found.present & ~busy
    steps = found.values.shape[1]
    lengths: list[tuple[str, int]] = []
    for row in range(len(found.labels)):
        if not idle[row, -1]:
            continue
        stops = np.flatnonzero(~idle[row])
        length = steps - 1 - int(stops[-1]) if len(stops) else steps
        lengths.append((dict(found.labels[row]).get("Hostname", ""), length * step))
    return lengths or None


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def thresholds(test: RuleTest, source: SeriesSource, start_ms: int, end_ms: int) -> list[Threshold]:
    """Of a rule `query < number` (or `>`, …): what it would have done with other numbers, drawn from the quantiles of
    what the query gave over the span. Looked at in at most a thousand steps; empty for other rules."""
    node = test.rule.node
    if not isinstance(node, Binary) or node.op not in ("<", "<=", ">", ">=") or kind_of(node.left) == SCALAR:
        return []
    if not isinstance(node.right, Number):
        return []
    step = max(60_000, -(-(end_ms - start_ms) // _MOST_STEPS // 60_000) * 60_000)
    steps = np.arange(-(-start_ms // step) * step, end_ms + 1, step, dtype=np.int64)
    if not len(steps):
        return []
    found = Evaluation(source, steps, int(steps[0]), int(steps[-1]), step).of(node.left)
    if not isinstance(found, Matrix) or not found.present.any():
        return []
    seen = found.values[found.present]
    shares = _THRESHOLDS if node.op in ("<", "<=") else tuple(100 - s for s in _THRESHOLDS)
    values = {node.right.value, *(float(f"{v:.3g}") for v in np.nanpercentile(seen, shares))}
    return [_with_threshold(test.rule, node.op, value, found, steps) for value in sorted(values)]


def _with_threshold(rule: Rule, op: str, value: float, found: Matrix, steps: Any) -> Threshold:
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[op]
    tracker = Tracker(replace(rule), "")
    tracker.follow(steps, runs_of(found._replace(present=found.present & compare(found.values, value))))
    fired = [a for a in tracker.alerts if a.fired_ms is not None]
    last = int(steps[-1])
    firing = sum((a.ended_ms if a.ended_ms is not None else last) - (a.fired_ms or 0) for a in fired)
    return Threshold(value, len(fired), firing)


def alerts_of(twin: Twin, outcome: RunOutcome) -> list[AlertRow]:
    """What the PrometheusRules that a twin ended with would have raised, each since it was made. Nothing is looked at
    where there are none. A rule that cannot be read raises nothing: `fairway rules test` says why."""
    groups: list[Group] = []
    for obj in twin.store.objects(KIND):
        made_ms = parse_rfc3339(meta_of(obj)["creationTimestamp"]) // 1000
        groups += [replace(group, since_ms=made_ms) for group in rules_of(obj)[0]]
    if not groups:
        return []
    found = evaluate_long(groups, series_of_run(outcome), outcome.began_us // 1000, outcome.ended_us // 1000)
    return [_row(alert) for alert in found.alerts]


def _row(alert: Alert) -> AlertRow:
    def us(at_ms: int | None) -> int | None:
        return None if at_ms is None else at_ms * 1000

    labels: Mapping[str, str] = dict(alert.labels)
    told = alert.annotations.get("summary") or alert.annotations.get("description") or ""
    ended = us(alert.ended_ms)
    return AlertRow(
        alert.rule.alert, labels, alert.active_ms * 1000, us(alert.fired_ms), ended, alert.value, told
    )
