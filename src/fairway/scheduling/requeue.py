"""Which changes are worth another try for a refused pod?

Each plugin that refused asks for the events that could change its mind. This goes one step further where that
is cheap and certain: a pod that left a node wakes only lines whose request fits what the node now has.

Source: the EventsToRegister and isSchedulableAfter… functions of each plugin (kube-scheduler v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fairway.cluster.accounts import TERMINAL, NodeAccounts
from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.kube.objects import Key, Obj, meta_of, spec_of, status_of
from fairway.kube.podresizing import is_carried_out
from fairway.kube.resourceclaims import CLAIM as RESOURCE_CLAIM
from fairway.kube.resourceclaims import CLASS as DEVICE_CLASS
from fairway.kube.resourceclaims import SLICE
from fairway.kube.volumes import CLAIM, CLASS, VOLUME, name_for
from fairway.scheduling.extenders import EXTENDER
from fairway.scheduling.queue import Line, SchedulingQueue
from fairway.scheduling.volumefacts import CSI_NODE
from fairway.scheduling.volumes import PLUGINS

_ABOUT_PODS: Final = frozenset({"InterPodAffinity", "PodTopologySpread"})
_ABOUT_VOLUMES: Final = frozenset(PLUGINS)
# What pods that leave may mend of a volume's refusal: who holds it, how many there are.
_FREED_BY_PODS: Final = frozenset({"VolumeRestrictions", "NodeVolumeLimits"})
VOLUMES: Final = (CLAIM, VOLUME, CLASS, CSI_NODE)
DEVICES: Final = (RESOURCE_CLAIM, DEVICE_CLASS, SLICE)
_ABOUT_ROOM: Final = frozenset({"NodeResourcesFit", "GpuShare"})


class PodMoved(NamedTuple):
    """A pod came to a node, left it, or changed there. `freed` is a node it was nominated to and is no more."""

    node: str
    came: bool
    left: bool
    freed: str = ""


class NodeChanged(NamedTuple):
    """A node appeared, went, or changed in what placement looks at."""

    node: str
    is_gone: bool = False


class VolumeChanged(NamedTuple):
    """A claim, a volume, a StorageClass or what a node's drivers can take came or changed. `claim`: which, if one."""

    claim: Key | None


class DevicesChanged(NamedTuple):
    """A slice or a class came or changed; or a claim did. `claim`: which; `is_freed`: it lost its allocation; `is_new`:
    it, or its status, is news to those who use it; `is_class`: a class may back an extended resource now."""

    claim: Key | None = None
    is_freed: bool = False
    is_new: bool = False
    is_class: bool = False


Happening = PodMoved | NodeChanged | VolumeChanged | DevicesChanged


def happening(change: Change) -> Happening | None:
    """What a change means to pending pods; None: nothing."""
    if change.key.gk == "Pod":
        return _pod_moved(change)
    if change.key.gk == "Node" and _is_worth_a_look(change):
        return NodeChanged(change.key.name, is_gone=change.type == DELETED)
    if change.key.gk in VOLUMES and change.type != DELETED:
        return VolumeChanged(change.key if change.key.gk == CLAIM else None)
    if change.key.gk in DEVICES and change.type != DELETED:
        return _devices_changed(change)
    return None


def _devices_changed(change: Change) -> DevicesChanged | None:
    """Source: isSchedulableAfterClaimChange."""
    if change.key.gk != RESOURCE_CLAIM:
        return DevicesChanged(is_class=change.key.gk == DEVICE_CLASS)
    if change.old is None:
        return DevicesChanged(change.key, is_new=True)
    before, now = status_of(change.old), status_of(change.obj)
    is_freed = before.get("allocation") is not None and now.get("allocation") is None
    is_new = before is not now and before != now
    return DevicesChanged(change.key, is_freed, is_new) if is_freed or is_new else None


def _pod_moved(change: Change) -> PodMoved | None:
    is_gone = change.type == DELETED
    now = "" if is_gone else _node_of(change.obj)
    before = "" if change.old is None else _node_of(change.old)
    # Others of its priority or below were kept off the node it was nominated to.
    held = "" if before or change.old is None else _nominated_to(change.old)
    freed = held if held != (now or ("" if is_gone else _nominated_to(change.obj))) else ""
    if now != before:
        return PodMoved(now or before, came=bool(now), left=bool(before), freed=freed)
    if freed:
        return PodMoved(freed, came=False, left=True)
    if now and change.old is not None:
        old_meta: Obj = change.old["metadata"]
        meta: Obj = change.obj["metadata"]
        relabelled = old_meta.get("labels") != meta.get("labels")
        leaving = "deletionTimestamp" in meta and "deletionTimestamp" not in old_meta
        if (
            relabelled
            or leaving
            or _was_resized(change.old, change.obj)
            or is_carried_out(change.old, change.obj)
        ):
            # Spreading stops counting a pod the moment its deletion begins.
            return PodMoved(now, came=relabelled, left=True)
    return None


def _nominated_to(pod: Obj) -> str:
    return status_of(pod).get("nominatedNodeName") or ""


