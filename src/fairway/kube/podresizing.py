"""What does a pod count for while it is being resized in place?

Its spec says what is wished, its status what its kubelet has granted (`allocatedResources`) and what its containers
have (`resources`). Until the three agree, the largest counts; a wish that can never be granted does not count.

Source: component-helpers/resource/helpers.go determineEffectiveRequests (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairway.kube.objects import Obj, status_of
from fairway.kube.quantity import milli_ceil

PENDING: Final = "PodResizePending"
IN_PROGRESS: Final = "PodResizeInProgress"
DEFERRED, INFEASIBLE, ERROR = "Deferred", "Infeasible", "Error"


def effective(pod: Obj) -> Obj:
    """The pod with the requests that count. The same object where its spec says it all."""
    status = status_of(pod)
    is_infeasible = any(
        c["type"] == PENDING and c.get("reason") == INFEASIBLE for c in status.get("conditions") or ()
    )
    spec = dict(pod["spec"])
    is_other = False
    for field, told in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        by_name = {s.get("name"): s for s in status.get(told) or ()}
        changed = []
        for container in spec.get(field) or ():
            new = _counted(container, by_name.get(container.get("name")), is_infeasible=is_infeasible)
            is_sidecar = container.get("restartPolicy") == "Always"
            counts = new is not container and (field == "containers" or is_sidecar)
            is_other = is_other or counts
            changed.append(new if counts else container)
        if changed:
            spec[field] = changed
    return {**pod, "spec": spec} if is_other else pod


def is_carried_out(old: Obj, new: Obj) -> bool:
    """Whether a resize in place is over now: what it gave back counts as free only from here on."""
    before, after = status_of(old), status_of(new)
    # A kubelet's own conditions are five: most pods are done with here.
    if before is after or len(before.get("conditions") or ()) < 6:
        return False
    return _is_resizing(before) and not _is_resizing(after)


def _is_resizing(status: Mapping[str, Any]) -> bool:
    return any(c["type"] == IN_PROGRESS for c in status.get("conditions") or ())


def is_settled(pod: Obj) -> bool:
    """Whether what is wished is what was granted and what containers have."""
    status = status_of(pod)
    for field, told in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        by_name = {s.get("name"): s for s in status.get(told) or ()}
        for container in pod["spec"].get(field) or ():
            has = by_name.get(container.get("name"))
            if has is None or has.get("resources") is None:
                continue
            wished = (container.get("resources") or {}).get("requests") or {}
            if wished != (has["resources"].get("requests") or {}) or wished != (
                has.get("allocatedResources") or {}
            ):
                return False
    return True


def _counted(container: Obj, told: Mapping[str, Any] | None, *, is_infeasible: bool) -> Obj:
    if told is None or told.get("resources") is None:
        return container
    wished = (container.get("resources") or {}).get("requests") or {}
    parts = [told["resources"].get("requests") or {}, told.get("allocatedResources") or {}]
    if not is_infeasible:
        parts.append(wished)
    counted = {name: _largest(name, parts) for name in sorted({n for part in parts for n in part})}
    if counted == wished:
        return container
    return {**container, "resources": {**(container.get("resources") or {}), "requests": counted}}


def _largest(name: str, parts: list[Mapping[str, Any]]) -> Any:
    return max((part[name] for part in reversed(parts) if name in part), key=milli_ceil)
