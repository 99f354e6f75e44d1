"""What do rules record, and which alerts fire, over a span of virtual time?

Groups are evaluated at multiples of their interval, a day of evaluations at a time: a group after those whose records
it asks for, its rules one after another, each over all times at once. A group that asks for what it records itself goes
step by step. What rules record, `ALERTS` and `ALERTS_FOR_STATE` can be asked for like every other series.

Unlike Prometheus: groups are not spread over their interval by a hash of their names, and nothing is late.

Source: rules/group.go, rules/recording.go, rules/alerting.go (Prometheus 3.14).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Final, TypeVar

import numpy as np

from fairway.telemetry.promql import PromQLError, query_instant, rowwise
from fairway.telemetry.promql.evaluating import Evaluation, as_vector
from fairway.telemetry.promql.matrix import SAME_LABELS, Matrix, merged, unnamed, with_label
from fairway.telemetry.promql.nodes import Aggregation, Binary, Call, Negation, Node, Selector, Subquery
from fairway.telemetry.rules.alerts import Alert, Run, Tracker, runs_of
from fairway.telemetry.rules.alertseries import ALERTS, FOR_STATE, Recorded, for_state_labels
from fairway.telemetry.rules.expanding import expand
from fairway.telemetry.rules.reading import Group, Rule
from fairway.telemetry.store import (
    NAME,
    STALE,
    Labels,
    SeriesSource,
    Times,
    Union,
    name_of,
)

DAY_MS: Final = 86_400_000
_MOST_STEPS: Final = 2_880
# How often a span with a failing evaluation is halved before the rest of it counts as failing.
_MOST_TRIES: Final = 64
_Answer = TypeVar("_Answer")
_CHANGES: Final = re.compile(r"\$value|\.Value|query|now")
_SAME: Final = "vector contains metrics with the same labelset after applying {} labels"


@dataclass(frozen=True, slots=True)
class Failure:
    """Evaluations of one rule that failed for one reason."""

    rule: Rule
    group: str
    first_ms: int
    times: int
    message: str


@dataclass(slots=True)
class Outcome:
    """`recorded`: what recording rules and alerts left behind as series; `evaluations`: of all rules together."""

    alerts: list[Alert] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    recorded: Recorded = field(default_factory=Recorded)
    evaluations: int = 0


@dataclass(slots=True)
class _State:
    """What one group remembers from one part of the span to the next."""

    group: Group
    is_stepwise: bool
    trackers: dict[int, Tracker]
    # Series that a rule's last evaluation gave, by the place of the rule: they end with a marker.
    last: dict[int, frozenset[Labels]]
    # Alerts' labels, and those of what their rule found.
    origins: dict[Labels, Labels]
    # Alerts' labels by what was found, and the other way round, by rule: of rules whose labels do not change.
    names: dict[int, tuple[dict[Labels, Labels], dict[Labels, Labels]]]
    # Evaluations until what alerts were before a restart counts again; 0: it does.
    waits: int = 0


Past = Mapping[Labels, tuple[int, float]]
"""`ALERTS_FOR_STATE` as it was last: when (ms), and since when the alert was active (s)."""
_GRACE_MS: Final = 600_000
"""Prometheus' --rules.alert.for-grace-period."""
_OUTAGE_MS: Final = 3_600_000
"""Prometheus' --rules.alert.for-outage-tolerance."""
_EVALUATIONS: Final = 2
"""Before alerts are as they were: the first may not have everything that it asks for."""


def evaluate(groups: Sequence[Group], source: SeriesSource, start_ms: int, end_ms: int) -> Outcome:
    """From `start_ms` to `end_ms`, both included. Alerts come by the time they became active."""
    running = Running(groups, source)
    longest = max((group.interval_ms for group in groups), default=0)
    part_ms = max(min(DAY_MS, *(_MOST_STEPS * g.interval_ms for g in groups)), longest) if groups else DAY_MS
    for first in range(start_ms, end_ms + 1, part_ms):
        running.go_on(first, min(first + part_ms - 1, end_ms))
    return running.finished()


