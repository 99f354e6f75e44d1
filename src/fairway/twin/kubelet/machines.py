"""What happens to nodes: they register, fall silent, crash, come back, shut down, and vanish.

Two ways to fail. A *crash* takes the machine: nothing on it runs any more, unsaved work is lost at once. A
*partition* takes only the connection: containers go on, and what happened meanwhile is reported when it ends.
Either way the API server hears nothing, and the control plane finds out by the missing heartbeats.

Source: pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go; container states after a reboot as containerd
reports them (exit code 255, reason Unknown).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairway.cluster.devices import GPU_FAULT, SINGLE_REQUESTS
from fairway.kube.objects import Obj, annotations_of, labels_of, spec_of, status_of
from fairway.kube.resources import PODS, parse_resources
from fairway.kube.taints import NO_EXECUTE, parse_taints
from fairway.twin.heartbeats import last_renewal_us
from fairway.twin.kubeevents import NORMAL
from fairway.twin.kubelet import locality, starting, stopping, working
from fairway.twin.kubelet.nodestatus import node_status
from fairway.twin.kubelet.phases import has_ended
from fairway.twin.kubelet.states import (
    NO_TICKET,
    RUNNING,
    TERMINATED,
    WAITING,
    Ended,
    Ending,
    NodeState,
    PodState,
)
from fairway.twin.loop import NO_TIME

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

_UNKNOWN_EXIT: Final = 255
_KUBELET: Final = "fairway.dev/kubelet-configuration"
# Pods of system-critical priority stop last in a graceful shutdown. Source: SystemCriticalPriority.
CRITICAL_PRIORITY: Final = 2_000_000_000

SHUTDOWN: Final = Ending(
    "Terminated",
    "Pod was terminated in response to imminent node shutdown.",
    "TerminationByKubelet",
    keeps_success=True,
)


def register(k: Kubelet, obj: Obj) -> None:
    """A node appeared: its kubelet posts that it is ready, unless the object says how it is."""
    meta: Obj = obj["metadata"]
    name = meta["name"]
    k.node_count += 1
    node = k.nodes[name] = NodeState(name, meta["uid"], k.node_count)
    learn(k, node, obj)
    status = status_of(obj)
    for image in status.get("images") or ():
        for image_name in image.get("names") or ():
            node.images[image_name] = 0
    ready = next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), None)
    if ready is None:
        post_status(k, node)
    elif ready.get("status") != "True":
        node.is_up = False
        _fall_silent(k, node)
    for uid, key in k.homeless.pop(name, {}).items():
        pod = k.store.get(key)
        if pod is not None and pod["metadata"]["uid"] == uid and not has_ended(pod):
            starting.admit(k, key, pod)


def learn(k: Kubelet, node: NodeState, obj: Obj) -> None:
    """What the kubelet takes from its node object."""
    status = status_of(obj)
    raw = status.get("allocatable") or status.get("capacity")
    before = node.allocatable
    node.allocatable = parse_resources(raw) if raw else None
    if before and any(v > (node.allocatable or {}).get(n, 0) for n, v in before.items()):
        node.is_shrunk = True
    node.max_pods = None if node.allocatable is None else node.allocatable.get(PODS)
    node.labels = labels_of(obj)
    notes = annotations_of(obj)
    single = notes.get(SINGLE_REQUESTS)
    node.gpu_fault = notes.get(GPU_FAULT, "")
    if _KUBELET in notes or node.managers is not None:
        locality.learn(k, node, obj)
    node.single_requests = tuple(single.split(",")) if single else ()
    node.no_execute = tuple(t for t in parse_taints(spec_of(obj).get("taints")) if t.effect == NO_EXECUTE)


def vanish(k: Kubelet, name: str) -> None:
    """The node object is gone, and with it the machine."""
    node = k.nodes.pop(name, None)
    if node is None:
        return
    # Should a machine of this name come back before its pods are collected, it finds them bound to it.
    bound = dict(node.unseen)
    for uid in list(node.pods):
        pod = k.pods[uid]
        working.lose_running(k, pod)
        stopping.release(k, pod)
        bound[uid] = pod.key
    if bound:
        k.homeless[name] = bound
    k.host.heartbeats.forget(name)


def post_status(k: Kubelet, node: NodeState) -> None:
    obj = k.store.get(node.key)
    if obj is not None:
        k.store.set_status(node.key, node_status(obj, node, k.loop.now_us))


def _fall_silent(k: Kubelet, node: NodeState) -> None:
    interval_us = k.host.latency.lease_renew_interval_us
    phase = k.host.streams.draw_for("heartbeat", node.name)
    k.host.heartbeats.stop(node.name, last_renewal_us(k.loop.now_us, interval_us, phase))


def crash(k: Kubelet, name: str) -> None:
    """The machine dies. Its pods' timers stop; the API still shows what it was last told."""
    node = k.nodes.get(name)
    if node is None or not node.is_up:
        return
    node.is_up = False
    node.pull_free_us = 0
    _fall_silent(k, node)
    k.record(node.key, "Crashed")
    for uid in node.pods:
        _lose(k, k.pods[uid])


def _lose(k: Kubelet, pod: PodState) -> None:
    """Everything of this pod on the machine is dead; nobody has noticed yet."""
    working.lose_running(k, pod)
    pod.is_lost = True
    pod.is_stopping = False
    if pod.deadline_ticket:
        k.loop.cancel(pod.deadline_ticket)
        pod.deadline_ticket = NO_TICKET
    now_us = k.loop.now_us
    for state in pod.containers:
        stopping.disarm(k, state)
        for ticket in (state.start_ticket, state.exit_ticket):
            if ticket:
                k.loop.cancel(ticket)
        state.start_ticket = state.exit_ticket = NO_TICKET
        if state.state == RUNNING:
            state.state = TERMINATED
            state.end = Ended(_UNKNOWN_EXIT, "Unknown", "", state.started_us, now_us)
            state.exit_at = None
        state.is_ready = state.is_started = False


