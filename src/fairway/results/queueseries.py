"""What would Kueue and the scheduler have told Prometheus during a run? From the run's tables.

Names and labels are Kueue's (`queueing.metrics`), of the leader. Of a run without Kueue there is only the scheduler's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from fairway.kube.metricfamilies import HISTOGRAM
from fairway.queueing.metrics.families import families
from fairway.recorder.tables import Outcome
from fairway.telemetry.steps import Maker, Stepwise
from fairway.telemetry.store import labels

_KUEUE = {"job": "kueue-metrics", "instance": "kueue-controller-manager:8443", "replica_role": "leader"}
_SCHEDULER = {"job": "kube-scheduler", "instance": "kube-scheduler:10259"}
Change = tuple[dict[str, str], int, float]
"""Labels, when (µs), and by how much."""


def queue_makers(outcome: Outcome) -> dict[str, Maker]:
    """By metric; nothing is worked out until it is asked for."""
    began = outcome.began_us
    makers: dict[str, Maker] = {
        "scheduler_pending_pods": lambda: _summed(
            "scheduler_pending_pods", _SCHEDULER, _unscheduled(outcome), began
        )
    }
    if outcome.queues.is_empty:
        return makers
    gauges: dict[str, Callable[[Outcome], Iterable[Change]]] = {
        "kueue_pending_workloads": _pending,
        "kueue_admitted_active_workloads": _admitted,
        "kueue_reserving_active_workloads": _admitted,
        "kueue_cluster_queue_resource_reservation": _held,
        "kueue_cluster_queue_resource_usage": _held,
        "kueue_cluster_queue_nominal_quota": _nominal,
        "kueue_admitted_workloads_total": partial(_counted, column="admitted_us"),
        "kueue_quota_reserved_workloads_total": partial(_counted, column="reserved_us"),
        "kueue_finished_workloads_total": partial(_counted, column="finished_us"),
        "kueue_evicted_workloads_total": _evicted,
    }
    for name, changes in gauges.items():
        makers[name] = partial(_made, name, changes, outcome)
    for name, column in (
        ("kueue_admission_wait_time_seconds", "admitted_us"),
        ("kueue_quota_reserved_wait_time_seconds", "reserved_us"),
    ):
        assert families()[name].type == HISTOGRAM
        for part in ("bucket", "sum", "count"):
            makers[f"{name}_{part}"] = partial(_waits, name, part, column, outcome)
    return makers


def _made(name: str, changes: Callable[[Outcome], Iterable[Change]], outcome: Outcome) -> Iterator[Stepwise]:
    return _summed(name, _KUEUE, changes(outcome), outcome.began_us)


def _summed(
    name: str, scraped: dict[str, str], changes: Iterable[Change], began_us: int
) -> Iterator[Stepwise]:
    """Changes of each series added up over time, from 0 at the start."""
    by_labels: dict[tuple[tuple[str, str], ...], list[tuple[int, float]]] = {}
    for own, at_us, by in changes:
        by_labels.setdefault(labels(name, {**own, **scraped}), []).append((max(at_us, began_us) // 1000, by))
    for found, steps in sorted(by_labels.items()):
        steps.sort()
        times = np.array([began_us // 1000, *(t for t, _ in steps)], np.int64)
        values = np.cumsum([0.0, *(by for _, by in steps)])
        last = np.append(times[1:] != times[:-1], True)
        yield Stepwise(found, times[last].tolist(), values[last].tolist())


def _unscheduled(outcome: Outcome) -> Iterator[Change]:
    columns = outcome.pods.columns
    names = ("created_us", "scheduled_us", "finished_us", "deleted_us")
    queues = [{"queue": word} for word in ("unschedulable", "active", "backoff", "gated")]
    for queue in queues:
        yield queue, outcome.began_us, 0.0
    for created, scheduled, finished, deleted in zip(*(columns[n] for n in names), strict=True):
        yield queues[0], created, 1.0
        ends = [t for t in (scheduled, finished, deleted) if t is not None]
        if ends:
            yield queues[0], min(ends), -1.0


def _pending(outcome: Outcome) -> Iterator[Change]:
    """While it has no quota: from creation, or from its last eviction."""
    for row in outcome.queues.workloads:
        own = {"cluster_queue": row.cluster_queue, "status": "active"}
        yield own | {"status": "inadmissible"}, row.created_us, 0.0
        yield own, row.created_us, 1.0
        ends = [t for t in (row.reserved_us, row.finished_us, row.deleted_us) if t is not None]
        if ends:
            yield own, min(ends), -1.0
        if (
            row.evicted_us is not None
            and row.reserved_us is not None
            and row.outcome in ("Pending", "Inactive")
        ):
            yield own, row.evicted_us, 1.0


def _admitted(outcome: Outcome) -> Iterator[Change]:
    seen: set[tuple[int, int]] = set()
    for row in outcome.queues.holds:
        # A Workload holds several resources at once, and is one.
        if (row.workload, row.start_us) not in seen:
            seen.add((row.workload, row.start_us))
            own = {"cluster_queue": row.cluster_queue}
            yield own, row.start_us, 1.0
            if row.end_us is not None:
                yield own, row.end_us, -1.0


def _held(outcome: Outcome) -> Iterator[Change]:
    cohorts = {row.cluster_queue: row.cohort.rpartition("/")[2] for row in outcome.queues.quotas}
    for row in outcome.queues.holds:
        own = {
            "cohort": cohorts.get(row.cluster_queue, ""),
            "cluster_queue": row.cluster_queue,
            "flavor": row.flavor,
            "resource": row.resource,
        }
        yield own, row.start_us, float(row.amount)
        if row.end_us is not None:
            yield own, row.end_us, -float(row.amount)


def _nominal(outcome: Outcome) -> Iterator[Change]:
    before: dict[tuple[str, ...], float] = {}
    for row in outcome.queues.quotas:
        key = (row.cohort.rpartition("/")[2], row.cluster_queue, row.flavor, row.resource)
        if before.get(key) != row.nominal:
            own = dict(zip(("cohort", "cluster_queue", "flavor", "resource"), key, strict=True))
            yield own, row.start_us, row.nominal - before.get(key, 0.0)
            before[key] = row.nominal


def _counted(outcome: Outcome, column: str) -> Iterator[Change]:
    for row in outcome.queues.workloads:
        at_us = getattr(row, column)
        if at_us is not None:
            yield {"cluster_queue": row.cluster_queue, "priority_class": row.priority_class}, at_us, 1.0


def _evicted(outcome: Outcome) -> Iterator[Change]:
    for row in outcome.queues.evictions:
        yield {"cluster_queue": row.cluster_queue, "reason": row.reason}, row.time_us, 1.0


def _waits(name: str, part: str, column: str, outcome: Outcome) -> Iterator[Stepwise]:
    """A histogram of waits, from creation to `column`."""
    changes: list[Change] = []
    for row in outcome.queues.workloads:
        at_us = getattr(row, column)
        if at_us is None:
            continue
        own = {"cluster_queue": row.cluster_queue, "priority_class": row.priority_class}
        waited = (at_us - row.created_us) / 1e6
        if part == "bucket":
            for bound in (*families()[name].buckets, float("inf")):
                le = "+Inf" if bound == float("inf") else f"{bound:g}"
                changes.append((own | {"le": le}, at_us, float(waited <= bound)))
        else:
            changes.append((own, at_us, waited if part == "sum" else 1.0))
    return _summed(f"{name}_{part}", _KUEUE, changes, outcome.began_us)
