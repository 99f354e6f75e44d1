"""The cluster's own controllers as clients see them: pods in kube-system, kueue-system and karpenter, and their logs.

They run in this process and on no node of the cluster, as with a managed control plane, but are listed: whoever waits
for `deployment/kueue-controller-manager` or reads the scheduler's log finds them. kube-system's are there from the
start, Kueue's with the first object of Kueue's kinds (unless somebody installs it himself), Karpenter's and the Cluster
Autoscaler's with a cloud. Their logs are the events that they told, as controllers log them.

Source: kubeadm's static pods, Kueue's manifests, Karpenter's and the Cluster Autoscaler's charts (names, labels).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fairway.apiserver.kubelets.interface import Line
from fairway.cluster.changes import ADDED, Change
from fairway.cluster.store import Store
from fairway.kube.defaults import apply_defaults
from fairway.kube.kinds import BY_GROUP_KIND
from fairway.kube.objects import Key, Obj, key_of, labels_of, spec_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.twin.components import Host
from fairway.twin.loop import CONTROLLERS

HOSTED = "fairway.dev/control-plane"
"""The scheduler these pods name: none of the cluster's, so that nobody looks for a node."""
_MARK = "fairway.dev/controller"
_KUEUE = "kueue.x-k8s.io"


class Program(NamedTuple):
    """One controller. `selector` empty: a bare pod. `says` are the components whose events are its log."""

    name: str
    namespace: str
    container: str
    image: str
    says: tuple[str, ...]
    labels: dict[str, str]
    is_deployed: bool = True


