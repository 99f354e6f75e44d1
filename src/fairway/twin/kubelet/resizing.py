"""What becomes of a pod whose containers are to have more or less while they run?

A wish is granted when it fits on the node beside what is granted to others; else it is deferred and tried again
whenever something ends or shrinks there, and every three minutes. What is granted is then carried out: at once, or by
a restart of the container where its `resizePolicy` says so. A memory limit is never set below what is in use.

Source: pkg/kubelet/allocation/allocation_manager.go, handlers.go; kuberuntime_manager.go computePodResizeAction,
validateMemoryResizeAction; pkg/kubelet/events/resize.go (v1.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from fairway.kube.objects import Obj, status_of
from fairway.kube.podresizing import DEFERRED, ERROR, IN_PROGRESS, INFEASIBLE, PENDING
from fairway.kube.quantity import whole_ceil
from fairway.kube.timestamps import MINUTE_US, rfc3339
from fairway.twin.behaviour import limited
from fairway.twin.kubelet import stopping, working
from fairway.twin.kubelet.admission import lack_of
from fairway.twin.kubelet.plans import PodPlan
from fairway.twin.kubelet.states import RUNNING, NodeState, PodState
from fairway.twin.kubelet.usage import container_use

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

# Source: allocation_manager.go retryDelay.
RETRY_US: Final = 3 * MINUTE_US
# A resize that failed is tried again at the pod's next sync. Source: backOffPeriod of pod workers, 10 s, jittered.
AGAIN_US: Final = MINUTE_US


class Resizing(NamedTuple):
    """What a pod's status says of its resize: conditions without their times of probing."""

    pending: dict[str, Any] | None = None
    progress: dict[str, Any] | None = None

    @property
    def conditions(self) -> list[dict[str, Any]]:
        return [c for c in (self.pending, self.progress) if c is not None]


def observe(k: Kubelet, pod: PodState, obj: Obj) -> None:
    """The spec of a pod that runs here is another."""
    node = k.nodes.get(pod.node)
    if node is None or pod.is_stopping or pod.is_lost:
        return
    if _texts(k.plans.of(obj)) == _texts(pod.plan):
        _withdraw(k, node, pod)
        return
    node.resizes = {**(node.resizes or {}), pod.uid: pod.key}
    retry(k, node)


def _texts(plan: PodPlan) -> list[str]:
    return [c.resources for c in plan.containers]


def _withdraw(k: Kubelet, node: NodeState, pod: PodState) -> None:
    """What is wished is what it was granted."""
    _forget(node, pod.uid)
    if pod.resize is not None and pod.resize.pending is not None:
        pod.resize = pod.resize._replace(pending=None) if pod.resize.progress else None
        k.report(pod)


def _forget(node: NodeState, uid: str) -> None:
    if node.resizes and uid in node.resizes:
        node.resizes = {u: key for u, key in node.resizes.items() if u != uid} or None


def room_made(k: Kubelet, node: NodeState) -> None:
    """Something ended or shrank: who waits for room is looked at once that is done."""
    k.loop.at(k.loop.now_us, k.h_resizes, node.name)


def on_retry(k: Kubelet, name: str) -> None:
    node = k.nodes.get(name)
    if node is not None and node.resizes:
        retry(k, node)


def retry(k: Kubelet, node: NodeState) -> None:
    """Grant what can be granted, in order; the rest again later."""
    if node.is_up and node.is_reachable:
        waiting = []
        for uid, key in (node.resizes or {}).items():
            obj, pod = k.store.get(key), k.pods.get(uid)
            if obj is None or pod is None or pod.is_stopping or obj["metadata"]["uid"] != uid:
                _forget(node, uid)
                continue
            waiting.append((_order(pod, obj, k.plans.of(obj)), uid, pod, obj))
        for _rank, _uid, pod, obj in sorted(waiting, key=lambda w: w[:2]):
            _try(k, node, pod, obj)
    if node.resizes:
        k.loop.at(k.loop.now_us + RETRY_US, k.h_resizes, node.name)


def _order(pod: PodState, obj: Obj, wished: PodPlan) -> tuple[Any, ...]:
    """What asks for no more first, then by priority, by class, by how long it has waited."""
    now, then = dict(wished.requests), dict(pod.plan.requests)
    grows = any(now.get(name, 0) > then.get(name, 0) for name in ("cpu", "memory"))
    is_guaranteed = status_of(obj).get("qosClass") == "Guaranteed"
    pending = None if pod.resize is None else pod.resize.pending
    since = "~" if pending is None else pending["lastTransitionTime"]
    return grows, -int(obj["spec"].get("priority") or 0), not is_guaranteed, since


