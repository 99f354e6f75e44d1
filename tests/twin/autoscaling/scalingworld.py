"""A small cluster with a Deployment, a load, and whatever scales it.

world = World(load={...}, objects=[autoscaler("web", cpu=50)])
world.run(600)
assert world.replicas("web") == 6
"""

from __future__ import annotations

from typing import Any

from fairway.autoscaling.load.reading import NO_LOAD, read_load
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.scenario.entering import create_or_replace
from fairway.twin.autoscaling.component import Autoscaling
from fairway.twin.latency import NONE
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin


class World:
    def __init__(
        self, *, load: dict[str, Any] | None = None, objects: list[Obj] | None = None, nodes: int = 3
    ) -> None:
        given = read_load(load) if load is not None else NO_LOAD
        self.twin = Twin(latency=NONE, components=standard_components(load=given))
        for i in range(nodes):
            self.apply(node(f"n{i}"))
        for obj in objects or []:
            self.apply(obj)

    def apply(self, obj: Obj) -> None:
        create_or_replace(self.twin.host, obj)
        self.twin.wake()

    def run(self, seconds: float) -> None:
        self.twin.run_for(round(seconds * SECOND_US))

    @property
    def room(self) -> Autoscaling:
        room = self.twin.component("autoscaling")
        assert isinstance(room, Autoscaling)
        return room

    def get(self, gk: str, name: str, namespace: str = "default") -> Obj:
        found = self.twin.store.get(Key(gk, namespace, name))
        assert found is not None, (gk, name)
        return found

    def replicas(self, name: str, gk: str = "Deployment.apps") -> int:
        wanted: int = self.get(gk, name)["spec"]["replicas"]
        return wanted

    def status(self, name: str, gk: str = "HorizontalPodAutoscaler.autoscaling") -> dict[str, Any]:
        status: dict[str, Any] = self.get(gk, name).get("status") or {}
        return status

    def conditions(
        self, name: str, gk: str = "HorizontalPodAutoscaler.autoscaling"
    ) -> dict[str, tuple[str, str]]:
        return {
            c["type"]: (c["status"], c.get("reason", ""))
            for c in self.status(name, gk).get("conditions") or ()
        }

    def said(self, kind: str) -> list[tuple[str, str]]:
        events = self.twin.host.events.told()
        return [(e.reason, e.message) for e in events if e.about.gk.startswith(kind)]


def node(name: str, cpu: str = "64") -> Obj:
    amounts = {"cpu": cpu, "memory": "256Gi", "pods": "250", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def deployment(
    name: str, replicas: int = 2, *, cpu: str = "1", annotations: dict[str, str] | None = None
) -> Obj:
    container = {"name": "c", "image": "img", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": annotations or {}},
        "spec": {"containers": [container]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def autoscaler(name: str, metric: Obj, *, low: int = 1, high: int = 10, target: str = "", **spec: Any) -> Obj:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target or name}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": ref, "minReplicas": low, "maxReplicas": high, "metrics": [metric], **spec},
    }


def cpu(percent: int) -> Obj:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def external(name: str, average: str) -> Obj:
    target = {"type": "AverageValue", "averageValue": average}
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


def of_pods(name: str, average: str) -> Obj:
    target = {"type": "AverageValue", "averageValue": average}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": target}}
