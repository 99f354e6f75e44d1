"""The numbers of a report about queues: waits, quota, preemptions, fairness, gangs.

A wait is a Workload's, from its creation until it is first admitted; percentiles are nearest rank over those that
were, and those that were not are counted beside them. Quota is shown in one unit: GPUs where any ClusterQueue has
quota of GPUs, else CPUs, else the first resource there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fairway.cluster.gpurequests import DEFAULT_GPUS
from fairway.recorder.queuetables import QueuedRow, QueueOutcome
from fairway.recorder.tables import Outcome

ALL, CLUSTER_QUEUE, QUEUE, PRIORITY, GANGS = "all", "cluster queue", "queue", "priority", "gangs"
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class QueueWaits:
    """Workloads of one group from creation to first admission, in µs. None where none was admitted."""

    by: str
    group: str
    workloads: int
    admitted: int
    waiting: int
    """Without quota when the run ended, not over."""
    p50_us: int | None
    p95_us: int | None
    p99_us: int | None
    max_us: int | None


@dataclass(frozen=True, slots=True)
class QuotaFigures:
    """One ClusterQueue's quota in the report's unit: time-weighted means, and the largest of what the rows show."""

    cluster_queue: str
    cohort: str
    nominal: float
    used: float
    borrowed: float
    borrowed_most: float
    lent: float
    lent_most: float


@dataclass(frozen=True, slots=True)
class PreemptionFigures:
    """Of one ClusterQueue. `lost_gpu_milli_us`: quota time that its preempted Workloads had held in vain."""

    cluster_queue: str
    caused: int
    suffered: int
    evicted_otherwise: int
    lost_gpu_milli_us: int


@dataclass(frozen=True, slots=True)
class PreemptionPair:
    """How often one ClusterQueue preempted another (or itself), and why."""

    preemptor: str
    victim: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class ShareFigures:
    """One ClusterQueue's part of its cohort tree, time-weighted means: see `QueueRow`."""

    cluster_queue: str
    cohort: str
    weight: float
    dominant_share: float
    weighted_share: float
    weighted_share_most: float


@dataclass(frozen=True, slots=True)
class FairnessFigures:
    """Jain's index of one cohort tree over the time in which two or more queues contended."""

    cohort: str
    jain: float | None
    lowest: float | None
    contended_us: int
    """For how long."""


@dataclass(frozen=True, slots=True)
class Unadmitted:
    """Workloads of one ClusterQueue without quota when the run ended, for one reason, as far as Kueue said."""

    cluster_queue: str
    reason: str
    message: str
    workloads: int
    gangs: int
    gpu_milli: int
    """Of all of them."""
    waited_us: int
    """Of the one that waited longest, and who that is."""
    longest: str


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """Everything a report prints of queues."""

    unit: str
    waits: tuple[QueueWaits, ...]
    """All first, then by ClusterQueue, LocalQueue, priority, and gangs."""
    quotas: tuple[QuotaFigures, ...]
    preemptions: tuple[PreemptionFigures, ...]
    pairs: tuple[PreemptionPair, ...]
    """Most first."""
    evictions: Mapping[str, int]
    """By the reason of condition Evicted, most first."""
    shares: tuple[ShareFigures, ...]
    fairness: tuple[FairnessFigures, ...]
    unadmitted: tuple[Unadmitted, ...]
    """The longest waiting first."""
    gangs_waiting_most: float
    """The most gangs that waited at once."""

    @property
    def preempted(self) -> int:
        return sum(p.suffered for p in self.preemptions)

    @property
    def borrowed(self) -> float:
        return sum(q.borrowed for q in self.quotas)

    def waits_of(self, by: str, group: str = "") -> QueueWaits | None:
        return next((w for w in self.waits if (w.by, w.group) == (by, group)), None)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "evictions": dict(self.evictions)}


def queue_figures(outcome: Outcome) -> QueueFigures | None:
    """None for a run without Kueue. O(n log n) in Workloads, O(rows)."""
    queues = outcome.queues
    if queues.is_empty:
        return None
    unit, factors = unit_of(queues)
    return QueueFigures(
        unit=unit,
        waits=_all_waits(queues),
        quotas=_quotas(queues, factors),
        preemptions=_preemptions(queues),
        pairs=_pairs(queues),
        evictions=_counted(queues.evictions.column("reason")),
        shares=_shares(queues),
        fairness=_fairness(queues),
        unadmitted=_unadmitted(queues),
        gangs_waiting_most=_gangs_most(queues),
    )


# Units


