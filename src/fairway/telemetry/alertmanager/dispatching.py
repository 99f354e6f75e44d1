"""Which notifications would an Alertmanager have sent of these alerts?

Every alert goes down the tree of routes and joins a group there. A group speaks `group_wait` after its first alert,
then looks every `group_interval`, and speaks when something new fires, when something ended (if its receiver wants
that), or when `repeat_interval` is over. Inhibited, silenced and muted alerts are left out each time it speaks.

Source: dispatch/dispatch.go, notify/dedup_stage.go, inhibit/inhibit.go (Alertmanager main, August 2026).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from fairway.telemetry.alertmanager.configuration import Configuration, Integration, Route
from fairway.telemetry.rules.alerts import Alert
from fairway.telemetry.store import Labels, fits

# Of one group: a month of looks every minute.
MOST_LOOKS: Final = 100_000
# Groups at a time: tenants' routes can ask for one per alert.
MOST_GROUPS: Final = 10_000
# Unlike Alertmanager: whatever `group_interval` says, a group looks once a second at most.
LEAST_INTERVAL_MS: Final = 1_000
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


@dataclass(frozen=True, slots=True)
class Told:
    """What an integration was last told of a group."""

    firing: frozenset[Labels]
    resolved: frozenset[Labels]
    at_ms: int


Log = dict[tuple[str, str, str, int], Told]
"""By Alertmanager, group key, receiver, and the place of the integration in it: its notification log."""


@dataclass(slots=True)
class _Group:
    """`coming`: alerts that fire later than it has got; `at_ms`: when it speaks next, None: nobody is in it."""

    route: Route
    labels: Labels
    key: str
    coming: deque[Alert] = field(default_factory=deque)
    held: dict[Labels, Alert] = field(default_factory=dict)
    at_ms: int | None = None
    looks: int = 0


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
    dispatcher = Dispatcher(configuration)
    fired = sorted((a for a in alerts if a.fired_ms is not None), key=lambda a: (a.fired_ms or 0, a.labels))
    dispatcher.hear(fired)
    return dispatcher.go_on(end_ms)


class Dispatcher:
    """Groups of one configuration, and what was told of them, as time goes on."""

    def __init__(self, configuration: Configuration, log: Log | None = None, name: str = "") -> None:
        """`log`: what was told before, by another configuration or before a restart; `name`: whose it is there."""
        self.configuration = configuration
        self._name = name
        self.log: Log = {} if log is None else log
        self.turned_away = 0
        """Alerts for which there was no group left."""
        self._groups: dict[tuple[int, Labels], _Group] = {}
        self._hushing = _Hushing(configuration)

    def hear(self, fired: Iterable[Alert], since_ms: int = 0) -> None:
        """Alerts that fire, in the order of their times. `since_ms`: when it was told of them, if later."""
        for alert in fired:
            self._hushing.hear(alert)
            for route in routes_of(self.configuration.route, alert.labels):
                wanted = route.group_by
                labels = tuple(p for p in alert.labels if wanted is None or p[0] in wanted)
                group = self._groups.get((id(route), labels))
                if group is None:
                    if len(self._groups) >= MOST_GROUPS:
                        self.turned_away += 1
                        continue
                    inside = ", ".join(f'{name}="{value}"' for name, value in labels)
                    group = _Group(route, labels, f"{route.key}:{{{inside}}}")
                    self._groups[id(route), labels] = group
                group.coming.append(alert)
                if group.at_ms is None:
                    group.at_ms = max((alert.fired_ms or 0) + route.wait_ms, since_ms)

    def go_on(self, until_ms: int) -> list[Notification]:
        """What is told until then, in the order of time."""
        found: list[Notification] = []
        for group in self._groups.values():
            while group.at_ms is not None and group.at_ms <= until_ms and group.looks < MOST_LOOKS:
                found += self._look(group, group.at_ms)
        found.sort(key=lambda n: (n.at_ms, n.receiver, n.group_key, n.integration.kind))
        return found

    def forget(self, before_ms: int) -> None:
        """Groups without alerts, alerts that ended before a time, and what was told of them longer ago than that."""
        for key in [key for key, group in self._groups.items() if group.at_ms is None]:
            del self._groups[key]
        for group in self._groups.values():
            group.looks = 0
        self._hushing.forget(before_ms)
        for place in [p for p, told in self.log.items() if not told.firing and told.at_ms < before_ms]:
            del self.log[place]

    def active(self) -> list[Alert]:
        """Every alert it holds."""
        return [a for group in self._groups.values() for a in (*group.held.values(), *group.coming)]

    @property
    def is_waiting(self) -> bool:
        """Whether a group has alerts of which it has not spoken."""
        return any(group.coming for group in self._groups.values())

    def _look(self, group: _Group, at_ms: int) -> list[Notification]:
        """A group's whole life: it is gone when all its alerts have ended and been told of, and comes again."""
        route, held, coming = group.route, group.held, group.coming
        while coming and (coming[0].fired_ms or 0) <= at_ms:
            alert = coming.popleft()
            held[alert.labels] = alert
        group.looks += 1
        found: list[Notification] = []
        if not _is_muted(route, self.configuration, at_ms):
            shown = [alert for alert in held.values() if not self._hushing.covers(alert, at_ms)]
            found = self._spoken(group, shown, at_ms)
        for labels in [key for key, alert in held.items() if not _fires(alert, at_ms)]:
            del held[labels]
        if held:
            group.at_ms = at_ms + max(route.interval_ms, LEAST_INTERVAL_MS)
        else:
            group.at_ms = (coming[0].fired_ms or 0) + route.wait_ms if coming else None
        return found

    def _spoken(self, group: _Group, shown: list[Alert], at_ms: int) -> list[Notification]:
        if not shown:
            return []
        route = group.route
        firing = tuple(a for a in shown if _fires(a, at_ms))
        resolved = tuple(a for a in shown if not _fires(a, at_ms))
        now = Told(frozenset(a.labels for a in firing), frozenset(a.labels for a in resolved), at_ms)
        found = []
        for place, way in enumerate(self.configuration.receivers.get(route.receiver, ())):
            logged = (self._name, group.key, route.receiver, place)
            reason = _reason(self.log.get(logged), now, way, route.repeat_ms)
            if reason:
                self.log[logged] = now
                if way.sends_resolved or firing:
                    ended = resolved if way.sends_resolved else ()
                    found.append(
                        Notification(
                            at_ms, route.receiver, way, reason, group.key, group.labels, firing, ended
                        )
                    )
        return found


