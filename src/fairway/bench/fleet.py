"""A month of an elastic fleet: 100,000 jobs on up to 500 nodes of eight GPUs that come and go, and its ledger.

Jobs arrive by day more than by night, ask for one to eight GPUs and run for hours; Karpenter opens nodes for those that
wait and takes empty ones away after ten minutes. Measured is everything: controllers, scheduling, provisioning,
kubelets, the recorder's tables, and every micro-dollar of the bill. The reference is the limit we set ourselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from random import Random
from typing import Any

from fairway.bench import BenchRow
from fairway.bench.ownprocess import measured_in_own_process
from fairway.catalog.catalog import load_catalog
from fairway.kube.collectorpause import collector_resting
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Obj
from fairway.kube.timestamps import HOUR_US, MINUTE_US
from fairway.provisioning.karpenter.instancetypes import types_of_catalog
from fairway.recorder.recorder import Recorder
from fairway.results.billing import metered
from fairway.twin.latency import latency_named
from fairway.twin.provisioner.cloud import Cloud
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.standard import standard_components
from fairway.twin.streams import seed_of
from fairway.twin.twin import Twin

NODES, JOBS, DAYS = 500, 100_000, 30
LIMIT_S = 60.0
TYPE, ZONE = "p4d.24xlarge", "us-east-1a"
# GPUs a job asks for, and how often; 2.9 on average.
GPUS, WEIGHTS = (1, 2, 4, 8), (45, 25, 15, 15)
# Of these hours 100,000 jobs keep three fifths of 4,000 GPUs busy for a month.
MEAN_HOURS, SIGMA = 5.8, 1.0
# Of the mean, by night; by day as much above it.
_NIGHT = 0.4
_STEP_US = 5 * MINUTE_US


def run(quick: bool) -> Iterator[BenchRow]:
    """`quick`: a tenth of the time, with a tenth of the jobs."""
    part = 10 if quick else 1
    jobs, days = JOBS // part, DAYS // part
    took_s, peak_bytes = measured_in_own_process(run_fleet, jobs)
    limit_s = LIMIT_S / part
    name = f"fleet/{days}d/{jobs}"
    yield BenchRow(name, took_s, "s", limit_s / took_s, f"{limit_s:g} s, our limit")
    yield BenchRow(f"{name}/memory", peak_bytes / 2**20, "MiB", 0.0, "")


def run_fleet(jobs: int) -> float:
    """Seconds that so many jobs took at the rate of a month's 100,000, ledger included."""
    began_s = time.perf_counter()
    with collector_resting():
        twin = a_fleet()
        play(twin, arrivals(jobs, DAYS * jobs / JOBS))
        recorder = twin.component("recorder")
        assert isinstance(recorder, Recorder)
        outcome = recorder.outcome("complete")
        ledger = metered(outcome, load_catalog()).ledger
    took_s = time.perf_counter() - began_s
    if sum(1 for j in twin.store.objects("Job.batch") if j["status"].get("succeeded") == 1) != jobs:
        raise AssertionError("a Job did not complete")
    if int(ledger.debits.sum()) != ledger.total or ledger.total == 0:
        raise AssertionError("the ledger's debits are not what the nodes cost")
    if twin.store.objects("Node"):
        raise AssertionError("a node outlived its work")
    return took_s


def a_fleet() -> Twin:
    types = types_of_catalog(load_catalog(), provider="aws", regions=["us-east-1"])
    cloud = Cloud(tuple(t for t in types if t.name == TYPE))
    components = [*standard_components(), Provisioner(cloud), Recorder()]
    twin = Twin(seed=1, latency=latency_named("zero"), components=components)
    twin.apply([_pool()])
    return twin


def play(twin: Twin, coming: list[tuple[int, Obj]]) -> None:
    """Submit each job at its time, to five minutes; run until the fleet is gone."""
    start_us, at = twin.now_us, 0
    while at < len(coming):
        until_us = coming[at][0] // _STEP_US * _STEP_US + _STEP_US
        first = at
        while at < len(coming) and coming[at][0] < until_us:
            at += 1
        twin.run(start_us + until_us)
        twin.apply(obj for _, obj in coming[first:at])
    while twin.loop.next_time() is not None and twin.store.objects("Node"):
        twin.run_for(HOUR_US)


def arrivals(jobs: int, days: float) -> list[tuple[int, Obj]]:
    """(time, Job), by time."""
    random = Random(seed_of(1, "bench.fleet"))
    templates = {gpus: _template(gpus) for gpus in GPUS}
    times = sorted(_moment(random, days) for _ in range(jobs))
    chosen = random.choices(GPUS, WEIGHTS, k=jobs)
    median_h = MEAN_HOURS / math.exp(SIGMA**2 / 2)
    return [
        (at_us, _job(i, templates[gpus], round(3600 * median_h * random.lognormvariate(0, SIGMA))))
        for i, (at_us, gpus) in enumerate(zip(times, chosen, strict=True))
    ]


def _moment(random: Random, days: float) -> int:
    """By day more than by night: thinned from an even flow."""
    while True:
        at = random.random() * days
        if random.random() * (2 - _NIGHT) < 1 - (1 - _NIGHT) * math.cos(2 * math.pi * at):
            return round(at * 24 * HOUR_US)


def _pool() -> Obj:
    needs = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [ZONE]},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {
            "template": {"spec": {"requirements": needs, "nodeClassRef": reference, "expireAfter": "Never"}},
            "limits": {"nodes": str(NODES)},
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": "10m",
                "budgets": [{"nodes": "100%"}],
            },
        },
    }


def _spec(gpus: int) -> dict[str, Any]:
    requests = {"cpu": str(10 * gpus), "memory": f"{100 * gpus}Gi"}
    resources = {"requests": requests, "limits": {"nvidia.com/gpu": str(gpus)}}
    container = {"name": "main", "image": "train", "resources": resources}
    return {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 30}


def _template(gpus: int) -> Obj:
    """A Job that asks for so many GPUs, as the API server defaults it."""
    spec = {"template": {"metadata": {}, "spec": _spec(gpus)}}
    return apply_defaults({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": spec})


def _job(i: int, template: Obj, run_s: int) -> Obj:
    spec = template["spec"]
    annotations = {"fairway.dev/run-time": f"{max(run_s, 1)}s"}
    pod = {**spec["template"], "metadata": {"annotations": annotations}}
    meta = {"name": f"job-{i:06d}", "namespace": "default"}
    return {**template, "metadata": meta, "spec": {**spec, "template": pod}}
