"""How many claims a second are made, given devices and written down?

Pods of one template each ask for one GPU by a claim, on nodes of eight, through a twin with no latency: the claim
controller makes the claim, kube-scheduler's allocator chooses, the allocation and the reservation are written, the pod
is bound. The reference is what we ask of ourselves.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

from fairway.bench import BenchRow
from fairway.kube.objects import Obj
from fairway.twin.controllers import Controllers
from fairway.twin.latency import latency_named
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.twin import Twin
from fairway.workloads import resourceclaims

ASKED_PER_S = 3_000
DRIVER = "gpu.example.com"
_GPUS = 8
_API = "resource.k8s.io/v1"


def run(quick: bool) -> Iterator[BenchRow]:
    for nodes, claims in ((1_000, 2_000),) if quick else ((1_000, 5_000), (5_000, 10_000)):
        per_s = measure(nodes, claims)
        reference = f"{ASKED_PER_S} claims/s, what we ask of ourselves"
        yield BenchRow(f"claims/{nodes}/{claims}", per_s, "claims/s", per_s / ASKED_PER_S, reference)


def measure(nodes: int, claims: int) -> float:
    """Claims allocated a second, from the moment the pods are there: all but the first."""
    controllers = Controllers(
        resourceclaims.CONTROLLERS, resourceclaims.affected, "resource-claim-controller"
    )
    twin = Twin(seed=1, latency=latency_named("zero"), components=[controllers, SchedulerComponent()])
    twin.apply([_class(), _template()])
    twin.apply(made for i in range(nodes) for made in (_node(i), _slice(i)))
    # What a process loads and compiles with its first claim is not a claim's price.
    twin.apply([_pod(0)])
    twin.run()
    twin.apply(_pod(i) for i in range(1, claims))
    gc.collect()
    started_s = time.perf_counter()
    twin.run()
    took_s = time.perf_counter() - started_s
    placed = sum(1 for p in twin.store.objects("Pod") if p["spec"].get("nodeName"))
    if placed != claims:
        raise AssertionError(f"{placed} of {claims} pods were placed")
    return (claims - 1) / took_s


def _node(i: int) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{i:05d}", "labels": {"kubernetes.io/hostname": f"node-{i:05d}"}},
        "status": {"allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110"}},
    }


def _slice(i: int) -> Obj:
    name = f"node-{i:05d}"
    devices = [{"name": f"gpu-{n}", "attributes": {"type": {"string": "gpu"}}} for n in range(_GPUS)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": devices}
    return {"apiVersion": _API, "kind": "ResourceSlice", "metadata": {"name": f"{name}-gpus"}, "spec": spec}


def _class() -> Obj:
    chosen = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
    spec = {"selectors": [{"cel": {"expression": chosen}}]}
    return {"apiVersion": _API, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}


def _template() -> Obj:
    asked = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    meta = {"name": "one", "namespace": "default"}
    return {"apiVersion": _API, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": {"spec": asked}}


def _pod(i: int) -> Obj:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": "gpu"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{i:06d}", "namespace": "default"},
        "spec": {
            "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10", "resources": resources}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        },
    }
