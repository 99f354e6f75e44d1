"""Reading and writing `status.conditions`, and the reasons Kueue writes into them.

Source: apimachinery meta.SetStatusCondition; apis/kueue/v1beta2/workload_types.go; pkg/util/api.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairway.kube.timestamps import parse_rfc3339, rfc3339

Condition = dict[str, Any]

# Final here and elsewhere: compiled code then has the word itself, not two look-ups by its name.
QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
REQUEUED: Final = "Requeued"
FINISHED: Final = "Finished"
PODS_READY: Final = "PodsReady"
BLOCKED_ON_PREEMPTION_GATES: Final = "BlockedOnPreemptionGates"
WAITING_FOR_REPLACEMENT_PODS: Final = "WaitingForReplacementPods"

TRUE: Final = "True"
FALSE: Final = "False"

# Reasons of QuotaReserved=False.
NO_MATCHING_FLAVOR: Final = "NoMatchingFlavor"
WAITING_FOR_QUOTA: Final = "WaitingForQuota"
EXCEEDS_MAX_QUOTA: Final = "ExceedsMaxQuota"
TOPOLOGY_PLACEMENT_FAILED: Final = "TopologyPlacementFailed"
WAITING_FOR_PREEMPTED_WORKLOADS: Final = "WaitingForPreemptedWorkloads"
MISCONFIGURED: Final = "Misconfigured"
SUSPENDED: Final = "Suspended"
PENDING_EVALUATION: Final = "PendingEvaluation"
WAITING_FOR_PODS_READY: Final = "WaitingForPodsReady"
ADMISSION_GATED: Final = "AdmissionGated"
ON_HOLD: Final = "OnHold"

# Reasons of Evicted=True.
EVICTED_BY_PREEMPTION: Final = "Preempted"
EVICTED_BY_PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
EVICTED_BY_ADMISSION_CHECK: Final = "AdmissionCheck"
EVICTED_BY_NODE_FAILURES: Final = "NodeFailures"
EVICTED_BY_FLAVOR_MIGRATION: Final = "FlavorMigration"

# Reasons of Preempted=True.
IN_CLUSTER_QUEUE: Final = "InClusterQueue"
IN_COHORT_RECLAMATION: Final = "InCohortReclamation"
IN_COHORT_FAIR_SHARING: Final = "InCohortFairSharing"
IN_COHORT_RECLAIM_WHILE_BORROWING: Final = "InCohortReclaimWhileBorrowing"

# Reason of Finished=True where the next slice of an elastic job took over.
SLICE_REPLACED: Final = "WorkloadSliceReplaced"

MAX_CONDITION_MESSAGE: Final = 32 * 1024
MAX_EVENT_MESSAGE: Final = 1024
# A time before every other: what Go calls the zero time.
NO_TIME_US: Final = -62_135_596_800 * 1_000_000


def find(status: Mapping[str, Any], kind: str) -> Condition | None:
    conditions: list[Condition] | None = status.get("conditions")
    if conditions:
        for condition in conditions:
            if condition["type"] == kind:
                return condition
    return None


def is_true(status: Mapping[str, Any], kind: str) -> bool:
    # As `find`, without the call: asked a dozen times for every change of a Workload.
    conditions: list[Condition] | None = status.get("conditions")
    if conditions:
        for condition in conditions:
            if condition["type"] == kind:
                return bool(condition["status"] == TRUE)
    return False


def is_false(status: Mapping[str, Any], kind: str) -> bool:
    condition = find(status, kind)
    return condition is not None and condition.get("status") == FALSE


def since_us(condition: Mapping[str, Any]) -> int:
    """When it last changed."""
    text = condition.get("lastTransitionTime")
    return parse_rfc3339(text) if text else NO_TIME_US


def with_condition(
    conditions: list[Condition],
    kind: str,
    status: str,
    *,
    reason: str,
    message: str,
    now_us: int,
    generation: int = 0,
) -> list[Condition]:
    """The list with this condition set; its time changes only when its status does. The same list where it is."""
    for index, old in enumerate(conditions):
        if old.get("type") == kind:
            since = old.get("lastTransitionTime") if old.get("status") == status else rfc3339(now_us)
            new = _condition(kind, status, since, reason, message, generation)
            return conditions if new == old else [*conditions[:index], new, *conditions[index + 1 :]]
    return [*conditions, _condition(kind, status, rfc3339(now_us), reason, message, generation)]


def _condition(
    kind: str, status: str, since: str | None, reason: str, message: str, generation: int
) -> Condition:
    new: Condition = {
        "type": kind,
        "status": status,
        "lastTransitionTime": since,
        "reason": reason,
        "message": truncated(message, MAX_CONDITION_MESSAGE),
    }
    if generation:
        new["observedGeneration"] = generation
    return new


def truncated(message: str, limit: int) -> str:
    return message if len(message) <= limit else message[: limit - 4] + " ..."