class Running:
    """Rules, as time goes on."""

    def __init__(
        self,
        groups: Sequence[Group],
        source: SeriesSource,
        before: Running | None = None,
        past: Past | None = None,
    ) -> None:
        """`before`: whose rules these were until now: alerts of a rule that is the same go on. `past`: what alerts
        were before a restart."""
        self.outcome = Outcome()
        if before is not None:
            self.outcome.recorded = Recorded(before.outcome.recorded.store)
        self._past: Past = past or {}
        self._both = Union((source, self.outcome.recorded))
        self._states = [_state_of(group, is_stepwise) for group, is_stepwise in _ordered(groups)]
        known = {} if before is None else {s.group.identity: s for s in before._states}
        for state in self._states:
            old = known.get(state.group.identity)
            state.waits = (_EVALUATIONS if self._past else 0) if old is None else old.waits
            if old is not None:
                _carry(state, old)
            for tracker in state.trackers.values():
                self.outcome.recorded.follow(tracker, state.group.interval_ms)

    def copy(self, source: SeriesSource) -> Running:
        """One that goes on by itself, over that source."""
        twin = Running((), source)
        twin.outcome.recorded = Recorded(self.outcome.recorded.store.copy())
        twin._both, twin._past = Union((source, twin.outcome.recorded)), self._past
        for state in self._states:
            trackers = {place: tracker.copy() for place, tracker in state.trackers.items()}
            twin._states.append(
                replace(
                    state, trackers=trackers, last=dict(state.last), origins=dict(state.origins), names={}
                )
            )
            for tracker in trackers.values():
                twin.outcome.recorded.follow(tracker, state.group.interval_ms)
        return twin

    @property
    def alerts(self) -> list[Alert]:
        """Of all rules, so far."""
        return [a for state in self._states for tracker in state.trackers.values() for a in tracker.alerts]

    def go_on(self, first_ms: int, until_ms: int) -> None:
        """The evaluations from one time to another, both included."""
        for state in self._states:
            interval_ms = state.group.interval_ms
            steps = np.arange(-(-first_ms // interval_ms), until_ms // interval_ms + 1, dtype=np.int64)
            steps *= interval_ms
            steps = steps[steps >= state.group.since_ms]
            if len(steps):
                _run_group(state, steps, self._both, self.outcome)
                if state.waits:
                    state.waits = max(state.waits - len(steps), 0)
                    if not state.waits:
                        _restore(state, self._past, int(steps[-1]))

    def for_states(self) -> dict[Labels, tuple[int, float]]:
        """`ALERTS_FOR_STATE` of now: what a restart needs. What still waits for its own is as it was."""
        found = {}
        for state in self._states:
            for tracker in state.trackers.values():
                for alert in tracker.active():
                    labels = for_state_labels(alert)
                    if state.waits:
                        if labels in self._past:
                            found[labels] = self._past[labels]
                    elif tracker.reached_ms is not None:
                        found[labels] = (tracker.reached_ms, float(alert.active_ms // 1000))
        if any(state.waits for state in self._states):
            found = {**self._past, **found}
        return found

    def annotate(self, alerts: Iterable[Alert]) -> None:
        """Fill in what alerts say, as of when they fired."""
        ours = {id(alert) for alert in alerts}
        for state in self._states:
            for tracker in state.trackers.values():
                for alert in tracker.alerts:
                    if id(alert) in ours and alert.fired_ms is not None:
                        alert.annotations = _annotations(alert, state.origins[alert.labels], self._both)

    def forget(self, before_ms: int) -> None:
        """Alerts that ended, and records, before a time."""
        self.outcome.recorded.store.forget(before_ms)
        for state in self._states:
            for tracker in state.trackers.values():
                tracker.alerts = [a for a in tracker.alerts if a.ended_ms is None or a.ended_ms >= before_ms]

    def finished(self) -> Outcome:
        found = self.outcome
        found.alerts = self.alerts
        self.annotate(found.alerts)
        in_order(found.alerts)
        return found


def in_order(alerts: list[Alert]) -> None:
    """By the time they became active."""
    alerts.sort(key=lambda alert: (alert.active_ms, alert.rule.name, alert.labels))


def _carry(state: _State, old: _State) -> None:
    """What a group remembers of its rules that are still the same."""
    for place, rule in enumerate(state.group.rules):
        if place < len(old.group.rules) and old.group.rules[place] == rule:
            if place in old.trackers:
                state.trackers[place] = old.trackers[place]
                state.origins.update(old.origins)
            elif place in old.last:
                state.last[place] = old.last[place]


def _restore(state: _State, past: Past, at_ms: int) -> None:
    """Alerts wait as long as they still had to when it ended, and ten minutes at least.

    Source: rules/group.go, RestoreForState (Prometheus 3.14).
    """
    for tracker in state.trackers.values():
        held_ms = tracker.rule.for_ms
        if held_ms < _GRACE_MS:
            continue
        for alert in tracker.active():
            down_ms, active_s = past.get(for_state_labels(alert), (0, 0.0))
            if down_ms < at_ms - _OUTAGE_MS or alert.fired_ms is not None:
                continue
            active_ms = int(active_s) * 1000
            left_ms = held_ms - (down_ms - active_ms)
            if 0 < left_ms < _GRACE_MS:
                active_ms = at_ms + _GRACE_MS - held_ms
            elif left_ms > 0:
                active_ms += at_ms - down_ms
            alert.active_ms = active_ms


def _state_of(group: Group, is_stepwise: bool) -> _State:
    name = f"{group.source};{group.name}"
    trackers = {place: Tracker(rule, name) for place, rule in enumerate(group.rules) if rule.alert}
    return _State(group, is_stepwise, trackers, {}, {}, {})


def _annotations(alert: Alert, found: Labels, source: SeriesSource) -> dict[str, str]:
    """As of when it fired."""
    at_ms = alert.fired_ms or alert.active_ms
    ask = partial(query_instant, source, at_ms=at_ms)
    texts = alert.rule.annotations.items()
    return {
        name: expand(text, alert.rule.alert, dict(found), alert.value, at_ms, ask) for name, text in texts
    }


def _run_group(state: _State, steps: Times, source: SeriesSource, outcome: Outcome) -> None:
    parts = [steps[at : at + 1] for at in range(len(steps))] if state.is_stepwise else [steps]
    for part in parts:
        for place, rule in enumerate(state.group.rules):
            outcome.evaluations += len(part)
            tracker = state.trackers.get(place)
            if tracker is None:
                for some, found in _tried(partial(_found, state, rule, source), part, rule, state, outcome):
                    _record(state, place, some, found, outcome)
            else:
                for some, runs in _tried(partial(_runs, state, place, source), part, rule, state, outcome):
                    tracker.follow(some, runs)


def _tried(
    act: Callable[[Times], _Answer], steps: Times, rule: Rule, state: _State, outcome: Outcome
) -> Iterator[tuple[Times, _Answer]]:
    """Evaluations that do not fail, in the order of their times; those that do are noted."""
    left, tries = [steps], 0
    while left:
        some = left.pop()
        tries += 1
        try:
            yield some, act(some)
        except PromQLError as wrong:
            if len(some) > 1 and tries < _MOST_TRIES:
                half = len(some) // 2
                left += [some[half:], some[:half]]
            else:
                _note(outcome, Failure(rule, state.group.name, int(some[0]), len(some), str(wrong)))
                for tracker in state.trackers.values():
                    if tracker.rule is rule:
                        tracker.failed_ms.append((int(some[0]), int(some[-1])))


def _note(outcome: Outcome, failure: Failure) -> None:
    for place in range(len(outcome.failures) - 1, -1, -1):
        known = outcome.failures[place]
        if (known.rule, known.group, known.message) == (failure.rule, failure.group, failure.message):
            outcome.failures[place] = replace(known, times=known.times + failure.times)
            return
    outcome.failures.append(failure)


def _runs(state: _State, place: int, source: SeriesSource, steps: Times) -> list[Run]:
    """What an alert's query gives, with the alert's labels. Raises: PromQLError."""
    group, rule = state.group, state.group.rules[place]
    if not group.limit and not has_changing_labels(rule):
        found = rowwise.runs(_asked_at(group, source, steps), rule.node)
        if found is not None:
            named = _named(state, place, found, steps, source)
            if named is not None:
                return named
    return list(runs_of(_found(state, rule, source, steps)))


def _named(
    state: _State, place: int, found: list[rowwise.Found], steps: Times, source: SeriesSource
) -> list[Run] | None:
    """With the alert's labels; None where two series have the same ones, which may be at one time."""
    rule = state.group.rules[place]
    drops_name = rowwise.drops_name(rule.node)
    names, whose = state.names.setdefault(place, ({}, {}))
    named: list[Run] = []
    before: Labels | None = None
    for of, first, end, values in found:
        if of is not before:
            before, known = of, names.get(of)
            if known is None:
                plain = unnamed(of) if drops_name else of
                known = _alert_labels(state, rule, plain, float(values[0]), int(steps[first]), source)
                names[of] = known
                if whose.setdefault(known, of) != of:
                    return None
            name = known
        named.append(Run(name, first, end, values))
    return named


def _asked_at(group: Group, source: SeriesSource, steps: Times) -> Evaluation:
    asked = steps - group.offset_ms
    return Evaluation(source, asked, int(asked[0]), int(asked[-1]), group.interval_ms, group.interval_ms)


def has_changing_labels(rule: Rule) -> bool:
    """Whether the value of a moment is in its labels."""
    return any(_CHANGES.search(text) for text in rule.labels.values() if "{{" in text)


def _found(state: _State, rule: Rule, source: SeriesSource, steps: Times) -> Matrix:
    """What a rule's query gives, with the rule's labels. Raises: PromQLError."""
    group = state.group
    answer = _asked_at(group, source, steps).of(rule.node)
    if isinstance(answer, str):
        raise PromQLError("rule result is not a vector or scalar")
    matrix = answer if isinstance(answer, Matrix) else as_vector(answer)
    if group.limit and int(matrix.present.sum(axis=0).max(initial=0)) > group.limit:
        most = int(matrix.present.sum(axis=0).max())
        what = "alerts" if rule.alert else "series"
        raise PromQLError(f"exceeded limit of {group.limit} with {most} {what}")
    try:
        return merged(_labelled(state, rule, matrix, steps, source))
    except PromQLError as wrong:
        if str(wrong) == SAME_LABELS:
            raise PromQLError(_SAME.format("alert" if rule.alert else "rule")) from None
        raise


def _labelled(state: _State, rule: Rule, matrix: Matrix, steps: Times, source: SeriesSource) -> Matrix:
    if rule.record:
        return matrix._replace(
            labels=[_with(unnamed(one), {NAME: rule.record, **rule.labels}) for one in matrix.labels]
        )
    if not has_changing_labels(rule):
        rows = [row for row in range(len(matrix.labels)) if matrix.present[row].any()]
        names = []
        for row in rows:
            first = int(matrix.present[row].argmax())
            names.append(
                _alert_labels(
                    state, rule, matrix.labels[row], matrix.values[row, first], int(steps[first]), source
                )
            )
        return Matrix(names, matrix.values[rows], matrix.present[rows])
    parts: list[tuple[Labels, int, int]] = []
    for row, step in zip(*np.nonzero(matrix.present), strict=True):
        name = _alert_labels(
            state, rule, matrix.labels[row], matrix.values[row, step], int(steps[step]), source
        )
        parts.append((name, int(row), int(step)))
    places: dict[tuple[Labels, int], int] = {}
    for name, row, _ in parts:
        places.setdefault((name, row), len(places))
    present = np.zeros((len(places), len(steps)), np.bool_)
    for name, row, step in parts:
        present[places[name, row], step] = True
    rows = [row for _, row in places]
    return Matrix([name for name, _ in places], matrix.values[rows], present)


def _alert_labels(
    state: _State, rule: Rule, found: Labels, value: float, at_ms: int, source: SeriesSource
) -> Labels:
    given, ask = dict(found), partial(query_instant, source, at_ms=at_ms)
    texts = {
        name: expand(text, rule.alert, given, float(value), at_ms, ask) for name, text in rule.labels.items()
    }
    name = _with(unnamed(found), {**texts, "alertname": rule.alert})
    state.origins[name] = found
    return name


def _with(found: Labels, more: dict[str, str]) -> Labels:
    for name, value in more.items():
        found = with_label(found, name, value)
    return found


def _record(state: _State, place: int, steps: Times, found: Matrix, outcome: Outcome) -> None:
    """Samples into the store; a series that is there no longer ends with a marker."""
    before = state.last.get(place, frozenset())
    lasting = set()
    for name, values, there in zip(*found, strict=True):
        if there.all():
            outcome.recorded.store.extend(name, steps, values)
        else:
            marks = there.copy()
            marks[1:] |= there[:-1]
            marks[0] |= name in before
            outcome.recorded.store.extend(name, steps[marks], np.where(there, values, STALE)[marks])
        if there[-1]:
            lasting.add(name)
    for name in before.difference(found.labels):
        outcome.recorded.store.extend(name, steps[:1], np.array([STALE]))
    state.last[place] = frozenset(lasting)


def _ordered(groups: Sequence[Group]) -> list[tuple[Group, bool]]:
    """Groups after those whose records they ask for, and whether each must go step by step."""
    gives = [_gives(group.rules) for group in groups]
    asks = [frozenset().union(*(asked_names(rule.node) for rule in group.rules)) for group in groups]
    left, ordered = list(range(len(groups))), []
    while left:
        free = [g for g in left if not any(asks[g] & gives[o] for o in left if o != g)]
        # In a circle nobody is first: the files' order decides, and what is asked for is as of the part before.
        g = (free or left)[0]
        left.remove(g)
        ordered.append((groups[g], _asks_itself(groups[g])))
    return ordered


def _gives(rules: Sequence[Rule]) -> frozenset[str]:
    names = {rule.record for rule in rules if rule.record}
    return frozenset(names | ({ALERTS, FOR_STATE} if any(rule.alert for rule in rules) else set()))


def _asks_itself(group: Group) -> bool:
    return any(asked_names(rule.node) & _gives(group.rules[place:]) for place, rule in enumerate(group.rules))


@lru_cache(maxsize=4096)
def asked_names(node: Node) -> frozenset[str]:
    """Metrics that a query asks for by name."""
    match node:
        case Selector():
            name = name_of(node.matchers)
            return frozenset((name,)) if name else frozenset()
        case Binary():
            return asked_names(node.left) | asked_names(node.right)
        case Call():
            return frozenset().union(*map(asked_names, node.arguments))
        case Aggregation():
            return asked_names(node.inner) | (
                asked_names(node.parameter) if node.parameter is not None else frozenset()
            )
        case Negation() | Subquery():
            return asked_names(node.inner)
        case _:
            return frozenset()
