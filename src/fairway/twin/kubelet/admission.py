"""May this pod run on this node after all? What a kubelet checks again before it starts a pod.

Between the scheduler's decision and now the node may have filled up, been tainted or lost a label.
Source: pkg/kubelet/lifecycle/predicate.go, pkg/scheduler/eventhandlers.go AdmissionCheck (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairway.kube.nodeselection import node_selection
from fairway.kube.objects import Obj
from fairway.kube.quantity import whole_ceil
from fairway.kube.resources import is_extended
from fairway.kube.taints import NO_EXECUTE, first_untolerated, parse_tolerations
from fairway.twin.kubelet.plans import PodPlan
from fairway.twin.kubelet.states import NodeState

# Source: pkg/kubelet/cm/admission/errors.go; k8s-device-plugin 0.20 internal/rm/rm.go ValidateRequest.
_SHARED = (
    'Allocate failed due to rpc error: code = Unknown desc = invalid allocation request for "{0}": invalid request: '
    "maximum request size for shared resources is 1; found {1}, which is unexpected"
)


class Rejection(NamedTuple):
    reason: str
    message: str


def rejection(node: NodeState, plan: PodPlan, pod: Obj) -> Rejection | None:
    """Why the kubelet refuses the pod, or None."""
    spec = pod["spec"]
    if node.is_shutting_down:
        return Rejection("NodeShutdown", "Pod was rejected as the node is shutting down.")
    lack = _lack(node, plan, pod)
    if lack is not None:
        name, requested, used, capacity = lack
        message = (
            f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, "
            f"capacity: {capacity}"
        )
        return Rejection(f"OutOf{name}", message)
    wants_place = spec.get("nodeSelector") or (spec.get("affinity") or {}).get("nodeAffinity")
    if wants_place and not node_selection(spec).allows(node.labels, node.name):
        return _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if node.single_requests:
        for container in spec.get("containers") or ():
            limits = (container.get("resources") or {}).get("limits") or {}
            for name in node.single_requests:
                if whole_ceil(limits.get(name) or 0) > 1:
                    return Rejection(
                        "UnexpectedAdmissionError", _SHARED.format(name, whole_ceil(limits[name]))
                    )
    if node.no_execute:
        tolerations = parse_tolerations(spec.get("tolerations"))
        if first_untolerated(node.no_execute, tolerations, (NO_EXECUTE,)) is not None:
            return _predicate("TaintToleration", "node(s) had untolerated taint(s)")
    return None


def _lack(node: NodeState, plan: PodPlan, pod: Obj) -> tuple[str, int, int, int] | None:
    """The first resource that is short: (name, requested, used, capacity)."""
    if node.max_pods is not None and len(node.pods) + 1 > node.max_pods:
        return "pods", 1, len(node.pods), node.max_pods
    return lack_of(pod, plan.requests, node.used, node.allocatable)


def lack_of(
    pod: Obj,
    requests: tuple[tuple[str, int], ...],
    used: Mapping[str, int],
    allocatable: Mapping[str, int] | None,
) -> tuple[str, int, int, int] | None:
    """The first resource that is short beside what is used: (name, requested, used, capacity)."""
    if allocatable is None:
        return None
    for name, amount in requests:
        if amount == 0:
            continue
        capacity = allocatable.get(name)
        if capacity is None:
            # Extended resources the node does not know are the cluster's business, not this node's.
            if is_extended(name):
                continue
            capacity = 0
        if amount > capacity and name in _claimed(pod):
            continue
        if used.get(name, 0) + amount > capacity:
            return name, amount, used.get(name, 0), capacity
    return None


def _claimed(pod: Obj) -> set[str]:
    """Extended resources that are devices of the claim made for the pod."""
    told = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return {m.get("resourceName") or "" for m in told.get("requestMappings") or ()}


def _predicate(name: str, why: str) -> Rejection:
    return Rejection(name, f"Predicate {name} failed: {why}")
