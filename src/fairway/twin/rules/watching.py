"""A cluster's rules, what was scraped for them, and how far they are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, meta_of
from fairway.kube.timestamps import HOUR_US
from fairway.telemetry.promql.nodes import reach_ms
from fairway.telemetry.rules.alerts import Alert
from fairway.telemetry.rules.evaluating import Past, Running, asked_names
from fairway.telemetry.rules.reading import Group, rules_of
from fairway.telemetry.store import STALE, Labels, Matcher, MemoryStore, Series
from fairway.twin.components import Host
from fairway.twin.kubeevents import NORMAL, WARNING
from fairway.twin.rules.notifying import Notifying
from fairway.twin.rules.scraping import Scraper

if TYPE_CHECKING:
    from fairway.telemetry.alertmanager.dispatching import Notification
    from fairway.twin.rules.component import Rules

NAME: Final = "prometheus"
_RULE: Final = "PrometheusRule.monitoring.coreos.com"
_KEPT_MS: Final = HOUR_US // 1000
_MOST_SAID: Final = 200
"""Characters of an alert's summary in an Event."""
_MOST_NOTES: Final = 10_000
_RESEND_MS: Final = 60_000
"""Prometheus' --rules.alert.resend-delay: an alert of which nobody hears for four of them is over."""


