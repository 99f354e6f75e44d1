"""How do containers and pods end when something makes them end?

A stop runs the preStop hook, then SIGTERM, then SIGKILL when the grace is over; sidecars wait for the others
and stop in reverse order within what is left of it. When nothing runs any more the pod's final status is
written, its place on the node is free, and if it was deleted it leaves the API.

Source: pkg/kubelet/kuberuntime/kuberuntime_container.go killContainer, kuberuntime_termination_order.go,
pkg/kubelet/status/status_manager.go TerminatePod, mergePodStatus (v1.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairway.cluster.actions import Delete, perform
from fairway.errors import BugError
from fairway.kube.objects import Key, Obj, meta_of, status_of
from fairway.kube.timestamps import SECOND_US
from fairway.twin.behaviour import SIGKILL_EXIT, Behaviour
from fairway.twin.kubeevents import NORMAL
from fairway.twin.kubelet import locality, working
from fairway.twin.kubelet.phases import FAILED, TERMINAL, has_ended, phase_of
from fairway.twin.kubelet.states import (
    NO_TICKET,
    RUNNING,
    TERMINATED,
    ContainerState,
    Ended,
    Ending,
    NodeState,
    PodState,
)
from fairway.twin.kubelet.status import pod_status
from fairway.twin.loop import NO_TIME

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

# A container always gets this long after SIGTERM. Source: minimumGracePeriodInSeconds.
MINIMUM_GRACE_US: Final = 2 * SECOND_US

DEADLINE_EXCEEDED: Final = Ending(
    "DeadlineExceeded", "Pod was active on the node longer than the specified deadline", keeps_success=True
)


def stop_container(
    k: Kubelet, pod: PodState, i: int, from_us: int, grace_us: int, message: str = ""
) -> Ended:
    """Make a running container stop; returns how and when it will."""
    container = pod.plan.containers[i]
    state = pod.containers[i]
    k.tell_of(pod, i, NORMAL, "Killing", message or f"Stopping container {container.name}")
    disarm(k, state, keep_readiness=True)
    behaviour = pod.plan.behaviours[i]
    end = _stop_end(container.pre_stop_us, behaviour, state, from_us, grace_us)
    if end is not state.exit_at:
        if state.exit_ticket:
            k.loop.cancel(state.exit_ticket)
        state.exit_at = end
        state.exit_ticket = k.loop.at(end.finished_us, k.h_exit, (pod.uid, i))
    return end


def _stop_end(
    pre_stop_us: int, behaviour: Behaviour, state: ContainerState, from_us: int, grace_us: int
) -> Ended:
    """How a stop beginning at `from` ends the run; a run that ends by itself before that just does."""
    pre_stop_us = min(pre_stop_us, grace_us)
    left_us = max(grace_us - pre_stop_us, MINIMUM_GRACE_US)
    if behaviour.stop_us is None or behaviour.stop_us > left_us:
        end = Ended(SIGKILL_EXIT, "Error", "", state.started_us, from_us + pre_stop_us + left_us)
    else:
        code = behaviour.stop_exit_code
        finished_us = from_us + pre_stop_us + behaviour.stop_us
        end = Ended(code, "Error" if code else "Completed", "", state.started_us, finished_us)
    natural = state.exit_at
    return natural if natural is not None and natural.finished_us <= end.finished_us else end


def begin(k: Kubelet, pod: PodState, grace_us: int, ending: Ending | None = None) -> None:
    """Stop the whole pod within a grace period. A second, shorter one shortens what is left."""
    now_us = k.loop.now_us
    if pod.is_stopping:
        if now_us + grace_us >= pod.stop_by_us:
            return
    else:
        pod.ending = ending
    pod.is_stopping = True
    pod.stop_by_us = now_us + grace_us
    if pod.deadline_ticket:
        k.loop.cancel(pod.deadline_ticket)
        pod.deadline_ticket = NO_TICKET
    for state in pod.containers:
        if state.start_ticket:
            k.loop.cancel(state.start_ticket)
            state.start_ticket = NO_TICKET
    if not any(s.state == RUNNING for s in pod.containers):
        finish(k, pod)
        return
    _stop_in_order(k, pod, now_us, grace_us)


def _stop_in_order(k: Kubelet, pod: PodState, now_us: int, grace_us: int) -> None:
    """Main (and plain init) containers at once; then sidecars, the last one first."""
    plan = pod.plan
    quiet_us = now_us
    sidecars = []
    for i, state in enumerate(pod.containers):
        if state.state != RUNNING:
            continue
        if plan.containers[i].is_sidecar:
            sidecars.append(i)
        else:
            quiet_us = max(quiet_us, stop_container(k, pod, i, now_us, grace_us).finished_us)
    for i in reversed(sidecars):
        # A sidecar waits for its turn, but not beyond the grace period.
        turn_us = min(quiet_us, now_us + grace_us)
        end = stop_container(k, pod, i, turn_us, now_us + grace_us - turn_us)
        quiet_us = max(quiet_us, end.finished_us)


def delete(k: Kubelet, pod: PodState, obj: Obj) -> None:
    """The API says the pod is to go."""
    node = k.nodes[pod.node]
    if not (node.is_up and node.is_reachable):
        return
    grace = meta_of(obj).get("deletionGracePeriodSeconds")
    begin(k, pod, pod.plan.grace_us if grace is None else int(grace) * SECOND_US)


def finish(k: Kubelet, pod: PodState) -> None:
    """Nothing of the pod runs any more: free its place, write its last status, let it go if deleted."""
    release(k, pod)
    node = k.nodes.get(pod.node)
    if node is None:
        return
    if node.is_reachable:
        write_last_status(k, pod, node)
    else:
        node.owed[pod.uid] = pod


def write_last_status(k: Kubelet, pod: PodState, node: NodeState) -> None:
    phase = phase_of(pod.plan, pod.containers, is_terminal=True)
    if phase not in TERMINAL:
        phase = FAILED
    for state in pod.containers:
        if state.state != TERMINATED:
            _close_unstarted(pod, state)
        state.is_started = False
    obj = k.store.get(pod.key)
    if obj is None or obj["metadata"]["uid"] != pod.uid:
        return
    now_us = k.loop.now_us
    if has_ended(obj):
        written = obj
    else:
        status = pod_status(obj, pod, node, phase, now_us)
        written = k.store.set_status(pod.key, status)
        k.record(pod.key, status["phase"], status.get("reason", ""))
    if "deletionTimestamp" in written["metadata"]:
        later_us = now_us + k.teardown_delay()
        if later_us > now_us:
            k.loop.at(later_us, k.h_remove, (pod.uid, pod.key))
        else:
            on_remove(k, (pod.uid, pod.key))


def _close_unstarted(pod: PodState, state: ContainerState) -> None:
    """A container without an end counts as failed once its pod is over. Source: TerminatePod."""
    if not pod.is_initialized:
        return
    message = "The container could not be located when the pod was terminated"
    state.state = TERMINATED
    state.end = Ended(SIGKILL_EXIT, "ContainerStatusUnknown", message, NO_TIME, NO_TIME)


def on_remove(k: Kubelet, data: tuple[str, Key]) -> None:
    """The pod's last traces on the node are gone: delete it for good."""
    uid, key = data
    perform(k.store, Delete(key, uid, grace_s=0))


