"""A million Workloads of 200 queues on 8,000 GPUs in a month, by themselves and as Jobs.

By themselves, as in Kueue's own performance test: admitted within a cohort's quota, Finished once their time is over,
and removed a minute later. As Jobs, the whole path: every Job is suspended by its queue, given a Workload, admitted,
started, its pods scheduled on one of 1,000 nodes and run, counted, Complete, and removed with its Workload a minute
later (`ttlSecondsAfterFinished`). What a month leaves behind is what was recorded, not objects. Smaller runs are
shorter cuts of the same month, at the same rate of arrivals: what costs more in a longer run would show.

The limits are ours: ten minutes, four gibibytes. Latencies are zero, as the figures are about the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from fairway.bench import BenchRow
from fairway.bench.ownprocess import run_in_own_process
from fairway.cluster.changes import Change
from fairway.compiled import loading
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Key, Obj, status_of
from fairway.kube.timestamps import DAY_US, SECOND_US
from fairway.queueing.control.settings import KueueSettings
from fairway.queueing.facts.conditions import ADMITTED, is_true
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.queueing.outcomes import statuses
from fairway.recorder.recorder import Recorder
from fairway.twin.components import Component, Host
from fairway.twin.kueue.component import Kueue
from fairway.twin.latency import latency_named
from fairway.twin.loop import INPUT
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

MILLION = 1_000_000
MONTH_US = 30 * DAY_US
LIMIT_S, LIMIT_MIB = 600, 4096
# How many of which, by the names they are asked for.
SETUPS: dict[str, tuple[str, int]] = {
    "workloads-20000": ("workloads", 20_000),
    "workloads-100000": ("workloads", 100_000),
    "workloads-1000000": ("workloads", MILLION),
    "jobs-20000": ("jobs", 20_000),
    "jobs-100000": ("jobs", 100_000),
    "jobs-1000000": ("jobs", MILLION),
}
_QUICK = ("workloads-20000", "jobs-20000")

NODES, GPUS = 1_000, 8
COHORTS, QUEUES = 20, 10
QUOTA = NODES * GPUS // (COHORTS * QUEUES)
NAMESPACE = "default"
_API = "kueue.x-k8s.io/v1beta2"
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
    """What one run showed: wall seconds, and what came and went."""

    took_s: float
    finished: int


def run(quick: bool, setup: str = "") -> Iterator[BenchRow]:
    """`setup`: one of `SETUPS`; a whole month only runs when asked for, it takes long."""
    yield BenchRow("million/code", float(loading.is_active()), "compiled", 0.0, loading.state())
    for name in (setup,) if setup else _QUICK if quick else (*_QUICK, "workloads-100000"):
        what, size = SETUPS[name]
        outcome, peak_bytes = run_in_own_process(run_workloads if what == "workloads" else run_jobs, size)
        base = f"million/{what}/{size}"
        allowed_s = LIMIT_S * size / MILLION
        reference = f"{LIMIT_S} s for a million, our limit"
        yield BenchRow(base, outcome.took_s, "s", allowed_s / outcome.took_s, reference)
        per_s = size / outcome.took_s
        yield BenchRow(f"{base}/rate", per_s, f"{what}/s", per_s * LIMIT_S / MILLION, reference)
        mib = peak_bytes / 2**20
        yield BenchRow(f"{base}/memory", mib, "MiB", LIMIT_MIB / mib, f"{LIMIT_MIB} MiB, our limit")


def run_jobs(count: int) -> Outcome:
    """Run the first `count` Jobs of the month until all are gone."""
    return _run(Jobs(count), [*standard_components(), Recorder()])


def run_workloads(count: int) -> Outcome:
    """Run the first `count` Workloads of the month, without jobs, until all are gone."""
    return _run(Workloads(count), [Kueue(KueueSettings(pods_ready=None)), Recorder()])


def _run(arrivals: Submissions, others: list[Component]) -> Outcome:
    count = arrivals.count
    started_s = time.perf_counter()
    twin = Twin(seed=1, latency=latency_named("zero"), components=[arrivals, *others])
    twin.apply(objects())
    twin.run(twin.now_us + MONTH_US * count // MILLION + 2 * DAY_US)
    left = sum(twin.store.count(kind) for kind in ("Job.batch", WORKLOAD, "Pod"))
    if arrivals.gone != count or left:
        raise AssertionError(f"{arrivals.gone} of {count} came and went; {left} objects are left")
    return Outcome(time.perf_counter() - started_s, arrivals.gone)


class Submissions:
    """Creates objects of a kind, a few at a time; sees them go. Not forked: a benchmark runs once."""

    name = "arrivals"
    kinds: tuple[str, ...]

    def __init__(self, count: int) -> None:
        self.count = count
        self.created = 0
        self.gone = 0
        self._chance = Random(1)
        self._kinds = [(gpus, pods) for gpus, pods, share in KINDS for _ in range(share)]

    def new(self, queue: int, gpus: int, pods: int, run_s: int) -> Obj:
        """One that asks for so many pods with so many GPUs each, for so long."""
        raise NotImplementedError

    def attach(self, host: Host) -> None:
        self.host = host
        self._arrive = host.loop.register("arrivals.arrive", self._on_arrive)

    def start(self) -> None:
        self._plan()

    def fork(self) -> Submissions:
        raise NotImplementedError("a benchmark runs once")

    def observe(self, change: Change) -> None:
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
            self.host.store.create(self.new(queue, gpus, pods, run_s))
            self.created += 1
        if self.created < self.count:
            self._plan()


class Jobs(Submissions):
    """Jobs, which Kubernetes' own controllers remove."""

    kinds = ("Job.batch",)

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._specs: dict[tuple[int, int, int], dict[str, Any]] = {}

    def new(self, queue: int, gpus: int, pods: int, run_s: int) -> Obj:
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