def unit_of(queues: QueueOutcome) -> tuple[str, dict[str, float]]:
    """What quota is shown in, and how much of it one unit of each resource is."""
    resources = sorted(set(queues.quotas.column("resource")))
    gpus = {r: DEFAULT_GPUS.asked({r: 7_000}) / 7_000_000 for r in resources}
    found = {r: factor for r, factor in gpus.items() if factor}
    if found:
        return "GPUs", found
    if "cpu" in resources:
        return "CPUs", {"cpu": 0.001}
    return (resources[0], {resources[0]: 1.0}) if resources else ("", {})


# Waits


def _all_waits(queues: QueueOutcome) -> tuple[QueueWaits, ...]:
    rows = list(queues.workloads)
    found = [_waits(ALL, "", rows)]
    groupings: tuple[tuple[str, Callable[[QueuedRow], str]], ...] = (
        (CLUSTER_QUEUE, lambda r: r.cluster_queue),
        (QUEUE, lambda r: f"{r.namespace}/{r.queue}"),
        (PRIORITY, _priority),
    )
    for by, group_of in groupings:
        groups: dict[str, list[QueuedRow]] = {}
        for row in rows:
            groups.setdefault(group_of(row), []).append(row)
        names = list(groups) if by == PRIORITY else sorted(groups)
        if by == PRIORITY:
            names.sort(key=lambda name: (-groups[name][0].priority, name))
        # One group says nothing that the line above does not, nor do LocalQueues that are ClusterQueues renamed.
        is_told = by == QUEUE and len(groups) == len({r.cluster_queue for r in rows})
        if len(groups) > 1 and not is_told:
            found.extend(_waits(by, name, groups[name]) for name in names)
    gangs = [row for row in rows if row.is_gang]
    if gangs and len(gangs) < len(rows):
        found.append(_waits(GANGS, "", gangs))
    return tuple(found)


def _priority(row: QueuedRow) -> str:
    """`urgent (1000)`, `100`."""
    return f"{row.priority_class} ({row.priority})" if row.priority_class else str(row.priority)


def _waits(by: str, group: str, rows: Sequence[QueuedRow]) -> QueueWaits:
    waits = sorted(w for row in rows if (w := row.wait_us) is not None)
    waiting = sum(row.outcome == "Pending" for row in rows)
    p50, p95, p99 = (_percentile(waits, p) for p in PERCENTILES)
    return QueueWaits(by, group, len(rows), len(waits), waiting, p50, p95, p99, waits[-1] if waits else None)


def _percentile(ordered: list[int], percent: int) -> int | None:
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)] if ordered else None


# Quota


def _quotas(queues: QueueOutcome, factors: Mapping[str, float]) -> tuple[QuotaFigures, ...]:
    found = []
    for name, cohort in queue_names(queues):
        series = quota_series(queues, name, factors)
        if series is None:
            continue
        means = {column: _mean(series, series.values[column]) for column in QUOTA_COLUMNS}
        found.append(
            QuotaFigures(
                name,
                cohort,
                **means,
                borrowed_most=max(series.values["borrowed"]),
                lent_most=max(series.values["lent"]),
            )
        )
    return tuple(found)


QUOTA_COLUMNS = ("nominal", "used", "borrowed", "lent")


