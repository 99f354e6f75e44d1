"""Knative's PodAutoscalers on the loop: each Revision's requests are averaged, and its Deployment scaled, every two
seconds as long as a look may change anything; at once when the first request meets no pod.

Requests come from a load: a series `concurrency` (requests in flight) or `requests_per_second` about the Service,
Route, Configuration or Revision, divided as the Route divides traffic; and from a model server's traffic by that name.

Source: knative/serving pkg/reconciler/autoscaling/{kpa,hpa}, pkg/autoscaler (main, 2026-08).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from fairway.autoscaling.kpa import deciding, scaling
from fairway.autoscaling.kpa.deciding import TICK_US, Decision, Memory
from fairway.autoscaling.kpa.scaling import ACTIVATING, UNKNOWN, Scaled, State
from fairway.autoscaling.kpa.settings import (
    DEFAULT,
    HPA,
    KPA,
    NAME,
    NAMESPACE,
    Settings,
    SettingsFault,
    read_settings,
)
from fairway.autoscaling.kpa.specs import CONCURRENCY, GROUP, RPS, Spec, annotation, spec_of
from fairway.autoscaling.kpa.windows import Measured
from fairway.autoscaling.source import NEVER_US
from fairway.cluster.actions import SetStatus, perform
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.errors import ApiError
from fairway.kube.labels import set_selector
from fairway.kube.objects import Key, Obj, annotations_of, labels_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.twin.autoscaling.journal import Scaling
from fairway.twin.autoscaling.loads import is_ready
from fairway.twin.autoscaling.podindex import Label
from fairway.twin.loop import CONTROLLERS
from fairway.workloads.knative import names
from fairway.workloads.knative.conditions import TRUE, Conditions, condition_of
from fairway.workloads.podtemplate import owned_by

if TYPE_CHECKING:
    from fairway.twin.autoscaling.component import Autoscaling

GK: Final = names.POD_AUTOSCALER
SETTINGS: Final = Key("ConfigMap", NAMESPACE, NAME)
COMPONENT: Final = "autoscaler"
_DEPENDENTS: Final = ("Active", "ScaleTargetInitialized", "SKSReady")
# What series of a load and of model servers may be called.
_SERIES: Final = {CONCURRENCY: ("concurrency", "requests_in_flight"), RPS: ("requests_per_second", "rps")}
_PORTS: Final = {
    "": [{"name": "http", "port": 80, "targetPort": 8012, "protocol": "TCP"}],
    "-private": [
        {"name": "http", "port": 80, "targetPort": 8012, "protocol": "TCP"},
        {"name": "http-autometric", "port": 9090, "targetPort": 9090, "protocol": "TCP"},
        {"name": "http-usermetric", "port": 9091, "targetPort": 9091, "protocol": "TCP"},
        {"name": "http-queueadm", "port": 8022, "targetPort": 8022, "protocol": "TCP"},
    ],
}


@dataclass(slots=True)
class Entry:
    """One PodAutoscaler. `until_us`: its requests stay as they are till then; `steady_us`: since when they are so.
    `desired`: pods the autoscaler wants (UNKNOWN: it has not said)."""

    born_us: int
    spec: Spec
    measured: Measured
    memory: Memory | None = None
    desired: int = UNKNOWN
    excess_burst: int = 0
    why: str = ""
    proxied_from_us: int | None = None
    recorded_us: int = -1
    value: float = 0.0
    steady_us: int = 0
    due_us: int = 0
    again_us: int = 0

    def fork(self) -> Entry:
        return replace(self, measured=self.measured.fork())


class Knative:
    """All of them."""

    def __init__(self, room: Autoscaling, settings: Settings = DEFAULT) -> None:
        self._room = room
        self.settings = settings
        self.entries: dict[Key, Entry] = {}

    def fork(self, room: Autoscaling) -> Knative:
        twin = Knative(room, self.settings)
        twin.entries = {key: entry.fork() for key, entry in self.entries.items()}
        return twin

    # What is observed

    def configured(self, change: Change) -> None:
        """config-autoscaler came, changed or went; one that is wrong changes nothing."""
        data = {} if change.type == DELETED else change.obj.get("data") or {}
        try:
            self.settings = read_settings(data)
        except SettingsFault as wrong:
            host = self._room.host
            uid = change.obj["metadata"]["uid"]
            host.events.emit(
                host.loop.now_us, change.key, uid, "Warning", "InvalidSettings", str(wrong), COMPONENT
            )
            return
        for key in self.entries:
            self._respecify(key)

    def observe(self, change: Change) -> None:
        """A PodAutoscaler came, changed or went."""
        key, pa = change.key, change.obj
        if change.type == DELETED:
            self.entries.pop(key, None)
            return
        kind = annotations_of(pa).get(f"{GROUP}/class", KPA)
        if change.old is not None and _asks(change.old) == _asks(pa):
            return
        if kind == HPA:
            self._hand_over(key, pa)
        elif kind == KPA and key in self.entries:
            self._respecify(key)
        elif kind == KPA:
            spec, now_us = self._spec(pa), self._room.host.loop.now_us
            entry = self.entries[key] = Entry(now_us, spec, Measured(spec))
            entry.excess_burst = deciding.first_excess_burst(spec)
            self._room.watch(names.DEPLOYMENT, names.ROUTE)
            self._ensure_services(key, pa)
            self._look_at(key, entry, now_us)

    def _respecify(self, key: Key) -> None:
        entry, pa = self.entries[key], self._room.host.store.get(key)
        if pa is not None:
            entry.spec = self._spec(pa)
            entry.measured.resize(entry.spec, self._room.host.loop.now_us)
            entry.steady_us = self._room.host.loop.now_us
            self.wake(key)

    def _spec(self, pa: Obj) -> Spec:
        concurrency = int(pa["spec"].get("containerConcurrency") or 0)
        reach = pa["spec"].get("reachability") or ""
        return spec_of(annotations_of(pa), concurrency, self.settings, reachability=reach)

    def pod_changed(self, label: Label) -> None:
        namespace, key, value = label
        if key == names.OF_REVISION:
            self.wake(Key(GK, namespace, value))

    def target_changed(self, change: Change) -> None:
        """A Route divides traffic otherwise, or a Revision's Deployment came or was set by somebody."""
        if change.key.gk == names.ROUTE:
            old = change.old or {}
            if (old.get("status") or {}).get("traffic") != (change.obj.get("status") or {}).get("traffic"):
                self.wake_all()
        elif change.old is None or change.old.get("spec") != change.obj.get("spec"):
            revision = labels_of(change.obj).get(names.OF_REVISION)
            if revision:
                self.wake(Key(GK, change.key.namespace, revision))

    def wake(self, key: Key) -> None:
        """Look at it now: its pods, its wishes or its requests changed."""
        entry = self.entries.get(key)
        if entry is not None:
            self._look_at(key, entry, self._room.host.loop.now_us)

    def wake_all(self) -> None:
        for key in self.entries:
            self.wake(key)

    def _look_at(self, key: Key, entry: Entry, at_us: int) -> None:
        if not self._room.host.loop.now_us <= entry.due_us <= at_us:
            entry.due_us = at_us
            self._room.host.loop.at(at_us, self._room.h_knative, key, CONTROLLERS)

    # A look

    def on_look(self, key: Key) -> None:
        room, entry = self._room, self.entries.get(key)
        pa, now_us = room.host.store.get(key), room.host.loop.now_us
        if entry is None or pa is None or entry.due_us != now_us:
            return
        entry.due_us = -1
        pods = room.index.pods(key.namespace, set_selector({names.OF_REVISION: key.name}))
        ready = sum(is_ready(pod) for pod in pods)
        value, until_us = self._requests(pa, entry.spec)
        self._record(entry, value, ready, now_us)
        is_tick = (now_us - entry.born_us) % TICK_US == 0
        is_poked = entry.desired == 0 and value > 0
        decided = self._decide(entry, ready, now_us) if is_tick or is_poked else None
        state, status = _state(pa, entry), dict(pa.get("status") or {})
        scaled = scaling.scale_to(entry.spec, state, entry.desired, now_us)
        deployment = room.host.store.get(Key(names.DEPLOYMENT, key.namespace, _target(pa)))
        if deployment is not None and scaled.applies and scaled.wanted >= 0:
            self._apply(key, entry, deployment, scaled.wanted, ready)
        self._write(key, pa, entry, state, status, scaled, ready, now_us)
        self._plan(key, entry, scaled, decided, until_us, now_us)

    def _decide(self, entry: Entry, ready: int, now_us: int) -> Decision | None:
        if entry.memory is None:
            entry.memory = deciding.first_memory(ready, now_us)
        seen = entry.measured.averages(now_us, is_scraped=entry.spec.target_burst_capacity != -1)
        if seen is None:
            return None
        found = deciding.decide(entry.spec, entry.memory, seen, ready, now_us)
        entry.memory, entry.desired = found.memory, found.pods
        entry.excess_burst, entry.why = found.excess_burst, found.why
        return found

    def _record(self, entry: Entry, value: float, ready: int, now_us: int) -> None:
        """Samples of every second since the last look; none while there is neither pod nor request."""
        if value != entry.value:
            entry.steady_us = now_us
        window_s = entry.spec.stable_window_us // SECOND_US
        now_s = now_us // SECOND_US
        first_s = max(entry.recorded_us // SECOND_US + 1, now_s - window_s)
        for second in range(first_s, now_s):
            if ready or entry.value:
                entry.measured.record(second * SECOND_US, entry.value, entry.value)
        if (ready or value) and entry.recorded_us // SECOND_US < now_s:
            entry.measured.record(now_us, value, value)
        entry.value, entry.recorded_us = value, now_us

    def _plan(
        self, key: Key, entry: Entry, scaled: Scaled, decided: Decision | None, until_us: int, now_us: int
    ) -> None:
        """The next look: a tick, unless no tick until then could decide otherwise."""
        due = [until_us] if until_us < NEVER_US else []
        if scaled.again_us:
            entry.again_us = now_us + scaled.again_us
        if entry.again_us > now_us:
            due.append(entry.again_us)
        if not self._is_steady(entry, decided, now_us):
            due.append(now_us + TICK_US - (now_us - entry.born_us) % TICK_US)
        if due:
            self._look_at(key, entry, max(min(due), now_us + 1))

    def _is_steady(self, entry: Entry, decided: Decision | None, now_us: int) -> bool:
        """Its averages are those of requests that have not changed for longer than they reach back."""
        memory = entry.memory
        if decided is None or memory is None or memory.panic_from_us is not None:
            return False
        waits = {pods for _, pods in memory.delayed.entries}
        return len(waits) <= 1 and now_us - entry.steady_us > entry.spec.stable_window_us + SECOND_US

    # Requests

    def _requests(self, pa: Obj, spec: Spec) -> tuple[float, int]:
        """Requests in flight (or a second) of one Revision now, and until when that holds."""
        loads = self._room.loads
        namespace, revision = pa["metadata"]["namespace"], pa["metadata"]["name"]
        share, owners = self._share(pa), _owners(pa)
        total, until_us = 0.0, NEVER_US
        for name in _SERIES[RPS if spec.metric == RPS else CONCURRENCY]:
            for series, value in loads.series(name):
                if series.namespace not in ("", namespace):
                    continue
                about = _about(series.about, series.labels)
                if about in owners or about == revision or about == names.private_service(revision):
                    part = 1.0 if about not in owners else share
                    total += value.milli / 1000 * part
                    until_us = min(until_us, value.until_us)
        return total, until_us

    def _share(self, pa: Obj) -> float:
        """Of the traffic of its Routes, as they divide it now."""
        meta = pa["metadata"]
        route = annotations_of(pa).get(names.ROUTES) or labels_of(pa).get(names.OF_SERVICE) or ""
        there = self._room.host.store.get(Key(names.ROUTE, meta["namespace"], route))
        if there is None:
            return 1.0
        traffic = (there.get("status") or {}).get("traffic") or ()
        return sum(t.get("percent") or 0 for t in traffic if t.get("revisionName") == meta["name"]) / 100

    # Carrying out

    def _apply(self, key: Key, entry: Entry, deployment: Obj, wanted: int, ready: int) -> None:
        before = deployment["spec"].get("replicas")
        before = 1 if before is None else int(before)
        if before == wanted:
            return
        host = self._room.host
        target = Key(names.DEPLOYMENT, key.namespace, deployment["metadata"]["name"])
        host.store.patch(target, {"spec": {"replicas": wanted}})
        why = entry.why if wanted else "no traffic"
        what = Scaling(host.loop.now_us, str(key), str(target), before, wanted, ready, entry.spec.metric, why)
        self._room.journal.note(what)

    def _write(
        self,
        key: Key,
        pa: Obj,
        entry: Entry,
        state: State,
        status: dict[str, Any],
        scaled: Scaled,
        ready: int,
        now_us: int,
    ) -> None:
        """Counts and conditions; whether the activator stands before the pods from now on."""
        before = pa.get("status") or {}
        if scaling.is_served(scaled, entry.excess_burst):
            entry.proxied_from_us = None
        elif entry.proxied_from_us is None:
            entry.proxied_from_us = now_us
        conditions = Conditions(before, _DEPENDENTS, now_us)
        conditions.mark("SKSReady", TRUE)
        found = scaling.active_condition(entry.spec, state, scaled.wanted, ready)
        if ready >= scaling.threshold(entry.spec, state):
            conditions.mark("ScaleTargetInitialized", TRUE)
        if found is not None:
            conditions.mark("Active", *found)
        status["actualScale"] = ready
        if scaled.wanted >= 0 or status.get("desiredScale", -1) < 0:
            status["desiredScale"] = scaled.wanted
        status["metricsServiceName"] = names.private_service(key.name)
        status["serviceName"] = key.name
        status["observedGeneration"] = pa["metadata"]["generation"]
        status["conditions"] = conditions.listed()
        perform(self._room.host.store, SetStatus(key, status))
        if found is not None and found[0] != state.active:
            # What it may do next depends on how long it has been so.
            entry.again_us = now_us + TICK_US

    def _ensure_services(self, key: Key, pa: Obj) -> None:
        """The two core Services that a ServerlessService stands for: one that requests go to, one of its pods."""
        selector = {names.OF_REVISION_UID: labels_of(pa).get(names.OF_REVISION_UID, "")}
        for suffix, ports in _PORTS.items():
            name = f"{key.name}{suffix}"
            if self._room.host.store.get(Key("Service", key.namespace, name)) is not None:
                continue
            kind = "Private" if suffix else "Public"
            labels = {**labels_of(pa), "networking.internal.knative.dev/serviceType": kind}
            metadata = {
                "name": name,
                "namespace": key.namespace,
                "labels": labels,
                "ownerReferences": owned_by(pa, names.AUTOSCALER_VERSION, "PodAutoscaler"),
            }
            spec: dict[str, Any] = {"ports": ports, "type": "ClusterIP"}
            if suffix:
                spec["selector"] = selector
            self._create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})

    def _create(self, obj: Obj) -> None:
        try:
            self._room.host.create(obj, _done)
        except ApiError as refused:
            host = self._room.host
            meta = obj["metadata"]
            host.log.record(
                host.loop.now_us,
                COMPONENT,
                obj["kind"],
                meta["namespace"],
                meta["name"],
                "FailedCreate",
                refused.message,
            )

    # The other class

    def _hand_over(self, key: Key, pa: Obj) -> None:
        """A PodAutoscaler of class hpa becomes a HorizontalPodAutoscaler."""
        self._ensure_services(key, pa)
        store = self._room.host.store
        wanted = horizontal_of(pa, self.settings)
        there = store.get(Key("HorizontalPodAutoscaler.autoscaling", key.namespace, key.name))
        if there is None:
            self._create(wanted)
        elif any(there["spec"].get(member) != value for member, value in wanted["spec"].items()):
            store.replace({**there, "spec": {**there["spec"], **wanted["spec"]}})
        conditions = Conditions(pa.get("status") or {}, _DEPENDENTS, self._room.host.loop.now_us)
        for type_ in _DEPENDENTS:
            conditions.mark(type_, TRUE)
        status = {
            **(pa.get("status") or {}),
            "conditions": conditions.listed(),
            "metricsServiceName": names.private_service(key.name),
            "serviceName": key.name,
            "observedGeneration": pa["metadata"]["generation"],
        }
        perform(store, SetStatus(key, status))


