"""Prometheus in a twin: evaluates its PrometheusRules as time goes on, where somebody hears of it.

In a served cluster that is always so. In a simulation it is so once a question of the twin's own (a trigger of KEDA's,
Prometheus Adapter, an AnalysisRun) is about a record or about `ALERTS`, or where there is an Alertmanager: then every
30 seconds what the rules ask for is looked at, as a scrape would, and groups are evaluated at their intervals. Where
neither is, nothing is loaded or done: a run's alerts are worked out over its series when it is over.

Unlike Prometheus: a group of a shorter interval is evaluated every 30 seconds; in a simulation rules see loads, served
models, GPUs and Kubernetes' objects, and one without a duration goes on for their sake only until no alert is pending
and everybody was told once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.components import Host
from fairway.twin.loop import CONTROLLERS, NO_TIME

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from fairway.telemetry.alertmanager.dispatching import Log, Notification
    from fairway.telemetry.rules.alerts import Alert
    from fairway.telemetry.rules.evaluating import Past
    from fairway.telemetry.store import Labels, MemoryStore, Series
    from fairway.twin.rules.watching import Watch

NAME: Final = "prometheus"
RULE: Final = "PrometheusRule.monitoring.coreos.com"
ALERTMANAGER: Final = "Alertmanager.monitoring.coreos.com"
CONFIG: Final = "AlertmanagerConfig.monitoring.coreos.com"
TICK_US: Final = 30 * SECOND_US
_OF_ALERTS: Final = frozenset(("ALERTS", "ALERTS_FOR_STATE"))
Sample = tuple["Labels", float]


class Outside(Protocol):
    """What only a served cluster has: pages of others, and a disk."""

    def pages(self) -> Iterable[Metric]:
        """What the control plane's own pages have."""
        ...

    def of_nodes(self, wanted: frozenset[str]) -> Iterable[Sample]:
        """What kubelets and node-exporters say."""
        ...

    def load(self, now_ms: int, scraped: MemoryStore, recorded: MemoryStore) -> tuple[Past, Log]:
        """What was kept before a restart."""
        ...

    def keep(
        self, at_ms: int, scraped: Iterable[Sample], recorded: Iterable[Sample], past: Past, log: Log
    ) -> None:
        """What a restart will need."""
        ...

    def forget(self, before_ms: int) -> None:
        """What was kept until then is needed no longer."""
        ...

    def deliver(self, alertmanager: str, notes: Iterable[Notification]) -> None:
        """Notifications of one Alertmanager."""
        ...


def rules_part(parts: Mapping[str, object]) -> Rules | None:
    """Of a twin's components."""
    part = parts.get(NAME)
    return part if isinstance(part, Rules) else None


