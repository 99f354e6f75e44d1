"""Which phase is a pod in? From the states of its containers, as the kubelet works it out.

Source: pkg/kubelet/kubelet_pods.go getPhase (v1.36).
"""

from __future__ import annotations

from typing import Final

from fairway.kube.objects import Obj
from fairway.twin.kubelet.plans import ContainerPlan, PodPlan
from fairway.twin.kubelet.states import RUNNING, TERMINATED, WAITING, ContainerState

PENDING, RUNNING_PHASE, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL: Final = (SUCCEEDED, FAILED)


def has_ended(pod: Obj) -> bool:
    """Whether the API says the pod is over."""
    status = pod.get("status")
    return status is not None and status.get("phase") in TERMINAL


def phase_of(plan: PodPlan, states: list[ContainerState], *, is_terminal: bool) -> str:
    """The pod's phase. `is_terminal`: all has been stopped and nothing will be started again."""
    if plan.is_plain:
        return _phase_of_plain(plan, states[0], is_terminal=is_terminal)
    pending_init = failed_init = running = waiting = restartable = False
    stopped = succeeded = 0
    for i, (container, state) in enumerate(zip(plan.containers, states, strict=True)):
        past = state.end if state.state == TERMINATED else state.last if state.state == WAITING else None
        if i < plan.init_count and not container.is_sidecar:
            if past is None:
                pending_init = True
            elif past.exit_code != 0 and not container.restarts_after(past.exit_code):
                failed_init = True
        elif i < plan.init_count:
            if state.state == RUNNING:
                running = True
            elif state.state == WAITING and past is None:
                waiting = True
        elif state.state == RUNNING:
            running = True
        elif past is None:
            waiting = True
        else:
            stopped += 1
            restartable |= container.restarts_after(past.exit_code)
            succeeded += state.state == TERMINATED and past.exit_code == 0
    if failed_init:
        return FAILED
    # A main container that has not started waits: sidecars that are yet to start add nothing to that.
    if pending_init or waiting:
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


def is_initialized(container: ContainerPlan, state: ContainerState) -> bool:
    """Whether this init container is done: a sidecar has started, any other has exited with 0."""
    if container.is_sidecar:
        return state.state == RUNNING and state.is_started
    return state.state == TERMINATED and state.end is not None and state.end.exit_code == 0
