"""100,000 pods from creation to their end: created, queued, scheduled, bound, started, run, finished, collected.

Everything a twin does for a pod that runs and succeeds, over 1,000 nodes, in one process. The reference is
the limit we set ourselves; real components run in real time: KWOK creates about 20 pods a second.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

from fairway.bench import BenchRow
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

REQUIRED_PER_S = 5_000
ALLOWED_BYTES = 2**30
# Pods arriving each second of virtual time; they run for RUN_S each, so this many × RUN_S run at once.
ARRIVALS_PER_S = 500
RUN_S = 60
NODES = 1_000


def run(quick: bool) -> Iterator[BenchRow]:
    pods = 10_000 if quick else 100_000
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    twin.apply(_node(i) for i in range(NODES))
    started_s = time.perf_counter()
    spec = _spec()
    for second in range(-(-pods // ARRIVALS_PER_S)):
        first = second * ARRIVALS_PER_S
        twin.apply(_pod(i, spec) for i in range(first, min(first + ARRIVALS_PER_S, pods)))
        twin.run(twin.now_us + SECOND_US)
    twin.run(twin.now_us + (RUN_S + 60) * SECOND_US)
    took_s = time.perf_counter() - started_s
    if sum(1 for p in twin.store.objects("Pod") if p["status"]["phase"] != "Succeeded"):
        raise AssertionError("a pod did not finish")
    per_s = pods / took_s
    yield BenchRow(
        f"lifecycles/{pods}", per_s, "pods/s", per_s / REQUIRED_PER_S, f"{REQUIRED_PER_S} pods/s, our limit"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    yield BenchRow(
        f"lifecycles/{pods}/memory", peak / 2**20, "MiB", ALLOWED_BYTES / peak, "1024 MiB, our limit"
    )


def _node(i: int) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{i:04d}", "labels": {"kubernetes.io/hostname": f"node-{i:04d}"}},
        "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "64"}},
    }


def _spec() -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "pause", "command": ["sleep", str(RUN_S)], "resources": resources}
    return {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 30}


def _pod(i: int, spec: dict[str, Any]) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{i:06d}", "namespace": "default"},
        "spec": spec,
    }
