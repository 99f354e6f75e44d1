"""A control plane that was stopped and started goes on as if it had not been: what it knows is what is stored."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, name_of, spec_of, status_of
from fairway.kube.timestamps import SECOND_US
from fairway.scenario.entering import create_or_replace
from fairway.twin.latency import NONE
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
Act = tuple[float, Callable[["World"], None]]


class World:
    def __init__(self, store: Store | None = None) -> None:
        before: dict[str, Any] = {} if store is None else {"store": store, "start_us": store.now_us}
        self.twin = Twin(seed=0, latency=NONE, components=standard_components(), **before)

    def apply(self, *objects: Obj) -> None:
        for obj in objects:
            create_or_replace(self.twin.host, obj)
        self.twin.wake()

    def patch(self, key: Key, patch: Obj) -> None:
        self.twin.store.patch(key, patch)
        self.twin.wake()


def played(start: list[Obj], acts: list[Act], cut_s: float, until_s: float) -> tuple[World, World]:
    """The same history, once in one go and once with a restart at `cut_s`."""
    one = World()
    one.apply(*start)
    worlds, now_s = [one], 0.0
    for at_s, act in sorted([*acts, (cut_s, None), (until_s, None)], key=lambda a: (a[0], a[1] is None)):
        for world in worlds:
            world.twin.run_for(round((at_s - now_s) * SECOND_US))
        now_s = at_s
        for world in worlds if act is not None else ():
            act(world)
        if at_s == cut_s and act is None:
            worlds.append(World(one.twin.store.fork()))
    return worlds[0], worlds[1]


def node(name: str, gpus: int = 0) -> Obj:
    offers = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    status = {"allocatable": offers, "capacity": offers}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status}


def template(labels: dict[str, str], runs: str = "forever", **spec: Any) -> Obj:
    said = {"fairway.dev/run-time": runs, "fairway.dev/stop-time": "1"}
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]
    body = {"containers": containers, "terminationGracePeriodSeconds": 5, **spec}
    return {"metadata": {"labels": labels, "annotations": said}, "spec": body}


def controlled(draw: random.Random, kind: str, name: str) -> Obj:
    labels, api = {"app": name}, "apps/v1"
    spec: Obj = {"selector": {"matchLabels": labels}, "template": template(labels)}
    runs = draw.choice(["7", "20", "90"])
    if kind in ("Deployment", "ReplicaSet", "StatefulSet"):
        spec["replicas"] = draw.randint(1, 4)
    if kind == "StatefulSet":
        spec |= {"serviceName": "s", "podManagementPolicy": draw.choice(["OrderedReady", "Parallel"])}
    elif kind == "Job":
        api, counts = "batch/v1", {"parallelism": draw.randint(1, 3), "completions": draw.randint(2, 6)}
        mode = draw.choice(["NonIndexed", "Indexed"])
        made = template(labels, runs, restartPolicy="Never")
        made["metadata"]["annotations"]["fairway.dev/exit-code"] = draw.choice(["0", "0", "1,0", "1"])
        spec = {**counts, "backoffLimit": draw.randint(0, 3), "completionMode": mode, "template": made}
    elif kind == "CronJob":
        api, policy = "batch/v1", draw.choice(["Allow", "Forbid", "Replace"])
        job = {"spec": {"template": template(labels, runs, restartPolicy="Never")}}
        spec = {"schedule": "* * * * *", "concurrencyPolicy": policy, "jobTemplate": job}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def history(draw: random.Random) -> list[Act]:
    """Controllers of all kinds, some of them scaled or given another image later."""
    acts: list[Act] = []
    for number in range(draw.randint(2, 5)):
        kind = draw.choice(["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicaSet"])
        obj = controlled(draw, kind, f"{kind.lower()}{number}")
        acts.append((draw.choice([1.0, 3.0, 9.0]), lambda w, obj=obj: w.apply(obj)))
        if kind in ("Deployment", "StatefulSet") and draw.random() < 0.6:
            key = Key(f"{kind}.apps", "default", name_of(obj))
            other = {"template": template({"app": name_of(obj)}, runtimeClassName=None)}
            other["template"]["spec"]["containers"][0]["image"] = "other"
            patch = {"spec": draw.choice([{"replicas": draw.randint(0, 4)}, other])}
            acts.append((draw.choice([12.0, 25.0, 40.0]), lambda w, k=key, p=patch: w.patch(k, p)))
    return acts


def outcome(world: World) -> dict[str, Any]:
    """Statuses by name; of pods, which are named at random, how many there are of each kind."""
    found: dict[str, Any] = {}
    for gk in ("Deployment.apps", "StatefulSet.apps", "DaemonSet.apps", "ReplicaSet.apps", "Job.batch"):
        found |= {f"{gk}/{name_of(o)}": status_of(o) for o in world.twin.store.objects(gk)}
    for obj in world.twin.store.objects("CronJob.batch"):
        status = status_of(obj)
        found[name_of(obj)] = (status.get("lastScheduleTime"), len(status.get("active") or ()))
    pods: Counter[tuple[str, ...]] = Counter()
    for pod in world.twin.store.objects("Pod"):
        owner = (pod["metadata"].get("ownerReferences") or [{}])[0].get("name", "")
        state = (status_of(pod).get("containerStatuses") or [{}])[0].get("state")
        pods[owner, str(status_of(pod).get("phase")), str(state)] += 1
    return {**found, "pods": pods}


@pytest.mark.parametrize("seed", range(10))
def test_controllers_go_on(seed: int) -> None:
    draw = random.Random(seed)
    acts = history(draw)
    cut_s = draw.choice([2.5, 4.5, 10.5, 13.5, 27.5, 41.5, 63.5])
    one, other = played([node(f"n{i}") for i in range(3)], acts, cut_s, 200.5)
    assert outcome(other) == outcome(one)


def queued(draw: random.Random) -> tuple[list[Obj], list[Act]]:
    cohort = draw.choice([{}, {"cohortName": "all"}])
    flavor = {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "default"}, "spec": {}}
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    start = [node("n1", 8), node("n2", 8), flavor, {**high, "value": 100}]
    names = ("a", "b")[: draw.randint(1, 2)]
    for name in names:
        quota = {"name": GPU, "nominalQuota": str(draw.choice([2, 4, 8]))}
        groups = [{"coveredResources": [GPU], "flavors": [{"name": "default", "resources": [quota]}]}]
        spec: Obj = {"namespaceSelector": {}, "resourceGroups": groups, **cohort}
        spec["queueingStrategy"] = draw.choice(["BestEffortFIFO", "StrictFIFO"])
        if draw.random() < 0.5:
            reclaim = draw.choice(["Never", "Any"])
            spec["preemption"] = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": reclaim}
        start.append({"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec})
        local = {"name": "lq", "namespace": name}
        start.append(
            {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": name}}
        )
    acts: list[Act] = []
    for number in range(draw.randint(3, 9)):
        made = template({}, draw.choice(["10", "25", "60"]), restartPolicy="Never")
        asks = {GPU: str(draw.choice([1, 2, 4]))}
        made["spec"]["containers"][0]["resources"] = {"requests": asks, "limits": asks}
        if draw.random() < 0.3:
            made["spec"]["priorityClassName"] = "high"
        pods = draw.choice([1, 1, 2])
        labels = {"kueue.x-k8s.io/queue-name": "lq"}
        meta = {"name": f"j{number}", "namespace": draw.choice(names), "labels": labels}
        body = {"suspend": True, "parallelism": pods, "completions": pods, "template": made}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}
        acts.append((draw.choice([1.0, 2.0, 5.0, 11.0, 20.0, 33.0]), lambda w, job=job: w.apply(job)))
    return start, acts


def times(world: World) -> dict[str, tuple[Any, ...]]:
    found = {}
    for job in world.twin.store.objects("Job.batch"):
        status = status_of(job)
        found[name_of(job)] = (
            status.get("startTime"),
            status.get("completionTime"),
            spec_of(job).get("suspend"),
        )
    return found


@pytest.mark.parametrize("seed", range(12))
def test_queues_go_on(seed: int) -> None:
    draw = random.Random(seed)
    start, acts = queued(draw)
    one, other = played(start, acts, draw.choice([2.5, 7.5, 12.5, 22.5, 34.5, 50.5]), 400.0)
    assert times(other) == times(one)
    assert any(completed for _, completed, _ in times(one).values())
