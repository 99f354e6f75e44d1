"""The numbers of a report: waits, allocation and use, fragmentation, what was evicted, wasted, never placed.

Percentiles are nearest-rank over the pods that started; those that did not are counted beside them, for no
percentile can speak for them. Shares are ratios of exact integrals over the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fairway.recorder.tables import GPU_HOUR, Outcome, ReasonCount
from fairway.results.queuefigures import QueueFigures, queue_figures

PERCENTILES = (50, 90, 95, 99)
ALL, NAMESPACE, PRIORITY_CLASS, QUEUE = "all", "namespace", "priorityClass", "queue"


@dataclass(frozen=True, slots=True)
class Waits:
    """Pods of one group from creation to first Running, in µs. None where none started."""

    by: str
    group: str
    pods: int
    started: int
    waiting: int
    """Not started and not over when the run ended."""
    p50_us: int | None
    p90_us: int | None
    p95_us: int | None
    p99_us: int | None
    max_us: int | None


@dataclass(frozen=True, slots=True)
class PodCounts:
    total: int
    started: int
    succeeded: int
    failed: int
    running: int
    waiting: int
    """Not started, not over."""
    evicted: int
    restarts: int


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """GPU time in milli-GPU·µs. `idle` is offered − held, split in three."""

    offered: int
    held: int
    told: int
    """Held by pods that say how they use GPUs."""
    used: int
    idle_no_demand: int
    idle_in_demand: int
    idle_closed: int
    wasted: int
    """Held by pods that started and did not finish what they were started for."""

    @property
    def allocated_ratio(self) -> float | None:
        return _ratio(self.held, self.offered)

    @property
    def used_ratio(self) -> float | None:
        """Of the GPU time of those who tell."""
        return _ratio(self.used, self.told)

    @property
    def told_ratio(self) -> float | None:
        """How much of the GPU time held `used_ratio` speaks for."""
        return _ratio(self.told, self.held)


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Share of free GPU that pods of this run could not use; None where nothing was free or asked for."""

    mean: float | None
    highest: float | None
    last: float | None


@dataclass(frozen=True, slots=True)
class Group:
    """A count under a name; `gpu_milli_us` where GPU time goes with it."""

    name: str
    count: int
    gpu_milli_us: int = 0


@dataclass(frozen=True, slots=True)
class NeverStarted:
    """Pods of one owner and size that had not started when the run ended, and why as far as anybody said."""

    namespace: str
    name: str
    """The topmost owner's, or the pod's own where it has none."""
    pods: int
    gpu_milli: int
    """Of each."""
    waited_us: int
    """Of the one that waited longest."""
    reason: str
    """What the scheduler last said to that one."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything a report prints, worked out once."""

    pods: PodCounts
    workloads: tuple[Group, ...]
    """By outcome."""
    gpu: GpuFigures
    cpu_allocated_ratio: float | None
    memory_allocated_ratio: float | None
    fragmentation: Fragmentation
    waits: tuple[Waits, ...]
    """All pods first, then by namespace, priority class and queue, each by name."""
    reasons: tuple[ReasonCount, ...]
    evictions: tuple[Group, ...]
    """By the reason of the disruption, most first."""
    wasted: tuple[Group, ...]
    """By namespace, most GPU time first."""
    never_started: tuple[NeverStarted, ...]
    """The longest waiting first."""
    queues: QueueFigures | None = None
    """None without Kueue."""

    def as_json(self) -> dict[str, Any]:
        data = asdict(self)
        if self.queues is None:
            del data["queues"]
        data["gpu"].update(
            allocated_ratio=self.gpu.allocated_ratio,
            used_ratio=self.gpu.used_ratio,
            told_ratio=self.gpu.told_ratio,
        )
        return data


def figures_of(outcome: Outcome) -> Figures:
    """O(n log n) in pods."""
    integrals = outcome.integrals
    wasted = _wasted(outcome)
    return Figures(
        pods=_pod_counts(outcome),
        workloads=_groups(w for w in outcome.workloads.column("outcome")),
        gpu=GpuFigures(
            offered=integrals.get("gpu_milli_total", 0),
            held=integrals.get("gpu_milli_allocated", 0),
            told=integrals.get("gpu_milli_told", 0),
            used=integrals.get("gpu_milli_used", 0),
            idle_no_demand=sum(outcome.nodes.column("idle_no_demand_gpu_milli_us")),
            idle_in_demand=sum(outcome.nodes.column("idle_in_demand_gpu_milli_us")),
            idle_closed=sum(outcome.nodes.column("idle_closed_gpu_milli_us")),
            wasted=sum(g.gpu_milli_us for g in wasted),
        ),
        cpu_allocated_ratio=_share(integrals, "cpu_milli_allocated", "cpu_milli_total"),
        memory_allocated_ratio=_share(integrals, "memory_bytes_allocated", "memory_bytes_total"),
        fragmentation=_fragmentation(outcome),
        waits=_all_waits(outcome),
        reasons=outcome.reasons,
        evictions=_groups(d for d in _evictions(outcome) if d),
        wasted=wasted,
        never_started=_never_started(outcome),
        queues=queue_figures(outcome),
    )


