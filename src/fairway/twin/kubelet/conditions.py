"""Which conditions does a kubelet set on a pod, and since when do they hold?

Pods with equal conditions share one list of them: objects are frozen by convention, and a burst of equal pods
then costs little memory.

Source: pkg/kubelet/kubelet_pods.go generateAPIPodStatus; pkg/kubelet/status/generate.go (v1.36).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from fairway.kube.podresizing import IN_PROGRESS, PENDING
from fairway.kube.timestamps import SECOND_US, rfc3339, rfc3339_of_second
from fairway.twin.kubelet.phases import FAILED, SUCCEEDED, TERMINAL, is_initialized
from fairway.twin.kubelet.states import PodState

# Of statuses, the last so many different ones are kept for pods that are to say the same: those of one burst. More
# would only keep the past.
SHARED: Final = 4096

_BY_KUBELET: Final = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    PENDING,
    IN_PROGRESS,
)


def conditions(
    old: dict[str, Any], pod: PodState, phase: str, ending: Any, now_us: int
) -> list[dict[str, Any]]:
    """The conditions to write; notes in the pod's state when it became ready or unready."""
    reason, message = _unready(pod, phase)
    gate_message = "" if reason or not pod.plan.readiness_gates else _gates_missing(old, pod)
    is_ready = not reason and not gate_message
    if is_ready != pod.is_ready:
        pod.is_ready = is_ready
        pod.ready_since_us = now_us
    others, scheduled = None, None
    for c in old.get("conditions") or ():
        if c["type"] == "PodScheduled":
            scheduled = c
        elif c["type"] not in _BY_KUBELET:
            others = [c] if others is None else [*others, c]
    terminal = phase in TERMINAL
    has_sandbox = 0 <= pod.sandbox_since_us <= now_us and not terminal
    sandbox_us = pod.sandbox_since_us if has_sandbox else now_us if terminal else pod.start_us
    if scheduled is None or scheduled.get("status") != "True":
        scheduled_since = ""
    elif "lastTransitionTime" in scheduled and "observedGeneration" not in scheduled:
        scheduled_since = scheduled["lastTransitionTime"]
    else:
        scheduled_since = None
    own = _shared_conditions(
        has_sandbox,
        sandbox_us // SECOND_US,
        _initialized_key(pod, phase, now_us),
        pod.ready_since_us // SECOND_US,
        reason,
        message,
        gate_message,
        scheduled_since or rfc3339(pod.start_us),
    )
    if scheduled_since is None and scheduled is not None:
        own = [*own[:-1], scheduled]
    if pod.resize is not None and not terminal:
        others = [*(others or ()), *pod.resize.conditions]
    if ending is not None and ending.disruption:
        others = [c for c in others or () if c["type"] != "DisruptionTarget"]
        others.append(condition("DisruptionTarget", "True", now_us, ending.disruption, ending.message))
    return [*others, *own] if others else own


def own_conditions(
    has_sandbox: bool,
    sandbox_s: int,
    initialized: tuple[str, int, str, str],
    ready_s: int,
    reason: str,
    message: str,
    gate_message: str,
    scheduled_since: str,
) -> list[dict[str, Any]]:
    """The kubelet's own five conditions in its order. A new list: who keeps it shares it."""
    verdict = "False" if reason else "True"
    status, since_s, why, what = initialized
    if gate_message:
        ready = _condition("Ready", "False", ready_s, "ReadinessGatesNotReady", gate_message)
    else:
        ready = _condition("Ready", verdict, ready_s, reason, message)
    return [
        _condition("PodReadyToStartContainers", "True" if has_sandbox else "False", sandbox_s, "", ""),
        _condition("Initialized", status, since_s, why, what),
        ready,
        _condition("ContainersReady", verdict, ready_s, reason, message),
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": scheduled_since,
        },
    ]


_shared_conditions = lru_cache(maxsize=SHARED)(own_conditions)


def _unready(pod: PodState, phase: str) -> tuple[str, str]:
    """Reason and message of an untrue ContainersReady; an empty reason: all are ready."""
    if phase == SUCCEEDED:
        return "PodCompleted", ""
    if phase == FAILED:
        return "PodFailed", ""
    plan = pod.plan
    if plan.is_plain and pod.containers[0].is_ready:
        return "", ""
    unready = [
        c.name
        for c, state in zip(plan.containers, pod.containers, strict=True)
        if not state.is_ready and (not c.is_init or c.is_sidecar)
    ]
    if not unready:
        return "", ""
    return "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"


def _gates_missing(old: dict[str, Any], pod: PodState) -> str:
    said = {c["type"]: c.get("status") for c in old.get("conditions") or ()}
    missing = []
    for gate in pod.plan.readiness_gates:
        if gate not in said:
            missing.append(f'corresponding condition of pod readiness gate "{gate}" does not exist.')
        elif said[gate] != "True":
            missing.append(f'the status of pod readiness gate "{gate}" is not "True", but {said[gate]}')
    return ", ".join(missing)


def _initialized_key(pod: PodState, phase: str, now_us: int) -> tuple[str, int, str, str]:
    """Status, since (s), reason and message of the Initialized condition."""
    plan = pod.plan
    if phase == SUCCEEDED:
        return "True", pod.initialized_since_us // SECOND_US, "PodCompleted", ""
    if pod.is_initialized:
        return "True", pod.initialized_since_us // SECOND_US, "", ""
    missing = [
        c.name
        for c, state in zip(plan.containers[: plan.init_count], pod.containers, strict=False)
        if not is_initialized(c, state)
    ]
    if not missing:
        pod.is_initialized = True
        pod.initialized_since_us = now_us
        return "True", now_us // SECOND_US, "", ""
    message = f"containers with incomplete status: [{' '.join(missing)}]"
    return "False", pod.start_us // SECOND_US, "ContainersNotInitialized", message


def condition(type_: str, status: str, since_us: int, reason: str = "", message: str = "") -> dict[str, Any]:
    return _condition(type_, status, since_us // SECOND_US, reason, message)


def _condition(type_: str, status: str, since_s: int, reason: str, message: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": type_,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339_of_second(since_s),
    }
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made
