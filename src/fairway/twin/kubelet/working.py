"""How much work does a run do, and when does it end by itself?

Sets a run's end when it starts, and closes its accounts when it ends: useful work, lost work, time spent on
saving and restoring, and what the workload's next run resumes from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.kube.timestamps import format_duration
from fairway.twin.behaviour import SIGKILL_EXIT, Behaviour
from fairway.twin.kubelet import collectives, gpumemory, sharing
from fairway.twin.kubelet.states import NO_TICKET, RUNNING, ContainerState, Ended, PodState
from fairway.twin.kubelet.usage import core_ns
from fairway.twin.loop import NO_TIME
from fairway.twin.progress import identity_of, wall_us, work_after

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet


def plan_exit(k: Kubelet, pod: PodState, i: int) -> None:
    """Work out how and when this run ends by itself, and queue that."""
    behaviour = pod.plan.behaviours[i]
    state = pod.containers[i]
    now_us = state.started_us
    startup_us = startup_of(pod, i)
    state.resumed_us = 0
    state.work_from_us = now_us + startup_us
    if k.stores is not None and k.stores.fetches(k, pod, i):
        return
    exit_at: Ended | None = None
    if behaviour.run is not None:
        run_us = behaviour.run.a_us
        if behaviour.run.form != "constant":
            run_us = behaviour.run.at_quantile(pod.luck[2] if pod.luck else k.luck_of(pod)[2])
        if k.drawn_us is not None:
            drawn_us = k.drawn_us(pod.key) if not pod.plan.containers[i].is_init else None
            run_us = run_us if drawn_us is None else drawn_us
        if behaviour.checkpoint_interval_us:
            _resume(k, pod, i, state, run_us)
        code = behaviour.exit_codes[0]
        if len(behaviour.exit_codes) > 1:
            code = behaviour.exit_code(k.progress.next_attempt(work_identity(k, pod, i)))
        state.work_us = max(run_us - state.resumed_us, 0)
        takes_us = wall_us(state.work_us, behaviour.checkpoint_interval_us, behaviour.checkpoint_us)
        reason = "Error" if code else "Completed"
        exit_at = Ended(code, reason, "", now_us, state.work_from_us + takes_us)
    state.own_end = exit_at
    _plan_end(k, pod, i)
    if i == pod.plan.init_count:
        pod.wire_milli = 1000
        collectives.join(k, pod)
        node = k.nodes[pod.node]
        if node.labels.get(sharing.STRATEGY) in sharing.SHARING:
            pod.pace_milli = 1000
            sharing.repace(k, node, pod, is_over=False)


def plan_end_again(k: Kubelet, pod: PodState, i: int) -> None:
    """Its memory limit is another now: whether it is killed is, too. What it does by itself stays."""
    state = pod.containers[i]
    if state.exit_ticket:
        k.loop.cancel(state.exit_ticket)
        state.exit_ticket = NO_TICKET
    _plan_end(k, pod, i)


def _plan_end(k: Kubelet, pod: PodState, i: int) -> None:
    """By itself, or killed before that for memory."""
    behaviour, state = pod.plan.behaviours[i], pod.containers[i]
    now_us, exit_at = state.started_us, state.own_end
    killed_after_us = behaviour.oom_after_us
    if behaviour.memory_limit_bytes:
        killed_after_us = _outgrown(behaviour, state.work_from_us - now_us, k.loop.now_us - now_us)
    if killed_after_us is not None:
        oom_us = now_us + killed_after_us
        if exit_at is None or oom_us < exit_at.finished_us:
            exit_at = Ended(SIGKILL_EXIT, "OOMKilled", "", now_us, oom_us)
    if behaviour.gpu_memory_bytes:
        card = gpumemory.card_bytes(k.nodes[pod.node].labels, (name for name, _ in pod.plan.requests))
        if card is not None:
            card -= gpumemory.taken_beside(k, pod)
        failed_after_us = gpumemory.outgrown_us(behaviour, card)
        if failed_after_us is not None:
            failed_us = state.work_from_us + failed_after_us
            if exit_at is None or failed_us < exit_at.finished_us:
                exit_at = Ended(1, "Error", "", now_us, failed_us)
    state.exit_at = exit_at
    state.stalled_us = NO_TIME
    if exit_at is not None:
        noticed_us = exit_at.finished_us + k.relist_delay(pod)
        state.exit_ticket = k.loop.at(noticed_us, k.h_exit, (pod.uid, i))


def _outgrown(behaviour: Behaviour, startup_us: int, ran_us: int) -> int | None:
    """How long after its start the kernel kills it: when it is said, or when it first uses more than its limit. What it
    used before now was under another limit."""
    limit = behaviour.memory_limit_bytes
    said_us, steps = behaviour.oom_after_us, behaviour.memory_bytes
    for n, (at_us, size) in enumerate(steps):
        is_past = n + 1 < len(steps) and startup_us + steps[n + 1][0] <= ran_us
        if size > limit and not is_past:
            outgrown_us = max(startup_us + at_us, ran_us)
            return outgrown_us if said_us is None else min(said_us, outgrown_us)
    return said_us


def _resume(k: Kubelet, pod: PodState, i: int, state: ContainerState, run_us: int) -> None:
    saved_us = k.progress.take(work_identity(k, pod, i))
    if saved_us:
        state.resumed_us = min(saved_us, run_us)
        state.work_from_us += pod.plan.behaviours[i].restore_us
        k.record(pod.key, "Resumed", f"{pod.plan.containers[i].name} from {format_duration(saved_us)}")


def work_identity(k: Kubelet, pod: PodState, i: int) -> str:
    """Whose work it is. Kept from the first time on: a pod deleted without grace is gone before its accounts close."""
    for at, identity in pod.works:
        if at == i:
            return identity
    container = pod.plan.containers[i]
    obj = k.store.get(pod.key)
    if obj is None:
        return f"{pod.uid}//{container.name}"
    found = identity_of(obj, container.name, pod.plan.behaviours[i].checkpoint_key)
    pod.works = (*pod.works, (i, found))
    return found


def startup_of(pod: PodState, i: int) -> int:
    """How long this pod's container takes until its application is up."""
    startup = pod.plan.behaviours[i].startup
    if startup.form == "constant":
        return startup.a_us
    return startup.at_quantile(pod.luck[3] if pod.luck else 0.5)


