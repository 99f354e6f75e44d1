"""A million Jobs of 200 queues on 8,000 GPUs in a month: the whole path, end to end.

Every Job is suspended by its queue, given a Workload, admitted within a cohort's quota, started, its pods
scheduled on one of 1,000 nodes and run, counted, Complete, and removed with its Workload a minute later
(`ttlSecondsAfterFinished`), so that what a month leaves behind is what was recorded, not objects. Smaller runs
are shorter cuts of the same month, at the same rate of arrivals: what costs more per Job in a longer run would show.

The limits are ours: ten minutes, four gibibytes. Latencies are zero, as the figures are about the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from fairway.bench import BenchRow
from fairway.bench.apart import run_apart
from fairway.compiled import loading
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Obj
from fairway.kube.timestamps import DAY_US, SECOND_US
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.twin.components import Host
from fairway.twin.latency import latency_named
from fairway.twin.loop import INPUT
from fairway.twin.recorder.recorder import Recorder
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

MILLION = 1_000_000
MONTH_US = 30 * DAY_US
LIMIT_S, LIMIT_MIB = 600, 4096
SIZES = (20_000, 100_000, MILLION)

NODES, GPUS = 1_000, 8
COHORTS, QUEUES = 20, 10
QUOTA = NODES * GPUS // (COHORTS * QUEUES)
NAMESPACE = "default"
# GPUs of a Job's pods, pods, and how many Jobs of a hundred are of that kind: 2.9 GPUs each on average.
KINDS = ((1, 1, 60), (2, 1, 15), (4, 1, 12), (8, 1, 10), (8, 2, 3))
# Of all GPUs for this share of the time; what comes in bursts waits.
LOAD = 0.85
_GPUS_EACH = sum(gpus * pods * share for gpus, pods, share in KINDS) / 100
MEAN_RUN_S = LOAD * NODES * GPUS * MONTH_US / SECOND_US / MILLION / _GPUS_EACH
# Running times there are: templates are shared by all Jobs of a kind and a running time, as users share theirs.
_RUNS_S = tuple(round(MEAN_RUN_S * factor) for factor in (0.05, 0.2, 0.5, 1, 1.5, 2.75))
_TTL_S = 60
# Jobs created at once: users submit in sweeps.
_SWEEP = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run showed: wall seconds, and what is left of its Jobs."""

    took_s: float
    finished: int
    left: int


def run(quick: bool, setup: str = "") -> Iterator[BenchRow]:
    """`setup`: one size; the whole month only runs when asked for, it takes long."""
    yield BenchRow("million/code", float(loading.is_active()), "compiled", 0.0, loading.state())
    for size in (int(setup),) if setup else SIZES[:1] if quick else SIZES[:2]:
        outcome, peak_bytes = run_apart(run_jobs, size)
        base = f"million/{size}"
        allowed_s = LIMIT_S * size / MILLION
        reference = f"{LIMIT_S} s for a million, our limit"
        yield BenchRow(base, outcome.took_s, "s", allowed_s / outcome.took_s, reference)
        per_s = size / outcome.took_s
        yield BenchRow(f"{base}/rate", per_s, "jobs/s", per_s * LIMIT_S / MILLION, reference)
        mib = peak_bytes / 2**20
        yield BenchRow(f"{base}/memory", mib, "MiB", LIMIT_MIB / mib, f"{LIMIT_MIB} MiB, our limit")


