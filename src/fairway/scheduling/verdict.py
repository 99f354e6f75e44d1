"""What a scheduling cycle decided, and why: frozen data.

Reasons and their words are kube-scheduler's own; a "no" carries the counts per reason, which plugins said no
(they decide which events are worth another try) and whether a preemption was found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import Final, NamedTuple

from fairway.kube.objects import Key
from fairway.scheduling.extenders import EXTENDER


@unique
class Refusal(IntEnum):
    """Why a node was refused, in the order the default profile's filters run."""

    NONE = 0
    NODE_UNSCHEDULABLE = 1
    NODE_NAME = 2
    TAINT = 3
    NODE_AFFINITY = 4
    NODE_AFFINITY_ENFORCED = 5
    NODE_PORTS = 6
    FIT = 7
    GPU_SHARE = 8
    VOLUME_HELD = 9
    VOLUME_LIMIT = 10
    VOLUME_GONE = 11
    VOLUME_AFFINITY = 12
    VOLUME_BIND = 13
    VOLUME_ZONE = 14
    SPREAD_LABEL = 15
    SPREAD_SKEW = 16
    POD_AFFINITY = 17
    POD_ANTI_AFFINITY = 18
    EXISTING_ANTI_AFFINITY = 19
    DEVICES_STALE = 20
    DEVICES = 21
    DEVICES_INVALID = 22
    CLAIM_UNAVAILABLE = 23
    EXTENDER = 24
    DEVICES_LATE = 25


# Source: the ErrReason constants of each plugin, kube-scheduler v1.36. FIT composes its own, extenders say theirs.
REASONS: Final[dict[Refusal, str]] = {
    Refusal.NODE_UNSCHEDULABLE: "node(s) were unschedulable",
    Refusal.NODE_NAME: "node(s) didn't match the requested node name",
    Refusal.TAINT: "node(s) had untolerated taint(s)",
    Refusal.NODE_AFFINITY: "node(s) didn't match Pod's node affinity/selector",
    Refusal.NODE_AFFINITY_ENFORCED: "node(s) didn't match scheduler-enforced node affinity",
    Refusal.NODE_PORTS: "node(s) didn't have free ports for the requested pod ports",
    Refusal.GPU_SHARE: "node(s) had no GPU with enough free capacity",
    Refusal.VOLUME_HELD: "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
    Refusal.VOLUME_LIMIT: "node(s) exceed max volume count",
    Refusal.VOLUME_GONE: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    Refusal.VOLUME_AFFINITY: "node(s) didn't match PersistentVolume's node affinity",
    Refusal.VOLUME_BIND: "node(s) didn't find available persistent volumes to bind",
    Refusal.VOLUME_ZONE: "node(s) had no available volume zone",
    Refusal.SPREAD_LABEL: "node(s) didn't match pod topology spread constraints (missing required label)",
    Refusal.SPREAD_SKEW: "node(s) didn't match pod topology spread constraints",
    Refusal.POD_AFFINITY: "node(s) didn't match pod affinity rules",
    Refusal.POD_ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    Refusal.EXISTING_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
    Refusal.DEVICES_STALE: "cannot schedule extended resource claim",
    Refusal.DEVICES: "cannot allocate all claims",
    Refusal.DEVICES_INVALID: "invalid resource pools were encountered",
    Refusal.DEVICES_LATE: "timed out trying to allocate devices",
    Refusal.CLAIM_UNAVAILABLE: "resourceclaim not available on the node",
}

PLUGINS: Final[dict[Refusal, str]] = {
    Refusal.NODE_UNSCHEDULABLE: "NodeUnschedulable",
    Refusal.NODE_NAME: "NodeName",
    Refusal.TAINT: "TaintToleration",
    Refusal.NODE_AFFINITY: "NodeAffinity",
    Refusal.NODE_AFFINITY_ENFORCED: "NodeAffinity",
    Refusal.NODE_PORTS: "NodePorts",
    Refusal.FIT: "NodeResourcesFit",
    Refusal.GPU_SHARE: "GpuShare",
    Refusal.VOLUME_HELD: "VolumeRestrictions",
    Refusal.VOLUME_LIMIT: "NodeVolumeLimits",
    Refusal.VOLUME_GONE: "VolumeBinding",
    Refusal.VOLUME_AFFINITY: "VolumeBinding",
    Refusal.VOLUME_BIND: "VolumeBinding",
    Refusal.VOLUME_ZONE: "VolumeZone",
    Refusal.SPREAD_LABEL: "PodTopologySpread",
    Refusal.SPREAD_SKEW: "PodTopologySpread",
    Refusal.POD_AFFINITY: "InterPodAffinity",
    Refusal.POD_ANTI_AFFINITY: "InterPodAffinity",
    Refusal.EXISTING_ANTI_AFFINITY: "InterPodAffinity",
    Refusal.DEVICES_STALE: "DynamicResources",
    Refusal.DEVICES: "DynamicResources",
    Refusal.DEVICES_INVALID: "DynamicResources",
    Refusal.DEVICES_LATE: "DynamicResources",
    Refusal.CLAIM_UNAVAILABLE: "DynamicResources",
    Refusal.EXTENDER: EXTENDER,
}

TOO_MANY_PODS: Final = "Too many pods"
NO_NODES: Final = "no nodes available to schedule pods"
# What the DynamicResources plugin adds for a pod without resource claims, before preemption's own sentence.
NO_CLAIMS_TO_DEALLOCATE: Final = "no new claims to deallocate"
# What it says where another plugin's PreFilter refused before its own could run.
NO_CLAIM_STATE: Final = "not found"
PREEMPTION_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NEVER_PREEMPTS: Final = "not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."


class Scheduled(NamedTuple):
    """The pod goes to `node`. `total` is the winning score (0 where only one node was feasible).

    `devices` is a bit mask of its GPUs, on nodes that share theirs.
    """

    node: str
    total: int
    feasible: int
    evaluated: int
    tied: int
    devices: int = 0


@dataclass(frozen=True, slots=True)
class Preemption:
    """Evict `victims` (most important first) so that the pod fits on `node`."""

    node: str
    victims: tuple[Key, ...]
    pdb_violations: int


class Release(NamedTuple):
    """What DynamicResources says where no node would do, and the claim it takes the allocation from, or deletes."""

    words: str
    deallocates: Key | None = None
    deletes: Key | None = None


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node would do now.

    `reasons` counts nodes per reason, sorted as kube-scheduler prints them; `plugins` are those that refused
    (sorted); `preemption` is what would make room, if anything; `clears_nomination` says that an earlier
    nomination is void.
    """

    message: str
    reasons: tuple[tuple[str, int], ...]
    plugins: tuple[str, ...]
    node_count: int
    preemption: Preemption | None = None
    clears_nomination: bool = False
    release: Release | None = None


Verdict = Scheduled | Unschedulable


@dataclass(frozen=True, slots=True)
class ScoreSheet:
    """Every feasible node's score, in total and by plugin (after normalisation and weight)."""

    nodes: tuple[str, ...]
    totals: tuple[int, ...]
    by_plugin: dict[str, tuple[int, ...]] = field(default_factory=dict)


def unavailable(node_count: int, reasons: dict[str, int]) -> str:
    """`0/4 nodes are available: 1 Insufficient memory, 3 node(s) …`, ending in a full stop.

    Reasons are sorted as whole strings, count included: that is what FitError.Error does.
    """
    parts = sorted(f"{count} {reason}" for reason, count in reasons.items() if count)
    text = f"0/{node_count} nodes are available:"
    return f"{text} {', '.join(parts)}." if parts else text
