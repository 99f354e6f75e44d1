"""Rules over a long span in two processes: each looks for alerts in about half of the series.

What is divided are alerts that treat every series by itself and ask nothing of other rules; the rest is evaluated
here. The second process shares the source as it is (fork), and sends back when each alert was active, as columns. Where
there is no fork, or the second process dies, everything is evaluated here.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

from fairway.kube.collectorpause import collector_resting
from fairway.telemetry.promql import rowwise
from fairway.telemetry.promql.nodes import Aggregation, Binary, Call, Negation, Node, Selector, Subquery
from fairway.telemetry.rules.alerts import Alert
from fairway.telemetry.rules.alertseries import ALERTS, FOR_STATE
from fairway.telemetry.rules.evaluating import (
    Outcome,
    asked_names,
    evaluate,
    has_changing_labels,
    in_order,
)
from fairway.telemetry.rules.reading import Group, Rule
from fairway.telemetry.store import Dividable, Labels, SeriesSource

# Work of a rule over windows, beside one that looks at single samples. Measured on 8,000 GPUs.
_WINDOWS: Final = 3
# Samples looked at by rules that can be divided, from which on a second process pays: some seconds of work.
_WORTH: Final = 100_000_000


class _Sent(NamedTuple):
    """Alerts of one rule: `columns` by Alert's fields, of whom by number of `names`."""

    names: list[Labels]
    columns: list[tuple[Any, ...]]


def evaluate_long(
    groups: Sequence[Group], source: SeriesSource, start_ms: int, end_ms: int, *, worth: int = _WORTH
) -> Outcome:
    """As `evaluate`; what takes seconds is done in two processes, without looks for garbage."""
    own = _divisible(groups, source) if isinstance(source, Dividable) else frozenset()
    steps = sum((end_ms - start_ms) // g.interval_ms for g in groups for rule in g.rules if id(rule) in own)
    # Where there are threads, a lock that one of them holds would never be given back in the other process.
    is_alone = "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
    if not steps or not is_alone or not isinstance(source, Dividable) or steps * source.row_count() < worth:
        return evaluate(groups, source, start_ms, end_ms)
    with collector_resting():
        return _divided(groups, own, source, start_ms, end_ms)


def _divided(
    groups: Sequence[Group], own: Collection[int], source: Dividable, start_ms: int, end_ms: int
) -> Outcome:
    # 1. About half of the work away; the rest, and what cannot be divided, here.
    shared = _some(groups, lambda rule: id(rule) in own)
    rest = _some(groups, lambda rule: id(rule) not in own)
    ours, whole = (sum(_work(rule.node) for g in some for rule in g.rules) for some in (shared, rest))
    mine, theirs = source.divided(max(0.0, (ours - whole) / (2 * ours)))
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    second = context.Process(target=_send, args=(sender, shared, theirs, start_ms, end_ms), daemon=True)
    second.start()
    sender.close()
    outcome = evaluate(rest, source, start_ms, end_ms)
    part = evaluate(shared, mine, start_ms, end_ms)
    try:
        sent: list[_Sent | None] = receiver.recv()
    except EOFError:
        sent = []
    second.join()
    # 2. A rule that fails in a half, or gives two series the same labels, is evaluated once more as a whole.
    failed = {id(failure.rule) for failure in part.failures}
    again: set[int] = set()
    for place, tracker in enumerate(part.recorded.trackers()):
        found = sent[place] if sent else None
        names = {alert.labels for alert in tracker.alerts}
        if found is None or id(tracker.rule) in failed or not names.isdisjoint(found.names):
            again.add(id(tracker.rule))
        else:
            tracker.alerts += [
                Alert(tracker.rule, tracker.group, found.names[number], *columns)
                for number, *columns in found.columns
            ]
    # 3. All together.
    outcome.evaluations += part.evaluations
    _join(outcome, part, [rule for group in shared for rule in group.rules if id(rule) not in again], groups)
    if again:
        few = _some(groups, lambda rule: id(rule) in again)
        whole_again = evaluate(few, source, start_ms, end_ms)
        outcome.failures += whole_again.failures
        _join(outcome, whole_again, [rule for group in few for rule in group.rules], groups)
    in_order(outcome.alerts)
    return outcome


def _divisible(groups: Sequence[Group], source: SeriesSource) -> frozenset[int]:
    """Rules (by id) of which every series can be looked at by itself, and comes in a table."""
    rules = [rule for group in groups for rule in group.rules]
    given = {rule.record for rule in rules if rule.record} | {ALERTS, FOR_STATE}
    if any(asked_names(rule.node) & {ALERTS, FOR_STATE} for rule in rules):
        return frozenset()
    return frozenset(
        id(rule)
        for group in groups
        for rule in group.rules
        if rule.alert
        and not group.limit
        and rowwise.leaves_out(source, rule.node)
        and not asked_names(rule.node) & given
        # What is asked in a template is asked of all series.
        if not has_changing_labels(rule) and not any("query" in text for text in rule.annotations.values())
    )


def _some(groups: Sequence[Group], chosen: Callable[[Rule], bool]) -> list[Group]:
    some = [replace(group, rules=tuple(rule for rule in group.rules if chosen(rule))) for group in groups]
    return [group for group in some if group.rules]


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
    """Of every rule what was found; None of those that failed."""
    outcome = evaluate(groups, source, start_ms, end_ms)
    failed = {id(failure.rule) for failure in outcome.failures}
    sent: list[_Sent | None] = []
    for tracker in outcome.recorded.trackers():
        if id(tracker.rule) in failed:
            sent.append(None)
            continue
        numbers: dict[Labels, int] = {}
        columns = [
            (
                numbers.setdefault(a.labels, len(numbers)),
                a.active_ms,
                a.value,
                a.fired_ms,
                a.ended_ms,
                a.annotations,
            )
            for a in tracker.alerts
        ]
        sent.append(_Sent(list(numbers), columns))
    sender.send(sent)


def _join(outcome: Outcome, other: Outcome, rules: Sequence[Rule], groups: Sequence[Group]) -> None:
    """What another evaluation found of some rules."""
    intervals = {id(rule): group.interval_ms for group in groups for rule in group.rules}
    chosen = {id(rule) for rule in rules}
    for tracker in other.recorded.trackers():
        if id(tracker.rule) in chosen:
            outcome.recorded.follow(tracker, intervals[id(tracker.rule)])
            outcome.alerts += tracker.alerts
