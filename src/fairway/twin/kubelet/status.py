"""What does a kubelet write about a pod or a node? Status as the real one writes it, field by field.

Equal parts (a condition, a container's state) are one shared dict across pods: objects are frozen by
convention, and a burst of equal pods then costs little memory.

Source: pkg/kubelet/kubelet_pods.go getPhase, generateAPIPodStatus; pkg/kubelet/status/generate.go;
pkg/kubelet/nodestatus/setters.go (v1.36).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.twin.kubelet.plans import ContainerPlan, PodPlan
from fairway.twin.kubelet.states import (
    RUNNING,
    TERMINATED,
    WAITING,
    ContainerState,
    Ended,
    NodeState,
    PodState,
)

PENDING, RUNNING_PHASE, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = (SUCCEEDED, FAILED)

_BY_KUBELET = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def phase_of(plan: PodPlan, states: list[ContainerState], *, is_terminal: bool) -> str:
    """The pod's phase. `is_terminal`: all has been stopped and nothing will be started again."""
    pending_init = pending_sidecars = failed_init = 0
    running = waiting = stopped = restartable = succeeded = 0
    any_main_started = False
    for i, (container, state) in enumerate(zip(plan.containers, states, strict=True)):
        past = state.end if state.state == TERMINATED else state.last if state.state == WAITING else None
        if i < plan.init_count and not container.is_sidecar:
            if past is None:
                pending_init += 1
            elif past.exit_code != 0 and not container.restarts_after(past.exit_code):
                failed_init += 1
        elif i < plan.init_count:
            if state.state == RUNNING:
                running += 1
                pending_sidecars += not state.is_started
            elif state.state == WAITING and past is None:
                pending_sidecars += 1
                waiting += 1
        elif state.state == RUNNING:
            running += 1
            any_main_started = True
        elif past is None:
            waiting += 1
        else:
            any_main_started = True
            stopped += 1
            restartable += container.restarts_after(past.exit_code)
            succeeded += state.state == TERMINATED and past.exit_code == 0
    if failed_init:
        return FAILED
    if pending_init or (pending_sidecars and not any_main_started) or waiting:
        return PENDING
    if running:
        return RUNNING_PHASE
    if stopped == 0 or (restartable and not is_terminal):
        return RUNNING_PHASE if stopped else PENDING
    return SUCCEEDED if stopped == succeeded else FAILED


def pod_status(obj: Obj, pod: PodState, node: NodeState, phase: str, now_us: int) -> dict[str, Any]:
    """The status to write now. Keeps what others wrote: conditions not the kubelet's, the nomination."""
    old = obj.get("status") or {}
    plan = pod.plan
    terminal = phase in TERMINAL
    ending = pod.ending if terminal else None
    if ending is not None and phase == SUCCEEDED and ending.keeps_success:
        ending = None
    status: dict[str, Any] = {
        "phase": FAILED if ending is not None else phase,
        "conditions": _conditions(old, pod, FAILED if ending is not None else phase, ending, now_us),
        "hostIP": node.ip,
        "hostIPs": _ips(node.ip),
        "startTime": rfc3339(pod.start_us),
        "containerStatuses": _statuses(plan.containers[plan.init_count :], pod.containers[plan.init_count :]),
        "qosClass": old.get("qosClass", "BestEffort"),
    }
    if ending is not None:
        status["reason"] = ending.reason
        status["message"] = ending.message
    if pod.ip:
        status["podIP"] = pod.ip
        status["podIPs"] = _ips(pod.ip)
    if plan.init_count:
        status["initContainerStatuses"] = _statuses(
            plan.containers[: plan.init_count], pod.containers[: plan.init_count]
        )
    for kept in ("nominatedNodeName", "resourceClaimStatuses", "extendedResourceClaimStatus"):
        if kept in old:
            status[kept] = old[kept]
    return status


def rejected_status(obj: Obj, reason: str, message: str, now_us: int) -> dict[str, Any]:
    """Source: Kubelet.rejectPod."""
    old = obj.get("status") or {}
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


