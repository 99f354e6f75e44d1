"""100,000 pods, and 100,000 Jobs, from creation to their end.

Everything a twin does for a pod that runs and succeeds (created, queued, scheduled, bound, started, run, finished,
collected), and for a Job around it (admitted, its pod created, counted, Complete), over 1,000 nodes, in one
process each. The references are the limits we set ourselves; real components run in real time: KWOK creates
about 20 pods a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from fairway.bench import BenchRow
from fairway.bench.ownprocess import measured_in_own_process
from fairway.compiled import loading
from fairway.kube.collectorpause import collector_resting
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

PODS_PER_S, PODS_MIB = 5_000, 1024
JOBS_PER_S, JOBS_MIB = 3_000, 1536
# Arrivals each second of virtual time; they run for RUN_S each, so this many × RUN_S run at once.
ARRIVALS_PER_S = 500
RUN_S = 60
NODES = 1_000

Make = Callable[[int], Obj]


def run(quick: bool) -> Iterator[BenchRow]:
    size = 10_000 if quick else 100_000
    yield BenchRow("lifecycles/code", float(loading.is_active()), "compiled", 0.0, loading.state())
    yield from _rows("pods", run_pods, size, PODS_PER_S, PODS_MIB)
    yield from _rows("jobs", run_jobs, size, JOBS_PER_S, JOBS_MIB)


def _rows(
    what: str, measure: Callable[[int], float], size: int, per_s: int, allowed_mib: int
) -> Iterator[BenchRow]:
    took_s, peak_bytes = measured_in_own_process(measure, size)
    ours_per_s, ours_mib = size / took_s, peak_bytes / 2**20
    name, unit = f"lifecycles/{what}/{size}", f"{what}/s"
    yield BenchRow(name, ours_per_s, unit, ours_per_s / per_s, f"{per_s} {unit}, our limit")
    yield BenchRow(f"{name}/memory", ours_mib, "MiB", allowed_mib / ours_mib, f"{allowed_mib} MiB, our limit")


def run_pods(count: int) -> float:
    """Seconds that so many pods took."""
    spec = _spec()
    twin, took_s = _run(count, lambda i: _pod(i, spec))
    if sum(1 for p in twin.store.objects("Pod") if p["status"]["phase"] != "Succeeded"):
        raise AssertionError("a pod did not finish")
    return took_s


def run_jobs(count: int) -> float:
    """Seconds that so many Jobs of one pod took."""
    template = {"spec": _spec()}
    twin, took_s = _run(count, lambda i: _job(i, template))
    if sum(1 for j in twin.store.objects("Job.batch") if j["status"].get("succeeded") == 1) != count:
        raise AssertionError("a Job did not complete")
    return took_s


def _run(count: int, make: Make) -> tuple[Twin, float]:
    """Create so many objects, a second's worth at a time, and run until all are long over."""
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    twin.apply(_node(i) for i in range(NODES))
    started_s = time.perf_counter()
    # As `fairway simulate` runs.
    with collector_resting():
        for first in range(0, count, ARRIVALS_PER_S):
            twin.apply(make(i) for i in range(first, min(first + ARRIVALS_PER_S, count)))
            twin.run(twin.now_us + SECOND_US)
        twin.run(twin.now_us + (RUN_S + 60) * SECOND_US)
        return twin, time.perf_counter() - started_s


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


def _job(i: int, template: dict[str, Any]) -> Obj:
    return apply_defaults(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"job-{i:06d}", "namespace": "default"},
            "spec": {"template": template},
        }
    )
