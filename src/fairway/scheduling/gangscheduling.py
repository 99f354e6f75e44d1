"""Kubernetes' own gangs: pods whose `spec.schedulingGroup` names a PodGroup with a gang policy (alpha in 1.36).

Pods stay out of the queue until `minCount` of them exist (PreEnqueue); then the group is tried as one, in one
cycle over one state of the cluster, and is bound only if `minCount` of its pods found a node.

Source: pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go, schedule_one_podgroup.go (v1.36);
KEP-4671. PodGroup is scheduling.k8s.io/v1alpha2.
"""

from __future__ import annotations

from fairway.kube.objects import Key, Obj

NAME = "GangScheduling"
POD_GROUP = "PodGroup.scheduling.k8s.io"

TOO_FEW_PODS = "waiting for minCount pods from a gang to appear in scheduling queue"
UNSCHEDULABLE = "pod group is unschedulable"
TOO_FEW_SCHEDULED = "waiting for minCount pods from a gang to be scheduled"
SCHEDULED_TYPE = "PodGroupScheduled"


def group_key(pod: Obj) -> Key | None:
    name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return Key(POD_GROUP, pod["metadata"].get("namespace") or "", name) if name else None


def min_count(group: Obj) -> int:
    """How many must start together; 0: the group's policy is not a gang's."""
    gang = ((group.get("spec") or {}).get("schedulingPolicy") or {}).get("gang")
    return int(gang.get("minCount") or 0) if gang else 0


def why_held_back(key: Key, group: Obj | None, pods: int) -> str:
    """PreEnqueue: why a pod may not be queued yet; empty where it may."""
    if group is None:
        return f'waiting for pods\'s pod group "{key.name}" to appear in scheduling queue'
    return TOO_FEW_PODS if pods < min_count(group) else ""
