"""Which alerts fire on a served cluster now? Its PrometheusRules, evaluated as its time goes on.

Where there is a PrometheusRule, the metrics that rules ask for are looked at every 30 seconds of the cluster's time, as
a Prometheus would scrape them off dcgm-exporter, kube-state-metrics, kubelets, node-exporters and the control plane,
and groups are evaluated at their intervals. An alert that fires or ends is an Event of its rule; `/metrics` has the
`ALERTS` of now. Without a PrometheusRule nothing of this is loaded or done.

Unlike Prometheus: a group of a shorter interval is evaluated every 30 seconds; alerts begin anew when the server does;
kubelets and node-exporters are called by their node's name (`instance`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, meta_of, name_of
from fairway.kube.timestamps import HOUR_US, SECOND_US, parse_rfc3339
from fairway.twin.components import Host
from fairway.twin.kubeevents import NORMAL, WARNING
from fairway.twin.loop import CONTROLLERS

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from fairway.telemetry.rules.alerts import Alert
    from fairway.telemetry.rules.evaluating import Running
    from fairway.telemetry.store import Labels, MemoryStore
    from fairway.twin.gpupages import GpuPages
    from fairway.twin.twin import Twin

NAME: Final = "prometheus"
KIND: Final = "PrometheusRule.monitoring.coreos.com"
_TICK_US: Final = 30 * SECOND_US
_KEPT_MS: Final = HOUR_US // 1000
_OF_NODES: Final = ("container_", "kubelet_", "machine_", "node_")
_MOST_SAID: Final = 200
"""Characters of an alert's summary in an Event."""


def live_alerts(twin: Twin) -> LiveAlerts | None:
    """Of a served cluster."""
    part = twin.host.parts.get(NAME)
    return part if isinstance(part, LiveAlerts) else None


