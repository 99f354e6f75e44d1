"""What had become of an object before anybody looked? Its past as its own stamps tell, as a few earlier states.

A cluster that is read from a dump, a journal or another server's API comes without its history. But an object knows
when it was created, and its conditions and containers when they changed last. Stamps are whole seconds; those that
contradict each other (an end before the start, a time yet to come) are moved as little as puts them in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fairway.kube.objects import Obj, meta_of, status_of
from fairway.kube.timestamps import parse_rfc3339

Stage = tuple[int, Obj]
"""When it came to look like this."""

_ENDED: Final = ("Succeeded", "Failed")
# Work alone says since when anything is known: nodes may be older than all that is left of what they did.
_NO_WORK: Final = ("Node", "Namespace")


def first_us(objects: Iterable[Obj], now_us: int) -> int:
    """When the oldest piece of work among these was created; now where there is none."""
    stamps = [_us(meta_of(o).get("creationTimestamp")) for o in objects if o.get("kind") not in _NO_WORK]
    return min((s for s in stamps if s is not None and s <= now_us), default=now_us)


def stages(obj: Obj, now_us: int) -> list[Stage]:
    """Its states in order, the last one as it is now."""
    made_us = _us(meta_of(obj).get("creationTimestamp"))
    created_us = now_us if made_us is None else min(made_us, now_us)
    found = _of_pod(obj, created_us) if obj.get("kind") == "Pod" else _of_conditions(obj, created_us)
    ordered: list[Stage] = []
    for at_us, state in found:
        before_us = ordered[-1][0] if ordered else created_us
        ordered.append((max(before_us, min(at_us, now_us)), state))
    return ordered


def _of_pod(pod: Obj, created_us: int) -> list[Stage]:
    """Created, bound, started, ended."""
    spec, status = pod.get("spec") or {}, status_of(pod)
    phase = status.get("phase") or "Pending"
    waiting = {
        **pod,
        "spec": {k: v for k, v in spec.items() if k != "nodeName"},
        "status": {"phase": "Pending"},
    }
    if not spec.get("nodeName"):
        return [(created_us, {**waiting, "status": status})]
    conditions = status.get("conditions") or ()
    placed = [_us(c.get("lastTransitionTime")) for c in conditions if c.get("type") == "PodScheduled"]
    placed_us = next((p for p in placed if p is not None), _us(status.get("startTime")))
    bound = {**pod, "status": {"phase": "Pending"}}
    found = [(created_us, waiting), (created_us if placed_us is None else placed_us, bound)]
    began, ended = _runs(status)
    if phase == "Running" or (phase in _ENDED and began):
        started_us = min(began, default=_us(status.get("startTime")) or created_us)
        running = {k: v for k, v in status.items() if k not in ("reason", "message")} | {"phase": "Running"}
        found.append((started_us, {**pod, "status": running}))
    last_us = found[-1][0]
    if phase in _ENDED:
        found.append((max(ended, default=last_us), pod))
    elif phase == "Pending":
        found.append((last_us, pod))
    else:
        found[-1] = (last_us, pod)
    return found


def _runs(status: dict[str, Any]) -> tuple[list[int], list[int]]:
    """When containers started, and when they ended."""
    began, ended = list[int](), list[int]()
    for container in status.get("containerStatuses") or ():
        for where in ("lastState", "state"):
            state = container.get(where) or {}
            for told in (state.get("running") or {}, state.get("terminated") or {}):
                began += [s for s in (_us(told.get("startedAt")),) if s is not None]
                ended += [s for s in (_us(told.get("finishedAt")),) if s is not None]
    return began, ended


def _of_conditions(obj: Obj, created_us: int) -> list[Stage]:
    """One state for each time at which a condition changed last."""
    status = status_of(obj)
    told = [c for c in status.get("conditions") or () if isinstance(c, dict)]
    changed = sorted(
        {at for c in told if (at := _us(c.get("lastTransitionTime"))) is not None and at > created_us}
    )
    if obj.get("kind") in _NO_WORK or not changed:
        return [(created_us, obj)]
    found: list[Stage] = []
    for at_us in (created_us, *changed[:-1]):
        # What changed within the second of its creation was so from the start.
        so_far = [c for c in told if (_us(c.get("lastTransitionTime")) or 0) <= at_us]
        found.append((at_us, {**obj, "status": {**status, "conditions": so_far}}))
    return [*found, (changed[-1], obj)]


def _us(stamp: Any) -> int | None:
    try:
        return parse_rfc3339(stamp) if isinstance(stamp, str) else None
    except ValueError:
        return None