def settle(k: Kubelet, pod: PodState, i: int, end: Ended) -> None:
    """Close the accounts of a run: what it achieved, what is saved for the next one."""
    state = pod.containers[i]
    totals = k.progress.totals
    behaviour = pod.plan.behaviours[i]
    gpu_milli = pod.plan.gpu_milli_of(i)
    _spend(k, pod, i, end.finished_us)
    _leave_card(k, pod, i)
    if k.stores is not None:
        k.stores.leave(k, (pod.uid, i))
    if pod.gang is not None and i == pod.plan.init_count:
        collectives.settle_wait(k, pod, end.finished_us)
        collectives.leave(k, pod, is_done=end.exit_code == 0)
    if behaviour.run is None:
        totals.add(end.finished_us - end.started_us, 0, 0, gpu_milli)
        return
    takes_us = wall_us(state.work_us, behaviour.checkpoint_interval_us, behaviour.checkpoint_us)
    if end.exit_code == 0 and end.finished_us >= state.work_from_us + takes_us:
        totals.add(state.work_us, 0, end.finished_us - end.started_us - state.work_us, gpu_milli)
        return
    settle_loss(k, pod, i, end.finished_us)


def _leave_card(k: Kubelet, pod: PodState, i: int) -> None:
    """Those who shared its card have more of it."""
    node = k.nodes.get(pod.node)
    if i == pod.plan.init_count and node is not None and node.labels.get(sharing.STRATEGY) in sharing.SHARING:
        sharing.repace(k, node, pod, is_over=True)


def lose_running(k: Kubelet, pod: PodState) -> None:
    """Close the accounts of every running container: its work since the last checkpoint is lost now."""
    now_us = k.loop.now_us
    for i, state in enumerate(pod.containers):
        if state.state == RUNNING:
            _spend(k, pod, i, now_us)
            _leave_card(k, pod, i)
            if k.stores is not None:
                k.stores.leave(k, (pod.uid, i))
            if pod.gang is not None and i == pod.plan.init_count:
                collectives.settle_wait(k, pod, now_us)
                collectives.leave(k, pod, is_done=False)
            if pod.plan.behaviours[i].run is None:
                ran_us = now_us - state.started_us
                k.progress.totals.add(ran_us, 0, 0, pod.plan.gpu_milli_of(i))
            else:
                settle_loss(k, pod, i, now_us)


def _spend(k: Kubelet, pod: PodState, i: int, until_us: int) -> None:
    """What this run used of the node's CPU stays used."""
    node = k.nodes.get(pod.node)
    if node is not None:
        state = pod.containers[i]
        behaviour = pod.plan.behaviours[i]
        node.spent_core_ns += core_ns(behaviour, state.started_us, state.work_from_us, until_us)


def settle_loss(k: Kubelet, pod: PodState, i: int, ended_us: int) -> None:
    """A run ended before its work was done: what is saved waits for the next one, the rest is lost."""
    state = pod.containers[i]
    behaviour = pod.plan.behaviours[i]
    totals = k.progress.totals
    interval_us = behaviour.checkpoint_interval_us
    worked_us = ended_us - state.work_from_us
    if state.stalled_us != NO_TIME:
        worked_us = min(ended_us, state.stalled_us) - state.stalled_from_us
    work = work_after(worked_us, interval_us, behaviour.checkpoint_us)
    done_us = min(work.done_us, state.work_us)
    saved_us = min(work.saved_us, done_us)
    overhead_us = max(ended_us - state.started_us - done_us, 0)
    totals.add(saved_us, done_us - saved_us, overhead_us, pod.plan.gpu_milli_of(i))
    if interval_us and state.resumed_us + saved_us:
        k.progress.put_back(work_identity(k, pod, i), state.resumed_us + saved_us)
