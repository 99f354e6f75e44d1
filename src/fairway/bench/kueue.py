"""Kueue's own performance test: how long does it take, and how long do Workloads wait?

Cohorts of equal queues are given small, medium and large Workloads faster than they can run them; large ones
preempt. Nothing but Kueue is there: no jobs, no pods, no nodes (`million` has the whole path). Twice: without
latencies, for how fast the decisions are made; and with the latencies of `TEST_LATENCY`, for how well the twin
tells how long Workloads really wait.

Source: test/performance/scheduler (configs/baseline, configs/large-scale, minimalkueue/main.go), results in the
rangespec.yaml beside each configuration.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fairway.bench import BenchRow
from fairway.bench.kueuerunner import API, QUEUE, Runner, Wait, WorkloadClass
from fairway.bench.ownprocess import run_in_own_process
from fairway.compiled import loading
from fairway.kube.collectorpause import collector_resting
from fairway.kube.objects import Obj
from fairway.kube.timestamps import HOUR_US, SECOND_US
from fairway.queueing.control.settings import KueueSettings
from fairway.twin.distributions import Distribution
from fairway.twin.kueue.component import Kueue
from fairway.twin.latency import DEFAULT, NONE, Latency
from fairway.twin.twin import Twin


@dataclass(frozen=True, slots=True)
class Setup:
    """One configuration, with what the real one was measured to take. `limit_s`: what ours may take."""

    cohorts: int
    queues: int
    classes: tuple[WorkloadClass, ...]
    real_s: float
    limit_s: float
    real_wait_s: dict[str, float]

    @property
    def size(self) -> int:
        return self.cohorts * self.queues * sum(c.count for c in self.classes)


SETUPS: dict[str, Setup] = {
    "baseline": Setup(
        cohorts=5,
        queues=6,
        classes=(
            WorkloadClass("small", 350, 100, 200, 50, 1),
            WorkloadClass("medium", 100, 500, 500, 100, 5),
            WorkloadClass("large", 50, 1200, 1000, 200, 20),
        ),
        real_s=351.1,
        limit_s=5,
        real_wait_s={"large": 16.501, "medium": 76.768, "small": 215.468},
    ),
    "large": Setup(
        cohorts=10,
        queues=100,
        classes=(
            WorkloadClass("small", 35, 60, 150, 50, 1),
            WorkloadClass("medium", 11, 300, 350, 100, 5),
            WorkloadClass("large", 4, 700, 700, 200, 20),
        ),
        real_s=1179.4,
        limit_s=25,
        real_wait_s={"large": 105.604, "medium": 256.413, "small": 700.379},
    ),
}

# The rate is what the test configures its manager with, not Kueue's default. Source: minimalkueue/main.go.
# The median of a write is the one number that was calibrated: see docs/latency.md.
_WRITE = Distribution("lognormal", 15_000, 1.0)
TEST_LATENCY = replace(DEFAULT, kueue_qps=50, kueue_burst=100, api_write=_WRITE)

# minimalkueue has an empty Configuration: pods are not waited for.
_SETTINGS = KueueSettings(pods_ready=None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run showed. `lasted_s` in the twin's time, `took_s` of CPU."""

    took_s: float
    lasted_s: float
    cycles: int
    waits: dict[str, Wait]


def run(quick: bool, setup: str = "") -> Iterator[BenchRow]:
    yield BenchRow("kueue/code", float(loading.is_active()), "compiled", 0.0, loading.state())
    for name in (setup,) if setup else ("baseline",) if quick else SETUPS:
        yield from _rows(name, SETUPS[name])


def _rows(name: str, setup: Setup) -> Iterator[BenchRow]:
    outcome, peak_bytes = run_in_own_process(run_setup, (name, NONE))
    base = f"kueue/{name}/{setup.size}"
    yield BenchRow(
        base, outcome.took_s, "s", setup.limit_s / outcome.took_s, f"{setup.limit_s:g} s, our limit"
    )
    real = f"{setup.real_s:g} s, the real one"
    yield BenchRow(f"{base}/real", outcome.took_s, "s", setup.real_s / outcome.took_s, real)
    yield BenchRow(f"{base}/memory", peak_bytes / 2**20, "MiB", 0.0, f"{outcome.cycles} cycles")
    outcome, _ = run_in_own_process(run_setup, (name, TEST_LATENCY))
    yield _beside(f"kueue/{name}/latency/lasts", outcome.lasted_s, setup.real_s)
    for class_name, real_s in setup.real_wait_s.items():
        yield _beside(f"kueue/{name}/latency/{class_name}", outcome.waits[class_name].mean_s, real_s)


def _beside(name: str, ours_s: float, real_s: float) -> BenchRow:
    """How near ours is to what was measured: 1 is equal, below it is off by so much either way."""
    off = ours_s / real_s - 1
    ratio = min(ours_s, real_s) / max(ours_s, real_s)
    return BenchRow(name, ours_s, "s", ratio, f"{real_s:g} s, the real one: {off:+.1%}")


def run_setup(which: tuple[str, Latency], seed: int = 1) -> Outcome:
    """Run one setup until all its Workloads are finished."""
    name, latency = which
    setup = SETUPS[name]
    queues = tuple(f"cq-{q}-cohort-{c}" for c in range(setup.cohorts) for q in range(setup.queues))
    runner = Runner(queues, setup.classes)
    kueue = Kueue(_SETTINGS)
    started_s = time.process_time()
    twin = Twin(seed=seed, latency=latency, components=[runner, kueue])
    began_us = twin.now_us
    twin.apply(objects(setup))
    # As in `fairway simulate`: this process ends soon after.
    with collector_resting():
        twin.run(began_us + HOUR_US)
    took_s = time.process_time() - started_s
    if runner.finished != setup.size:
        raise AssertionError(f"{runner.finished} of {setup.size} Workloads finished within an hour")
    lasted_s = (runner.finished_us - began_us) / SECOND_US
    return Outcome(took_s, lasted_s, kueue.cycles.number, runner.waits())


def objects(setup: Setup) -> list[Obj]:
    """One flavor; per queue a ClusterQueue, and a LocalQueue in a namespace of its own."""
    found: list[Obj] = [{"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "rf"}, "spec": {}}]
    for cohort in range(setup.cohorts):
        for queue in range(setup.queues):
            name = f"cq-{queue}-cohort-{cohort}"
            found.append(_cluster_queue(name, f"cohort-{cohort}"))
            found.append(
                {
                    "apiVersion": API,
                    "kind": "LocalQueue",
                    "metadata": {"name": QUEUE, "namespace": name},
                    "spec": {"clusterQueue": name},
                }
            )
    return found


def _cluster_queue(name: str, cohort: str) -> Obj:
    quota = {"name": "cpu", "nominalQuota": "20", "borrowingLimit": "100"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "rf", "resources": [quota]}]}
    return {
        "apiVersion": API,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "cohortName": cohort,
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": "None",
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [group],
        },
    }
