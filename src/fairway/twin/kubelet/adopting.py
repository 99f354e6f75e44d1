"""How does a kubelet go on with pods that ran before it started? From what their status says.

A kubelet that restarts finds its containers running. Here that is a control plane that was stopped and started
again: what ran goes on from its `startedAt`, what waited for a restart waits again, what never started starts.
Known by the status alone: what a run had saved in checkpoints before is not (it resumes as its annotations say).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway.kube.objects import Key, Obj, annotations_of, key_of, status_of
from fairway.kube.timestamps import parse_rfc3339
from fairway.twin.behaviour import PREFIX
from fairway.twin.kubelet import locality, probing, resizing, starting, stopping, working
from fairway.twin.kubelet.phases import has_ended
from fairway.twin.kubelet.states import RUNNING, TERMINATED, ContainerState, Ended, PodState
from fairway.twin.loop import NO_TIME

_EXIT_CODE = f"{PREFIX}exit-code"

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet


def take_on(k: Kubelet, key: Key, obj: Obj) -> None:
    """A pod bound to one of our nodes: start it, or go on with it where it was started before."""
    status = status_of(obj)
    node = k.nodes.get(obj["spec"]["nodeName"])
    if not status.get("containerStatuses") or node is None or not (node.is_up and node.is_reachable):
        starting.admit(k, key, obj)
        return
    uid = obj["metadata"]["uid"]
    had = resizing.remember(obj)
    pod = PodState(uid, key, node.name, k.plans.of(had), _time_us(status.get("startTime"), k.loop.now_us))
    if k.needs_luck:
        pod.luck = k.host.streams.draws_for("pod", key.namespace, key.name)
    if node.managers is not None:
        locality.refusal(k, node, key, obj)
    k.pods[uid] = pod
    node.pods[uid] = None
    for name, amount in pod.plan.requests:
        node.used[name] = node.used.get(name, 0) + amount
    if pod.plan.deadline_us is not None:
        pod.deadline_ticket = k.loop.at(pod.start_us + pod.plan.deadline_us, k.h_deadline, uid)
    _remember(pod, status)
    _count_runs(k, pod)
    _go_on(k, pod)
    if "deletionTimestamp" in obj["metadata"]:
        stopping.delete(k, pod, obj)
    elif had is not obj:
        resizing.observe(k, pod, obj)


def count_ended(k: Kubelet) -> None:
    """Pods that are over before anything starts: their runs were attempts, of whoever comes after them."""
    for obj in k.store.objects("Pod"):
        if has_ended(obj) and any(key.startswith(_EXIT_CODE) for key in annotations_of(obj)):
            key = key_of(obj)
            pod = PodState(obj["metadata"]["uid"], key, "", k.plans.of(obj), k.loop.now_us)
            _remember(pod, status_of(obj))
            _count_runs(k, pod)


def _count_runs(k: Kubelet, pod: PodState) -> None:
    """Which attempt the next run is, where exit codes differ by attempt: those that ended were before it."""
    for i, state in enumerate(pod.containers):
        runs = state.restarts + (state.state != RUNNING and (state.end or state.last) is not None)
        if runs and len(pod.plan.behaviours[i].exit_codes) > 1:
            k.progress.ran_before(working.work_identity(k, pod, i), runs)


def _remember(pod: PodState, status: dict[str, Any]) -> None:
    """Take addresses, conditions' times and every container's state from the status."""
    pod.ip = status.get("podIP") or ""
    if pod.ip:
        pod.ips = [{"ip": pod.ip}]
    for condition in status.get("conditions") or ():
        since_us = _time_us(condition.get("lastTransitionTime"), pod.start_us)
        if condition.get("type") == "Ready":
            pod.ready_since_us = since_us
            pod.is_ready = condition.get("status") == "True"
        elif condition.get("type") == "Initialized":
            pod.initialized_since_us = since_us
            pod.is_initialized = condition.get("status") == "True"
        elif condition.get("type") == "PodReadyToStartContainers" and condition.get("status") == "True":
            pod.sandbox_since_us = since_us
    told = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    by_name = {s.get("name"): s for s in told}
    for container, state in zip(pod.plan.containers, pod.containers, strict=True):
        _recall(state, by_name.get(container.name) or {})


def _recall(state: ContainerState, told: dict[str, Any]) -> None:
    state.restarts = int(told.get("restartCount") or 0)
    state.is_ready = bool(told.get("ready"))
    state.is_started = bool(told.get("started"))
    state.last = _ended((told.get("lastState") or {}).get("terminated"))
    now = told.get("state") or {}
    if "running" in now:
        state.state = RUNNING
        state.started_us = _time_us(now["running"].get("startedAt"), 0)
    elif "terminated" in now:
        state.state = TERMINATED
        state.end = _ended(now["terminated"])
        state.started_us = state.end.started_us if state.end is not None else NO_TIME
    elif state.last is not None:
        state.started_us = state.last.started_us


def _go_on(k: Kubelet, pod: PodState) -> None:
    """Arm what was armed: ends of runs, probes, restarts, and the start of what never ran."""
    waits = False
    for i, state in enumerate(pod.containers):
        container = pod.plan.containers[i]
        if state.state == RUNNING:
            working.plan_exit(k, pod, i)
            if not container.is_init or container.is_sidecar:
                probing.arm(k, pod, i)
        elif state.state == TERMINATED and state.end is not None:
            if container.restarts_after(state.end.exit_code) and not container.is_init:
                starting.restart(k, pod, i)
        elif state.last is not None:
            state.end = state.last
            starting.restart(k, pod, i)
        else:
            waits = True
    if waits and pod.sandbox_since_us != NO_TIME:
        starting.start_next(k, pod, k.nodes[pod.node], k.loop.now_us)
    elif waits:
        starting.begin(k, pod, k.nodes[pod.node])


def _ended(told: dict[str, Any] | None) -> Ended | None:
    if not told:
        return None
    return Ended(
        int(told.get("exitCode") or 0),
        str(told.get("reason") or ""),
        str(told.get("message") or ""),
        _time_us(told.get("startedAt"), NO_TIME),
        _time_us(told.get("finishedAt"), NO_TIME),
    )


def _time_us(text: str | None, otherwise_us: int) -> int:
    return parse_rfc3339(text) if text else otherwise_us
