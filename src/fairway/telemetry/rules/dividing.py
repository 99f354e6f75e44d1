"""Rules over a long span in two processes: alerts that nothing else depends on are found by a second one.

The second process shares the source as it is (fork), and sends back when each alert was active, as columns. Where there
is no fork, or the second process dies, everything is evaluated here.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from fairway.kube.collectorpause import collector_resting
from fairway.telemetry.promql.nodes import Aggregation, Binary, Call, Negation, Node, Selector, Subquery
from fairway.telemetry.rules.alerts import Alert, Tracker
from fairway.telemetry.rules.alertseries import ALERTS, FOR_STATE
from fairway.telemetry.rules.evaluating import Failure, Outcome, asked_names, evaluate
from fairway.telemetry.rules.reading import Group, Rule
from fairway.telemetry.store import SeriesSource

# Work of a rule over windows, beside one that looks at single samples. Measured on 8,000 GPUs.
_WINDOWS = 3


def evaluate_divided(
    groups: Sequence[Group], source: SeriesSource, start_ms: int, end_ms: int, *, is_short_lived: bool = False
) -> Outcome:
    """As `evaluate`, in two processes. `is_short_lived`: this process ends soon after, so that what is made need not be
    looked at for garbage."""
    with collector_resting() if is_short_lived else nullcontext():
        away, here = _divided(groups)
        if not away or "fork" not in multiprocessing.get_all_start_methods():
            return evaluate(groups, source, start_ms, end_ms)
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        second = context.Process(target=_send, args=(sender, away, source, start_ms, end_ms), daemon=True)
        second.start()
        sender.close()
        outcome = evaluate(here, source, start_ms, end_ms)
        try:
            _join(outcome, receiver.recv(), away)
        except EOFError:
            outcome = evaluate(groups, source, start_ms, end_ms)
        second.join()
        return outcome


def _divided(groups: Sequence[Group]) -> tuple[list[Group], list[Group]]:
    """What the second process evaluates, and what stays: about as much work each."""
    rules = [rule for group in groups for rule in group.rules]
    given = {rule.record for rule in rules if rule.record} | {ALERTS, FOR_STATE}
    asked = frozenset().union(*(asked_names(rule.node) for rule in rules))
    chosen: list[Rule] = []
    if not asked & {ALERTS, FOR_STATE}:
        free = [rule for rule in rules if rule.alert and not asked_names(rule.node) & given]
        left = sum(_work(rule.node) for rule in rules)
        taken = 0
        for rule in sorted(free, key=lambda rule: -_work(rule.node)):
            if taken + _work(rule.node) <= left - _work(rule.node) + 1:
                chosen.append(rule)
                taken += _work(rule.node)
                left -= _work(rule.node)
    ours = {id(rule) for rule in chosen}

    def part(is_away: bool) -> list[Group]:
        some = [replace(g, rules=tuple(r for r in g.rules if (id(r) in ours) is is_away)) for g in groups]
        return [group for group in some if group.rules]

    return part(True), part(False)


def _work(node: Node) -> int:
    match node:
        case Selector():
            return _WINDOWS if node.range_ms else 1
        case Binary():
            return _work(node.left) + _work(node.right)
        case Call():
            return sum(map(_work, node.arguments))
        case Aggregation() | Negation():
            return _work(node.inner)
        case Subquery():
            return _WINDOWS * _work(node.inner)
        case _:
            return 0


def _send(
    sender: Connection, groups: Sequence[Group], source: SeriesSource, start_ms: int, end_ms: int
) -> None:
    outcome = evaluate(groups, source, start_ms, end_ms)
    rules = [rule for group in groups for rule in group.rules]
    places = {id(rule): place for place, rule in enumerate(rules)}
    packed = []
    for tracker in outcome.recorded.trackers():
        numbers: dict[Any, int] = {}
        columns = [
            (
                numbers.setdefault(alert.labels, len(numbers)),
                alert.active_ms,
                alert.value,
                alert.fired_ms,
                alert.ended_ms,
                alert.annotations,
            )
            for alert in tracker.alerts
        ]
        packed.append(
            (places[id(tracker.rule)], list(numbers), columns, tracker.reached_ms, tracker.failed_ms)
        )
    failures = [(places[id(failure.rule)], failure) for failure in outcome.failures]
    sender.send((packed, failures, outcome.evaluations))


def _join(outcome: Outcome, sent: Any, groups: Sequence[Group]) -> None:
    packed, failures, evaluations = sent
    rules = [(rule, group) for group in groups for rule in group.rules]
    for place, names, columns, reached_ms, failed_ms in packed:
        rule, group = rules[place]
        tracker = Tracker(rule, f"{group.source};{group.name}")
        tracker.reached_ms, tracker.failed_ms = reached_ms, failed_ms
        tracker.alerts = [
            Alert(rule, tracker.group, names[number], active, value, fired, ended, said)
            for number, active, value, fired, ended, said in columns
        ]
        outcome.recorded.follow(tracker, group.interval_ms)
        outcome.alerts += tracker.alerts
    outcome.alerts.sort(key=lambda alert: (alert.active_ms, alert.rule.name, alert.labels))
    for place, failure in failures:
        outcome.failures.append(
            Failure(rules[place][0], failure.group, failure.first_ms, failure.times, failure.message)
        )
    outcome.evaluations += evaluations