class Rules:
    """Evaluates rules where somebody hears of it. `is_served`: always."""

    name = NAME
    kinds: tuple[str, ...] = (RULE, ALERTMANAGER, CONFIG)

    def __init__(self, is_served: bool = False, is_copy: bool = False) -> None:
        # A copy is asked what will become of pods: nobody is told of its alerts.
        self.is_copy = is_copy
        self._is_served = is_served
        self._is_asked = False
        self._is_planned = False
        self._ticked_us = NO_TIME
        """When it looked last: one moment has one sample of a series."""
        self._watch: Watch | None = None
        self._names: dict[str, frozenset[str]] = {}
        self.outside: Outside | None = None
        self.until_us = 0
        """Until when time goes on whatever happens."""

    def attach(self, host: Host) -> None:
        self.host = host
        self._tick = host.loop.register("prometheus.tick", self._on_tick)
        if self._watch is not None:
            self._watch = self._watch.copy(host, self)

    def start(self) -> None:
        """Rules come as changes."""

    def fork(self) -> Rules:
        twin = Rules(is_copy=True)
        twin._names, twin._is_planned, twin.until_us = dict(self._names), self._is_planned, self.until_us
        if self._is_asked:
            # Copied when it is attached, before either goes on.
            twin._is_asked, twin._watch, twin._ticked_us = True, self._watch, self._ticked_us
        return twin

    def observe(self, change: Change) -> None:
        gk = change.key.gk
        if gk == RULE:
            name = f"{change.key.namespace}/{change.key.name}"
            self._names.pop(name, None)
            if change.type != DELETED:
                self._names[name] = _names_of(change.obj)
        elif gk == ALERTMANAGER and not self.is_copy:
            self._also_watch()
        if self._is_live:
            self._watched().changed(change)
            self._plan()

    @property
    def _is_live(self) -> bool:
        if self.is_copy or not self._names:
            return self._is_asked or (self._watch is not None and not self.is_copy)
        return self._is_served or self._is_asked or bool(self.host.store.count(ALERTMANAGER))

    def _also_watch(self) -> None:
        """Configurations are in Secrets, and namespaces have labels that are selected by."""
        if "Secret" not in self.kinds:
            self.kinds = (*self.kinds, "Secret", "Namespace")
            if self.host.rewatch is not None:
                self.host.rewatch()

    def _watched(self) -> Watch:
        if self._watch is None:
            from fairway.twin.rules.watching import Watch

            self._watch = Watch(self.host, self)
        return self._watch

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            now_us = self.host.loop.now_us
            self.host.loop.at((now_us // TICK_US + 1) * TICK_US, self._tick, None, CONTROLLERS)

    def _on_tick(self, _: None) -> None:
        self._is_planned = False
        watch = self._watch
        if watch is None or not watch.is_needed:
            return
        self._look(watch)
        # A simulation ends when nothing is left to happen; looking at it is nothing that happens.
        now_us, goes_on = self.host.loop.now_us, self._is_served or watch.is_waiting
        if goes_on or now_us < self.until_us or self.host.loop.next_time() is not None:
            self._plan()

    def _look(self, watch: Watch) -> None:
        now_us = self.host.loop.now_us
        if self._ticked_us != now_us:
            self._ticked_us = now_us
            watch.tick(now_us // 1000)

    # What others ask

    def has(self, name: str) -> bool:
        """Whether a rule gives series of this name."""
        return any(name in names for names in self._names.values())

    def names(self) -> list[str]:
        return sorted(frozenset().union(*self._names.values()))

    def select(self, matchers: Any, start_ms: int, end_ms: int) -> Iterator[Series]:
        """Series of records, and of alerts. From the first question on rules are evaluated as time goes on."""
        if not self._is_asked:
            self._is_asked = True
            if self._watch is None:
                self._look(self._watched())
            self._plan()
        elif not self._is_planned:
            self._look(self._watched())
            self._plan()
        yield from self._watched().select(matchers, start_ms, end_ms)

    def alerts(self) -> list[Alert]:
        """Those that are pending or firing now."""
        return [] if self._watch is None else self._watch.active()

    @property
    def notes(self) -> list[tuple[str, Notification]]:
        """Who was told of what, by which Alertmanager (`namespace/name`): the newest, of a simulation."""
        return [] if self._watch is None else list(self._watch.notes)

    def families(self) -> Iterator[Metric]:
        """`ALERTS`, as a page has it."""
        from prometheus_client.core import GaugeMetricFamily

        found = self.alerts()
        if found:
            family = GaugeMetricFamily(
                "ALERTS", "Alerts of the cluster's PrometheusRules, pending and firing."
            )
            for alert in found:
                state = "pending" if alert.fired_ms is None else "firing"
                family.add_sample("ALERTS", {**dict(alert.labels), "alertstate": state}, 1.0)
            yield family


def _names_of(obj: Obj) -> frozenset[str]:
    """Of series that the rules of an object give, as far as they can be read."""
    found: set[str] = set()
    groups = (obj.get("spec") or {}).get("groups")
    for group in groups if isinstance(groups, list) else ():
        rules = group.get("rules") if isinstance(group, dict) else None
        for rule in rules if isinstance(rules, list) else ():
            if isinstance(rule, dict):
                found |= _OF_ALERTS if rule.get("alert") else {str(rule.get("record") or "")}
    return frozenset(found - {""})
