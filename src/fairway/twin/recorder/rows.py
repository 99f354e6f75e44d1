"""Tables of pods, intervals, workloads and nodes, worked out from what was noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from fairway.twin.recorder.facts import Facts
from fairway.twin.recorder.gpus import INSTANCE_TYPE_LABELS, MODEL_LABELS, Devices, label_of
from fairway.twin.recorder.nodes import NodeLife
from fairway.twin.recorder.pods import (
    CREATED,
    DELETED_AT,
    FAILED,
    FINISHED,
    PHASE,
    PHASES,
    PLACE,
    READY,
    RESTARTS,
    SCHEDULED,
    STARTED,
    SUCCEEDED,
    PodLedger,
    Sort,
)
from fairway.twin.recorder.steps import FAR, Ints, Steps, highest_of_group
from fairway.twin.recorder.tables import IntervalRow, NodeRow, PodRow, Table, WorkloadRow
from fairway.twin.recorder.workloads import NEVER, Workload

_TIMES: Final = (
    (SCHEDULED, "scheduled_us"),
    (STARTED, "started_us"),
    (READY, "ready_us"),
    (FINISHED, "finished_us"),
    (DELETED_AT, "deleted_us"),
)


def held_gpu(facts: Facts) -> Ints:
    """Milli-GPU·µs by interval."""
    return facts.interval_gpu * (facts.interval_end - facts.interval_start)


def _sums(groups: Ints, amounts: Ints, count: int) -> Ints:
    total = np.zeros(count, np.int64)
    np.add.at(total, groups, amounts)
    return total


def pod_table(
    pods: PodLedger,
    facts: Facts,
    began_us: int,
    *,
    places: Sequence[str],
    preempted_by: Mapping[int, str],
    cluster_queues: Mapping[int, str],
    queue_evictions: Mapping[int, str],
) -> Table[PodRow]:
    """In order of creation. `places`: names by index; the others: by row, of the pods that have something there."""
    rows = range(len(pods.names))
    owners, sorts = pods.owners, pods.sorts
    roots = [None if o is None else o.root for o in owners]
    used = _sums(facts.interval_pod, facts.used, len(rows)).tolist()
    columns: dict[str, Any] = {
        "name": list(pods.names),
        "uid": list(pods.uids),
        "labels": list(pods.labels),
        "owner_kind": ["" if o is None else o.kind for o in owners],
        "owner_name": ["" if o is None else o.name for o in owners],
        "root_kind": ["" if r is None else r.kind for r in roots],
        "root_name": ["" if r is None else r.name for r in roots],
        "gpu_milli": facts.gpu.tolist(),
        "cpu_milli": [s.size[1] for s in sorts],
        "memory_bytes": [s.size[2] for s in sorts],
        "devices": _devices(sorts),
        "phase": [PHASES[p] for p in pods.column(PHASE)],
        "node": ["" if p < 0 else places[p] for p in pods.column(PLACE)],
        "restarts": list(pods.column(RESTARTS)),
        "refusals": [pods.refusals.get(r, 0) for r in rows],
        "preempted_by": [preempted_by.get(r, "") for r in rows],
        "cluster_queue": [cluster_queues.get(r, "") for r in rows],
        "queue_eviction": [queue_evictions.get(r, "") for r in rows],
        "held_gpu_milli_us": _sums(facts.interval_pod, held_gpu(facts), len(rows)).tolist(),
        "used_gpu_milli_us": [used[r] if r in pods.uses else None for r in rows],
        "created_us": [began_us + t for t in pods.column(CREATED)],
    }
    for name, texts in (
        ("reason", pods.reason),
        ("unschedulable", pods.refusal),
        ("disruption", pods.disruption),
    ):
        columns[name] = [texts.get(r, "") for r in rows]
    for i, name in enumerate(("namespace", "priority", "priority_class", "queue", "is_serving")):
        columns[name] = [s[i] for s in sorts]
    for number, name in _TIMES:
        columns[name] = [None if t == NEVER else began_us + t for t in pods.column(number)]
    return Table(PodRow, columns)


def _texts(devices: Devices) -> dict[str, str]:
    return {name: str(count) for name, count in devices}


def _devices(sorts: Sequence[Sort]) -> list[Mapping[str, str]]:
    """Pods of one sort share one map."""
    known: dict[Devices, Mapping[str, str]] = {}
    return [
        known[s.devices] if s.devices in known else known.setdefault(s.devices, _texts(s.devices))
        for s in sorts
    ]


def interval_table(
    pods: PodLedger, facts: Facts, lives: Sequence[NodeLife], began_us: int
) -> Table[IntervalRow]:
    """By start, then by pod."""
    order = np.lexsort((facts.interval_pod, facts.interval_start))
    rows = facts.interval_pod[order].tolist()
    ends = zip(facts.interval_end[order].tolist(), facts.interval_is_open[order].tolist(), strict=True)
    columns: dict[str, Any] = {
        "pod": rows,
        "namespace": [pods.sorts[row].namespace for row in rows],
        "name": [pods.names[row] for row in rows],
        "node": [lives[life].name for life in facts.interval_life[order].tolist()],
        "gpu_milli": facts.interval_gpu[order].tolist(),
        "cpu_milli": facts.interval_cpu[order].tolist(),
        "memory_bytes": facts.interval_memory[order].tolist(),
        "start_us": (began_us + facts.interval_start[order]).tolist(),
        "end_us": [None if is_open else began_us + end for end, is_open in ends],
        "used_gpu_milli_us": [
            used if row in pods.uses else None
            for row, used in zip(rows, facts.used[order].tolist(), strict=True)
        ],
        "used_gpu_memory_bytes": [facts.memory_used.get(i) for i in order.tolist()],
    }
    return Table(IntervalRow, columns)


def workload_table(
    workloads: Sequence[Workload], pods: PodLedger, facts: Facts, began_us: int
) -> Table[WorkloadRow]:
    """In order of creation; counts of a workload include those of what it owns."""
    count = len(workloads)
    owned = facts.owner >= 0
    owner = facts.owner[owned]
    phase = np.array(pods.column(PHASE), np.int64)[owned]
    one = np.ones(len(owner), np.int64)
    held = _sums(facts.interval_pod, held_gpu(facts), len(facts.gpu))[owned]
    sums = [
        _sums(owner, amounts, count)
        for amounts in (
            one,
            (facts.started[owned] < FAR).astype(np.int64),
            (phase == SUCCEEDED).astype(np.int64),
            (phase == FAILED).astype(np.int64),
            held,
        )
    ]
    started = np.full(count, FAR, np.int64)
    np.minimum.at(started, owner, facts.started[owned])
    # The deepest first: then everything below a workload is complete when its turn comes.
    for workload in sorted(workloads, key=lambda w: -w.depth):
        if workload.parent is not None:
            above = workload.parent.index
            for column in sums:
                column[above] += column[workload.index]
            started[above] = min(started[above], started[workload.index])
    peaks = _gpu_peaks(workloads, facts)
    tallies = zip(*(column.tolist() for column in sums), strict=True)
    rows = [
        _workload_row(w, began_us, at, tally, peaks.get(w.index, 0))
        for w, at, tally in zip(workloads, started.tolist(), tallies, strict=True)
    ]
    return Table.of(WorkloadRow, rows)


def _gpu_peaks(workloads: Sequence[Workload], facts: Facts) -> dict[int, int]:
    """The most GPU each workload held at once, by index; what it owns included."""
    peaks: dict[int, int] = {}
    parents = np.array([-1 if w.parent is None else w.parent.index for w in workloads], np.int64)
    groups = facts.owner[facts.interval_pod]
    while len(parents) and (groups >= 0).any():
        owned = groups >= 0
        amounts = facts.interval_gpu[owned]
        found = highest_of_group(
            np.concatenate([groups[owned]] * 2),
            np.concatenate([facts.interval_start[owned], facts.interval_end[owned]]),
            np.concatenate([amounts, -amounts]),
        )
        for index, peak in found.items():
            peaks[index] = max(peaks.get(index, 0), peak)
        groups = np.where(owned, parents[groups], -1)
    return peaks


def _workload_row(
    w: Workload, began_us: int, started: int, tally: tuple[int, ...], gpu_milli: int
) -> WorkloadRow:
    def at(time: int) -> int | None:
        return None if time in (NEVER, FAR) else began_us + time

    pods, pods_started, succeeded, failed, held = tally
    return WorkloadRow(
        kind=w.kind,
        namespace=w.namespace,
        name=w.name,
        uid=w.uid,
        labels=w.labels,
        owner_kind="" if w.parent is None else w.parent.kind,
        owner_name="" if w.parent is None else w.parent.name,
        priority_class=w.priority_class,
        queue=w.queue,
        created_us=began_us + w.created,
        started_us=at(started),
        finished_us=at(w.finished),
        deleted_us=at(w.deleted),
        outcome=_outcome(w, started, pods),
        reason=w.reason,
        message=w.message,
        conditions=w.conditions,
        pods=pods,
        pods_started=pods_started,
        pods_succeeded=succeeded,
        pods_failed=failed,
        gpu_milli=gpu_milli,
        held_gpu_milli_us=held,
    )


def _outcome(w: Workload, started: int, pods: int) -> str:
    if w.outcome:
        return w.outcome
    if w.deleted != NEVER:
        return "Deleted"
    if w.is_suspended:
        return "Suspended"
    if started < FAR:
        return "Running"
    return "Waiting" if pods else "Idle"


class _Demand:
    """How long GPU pods have been waiting for a node, up to any moment."""

    def __init__(self, pending: Steps) -> None:
        self._steps = pending
        is_waiting = (pending.values > 0).astype(np.int64)
        self._is_waiting = is_waiting
        self._before = np.append(0, np.cumsum(is_waiting[:-1] * np.diff(pending.times)))

    def until(self, times: Ints) -> Ints:
        starts = self._steps.times
        if not len(starts):
            return np.zeros(len(times), np.int64)
        found = np.searchsorted(starts, times, side="right") - 1
        since = self._before[found] + self._is_waiting[found] * (times - starts[found])
        return np.where(found >= 0, since, 0)


def node_table(lives: Sequence[NodeLife], facts: Facts, gpu_pending: Steps, began_us: int) -> Table[NodeRow]:
    """By name, then by age. Idle GPU time is split by whether GPU pods were waiting meanwhile."""
    count = len(lives)
    demand = _Demand(gpu_pending)
    holding = _Holding(facts, demand, count)
    life = facts.interval_life
    waited = demand.until(facts.interval_end) - demand.until(facts.interval_start)
    held = _sums(life, held_gpu(facts), count).tolist()
    held_in_demand = _sums(life, facts.interval_gpu * waited, count).tolist()
    used = _sums(life, facts.used, count).tolist()
    tells = _sums(life, facts.tells_use, count).tolist()
    # An interval begins for a pod on a node once; a resize or a node that comes back begins another.
    pairs = np.unique(life * len(facts.gpu) + facts.interval_pod)
    pods = np.bincount(pairs // max(len(facts.gpu), 1), minlength=count).tolist()
    rows = []
    for index, node in enumerate(lives):
        split = _idle(index, node, facts.until, demand, holding, held[index], held_in_demand[index])
        rows.append(
            _node_row(node, facts.until, began_us, split, used[index] if tells[index] else None, pods[index])
        )
    return Table.of(NodeRow, sorted(rows, key=lambda r: (r.name, r.created_us)))


def _idle(
    index: int,
    node: NodeLife,
    until: int,
    demand: _Demand,
    holding: _Holding,
    held: int,
    held_in_demand: int,
) -> tuple[int, int, int, int, int]:
    """GPU time offered, held, idle without demand, idle in demand, idle while closed."""
    end = until if node.deleted < 0 else node.deleted
    edges = np.array([*(o.since for o in node.offers), end], np.int64)
    lengths, waited = np.diff(edges).tolist(), np.diff(demand.until(edges)).tolist()
    capacity = in_demand = closed = 0
    for i, offer in enumerate(node.offers):
        capacity += offer.gpu * lengths[i]
        if offer.is_open:
            in_demand += offer.gpu * waited[i]
            continue
        held_there, waited_there = holding.within(index, int(edges[i]), int(edges[i + 1]))
        closed += offer.gpu * lengths[i] - held_there
        in_demand += waited_there
    in_demand -= held_in_demand
    return capacity, held, capacity - held - in_demand - closed, in_demand, closed


class _Holding:
    """The intervals of all pods by node, so that a node's are found without a look at all others'."""

    def __init__(self, facts: Facts, demand: _Demand, count: int) -> None:
        order = np.argsort(facts.interval_life, kind="stable")
        self._first = np.searchsorted(facts.interval_life[order], np.arange(count + 1)).tolist()
        self._start, self._end = facts.interval_start[order], facts.interval_end[order]
        self._gpu = facts.interval_gpu[order]
        self._demand = demand

    def within(self, index: int, start: int, end: int) -> tuple[int, int]:
        """GPU time held on a node within a stretch of time, and the part of it in which GPU pods were waiting."""
        here = slice(self._first[index], self._first[index + 1])
        if here.start == here.stop:
            return 0, 0
        starts = np.clip(self._start[here], start, end)
        ends = np.clip(self._end[here], start, end)
        gpu = self._gpu[here]
        waited = self._demand.until(ends) - self._demand.until(starts)
        return int((gpu * (ends - starts)).sum()), int((gpu * waited).sum())


def _node_row(
    node: NodeLife,
    until: int,
    began_us: int,
    split: tuple[int, int, int, int, int],
    used: int | None,
    pods: int,
) -> NodeRow:
    capacity, held, quiet, in_demand, closed = split
    return NodeRow(
        name=node.name,
        uid=node.uid,
        labels=node.labels,
        instance_type=label_of(node.labels, INSTANCE_TYPE_LABELS),
        gpu_model=label_of(node.labels, MODEL_LABELS),
        gpu_milli=node.gpu_most,
        cpu_milli=max(o.cpu for o in node.offers),
        memory_bytes=max(o.memory for o in node.offers),
        devices=_texts(node.devices),
        system_cpu_milli=node.system[0],
        system_memory_bytes=node.system[1],
        created_us=began_us + node.created,
        deleted_us=None if node.deleted < 0 else began_us + node.deleted,
        lifetime_us=(until if node.deleted < 0 else node.deleted) - node.created,
        capacity_gpu_milli_us=capacity,
        held_gpu_milli_us=held,
        used_gpu_milli_us=used,
        idle_no_demand_gpu_milli_us=quiet,
        idle_in_demand_gpu_milli_us=in_demand,
        idle_closed_gpu_milli_us=closed,
        pods=pods,
        launched_us=None if node.launched == node.created and node.place >= 0 else began_us + node.launched,
    )
