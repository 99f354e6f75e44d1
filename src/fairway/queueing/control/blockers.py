"""Why can a Workload without quota not even be tried? The words of QuotaReserved=False outside of a cycle.

Source: pkg/controller/core/workload_controller.go resolveGranularUnadmittedQuotaReservedCondition,
getQueueBlocker, shouldCheckEquivalenceHash.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fairway.kube.objects import Obj, annotations_of, spec_of, status_of
from fairway.queueing.cycle.admissibility import Namespaces, inadmissible
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.gates import FeatureGates
from fairway.queueing.facts.objects import NO_STOP, ClusterQueue, LocalQueue
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.facts.workloadstate import ADMISSION_GATED_BY, is_active, is_on_hold

BYPASSED: Final = "Bypassed scheduling evaluation because an equivalent workload recently failed"
EVALUATING: Final = "Workload is pending evaluation in the scheduling queue"

# Reasons a cycle gave: they stay until the next one.
_OF_A_CYCLE: Final = (
    conds.WAITING_FOR_QUOTA,
    conds.NO_MATCHING_FLAVOR,
    conds.EXCEEDS_MAX_QUOTA,
    conds.TOPOLOGY_PLACEMENT_FAILED,
    conds.WAITING_FOR_PREEMPTED_WORKLOADS,
    conds.WAITING_FOR_PODS_READY,
    conds.PENDING_EVALUATION,
)
# Reasons after which an equal Workload's refusal tells more.
_STALE: Final = ("", "Deactivated", conds.PENDING_EVALUATION, conds.SUSPENDED, "Pending")


class Blocker(NamedTuple):
    """Reason and message of QuotaReserved=False."""

    reason: str
    message: str


class QueueFacts:
    """`cluster_queue_name`: of the LocalQueue, where that is there. `refused`: why an equal one just failed."""

    def __init__(
        self,
        local_queue: LocalQueue | None,
        cluster_queue: ClusterQueue | None,
        is_cluster_queue_active: bool,
        cluster_queue_name: str,
        refused: str | None,
    ) -> None:
        self.local_queue = local_queue
        self.cluster_queue = cluster_queue
        self.is_cluster_queue_active = is_cluster_queue_active
        self.cluster_queue_name = cluster_queue_name
        self.refused = refused


def blocker_of(
    obj: Obj, workload: Workload, queues: QueueFacts, namespaces: Namespaces, gates: FeatureGates
) -> Blocker | None:
    """None: there is nothing to say (yet)."""
    if not gates.unadmitted_workloads_observability:
        blocked = queue_blocker(obj, queues)
        return None if blocked is None else Blocker("Inadmissible", blocked.message)
    condition = conds.find(status_of(obj), conds.QUOTA_RESERVED)
    reason = "" if condition is None else condition.get("reason") or ""
    if not is_active(obj):
        return Blocker("Deactivated", "The workload is deactivated")
    if is_on_hold(obj) and condition is not None:
        return Blocker(reason, condition.get("message") or "")
    blocked = queue_blocker(obj, queues)
    if blocked is not None:
        return blocked
    if queues.cluster_queue is not None:
        problem = inadmissible(workload, queues.cluster_queue.namespace_selector, namespaces)
        if problem is not None:
            return Blocker(conds.MISCONFIGURED, problem.message)
    gate = annotations_of(obj).get(ADMISSION_GATED_BY)
    if gates.admission_gated_by and gate:
        return Blocker(conds.ADMISSION_GATED, f"Admission is gated by: {gate}")
    asks_equals = gates.scheduling_equivalence_hashing and (
        gates.unadmitted_workloads_explicit_status if condition is None else reason in _STALE
    )
    if asks_equals and queues.refused is not None:
        return Blocker(queues.refused, BYPASSED)
    if condition is not None and reason in _OF_A_CYCLE:
        return Blocker(reason, condition.get("message") or "")
    if condition is None and not gates.unadmitted_workloads_explicit_status:
        return None
    return Blocker(conds.PENDING_EVALUATION, EVALUATING)


def queue_blocker(obj: Obj, queues: QueueFacts) -> Blocker | None:
    """A queue that is missing or stopped."""
    name = spec_of(obj).get("queueName") or ""
    if queues.local_queue is None:
        return Blocker(conds.MISCONFIGURED, f"LocalQueue {name} doesn't exist")
    if queues.local_queue.stop_policy != NO_STOP:
        return Blocker(conds.SUSPENDED, f"LocalQueue {name} is inactive")
    if queues.cluster_queue is None:
        return Blocker(conds.MISCONFIGURED, f"ClusterQueue {queues.cluster_queue_name} doesn't exist")
    if not queues.is_cluster_queue_active:
        return Blocker(conds.SUSPENDED, f"ClusterQueue {queues.cluster_queue.name} is inactive")
    return None