def _try(k: Kubelet, node: NodeState, pod: PodState, obj: Obj) -> None:
    wished = k.plans.of(obj)
    if _texts(wished) == _texts(pod.plan):
        # It was taken back: we shall hear of it.
        return
    why = _refusal(node, pod, obj, wished)
    if why is None:
        _grant(k, node, pod, obj, wished)
        return
    reason, message = why
    if reason == INFEASIBLE:
        _forget(node, pod.uid)
    said = reason if reason == INFEASIBLE else DEFERRED
    before = pod.resize or Resizing()
    generation: int = obj["metadata"]["generation"]
    pending = _condition(k, PENDING, said, message, generation, before.pending)
    pod.resize = before._replace(pending=pending)
    if before.pending != pending:
        k.report(pod)
    was = before.pending
    if was is None or was["reason"] != said or was["observedGeneration"] != pending["observedGeneration"]:
        k.tell(
            pod.key,
            pod.uid,
            "Warning",
            f"Resize{said}",
            _told(f"Pod resize {reason}", obj, generation, message),
        )


def _refusal(node: NodeState, pod: PodState, obj: Obj, wished: PodPlan) -> tuple[str, str] | None:
    """(reason, message): why it is not granted now, or never."""
    now, then = dict(wished.requests), dict(pod.plan.requests)
    machine = None if node.managers is None else node.managers.machine
    if machine is not None and status_of(obj).get("qosClass") == "Guaranteed":
        for resource, is_static, called in (
            ("cpu", machine.cpus is not None, 'CPU Manager policy "static"'),
            ("memory", machine.has_memory, 'Memory Manager policy "Static"'),
        ):
            if is_static and now.get(resource) != then.get(resource):
                return INFEASIBLE, f"Resize is infeasible for Guaranteed Pods alongside {called}"
    beside = {name: amount - then.get(name, 0) for name, amount in node.used.items()}
    lack = lack_of(obj, wished.requests, beside, node.allocatable)
    if lack is None:
        return None
    name, requested, used, capacity = lack
    said = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return f"OutOf{name}", f"Node didn't have enough resource: {name}, {said}"


def _grant(k: Kubelet, node: NodeState, pod: PodState, obj: Obj, wished: PodPlan) -> None:
    _forget(node, pod.uid)
    for name, amount in pod.plan.requests:
        node.used[name] -= amount
    for name, amount in wished.requests:
        node.used[name] = node.used.get(name, 0) + amount
    for i, state in enumerate(pod.containers):
        text = pod.plan.containers[i].resources
        if state.state == RUNNING and state.actual is None and text != wished.containers[i].resources:
            state.actual = text
    # What loads say of its use stays; what its limits do follows the wish.
    behaviours = list(pod.plan.behaviours)
    for i, new in enumerate(wished.behaviours):
        if behaviours[i].memory_limit_bytes != new.memory_limit_bytes:
            behaviours[i] = limited(behaviours[i], new.memory_limit_bytes)
    pod.plan = wished.behaving(tuple(behaviours), pod.plan.problem)
    generation: int = obj["metadata"]["generation"]
    pod.resize = Resizing(None, _condition(k, IN_PROGRESS, "", "", generation, None))
    k.tell(pod.key, pod.uid, "Normal", "ResizeStarted", _told("Pod resize started", obj, generation))
    k.report(pod)
    k.loop.at(k.loop.now_us + k.sync_delay(), k.h_resize, pod.uid)


def on_resize(k: Kubelet, uid: str) -> None:
    """Carry out what was granted."""
    pod = k.pods.get(uid)
    if pod is None or pod.is_stopping or pod.is_lost or pod.resize is None or pod.resize.progress is None:
        return
    obj = k.store.get(pod.key)
    if obj is None or obj["metadata"]["uid"] != uid:
        return
    trouble = _below_usage(k, pod)
    if trouble:
        _fail(k, pod, obj, trouble)
        return
    waits = False
    for i, state in enumerate(pod.containers):
        if state.actual is None or state.state != RUNNING:
            continue
        if _needs_restart(pod, i, state.actual, obj):
            waits = True
            if not state.is_resizing:
                state.is_resizing = True
                why = f"Container {pod.plan.containers[i].name} resize requires restart"
                stopping.stop_container(k, pod, i, k.loop.now_us, pod.plan.grace_us, why)
        else:
            state.actual = None
            if pod.plan.behaviours[i].memory_limit_bytes and pod.gang is None:
                working.plan_end_again(k, pod, i)
    if not waits:
        _complete(k, pod, obj)


def restarted(k: Kubelet, pod: PodState, i: int) -> None:
    """A container runs anew, with what it was granted."""
    state = pod.containers[i]
    state.actual = None
    state.is_resizing = False
    k.loop.at(k.loop.now_us, k.h_resize, pod.uid)