@dataclass(frozen=True, slots=True)
class Stretches:
    """Values over adjoining stretches of time, by column."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    values: Mapping[str, Sequence[float]]


def _mean(series: Stretches, values: Iterable[float]) -> float:
    lengths = [end - start for start, end in zip(series.starts, series.ends, strict=True)]
    whole = sum(lengths)
    return sum(v * n for v, n in zip(values, lengths, strict=True)) / whole if whole else 0.0


def queue_names(queues: QueueOutcome) -> list[tuple[str, str]]:
    """ClusterQueues and the path of their (last) cohort, by cohort and name."""
    known = dict(zip(queues.queues.column("cluster_queue"), queues.queues.column("cohort"), strict=True))
    return sorted(known.items(), key=lambda item: (item[1], item[0]))


def quota_series(queues: QueueOutcome, name: str, factors: Mapping[str, float]) -> Stretches | None:
    """What a ClusterQueue has, uses, borrows and lends over time, flavors added up; None without such quota."""
    table = queues.quotas
    totals: dict[tuple[int, int], list[float]] = {}
    columns = (table.columns[c] for c in ("cluster_queue", "resource", "start_us", "end_us", *QUOTA_COLUMNS))
    for queue, resource, start, end, *values in zip(*columns, strict=True):
        factor = factors.get(resource)
        if queue == name and factor:
            sums = totals.setdefault((start, end), [0.0] * len(QUOTA_COLUMNS))
            for i, value in enumerate(values):
                sums[i] += value * factor
    if not totals:
        return None
    stretches = sorted(totals)
    columns_of = zip(*(totals[s] for s in stretches), strict=True)
    return Stretches(
        tuple(s for s, _ in stretches),
        tuple(e for _, e in stretches),
        dict(zip(QUOTA_COLUMNS, columns_of, strict=True)),
    )


def queue_series_of(queues: QueueOutcome, name: str) -> Stretches:
    """Columns of `QueueRow` of one ClusterQueue over time."""
    table = queues.queues
    rows = [i for i, queue in enumerate(table.column("cluster_queue")) if queue == name]
    names = ("pending", "pending_gpu_milli", "gangs_pending", "reserving", "weighted_share", "dominant_share")
    return Stretches(
        tuple(table.columns["start_us"][i] for i in rows),
        tuple(table.columns["end_us"][i] for i in rows),
        {column: [table.columns[column][i] for i in rows] for column in names},
    )


def summed(queues: QueueOutcome, column: str) -> Stretches:
    """One column of `QueueRow`, all ClusterQueues added up."""
    totals: dict[tuple[int, int], float] = {}
    columns = (queues.queues.columns[c] for c in ("start_us", "end_us", column))
    for start, end, value in zip(*columns, strict=True):
        totals[start, end] = totals.get((start, end), 0.0) + value
    stretches = sorted(totals)
    return Stretches(
        tuple(s for s, _ in stretches),
        tuple(e for _, e in stretches),
        {column: [totals[s] for s in stretches]},
    )


def _gangs_most(queues: QueueOutcome) -> float:
    return max(summed(queues, "gangs_pending").values["gangs_pending"], default=0.0)


# Preemptions


def _preemptions(queues: QueueOutcome) -> tuple[PreemptionFigures, ...]:
    found: dict[str, list[int]] = {name: [0, 0, 0, 0] for name, _ in queue_names(queues)}
    for e in queues.evictions:
        suffered = found.setdefault(e.cluster_queue, [0, 0, 0, 0])
        suffered[3] += e.gpu_milli * e.ran_us
        if e.reason != "Preempted":
            suffered[2] += 1
            continue
        suffered[1] += 1
        if e.preemptor_cluster_queue:
            found.setdefault(e.preemptor_cluster_queue, [0, 0, 0, 0])[0] += 1
    return tuple(PreemptionFigures(name, *counts) for name, counts in found.items() if any(counts))


def _pairs(queues: QueueOutcome) -> tuple[PreemptionPair, ...]:
    counts: dict[tuple[str, str, str], int] = {}
    for e in queues.evictions:
        if e.reason == "Preempted":
            key = (e.preemptor_cluster_queue, e.cluster_queue, e.preemption)
            counts[key] = counts.get(key, 0) + 1
    return tuple(PreemptionPair(*key, n) for key, n in sorted(counts.items(), key=lambda i: (-i[1], i[0])))


def _counted(names: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


# Fairness


def _shares(queues: QueueOutcome) -> tuple[ShareFigures, ...]:
    weights = dict(zip(queues.queues.column("cluster_queue"), queues.queues.column("weight"), strict=True))
    found = []
    for name, cohort in queue_names(queues):
        series = queue_series_of(queues, name)
        weighted = series.values["weighted_share"]
        found.append(
            ShareFigures(
                name,
                cohort,
                weights[name],
                _mean(series, series.values["dominant_share"]),
                _mean(series, weighted),
                max(weighted, default=0.0),
            )
        )
    return tuple(found)


def _fairness(queues: QueueOutcome) -> tuple[FairnessFigures, ...]:
    found: dict[str, list[tuple[float, int]]] = {}
    for row in queues.fairness:
        of = found.setdefault(row.cohort, [])
        if row.jain is not None:
            of.append((row.jain, row.end_us - row.start_us))
    figures = []
    for cohort, values in sorted(found.items()):
        whole = sum(length for _, length in values)
        mean = sum(jain * length for jain, length in values) / whole if whole else None
        lowest = min((jain for jain, _ in values), default=None)
        figures.append(FairnessFigures(cohort, mean, lowest, whole))
    return tuple(figures)


# What waits


def _unadmitted(queues: QueueOutcome) -> tuple[Unadmitted, ...]:
    groups: dict[tuple[str, str, str], list[QueuedRow]] = {}
    for row in queues.workloads:
        if row.outcome == "Pending":
            groups.setdefault((row.cluster_queue, row.reason, row.message), []).append(row)
    found = []
    for key, rows in groups.items():
        first = max(rows, key=lambda r: r.waited_us)
        job = f"{first.owner_kind}/{first.owner_name}" if first.owner_name else first.name
        gangs = sum(r.is_gang for r in rows)
        gpu_milli = sum(r.gpu_milli for r in rows)
        name = f"{first.namespace}/{job}"
        found.append(Unadmitted(*key, len(rows), gangs, gpu_milli, first.waited_us, name))
    return tuple(sorted(found, key=lambda u: (-u.waited_us, u.cluster_queue, u.reason, u.message)))