class _Hushing:
    """Is an alert inhibited or silenced at a time?"""

    def __init__(self, configuration: Configuration) -> None:
        self.silences = configuration.silences
        self.rules = configuration.inhibitions
        self.sources: list[dict[Labels, list[tuple[Alert, bool]]]] = [{} for _ in self.rules]

    def hear(self, alert: Alert) -> None:
        for rule, by_equal in zip(self.rules, self.sources, strict=True):
            if fits(alert.labels, rule.source):
                equal = _equal(alert.labels, rule.equal)
                by_equal.setdefault(equal, []).append((alert, fits(alert.labels, rule.target)))

    def forget(self, before_ms: int) -> None:
        for by_equal in self.sources:
            for equal, held in list(by_equal.items()):
                kept = [one for one in held if one[0].ended_ms is None or one[0].ended_ms >= before_ms]
                by_equal[equal] = kept
                if not kept:
                    del by_equal[equal]

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


def _is_muted(route: Route, configuration: Configuration, at_ms: int) -> bool:
    def any_of(names: Sequence[str]) -> bool:
        return any(i.holds(at_ms) for name in names for i in configuration.intervals.get(name, ()))

    return any_of(route.muted) or (bool(route.active) and not any_of(route.active))


def _reason(before: Told | None, now: Told, way: Integration, repeat_ms: int) -> str:
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
