"""Weeks of a lab's work under Kueue, made from a seed: what forecasts are tested on.

Three queues of one cohort share 40 GPUs and take back what is theirs; two priorities; users have habits: each has a
few series of jobs of one shape, run times scattered about the series' own, a declared limit that is too long by a
factor of theirs, and hands in sweeps at the hours at which they work.
"""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

from fairway.kube.timestamps import DAY_US, HOUR_US, SECOND_US
from fairway.twin.streams import seed_of

NODES, GPUS_EACH = 5, 8
_QUEUES = (("prod", 16, 5), ("research", 16, 8), ("batch", 8, 5))
"""Name, GPUs of its own, users."""
_GPUS, _WEIGHTS = (1, 2, 4, 8), (40, 25, 20, 15)
_WEEKEND = 0.4

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {{name: lab-{seed}}}
spec:
  seed: {seed}
  latency: {latency}
  duration: {hours}h
  nodes: [{{name: "node-{{i}}", count: {nodes}, capacity: {{cpu: 128, memory: 1Ti, nvidia.com/gpu: {each}}}}}]
  manifests: [queues.yaml]
  traces: [{{path: jobs.csv}}]
"""
FLAVOR = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gpu}
"""
PRIORITIES = "".join(
    f"""\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {{name: {name}}}
value: {value}
"""
    for name, value in (("urgent", 1000), ("usual", 100))
)
QUEUE = """\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  cohortName: lab
  namespaceSelector: {{}}
  preemption: {{withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}}
  resourceGroups:
    - coveredResources: [cpu, memory, nvidia.com/gpu]
      flavors:
        - name: gpu
          resources:
            - {{name: cpu, nominalQuota: 640}}
            - {{name: memory, nominalQuota: 5Ti}}
            - {{name: nvidia.com/gpu, nominalQuota: {gpus}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}, namespace: default}}
spec: {{clusterQueue: {name}}}
"""


def write_lab(folder: Path, seed: int, *, days: int, load: float, latency: str = "zero") -> Path:
    """A scenario of so many days. `load`: GPU hours asked for on a working day, of those there are."""
    folder.mkdir(parents=True, exist_ok=True)
    head = SCENARIO.format(seed=seed, latency=latency, hours=24 * days, nodes=NODES, each=GPUS_EACH)
    (folder / "scenario.yaml").write_text(head, encoding="utf-8")
    queues = "".join(QUEUE.format(name=name, gpus=gpus) for name, gpus, _ in _QUEUES)
    (folder / "queues.yaml").write_text(FLAVOR + PRIORITIES + queues, encoding="utf-8")
    lines = ["job_id,submit_time,run_time,gpus,cpus,memory,user,queue,labels", *_rows(seed, days, load)]
    (folder / "jobs.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _rows(seed: int, days: int, load: float) -> list[str]:
    """Each user's share of the load is his own; whole sweeps arrive."""
    total = NODES * GPUS_EACH * 24.0 * load
    users = sum(count for _, _, count in _QUEUES)
    shares = [Random(seed_of(seed, f"share/{n}")).lognormvariate(0, 0.6) for n in range(users)]
    found: list[tuple[int, str]] = []
    number = 0
    for queue, _, count in _QUEUES:
        for _ in range(count):
            random = Random(seed_of(seed, f"user/{number}"))
            found += _of_user(random, number, queue, days, total * shares[number] / sum(shares))
            number += 1
    return [row for _, row in sorted(found)]


def _of_user(
    random: Random, number: int, queue: str, days: int, gpu_hours_a_day: float
) -> list[tuple[int, str]]:
    peak_hour, found, sequence = random.gauss(14, 3) % 24, [], 0
    urgency = 0.3 if queue == "prod" else 0.05
    series = [_Series(random, kind) for kind in random.sample(_KINDS, random.randint(2, 4))]
    each = sum(one.gpu_hours for one in series) / len(series)
    sweeps_a_day = gpu_hours_a_day / each / _MEAN_SWEEP
    at_us = 0.0
    while (at_us := at_us + random.expovariate(2 * sweeps_a_day) * DAY_US) < days * DAY_US:
        if random.random() > _rate(at_us, peak_hour) / 2:
            continue
        one = random.choice(series)
        label = "urgent" if random.random() < urgency else "usual"
        for _ in range(random.choice(_SWEEPS)):
            sequence += 1
            run_s = min(max(random.lognormvariate(math.log(one.median_s), one.sigma), 30), one.limit_s)
            labels = (
                f"kueue.x-k8s.io/priority-class={label};kueue.x-k8s.io/max-exec-time-seconds={one.limit_s}"
            )
            at_us += random.randrange(20) * SECOND_US
            name = f"{one.name}-u{number}-{sequence}"
            size = f"{one.gpus},{4 * one.gpus},{32 * one.gpus}Gi"
            row = f"{name},{at_us / 1e6:.0f},{run_s:.0f},{size},user-{number},{queue},{labels}"
            found.append((round(at_us), row))
    return found


_KINDS = ("train", "tune", "evaluate", "sweep", "embed", "distill")
_SWEEPS = (1, 1, 1, 1, 2, 3, 5, 8)
_MEAN_SWEEP = sum(_SWEEPS) / len(_SWEEPS)


class _Series:
    """Jobs of one name."""

    def __init__(self, random: Random, name: str) -> None:
        self.name = name
        self.gpus = random.choices(_GPUS, _WEIGHTS)[0]
        self.median_s = random.lognormvariate(math.log(5400), 1.0)
        self.sigma = random.uniform(0.3, 0.9)
        limit_s = self.median_s * math.exp(1.5 * self.sigma) * random.uniform(1.2, 4)
        self.limit_s = math.ceil(limit_s / 3600) * 3600

    @property
    def gpu_hours(self) -> float:
        return self.gpus * self.median_s * math.exp(self.sigma**2 / 2) / 3600


def _rate(at_us: float, peak_hour: float) -> float:
    """Of the mean of a working day."""
    day, of_day_us = divmod(at_us, DAY_US)
    swing = 1 + 0.8 * math.cos(2 * math.pi * (of_day_us / HOUR_US - peak_hour) / 24)
    return swing * (_WEEKEND if day % 7 >= 5 else 1.0)