def run_jobs(count: int) -> Outcome:
    """Run the first `count` Jobs of the month until all are gone."""
    started_s = time.perf_counter()
    arrivals = Arrivals(count)
    components = [arrivals, *standard_components(), Recorder()]
    twin = Twin(seed=1, latency=latency_named("zero"), components=components)
    twin.apply(objects())
    twin.run(twin.now_us + MONTH_US * count // MILLION + 2 * DAY_US)
    left = twin.store.count("Job.batch") + twin.store.count(WORKLOAD) + twin.store.count("Pod")
    if arrivals.gone != count or left:
        raise AssertionError(f"{arrivals.gone} of {count} Jobs came and went; {left} objects are left")
    return Outcome(time.perf_counter() - started_s, arrivals.gone, left)


class Arrivals:
    """Creates Jobs, a few at a time; sees them go. Not forked: a benchmark runs once."""

    name = "arrivals"
    kinds = ("Job.batch",)

    def __init__(self, count: int) -> None:
        self.count = count
        self.created = 0
        self.gone = 0
        self._chance = Random(1)
        self._kinds = [(gpus, pods) for gpus, pods, share in KINDS for _ in range(share)]
        self._specs: dict[tuple[int, int, int], dict[str, Any]] = {}

    def attach(self, host: Host) -> None:
        self.host = host
        self._arrive = host.loop.register("arrivals.arrive", self._on_arrive)

    def start(self) -> None:
        self._plan()

    def fork(self) -> Arrivals:
        raise NotImplementedError("a benchmark runs once")

    def observe(self, change: Any) -> None:
        if change.type == "DELETED":
            self.gone += 1

    def _plan(self) -> None:
        mean_us = MONTH_US * _SWEEP / MILLION
        after_us = round(self._chance.expovariate(1 / mean_us))
        self.host.loop.at(self.host.loop.now_us + after_us, self._arrive, None, INPUT)

    def _on_arrive(self, _data: None) -> None:
        queue = self._chance.randrange(COHORTS * QUEUES)
        gpus, pods = self._chance.choice(self._kinds)
        run_s = self._chance.choice(_RUNS_S)
        for _ in range(min(_SWEEP, self.count - self.created)):
            self.host.store.create(self._job(queue, gpus, pods, run_s))
            self.created += 1
        if self.created < self.count:
            self._plan()

    def _job(self, queue: int, gpus: int, pods: int, run_s: int) -> Obj:
        form = (gpus, pods, run_s)
        spec = self._specs.get(form)
        if spec is None:
            spec = self._specs[form] = _job_spec(gpus, pods, run_s)
        meta = {
            "name": f"job-{self.created:07d}",
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/queue-name": f"queue-{queue:03d}"},
        }
        return apply_defaults({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})


def _job_spec(gpus: int, pods: int, run_s: int) -> dict[str, Any]:
    """Suspended from the start, as Kueue's webhook leaves it."""
    asked = {
        "requests": {"cpu": str(gpus), "memory": f"{8 * gpus}Gi"},
        "limits": {"nvidia.com/gpu": str(gpus)},
    }
    container = {"name": "main", "image": "train", "command": ["sleep", str(run_s)], "resources": asked}
    return {
        "suspend": True,
        "parallelism": pods,
        "completions": pods,
        "ttlSecondsAfterFinished": _TTL_S,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }


def objects() -> list[Obj]:
    """Nodes, a flavor, and the queues: cohorts of ten, within which idle quota is lent."""
    api = "kueue.x-k8s.io/v1beta2"
    found = [_node(i) for i in range(NODES)]
    found.append({"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "h100"}, "spec": {}})
    for number in range(COHORTS * QUEUES):
        name = f"queue-{number:03d}"
        found.append(
            {
                "apiVersion": api,
                "kind": "ClusterQueue",
                "metadata": {"name": name},
                "spec": {
                    "cohortName": f"cohort-{number // QUEUES:02d}",
                    "namespaceSelector": {},
                    "queueingStrategy": "BestEffortFIFO",
                    "stopPolicy": "None",
                    "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
                    "resourceGroups": [_quota()],
                },
            }
        )
        found.append(
            {
                "apiVersion": api,
                "kind": "LocalQueue",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"clusterQueue": name},
            }
        )
    return found


def _quota() -> dict[str, Any]:
    nominal = {"cpu": str(8 * QUOTA), "memory": f"{64 * QUOTA}Gi", "nvidia.com/gpu": str(QUOTA)}
    resources = [{"name": name, "nominalQuota": value} for name, value in nominal.items()]
    return {"coveredResources": list(nominal), "flavors": [{"name": "h100", "resources": resources}]}


def _node(number: int) -> Obj:
    name = f"node-{number:04d}"
    allocatable = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": allocatable},
    }
