"""A container whose GPU is slower from now on: the rest of its run takes longer, or as long as before again.

Unlike what happens to a real job, what it has done meanwhile counts by the wall: a checkpoint inside the slow stretch
saves a little more than was done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.twin.kubelet.states import RUNNING, PodState
from fairway.twin.loop import NO_TIME

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet


def stretch(k: Kubelet, pod: PodState, milli: int) -> bool:
    """The rest of the main container's run takes so many thousandths of what it would; whether it has one."""
    i = pod.plan.init_count
    state = pod.containers[i]
    if state.state != RUNNING or state.exit_at is None or state.stalled_us != NO_TIME or pod.is_stopping:
        return False
    rest_us = state.exit_at.finished_us - k.loop.now_us
    if rest_us <= 0:
        # It has ended, and nobody has noticed yet.
        return False
    is_own = state.exit_at is state.own_end
    if state.exit_ticket:
        k.loop.cancel(state.exit_ticket)
    state.exit_at = state.exit_at._replace(finished_us=k.loop.now_us + rest_us * milli // 1000)
    if is_own:
        state.own_end = state.exit_at
    state.exit_ticket = k.loop.at(state.exit_at.finished_us + k.relist_delay(pod), k.h_exit, (pod.uid, i))
    return True
