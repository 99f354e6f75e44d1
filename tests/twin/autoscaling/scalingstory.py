"""A twin with autoscalers and what they are asked to scale, moment by moment: each write, word and planned look."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.twin.stepwise import Watched

from fairway.autoscaling.load.reading import NO_LOAD, read_load
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.autoscaling.component import Autoscaling
from fairway.twin.components import Component
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.latency import NONE
from fairway.twin.nodelifecycle import NodeLifecycle
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.twin import EPOCH_US, Twin

S = SECOND_US
NAMES = {
    "HPA": "HorizontalPodAutoscaler.autoscaling",
    "SO": "ScaledObject.keda.sh",
    "SJ": "ScaledJob.keda.sh",
    "VPA": "VerticalPodAutoscaler.autoscaling.k8s.io",
    "PA": "PodAutoscaler.autoscaling.internal.knative.dev",
    "Deployment": "Deployment.apps",
    "Job": "Job.batch",
    "Route": "Route.serving.knative.dev",
    "PDB": "PodDisruptionBudget.policy",
}
# Of these everything is told; of others what is not their status.
_WHOLE = tuple(f"modified {NAMES[name]} " for name in ("HPA", "SO", "SJ", "VPA", "PA"))
_SPEAKERS = ("horizontal-pod-autoscaler", "keda-operator", "vpa-updater", "autoscaler", "autoscaling")


def pod(name: str, app: str = "web", owner: str = "", **spec: Any) -> Obj:
    """Of a ReplicaSet, where `owner` names one. `annotations`: without their prefix."""
    named = {"cpu": "cpu-usage", "memory": "memory-usage"}
    told = {f"fairway.dev/{named.get(key, key)}": value for key, value in spec.pop("annotations", {}).items()}
    resources = spec.pop("resources", {"requests": {"cpu": "1", "memory": "1Gi"}})
    meta: Obj = {"name": name, "namespace": "default", "labels": {"app": app, **spec.pop("labels", {})}}
    meta["annotations"] = told
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner}
        meta["ownerReferences"] = [{**reference, "controller": True}]
    containers = [{"name": "c", "image": "i", "resources": resources}]
    body = {"terminationGracePeriodSeconds": 0, "containers": containers, **spec}
    return apply_defaults({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body})


def deployment(name: str = "web", replicas: int = 2, **labels: str) -> Obj:
    chosen = labels or {"app": name}
    template = {"metadata": {"labels": chosen}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": chosen}, "template": template}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def node(name: str, cpu: str = "64") -> Obj:
    amounts = {"cpu": cpu, "memory": "256Gi", "pods": "250"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


class World(Watched):
    """With nodes and kubelets where `nodes` are named; else pods are what somebody says of them."""

    def __init__(self, load: dict[str, Any] | None = None, *objects: Obj, nodes: int = 0) -> None:
        self.part = Autoscaling(NO_LOAD if load is None else read_load(load))
        parts: list[Component] = [self.part]
        if nodes:
            parts = [Faults(), Kubelet(), NodeLifecycle(), self.part, SchedulerComponent()]
        self._planned: dict[str, str] = {}
        super().__init__(Twin(seed=1, latency=NONE, components=parts))
        self.apply(*(node(f"n{number}") for number in range(nodes)), *objects)

    def apply(self, *objects: Obj) -> World:
        self.twin.apply(objects)
        return self

    def delete(self, kind: str, name: str) -> World:
        self.twin.store.delete(_key(kind, name), grace_s=0)
        self.twin.wake()
        return self

    def patch(self, kind: str, name: str, change: Obj) -> World:
        self.twin.store.patch(_key(kind, name), change)
        self.twin.wake()
        return self

    def status(self, kind: str, name: str, **parts: Any) -> World:
        key = _key(kind, name)
        self.twin.store.set_status(key, {**(self.twin.store.require(key).get("status") or {}), **parts})
        self.twin.wake()
        return self

    def ready(self, *names: str, phase: str = "Running") -> World:
        for name in names:
            condition = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
            self.status("Pod", name, phase=phase, conditions=[condition], startTime="2026-01-05T00:00:00Z")
        return self

    def forked(self) -> World:
        other = copy.copy(self)
        other._planned = dict(self._planned)
        Watched.__init__(other, self.twin.fork())
        part = other.twin.component("autoscaling")
        assert isinstance(part, Autoscaling)
        other.part = part
        return other

    def rest(self) -> Iterator[str]:
        """What was said and scaled, what is remembered, and which metrics there are."""
        yield from (line for line in self.said() if line.startswith(_SPEAKERS))
        part = self.part
        for one in part.journal.scalings:
            yield f"scaled {' '.join(str(value) for value in (_s(one.at_us), *one[1:]))}"
        for key, of_keda in part.keda.entries.items():
            last = "never" if of_keda.last_active_us is None else _s(of_keda.last_active_us)
            yield (
                f"{key.name}: active {of_keda.was_active}, last {last}, polled {_s(of_keda.polled_us)}, failures "
                f"{of_keda.failures}, target {of_keda.target}, jobs {of_keda.jobs_made}, original {of_keda.original}"
            )
        for key, of_vpa in part.vertical.entries.items():
            yield f"{key.name}: usage of {sorted(of_vpa.usages)}, {len(of_vpa.ooms)} out of memory"
        for key, of_kpa in part.knative.entries.items():
            yield f"{key.name}: {of_kpa.desired} wanted, burst {of_kpa.excess_burst}, why {of_kpa.why}"
        for of_objects in (True, False):
            yield f"metrics {part.metric_names(of_objects=of_objects)}"

    def _news(self) -> Iterator[str]:
        held: list[str] = []
        is_brief = False
        for line in super()._news():
            heading = held[:1] if held and held[0].startswith("== ") else []
            if line.startswith("== "):
                held = [line]
                continue
            if line.startswith("noted "):
                held = heading
                if not line.startswith(tuple(f"noted {name} " for name in _SPEAKERS)):
                    continue
            elif not line.startswith("  "):
                is_brief = line.startswith("modified ") and not line.startswith(_WHOLE)
                held = [*heading, line]
                if is_brief:
                    continue
            elif is_brief and line.startswith("  status.") and not line.startswith("  status.phase"):
                continue
            yield from held
            if line not in held:
                yield line
            held = []
        yield from self._plans()

    def _plans(self) -> Iterator[str]:
        """When each autoscaler is looked at next, where that is another time than it was."""
        part, now_us = self.part, self.twin.now_us
        due = {
            f"{key.gk.partition('.')[0]} {key.name}": entry.due_us
            for entries in (part.horizontal.entries, part.keda.entries, part.knative.entries)
            for key, entry in entries.items()
        }
        planned = {name: _s(at_us) for name, at_us in due.items()}
        # A HorizontalPodAutoscaler that was looked at keeps the time of that look.
        planned |= {n: "none" for n, at_us in due.items() if at_us < now_us + n.startswith("HorizontalPod")}
        for name, when in planned.items():
            if when != self._planned.get(name):
                yield f"-- {_s(now_us)}: next look at {name}: {when}"
        self._planned = planned


def _key(kind: str, name: str) -> Key:
    return Key(NAMES.get(kind, kind), "" if kind == "Node" else "default", name)


def _s(at_us: int) -> str:
    return f"{(at_us - EPOCH_US) / S:.15g} s"
