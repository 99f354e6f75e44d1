"""How many pods a second does the default profile place?

The cases are kube-scheduler's own (test/integration/scheduler_perf: its node and pod templates, its cluster
sizes), run through a twin with no latency but no API server either: queue, filters, scores, binding, condition
and event. The references are the thresholds kube-scheduler's own runs must reach.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fairway.bench import BenchRow
from fairway.kube.objects import Obj
from fairway.twin.latency import latency_named
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.twin import Twin

# Pods a second. Source: scheduler_perf thresholds, SchedulingBasic and the case with extended resources, both at
# 5,000 nodes (v1.36). Ours is to be three times as fast.
BASIC_PER_S = 810
EXTENDED_PER_S = 180

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
_ZONES = 3


@dataclass(frozen=True, slots=True)
class Case:
    """So many pods onto so many nodes, `reference_per_s` 0: nobody publishes one.

    `cpus` a node are 4 in kube-scheduler's own cases; more where the pods would not fit.
    """

    name: str
    nodes: int
    pods: int
    reference_per_s: int = 0
    cpus: int = 4
    devices: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)


def _same(labels: dict[str, str]) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": labels}}


_BLUE = {"color": "blue"}
_SPREAD = {
    "topologySpreadConstraints": [
        {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **_same(_BLUE)}
    ]
}
_APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOSTNAME, **_same(_BLUE)}]
        }
    }
}
_NEAR = {
    "affinity": {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"topologyKey": ZONE, **_same(_BLUE)}}
            ]
        }
    }
}

CASES = (
    Case("basic", 1_000, 10_000, BASIC_PER_S),
    Case("basic", 1_000, 50_000, BASIC_PER_S, cpus=8),
    Case("basic", 5_000, 10_000, BASIC_PER_S),
    Case("basic", 5_000, 50_000, BASIC_PER_S),
    Case("extended", 5_000, 10_000, EXTENDED_PER_S, devices=True),
    Case("spread", 5_000, 5_000, labels=_BLUE, spec=_SPREAD),
    Case("anti-affinity", 5_000, 2_000, labels=_BLUE, spec=_APART),
    Case("preferred-affinity", 5_000, 5_000, labels=_BLUE, spec=_NEAR),
)
QUICK_CASES = (
    Case("basic", 1_000, 5_000, BASIC_PER_S),
    Case("extended", 1_000, 5_000, EXTENDED_PER_S, devices=True),
)


def run(quick: bool) -> Iterator[BenchRow]:
    for case in QUICK_CASES if quick else CASES:
        per_s = measure(case)
        reference = (
            f"{case.reference_per_s} pods/s, kube-scheduler's own threshold" if case.reference_per_s else ""
        )
        ratio = per_s / case.reference_per_s if case.reference_per_s else 0.0
        yield BenchRow(f"scheduling/{case.name}/{case.nodes}/{case.pods}", per_s, "pods/s", ratio, reference)


def measure(case: Case) -> float:
    """Pods placed a second, from the moment the scheduler sees them all."""
    twin = Twin(seed=1, latency=latency_named("zero"), components=[SchedulerComponent()])
    twin.apply(_node(i, case) for i in range(case.nodes))
    twin.run(until_us=twin.now_us + 1)
    spec = _spec(case)
    twin.apply(_pod(i, case.labels, spec) for i in range(case.pods))
    gc.collect()
    started_s = time.perf_counter()
    twin.run()
    took_s = time.perf_counter() - started_s
    placed = sum(1 for p in twin.store.objects("Pod") if p["spec"].get("nodeName"))
    if placed != case.pods:
        raise AssertionError(f"{case.name}: {placed} of {case.pods} pods were placed")
    return placed / took_s


def _node(i: int, case: Case) -> Obj:
    name = f"scheduler-perf-{i:05d}"
    allocatable = {"cpu": str(case.cpus), "memory": "32Gi", "pods": "110"}
    if case.devices:
        allocatable["nvidia.com/gpu"] = "8"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: f"zone{i % _ZONES}"}},
        "status": {"allocatable": allocatable},
    }


def _spec(case: Case) -> dict[str, Any]:
    resources: dict[str, Any] = {"requests": {"cpu": "100m", "memory": "500Mi"}}
    if case.devices:
        resources["limits"] = {"nvidia.com/gpu": "1"}
    container = {"name": "pause", "image": "registry.k8s.io/pause:3.10", "resources": resources}
    return {"containers": [container], **case.spec}


def _pod(i: int, labels: dict[str, str], spec: dict[str, Any]) -> Obj:
    metadata = {"name": f"pod-{i:06d}", "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
