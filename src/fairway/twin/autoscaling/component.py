"""The one component of all autoscalers. Until something is there to scale it watches nothing but their kinds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from fairway.autoscaling.hpa.settings import DEFAULT, Settings
from fairway.autoscaling.keda.external import Outside
from fairway.autoscaling.load.reading import NO_LOAD, Load, LoadFault, read_load
from fairway.autoscaling.vpa.admitting import GK as VERTICAL
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj, labels_of, namespace_of
from fairway.kube.yamltext import first_value
from fairway.twin.autoscaling import horizontal, keda, knative
from fairway.twin.autoscaling.adapting import CONFIG, Adapter, is_adapters
from fairway.twin.autoscaling.horizontal import Horizontal
from fairway.twin.autoscaling.journal import Journal
from fairway.twin.autoscaling.keda import Keda
from fairway.twin.autoscaling.knative import Knative
from fairway.twin.autoscaling.loads import Loads, is_ready
from fairway.twin.autoscaling.measuring import Measured
from fairway.twin.autoscaling.podindex import PodIndex
from fairway.twin.autoscaling.vertical import Vertical
from fairway.twin.components import Host
from fairway.twin.loop import INPUT

NAME: Final = "autoscaling"
# A ConfigMap with this label describes load: every entry of its data.
LOAD_LABEL: Final = "fairway.dev/load"
_OF_KEDA: Final = (keda.SCALED_OBJECT, keda.SCALED_JOB, *keda.AUTHENTICATIONS)
_KINDS: Final = ("ConfigMap", horizontal.GK, VERTICAL, *_OF_KEDA, knative.GK)
SCALERS: Final = {"hpa": (horizontal.GK,), "keda": _OF_KEDA, "vpa": (VERTICAL,), "kpa": (knative.GK,)}


class Autoscaling:
    """Wakes whoever scales when what it goes by has changed."""

    name = NAME

    def __init__(
        self, load: Load = NO_LOAD, settings: Settings = DEFAULT, without: Collection[str] = ()
    ) -> None:
        """`without`: which of `hpa`, `keda`, `vpa` and `kpa` somebody else does."""
        self.load = load
        self.without = frozenset(without)
        left = [gk for name, gks in SCALERS.items() if name in self.without for gk in gks]
        self.kinds: tuple[str, ...] = tuple(gk for gk in _KINDS if gk not in left)
        self.journal = Journal()
        self.loads = Loads(self)
        self.measured = Measured(self)
        self.horizontal = Horizontal(self, settings)
        self.keda = Keda(self)
        self.vertical = Vertical(self)
        self.knative = Knative(self)
        self.outside: Outside | None = None
        """Who asks real external scalers; None: in a simulation, nobody."""
        self.adapter = Adapter(self)
        self._index: PodIndex | None = None

    def attach(self, host: Host) -> None:
        self.host = host
        self.h_look = host.loop.register("autoscaling.look", self.horizontal.on_look)
        self.h_vertical = host.loop.register("autoscaling.vertical", self.vertical.on_turn)
        self.h_keda = host.loop.register("autoscaling.keda", self.keda.on_turn)
        self.h_knative = host.loop.register("autoscaling.knative", self.knative.on_look)
        self._h_load = host.loop.register("autoscaling.load", self._on_load)

    def start(self) -> None:
        if self.load != NO_LOAD:
            self._activate()
            self.loads.put("", self.load, self.host.loop.now_us)

    def fork(self) -> Autoscaling:
        twin = Autoscaling(self.load, self.horizontal.settings, self.without)
        twin.kinds = self.kinds
        twin.outside = None if self.outside is None else self.outside.frozen()
        twin.journal = self.journal.fork()
        twin.loads = self.loads.fork(twin)
        twin.horizontal = self.horizontal.fork(twin)
        twin.keda = self.keda.fork(twin)
        twin.vertical = self.vertical.fork(twin)
        twin.knative = self.knative.fork(twin)
        twin.adapter = self.adapter.fork(twin)
        return twin

    @property
    def index(self) -> PodIndex:
        if self._index is None:
            self._index = PodIndex(self.host.store)
        return self._index

    def metric_names(self, *, of_objects: bool) -> list[str]:
        """What the adapter of custom (or external) metrics lists."""
        names = [*self.loads.metric_names(of_objects=of_objects), *self.adapter.names(of_objects=of_objects)]
        if of_objects:
            return sorted(set(names))
        of_keda = (p.metric for e in self.keda.entries.values() for p in e.probes or () if p.metric)
        return sorted({*names, *of_keda})

    # Watching

    def watch(self, *gks: str) -> None:
        """Be told of these kinds, too."""
        missing = tuple(gk for gk in gks if gk not in self.kinds)
        if missing:
            self.kinds = (*self.kinds, *missing)
            if self.host.rewatch is not None:
                self.host.rewatch()

    def _activate(self) -> None:
        self.watch("Pod")

    def observe(self, change: Change) -> None:
        gk = change.key.gk
        if gk == "Pod":
            self._pod_changed(change)
        elif gk == "ConfigMap":
            self._config_map_changed(change)
        elif gk == horizontal.GK:
            self._activate()
            if "hpa" not in self.without:
                self.horizontal.observe(change)
            if self.keda.entries:
                self.keda.autoscaler_changed(change)
        elif gk == VERTICAL:
            self._activate()
            self.vertical.observe(change)
        elif gk in _OF_KEDA:
            self._activate()
            self.keda.observe(change)
        elif gk == knative.GK:
            self._activate()
            self.knative.observe(change)
        else:
            self._target_changed(change)

    def _pod_changed(self, change: Change) -> None:
        self.index.apply(change)
        pod = change.obj
        namespace = namespace_of(pod)
        was = change.old is not None and is_ready(change.old)
        turned = was != (change.type != DELETED and is_ready(pod))
        if turned:
            self.loads.count_consumers()
        if self.keda.entries and (turned or change.old is None or change.type == DELETED):
            self.keda.pods_changed()
        for key, value in labels_of(pod).items():
            label = (namespace, key, value)
            if turned:
                self.loads.pod_changed(label)
            self.horizontal.pod_changed(label)
            if turned and self.knative.entries:
                self.knative.pod_changed(label)

    def usage_changed(self, pod: Obj) -> None:
        """A load lets it use more or less from now on."""
        namespace = namespace_of(pod)
        for key, value in labels_of(pod).items():
            self.horizontal.pod_changed((namespace, key, value))

    def _target_changed(self, change: Change) -> None:
        old, new = change.old, change.obj
        if old is None or old.get("spec", {}).get("selector") != new.get("spec", {}).get("selector"):
            self.loads.workload_appeared()
        self.horizontal.target_changed(change.key)
        if self.keda.entries:
            self.keda.target_changed(change.key)
        if self.knative.entries:
            self.knative.target_changed(change)

    # Load

    def _config_map_changed(self, change: Change) -> None:
        name = f"{change.key.namespace}/{change.key.name}"
        if change.key == knative.SETTINGS:
            self.knative.configured(change)
        if is_adapters(change.key.name):
            self._adapter_changed(change)
        if change.type == DELETED or labels_of(change.obj).get(LOAD_LABEL) is None:
            if name in self.loads.given:
                self.loads.drop(name)
                self._metrics_changed()
            return
        if change.old is not None and change.old.get("data") == change.obj.get("data"):
            return
        self._activate()
        load = self._read(change.key, change.obj.get("data") or {})
        began = self.loads.given.get(name)
        self.loads.put(name, load, self.host.loop.now_us if began is None else began.began_us)
        self._metrics_changed()

    def _adapter_changed(self, change: Change) -> None:
        was_there = self.adapter.drop(change.key)
        text = (change.obj.get("data") or {}).get(CONFIG)
        if change.type != DELETED and isinstance(text, str):
            self._activate()
            try:
                self.adapter.put(change.key, text)
            except ValueError as wrong:
                uid, now_us = str(change.obj["metadata"].get("uid", "")), self.host.loop.now_us
                said = f"{CONFIG}: {wrong}"
                self.host.events.emit(now_us, change.key, uid, "Warning", "InvalidConfig", said, NAME)
            was_there = True
        if was_there:
            self._metrics_changed()

    def _metrics_changed(self) -> None:
        self.horizontal.metrics_changed()
        self.keda.wake_all()
        self.knative.wake_all()

    def _read(self, key: Key, data: dict[str, Any]) -> Load:
        """All entries together; what is wrong with one is said as an event, and the others count."""
        load = NO_LOAD
        for entry, text in data.items():
            try:
                one = read_load(first_value(text))
            except (LoadFault, ValueError) as wrong:
                obj = self.host.store.get(key)
                uid = "" if obj is None else obj["metadata"]["uid"]
                now_us, message = self.host.loop.now_us, f"{entry}: {wrong}"
                self.host.events.emit(now_us, key, uid, "Warning", "InvalidLoad", message, NAME)
                continue
            load = Load(load.workloads + one.workloads, load.series + one.series, load.queues + one.queues)
        return load

    def plan_load(self, name: str, at_us: int) -> None:
        self.host.loop.at(max(at_us, self.host.loop.now_us + 1), self._h_load, name, INPUT)

    def _on_load(self, name: str) -> None:
        if name in self.loads.given:
            self.loads.apply(name)