def _conditions(
    old: dict[str, Any], pod: PodState, phase: str, ending: Any, now_us: int
) -> list[dict[str, Any]]:
    terminal = phase in TERMINAL
    reason, message = _unready(pod, phase)
    gate_message = "" if reason or not pod.plan.readiness_gates else _gates_missing(old, pod)
    is_ready = not reason and not gate_message
    if is_ready != pod.is_ready:
        pod.is_ready = is_ready
        pod.ready_since_us = now_us
    conditions, scheduled = [], None
    for c in old.get("conditions") or ():
        if c["type"] == "PodScheduled":
            scheduled = c
        elif c["type"] not in _BY_KUBELET:
            conditions.append(c)
    if ending is not None and ending.disruption:
        conditions = [c for c in conditions if c["type"] != "DisruptionTarget"]
        conditions.append(condition("DisruptionTarget", "True", now_us, ending.disruption, ending.message))
    has_sandbox = 0 <= pod.sandbox_since_us <= now_us and not terminal
    conditions.append(
        condition(
            "PodReadyToStartContainers",
            "True" if has_sandbox else "False",
            pod.sandbox_since_us if has_sandbox else now_us if terminal else pod.start_us,
        )
    )
    conditions.append(_initialized(pod, phase, now_us))
    if is_ready:
        since_us = pod.ready_since_us
        conditions.append(condition("Ready", "True", since_us))
        conditions.append(condition("ContainersReady", "True", since_us))
    elif gate_message:
        conditions.append(
            condition("Ready", "False", pod.ready_since_us, "ReadinessGatesNotReady", gate_message)
        )
        conditions.append(condition("ContainersReady", "True", pod.ready_since_us))
    else:
        conditions.append(condition("Ready", "False", pod.ready_since_us, reason, message))
        conditions.append(condition("ContainersReady", "False", pod.ready_since_us, reason, message))
    if scheduled is None or scheduled.get("status") != "True":
        scheduled = condition("PodScheduled", "True", pod.start_us)
    conditions.append(scheduled)
    return conditions


def _unready(pod: PodState, phase: str) -> tuple[str, str]:
    """Reason and message of an untrue ContainersReady; an empty reason: all are ready."""
    if phase == SUCCEEDED:
        return "PodCompleted", ""
    if phase == FAILED:
        return "PodFailed", ""
    plan = pod.plan
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


def _initialized(pod: PodState, phase: str, now_us: int) -> dict[str, Any]:
    plan = pod.plan
    if phase == SUCCEEDED:
        return condition("Initialized", "True", pod.initialized_since_us, "PodCompleted")
    if pod.is_initialized:
        return condition("Initialized", "True", pod.initialized_since_us)
    missing = [
        c.name
        for c, state in zip(plan.containers[: plan.init_count], pod.containers, strict=False)
        if not is_initialized(c, state)
    ]
    if not missing:
        pod.is_initialized = True
        pod.initialized_since_us = now_us
        return condition("Initialized", "True", now_us)
    message = f"containers with incomplete status: [{' '.join(missing)}]"
    return condition("Initialized", "False", pod.start_us, "ContainersNotInitialized", message)


def is_initialized(container: ContainerPlan, state: ContainerState) -> bool:
    """Whether this init container is done: a sidecar has started, any other has exited with 0."""
    if container.is_sidecar:
        return state.state == RUNNING and state.is_started
    return state.state == TERMINATED and state.end is not None and state.end.exit_code == 0