def _complete(k: Kubelet, pod: PodState, obj: Obj) -> None:
    assert pod.resize is not None and pod.resize.progress is not None
    generation: int = pod.resize.progress["observedGeneration"]
    pod.resize = pod.resize._replace(progress=None) if pod.resize.pending else None
    k.tell(pod.key, pod.uid, "Normal", "ResizeCompleted", _told("Pod resize completed", obj, generation))
    k.report(pod)
    node = k.nodes[pod.node]
    if node.resizes:
        room_made(k, node)


def _fail(k: Kubelet, pod: PodState, obj: Obj, trouble: str) -> None:
    assert pod.resize is not None and pod.resize.progress is not None
    before = pod.resize.progress
    generation: int = before["observedGeneration"]
    progress = _condition(k, IN_PROGRESS, ERROR, trouble, generation, before)
    if progress != before:
        pod.resize = pod.resize._replace(progress=progress)
        said = _told("Pod resize error", obj, generation, trouble)
        k.tell(pod.key, pod.uid, "Warning", "ResizeError", said)
        k.report(pod)
    k.loop.at(k.loop.now_us + AGAIN_US, k.h_resize, pod.uid)


def _below_usage(k: Kubelet, pod: PodState) -> str:
    """Why memory limits cannot be lowered now, or nothing."""
    faults = []
    for i, state in enumerate(pod.containers):
        if state.actual is None or state.state != RUNNING:
            continue
        before, limit = _memory_limit(state.actual), _memory_limit(pod.plan.containers[i].resources)
        if not limit or (before and limit >= before):
            continue
        name = pod.plan.containers[i].name
        used = container_use(name, pod.plan.behaviours[i], state, k.loop.now_us).memory_bytes
        if used >= limit:
            faults.append(
                f'attempting to set container "{name}" memory limit ({limit}) below current usage ({used})'
            )
    if not faults:
        return ""
    told = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
    return f"cannot decrease memory limits: {told}"


def _memory_limit(text: str) -> int:
    limits = _read(text).get("limits") or {}
    return whole_ceil(limits["memory"]) if "memory" in limits else 0


def _needs_restart(pod: PodState, i: int, actual: str, obj: Obj) -> bool:
    """Whether a resource that changes says `RestartContainer`."""
    spec = obj["spec"]
    raw = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))[i]
    restarting = {
        p.get("resourceName")
        for p in raw.get("resizePolicy") or ()
        if p.get("restartPolicy") == "RestartContainer"
    }
    before, now = _read(actual), _read(pod.plan.containers[i].resources)
    return any(
        (before.get(side) or {}).get(name) != (now.get(side) or {}).get(name)
        for side in ("requests", "limits")
        for name in restarting
    )


def _read(text: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(text) if text else {}
    return found


def _condition(
    k: Kubelet, kind: str, reason: str, message: str, generation: int, before: dict[str, Any] | None
) -> dict[str, Any]:
    now = rfc3339(k.loop.now_us)
    same = before is not None and before.get("reason", "") == reason
    made: dict[str, Any] = {
        "type": kind,
        "status": "True",
        "lastProbeTime": before["lastProbeTime"] if before is not None and same else now,
        "lastTransitionTime": before["lastTransitionTime"] if before is not None and same else now,
        "observedGeneration": generation,
    }
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made


def _told(prefix: str, obj: Obj, generation: int, error: str = "") -> str:
    """An event's words: what is wished, as JSON."""
    spec = obj["spec"]
    summary: dict[str, Any] = {}
    for field in ("initContainers", "containers"):
        listed = [
            {"name": c.get("name"), "resources": _in_order(c.get("resources") or {})}
            for c in spec.get(field) or ()
        ]
        if listed:
            summary[field] = listed
    summary["generation"] = generation
    if error:
        summary["error"] = error
    return f"{prefix}: {msgspec.json.encode(summary).decode()}"


def _in_order(resources: dict[str, Any]) -> dict[str, Any]:
    """As Go writes them: limits first, names sorted."""
    return {
        side: dict(sorted(resources[side].items())) for side in ("limits", "requests") if resources.get(side)
    }


def remember(obj: Obj) -> Obj:
    """A pod that ran before its kubelet started: with what it had, where it is to have something else."""
    by_name = {s.get("name"): s for s in status_of(obj).get("containerStatuses") or ()}
    spec = obj["spec"]
    containers = []
    for container in spec["containers"]:
        told = by_name.get(container.get("name")) or {}
        had = told.get("resources")
        is_other = (
            had is not None
            and "running" in (told.get("state") or {})
            and had != (container.get("resources") or {})
        )
        containers.append({**container, "resources": had} if is_other else container)
    if all(a is b for a, b in zip(containers, spec["containers"], strict=True)):
        return obj
    return {**obj, "spec": {**spec, "containers": containers}}
