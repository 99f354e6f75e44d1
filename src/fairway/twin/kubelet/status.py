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


def has_ended(pod: Obj) -> bool:
    """Whether the API says the pod is over."""
    status = pod.get("status")
    return status is not None and status.get("phase") in TERMINAL


_BY_KUBELET = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def phase_of(plan: PodPlan, states: list[ContainerState], *, is_terminal: bool) -> str:
    """The pod's phase. `is_terminal`: all has been stopped and nothing will be started again."""
    if plan.is_plain:
        return _phase_of_plain(plan, states[0], is_terminal=is_terminal)
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


def _phase_of_plain(plan: PodPlan, state: ContainerState, *, is_terminal: bool) -> str:
    """`phase_of` for a pod of one container."""
    if state.state == RUNNING:
        return RUNNING_PHASE
    past = state.end if state.state == TERMINATED else state.last
    if past is None:
        return PENDING
    if not is_terminal and plan.containers[0].restarts_after(past.exit_code):
        return RUNNING_PHASE
    return SUCCEEDED if state.state == TERMINATED and past.exit_code == 0 else FAILED


def pod_status(obj: Obj, pod: PodState, node: NodeState, phase: str, now_us: int) -> dict[str, Any]:
    """The status to write now. Keeps what others wrote: conditions not the kubelet's, the nomination."""
    old = obj.get("status") or {}
    plan = pod.plan
    if plan.is_plain and pod.ending is None and len(old) <= _PLAIN_FIELDS:
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
        "conditions": _conditions(old, pod, phase, ending, now_us),
        "hostIP": node.ip,
        "hostIPs": node.ips,
        "startTime": rfc3339(pod.start_us),
        "containerStatuses": _main_statuses(plan, pod.containers),
        "qosClass": old.get("qosClass", "BestEffort"),
    }
    if ending is not None:
        status["reason"] = ending.reason
        status["message"] = ending.message
    if pod.ip:
        status["podIP"] = pod.ip
        status["podIPs"] = pod.ips
    if plan.init_count:
        status["initContainerStatuses"] = _statuses(
            plan.containers[: plan.init_count], pod.containers[: plan.init_count]
        )
    for kept in ("nominatedNodeName", "resourceClaimStatuses", "extendedResourceClaimStatus"):
        if kept in old:
            status[kept] = old[kept]
    return status


# Fields of the status of a pod of which nobody but API server, scheduler and kubelet has said anything.
_PLAIN_FIELDS = 10


def _plain_status(
    old: dict[str, Any], pod: PodState, node: NodeState, phase: str, now_us: int
) -> dict[str, Any] | None:
    """`pod_status` of an ordinary batch pod from one cached part; None where there is anything unusual."""
    conditions = old.get("conditions")
    if conditions is None:
        scheduled_since = ""
    elif conditions is pod.conditions:
        scheduled_since = pod.scheduled_since
    elif len(conditions) == 1 and len(conditions[0]) <= 4 and conditions[0].get("status") == "True":
        scheduled_since = conditions[0].get("lastTransitionTime", "")
    else:
        return None
    if "nominatedNodeName" in old or "resourceClaimStatuses" in old:
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
        _status_key(pod.plan.containers[0], state),
    ).copy()
    pod.conditions = status["conditions"]
    pod.scheduled_since = scheduled_since
    status["hostIP"] = node.ip
    status["hostIPs"] = node.ips
    if pod.ip:
        status["podIP"] = pod.ip
        status["podIPs"] = pod.ips
    return status


@lru_cache(maxsize=65536)
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
    start = rfc3339(start_s * SECOND_US)
    reason, message = "", ""
    if phase in (SUCCEEDED, FAILED):
        reason = "PodCompleted" if phase == SUCCEEDED else "PodFailed"
    elif not container[-2]:
        reason, message = "ContainersNotReady", f"containers with unready status: [{container[0]}]"
    return {
        "phase": phase,
        "conditions": _own_conditions(
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
        "containerStatuses": [_container_status(*container)],
        "qosClass": qos,
    }


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
    own = _own_conditions(
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
    if ending is not None and ending.disruption:
        others = [c for c in others or () if c["type"] != "DisruptionTarget"]
        others.append(condition("DisruptionTarget", "True", now_us, ending.disruption, ending.message))
    return [*others, *own] if others else own


@lru_cache(maxsize=65536)
def _own_conditions(
    has_sandbox: bool,
    sandbox_s: int,
    initialized: tuple[str, int, str, str],
    ready_s: int,
    reason: str,
    message: str,
    gate_message: str,
    scheduled_since: str,
) -> list[dict[str, Any]]:
    """The kubelet's own five conditions in its order; pods with equal ones share the list."""
    verdict = "False" if reason else "True"
    if gate_message:
        ready = _condition("Ready", "False", ready_s, "ReadinessGatesNotReady", gate_message)
    else:
        ready = _condition("Ready", verdict, ready_s, reason, message)
    return [
        _condition("PodReadyToStartContainers", "True" if has_sandbox else "False", sandbox_s, "", ""),
        _condition("Initialized", *initialized),
        ready,
        _condition("ContainersReady", verdict, ready_s, reason, message),
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": scheduled_since,
        },
    ]


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


def _main_statuses(plan: PodPlan, states: list[ContainerState]) -> list[dict[str, Any]]:
    if plan.is_plain:
        return _single(*_status_key(plan.containers[0], states[0]))
    return _statuses(plan.containers[plan.init_count :], states[plan.init_count :])


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
