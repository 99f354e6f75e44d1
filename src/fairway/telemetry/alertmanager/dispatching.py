"""Which notifications would an Alertmanager have sent of these alerts?

Every alert goes down the tree of routes and joins a group there. A group speaks `group_wait` after its first alert,
then looks every `group_interval`, and speaks when something new fires, when something ended (if its receiver wants
that), or when `repeat_interval` is over. Inhibited, silenced and muted alerts are left out each time it speaks.

Source: dispatch/dispatch.go, notify/dedup_stage.go, inhibit/inhibit.go (Alertmanager main, August 2026).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from fairway.telemetry.alertmanager.configuration import Configuration, Integration, Route
from fairway.telemetry.rules.alerts import Alert
from fairway.telemetry.store import Labels, fits

# Of one group: a month of looks every minute.
MOST_LOOKS: Final = 100_000
FIRST: Final = "first notification"
NEW: Final = "new alerts in group"
ALL_RESOLVED: Final = "all alerts resolved"
RESOLVED: Final = "new resolved alerts"
REPEATED: Final = "repeat interval elapsed"


@dataclass(frozen=True, slots=True)
class Notification:
    """What one integration was told at one time. `resolved` of the alerts had ended by then."""

    at_ms: int
    receiver: str
    integration: Integration
    reason: str
    group_key: str
    group_labels: Labels
    firing: tuple[Alert, ...]
    resolved: tuple[Alert, ...]


@dataclass(slots=True)
class _Told:
    """What an integration was last told of a group."""

    firing: frozenset[Labels]
    resolved: frozenset[Labels]
    at_ms: int


@dataclass(slots=True)
class _Group:
    route: Route
    labels: Labels
    alerts: list[Alert] = field(default_factory=list)


def routes_of(route: Route, labels: Labels) -> list[Route]:
    """Whom an alert reaches: leaves of the tree, in order."""
    if not fits(labels, route.matchers):
        return []
    found: list[Route] = []
    for child in route.routes:
        below = routes_of(child, labels)
        found += below
        if below and not child.continues:
            break
    return found or [route]


def notifications(configuration: Configuration, alerts: Iterable[Alert], end_ms: int) -> list[Notification]:
    """In the order of their times, until `end_ms`. Alerts that never fired reach nobody."""
    fired = sorted((a for a in alerts if a.fired_ms is not None), key=lambda a: (a.fired_ms or 0, a.labels))
    groups: dict[tuple[int, Labels], _Group] = {}
    for alert in fired:
        for route in routes_of(configuration.route, alert.labels):
            wanted = route.group_by
            labels = tuple(p for p in alert.labels if wanted is None or p[0] in wanted)
            groups.setdefault((id(route), labels), _Group(route, labels)).alerts.append(alert)
    hushing = _Hushing(configuration, fired)
    found: list[Notification] = []
    for group in groups.values():
        found += _told(group, configuration, hushing, end_ms)
    found.sort(key=lambda n: (n.at_ms, n.receiver, n.group_key, n.integration.kind))
    return found


class _Hushing:
    """Is an alert inhibited or silenced at a time?"""

    def __init__(self, configuration: Configuration, fired: Sequence[Alert]) -> None:
        self.silences = configuration.silences
        self.rules = configuration.inhibitions
        self.sources: list[dict[Labels, list[tuple[Alert, bool]]]] = []
        for rule in self.rules:
            by_equal: dict[Labels, list[tuple[Alert, bool]]] = {}
            for alert in fired:
                if fits(alert.labels, rule.source):
                    equal = _equal(alert.labels, rule.equal)
                    by_equal.setdefault(equal, []).append((alert, fits(alert.labels, rule.target)))
            self.sources.append(by_equal)

    def covers(self, alert: Alert, at_ms: int) -> bool:
        for silence in self.silences:
            if silence.start_ms <= at_ms < silence.end_ms and fits(alert.labels, silence.matchers):
                return True
        for rule, sources in zip(self.rules, self.sources, strict=True):
            if not fits(alert.labels, rule.target):
                continue
            # One that matches both sides is not inhibited by another that does, itself among them.
            is_both = fits(alert.labels, rule.source)
            for source, source_is_both in sources.get(_equal(alert.labels, rule.equal), ()):
                if _fires(source, at_ms) and not (is_both and source_is_both):
                    return True
        return False


def _equal(labels: Labels, names: Sequence[str]) -> Labels:
    return tuple(pair for pair in labels if pair[0] in names)


def _fires(alert: Alert, at_ms: int) -> bool:
    return (alert.fired_ms or 0) <= at_ms and (alert.ended_ms is None or at_ms < alert.ended_ms)


def _told(group: _Group, configuration: Configuration, hushing: _Hushing, end_ms: int) -> list[Notification]:
    """One group's whole life: it is gone when all its alerts have ended and been told of, and comes again."""
    route, found = group.route, list[Notification]()
    ways = configuration.receivers.get(route.receiver, ())
    told: list[_Told | None] = [None] * len(ways)
    coming, place, held = group.alerts, 0, dict[Labels, Alert]()
    looks = 0
    at = 0
    while looks < MOST_LOOKS and (held or place < len(coming)):
        if not held:
            at = (coming[place].fired_ms or 0) + route.wait_ms
        if at > end_ms:
            break
        while place < len(coming) and (coming[place].fired_ms or 0) <= at:
            held[coming[place].labels] = coming[place]
            place += 1
        looks += 1
        if not _is_muted(route, configuration, at):
            shown = [alert for alert in held.values() if not hushing.covers(alert, at)]
            found += _spoken(group, route, ways, told, shown, at)
        for labels in [key for key, alert in held.items() if not _fires(alert, at)]:
            del held[labels]
        at += route.interval_ms
    return found


def _is_muted(route: Route, configuration: Configuration, at_ms: int) -> bool:
    def any_of(names: Sequence[str]) -> bool:
        return any(i.holds(at_ms) for name in names for i in configuration.intervals.get(name, ()))

    return any_of(route.muted) or (bool(route.active) and not any_of(route.active))


def _spoken(
    group: _Group,
    route: Route,
    ways: Sequence[Integration],
    told: list[_Told | None],
    shown: list[Alert],
    at_ms: int,
) -> list[Notification]:
    if not shown:
        return []
    firing = tuple(a for a in shown if _fires(a, at_ms))
    resolved = tuple(a for a in shown if not _fires(a, at_ms))
    now = _Told(frozenset(a.labels for a in firing), frozenset(a.labels for a in resolved), at_ms)
    found = []
    for place, way in enumerate(ways):
        reason = _reason(told[place], now, way, route.repeat_ms)
        if reason:
            told[place] = now
            if way.sends_resolved or firing:
                ended = resolved if way.sends_resolved else ()
                inside = ", ".join(f'{name}="{value}"' for name, value in group.labels)
                key = f"{route.key}:{{{inside}}}"
                found.append(
                    Notification(at_ms, route.receiver, way, reason, key, group.labels, firing, ended)
                )
    return found


def _reason(before: _Told | None, now: _Told, way: Integration, repeat_ms: int) -> str:
    """Why it must be told; empty where it need not."""
    if before is None:
        return FIRST if now.firing else ""
    if not now.firing <= before.firing:
        return NEW if before.firing else FIRST
    if not now.firing:
        return ALL_RESOLVED if before.firing else ""
    if way.sends_resolved and not now.resolved <= before.resolved:
        return RESOLVED
    return REPEATED if before.at_ms < now.at_ms - repeat_ms else ""
