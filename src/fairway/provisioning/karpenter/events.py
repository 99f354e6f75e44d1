"""Karpenter's events, in its words.

Source: provisioning/scheduling/events.go, disruption/events, nodeclaim/lifecycle/events.go, termination events.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fairway.kube.timestamps import MINUTE_US
from fairway.provisioning.karpenter.disruption.commands import Command, dollars
from fairway.provisioning.karpenter.disruption.context import UNCONSOLIDATABLE, Notice
from fairway.provisioning.karpenter.packing import PodRefusal
from fairway.provisioning.karpenter.why import wrapped

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
NOMINATED: Final = "Nominated"
FAILED_SCHEDULING: Final = "FailedScheduling"
# Why pods go from a node whose claim was deleted for no reason of Karpenter's.
FORCEFUL: Final = "Forceful Termination"
COMPONENT: Final = "karpenter"


class KarpenterEvent(NamedTuple):
    """Type, reason and message of an event; about what, its writer knows.

    `distinct`: what beside its reason and object makes it another event; one that is not is not said again within
    `quiet_us`.
    """

    type: str
    reason: str
    message: str
    distinct: tuple[str, ...] = ()
    quiet_us: int = 2 * MINUTE_US


def nominated(claim: str = "", node: str = "") -> KarpenterEvent:
    parts = [f"nodeclaim/{claim}"] * bool(claim) + [f"node/{node}"] * bool(node)
    return KarpenterEvent(NORMAL, NOMINATED, f"Pod should schedule on: {', '.join(parts)}")


def failed_scheduling(refusal: PodRefusal | str) -> KarpenterEvent:
    text = f"Failed to schedule pod, {refusal}"
    return KarpenterEvent(WARNING, FAILED_SCHEDULING, text, quiet_us=5 * MINUTE_US)


def no_compatible_types(*, min_values: bool) -> KarpenterEvent:
    text = "NodePool requirements filtered out all compatible available instance types"
    more = " due to minValues incompatibility" if min_values else ""
    return KarpenterEvent(WARNING, "NoCompatibleInstanceTypes", text + more, quiet_us=MINUTE_US)


def insufficient_capacity(claim: str, error: str) -> KarpenterEvent:
    return KarpenterEvent(WARNING, "InsufficientCapacityError", f"NodeClaim {claim} event: {error}")


def spot_interrupted() -> KarpenterEvent:
    """Source: karpenter-provider-aws pkg/controllers/interruption/events; so the next one."""
    return KarpenterEvent(WARNING, "SpotInterrupted", "Spot interruption warning was triggered")


def rebalance_recommended() -> KarpenterEvent:
    text = "Spot rebalance recommendation was triggered"
    return KarpenterEvent(NORMAL, "SpotRebalanceRecommendation", text)


def noticed(notice: Notice) -> KarpenterEvent:
    """Why a node, or a NodePool's nodes, may not go."""
    if notice.reason == UNCONSOLIDATABLE:
        return KarpenterEvent(NORMAL, notice.reason, notice.message, quiet_us=15 * MINUTE_US)
    if notice.about.startswith("NodePool/"):
        return KarpenterEvent(NORMAL, notice.reason, notice.message, (notice.message,), MINUTE_US)
    return KarpenterEvent(NORMAL, notice.reason, notice.message)


def launching(reason: str) -> KarpenterEvent:
    return KarpenterEvent(NORMAL, "DisruptionLaunching", f"Launching NodeClaim: {reason}", (reason,))


def waiting_on_readiness() -> KarpenterEvent:
    text = "Waiting on readiness to continue disruption"
    return KarpenterEvent(NORMAL, "DisruptionWaitingReadiness", text)


def terminating(kind: str, reason: str) -> KarpenterEvent:
    """`kind`: Node or NodeClaim."""
    return KarpenterEvent(NORMAL, "DisruptionTerminating", f"Disrupting {kind}: {reason}", (reason,))


def consolidation_candidate(command: Command, node: str) -> KarpenterEvent:
    what = command.text_for(node)
    text = f"Consolidation candidate: {what} (savings: {dollars(command.savings)})"
    return KarpenterEvent(NORMAL, "ConsolidationCandidate", text, (what,))


def consolidation_rejected(command: Command, node: str, reason: str) -> KarpenterEvent:
    what = command.text_for(node)
    text = f"Consolidation rejected: {what}, reason: {reason} (savings: {dollars(command.savings)})"
    return KarpenterEvent(NORMAL, "ConsolidationRejected", text, (what, reason))


def evicted(reason: str) -> KarpenterEvent:
    """`reason`: of the disruption; a claim that was deleted otherwise has none."""
    return KarpenterEvent(NORMAL, "Evicted", f"Evicted pod: {reason or FORCEFUL}")


def waiting_for_pods(pods: int) -> KarpenterEvent:
    text = f"Failed to drain node, {pods} pods are waiting to be evicted"
    return KarpenterEvent(WARNING, "FailedDraining", text)


def eviction_refused(namespace: str, name: str, *, several: bool) -> KarpenterEvent:
    text = "eviction does not support multiple PDBs" if several else "evicting pod violates a PDB"
    about = wrapped(text, Pod=f"{namespace}/{name}")
    return KarpenterEvent(WARNING, "FailedDraining", f"Failed to drain node, {about}")


def grace_period_expiring(until: str) -> KarpenterEvent:
    """About the node and its claim. `until`: RFC 3339."""
    text = f"All pods will be deleted by {until}"
    return KarpenterEvent(WARNING, "TerminationGracePeriodExpiring", text)


def deleted(until: str, grace_s: int, own_grace_s: int) -> KarpenterEvent:
    """A pod that does not wait for its budget any more."""
    text = (
        f"Deleting the pod to accommodate the terminationTime {until} of the node. The pod was granted {grace_s} "
        f"seconds of grace-period of its {own_grace_s} terminationGracePeriodSeconds. This bypasses the PDB of the "
        "pod and the do-not-disrupt annotation."
    )
    return KarpenterEvent(NORMAL, "Disrupted", text)
