"""What a Workload's status says after a decision. Functions from object to object, word for word as Kueue.

Source: pkg/workload/workload.go (SetQuotaReservation, UnsetQuotaReservationWithCondition, SetPreemptedCondition),
admissionchecks.go (SyncAdmittedCondition), pkg/workload/evict/evict.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairway.kube.objects import Obj, meta_of, status_of
from fairway.kube.timestamps import rfc3339
from fairway.queueing.cycle.entries import Eviction, Outcome, Status
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.amounts import amount_text
from fairway.queueing.facts.conditions import Condition, with_condition
from fairway.queueing.facts.gates import DEFAULT_GATES, FeatureGates
from fairway.queueing.facts.objects import ClusterQueue
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.facts.workloadstate import check_states, has_pending_topology

_US_PER_S: Final = 1_000_000
_ENDED_BY_ADMISSION: Final = (conds.EVICTED, conds.PREEMPTED, conds.BLOCKED_ON_PREEMPTION_GATES)


def pending(obj: Obj, outcome: Outcome, now_us: int, gates: FeatureGates = DEFAULT_GATES) -> Obj:
    """Not admitted: why not, and what it asks for."""
    reason = outcome.reason if gates.unadmitted_workloads_observability else "Pending"
    changed = without_quota(obj, reason, outcome.message, now_us, gates)
    status = dict(status_of(changed))
    status["resourceRequests"] = resource_requests(outcome.head.workload)
    if outcome.status == Status.PREEMPTION_GATED:
        status["conditions"] = with_condition(
            status.get("conditions") or [],
            conds.BLOCKED_ON_PREEMPTION_GATES,
            conds.TRUE,
            reason="PreemptionGated",
            message=outcome.message,
            now_us=now_us,
            generation=_generation(obj),
        )
    return {**obj, "status": status}


def without_quota(
    obj: Obj, reason: str, message: str, now_us: int, gates: FeatureGates = DEFAULT_GATES
) -> Obj:
    """It holds no quota, for this reason."""
    status = dict(status_of(obj))
    status["conditions"] = with_condition(
        status.get("conditions") or [],
        conds.QUOTA_RESERVED,
        conds.FALSE,
        reason=reason,
        message=message,
        now_us=now_us,
        generation=_generation(obj),
    )
    status.pop("admission", None)
    return with_admitted_synced({**obj, "status": status}, now_us, gates)


def resource_requests(workload: Workload) -> list[dict[str, Any]]:
    """`status.resourceRequests`: what quota counts, per pod set."""
    written: list[dict[str, Any]] = []
    for total in workload.totals:
        entry: dict[str, Any] = {"name": total.name}
        if total.requests:
            entry["resources"] = {n: amount_text(n, v) for n, v in total.requests.items()}
        written.append(entry)
    return written


def admitted(
    obj: Obj,
    admission: Mapping[str, Any],
    queue: ClusterQueue,
    now_us: int,
    gates: FeatureGates = DEFAULT_GATES,
) -> Obj:
    """Quota is reserved; admitted too where no admission check stands between."""
    status = dict(status_of(obj))
    status["admission"] = dict(admission)
    generation = _generation(obj)
    conditions = with_condition(
        status.get("conditions") or [],
        conds.QUOTA_RESERVED,
        conds.TRUE,
        reason="QuotaReserved",
        message=f"Quota reserved in ClusterQueue {admission['clusterQueue']}",
        now_us=now_us,
        generation=generation,
    )
    for old in conditions:
        if old["type"] in _ENDED_BY_ADMISSION and old.get("status") == conds.TRUE:
            conditions = with_condition(
                conditions,
                old["type"],
                conds.FALSE,
                reason="QuotaReserved",
                message=f"Previously: {old.get('message', '')}",
                now_us=now_us,
                generation=generation,
            )
    status["conditions"] = conditions
    status.pop("unhealthyNodes", None)
    # What was assigned says it now.
    status.pop("resourceRequests", None)
    changed = {**obj, "status": status}
    if not queue.admission_checks or has_all_required_checks(changed, queue):
        return with_admitted_synced(changed, now_us, gates)
    return changed


def required_checks(admission: Mapping[str, Any], queue: ClusterQueue) -> tuple[str, ...]:
    """Checks that apply to the flavors assigned."""
    flavors = {
        f for ps in admission.get("podSetAssignments") or () for f in (ps.get("flavors") or {}).values()
    }
    return tuple(name for name, on in sorted(queue.admission_checks.items()) if not flavors.isdisjoint(on))


def has_all_required_checks(obj: Obj, queue: ClusterQueue) -> bool:
    status = status_of(obj)
    present = {c["name"] for c in status.get("admissionChecks") or ()}
    return all(name in present for name in required_checks(status.get("admission") or {}, queue))


def with_admitted_synced(obj: Obj, now_us: int, gates: FeatureGates = DEFAULT_GATES) -> Obj:
    """The condition Admitted follows from quota, checks and topology."""
    status = status_of(obj)
    has_quota = conds.is_true(status, conds.QUOTA_RESERVED)
    checks_ready = all(s == "Ready" for s in check_states(obj))
    topology_ready = not has_pending_topology(obj)
    was_admitted = conds.is_true(status, conds.ADMITTED)
    is_admitted = has_quota and checks_ready and topology_ready
    if gates.unadmitted_workloads_observability:
        has_either = any(conds.find(status, k) is not None for k in (conds.QUOTA_RESERVED, conds.ADMITTED))
        if not has_either and not gates.unadmitted_workloads_explicit_status:
            return obj
    elif was_admitted == is_admitted:
        return obj
    reason, message = _admitted_reason(gates, has_quota, checks_ready, topology_ready)
    changed = dict(status)
    old = conds.find(status, conds.ADMITTED)
    if was_admitted and not is_admitted and old is not None:
        ran_s = (now_us - conds.since_us(old)) // _US_PER_S
        past = status.get("accumulatedPastExecutionTimeSeconds") or 0
        changed["accumulatedPastExecutionTimeSeconds"] = past + ran_s
    changed["conditions"] = with_condition(
        status.get("conditions") or [],
        conds.ADMITTED,
        conds.TRUE if is_admitted else conds.FALSE,
        reason=reason,
        message=message,
        now_us=now_us,
        generation=_generation(obj),
    )
    return {**obj, "status": changed}


def _admitted_reason(
    gates: FeatureGates, has_quota: bool, checks_ready: bool, topology_ready: bool
) -> tuple[str, str]:
    observable = gates.unadmitted_workloads_observability
    if not has_quota:
        if checks_ready or observable:
            return "NoReservation", "The workload has no reservation"
        return "NoReservationUnsatisfiedChecks", "The workload has no reservation and not all checks ready"
    if not checks_ready:
        reason = "UnsatisfiedAdmissionChecks" if observable else "UnsatisfiedChecks"
        return reason, "The workload has not all checks ready"
    if not topology_ready:
        return "PendingDelayedTopologyRequests", "There are pending delayed topology requests"
    return "Admitted", "The workload is admitted"


def preempted(obj: Obj, eviction: Eviction, now_us: int) -> Obj:
    """Evicted because a workload more entitled needs the quota."""
    status = dict(status_of(obj))
    status["conditions"] = with_condition(
        status.get("conditions") or [],
        conds.PREEMPTED,
        conds.TRUE,
        reason=eviction.reason,
        message=eviction.message,
        now_us=now_us,
    )
    changed = {**obj, "status": status}
    return evicted(changed, conds.EVICTED_BY_PREEMPTION, eviction.message, now_us)


def evicted(obj: Obj, reason: str, message: str, now_us: int, *, cause: str = "") -> Obj:
    """It has to give its quota back once its pods are gone.

    `cause` adds to a deactivation why: the reason then reads `DeactivatedDueTo…`.
    """
    status = dict(status_of(obj))
    generation = _generation(obj)
    full_reason = f"{reason}DueTo{cause}" if reason == "Deactivated" and cause else reason
    conditions: list[Condition] = with_condition(
        status.get("conditions") or [],
        conds.EVICTED,
        conds.TRUE,
        reason=full_reason,
        message=message,
        now_us=now_us,
        generation=generation,
    )
    if conds.is_true({"conditions": conditions}, conds.BLOCKED_ON_PREEMPTION_GATES):
        conditions = with_condition(
            conditions,
            conds.BLOCKED_ON_PREEMPTION_GATES,
            conds.FALSE,
            reason=full_reason,
            message=message,
            now_us=now_us,
            generation=generation,
        )
    status["conditions"] = conditions
    for field in ("clusterName", "nominatedClusterNames", "unhealthyNodes"):
        status.pop(field, None)
    if status.get("admissionChecks"):
        status["admissionChecks"] = [_check_reset(c, now_us) for c in status["admissionChecks"]]
    if status.get("preemptionGates"):
        closed = {"position": "Closed", "lastTransitionTime": rfc3339(now_us)}
        status["preemptionGates"] = [{**gate, **closed} for gate in status["preemptionGates"]]
    status["schedulingStats"] = _with_eviction_counted(status.get("schedulingStats") or {}, reason, cause)
    return {**obj, "status": status}


def finished(obj: Obj, reason: str, message: str, now_us: int) -> Obj:
    """It is over, for this reason."""
    status = dict(status_of(obj))
    status["conditions"] = with_condition(
        status.get("conditions") or [],
        conds.FINISHED,
        conds.TRUE,
        reason=reason,
        message=message,
        now_us=now_us,
        generation=_generation(obj),
    )
    return {**obj, "status": status}


def slice_replaced(old: Obj, by: Workload, now_us: int) -> Obj:
    """A slice of an elastic job makes way for the next one."""
    return finished(old, conds.SLICE_REPLACED, replaced_message(by), now_us)


def replaced_message(by: Workload) -> str:
    return (
        f"Replaced to accommodate a workload (UID: {by.uid}, JobUID: {by.job_uid}) "
        "due to workload slice aggregation"
    )


def _check_reset(check: Mapping[str, Any], now_us: int) -> dict[str, Any]:
    state = check.get("state")
    if state == "Pending":
        return dict(check)
    reset: dict[str, Any] = {
        "name": check.get("name"),
        "state": "Pending",
        "message": f"Reset to Pending after eviction. Previously: {state}",
        "lastTransitionTime": rfc3339(now_us),
    }
    if check.get("requeueAfterSeconds") is not None:
        reset["requeueAfterSeconds"] = check["requeueAfterSeconds"]
    if state == "Retry":
        reset["retryCount"] = int(check.get("retryCount") or 0) + 1
    return reset


def _with_eviction_counted(stats: Mapping[str, Any], reason: str, cause: str) -> dict[str, Any]:
    evictions = [dict(e) for e in stats.get("evictions") or ()]
    for entry in evictions:
        if entry.get("reason") == reason and (entry.get("underlyingCause") or "") == cause:
            entry["count"] = int(entry.get("count") or 0) + 1
            return {**stats, "evictions": evictions}
    evictions.append({"reason": reason, "underlyingCause": cause, "count": 1})
    return {**stats, "evictions": evictions}


def _generation(obj: Obj) -> int:
    return int(meta_of(obj).get("generation") or 0)
