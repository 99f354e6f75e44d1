"""Which pods are worth an update, how many of them may be disturbed at once, and which can be resized in place?

Source: pkg/updater/priority/{priority_processor,update_priority_calculator}.go,
restriction/{pods_restriction_factory,pods_inplace_restriction}.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairway.autoscaling.vpa.policies import is_scaled
from fairway.kube.objects import Obj
from fairway.kube.podresizing import DEFERRED, IN_PROGRESS, PENDING
from fairway.kube.quantity import milli_ceil
from fairway.kube.timestamps import HOUR_US, MINUTE_US, parse_rfc3339

# Within the recommended range: only after this time, and for a change of this size. Source: --pod-update-threshold.
_LIFETIME_US: Final = 12 * HOUR_US
_MIN_CHANGE: Final = 0.1
_QUICK_OOM_US: Final = 10 * MINUTE_US
# Of a group's pods, half may be gone. Source: --eviction-tolerance.
_TOLERANCE: Final = 0.5
# How long a resize in place may be deferred, or under way, before its pod is evicted instead. Source:
# DeferredResizeUpdateTimeout, InProgressResizeUpdateTimeout.
_DEFERRED_US: Final = 5 * MINUTE_US
_IN_PROGRESS_US: Final = HOUR_US

# What becomes of a pod that could be resized in place.
APPROVED, WAITS, EVICTED = "InPlaceApproved", "InPlaceDeferred", "InPlaceEvict"


class Priority(NamedTuple):
    """How far a pod is from its recommendation."""

    outside: bool
    scale_up: bool
    difference: float


def priority(pod: Obj, recommended: Mapping[str, Mapping[str, Any]]) -> Priority:
    """`recommended`: by container, `target`, `lowerBound` and `upperBound` as in the status."""
    outside = scale_up = False
    asked: dict[str, int] = {}
    wanted: dict[str, int] = {}
    # What a container has, not what it is to have: while a resize waits, it is as far off as before.
    has = {c["name"]: c.get("resources") for c in (pod.get("status") or {}).get("containerStatuses") or ()}
    for container in pod["spec"]["containers"]:
        told = recommended.get(container["name"])
        if told is None:
            continue
        resources = has.get(container["name"])
        resources = container.get("resources") if resources is None else resources
        requests = (resources or {}).get("requests") or {}
        for name, target in told["target"].items():
            wanted[name] = wanted.get(name, 0) + milli_ceil(target)
            if name not in requests:
                outside = scale_up = True
                continue
            request = milli_ceil(requests[name])
            asked[name] = asked.get(name, 0) + request
            scale_up = scale_up or milli_ceil(target) > request
            lower, upper = told["lowerBound"].get(name), told["upperBound"].get(name)
            outside = outside or (lower is not None and request < milli_ceil(lower))
            outside = outside or (upper is not None and request > milli_ceil(upper))
    difference = sum(
        abs(max(asked.get(n, 0), 1) - amount) / max(asked.get(n, 0), 1) for n, amount in wanted.items()
    )
    return Priority(outside, scale_up, difference)


def is_worth_it(autoscaler: Obj, pod: Obj, found: Priority, now_us: int) -> bool:
    status = pod.get("status") or {}
    quick = any(
        is_scaled(autoscaler, c["name"]) and _ran_out_quickly(c)
        for c in status.get("containerStatuses") or ()
    )
    if not found.outside and not quick:
        if not status.get("startTime"):
            return False
        if now_us < parse_rfc3339(status["startTime"]) + _LIFETIME_US:
            return False
        return found.difference >= _MIN_CHANGE
    return not (quick and found.difference == 0)


def _ran_out_quickly(status: Mapping[str, Any]) -> bool:
    ended = (status.get("lastState") or {}).get("terminated") or {}
    if ended.get("reason") != "OOMKilled" or not ended.get("startedAt"):
        return False
    return parse_rfc3339(ended["finishedAt"]) - parse_rfc3339(ended["startedAt"]) < _QUICK_OOM_US


def resizing(pod: Obj) -> Mapping[str, Any] | None:
    """The condition that says a resize is pending or under way; None without."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    by_type = {c["type"]: c for c in conditions if c["type"] in (PENDING, IN_PROGRESS)}
    return by_type.get(PENDING) or by_type.get(IN_PROGRESS)


def in_place(pod: Obj, *, may_disturb: bool, since_us: int, now_us: int) -> str:
    """Mode InPlaceOrRecreate. `may_disturb`: whether one more pod of its group may; `since_us`: when its resize was
    first seen to be pending or under way."""
    if (pod.get("status") or {}).get("phase") == "Pending":
        return WAITS
    condition = resizing(pod)
    if condition is None:
        return APPROVED if may_disturb else WAITS
    if not may_disturb:
        return WAITS
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    if condition["type"] == PENDING and reason == DEFERRED:
        return EVICTED if now_us - since_us > _DEFERRED_US else WAITS
    if condition["type"] == IN_PROGRESS and not reason and not message:
        return EVICTED if now_us - since_us > _IN_PROGRESS_US else WAITS
    return EVICTED


def in_order(pods: Sequence[tuple[Obj, Priority]]) -> list[Obj]:
    """Those that need more first, then those that are farthest off."""
    ranked = sorted(pods, key=lambda p: (not p[1].scale_up, -p[1].difference))
    return [pod for pod, _ in ranked]


def may_go(configured: int, running: int, least: int) -> int:
    """How many of a group may be evicted in one round: at least one, if all are there."""
    if configured < least:
        return 0
    tolerance = int(configured * _TOLERANCE)
    if tolerance:
        return max(running - (configured - tolerance), 0)
    return 1 if running == configured else 0