class Watch:
    """Scrapes, evaluates, and tells what changed."""

    def __init__(self, host: Host, part: Rules) -> None:
        self._host, self._part = host, part
        self._store = MemoryStore()
        self._scraper = Scraper(host)
        self._running: Running | None = None
        self._past: Past = {}
        self._names: list[str] = []
        self._kept_ms = _KEPT_MS
        self._last: set[Labels] = set()
        self._objects: dict[tuple[str, str], Key] = {}
        self._heard: dict[int, Alert] = {}
        self._is_stale = True
        self.notifying = Notifying(host)
        self.notes: deque[tuple[str, Notification]] = deque(maxlen=_MOST_NOTES)

    def _begin(self) -> None:
        """From what was kept before a restart."""
        # A copy has nobody outside.
        if self._part.outside is not None:
            recorded = MemoryStore()
            now_ms = self._host.loop.now_us // 1000
            self._past, log = self._part.outside.load(now_ms, self._store, recorded)
            self.notifying.log = log
            self._running = Running((), self._store, past=self._past)
            self._running.outcome.recorded.store = recorded

    def copy(self, host: Host, part: Rules) -> Watch:
        """One that goes on by itself, over a copy of the cluster."""
        twin = Watch(host, part)
        twin._store = self._store.copy()
        twin._running = None if self._running is None else self._running.copy(twin._store)
        twin._past, twin._names, twin._kept_ms = self._past, list(self._names), self._kept_ms
        twin._last, twin._objects, twin._is_stale = set(self._last), dict(self._objects), self._is_stale
        return twin

    @property
    def is_needed(self) -> bool:
        return self._is_stale or bool(self._objects) or self.notifying.is_needed

    @property
    def is_waiting(self) -> bool:
        """Whether an alert is still to fire, or somebody to be told of one."""
        return self.notifying.is_waiting or any(a.fired_ms is None for a in self.active())

    def changed(self, change: Change) -> None:
        """What is wrong with the rules of one object is told at once; they are read when they are next needed."""
        if change.key.gk != _RULE:
            self.notifying.is_stale = True
            return
        self._is_stale = True
        if change.type != DELETED and not self._part.is_copy:
            for problem in rules_of(change.obj)[1]:
                self._say(change.key, WARNING, "InvalidRule", f"{problem.path}: {problem.expected}")

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Series]:
        if self._running is not None:
            yield from self._running.outcome.recorded.select(matchers, start_ms, end_ms)

    def active(self) -> list[Alert]:
        found = self._running.alerts if self._running is not None else []
        return sorted((a for a in found if a.ended_ms is None), key=lambda a: (a.rule.alert, a.labels))

    # Reading

    def _read(self, at_ms: int) -> None:
        """All rules anew."""
        if self._running is None:
            self._begin()
        groups: list[Group] = []
        self._objects, self._is_stale = {}, False
        for obj in self._host.store.objects(_RULE):
            key = Key(_RULE, meta_of(obj).get("namespace") or "", meta_of(obj)["name"])
            found, _ = rules_of(obj)
            groups += found
            self._objects.update({group.identity: key for group in found})
        rules = [rule for group in groups for rule in group.rules]
        self._names = sorted(frozenset().union(*(asked_names(rule.node) for rule in rules)))
        self._kept_ms = max((reach_ms(rule.node) for rule in rules), default=0) + _KEPT_MS
        self._running = Running(groups, self._store, self._running, self._past)
        # Nobody hears any more of alerts whose rule is gone.
        there = {id(alert) for alert in self._running.alerts}
        for alert in [a for a in self._heard.values() if id(a) not in there and a.ended_ms is None]:
            alert.ended_ms = at_ms + 4 * _RESEND_MS

    # Going on

    def tick(self, at_ms: int) -> None:
        """Scrape, evaluate, and tell what changed."""
        if self._is_stale or self._running is None:
            self._read(at_ms)
        assert self._running is not None
        scraped = self._scrape(at_ms)
        self._running.go_on(at_ms, at_ms)
        changed = [
            a for a in self._running.alerts if a.fired_ms is not None and at_ms in (a.fired_ms, a.ended_ms)
        ]
        self._running.annotate(a for a in changed if a.fired_ms == at_ms)
        if not self._part.is_copy:
            for alert in changed:
                self._tell(alert, at_ms)
            self._notify(changed, at_ms)
            self._keep(at_ms, scraped)
        if at_ms % _KEPT_MS == 0:
            self._forget(at_ms - self._kept_ms)

    def _scrape(self, at_ms: int) -> dict[Labels, float]:
        found: dict[Labels, float] = {}
        for labels, value in self._scraper.samples(self._names, self._part.outside):
            if labels not in found:
                found[labels] = value
        there = set(found)
        for labels in self._last - there:
            found[labels] = STALE
        for labels, value in found.items():
            self._store.append(labels, at_ms, value)
        self._last = there
        return found

    def _notify(self, changed: Iterable[Alert], at_ms: int) -> None:
        fired = [a for a in changed if a.fired_ms == at_ms]
        self._heard.update((id(alert), alert) for alert in fired)
        for i in [i for i, a in self._heard.items() if a.ended_ms is not None and a.ended_ms <= at_ms]:
            del self._heard[i]
        earlier = [a for a in self._heard.values() if a.fired_ms != at_ms]
        for alertmanager, notes in self.notifying.go_on(fired, earlier, at_ms).items():
            if self._part.outside is not None:
                self._part.outside.deliver(alertmanager, notes)
            else:
                self.notes.extend((alertmanager, note) for note in notes)

    def _keep(self, at_ms: int, scraped: dict[Labels, float]) -> None:
        outside, running = self._part.outside, self._running
        if outside is not None and running is not None:
            store = running.outcome.recorded.store
            recorded = ((s.labels, float(s.values[-1])) for s in store.select((), at_ms, at_ms))
            outside.keep(at_ms, scraped.items(), recorded, running.for_states(), self.notifying.log)

    def _forget(self, before_ms: int) -> None:
        self._store.forget(before_ms)
        if self._running is not None:
            self._running.forget(before_ms)
        self.notifying.forget(before_ms)
        if self._part.outside is not None:
            self._part.outside.forget(before_ms)

    def _tell(self, alert: Alert, at_ms: int) -> None:
        source, _, group = alert.group.partition(";")
        key = self._objects.get((source, group))
        if key is None:
            return
        names = ", ".join(
            f"{name}={value}" for name, value in alert.labels if name not in ("alertname", "severity")
        )
        said = alert.annotations.get("summary") or alert.annotations.get("description") or ""
        told = ": ".join(part for part in (alert.rule.alert, said or names) if part)[:_MOST_SAID]
        if alert.fired_ms == at_ms:
            self._say(key, WARNING, "AlertFiring", told)
        else:
            self._say(key, NORMAL, "AlertResolved", told)

    def _say(self, key: Key, type_: str, reason: str, message: str) -> None:
        obj = self._host.store.get(key)
        if obj is not None:
            uid = str(meta_of(obj).get("uid") or "")
            self._host.events.emit(self._host.loop.now_us, key, uid, type_, reason, message, NAME)
