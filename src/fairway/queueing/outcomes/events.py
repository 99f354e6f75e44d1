"""The events Kueue emits about a decision: type, reason and message, word for word.

Source: pkg/scheduler/scheduler.go (recordQuotaReservationMetrics, recordWorkloadAdmissionEvents,
requeueAndUpdate), pkg/scheduler/preemption/preemption.go (IssuePreemptions), pkg/workload/evict.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fairway.kube.objects import Obj, meta_of, status_of
from fairway.kube.timestamps import parse_rfc3339
from fairway.queueing.cycle.entries import Eviction, Outcome
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.conditions import MAX_EVENT_MESSAGE, NO_TIME_US, truncated
from fairway.queueing.facts.gates import DEFAULT_GATES, FeatureGates
from fairway.queueing.facts.workloads import Workload

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
# The longest duration Go can express, in seconds: 2^63-1 ns.
_LONGEST_S: Final = (2**63 - 1) / 1e9


class Event(NamedTuple):
    """About the workload with this key."""

    key: str
    type: str
    reason: str
    message: str


def admission_events(outcome: Outcome, before: Obj, after: Obj, now_us: int) -> tuple[Event, ...]:
    """`before`, `after`: the Workload as it was and as it is admitted."""
    key = outcome.head.workload.key
    queue = outcome.head.queue
    events = []
    if not conds.is_true(status_of(before), conds.QUOTA_RESERVED):
        message = (
            f"Quota reserved in ClusterQueue {queue}, wait time since queued was "
            f"{queued_wait_s(after, now_us):.0f}s"
        )
        if outcome.considered:
            message += f"; Flavors considered: {outcome.considered}"
        events.append(Event(key, NORMAL, "QuotaReserved", truncated(message, MAX_EVENT_MESSAGE)))
    is_admitted = conds.is_true(status_of(after), conds.ADMITTED)
    if is_admitted and not status_of(before).get("unhealthyNodes"):
        message = f"Admitted by ClusterQueue {queue}, wait time since reservation was 0s"
        events.append(Event(key, NORMAL, "Admitted", message))
    return tuple(events)


def queued_wait_s(obj: Obj, now_us: int) -> float:
    """Since it was created, or requeued after an eviction."""
    requeued = conds.find(status_of(obj), conds.REQUEUED)
    if requeued is not None:
        since = conds.since_us(requeued)
    else:
        created = meta_of(obj).get("creationTimestamp")
        since = parse_rfc3339(created) if created else NO_TIME_US
    return min((now_us - since) / 1e6, _LONGEST_S)


def pending_event(outcome: Outcome, gates: FeatureGates = DEFAULT_GATES) -> Event:
    reason = outcome.reason if gates.unadmitted_workloads_observability else "Pending"
    message = truncated(outcome.message, MAX_EVENT_MESSAGE)
    return Event(outcome.head.workload.key, WARNING, reason, message)


def eviction_events(eviction: Eviction, preemptor_queue: str) -> tuple[Event, ...]:
    """Of a preemption, or of an eviction for another reason where there is no preemptor."""
    victim, preemptor = eviction.workload, eviction.preemptor
    if preemptor is None:
        return (evicted_event(victim.key, eviction.reason, eviction.message),)
    ranks = f"preemptor {_priorities(preemptor)}; preemptee {_priorities(victim)}"
    done = (
        f"Preempted workload {victim.key} (UID: {victim.uid}) in ClusterQueue {victim.cluster_queue}; {ranks}"
    )
    return (
        evicted_event(victim.key, conds.EVICTED_BY_PREEMPTION, eviction.message),
        Event(victim.key, NORMAL, "Preempted", f"{eviction.message}; {ranks}"),
        Event(preemptor.key, NORMAL, "PreemptedWorkload", done),
    )


def evicted_event(key: str, reason: str, message: str, *, cause: str = "") -> Event:
    full = f"EvictedDueTo{reason}"
    if reason == "Deactivated" and cause:
        full += f"DueTo{cause}"
    return Event(key, NORMAL, full, truncated(message, MAX_EVENT_MESSAGE))


def _priorities(workload: Workload) -> str:
    boost = workload.priority - workload.base_priority
    return f"effective priority: {workload.priority} (base: {workload.base_priority}, boost: {boost})"
