"""What does a kubelet write about each container? One shared dict per distinct status.

Source: pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses (v1.36).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from fairway.kube.timestamps import SECOND_US, rfc3339_of_second
from fairway.twin.kubelet.conditions import SHARED
from fairway.twin.kubelet.plans import ContainerPlan, PodPlan
from fairway.twin.kubelet.states import RUNNING, TERMINATED, WAITING, ContainerState, Ended


def main_statuses(plan: PodPlan, states: list[ContainerState]) -> list[dict[str, Any]]:
    if plan.is_plain:
        return _single(*status_key(plan.containers[0], states[0]))
    return statuses(plan.containers[plan.init_count :], states[plan.init_count :])


def statuses(plans: tuple[ContainerPlan, ...], states: list[ContainerState]) -> list[dict[str, Any]]:
    if len(plans) == 1:
        return _single(*status_key(plans[0], states[0]))
    made = [_shared_status(*status_key(p, s)) for p, s in zip(plans, states, strict=True)]
    if plans[0].is_init:
        return made
    return sorted(made, key=lambda status: str(status["name"]))


def status_key(plan: ContainerPlan, state: ContainerState) -> tuple[Any, ...]:
    """Everything a container's status shows, in whole seconds, hashable."""
    if state.state == RUNNING:
        now: tuple[Any, ...] = ("running", state.started_us // SECOND_US)
    elif state.state == TERMINATED and state.end is not None:
        now = _ended_key(state.end)
    else:
        now = ("waiting", state.reason, state.message)
    last = None if state.last is None else _ended_key(state.last)
    granted: str | None = plan.resources
    actual = granted if state.actual is None or state.state != RUNNING else state.actual
    if state.state == WAITING and last is None:
        granted = actual = None
    return plan.name, plan.image, granted, actual, now, last, state.restarts, state.is_ready, state.is_started


def _ended_key(end: Ended) -> tuple[Any, ...]:
    return (
        "terminated",
        end.exit_code,
        end.reason,
        end.message,
        end.started_us // SECOND_US,
        end.finished_us // SECOND_US,
    )


@lru_cache(maxsize=SHARED)
def _single(*key: Any) -> list[dict[str, Any]]:
    return [container_status(*key)]


def container_status(
    name: str,
    image: str,
    granted: str | None,
    actual: str | None,
    now: tuple[Any, ...],
    last: tuple[Any, ...] | None,
    restarts: int,
    is_ready: bool,
    is_started: bool,
) -> dict[str, Any]:
    """`granted`, `actual`: resources as JSON; None for a container that never ran."""
    status = {
        "name": name,
        "state": _state(now),
        "lastState": {} if last is None else _state(last),
        "ready": is_ready,
        "restartCount": restarts,
        "image": image,
        "imageID": "",
        "started": is_started,
    }
    if granted is not None:
        requests = msgspec.json.decode(granted).get("requests") if granted else None
        if requests:
            status["allocatedResources"] = requests
        status["resources"] = msgspec.json.decode(actual) if actual else {}
    return status


_shared_status = lru_cache(maxsize=SHARED)(container_status)


def _state(key: tuple[Any, ...]) -> dict[str, Any]:
    if key[0] == "running":
        return {"running": {"startedAt": rfc3339_of_second(key[1])}}
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
    ended["startedAt"] = None if started_s < 0 else rfc3339_of_second(started_s)
    ended["finishedAt"] = None if started_s < 0 else rfc3339_of_second(finished_s)
    return {"terminated": ended}
