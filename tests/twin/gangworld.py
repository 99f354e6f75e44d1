"""Gangs of every kind in a twin: `cluster("volcano")`, `gang("volcano", "g", 4, gpu=2)`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from fairway.scheduling.coscheduling import CoschedulingArgs
from fairway.scheduling.profile import DEFAULT_PROFILE
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

Obj = dict[str, Any]
KINDS = ("volcano", "Coscheduling", "GangScheduling")


def cluster(
    kind: str, nodes: int, gpu: int = 8, *, seed: int = 0, args: CoschedulingArgs | None = None
) -> Twin:
    permits = frozenset({kind}) if kind in KINDS[1:] else frozenset()
    profile = replace(DEFAULT_PROFILE, permits=permits, coscheduling=args or CoschedulingArgs())
    found = Twin(seed=seed, latency=latency_named("zero"), components=standard_components((profile,)))
    found.apply([node(f"n{i}", gpu) for i in range(nodes)])
    return found


def node(name: str, gpu: int) -> Obj:
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpu)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": allocatable},
    }


def gang(kind: str, name: str, pods: int, *, gpu: int = 1, least: int = 0, runs: str = "10m") -> list[Obj]:
    """The PodGroup and its pods."""
    return [
        *group(kind, name, least or pods),
        *(member(kind, name, i, gpu=gpu, runs=runs) for i in range(pods)),
    ]


def group(kind: str, name: str, least: int) -> list[Obj]:
    meta = {"name": name, "namespace": "default"}
    if kind == "volcano":
        version, spec = "scheduling.volcano.sh/v1beta1", {"minMember": least, "queue": "default"}
    elif kind == "Coscheduling":
        version, spec = "scheduling.x-k8s.io/v1alpha1", {"minMember": least}
    elif kind == "GangScheduling":
        version, spec = "scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": least}}}
    else:
        return []
    return [{"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec}]


def member(kind: str, name: str, index: int, *, gpu: int, runs: str = "10m") -> Obj:
    resources = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": str(gpu)}}
    meta: Obj = {
        "name": f"{name}-{index}",
        "namespace": "default",
        "annotations": {"fairway.dev/run-time": runs},
        "labels": {"gang": name},
    }
    spec: Obj = {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "app", "resources": resources}],
    }
    pod: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    if kind == "volcano":
        pod["spec"]["schedulerName"] = "volcano"
        meta["annotations"]["scheduling.k8s.io/group-name"] = name
    elif kind == "Coscheduling":
        meta["labels"]["scheduling.x-k8s.io/pod-group"] = name
    elif kind == "GangScheduling":
        pod["spec"]["schedulingGroup"] = {"podGroupName": name}
    return pod


def placed(twin: Twin) -> Counter[str]:
    """By gang: how many of its pods have a node, or had one."""
    return Counter(
        p["metadata"]["labels"]["gang"] for p in twin.store.objects("Pod") if p["spec"].get("nodeName")
    )


def words(twin: Twin, pod: str) -> str:
    for found in twin.store.objects("Pod"):
        if found["metadata"]["name"] == pod:
            for condition in (found.get("status") or {}).get("conditions") or ():
                if condition["type"] == "PodScheduled":
                    return str(condition.get("message", ""))
    return ""