def remove_unstarted(k: Kubelet, key: Key, obj: Obj) -> None:
    """A pod that was deleted before its kubelet ever started it: failed, and gone."""
    k.store.set_status(key, {**status_of(obj), "phase": FAILED})
    k.record(key, FAILED, "deleted before it started")
    on_remove(k, (meta_of(obj)["uid"], key))


def release(k: Kubelet, pod: PodState) -> None:
    """Forget a pod: its timers, its place on the node. Its last status is the caller's."""
    loop = k.loop
    if pod.deadline_ticket:
        loop.cancel(pod.deadline_ticket)
    if pod.report_ticket:
        loop.cancel(pod.report_ticket)
    for state in pod.containers:
        if state.start_ticket:
            loop.cancel(state.start_ticket)
        if state.exit_ticket:
            loop.cancel(state.exit_ticket)
        disarm(k, state)
    del k.pods[pod.uid]
    node = k.nodes.get(pod.node)
    if node is not None and pod.uid in node.pods:
        del node.pods[pod.uid]
        if node.resizes:
            loop.at(loop.now_us, k.h_resizes, node.name)
        if node.managers is not None:
            locality.leave(node, pod.uid)
        used = node.used
        for name, amount in pod.plan.requests:
            used[name] = left = used[name] - amount
            if left < 0:
                raise BugError(f"{node.name}: {name} in use fell to {left} when {pod.key} left")


def drop(k: Kubelet, pod: PodState) -> None:
    """The pod is gone from the API (a forced deletion): whatever still ran is killed at once."""
    working.lose_running(k, pod)
    release(k, pod)


def disarm(k: Kubelet, state: ContainerState, *, keep_readiness: bool = False) -> None:
    """Drop what is planned for a container that ended, or all but readiness for one that is stopping."""
    for ticket in (state.startup_ticket, state.liveness_ticket):
        if ticket:
            k.loop.cancel(ticket)
    state.startup_ticket = state.liveness_ticket = NO_TICKET
    if state.readiness_ticket and not keep_readiness:
        k.loop.cancel(state.readiness_ticket)
        state.readiness_ticket = NO_TICKET