class LiveAlerts:
    """Evaluates rules where there are some."""

    name = NAME
    kinds: tuple[str, ...] = (KIND,)

    def __init__(self, is_copy: bool = False) -> None:
        # A copy is asked what will become of pods: nobody is told of its alerts.
        self._is_copy = is_copy
        self._is_planned = False
        self._watch: _Watch | None = None
        self.pages: Callable[[], Iterable[Metric]] = tuple
        """What the control plane's own pages have."""

    def attach(self, host: Host) -> None:
        self.host = host
        self._tick = host.loop.register("prometheus.tick", self._on_tick)

    def start(self) -> None:
        """Rules come as changes."""

    def fork(self) -> LiveAlerts:
        return LiveAlerts(is_copy=True)

    def observe(self, change: Change) -> None:
        if self._is_copy:
            return
        if self._watch is None:
            self._watch = _Watch(self.host, self)
        self._watch.read(None if change.type == DELETED else change.key)
        if not self._is_planned:
            self._plan()

    def _plan(self) -> None:
        now_us = self.host.loop.now_us
        self._is_planned = True
        self.host.loop.at((now_us // _TICK_US + 1) * _TICK_US, self._tick, None, CONTROLLERS)

    def _on_tick(self, _: None) -> None:
        self._is_planned = False
        if self._watch is not None and self._watch.has_rules:
            self._watch.tick(self.host.loop.now_us // 1000)
            self._plan()

    def alerts(self) -> list[Alert]:
        """Those that are pending or firing now."""
        return [] if self._watch is None else self._watch.active()

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


class _Watch:
    """Rules, what was scraped for them, and how far they are."""

    def __init__(self, host: Host, part: LiveAlerts) -> None:
        from fairway.telemetry.store import MemoryStore
        from fairway.twin.gpubreaks import broken_gpus
        from fairway.twin.gpupages import GpuPages

        self._host, self._part = host, part
        self._store: MemoryStore = MemoryStore()
        self._gpus: GpuPages = GpuPages(host.store, lambda: broken_gpus(host.parts))
        self._running: Running | None = None
        self._names: list[str] = []
        self._kept_ms = 0
        self._last: set[Labels] = set()
        self._objects: dict[tuple[str, str], Key] = {}

    @property
    def has_rules(self) -> bool:
        return bool(self._objects)

    def read(self, changed: Key | None) -> None:
        """All rules anew; what is wrong with those of one object is told."""
        from fairway.telemetry.promql.nodes import reach_ms
        from fairway.telemetry.rules.evaluating import Running, asked_names
        from fairway.telemetry.rules.reading import rules_of

        groups = []
        self._objects = {}
        for obj in self._host.store.objects(KIND):
            key = Key(KIND, meta_of(obj).get("namespace") or "", meta_of(obj)["name"])
            found, problems = rules_of(obj)
            groups += found
            self._objects.update({group.identity: key for group in found})
            for problem in problems if key == changed else ():
                self._say(key, WARNING, "InvalidRule", f"{problem.path}: {problem.expected}")
        rules = [rule for group in groups for rule in group.rules]
        self._names = sorted(frozenset().union(*(asked_names(rule.node) for rule in rules)))
        self._kept_ms = max((reach_ms(rule.node) for rule in rules), default=0) + _KEPT_MS
        self._running = Running(groups, self._store, self._running)

    def tick(self, at_ms: int) -> None:
        """Scrape, evaluate, and tell what changed."""
        if self._running is None:
            return
        there = set()
        for labels, value in self._samples():
            if labels not in there:
                there.add(labels)
                self._store.append(labels, at_ms, value)
        from fairway.telemetry.store import STALE

        for labels in self._last - there:
            self._store.append(labels, at_ms, STALE)
        self._last = there
        self._running.go_on(at_ms, at_ms)
        changed = [
            a for a in self._running.alerts if a.fired_ms is not None and at_ms in (a.fired_ms, a.ended_ms)
        ]
        self._running.annotate(a for a in changed if a.fired_ms == at_ms)
        for alert in changed:
            self._tell(alert, at_ms)
        if at_ms % _KEPT_MS == 0:
            self._store.forget(at_ms - self._kept_ms)
            self._running.forget(at_ms - self._kept_ms)

    def active(self) -> list[Alert]:
        found = self._running.alerts if self._running is not None else []
        return sorted((a for a in found if a.ended_ms is None), key=lambda a: (a.rule.alert, a.labels))

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

    # What is scraped

    def _samples(self) -> Iterator[tuple[Labels, float]]:
        from fairway.telemetry.dcgm.counters import field_of
        from fairway.telemetry.statemetrics.families import families
        from fairway.telemetry.statemetrics.page import own_labels
        from fairway.telemetry.store import labels

        others = []
        for name in self._names:
            if field_of(name) is not None:
                yield from self._gpus.samples(name)
            elif (family := families().get(name)) is not None:
                scraped = {"job": "kube-state-metrics", "instance": "kube-state-metrics:8080"}
                for obj in self._host.store.walk(family.gk):
                    own = {**own_labels(family.gk, obj), **scraped}
                    for more, value in family.read(obj):
                        yield labels(name, {**own, **more}), value
            else:
                others.append(name)
        if any(name.startswith(_OF_NODES) for name in others):
            yield from self._of_nodes(frozenset(others))
        if others:
            wanted = frozenset(others)
            found: Any
            for metric in self._part.pages():
                for found in metric.samples:
                    if found.name in wanted:
                        yield labels(found.name, found.labels), float(found.value)

    def _of_nodes(self, wanted: frozenset[str]) -> Iterator[tuple[Labels, float]]:
        """What kubelets and node-exporters of simulated nodes say."""
        from prometheus_client.parser import text_string_to_metric_families

        from fairway.apiserver.scrapes.nodes import cadvisor, kubelet, node_exporter
        from fairway.telemetry.store import labels
        from fairway.twin.kubelet.component import Kubelet
        from fairway.twin.kubelet.usage import node_use

        store, kubelets = self._host.store, self._host.parts.get("kubelet")
        if not isinstance(kubelets, Kubelet):
            return
        for obj in store.walk("Node"):
            name, state = name_of(obj), kubelets.nodes.get(name_of(obj))
            if state is None or not (state.is_up and state.is_reachable):
                continue
            since_us, at_us = parse_rfc3339(meta_of(obj)["creationTimestamp"]), store.now_us
            use = node_use(state, kubelets.pods, since_us, at_us)
            keys = ((pod.namespace, pod.name) for pod in use.pods)
            pods = {key: pod for key in keys if (pod := store.get(Key("Pod", *key))) is not None}
            own = {"node": name, "instance": name}
            for job, blocks in (
                ("kubelet", kubelet(obj, use)),
                ("kubelet", cadvisor(obj, use, pods, at_us)),
                ("node-exporter", node_exporter(obj, use, since_us, at_us)),
            ):
                for block in blocks:
                    if block.name in wanted:
                        for family in text_string_to_metric_families("".join(block.lines)):
                            for one in family.samples:
                                yield labels(one.name, {"job": job, **own, **one.labels}), float(one.value)
