"""Tables of pods, intervals, workloads and nodes, worked out from what was noted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from fairway.cluster.gpurequests import INSTANCE_TYPE_LABELS, MODEL_LABELS, Devices, label_of
from fairway.recorder.facts import Facts
from fairway.recorder.nodes import NodeLife, Offer
from fairway.recorder.pods import (
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
from fairway.recorder.steps import FAR, Ints, Steps, highest_of_group
from fairway.recorder.tables import IntervalRow, NodeRow, PodRow, Table, WorkloadRow
from fairway.recorder.workloads import NEVER, Workload
from fairway.twin.gpuuse import behaviour_text

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
        "refusals": _by_row(pods.refusals, 0, len(rows)),
        "preempted_by": _by_row(preempted_by, "", len(rows)),
        "cluster_queue": _by_row(cluster_queues, "", len(rows)),
        "queue_eviction": _by_row(queue_evictions, "", len(rows)),
        "behaviour": _by_row(_behaviours(pods), "", len(rows)),
        "held_gpu_milli_us": _sums(facts.interval_pod, held_gpu(facts), len(rows)).tolist(),
        "used_gpu_milli_us": _by_row({r: used[r] for r in pods.uses}, None, len(rows)),
        "created_us": [began_us + t for t in pods.column(CREATED)],
        "reason": _by_row(pods.reason, "", len(rows)),
        "unschedulable": _by_row(pods.refusal, "", len(rows)),
        "disruption": _by_row(pods.disruption, "", len(rows)),
    }
    for i, name in enumerate(("namespace", "priority", "priority_class", "queue", "is_serving")):
        columns[name] = [s[i] for s in sorts]
    for number, name in _TIMES:
        columns[name] = [None if t == NEVER else began_us + t for t in pods.column(number)]
    return Table(PodRow, columns)


def _by_row(found: Mapping[int, Any], otherwise: Any, count: int) -> list[Any]:
    """What some of the rows have, as a column of all."""
    column = [otherwise] * count
    for row, value in found.items():
        column[row] = value
    return column


def _behaviours(pods: PodLedger) -> dict[int, str]:
    """Pods of one template share their annotations: each map is looked at once."""
    known: dict[int, str] = {}
    found = {}
    for row, said in pods.telling.items():
        text = known.get(id(said))
        if text is None:
            text = known[id(said)] = behaviour_text(said)
        if text:
            found[row] = text
    return found


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
        "used_gpu_memory_bytes": [facts.memory_used.get(i) for i in order.tolist()]
        if facts.memory_used
        else [None] * len(rows),
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
    for workload in sorted([w for w in workloads if w.parent is not None], key=lambda w: -w.depth):
        if workload.parent is not None:
            above = workload.parent.index
            for column in sums:
                column[above] += column[workload.index]
            started[above] = min(started[above], started[workload.index])
    return Table(WorkloadRow, _workload_columns(workloads, facts, began_us, started.tolist(), sums))


def _workload_columns(
    workloads: Sequence[Workload], facts: Facts, began_us: int, started: list[int], sums: Sequence[Ints]
) -> dict[str, Any]:
    """`started`, `sums` (pods, of them started, succeeded and failed, and GPU time held): by workload."""
    parents = [w.parent for w in workloads]
    pods = sums[0].tolist()
    return {
        "kind": [w.kind for w in workloads],
        "namespace": [w.namespace for w in workloads],
        "name": [w.name for w in workloads],
        "uid": [w.uid for w in workloads],
        "labels": [w.labels for w in workloads],
        "owner_kind": ["" if p is None else p.kind for p in parents],
        "owner_name": ["" if p is None else p.name for p in parents],
        "priority_class": [w.priority_class for w in workloads],
        "queue": [w.queue for w in workloads],
        "created_us": [began_us + w.created for w in workloads],
        "started_us": [None if t == FAR else began_us + t for t in started],
        "finished_us": [None if w.finished == NEVER else began_us + w.finished for w in workloads],
        "deleted_us": [None if w.deleted == NEVER else began_us + w.deleted for w in workloads],
        "outcome": [_outcome(*row) for row in zip(workloads, started, pods, strict=True)],
        "reason": [w.reason for w in workloads],
        "message": [w.message for w in workloads],
        "conditions": [w.conditions for w in workloads],
        "pods": pods,
        "pods_started": sums[1].tolist(),
        "pods_succeeded": sums[2].tolist(),
        "pods_failed": sums[3].tolist(),
        "gpu_milli": _by_row(_gpu_peaks(workloads, facts), 0, len(workloads)),
        "held_gpu_milli_us": sums[4].tolist(),
    }


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
    life = facts.interval_life
    waited = demand.until(facts.interval_end) - demand.until(facts.interval_start)
    held = _sums(life, held_gpu(facts), count)
    held_in_demand = _sums(life, facts.interval_gpu * waited, count)
    used = _sums(life, facts.used, count).tolist()
    tells = _sums(life, facts.tells_use, count).tolist()
    # An interval begins for a pod on a node once; a resize or a node that comes back begins another.
    pairs = np.unique(life * len(facts.gpu) + facts.interval_pod)
    pods = np.bincount(pairs // max(len(facts.gpu), 1), minlength=count).tolist()
    splits = _splits(lives, facts, demand, held, held_in_demand)
    rows = [
        _node_row(node, facts.until, began_us, split, used[i] if tells[i] else None, pods[i])
        for i, (node, split) in enumerate(zip(lives, splits, strict=True))
    ]
    return Table.of(NodeRow, sorted(rows, key=lambda r: (r.name, r.created_us)))


def _splits(
    lives: Sequence[NodeLife], facts: Facts, demand: _Demand, held: Ints, held_in_demand: Ints
) -> list[tuple[int, ...]]:
    """Of each node: GPU time offered, held, idle without demand, idle in demand, idle while closed."""
    count = len(lives)
    offers = [
        (i, o.since, until, o.gpu, o.is_open) for i, n in enumerate(lives) for o, until in _offers(n, facts)
    ]
    life, since, until, gpu, is_open = np.array(offers, np.int64).reshape(-1, 5).T
    offered = gpu * (until - since)
    waited = gpu * (demand.until(until) - demand.until(since))
    shut = is_open == 0
    held_there, waited_there = _Holding(facts, demand, count).within(life[shut], since[shut], until[shut])
    offered_shut = offered[shut] - held_there
    capacity = _sums(life, offered, count)
    closed = _sums(life[shut], offered_shut, count)
    in_demand = (
        _sums(life[~shut], waited[~shut], count) + _sums(life[shut], waited_there, count) - held_in_demand
    )
    columns = (capacity, held, capacity - held - in_demand - closed, in_demand, closed)
    return list(zip(*(c.tolist() for c in columns), strict=True))


def _offers(node: NodeLife, facts: Facts) -> Iterator[tuple[Offer, int]]:
    """What a node offered, each with the time until which it did."""
    ends = [o.since for o in node.offers[1:]]
    return zip(node.offers, [*ends, facts.until if node.deleted < 0 else node.deleted], strict=True)


class _Holding:
    """The intervals of all pods by node, so that a node's are found without a look at all others'."""

    def __init__(self, facts: Facts, demand: _Demand, count: int) -> None:
        order = np.argsort(facts.interval_life, kind="stable")
        self._first = np.searchsorted(facts.interval_life[order], np.arange(count + 1))
        self._start, self._end = facts.interval_start[order], facts.interval_end[order]
        self._gpu = facts.interval_gpu[order]
        self._demand = demand

    def within(self, nodes: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """GPU time held on nodes within a stretch of time each, and the part of it in which GPU pods were waiting."""
        first = self._first[nodes]
        counts = self._first[nodes + 1] - first
        stretch = np.repeat(np.arange(len(nodes)), counts)
        at = first[stretch] + np.arange(len(stretch)) - np.repeat(np.cumsum(counts) - counts, counts)
        since = np.clip(self._start[at], starts[stretch], ends[stretch])
        until = np.clip(self._end[at], starts[stretch], ends[stretch])
        waited = self._demand.until(until) - self._demand.until(since)
        gpu = self._gpu[at]
        return _sums(stretch, gpu * (until - since), len(nodes)), _sums(stretch, gpu * waited, len(nodes))


def _node_row(
    node: NodeLife,
    until: int,
    began_us: int,
    split: tuple[int, ...],
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
