"""A world with nodes and kubelets but no scheduler: pods come bound. For tests only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tests.twin.stepwise import lets_go_of_timers

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin import faults, invariants
from fairway.twin.components import Component
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.latency import NONE, Latency
from fairway.twin.nodelifecycle import NodeLifecycle
from fairway.twin.podgc import PodGarbageCollector
from fairway.twin.tainteviction import TaintEviction
from fairway.twin.twin import EPOCH_US, Twin

S = SECOND_US


def node(name: str = "n", *, cpu: str = "8", pods: str = "110", **extra: Any) -> Obj:
    meta = {"name": name, "labels": extra.pop("labels", {})}
    spec = extra.pop("spec", {})
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": pods, **extra.pop("more", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": spec,
        "status": {"allocatable": allocatable, **extra},
    }


def container(name: str = "main", command: str = "", **extra: Any) -> Obj:
    made: Obj = {"name": name, "image": f"{name}:1"}
    if command:
        made["command"] = ["sh", "-c", command]
    return {**made, **extra}


def pod(name: str = "p", *containers: Obj, **extra: Any) -> Obj:
    """A pod bound to node `n`. `says` are behaviour annotations without their prefix."""
    says = {f"fairway.dev/{k.replace('_', '-')}": v for k, v in extra.pop("says", {}).items()}
    meta: dict[str, Any] = {"name": name, "namespace": "default", **extra.pop("meta", {})}
    if says:
        meta["annotations"] = says
    spec = {
        "nodeName": "n",
        "restartPolicy": "Never",
        "containers": list(containers) or [container()],
        **extra,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


class World:
    """A twin with what nodes need, and words for what is seen in it. Times are seconds since its start."""

    def __init__(
        self, *objects: Obj, latency: Latency = NONE, nodes: Iterable[Obj] | None = None, seed: int = 1
    ) -> None:
        self.kubelet = Kubelet()
        components: list[Component] = [
            Faults(),
            self.kubelet,
            NodeLifecycle(),
            TaintEviction(),
            PodGarbageCollector(),
        ]
        self.twin = Twin(seed=seed, latency=latency, components=components, keep_records=10_000)
        self.twin.apply([node()] if nodes is None else nodes)
        self.twin.apply(objects)

    def at(self, seconds: float) -> World:
        self.twin.run(EPOCH_US + round(seconds * S))
        invariants.check(self.twin.host)
        lets_go_of_timers(self.twin)
        return self

    def us(self, seconds: float) -> int:
        return EPOCH_US + round(seconds * S)

    def get(self, name: str = "p") -> Obj | None:
        return self.twin.store.get(Key("Pod", "default", name))

    def need(self, name: str = "p") -> Obj:
        found = self.get(name)
        assert found is not None, f"{name} is gone"
        return found

    def node(self, name: str = "n") -> Obj:
        found = self.twin.store.get(Key("Node", "", name))
        assert found is not None
        return found

    def delete(self, name: str = "p", grace_s: int | None = None) -> None:
        self.twin.store.delete(Key("Pod", "default", name), grace_s=grace_s)
        self.twin.wake()

    def seen(self, name: str = "p") -> str:
        """`Running 1/2 main=run side=wait:CrashLoopBackOff*3`, or `gone`."""
        obj = self.get(name)
        return "gone" if obj is None else line(obj)

    def condition(self, type_: str, name: str = "p") -> tuple[str, str]:
        for c in self.need(name)["status"].get("conditions", ()):
            if c["type"] == type_:
                return c["status"], c.get("reason", "")
        return "", ""

    def taints(self, name: str = "n") -> list[str]:
        return sorted(
            f"{t['key'].removeprefix('node.kubernetes.io/')}:{t['effect']}"
            for t in self.node(name)["spec"].get("taints", ())
        )

    def ready(self, name: str = "n") -> tuple[str, str]:
        for c in self.node(name)["status"]["conditions"]:
            if c["type"] == "Ready":
                return c["status"], c["reason"]
        return "", ""

    def said(self, name: str = "p") -> list[str]:
        return [f"{t.reason}*{t.times}" for t in self.twin.host.events.about(Key("Pod", "default", name))]

    def crash(self, at_s: float, for_s: float | None = None, name: str = "n") -> None:
        faults.fail_node(self.twin, name, self.us(at_s), None if for_s is None else round(for_s * S))


def line(obj: Obj) -> str:
    status = obj["status"]
    statuses = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    mains = status.get("containerStatuses", ())
    phase = status["phase"] + (f"/{status['reason']}" if "reason" in status else "")
    ready = f"{sum(c['ready'] for c in mains)}/{len(obj['spec']['containers'])}"
    parts = [phase, ready, *(_container(c) for c in statuses)]
    if "deletionTimestamp" in obj["metadata"]:
        parts.append("Terminating")
    return " ".join(parts)


def _container(status: Obj) -> str:
    (kind, detail) = next(iter(status["state"].items()))
    what = {
        "running": "run",
        "waiting": f"wait:{detail.get('reason')}",
        "terminated": f"end:{detail.get('reason')}:{detail.get('exitCode')}",
    }[kind]
    restarts = f"*{status['restartCount']}" if status["restartCount"] else ""
    return f"{status['name']}={what}{restarts}"


def latency(**seconds: float) -> Latency:
    """No latency but for these, in seconds."""
    from fairway.twin.distributions import constant

    return replace(NONE, **{name: constant(round(s * S)) for name, s in seconds.items()})
