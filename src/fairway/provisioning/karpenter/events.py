"""Karpenter's events, in its words.

Source: provisioning/scheduling/events.go, disruption/events, nodeclaim/lifecycle/events.go, termination events.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.provisioning.karpenter.disruption.commands import Command, dollars
from fairway.provisioning.karpenter.packing import PodRefusal

NORMAL, WARNING = "Normal", "Warning"
COMPONENT = "karpenter"


class KarpenterEvent(NamedTuple):
    """Type, reason and message of an event; about what, its writer knows."""

    type: str
    reason: str
    message: str


def nominated(claim: str = "", node: str = "") -> KarpenterEvent:
    parts = [f"nodeclaim/{claim}"] * bool(claim) + [f"node/{node}"] * bool(node)
    return KarpenterEvent(NORMAL, "Nominated", f"Pod should schedule on: {', '.join(parts)}")


def failed_scheduling(refusal: PodRefusal | str) -> KarpenterEvent:
    return KarpenterEvent(WARNING, "FailedScheduling", f"Failed to schedule pod, {refusal}")


def no_compatible_types(*, min_values: bool) -> KarpenterEvent:
    text = "NodePool requirements filtered out all compatible available instance types"
    more = " due to minValues incompatibility" if min_values else ""
    return KarpenterEvent(WARNING, "NoCompatibleInstanceTypes", text + more)


def insufficient_capacity(claim: str, error: str) -> KarpenterEvent:
    return KarpenterEvent(WARNING, "InsufficientCapacityError", f"NodeClaim {claim} event: {error}")


def spot_interrupted() -> KarpenterEvent:
    """Source: karpenter-provider-aws pkg/controllers/interruption/events; so the next one."""
    return KarpenterEvent(WARNING, "SpotInterrupted", "Spot interruption warning was triggered")


def rebalance_recommended() -> KarpenterEvent:
    text = "Spot rebalance recommendation was triggered"
    return KarpenterEvent(NORMAL, "SpotRebalanceRecommendation", text)


def launching(reason: str) -> KarpenterEvent:
    return KarpenterEvent(NORMAL, "DisruptionLaunching", f"Launching NodeClaim: {reason}")


def waiting_on_readiness() -> KarpenterEvent:
    text = "Waiting on readiness to continue disruption"
    return KarpenterEvent(NORMAL, "DisruptionWaitingReadiness", text)


def terminating(kind: str, reason: str) -> KarpenterEvent:
    """`kind`: Node or NodeClaim."""
    return KarpenterEvent(NORMAL, "DisruptionTerminating", f"Disrupting {kind}: {reason}")


def consolidation_candidate(command: Command, node: str) -> KarpenterEvent:
    text = f"Consolidation candidate: {command.text_for(node)} (savings: {dollars(command.savings)})"
    return KarpenterEvent(NORMAL, "ConsolidationCandidate", text)


def consolidation_rejected(command: Command, node: str, reason: str) -> KarpenterEvent:
    text = f"Consolidation rejected: {command.text_for(node)}, reason: {reason}"
    return KarpenterEvent(NORMAL, "ConsolidationRejected", f"{text} (savings: {dollars(command.savings)})")
