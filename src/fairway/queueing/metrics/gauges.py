"""What do Kueue's gauges say at a moment? From its objects as they stand, and the lines of its queues.

Source: pkg/metrics/metrics.go; pkg/cache/scheduler/clusterqueue.go, pkg/controller/core (callers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fairway.cluster.actions import View
from fairway.kube import quantity
from fairway.kube.metricfamilies import Sample
from fairway.kube.objects import Obj, name_of, namespace_of, spec_of, status_of
from fairway.queueing.facts import conditions as conds
from fairway.queueing.metrics.observing import LEADER

_CLUSTER_QUEUE = "ClusterQueue.kueue.x-k8s.io"
_LOCAL_QUEUE = "LocalQueue.kueue.x-k8s.io"
_COHORT = "Cohort.kueue.x-k8s.io"
_WORKLOAD = "Workload.kueue.x-k8s.io"


class Pending(NamedTuple):
    """How many wait in line, and how many until something changes."""

    active: int
    inadmissible: int


def gauges(
    view: View, pending: Mapping[str, Pending], *, with_resources: bool = True, role: str = LEADER
) -> list[Sample]:
    """All of them, queues by name. `with_resources`: metrics.enableClusterQueueResources. O(workloads)."""
    workloads = view.objects(_WORKLOAD)
    queues = view.objects(_CLUSTER_QUEUE)
    out = [*_of_lines(pending, role), *_of_counts(workloads, queues, role)]
    out += _of_places(view, queues, role)
    if with_resources:
        out += _of_quotas(queues, role)
        out += _of_usage(workloads, queues, role)
    for queue in view.objects(_LOCAL_QUEUE):
        active = (conds.find(status_of(queue), "Active") or {}).get("status", "Unknown")
        for status in ("True", "False", "Unknown"):
            labels = (name_of(queue), namespace_of(queue), status, role)
            out.append(Sample("kueue_local_queue_status", labels, float(status == active)))
    return out


def cohorts_above(view: View) -> dict[str, tuple[str, ...]]:
    """ClusterQueue → the cohorts above it, nearest first; a cycle ends where it closes."""
    parents = {name_of(c): spec_of(c).get("parentName") or "" for c in view.objects(_COHORT)}
    return {
        name_of(q): _chain(spec_of(q).get("cohortName") or "", parents) for q in view.objects(_CLUSTER_QUEUE)
    }


def _chain(name: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    chain: list[str] = []
    while name and name not in chain:
        chain.append(name)
        name = parents.get(name, "")
    return tuple(chain)


def _of_lines(pending: Mapping[str, Pending], role: str) -> Iterator[Sample]:
    for queue in sorted(pending):
        for status, count in pending[queue]._asdict().items():
            yield Sample("kueue_pending_workloads", (queue, status, role), float(count))


def _of_counts(workloads: Sequence[Obj], queues: Sequence[Obj], role: str) -> Iterator[Sample]:
    names = [name_of(q) for q in queues]
    counted: tuple[tuple[str, Callable[[Obj], bool]], ...] = (
        ("kueue_reserving_active_workloads", lambda w: _holds(w, conds.QUOTA_RESERVED)),
        ("kueue_admitted_active_workloads", lambda w: _holds(w, conds.ADMITTED)),
        ("kueue_finished_workloads", lambda w: conds.is_true(status_of(w), conds.FINISHED)),
    )
    for metric, does_count in counted:
        totals = dict.fromkeys(names, 0)
        for workload in workloads:
            queue = _queue_of(workload)
            if queue in totals and does_count(workload):
                totals[queue] += 1
        for name in names:
            yield Sample(metric, (name, role), float(totals[name]))


def _holds(workload: Obj, kind: str) -> bool:
    status = status_of(workload)
    return conds.is_true(status, kind) and not conds.is_true(status, conds.FINISHED)


def _queue_of(workload: Obj) -> str:
    return str((status_of(workload).get("admission") or {}).get("clusterQueue") or "")


def _of_places(view: View, queues: Sequence[Obj], role: str) -> Iterator[Sample]:
    for queue in queues:
        name = name_of(queue)
        is_active = conds.is_true(status_of(queue), "Active")
        is_gone = "deletionTimestamp" in (queue.get("metadata") or {})
        current = "terminating" if is_gone else "active" if is_active else "pending"
        for status in ("pending", "active", "terminating"):
            yield Sample("kueue_cluster_queue_status", (name, status, role), float(status == current))
    for name, chain in cohorts_above(view).items():
        ends = (chain[0], chain[-1]) if chain else ("", "")
        yield Sample("kueue_cluster_queue_info", (name, *ends, role), 1.0)
    parents = {name_of(c): spec_of(c).get("parentName") or "" for c in view.objects(_COHORT)}
    for name, parent in parents.items():
        yield Sample("kueue_cohort_info", (name, parent, _chain(name, parents)[-1], role), 1.0)


def _of_quotas(queues: Sequence[Obj], role: str) -> Iterator[Sample]:
    for queue in queues:
        cohort = spec_of(queue).get("cohortName") or ""
        for flavor, quota in _quotas(queue):
            labels = (cohort, name_of(queue), flavor, quota["name"], role)
            yield Sample("kueue_cluster_queue_nominal_quota", labels, amount(quota.get("nominalQuota", 0)))
            for field, metric in (("borrowingLimit", "borrowing_limit"), ("lendingLimit", "lending_limit")):
                limit = quota.get(field)
                value = math.inf if limit is None else amount(limit)
                yield Sample(f"kueue_cluster_queue_{metric}", labels, value)


def _quotas(queue: Obj) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for group in spec_of(queue).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for quota in flavor.get("resources") or ():
                yield flavor.get("name", ""), quota


def _of_usage(workloads: Iterable[Obj], queues: Sequence[Obj], role: str) -> Iterator[Sample]:
    places = [(name_of(q), f, r["name"]) for q in queues for f, r in _quotas(q)]
    cohorts = {name_of(q): spec_of(q).get("cohortName") or "" for q in queues}
    held = list(workloads)
    for metric, kind in (("reservation", conds.QUOTA_RESERVED), ("usage", conds.ADMITTED)):
        totals = dict.fromkeys(places, 0.0)
        for workload in held:
            if not _holds(workload, kind):
                continue
            for flavor, resource, value in _used(workload):
                place = (_queue_of(workload), flavor, resource)
                if place in totals:
                    totals[place] += value
        for place in places:
            labels = (cohorts[place[0]], *place, role)
            yield Sample(f"kueue_cluster_queue_resource_{metric}", labels, totals[place])


def _used(workload: Obj) -> Iterator[tuple[str, str, float]]:
    admission = status_of(workload).get("admission") or {}
    for assignment in admission.get("podSetAssignments") or ():
        flavors = assignment.get("flavors") or {}
        for resource, value in (assignment.get("resourceUsage") or {}).items():
            yield flavors.get(resource, ""), resource, amount(value)


def amount(value: Any) -> float:
    """A quantity as a number: cores, bytes, devices."""
    return float(quantity.of(value))
