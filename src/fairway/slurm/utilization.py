"""Who held how much, and what of the cluster was idle: TRES-seconds of a period, as slurmdbd's rollup adds them up.

Hour by hour, since what pending jobs waited for counts only as far as there were idle CPUs in that hour. A suspension
is spread over the run it interrupted: its moments are not kept. In: the archive and running jobs; out: plain sums.
Source: as_mysql_rollup.c, 22.05.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from fairway.slurm.cluster import Cluster, cluster_tres
from fairway.slurm.model.job import Job

HOUR_S = 3600

Key = tuple[str, str]
"""Account and user."""


@dataclass(slots=True)
class Sums:
    """TRES-seconds by TRES. `reported` is what there was; the others are shares of it."""

    allocated: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    down: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    planned_down: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    planned: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    idle: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    over: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    reported: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    by_holder: dict[Key, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """One run and what it held between two moments; `rate`: how much of that time it was not suspended."""

    job: Job
    start: int
    end: int
    rate: float


def runs_of(cluster: Cluster, begin: int, end: int, now: int) -> list[Run]:
    """Runs that held something within a period."""
    found = []
    for job in (*cluster.archive, *cluster.running.values()):
        stop = job.end if job.finished else now
        if not job.shares or not job.start or stop <= begin or job.start >= end:
            continue
        whole = max(stop - job.start, 1)
        found.append(Run(job, job.start, stop, max(whole - job.suspended_s, 0) / whole))
    return found


def utilization(cluster: Cluster, begin: int, end: int, now: int) -> Sums:
    """Sums of whole hours from `begin` to `end`, as far as the cluster was there."""
    sums = Sums()
    runs = runs_of(cluster, begin, end, now)
    waits = _waits(cluster, now)
    for hour in range(begin, end, HOUR_S):
        low, high = max(hour, cluster.boot_time), min(hour + HOUR_S, end, now)
        if low < high:
            _add_hour(sums, cluster, runs, waits, low, high)
    return sums


def _waits(cluster: Cluster, now: int) -> list[tuple[int, int, int]]:
    """(eligible, started or ended, CPUs) of jobs that waited."""
    return [
        (
            job.eligible,
            job.start if job.start and not job.pending else now,
            job.req_tres.get("cpu", 0) * _count(job),
        )
        for job in (*cluster.archive, *cluster.jobs.values())
        if job.eligible and (job.pending or job.start > job.eligible)
    ]


def _count(job: Job) -> int:
    return max(len(job.array_left), 1)


def _add_hour(
    sums: Sums,
    cluster: Cluster,
    runs: Iterable[Run],
    waits: Iterable[tuple[int, int, int]],
    low: int,
    high: int,
) -> None:
    allocated: dict[str, float] = defaultdict(float)
    for run in runs:
        seconds = (min(run.end, high) - max(run.start, low)) * run.rate
        if seconds <= 0:
            continue
        held = sums.by_holder.setdefault((run.job.account, run.job.user), defaultdict(float))
        for name, count in run.job.alloc_tres.items():
            allocated[name] += seconds * count
            held[name] += seconds * count
    down = _of_nodes(cluster, low, high)
    maintained = _maintained(cluster, low, high)
    queued = sum(max(min(start, high) - max(eligible, low), 0) * cpus for eligible, start, cpus in waits)
    for name, count in cluster_tres(cluster.nodes).items():
        total = count * (high - low)
        planned = queued if name == "cpu" else 0.0
        idle = total - allocated[name] - down[name] - maintained[name] - planned
        over = 0.0
        if idle < 0:  # more was waited for than there was
            planned, idle = planned + idle, 0.0
            if planned < 0:
                planned, over = 0.0, -planned
        parts = (allocated[name], down[name], maintained[name], planned, idle, over, total)
        kinds = (
            sums.allocated,
            sums.down,
            sums.planned_down,
            sums.planned,
            sums.idle,
            sums.over,
            sums.reported,
        )
        for kind, value in zip(kinds, parts, strict=True):
            kind[name] += value


def _of_nodes(cluster: Cluster, low: int, high: int) -> dict[str, float]:
    """What was down or drained and held by nobody is counted as down, as events of nodes have it."""
    lost: dict[str, float] = defaultdict(float)
    for node in cluster.nodes:
        seconds = sum(max(min(one[1] or high, high) - max(one[0], low), 0) for one in node.events)
        if seconds > 0:
            for name, count in cluster_tres([node]).items():
                lost[name] += count * min(seconds, high - low)
    return lost


def _maintained(cluster: Cluster, low: int, high: int) -> dict[str, float]:
    kept: dict[str, float] = defaultdict(float)
    for one in cluster.reservations.values():
        seconds = min(one.end, high) - max(one.start, low)
        if "MAINT" in one.flags and seconds > 0:
            for name, count in cluster_tres([cluster.nodes[index] for index in one.nodes]).items():
                kept[name] += count * seconds
    return kept
