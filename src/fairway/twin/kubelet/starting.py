"""How does a pod come up, and its containers again after they ended?

Admission, sandbox, images, init containers in order, sidecars, the others one after another, probes, exits,
restarts with back-off. Every step is an event named in `component`; what it needs to know is in the states.

Source: pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions, SyncPod, doBackOff;
client-go util/flowcontrol/backoff.go (v1.36).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from fairway.kube.durations import go_duration_us
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, format_duration
from fairway.twin.kubeevents import NORMAL, WARNING, Said
from fairway.twin.kubelet import (
    gpufaults,
    locality,
    mounting,
    preparing,
    probing,
    pulling,
    resizing,
    stopping,
    working,
)
from fairway.twin.kubelet.admission import rejection
from fairway.twin.kubelet.phases import is_initialized
from fairway.twin.kubelet.states import (
    NO_TICKET,
    RUNNING,
    TERMINATED,
    WAITING,
    Ended,
    NodeState,
    PodState,
)
from fairway.twin.kubelet.status import rejected_status
from fairway.twin.loop import NO_TIME

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

# Unlike kube: a status that would stand for less than this is not written. A real kubelet writes "Pending,
# ContainerCreating" for every pod; where the image is there the start follows within two seconds, nobody can
# act on it in between, and it would be a third of all writes.
SHORT_US: Final = 2 * SECOND_US
# Pods of so many containers tell of their starts this often at most: each status names them all. Upstream looks at
# containers once a second.
_MANY: Final = 32
# A new pod's back-off starts over when it had none for this many times the maximum. Source: backoff.go.
_EXPIRES_AFTER_MAXIMA: Final = 2


def admit(k: Kubelet, key: Key, obj: Obj) -> None:
    """Take on a pod that was bound to one of our nodes, or refuse it."""
    meta, spec = obj["metadata"], obj["spec"]
    uid = meta["uid"]
    node = k.nodes.get(spec["nodeName"])
    if node is None:
        k.homeless.setdefault(spec["nodeName"], {})[uid] = key
        return
    if not (node.is_up and node.is_reachable):
        # A pod that ended behind a partition is known; what others write about it changes nothing.
        if uid not in node.owed:
            node.unseen[uid] = key
        return
    if "deletionTimestamp" in meta:
        stopping.remove_unstarted(k, key, obj)
        return
    now_us = k.loop.now_us
    plan = k.plans.of(obj)
    if plan.problem is not None:
        k.tell(key, uid, WARNING, "InvalidBehaviour", str(plan.problem))
    refused = rejection(node, plan, obj)
    if refused is None and node.managers is not None:
        refused = locality.refusal(k, node, key, obj)
    if refused is not None:
        k.tell(key, uid, WARNING, refused.reason, refused.message)
        k.store.set_status(key, rejected_status(obj, refused.reason, refused.message, now_us))
        k.record(key, refused.reason, node.name)
        return
    pod = PodState(uid, key, node.name, plan, now_us)
    k.pods[uid] = pod
    node.pods[uid] = None
    used = node.used
    for name, amount in plan.requests:
        used[name] = used.get(name, 0) + amount
    if plan.deadline_us is not None:
        pod.deadline_ticket = k.loop.at(now_us + plan.deadline_us, k.h_deadline, uid)
    if k.needs_luck:
        pod.luck = k.host.streams.draws_for("pod", key.namespace, key.name)
    begin(k, pod, node)


def begin(k: Kubelet, pod: PodState, node: NodeState) -> None:
    """Mount the volumes, set up the sandbox and start what comes first."""
    obj = k.store.get(pod.key)
    if obj is None or not mounting.waits_for_volumes(k, pod, obj):
        _set_up_if_possible(k, pod, node, obj)


def on_mount(k: Kubelet, data: tuple[str, int, int]) -> None:
    if mounting.on_mount(k, data):
        pod = k.pods[data[0]]
        _set_up_if_possible(k, pod, k.nodes[pod.node], k.store.get(pod.key))


def on_sandbox(k: Kubelet, uid: str) -> None:
    """Time to try the sandbox again."""
    pod = k.pods.get(uid)
    if pod is not None and not (pod.is_stopping or pod.is_lost):
        _set_up_if_possible(k, pod, k.nodes[pod.node], k.store.get(pod.key))


def on_prepare(k: Kubelet, data: tuple[str, int]) -> None:
    if preparing.on_prepare(k, data):
        on_sandbox(k, data[0])


def _set_up_if_possible(k: Kubelet, pod: PodState, node: NodeState, obj: Obj | None) -> None:
    if obj is not None and preparing.waits_for_claims(k, pod, obj):
        return
    runtime = None if obj is None else obj["spec"].get("runtimeClassName")
    if runtime is None or not gpufaults.waits_for_runtime(k, pod, node, runtime):
        _set_up(k, pod, node)


def _set_up(k: Kubelet, pod: PodState, node: NodeState) -> None:
    now_us = k.loop.now_us
    sandbox_us = now_us + k.sync_delay()
    if pod.luck:
        sandbox_us += k.sandbox_start.at_quantile(pod.luck[0])
    else:
        sandbox_us += k.sandbox_start.a_us
    pod.sandbox_since_us = sandbox_us
    start_next(k, pod, node, sandbox_us)
    if pod.last_start_us - now_us >= SHORT_US:
        k.report(pod)


def start_next(k: Kubelet, pod: PodState, node: NodeState, from_us: int) -> None:
    """Plan the start of whatever may start now: the next init container, or all the others in order."""
    plan = pod.plan
    states = pod.containers
    for i in range(plan.init_count):
        state = states[i]
        if not is_initialized(plan.containers[i], state):
            if state.state == WAITING and not state.start_ticket:
                schedule_start(k, pod, node, i, from_us)
            return
    for i in range(plan.init_count, len(states)):
        state = states[i]
        if state.state == WAITING and not state.start_ticket and state.started_us == NO_TIME:
            from_us = schedule_start(k, pod, node, i, from_us)


def schedule_start(k: Kubelet, pod: PodState, node: NodeState, i: int, from_us: int) -> int:
    """Plan pulling the image and starting the container; returns when it will run."""
    state = pod.containers[i]
    behaviour = pod.plan.behaviours[i]
    if behaviour.image_pull_fails and pulling.is_within(behaviour.image_pull_fails, from_us - pod.start_us):
        at_us = from_us + k.image_check.a_us
        state.start_ticket = k.loop.at(at_us, k.h_pull_failed, (pod.uid, i))
        pod.last_start_us = max(pod.last_start_us, at_us)
        return at_us
    pulled_us = -1
    ready_us = from_us
    if k.pulls_take_time or behaviour.image_pull is not None:
        ready_us, pulled_us = pulling.pull(k, pod, node, i, from_us)
    if pod.luck and not state.restarts:
        ready_us += k.container_start.at_quantile(pod.luck[1])
    else:
        ready_us += k.start_delay()
    state.start_ticket = k.loop.at(ready_us, k.h_start, (pod.uid, i, pulled_us))
    pod.last_start_us = max(pod.last_start_us, ready_us)
    return ready_us


def on_start(k: Kubelet, data: tuple[str, int, int]) -> None:
    """A container runs."""
    uid, i, pulled_us = data
    pod = k.pods[uid]
    plan = pod.plan
    container = plan.containers[i]
    state = pod.containers[i]
    now_us = k.loop.now_us
    state.start_ticket = NO_TICKET
    if container.variables and mounting.lacks_variables(k, pod, i, pulled_us):
        return
    if state.started_us != NO_TIME:
        state.restarts += 1
        state.last = state.end or state.last
    state.state = RUNNING
    state.end = None
    state.started_us = now_us
    state.pull_backoff_us = 0
    if not pod.ip:
        node = k.nodes[pod.node]
        pod.ip = node.ip if plan.host_network else node.take_ip({k.pods[uid].ip for uid in node.pods})
        pod.ips = [{"ip": pod.ip}]
    if state.actual is not None:
        resizing.restarted(k, pod, i)
    node = k.nodes[pod.node]
    if node.gpu_fault and gpufaults.fails_to_start(k, pod, i, node):
        return
    k.tell_all(pod, i, _start_words(container.image, pulled_us))
    working.plan_exit(k, pod, i)
    state.is_started = container.startup is None
    if container.is_init and not container.is_sidecar:
        k.report(pod)
        return
    state.is_ready = state.is_started and container.readiness is None
    if not plan.is_plain:
        probing.arm(k, pod, i)
        if container.is_sidecar and state.is_started:
            start_next(k, pod, k.nodes[pod.node], now_us)
        if _is_told_later(k, pod, now_us):
            return
    k.report(pod)


def on_report(k: Kubelet, uid: str) -> None:
    pod = k.pods[uid]
    pod.report_ticket = NO_TICKET
    if not (pod.is_stopping or pod.is_lost):
        k.report(pod)


def _is_told_later(k: Kubelet, pod: PodState, now_us: int) -> bool:
    """Whether one status can speak for this container and others that are yet to start."""
    is_soon = pod.last_start_us - now_us < SHORT_US
    if not is_soon and len(pod.containers) < _MANY:
        return False
    # From the end: containers start in their order.
    if not any(
        s.start_ticket and s.state == WAITING and s.started_us == NO_TIME for s in reversed(pod.containers)
    ):
        return False
    if not is_soon and not pod.report_ticket:
        pod.report_ticket = k.loop.at(now_us + SHORT_US, k.h_report, pod.uid)
    return True


@lru_cache(maxsize=16384)
def _start_words(image: str, pulled_us: int) -> tuple[Said, ...]:
    created = (NORMAL, "Created", "Container created")
    started = (NORMAL, "Started", "Container started")
    if pulled_us < 0:
        there = f'Container image "{image}" already present on machine and can be accessed by the pod'
        return ((NORMAL, "Pulled", there), created, started)
    took = format_duration(pulled_us)
    pulled = f'Successfully pulled image "{image}" in {took} ({took} including waiting). Image size: 0 bytes.'
    return ((NORMAL, "Pulling", f'Pulling image "{image}"'), (NORMAL, "Pulled", pulled), created, started)


def on_exit(k: Kubelet, data: tuple[str, int]) -> None:
    """A container ended, by itself or because it was told to."""
    uid, i = data
    pod = k.pods[uid]
    state = pod.containers[i]
    end = state.exit_at
    if end is None:
        raise AssertionError(f"{pod.key}: an exit without an end")
    working.settle(k, pod, i, end)
    state.state = TERMINATED
    state.end = end
    state.exit_at = None
    state.exit_ticket = NO_TICKET
    state.is_ready = state.is_started = False
    plan = pod.plan
    container = plan.containers[i]
    if end.exit_code == 0 and container.is_init and not container.is_sidecar:
        state.is_ready = True
    if plan.is_plain and not pod.is_stopping and not container.restarts_after(end.exit_code):
        stopping.finish(k, pod)
        return
    stopping.disarm(k, state)
    _after_exit(k, pod, i, end)


def _after_exit(k: Kubelet, pod: PodState, i: int, end: Ended) -> None:
    """What the end of one container means for the others."""
    plan = pod.plan
    container = plan.containers[i]
    if pod.is_stopping:
        if all(s.state != RUNNING for s in pod.containers):
            stopping.finish(k, pod)
        return
    if container.is_init and not container.is_sidecar:
        if end.exit_code == 0:
            k.report(pod)
            if not pod.is_stopping:
                start_next(k, pod, k.nodes[pod.node], k.loop.now_us)
        elif container.restarts_after(end.exit_code):
            restart(k, pod, i)
        else:
            stopping.begin(k, pod, plan.grace_us)
        return
    if container.is_sidecar or container.restarts_after(end.exit_code):
        restart(k, pod, i)
    elif _is_over(pod):
        stopping.begin(k, pod, plan.grace_us)
    else:
        k.report(pod)


def _is_over(pod: PodState) -> bool:
    """Whether every main container has ended and none will be started again."""
    plan = pod.plan
    for container, state in zip(
        plan.containers[plan.init_count :], pod.containers[plan.init_count :], strict=True
    ):
        if state.state != TERMINATED or state.end is None or container.restarts_after(state.end.exit_code):
            return False
    return True


def restart(k: Kubelet, pod: PodState, i: int) -> None:
    """Start a container again: at once the first time, then after 10 s, doubling up to 300 s."""
    state = pod.containers[i]
    end = state.end
    if end is None:
        raise AssertionError(f"{pod.key}: a restart of a container that has not ended")
    latency = k.host.latency
    expired = _EXPIRES_AFTER_MAXIMA * latency.container_backoff_max_us
    now_us = k.loop.now_us
    if state.backoff_us == 0 or end.finished_us - state.backoff_from_us > expired:
        state.backoff_us = 0
        on_restart(k, (pod.uid, i))
        return
    until_us = end.finished_us + state.backoff_us
    if until_us <= now_us:
        on_restart(k, (pod.uid, i))
        return
    container = pod.plan.containers[i]
    subject = f"{container.name} in pod {pod.key.name}_{pod.key.namespace}({pod.uid})"
    backoff = go_duration_us(state.backoff_us)
    state.last = end
    state.end = None
    state.state = WAITING
    state.reason = "CrashLoopBackOff"
    state.message = (
        f"back-off {backoff} restarting failed container={container.name} "
        f"pod={pod.key.name}_{pod.key.namespace}({pod.uid})"
    )
    state.start_ticket = k.loop.at(until_us, k.h_restart, (pod.uid, i))
    k.report(pod)
    k.tell_of(pod, i, WARNING, "BackOff", f"Back-off restarting failed container {subject}")
    k.record(pod.key, "CrashLoopBackOff", f"{container.name} {backoff}")


def on_restart(k: Kubelet, data: tuple[str, int]) -> None:
    """The back-off is over: the next one will be longer."""
    uid, i = data
    pod = k.pods[uid]
    state = pod.containers[i]
    latency = k.host.latency
    now_us = k.loop.now_us
    doubled_us = min(2 * state.backoff_us, latency.container_backoff_max_us)
    state.backoff_us = doubled_us or latency.container_backoff_us
    state.backoff_from_us = now_us
    state.start_ticket = NO_TICKET
    schedule_start(k, pod, k.nodes[pod.node], i, now_us)