def horizontal_of(pa: Obj, settings: Settings) -> Obj:
    """The HorizontalPodAutoscaler of a PodAutoscaler of class hpa. Source: hpa/resources/hpa.go."""
    told, meta = annotations_of(pa), pa["metadata"]
    spec = spec_of(told, 0, settings, reachability=pa["spec"].get("reachability") or "")
    found: dict[str, Any] = {
        "scaleTargetRef": pa["spec"]["scaleTargetRef"],
        "maxReplicas": spec.max_scale or 2**31 - 1,
    }
    if spec.min_scale:
        found["minReplicas"] = spec.min_scale
    target = annotation(told, "target")
    metric = annotation(told, "metric") or "cpu"
    if target is not None:
        found["metrics"] = [_metric(metric, float(target))]
    if annotation(told, "window") is not None:
        seconds = spec.stable_window_us // SECOND_US
        rules = {"stabilizationWindowSeconds": seconds}
        found["behavior"] = {"scaleDown": rules, "scaleUp": rules}
    metadata = {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "labels": labels_of(pa),
        "annotations": told,
        "ownerReferences": owned_by(pa, names.AUTOSCALER_VERSION, "PodAutoscaler"),
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata,
        "spec": found,
    }


def _metric(name: str, target: float) -> dict[str, Any]:
    if name == "cpu":
        wanted: dict[str, Any] = {"type": "Utilization", "averageUtilization": -int(-target // 1)}
        return {"type": "Resource", "resource": {"name": "cpu", "target": wanted}}
    if name == "memory":
        wanted = {"type": "AverageValue", "averageValue": f"{int(target)}Mi"}
        return {"type": "Resource", "resource": {"name": "memory", "target": wanted}}
    wanted = {"type": "AverageValue", "averageValue": str(int(target))}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": wanted}}


def _asks(pa: Obj) -> tuple[Any, Any]:
    return pa.get("spec"), annotations_of(pa)


def _target(pa: Obj) -> str:
    return str(pa["spec"]["scaleTargetRef"]["name"])


def _state(pa: Obj, entry: Entry) -> State:
    active = condition_of(pa, "Active")
    initialized = condition_of(pa, "ScaleTargetInitialized")
    is_initialized = initialized is not None and initialized["status"] == TRUE
    if active is None:
        return State(ACTIVATING, entry.born_us, is_initialized, entry.proxied_from_us)
    since_us = parse_rfc3339(active["lastTransitionTime"])
    return State(active["status"], since_us, is_initialized, entry.proxied_from_us)


def _owners(pa: Obj) -> set[str]:
    """Its Service, Configuration and Routes by name: series about those are divided."""
    labels = labels_of(pa)
    found = {labels.get(names.OF_SERVICE, ""), labels.get(names.OF_CONFIGURATION, "")}
    found.update(annotations_of(pa).get(names.ROUTES, "").split(","))
    return found - {""}


def _about(about: tuple[str, str] | None, labels: Iterable[tuple[str, str]]) -> str:
    if about is not None:
        return about[1]
    return next((value for key, value in labels if key == "service"), "")


def _done() -> None:
    """Nothing waits for it."""