def _was_resized(old: Obj, new: Obj) -> bool:
    """Whether containers ask for something else now (in-place resize): it may have freed room."""
    if old.get("spec") is new.get("spec"):
        return False
    return _resources(old.get("spec") or {}) != _resources(new.get("spec") or {})


def _resources(spec: dict[str, Any]) -> list[Any]:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [spec.get("resources"), *(c.get("resources") for c in containers)]


def _node_of(pod: Obj) -> str:
    """Where the pod counts; empty for nowhere."""
    if status_of(pod).get("phase") in TERMINAL:
        return ""
    return spec_of(pod).get("nodeName") or ""


def _is_worth_a_look(change: Change) -> bool:
    if change.type not in (ADDED, DELETED) and change.old is not None:
        old, new = change.old, change.obj
        return _seen_of(old) != _seen_of(new)
    return True


def _seen_of(node: Obj) -> tuple[Any, ...]:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return (
        meta_of(node).get("labels"),
        spec.get("taints"),
        bool(spec.get("unschedulable")),
        status.get("allocatable") or status.get("capacity"),
    )


def _ignores_nothing(_resource: str) -> bool:
    return False


def _uses_any(_pod: Key, _claim: Key) -> bool:
    return True


def wake(
    queue: SchedulingQueue,
    accounts: NodeAccounts,
    event: Happening,
    now_us: int,
    ignores: Callable[[str], bool] = _ignores_nothing,
    uses: Callable[[Key, Key], bool] = _uses_any,
) -> None:
    """Unpark the lines the event may help. O(parked lines).

    `ignores` says which extended resources no profile checks (NodeResourcesFitArgs.ignoredResources); `uses`, whether a
    pod uses a resource claim.
    """
    for line in queue.parked():
        if EXTENDER in line.plugins:
            # What would change an extender's mind is not known: everything may.
            queue.unpark(line.key, now_us)
    if isinstance(event, DevicesChanged):
        for line in queue.parked():
            if _devices_may_help(queue, line, event, uses):
                queue.unpark(line.key, now_us)
        return
    if isinstance(event, NodeChanged):
        for line in queue.parked():
            # Without a node the least crowded domain may be another; nothing else gains by it.
            if not event.is_gone or "PodTopologySpread" in line.plugins:
                queue.unpark(line.key, now_us)
        return
    if isinstance(event, VolumeChanged):
        for line in queue.parked():
            if not _ABOUT_VOLUMES.isdisjoint(line.plugins) and _uses(queue, line, event.claim):
                queue.unpark(line.key, now_us)
        return
    rows = [
        row
        for node, emptied in ((event.node, event.left), (event.freed, True))
        if emptied and (row := accounts.row_of.get(node)) is not None
    ]
    for line in queue.parked():
        if _may_help(queue, line, accounts, rows, ignores):
            queue.unpark(line.key, now_us)


def _devices_may_help(
    queue: SchedulingQueue, line: Line, event: DevicesChanged, uses: Callable[[Key, Key], bool]
) -> bool:
    if event.is_class and "NodeResourcesFit" in line.plugins:
        return True
    if "DynamicResources" not in line.plugins:
        return False
    if event.claim is None or event.is_freed:
        return True
    return event.is_new and uses(queue.record_of(line).key, event.claim)


def _may_help(
    queue: SchedulingQueue,
    line: Line,
    accounts: NodeAccounts,
    emptied: list[int],
    ignores: Callable[[str], bool],
) -> bool:
    plugins = line.plugins
    if any(p in _ABOUT_PODS for p in plugins):
        return True
    if not emptied:
        return False
    if "NodePorts" in plugins or not _FREED_BY_PODS.isdisjoint(plugins):
        return True
    if not any(p in _ABOUT_ROOM for p in plugins):
        return False
    return any(_has_room(queue, line, accounts, row, ignores) for row in emptied)


def _uses(queue: SchedulingQueue, line: Line, claim: Key | None) -> bool:
    """Whether the line's pods use this claim. Source: isSchedulableAfterPersistentVolumeClaimChange."""
    if claim is None:
        return True
    pod = queue.record_of(line)
    names = (name_for(pod.key.name, name, own) for name, own in pod.shape.claims)
    return claim.namespace == pod.key.namespace and claim.name in names


def _has_room(
    queue: SchedulingQueue, line: Line, accounts: NodeAccounts, row: int, ignores: Callable[[str], bool]
) -> bool:
    """Whether the request fits the node as it is, or could after evicting pods of lower priority."""
    shape = queue.record_of(line).shape
    if any(p.shape.priority < shape.priority for p in accounts.pods[row].values()):
        return True
    if accounts.pod_count[row] >= accounts.allowed_pods[row]:
        return False
    allocatable, requested = accounts.allocatable[row], accounts.requested[row]
    column_of = accounts.column_of
    return all(
        value <= allocatable[column] - requested[column]
        for name, value in shape.requests.items()
        if value and (column := column_of.get(name)) is not None and not ignores(name)
    )
