"""What do the gauges say that only Kueue's books know: lines, shares, the tree of quotas?

Source: pkg/cache/queue/metrics.go, pkg/cache/scheduler/clusterqueue.go, cohort_metrics.go.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from fairway.kube.metricfamilies import Sample
from fairway.kube.resources import CPU
from fairway.queueing.control.backlog import Backlog
from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.metrics.observing import LEADER
from fairway.queueing.quota.queueusage import QueueUsageLedger
from fairway.queueing.quota.shares import share_of

ACTIVE, INADMISSIBLE = _STATES = ("active", "inadmissible")


def booked(
    backlog: Backlog,
    usage: QueueUsageLedger | None,
    labels: Mapping[str, Mapping[str, str]],
    role: str = LEADER,
) -> list[Sample]:
    """`usage`: of admission fair sharing. `labels`: of LocalQueues, by key. O(workloads that wait + queues)."""
    backlog.accounts.settle()
    shown = [key for key in backlog.local_queues if backlog.settings.metrics.shows(labels.get(key, {}))]
    out = [*_of_lines(backlog, shown, role), *_of_subtrees(backlog, role)]
    if backlog.settings.metrics.per_cluster_queue_resources:
        out += _of_local_usage(backlog, shown, role)
    if backlog.settings.uses_fair_sharing:
        out += _of_shares(backlog, role)
    if usage is not None:
        out += _of_consumption(backlog, usage, shown, role)
    return out


def _of_lines(backlog: Backlog, shown: list[str], role: str) -> Iterator[Sample]:
    by_local: Counter[tuple[str, str]] = Counter()
    has_hashes = backlog.settings.gates.scheduling_equivalence_hashing
    for name in sorted(backlog.pending.queues):
        waiting = list(_waiting(backlog, name))
        by_local.update((workload.queue, state) for workload, state in waiting)
        counted = Counter(state for _, state in waiting)
        hashes = Counter(state for _, state in {(w.hash, state) for w, state in waiting if w.hash})
        for state in _STATES:
            yield Sample("kueue_pending_workloads", (name, state, role), float(counted[state]))
            if has_hashes:
                yield Sample("kueue_pending_scheduling_hashes", (name, state, role), float(hashes[state]))
        if backlog.settings.metrics.per_cluster_queue_resources:
            asked = {fr.resource: 0 for fr in _quotas(backlog, name)}
            for resource, value in (r for w, _ in waiting for t in w.totals for r in t.requests.items()):
                asked[resource] = asked.get(resource, 0) + value
            for resource in sorted(asked):
                labels = (name, resource, role)
                yield Sample(
                    "kueue_cluster_queue_resource_pending", labels, _number(resource, asked[resource])
                )
    for key in shown:
        namespace, _, local = key.partition("/")
        for state in _STATES:
            labels_of_line = (local, namespace, state, role)
            yield Sample("kueue_local_queue_pending_workloads", labels_of_line, float(by_local[key, state]))


def _waiting(backlog: Backlog, name: str) -> Iterator[tuple[Workload, str]]:
    """Who waits in a ClusterQueue: in one that is inactive nobody is tried."""
    queue = backlog.pending.queues[name]
    is_going = backlog.is_queue_active(name)
    for keys, state in (
        (queue.active(), ACTIVE if is_going else INADMISSIBLE),
        (queue.inadmissible(), INADMISSIBLE),
    ):
        for key in keys:
            pending = queue.get(key)
            if pending is not None:
                yield pending.workload, state


def _quotas(backlog: Backlog, name: str) -> Iterable[FlavorResource]:
    account = backlog.accounts.queues.get(name)
    return () if account is None else account.quotas


def _of_local_usage(backlog: Backlog, shown: list[str], role: str) -> Iterator[Sample]:
    for key in shown:
        namespace, _, name = key.partition("/")
        held = backlog.held_by(key)
        for fr in _quotas(backlog, backlog.local_queues[key].cluster_queue):
            labels = (name, namespace, fr.flavor, fr.resource, role)
            for metric, usage in (("reservation", held.reserved_usage), ("usage", held.admitted_usage)):
                value = _number(fr.resource, usage.get(fr, 0))
                yield Sample(f"kueue_local_queue_resource_{metric}", labels, value)


def _of_subtrees(backlog: Backlog, role: str) -> Iterator[Sample]:
    """What is there, and what is reserved: only what is more than nothing is exported. The accounts are by name."""
    for name, cohort in backlog.accounts.cohorts.items():
        reserved: dict[FlavorResource, int] = {}
        for queue in cohort.subtree_queues():
            for fr, value in queue.usage.items():
                reserved[fr] = reserved.get(fr, 0) + value
        for metric, amounts in (("quota", cohort.subtree), ("resource_reservations", reserved)):
            for fr in sorted(fr for fr, value in amounts.items() if value > 0):
                labels = (name, fr.flavor, fr.resource, role)
                yield Sample(f"kueue_cohort_subtree_{metric}", labels, _number(fr.resource, amounts[fr]))


def _of_consumption(
    backlog: Backlog, usage: QueueUsageLedger, shown: list[str], role: str
) -> Iterator[Sample]:
    for key in shown:
        namespace, _, name = key.partition("/")
        queue = backlog.local_queues[key]
        labels = (name, namespace, queue.cluster_queue, role)
        value = usage.usage(key, queue.fair_weight)
        yield Sample("kueue_local_queue_admission_fair_sharing_usage", labels, value)


def _of_shares(backlog: Backlog, role: str) -> Iterator[Sample]:
    for name, cohort in backlog.accounts.cohorts.items():
        share = share_of(cohort).weighted
        yield Sample("kueue_cohort_weighted_share", (name, role), share)
    if not backlog.settings.metrics.per_cluster_queue_resources:
        return
    for name, queue in backlog.accounts.queues.items():
        share = share_of(queue).weighted
        labels = (name, "" if queue.parent is None else queue.parent.name, role)
        # Borrowing with a weight of zero is no number; a cohort's is infinite (cohort_controller.go).
        yield Sample("kueue_cluster_queue_weighted_share", labels, math.nan if math.isinf(share) else share)


def _number(resource: str, value: int) -> float:
    """Cores, bytes, devices."""
    return value / 1000 if resource == CPU else float(value)