class Workloads(Submissions):
    """Workloads without jobs: ended when their time is over, removed a minute later."""

    kinds = (WORKLOAD,)

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._pod_sets: dict[tuple[int, int], list[dict[str, Any]]] = {}
        self._run_s: dict[str, int] = {}

    def attach(self, host: Host) -> None:
        super().attach(host)
        self._end = host.loop.register("arrivals.end", self._on_end)
        self._remove = host.loop.register("arrivals.remove", self._on_remove)

    def new(self, queue: int, gpus: int, pods: int, run_s: int) -> Obj:
        pod_sets = self._pod_sets.get((gpus, pods))
        if pod_sets is None:
            template = _job_spec(gpus, pods, run_s)["template"]
            pod_sets = self._pod_sets[gpus, pods] = [{"name": "main", "count": pods, "template": template}]
        name = f"workload-{self.created:07d}"
        self._run_s[name] = run_s
        return {
            "apiVersion": _API,
            "kind": "Workload",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"active": True, "queueName": f"queue-{queue:03d}", "priority": 0, "podSets": pod_sets},
        }

    def observe(self, change: Change) -> None:
        super().observe(change)
        name = change.key.name
        if name in self._run_s and is_true(status_of(change.obj), ADMITTED):
            run_us = self._run_s.pop(name) * SECOND_US
            self.host.loop.at(self.host.loop.now_us + run_us, self._end, change.key, INPUT)

    def _on_end(self, key: Key) -> None:
        store, now_us = self.host.store, self.host.loop.now_us
        ended = statuses.finished(store.require(key), "Succeeded", "Ran for its time", now_us)
        store.set_status(key, ended["status"])
        self.host.loop.at(now_us + _TTL_S * SECOND_US, self._remove, key, INPUT)

    def _on_remove(self, key: Key) -> None:
        self.host.store.delete(key)


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
    found = [_node(i) for i in range(NODES)]
    found.append({"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": "h100"}, "spec": {}})
    for number in range(COHORTS * QUEUES):
        name = f"queue-{number:03d}"
        found.append(
            {
                "apiVersion": _API,
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
                "apiVersion": _API,
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
