"""Does every member of a distributed job run? Only then does any of them get on.

A member that waits holds its GPUs and does nothing: the end of its run is put off until the others are there, or
comes with the timeout of its framework (exit code 1). A member that ends well stays counted; one that fails, is
stopped or lost makes the others wait again. What was done before goes on where it stood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairway.kube.timestamps import format_duration
from fairway.twin.kubelet import talking
from fairway.twin.kubelet.states import NO_TICKET, RUNNING, Ended, PodState
from fairway.twin.loop import NO_TIME
from fairway.workloads.worldsize import Gang, gang_of

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

# Work of a member that waits begins at no time that comes.
NEVER_US: Final = 2**62


class Members:
    """Of one gang: pods whose main container runs, and those that have ended well."""

    def __init__(self) -> None:
        self.running: dict[str, None] = {}
        self.done: dict[str, None] = {}

    def copy(self) -> Members:
        twin = Members()
        twin.running, twin.done = dict(self.running), dict(self.done)
        return twin

    def are_whole(self, gang: Gang) -> bool:
        return len(self.running) + len(self.done) >= gang.needed


def join(k: Kubelet, pod: PodState) -> None:
    """The main container of a pod runs."""
    obj = k.store.get(pod.key)
    gang = None if obj is None else gang_of(k.store, obj)
    pod.gang = gang
    talks = pod.plan.behaviours[pod.plan.init_count].step_us > 0
    if gang is None:
        if talks:
            talking.pace(k, [pod])
        return
    members = k.gangs.get(gang.key)
    if members is None:
        members = k.gangs[gang.key] = Members()
    members.done = {uid: None for uid in members.done if k.store.by_uid(uid) is not None and uid != pod.uid}
    members.running[pod.uid] = None
    if members.are_whole(gang):
        for uid in members.running:
            _go_on(k, k.pods[uid])
        if talks:
            talking.pace(k, [k.pods[uid] for uid in members.running])
    else:
        _wait(k, pod, gang, members)


def leave(k: Kubelet, pod: PodState, *, is_done: bool) -> None:
    """It runs no more."""
    gang = pod.gang
    members = None if gang is None else k.gangs.get(gang.key)
    if gang is None or members is None or pod.uid not in members.running:
        return
    del members.running[pod.uid]
    if is_done:
        members.done[pod.uid] = None
    if not members.running:
        if not is_done:
            del k.gangs[gang.key]
    elif not members.are_whole(gang):
        for uid in members.running:
            _wait(k, k.pods[uid], gang, members)


def _wait(k: Kubelet, pod: PodState, gang: Gang, members: Members) -> None:
    state, behaviour = pod.containers[pod.plan.init_count], pod.plan.behaviours[pod.plan.init_count]
    if behaviour.run is None or state.stalled_us != NO_TIME or state.state != RUNNING or pod.is_stopping:
        return
    now_us = k.loop.now_us
    if state.exit_ticket:
        k.loop.cancel(state.exit_ticket)
    state.stalled_us, state.stalled_from_us, state.work_from_us = now_us, state.work_from_us, NEVER_US
    state.put_off, state.exit_at, state.exit_ticket = state.exit_at, None, NO_TICKET
    if gang.timeout_us:
        state.exit_at = Ended(1, "Error", "", state.started_us, now_us + gang.timeout_us)
        state.exit_ticket = k.loop.at(
            state.exit_at.finished_us + k.relist_delay(pod), k.h_exit, (pod.uid, pod.plan.init_count)
        )
    there = len(members.running) + len(members.done)
    k.record(pod.key, "WaitsForMembers", f"{there} of {gang.needed} run")


def _go_on(k: Kubelet, pod: PodState) -> None:
    i = pod.plan.init_count
    state = pod.containers[i]
    if state.stalled_us == NO_TIME or state.state != RUNNING or pod.is_stopping:
        return
    now_us, put_off = k.loop.now_us, state.put_off
    waited_us = now_us - state.stalled_us
    settle_wait(k, pod, now_us)
    begun_us = state.stalled_from_us
    # Its application comes up while it waits; work that had begun goes on where it stood.
    state.work_from_us = max(begun_us, now_us) if begun_us >= state.stalled_us else begun_us + waited_us
    state.stalled_us = NO_TIME
    if state.exit_ticket:
        k.loop.cancel(state.exit_ticket)
    state.exit_at, state.put_off, state.exit_ticket = None, None, NO_TICKET
    if put_off is not None:
        later_us = state.work_from_us - begun_us
        state.exit_at = put_off._replace(finished_us=put_off.finished_us + later_us)
        state.exit_ticket = k.loop.at(state.exit_at.finished_us + k.relist_delay(pod), k.h_exit, (pod.uid, i))
    k.record(pod.key, "MembersRun", f"after {format_duration(waited_us)}")


def settle_wait(k: Kubelet, pod: PodState, until_us: int) -> None:
    """Count what the wait for others held without doing anything."""
    state = pod.containers[pod.plan.init_count]
    if state.stalled_us != NO_TIME:
        k.progress.totals.waited_gpu_us += (until_us - state.stalled_us) * pod.plan.gpu_milli
