"""Gangs by waiting: the Coscheduling plugin of scheduler-plugins, as pure questions about one PodGroup.

A pod of a group that found a node waits there (Permit) until `minMember` pods have one, at most
`scheduleTimeoutSeconds`; when one finds none, all that wait are sent back (PostFilter), unless only a small part
of the quorum is missing.

Source: kubernetes-sigs/scheduler-plugins pkg/coscheduling/{coscheduling.go,core/core.go}, pkg/util/podgroup.go,
apis/config/v1/defaults.go (master of 2026-08).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairway.cluster.accounts import NodeAccounts
from fairway.kube.objects import Key, Obj, labels_of
from fairway.kube.resources import PODS, Resources, format_resources, parse_resources
from fairway.kube.timestamps import SECOND_US, parse_rfc3339

NAME = "Coscheduling"
POD_GROUP = "PodGroup.scheduling.x-k8s.io"
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"

NOT_FOUND = "PodGroup not found"
OPTIMISTIC_REJECTION = "optimistic rejection in PostFilter"
REJECTED_IN_UNRESERVE = "rejection in Unreserve"
NO_POD_GROUP = "can not find pod group"


@dataclass(frozen=True, slots=True)
class CoschedulingArgs:
    """How long pods wait for their group, how long a rejected group is left alone, and which gap is small."""

    permit_waiting_us: int = 60 * SECOND_US
    backoff_us: int = 0
    reject_percentage: int = 10


DEFAULT_COSCHEDULING = CoschedulingArgs()


@dataclass(frozen=True, slots=True)
class PodGroup:
    """`timeout_us` 0: the plugin's own."""

    key: Key
    min_member: int
    min_resources: Resources | None
    timeout_us: int
    created_us: int


def group_key(pod: Obj) -> Key | None:
    """The group a pod names, whether it exists or not."""
    name = labels_of(pod).get(POD_GROUP_LABEL)
    return Key(POD_GROUP, pod["metadata"].get("namespace") or "", name) if name else None


def read_group(key: Key, obj: Obj) -> PodGroup:
    spec = obj.get("spec") or {}
    minimum = spec.get("minResources")
    return PodGroup(
        key,
        int(spec.get("minMember") or 0),
        None if minimum is None else parse_resources(minimum),
        int(spec.get("scheduleTimeoutSeconds") or 0) * SECOND_US,
        parse_rfc3339(obj["metadata"]["creationTimestamp"]),
    )


def why_too_few(pod: str, group: PodGroup, members: Sequence[Obj]) -> str:
    """PreFilter: whether there are pods enough, gated ones aside; empty where there are."""
    gap = group.min_member - len(members)
    if gap > 0:
        return (
            f"pre-filter pod {pod} cannot find enough sibling pods, current pods number: {len(members)}, "
            f"minMember of group: {group.min_member}"
        )
    gap += sum(bool(m["spec"].get("schedulingGates")) for m in members)
    return f"pre-filter pod {pod} cannot proceed due to gated pods in the same PodGroup" if gap > 0 else ""


def why_no_room(group: PodGroup, accounts: NodeAccounts, of_group: Mapping[Key, object]) -> str:
    """PreFilter: whether `minResources` would fit the cluster as a whole, pods of the group taken away."""
    gap = {**(group.min_resources or {}), PODS: group.min_member}
    for row in accounts.order().tolist():
        mine = [r for key, r in accounts.pods[row].items() if key in of_group]
        for name in list(gap):
            gap[name] -= _free(accounts, row, name, mine)
            if gap[name] <= 0:
                del gap[name]
        if not gap:
            return ""
    return f"resource gap: {format_resources(dict(sorted(gap.items())))}"


def _free(accounts: NodeAccounts, row: int, name: str, mine: Sequence[object]) -> int:
    if name == PODS:
        return int(accounts.allowed_pods[row] - accounts.pod_count[row]) + len(mine)
    column = accounts.column_of.get(name)
    if column is None:
        return 0
    held = sum(r.shape.requests.get(name, 0) for r in mine)  # type: ignore[attr-defined]
    return int(accounts.allocatable[row, column] - accounts.requested[row, column]) + held


def rejects_all(assigned: int, group: PodGroup, args: CoschedulingArgs) -> bool:
    """PostFilter: whether a pod without a node ends the wait of the others."""
    if assigned >= group.min_member:
        return False
    return (group.min_member - assigned) * 100 > args.reject_percentage * group.min_member


def waits_us(group: PodGroup, args: CoschedulingArgs) -> int:
    """Permit: how long. Source: GetWaitTimeDuration."""
    return group.timeout_us or args.permit_waiting_us
