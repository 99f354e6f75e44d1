"""A recorder watching a store that a test writes to by hand: what kubelets and schedulers would write.

    world = Recorded()
    world.node("n1", gpus=8)
    world.at(5).pod("p", gpus=1).at(6).bind("p", "n1").at(8).run("p").at(60).succeed("p")
    outcome = world.outcome()

Times are seconds since the run began.
"""

from __future__ import annotations

from typing import Any, Self

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.recorder import Outcome, Recorder
from fairway.recorder.tables import COMPLETE
from fairway.twin.latency import NONE, Latency
from fairway.twin.twin import EPOCH_US, Twin


class Recorded:
    def __init__(self, latency: Latency = NONE) -> None:
        self.recorder = Recorder()
        self.twin = Twin(latency=latency, components=[self.recorder])

    @property
    def store(self) -> Store:
        return self.twin.store

    def at(self, seconds: float) -> Self:
        """Let time pass."""
        self.twin.run(EPOCH_US + round(seconds * SECOND_US))
        return self

    def outcome(self, status: str = COMPLETE) -> Outcome:
        self.twin.run(self.twin.now_us)
        return self.recorder.outcome(status)

    # Nodes

    def node(
        self, name: str, *, gpus: int = 0, cpu: str = "64", memory: str = "512Gi", **labels: str
    ) -> Self:
        offers = {"cpu": cpu, "memory": memory, "pods": "110"}
        if gpus:
            offers["nvidia.com/gpu"] = str(gpus)
        self.store.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {k.replace("__", "/").replace("_", "."): v for k, v in labels.items()},
                },
                "spec": {},
                "status": {"allocatable": offers},
            }
        )
        return self

    def cordon(self, name: str, value: bool = True) -> Self:
        self.store.patch(Key("Node", "", name), {"spec": {"unschedulable": value}})
        return self

    def lose(self, name: str) -> Self:
        self.store.delete(Key("Node", "", name))
        return self

    # Workloads and pods

    def workload(
        self, kind: str, name: str, namespace: str = "a", *, owner: Obj | None = None, **spec: Any
    ) -> Obj:
        version = {"Job": "batch/v1", "CronJob": "batch/v1", "Deployment": "apps/v1", "ReplicaSet": "apps/v1"}
        obj: Obj = {
            "apiVersion": version[kind],
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
        if owner is not None:
            obj["metadata"]["ownerReferences"] = [_reference(owner)]
        return self.store.create(obj)

    def pod(
        self,
        name: str,
        namespace: str = "a",
        *,
        gpus: int = 0,
        cpu: str = "1",
        memory: str = "1Gi",
        owner: Obj | None = None,
        serving: bool = False,
        use: str = "",
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> Self:
        requests = {"cpu": cpu, "memory": memory}
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        container = {"name": "main", "image": "app", "resources": {"requests": requests, "limits": limits}}
        meta: Obj = {"name": name, "namespace": namespace, "labels": labels or {}}
        if owner is not None:
            meta["ownerReferences"] = [_reference(owner)]
        if use:
            meta["annotations"] = {"fairway.dev/gpu-utilization": use}
        policy = "Always" if serving else "Never"
        self.store.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": meta,
                "spec": {"restartPolicy": policy, "containers": [container], **spec},
                "status": {"phase": "Pending"},
            }
        )
        return self

    def refuse(self, name: str, message: str, namespace: str = "a") -> Self:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        return self.status(name, namespace, phase="Pending", conditions=[condition])

    def bind(self, name: str, node: str, namespace: str = "a") -> Self:
        status = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
        self.store.bind(Key("Pod", namespace, name), node, status)
        return self

    def run(self, name: str, namespace: str = "a", *, restarts: int = 0) -> Self:
        conditions = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]
        state = {"running": {"startedAt": "2026-01-05T00:00:00Z"}}
        containers = [{"name": "main", "restartCount": restarts, "state": state}]
        return self.status(
            name, namespace, phase="Running", conditions=conditions, containerStatuses=containers
        )

    def succeed(self, name: str, namespace: str = "a") -> Self:
        return self.status(name, namespace, phase="Succeeded", containerStatuses=_ended(0, "Completed"))

    def fail(self, name: str, namespace: str = "a", *, reason: str = "Error", code: int = 1) -> Self:
        return self.status(name, namespace, phase="Failed", containerStatuses=_ended(code, reason))

    def evict(
        self, name: str, namespace: str = "a", *, reason: str = "PreemptionByScheduler", by: str = ""
    ) -> Self:
        """The condition and the event that go with a disruption; its end comes separately."""
        key = Key("Pod", namespace, name)
        status = dict(self.store.require(key)["status"])
        status["conditions"] = [
            *status.get("conditions", ()),
            {"type": "DisruptionTarget", "status": "True", "reason": reason},
        ]
        self.store.set_status(key, status)
        if by:
            uid = self.store.require(Key("Pod", namespace, by))["metadata"]["uid"]
            message = f"Preempted by pod {uid} on node n1"
            self.twin.host.log.record(self.twin.now_us, "s", "Pod", namespace, name, "Preempted", message)
        return self

    def status(self, name: str, namespace: str, **status: Any) -> Self:
        self.store.set_status(Key("Pod", namespace, name), status)
        return self

    def delete(self, name: str, namespace: str = "a") -> Self:
        self.store.delete(Key("Pod", namespace, name), grace_s=0)
        return self

    def leave(self, name: str, namespace: str = "a") -> Self:
        """It is deleted, and has its grace to stop."""
        self.store.delete(Key("Pod", namespace, name), grace_s=30)
        return self

    def life(self, name: str, node: str, start: float, end: float, namespace: str = "a", **pod: Any) -> Self:
        """A pod that is created, bound and running at `start` and succeeds at `end`; call in order of time."""
        self.at(start).pod(name, namespace, **pod).bind(name, node, namespace).run(name, namespace)
        return self.at(end).succeed(name, namespace)


def _reference(owner: Obj) -> Obj:
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


def _ended(code: int, reason: str) -> list[Obj]:
    ended = {"exitCode": code, "reason": reason, "startedAt": "2026-01-05T00:00:00Z"}
    return [{"name": "main", "restartCount": 0, "state": {"terminated": ended}}]


def seconds(us: int | None) -> float | None:
    """A time of the outcome as seconds since the run began."""
    return None if us is None else (us - EPOCH_US) / SECOND_US
