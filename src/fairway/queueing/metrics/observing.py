"""What does an event of Kueue's add to its metrics?

`of_workload` reads them off a Workload's change; cycles and preemptions are told. Counters grow by `value`,
histograms observe it.

Source: pkg/metrics/metrics.go; pkg/scheduler/scheduler.go, pkg/controller/core/workload_controller.go (callers).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fairway.kube.metricfamilies import Sample
from fairway.kube.objects import Obj, meta_of, spec_of, status_of
from fairway.kube.timestamps import parse_rfc3339
from fairway.queueing.cycle.entries import CycleOutcome, Recomputation
from fairway.queueing.facts import conditions as conds
from fairway.queueing.outcomes.events import queued_wait_s

LEADER = "leader"
_US = 1_000_000


def of_cycle(outcome: CycleOutcome, duration_s: float, role: str = LEADER) -> list[Sample]:
    """A cycle of the scheduler: all who were its heads are one attempt."""
    result = "success" if outcome.made_progress else "inadmissible"
    out = [
        Sample("kueue_admission_attempts_total", (result, role), 1),
        Sample("kueue_admission_attempt_duration_seconds", (result, role), duration_s),
    ]
    skips = Counter(o.head.queue for o in outcome.entries if o.skipped_preemption)
    out += [Sample("kueue_admission_cycle_preemption_skips", (q, role), n) for q, n in sorted(skips.items())]
    for one in outcome.entries:
        if one.recomputation != Recomputation.NONE:
            labels = (one.head.queue, str(one.recomputation), role)
            out.append(Sample("kueue_preemption_target_recomputations_total", labels, 1))
    return out


def of_replacement(queue: str, role: str = LEADER) -> list[Sample]:
    """A slice of an elastic job gave way to its successor."""
    return [Sample("kueue_replaced_workload_slices_total", (queue, role), 1)]


def of_preemption(preempting_queue: str, reason: str, role: str = LEADER) -> list[Sample]:
    return [Sample("kueue_preempted_workloads_total", (preempting_queue, reason, role), 1)]


def of_workload(
    old: Obj | None, new: Obj, now_us: int, *, cohorts: Mapping[str, Sequence[str]], role: str = LEADER
) -> list[Sample]:
    """What became true of a Workload. `cohorts`: those above each ClusterQueue, nearest first."""
    was, now = status_of(old or {}), status_of(new)
    out: list[Sample] = []
    subject = _Subject(new, old, role)
    if _became_true(was, now, conds.QUOTA_RESERVED):
        out += subject.counted("quota_reserved_workloads_total")
        out += subject.timed("quota_reserved_wait_time_seconds", queued_wait_s(new, now_us))
    if _became_true(was, now, conds.ADMITTED):
        out += subject.counted("admitted_workloads_total")
        out += subject.timed("admission_wait_time_seconds", queued_wait_s(new, now_us))
        reserved = _since_s(now, conds.QUOTA_RESERVED, now_us)
        out += subject.timed("admission_checks_wait_time_seconds", reserved)
        name = "kueue_cohort_subtree_admitted_workloads_total"
        out += [Sample(name, (c, subject.priority_class, role), 1) for c in cohorts.get(subject.queue, ())]
    if _became_true(was, now, conds.PODS_READY) and conds.is_true(now, conds.ADMITTED):
        out += subject.timed("ready_wait_time_seconds", queued_wait_s(new, now_us))
        out += subject.timed("admitted_until_ready_wait_time_seconds", _since_s(now, conds.ADMITTED, now_us))
    if _became_true(was, now, conds.EVICTED):
        out += _evicted(subject, was, now, now_us)
    if conds.is_true(was, conds.QUOTA_RESERVED) and not conds.is_true(now, conds.QUOTA_RESERVED):
        out += _released(subject, now, now_us)
    if _became_true(was, now, conds.FINISHED) and subject.queue:
        out += subject.counted("finished_workloads_total")
        out += subject.timed("execution_time_seconds", _execution_s(now, now_us))
    return out


class _Subject:
    """Whose samples these are: the labels that come first."""

    def __init__(self, new: Obj, old: Obj | None, role: str) -> None:
        admission = status_of(new).get("admission") or status_of(old or {}).get("admission") or {}
        self.queue: str = admission.get("clusterQueue") or ""
        self.local: tuple[str, str] = (
            spec_of(new).get("queueName") or "",
            meta_of(new).get("namespace") or "",
        )
        reference = spec_of(new).get("priorityClassRef") or {}
        is_own = reference.get("kind") == "WorkloadPriorityClass"
        self.priority_class: str = (reference.get("name") or "") if is_own else ""
        self.role = role

    def counted(self, name: str, *labels: str) -> list[Sample]:
        return self.timed(name, 1, *labels)

    def timed(self, name: str, value: float, *labels: str) -> list[Sample]:
        """Of the ClusterQueue, and the same of the LocalQueue."""
        rest = (*labels, self.priority_class, self.role)
        return [
            Sample(f"kueue_{name}", (self.queue, *rest), value),
            Sample(f"kueue_local_queue_{name}", (*self.local, *rest), value),
        ]


def _became_true(was: Mapping[str, object], now: Mapping[str, object], kind: str) -> bool:
    return conds.is_true(now, kind) and not conds.is_true(was, kind)


def _since_s(status: Mapping[str, object], kind: str, now_us: int) -> float:
    found = conds.find(status, kind)
    return 0.0 if found is None else max(now_us - conds.since_us(found), 0) / _US


def _evicted(
    subject: _Subject, was: Mapping[str, object], now: Mapping[str, object], now_us: int
) -> list[Sample]:
    condition = conds.find(now, conds.EVICTED) or {}
    reason, cause = _split(str(condition.get("reason") or ""))
    out = subject.counted("evicted_workloads_total", reason, cause)
    if _evictions(now, reason, cause) <= 1:
        once = (subject.queue, reason, cause, subject.priority_class, subject.role)
        out.append(Sample("kueue_evicted_workloads_once_total", once, 1))
    if conds.is_true(was, conds.PODS_READY):
        labels = (subject.queue, reason, cause, subject.role)
        ready = _since_s(was, conds.PODS_READY, now_us)
        out.append(Sample("kueue_pods_ready_to_evicted_time_seconds", labels, ready))
    return out


def _split(reason: str) -> tuple[str, str]:
    """`DeactivatedDueToRequeuingLimitExceeded` → its reason and what lies beneath."""
    head, _, cause = reason.partition("DueTo")
    return head, cause


def _evictions(status: Mapping[str, object], reason: str, cause: str) -> int:
    stats = status.get("schedulingStats")
    for entry in (stats.get("evictions") or ()) if isinstance(stats, Mapping) else ():
        if entry.get("reason") == reason and (entry.get("underlyingCause") or "") == cause:
            return int(entry.get("count", 0))
    return 0


def _released(subject: _Subject, now: Mapping[str, object], now_us: int) -> list[Sample]:
    condition = conds.find(now, conds.EVICTED)
    if condition is None or condition.get("status") != conds.TRUE or not subject.queue:
        return []
    reason = _split(str(condition.get("reason") or ""))[0]
    waited = max(now_us - conds.since_us(condition), 0) / _US
    labels = (subject.queue, reason, subject.role)
    return [Sample("kueue_workload_eviction_latency_seconds", labels, waited)]


def _execution_s(status: Mapping[str, object], now_us: int) -> float:
    """All the time it was admitted, over evictions."""
    past = status.get("accumulatedPastExecutionTimeSeconds")
    admitted = conds.find(status, conds.ADMITTED)
    current = 0.0
    if admitted is not None and admitted.get("status") == conds.TRUE:
        current = max(now_us - parse_rfc3339(admitted["lastTransitionTime"]), 0) / _US
    return current + (float(past) if isinstance(past, (int, float)) else 0.0)