def partition(k: Kubelet, name: str) -> None:
    """The node and the API server no longer hear each other; its containers go on."""
    node = k.nodes.get(name)
    if node is None or not (node.is_up and node.is_reachable):
        return
    node.is_reachable = False
    _fall_silent(k, node)
    k.record(node.key, "Partitioned")


def recover(k: Kubelet, name: str) -> None:
    """The machine has booted, or the connection is back: the kubelet posts status and catches up."""
    node = k.nodes.get(name)
    if node is None or (node.is_up and node.is_reachable and not node.is_shutting_down):
        return
    was_down = not node.is_up
    node.is_up = node.is_reachable = True
    node.is_shutting_down = False
    k.host.heartbeats.resume(name)
    if was_down:
        k.tell(node.key, node.uid, NORMAL, "Starting", "Starting kubelet.")
    post_status(k, node)
    k.record(node.key, "Recovered")
    owed, node.owed = node.owed, {}
    for pod in owed.values():
        stopping.write_last_status(k, pod, node)
    for uid in list(node.pods):
        _catch_up(k, k.pods[uid], node)
    unseen, node.unseen = node.unseen, {}
    for uid, key in unseen.items():
        obj = k.store.get(key)
        if obj is not None and obj["metadata"]["uid"] == uid and not has_ended(obj):
            starting.admit(k, key, obj)


def _catch_up(k: Kubelet, pod: PodState, node: NodeState) -> None:
    """Make a pod what the API wants it to be, after not having heard from it."""
    obj = k.store.get(pod.key)
    if obj is None or obj["metadata"]["uid"] != pod.uid:
        stopping.drop(k, pod)
        return
    lost, pod.is_lost = pod.is_lost, False
    if "deletionTimestamp" in obj["metadata"]:
        stopping.delete(k, pod, obj)
    elif has_ended(obj):
        stopping.release(k, pod)
    elif lost:
        _restart_after_boot(k, pod, node)
    else:
        # Whatever was written about it meanwhile (that it is not ready, say), the kubelet knows better.
        k.report(pod)


def _restart_after_boot(k: Kubelet, pod: PodState, node: NodeState) -> None:
    """A new sandbox: init containers run again, then what its restart policy lets run."""
    plan = pod.plan
    mains = range(plan.init_count, len(plan.containers))
    ended = [i for i in mains if pod.containers[i].state == TERMINATED]
    if ended and not any(_may_run_again(pod, i) for i in mains):
        stopping.begin(k, pod, 0)
        return
    now_us = k.loop.now_us
    pod.is_initialized = not plan.init_count
    for i, state in enumerate(pod.containers):
        if state.state == TERMINATED and (i < plan.init_count or _may_run_again(pod, i)):
            state.last, state.end = state.end, None
            state.state = WAITING
        if state.state != WAITING:
            continue
        state.reason, state.message = ("PodInitializing" if plan.init_count else "ContainerCreating"), ""
        if i >= plan.init_count > 0 and state.started_us != NO_TIME:
            # It waits for init containers as one that never ran; that it did is counted here.
            state.started_us, state.restarts = NO_TIME, state.restarts + 1
    if plan.deadline_us is not None:
        pod.deadline_ticket = k.loop.at(pod.start_us + plan.deadline_us, k.h_deadline, pod.uid)
    pod.ip = ""
    for i in mains:
        # `start_next` starts what never ran; a container that ran before counts as new in this sandbox.
        if pod.containers[i].state == WAITING and plan.init_count == 0:
            starting.schedule_start(k, pod, node, i, now_us + k.sandbox_start.a_us)
    if plan.init_count:
        starting.start_next(k, pod, node, now_us + k.sandbox_start.a_us)
    k.report(pod)


def _may_run_again(pod: PodState, i: int) -> bool:
    state = pod.containers[i]
    past = state.end or state.last
    return past is None or pod.plan.containers[i].restarts_after(past.exit_code)


def shut_down(k: Kubelet, name: str, grace_us: int, critical_us: int) -> None:
    """Shut a node down gracefully: pods get `grace - critical`, critical ones the rest.

    Source: shutdownGracePeriod and shutdownGracePeriodCriticalPods of the kubelet's configuration.
    """
    node = k.nodes.get(name)
    if node is None or not (node.is_up and node.is_reachable) or node.is_shutting_down:
        return
    node.is_shutting_down = True
    post_status(k, node)
    k.record(node.key, "ShuttingDown")
    critical: list[str] = []
    for uid in list(node.pods):
        pod = k.pods[uid]
        obj = k.store.get(pod.key) or {}
        if int(spec_of(obj).get("priority") or 0) >= CRITICAL_PRIORITY:
            critical.append(uid)
        else:
            stopping.begin(k, pod, min(pod.plan.grace_us, max(grace_us - critical_us, 0)), SHUTDOWN)
    if critical:
        data = (tuple(critical), critical_us)
        k.loop.at(k.loop.now_us + max(grace_us - critical_us, 0), k.h_stop_critical, data)


def on_stop_critical(k: Kubelet, data: tuple[tuple[str, ...], int]) -> None:
    uids, grace_us = data
    for uid in uids:
        pod = k.pods.get(uid)
        if pod is not None and not pod.is_lost:
            stopping.begin(k, pod, min(pod.plan.grace_us, grace_us), SHUTDOWN)