def _share(integrals: Mapping[str, int], part: str, whole: str) -> float | None:
    return _ratio(integrals.get(part, 0), integrals.get(whole, 0))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _pod_counts(outcome: Outcome) -> PodCounts:
    pods = outcome.pods
    phases = pods.column("phase")
    over = zip(pods.column("started_us"), pods.column("finished_us"), phases, strict=True)
    running = waiting = 0
    for started, finished, _ in over:
        if finished is None:
            running += started is not None
            waiting += started is None
    return PodCounts(
        total=len(pods),
        started=sum(s is not None for s in pods.column("started_us")),
        succeeded=sum(p == "Succeeded" for p in phases),
        failed=sum(p == "Failed" for p in phases),
        running=running,
        waiting=waiting,
        evicted=sum(bool(d) for d in _evictions(outcome)),
        restarts=sum(pods.column("restarts")),
    )


def _evictions(outcome: Outcome) -> Iterable[str]:
    """Why each pod was taken away; empty where it was not."""
    pods = outcome.pods
    for disruption, by_queue in zip(pods.column("disruption"), pods.column("queue_eviction"), strict=True):
        yield disruption or (f"{by_queue} (by Kueue)" if by_queue else "")


def _groups(names: Iterable[str]) -> tuple[Group, ...]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return tuple(Group(n, c) for n, c in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _all_waits(outcome: Outcome) -> tuple[Waits, ...]:
    pods = outcome.pods
    columns = {
        NAMESPACE: pods.column("namespace"),
        PRIORITY_CLASS: pods.column("priority_class"),
        QUEUE: pods.column("queue"),
    }
    found = [_waits(ALL, "", range(len(pods)), outcome)]
    for by, column in columns.items():
        rows_of: dict[str, list[int]] = {}
        for row, group in enumerate(column):
            rows_of.setdefault(group, []).append(row)
        # One group, or none that has a name, says nothing that the line above does not.
        if len(rows_of) > 1:
            found.extend(_waits(by, group, rows_of[group], outcome) for group in sorted(rows_of))
    return tuple(found)


def _waits(by: str, group: str, rows: Iterable[int], outcome: Outcome) -> Waits:
    pods = outcome.pods
    created, started, finished = (pods.columns[f"{n}_us"] for n in ("created", "started", "finished"))
    waits, total, waiting = [], 0, 0
    for row in rows:
        total += 1
        if started[row] is not None:
            waits.append(started[row] - created[row])
        elif finished[row] is None:
            waiting += 1
    waits.sort()
    p50, p90, p95, p99 = (percentile(waits, p) for p in PERCENTILES)
    return Waits(by, group, total, len(waits), waiting, p50, p90, p95, p99, waits[-1] if waits else None)


def percentile(ordered: list[int], percent: int) -> int | None:
    """Nearest rank: the smallest value that at least this many percent do not exceed."""
    if not ordered:
        return None
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]


def _fragmentation(outcome: Outcome) -> Fragmentation:
    total = weight = 0.0
    highest = last = None
    columns = (outcome.series.columns[n] for n in ("start_us", "end_us", "fragmentation"))
    for start, end, value in zip(*columns, strict=True):
        last = value
        if value is not None:
            total += value * (end - start)
            weight += end - start
            highest = value if highest is None else max(highest, value)
    return Fragmentation(total / weight if weight else None, highest, last)


def _wasted(outcome: Outcome) -> tuple[Group, ...]:
    found: dict[str, list[int]] = {}
    for pod in outcome.pods:
        if pod.is_wasted:
            group = found.setdefault(pod.namespace, [0, 0])
            group[0] += 1
            group[1] += pod.held_gpu_milli_us
    groups = [Group(name, pods, gpu) for name, (pods, gpu) in found.items()]
    return tuple(sorted(groups, key=lambda g: (-g.gpu_milli_us, -g.count, g.name)))


def _never_started(outcome: Outcome) -> tuple[NeverStarted, ...]:
    pods = outcome.pods
    started, finished = pods.column("started_us"), pods.column("finished_us")
    groups: dict[tuple[str, str, int], list[int]] = {}
    names = zip(pods.column("namespace"), pods.column("root_name"), pods.column("name"), strict=True)
    for row, (namespace, root, name) in enumerate(names):
        if started[row] is None and finished[row] is None:
            key = (namespace, root or name, pods.columns["gpu_milli"][row])
            groups.setdefault(key, []).append(row)
    found = []
    for (namespace, name, gpu_milli), rows in groups.items():
        oldest = pods[min(rows, key=lambda r: (pods.columns["created_us"][r], r))]
        waited = outcome.ended_us - oldest.created_us
        why = why_not(oldest.node, oldest.unschedulable)
        found.append(NeverStarted(namespace, name, len(rows), gpu_milli, waited, why))
    return tuple(sorted(found, key=lambda n: (-n.waited_us, n.namespace, n.name, n.gpu_milli)))


def why_not(node: str, unschedulable: str) -> str:
    """Why a pod has not started, as far as anybody said: the scheduler's own words, without its preamble."""
    if node:
        return f"bound to {node}, not started yet"
    if not unschedulable:
        return "nobody said: held back by a scheduling gate, or not looked at yet"
    _, found, reasons = unschedulable.partition(" nodes are available: ")
    return reasons.split(". ", 1)[0].rstrip(".") if found else unschedulable


def gpu_hours(gpu_milli_us: int) -> float:
    return gpu_milli_us / GPU_HOUR
