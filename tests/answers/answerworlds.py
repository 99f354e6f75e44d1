"""Small random clusters, and a few words to build single ones."""

from __future__ import annotations

import random
from typing import Any

from fairway.ground import Moment
from fairway.kube.objects import Obj
from fairway.kube.timestamps import MINUTE_US
from fairway.recorder.recorder import Recorder
from fairway.scenario.entering import create_or_replace
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"


def node(
    name: str, gpus: int = 8, labels: dict[str, str] | None = None, taints: list[Any] | None = None
) -> Obj:
    offers = {"cpu": "64", "memory": "512Gi", "pods": "110"} | ({GPU: str(gpus)} if gpus else {})
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
    spec = {"taints": taints} if taints else {}
    status = {"allocatable": offers, "capacity": offers}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def template(gpus: int, **spec: Any) -> Obj:
    asked = {GPU: str(gpus)} if gpus else {}
    containers = [{"name": "main", "image": "i", "resources": {"requests": asked, "limits": asked}}]
    return {
        "metadata": {"annotations": {"fairway.dev/run-time": "12h"}},
        "spec": {"restartPolicy": "Never", "containers": containers, **spec},
    }


def pod(name: str, gpus: int, namespace: str = "default", **spec: Any) -> Obj:
    made = template(gpus, **spec)
    meta = {"name": name, "namespace": namespace, **made["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]}


def job(
    name: str, gpus: int, workers: int = 1, queue: str = "main", namespace: str = "team", **spec: Any
) -> Obj:
    meta: Obj = {"name": name, "namespace": namespace}
    if queue:
        meta["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    body = {"parallelism": workers, "completions": workers, "template": template(gpus, **spec)}
    if queue:
        body["suspend"] = True
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}


def namespace(name: str, **labels: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def cluster_queue(name: str, quotas: dict[str, int], cohort: str = "", **spec: Any) -> Obj:
    flavors = [{"name": f, "resources": [{"name": GPU, "nominalQuota": str(q)}]} for f, q in quotas.items()]
    body = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}],
        **spec,
    }
    if cohort:
        body["cohortName"] = cohort
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": body}


def local_queue(name: str, queue: str, home: str = "team") -> Obj:
    meta = {"name": name, "namespace": home}
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": queue}}


def flavor(name: str, **labels: str) -> Obj:
    spec = {"nodeLabels": labels} if labels else {}
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def moment_of(*waves: list[Obj], minutes: int = 2, profile: Profile = DEFAULT_PROFILE) -> Moment:
    """A cluster into which each wave came two minutes after the one before."""
    components = [*standard_components((profile,)), Recorder()]
    twin = Twin(seed=1, latency=latency_named("zero"), components=components)
    for wave in waves:
        for obj in wave:
            create_or_replace(twin.host, obj)
        twin.wake()
        twin.run_for(minutes * MINUTE_US)
    return Moment(twin)


def random_moment(seed: int) -> Moment:
    """Nodes of two sorts, some tainted; two queues in a cohort, one of them strict; jobs and pods beyond what fits."""
    draw = random.Random(seed)
    sorts = [{"gpu": "a100"}, {"gpu": "h100"}]
    taint = [{"key": "team", "value": "infra", "effect": "NoSchedule"}]
    nodes = [
        node(f"n{i}", draw.choice((4, 8)), draw.choice(sorts), taint if draw.random() < 0.25 else None)
        for i in range(draw.randint(1, 4))
    ]
    preemption = {
        "withinClusterQueue": draw.choice(("Never", "LowerPriority")),
        "reclaimWithinCohort": draw.choice(("Never", "Any")),
    }
    strategy = draw.choice(("StrictFIFO", "BestEffortFIFO"))
    setup = [
        namespace("team"),
        flavor("gpus"),
        cluster_queue(
            "a", {"gpus": draw.randint(0, 12)}, "c", preemption=preemption, queueingStrategy=strategy
        ),
        cluster_queue("b", {"gpus": draw.randint(0, 12)}, "c"),
        local_queue("main", "a"),
        local_queue("other", "b"),
        *(
            {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": n}, "value": v}
            for n, v in (("low", 10), ("high", 1000))
        ),
    ]
    return moment_of(
        [*nodes, *setup], *([_some_work(draw, f"{wave}{i}") for i in range(4)] for wave in "xyz")
    )


def _some_work(draw: random.Random, name: str) -> Obj:
    spec: dict[str, Any] = {}
    if draw.random() < 0.4:
        spec["nodeSelector"] = {"gpu": draw.choice(("a100", "h100", "b200"))}
    gpus = draw.choice((0, 1, 2, 4, 8, 16))
    if draw.random() < 0.35:
        return pod(f"p-{name}", gpus, "team", **spec)
    queue = draw.choice(("main", "main", "other", "nowhere", ""))
    made = job(f"j-{name}", gpus, draw.choice((1, 2, 3)), queue, **spec)
    if queue and draw.random() < 0.5:
        made["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = draw.choice(("low", "high"))
    return made