_TIER = {"tier": "control-plane"}
_ALWAYS = (
    Program(
        "kube-controller-manager-control-plane",
        "kube-system",
        "kube-controller-manager",
        "registry.k8s.io/kube-controller-manager:v1.36.0",
        ("-controller", "controllermanager", "taint-eviction-controller", "endpoint-controller"),
        {"component": "kube-controller-manager", **_TIER},
        False,
    ),
    Program(
        "kube-scheduler-control-plane",
        "kube-system",
        "kube-scheduler",
        "registry.k8s.io/kube-scheduler:v1.36.0",
        ("default-scheduler",),
        {"component": "kube-scheduler", **_TIER},
        False,
    ),
)
_OF_KUEUE = Program(
    "kueue-controller-manager",
    "kueue-system",
    "manager",
    "registry.k8s.io/kueue/kueue:main",
    ("kueue",),
    {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"},
)
OF_KARPENTER = Program(
    "karpenter",
    "karpenter",
    "controller",
    "public.ecr.aws/karpenter/controller:1.8.0",
    ("karpenter",),
    {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"},
)
OF_AUTOSCALER = Program(
    "cluster-autoscaler",
    "kube-system",
    "cluster-autoscaler",
    "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.0",
    ("cluster-autoscaler",),
    {"app": "cluster-autoscaler"},
)
_PROGRAMS = {p.name: p for p in (*_ALWAYS, _OF_KUEUE, OF_KARPENTER, OF_AUTOSCALER)}


class ControlPlanePods:
    """Creates them, and lets their pods run."""

    name = "control-plane-pods"
    kinds: tuple[str, ...] = ("Pod", *(gk for gk in BY_GROUP_KIND if gk.endswith(f".{_KUEUE}")))

    def __init__(self, also: Iterable[Program] = (), without: Container[str] = ()) -> None:
        """`also`: programs that run here besides. `without`: parts of the cluster that run elsewhere (`leftout`)."""
        self._also, self._without = tuple(also), without
        self._programs = [p for p in (*_ALWAYS, *self._also) if _part_of(p) not in without]

    def attach(self, host: Host) -> None:
        self.host = host
        self._install = host.loop.register("controlplane.install", self._on_install)
        self._run = host.loop.register("controlplane.run", self._on_run)

    def start(self) -> None:
        for program in self._programs:
            self.host.loop.at(self.host.loop.now_us, self._install, program.name, CONTROLLERS)
        for program in _PROGRAMS.values():
            if _part_of(program) in self._without:
                self._uninstall(program)

    def fork(self) -> ControlPlanePods:
        return ControlPlanePods(self._also, self._without)

    def observe(self, change: Change) -> None:
        if change.type != ADDED:
            return
        if change.key.gk != "Pod":
            if _part_of(_OF_KUEUE) not in self._without:
                self.host.loop.at(self.host.loop.now_us, self._install, _OF_KUEUE.name, CONTROLLERS)
        elif is_hosted(change.obj):
            self.host.loop.at(self.host.loop.now_us, self._run, change.key, CONTROLLERS)

    def _on_install(self, name: str) -> None:
        store, program = self.host.store, _PROGRAMS[name]
        for obj in _objects(program):
            if store.get(key_of(obj)) is None:
                store.create(apply_defaults(obj))

    def _uninstall(self, program: Program) -> None:
        """What an earlier start put there: the real program brings its own."""
        store = self.host.store
        ours = [*store.objects("Pod", program.namespace), *_deployed(store, program.namespace)]
        for obj in ours:
            if labels_of(obj).get(_MARK) == program.name:
                store.delete(key_of(obj))

    def _on_run(self, key: Key) -> None:
        pod = self.host.store.get(key)
        if pod is None or (pod.get("status") or {}).get("phase") == "Running":
            return
        now = rfc3339(self.host.loop.now_us)
        conditions = [
            {"type": type_, "status": "True", "lastTransitionTime": now}
            for type_ in (
                "PodScheduled",
                "PodReadyToStartContainers",
                "Initialized",
                "ContainersReady",
                "Ready",
            )
        ]
        containers = [
            {
                "name": c["name"],
                "image": c.get("image", ""),
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "lastState": {},
                "state": {"running": {"startedAt": now}},
            }
            for c in spec_of(pod)["containers"]
        ]
        status = {
            "phase": "Running",
            "startTime": now,
            "conditions": conditions,
            "containerStatuses": containers,
        }
        self.host.store.set_status(key, status)


def _part_of(program: Program) -> str:
    """As `leftout` names it."""
    return "kueue" if program is _OF_KUEUE else program.name.removesuffix("-control-plane")


def _deployed(store: Store, namespace: str) -> list[Obj]:
    return [obj for gk in ("Deployment.apps", "ReplicaSet.apps") for obj in store.objects(gk, namespace)]


def _objects(program: Program) -> Iterable[Obj]:
    labels = {**program.labels, _MARK: program.name}
    spec: dict[str, Any] = {
        "schedulerName": HOSTED,
        "priorityClassName": "system-cluster-critical",
        "priority": 2_000_000_000,
        "containers": [{"name": program.container, "image": program.image}],
    }
    meta = {"name": program.namespace, "labels": {"kubernetes.io/metadata.name": program.namespace}}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    meta = {"name": program.name, "namespace": program.namespace, "labels": labels}
    if not program.is_deployed:
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        return
    template = {"metadata": {"labels": labels}, "spec": spec}
    deployed = {"replicas": 1, "selector": {"matchLabels": program.labels}, "template": template}
    yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": deployed}


def is_hosted(pod: Obj) -> bool:
    return spec_of(pod).get("schedulerName") == HOSTED


class ControllerLog:
    """What such a pod has written: a line for every event its program told."""

    def __init__(self, store: Store, pod: Obj) -> None:
        self._store = store
        self._program = _PROGRAMS.get(labels_of(pod).get(_MARK, ""))
        self._told: dict[str, str] = {}

    @property
    def is_over(self) -> bool:
        return False

    def read(self) -> list[Line]:
        fresh = []
        for event in self._store.objects("Event"):
            meta = event["metadata"]
            if self._told.get(meta["uid"]) != meta["resourceVersion"] and self._is_ours(event):
                self._told[meta["uid"]] = meta["resourceVersion"]
                fresh.append(_line(event))
        return sorted(fresh)

    def _is_ours(self, event: Obj) -> bool:
        by = event.get("reportingComponent") or (event.get("source") or {}).get("component") or ""
        return self._program is not None and any(word in by for word in self._program.says)


def _line(event: Obj) -> Line:
    """As client-go's recorder logs an event, in klog's form."""
    stamps = (
        (event.get("series") or {}).get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    at_us = parse_rfc3339(next(stamp for stamp in stamps if stamp))
    about = event.get("involvedObject") or {}
    home = about.get("namespace")
    name = f"{home}/{about.get('name')}" if home else str(about.get("name"))
    time = datetime.fromtimestamp(at_us // SECOND_US, UTC).strftime("%m%d %H:%M:%S")
    said = {
        "object": name,
        "kind": about.get("kind", ""),
        "apiVersion": about.get("apiVersion", ""),
        "type": event.get("type", ""),
        "reason": event.get("reason", ""),
        "message": event.get("message", ""),
    }
    text = " ".join(f'{key}="{value}"' for key, value in said.items())
    return at_us, f'I{time}.{at_us % SECOND_US:06d}       1 event.go:389] "Event occurred" {text}'