def condition(type_: str, status: str, since_us: int, reason: str = "", message: str = "") -> dict[str, Any]:
    return _condition(type_, status, since_us // SECOND_US, reason, message)


@lru_cache(maxsize=16384)
def _condition(type_: str, status: str, since_s: int, reason: str, message: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": type_,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(since_s * SECOND_US),
    }
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made


@lru_cache(maxsize=16384)
def _ips(ip: str) -> list[dict[str, str]]:
    return [{"ip": ip}]


def _statuses(plans: tuple[ContainerPlan, ...], states: list[ContainerState]) -> list[dict[str, Any]]:
    if len(plans) == 1:
        return _single(*_status_key(plans[0], states[0]))
    made = [_container_status(*_status_key(p, s)) for p, s in zip(plans, states, strict=True)]
    if plans[0].is_init:
        return made
    return sorted(made, key=lambda status: str(status["name"]))


def _status_key(plan: ContainerPlan, state: ContainerState) -> tuple[Any, ...]:
    """Everything a container's status shows, in whole seconds, hashable."""
    if state.state == RUNNING:
        now: tuple[Any, ...] = ("running", state.started_us // SECOND_US)
    elif state.state == TERMINATED and state.end is not None:
        now = _ended_key(state.end)
    else:
        now = ("waiting", state.reason, state.message)
    last = None if state.last is None else _ended_key(state.last)
    return plan.name, plan.image, now, last, state.restarts, state.is_ready, state.is_started


def _ended_key(end: Ended) -> tuple[Any, ...]:
    return (
        "terminated",
        end.exit_code,
        end.reason,
        end.message,
        end.started_us // SECOND_US,
        end.finished_us // SECOND_US,
    )


@lru_cache(maxsize=16384)
def _single(*key: Any) -> list[dict[str, Any]]:
    return [_container_status(*key)]


@lru_cache(maxsize=16384)
def _container_status(
    name: str,
    image: str,
    now: tuple[Any, ...],
    last: tuple[Any, ...] | None,
    restarts: int,
    is_ready: bool,
    is_started: bool,
) -> dict[str, Any]:
    return {
        "name": name,
        "state": _state(now),
        "lastState": {} if last is None else _state(last),
        "ready": is_ready,
        "restartCount": restarts,
        "image": image,
        "imageID": "",
        "started": is_started,
    }


@lru_cache(maxsize=16384)
def _state(key: tuple[Any, ...]) -> dict[str, Any]:
    if key[0] == "running":
        return {"running": {"startedAt": rfc3339(key[1] * SECOND_US)}}
    if key[0] == "waiting":
        waiting = {"reason": key[1]}
        if key[2]:
            waiting["message"] = key[2]
        return {"waiting": waiting}
    _, exit_code, reason, message, started_s, finished_s = key
    ended: dict[str, Any] = {"exitCode": exit_code, "reason": reason}
    if message:
        ended["message"] = message
    # A container nobody saw running has no times: Go's zero time, which prints as null.
    ended["startedAt"] = None if started_s < 0 else rfc3339(started_s * SECOND_US)
    ended["finishedAt"] = None if started_s < 0 else rfc3339(finished_s * SECOND_US)
    return {"terminated": ended}


# Nodes

_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def node_status(obj: Obj, node: NodeState, now_us: int) -> dict[str, Any]:
    """A node's status as its kubelet posts it: capacity as given, pressures false, Ready as it is."""
    old = obj.get("status") or {}
    if node.is_shutting_down:
        ready = ("False", "KubeletNotReady", "node is shutting down")
    else:
        ready = ("True", "KubeletReady", "kubelet is posting ready status")
    before = {c.get("type"): c for c in old.get("conditions") or ()}
    wanted = [(t, ("False", reason, message)) for t, reason, message in _PRESSURES]
    wanted.append(("Ready", ready))
    conditions = [c for t, c in before.items() if t not in {t for t, _ in wanted}]
    for type_, (value, reason, message) in wanted:
        was = before.get(type_) or {}
        same = was.get("status") == value
        conditions.append(
            {
                "type": type_,
                "status": value,
                "lastHeartbeatTime": rfc3339(now_us),
                "lastTransitionTime": was["lastTransitionTime"]
                if same and was.get("lastTransitionTime")
                else rfc3339(now_us),
                "reason": reason,
                "message": message,
            }
        )
    status = {**old, "conditions": conditions}
    if "capacity" not in status and "allocatable" in status:
        status["capacity"] = status["allocatable"]
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = status["capacity"]
    status.setdefault(
        "addresses",
        [{"type": "InternalIP", "address": node.ip}, {"type": "Hostname", "address": node.name}],
    )
    return status
