"""What does a kubelet write about a pod? Status as the real one writes it, field by field.

Most pods of a batch are plain and alike: `_plain_status` takes all but their addresses from one shared part.

Source: pkg/kubelet/kubelet_pods.go generateAPIPodStatus (v1.36).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fairway.kube.objects import Obj, status_of
from fairway.kube.timestamps import SECOND_US, rfc3339, rfc3339_of_second
from fairway.twin.kubelet.conditions import SHARED, conditions, own_conditions
from fairway.twin.kubelet.containerstatus import container_status, main_statuses, status_key, statuses
from fairway.twin.kubelet.phases import FAILED, SUCCEEDED, TERMINAL
from fairway.twin.kubelet.states import NodeState, PodState


def pod_status(obj: Obj, pod: PodState, node: NodeState, phase: str, now_us: int) -> dict[str, Any]:
    """The status to write now. Keeps what others wrote: conditions not the kubelet's, the nomination."""
    old = status_of(obj)
    plan = pod.plan
    if plan.is_plain and pod.ending is None and pod.resize is None:
        plain = _plain_status(old, pod, node, phase, now_us)
        if plain is not None:
            return plain
    ending = pod.ending if pod.ending is not None and phase in TERMINAL else None
    if ending is not None:
        if phase == SUCCEEDED and ending.keeps_success:
            ending = None
        else:
            phase = FAILED
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": conditions(old, pod, phase, ending, now_us),
        "hostIP": node.ip,
        "hostIPs": node.ips,
        "startTime": rfc3339(pod.start_us),
        "containerStatuses": main_statuses(plan, pod.containers),
        "qosClass": old.get("qosClass", "BestEffort"),
    }
    if ending is not None:
        status["reason"] = ending.reason
        status["message"] = ending.message
    if pod.ip:
        status["podIP"] = pod.ip
        status["podIPs"] = pod.ips
    if plan.init_count:
        status["initContainerStatuses"] = statuses(
            plan.containers[: plan.init_count], pod.containers[: plan.init_count]
        )
    for kept in ("nominatedNodeName", "resourceClaimStatuses", "extendedResourceClaimStatus"):
        if kept in old:
            status[kept] = old[kept]
    return status


def _plain_status(
    old: dict[str, Any], pod: PodState, node: NodeState, phase: str, now_us: int
) -> dict[str, Any] | None:
    """`pod_status` of an ordinary batch pod from one cached part; None where there is anything unusual."""
    written = old.get("conditions")
    if written is None:
        scheduled_since = ""
    elif written is pod.conditions:
        scheduled_since = pod.scheduled_since
    elif len(written) == 1 and len(written[0]) <= 4 and written[0].get("status") == "True":
        since = written[0].get("lastTransitionTime", "")
        if not isinstance(since, str):  # null, as who wrote it from outside may have
            return None
        scheduled_since = since
    else:
        return None
    if "nominatedNodeName" in old or "resourceClaimStatuses" in old or "extendedResourceClaimStatus" in old:
        return None
    state = pod.containers[0]
    if state.is_ready != pod.is_ready:
        pod.is_ready = state.is_ready
        pod.ready_since_us = now_us
    ended = phase in (SUCCEEDED, FAILED)
    if ended:
        sandbox_us = now_us
    else:
        sandbox_us = pod.sandbox_since_us if 0 <= pod.sandbox_since_us <= now_us else -SECOND_US
    status: dict[str, Any] = _plain_part(
        phase,
        old.get("qosClass", "BestEffort"),
        pod.start_us // SECOND_US,
        sandbox_us // SECOND_US,
        pod.ready_since_us // SECOND_US,
        scheduled_since,
        status_key(pod.plan.containers[0], state),
    ).copy()
    pod.conditions = status["conditions"]
    pod.scheduled_since = scheduled_since
    status["hostIP"] = node.ip
    status["hostIPs"] = node.ips
    if pod.ip:
        status["podIP"] = pod.ip
        status["podIPs"] = pod.ips
    return status


@lru_cache(maxsize=SHARED)
def _plain_part(
    phase: str,
    qos: str,
    start_s: int,
    sandbox_s: int,
    ready_s: int,
    scheduled_since: str,
    container: tuple[Any, ...],
) -> dict[str, Any]:
    """Everything but addresses. `sandbox_s` -1: there is none yet."""
    start = rfc3339_of_second(start_s)
    reason, message = "", ""
    if phase in (SUCCEEDED, FAILED):
        reason = "PodCompleted" if phase == SUCCEEDED else "PodFailed"
    elif not container[-2]:
        reason, message = "ContainersNotReady", f"containers with unready status: [{container[0]}]"
    return {
        "phase": phase,
        "conditions": own_conditions(
            sandbox_s >= 0 and phase not in TERMINAL,
            sandbox_s if sandbox_s >= 0 else start_s,
            ("True", start_s, "PodCompleted" if phase == SUCCEEDED else "", ""),
            ready_s,
            reason,
            message,
            "",
            scheduled_since or start,
        ),
        "startTime": start,
        "containerStatuses": [container_status(*container)],
        "qosClass": qos,
    }


def rejected_status(obj: Obj, reason: str, message: str, now_us: int) -> dict[str, Any]:
    """Source: Kubelet.rejectPod."""
    old = status_of(obj)
    status = {
        "phase": FAILED,
        "reason": reason,
        "message": "Pod was rejected: " + message,
        "startTime": rfc3339(now_us),
        "qosClass": old.get("qosClass", "BestEffort"),
    }
    kept = [c for c in old.get("conditions") or () if c.get("type") == "PodScheduled"]
    if kept:
        status["conditions"] = kept
    return status
