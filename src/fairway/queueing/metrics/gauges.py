"""What do Kueue's gauges say at a moment? From its objects as they stand; `booked` has what its books alone know.

Source: pkg/metrics/metrics.go; pkg/cache/scheduler/clusterqueue.go, pkg/controller/core (callers).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairway.cluster.actions import View
from fairway.kube import quantity
from fairway.kube.metricfamilies import Sample
from fairway.kube.objects import Obj, labels_of, meta_of, name_of, namespace_of, spec_of, status_of
from fairway.queueing.control.settings import Metrics
from fairway.queueing.facts import conditions as conds
from fairway.queueing.metrics.observing import LEADER

_CLUSTER_QUEUE = "ClusterQueue.kueue.x-k8s.io"
_LOCAL_QUEUE = "LocalQueue.kueue.x-k8s.io"
_COHORT = "Cohort.kueue.x-k8s.io"
_WORKLOAD = "Workload.kueue.x-k8s.io"


def gauges(view: View, metrics: Metrics, role: str = LEADER) -> list[Sample]:
    """All of them, queues by name. O(workloads + local queues)."""
    workloads = view.objects(_WORKLOAD)
    queues = view.objects(_CLUSTER_QUEUE)
    out = [*_of_counts(workloads, queues, role), *_of_places(view, queues, role)]
    out += _of_subtrees(view, workloads, role)
    if metrics.per_cluster_queue_resources:
        out += _of_quotas(queues, role)
        out += _of_usage(workloads, queues, role)
    shown = [q for q in view.objects(_LOCAL_QUEUE) if metrics.shows(labels_of(q))]
    out += _of_local_queues(shown, workloads, role)
    out += _of_unadmitted(view, workloads, shown, role)
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


_COUNTED: tuple[tuple[str, Callable[[Obj], bool]], ...] = (
    ("reserving_active_workloads", lambda w: _holds(w, conds.QUOTA_RESERVED)),
    ("admitted_active_workloads", lambda w: _holds(w, conds.ADMITTED)),
    ("finished_workloads", lambda w: conds.is_true(status_of(w), conds.FINISHED)),
)


def _of_counts(workloads: Sequence[Obj], queues: Sequence[Obj], role: str) -> Iterator[Sample]:
    for metric, does_count in _COUNTED:
        totals = Counter(_queue_of(w) for w in workloads if does_count(w))
        for queue in queues:
            yield Sample(f"kueue_{metric}", (name_of(queue), role), float(totals[name_of(queue)]))


def _of_local_queues(queues: Sequence[Obj], workloads: Sequence[Obj], role: str) -> Iterator[Sample]:
    for metric, does_count in _COUNTED:
        totals = Counter(_local_queue_of(w) for w in workloads if does_count(w))
        for queue in queues:
            labels = (name_of(queue), namespace_of(queue))
            yield Sample(f"kueue_local_queue_{metric}", (*labels, role), float(totals[labels]))
    for queue in queues:
        condition = conds.find(status_of(queue), "Active")
        for status in () if condition is None else ("True", "False", "Unknown"):
            labels = (name_of(queue), namespace_of(queue))
            value = float(status == (condition or {}).get("status"))
            yield Sample("kueue_local_queue_status", (*labels, status, role), value)


def _of_unadmitted(view: View, workloads: Sequence[Obj], shown: Sequence[Obj], role: str) -> Iterator[Sample]:
    """Whoever is not admitted, by why: of ClusterQueues, and of LocalQueues that are shown."""
    leads_to = {
        (name_of(q), namespace_of(q)): str(spec_of(q).get("clusterQueue") or "")
        for q in view.objects(_LOCAL_QUEUE)
    }
    counted: Counter[tuple[str, str, str, str, str]] = Counter()
    for workload in workloads:
        local = _local_queue_of(workload)
        if leads_to.get(local) and not _is_through(workload):
            counted[(*local, leads_to[local], *_why_unadmitted(status_of(workload)))] += 1
    by_queue: Counter[tuple[str, str, str]] = Counter()
    for (_, _, *why), number in counted.items():
        by_queue[why[0], why[1], why[2]] += number
    for queue_why, number in sorted(by_queue.items()):
        yield Sample("kueue_unadmitted_workloads", (*queue_why, role), float(number))
    names = {(name_of(q), namespace_of(q)) for q in shown}
    for labels, number in sorted(counted.items()):
        if labels[:2] in names:
            yield Sample("kueue_local_queue_unadmitted_workloads", (*labels, role), float(number))


def _is_through(workload: Obj) -> bool:
    status = status_of(workload)
    return (
        conds.is_true(status, conds.ADMITTED)
        or conds.is_true(status, conds.FINISHED)
        or "deletionTimestamp" in meta_of(workload)
    )


def _why_unadmitted(status: Mapping[str, Any]) -> tuple[str, str]:
    """Reason, and what lies beneath. Source: pkg/cache/queue/unadmitted_workloads.go."""
    admitted = conds.find(status, conds.ADMITTED)
    reserved = conds.find(status, conds.QUOTA_RESERVED)
    reason = "NoReservation" if admitted is None else str(admitted.get("reason") or "")
    if reserved is None:
        return reason, "PendingEvaluation"
    return reason, "" if reserved.get("status") == conds.TRUE else str(reserved.get("reason") or "")


def _of_subtrees(view: View, workloads: Sequence[Obj], role: str) -> Iterator[Sample]:
    above = cohorts_above(view)
    counted: Counter[str] = Counter()
    for workload in workloads:
        if _holds(workload, conds.ADMITTED):
            counted.update(above.get(_queue_of(workload), ()))
    for cohort in sorted({c for chain in above.values() for c in chain}):
        metric = "kueue_cohort_subtree_admitted_active_workloads"
        yield Sample(metric, (cohort, role), float(counted[cohort]))


def _holds(workload: Obj, kind: str) -> bool:
    status = status_of(workload)
    return conds.is_true(status, kind) and not conds.is_true(status, conds.FINISHED)


def _queue_of(workload: Obj) -> str:
    return str((status_of(workload).get("admission") or {}).get("clusterQueue") or "")


def _local_queue_of(workload: Obj) -> tuple[str, str]:
    return str(spec_of(workload).get("queueName") or ""), namespace_of(workload)


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
