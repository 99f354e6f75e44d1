"""A Deployment's counts and conditions: is it available, is it progressing, did it get stuck?

Source: pkg/controller/deployment/progress.go, sync.go calculateStatus; util DeploymentComplete,
DeploymentProgressing, DeploymentTimedOut (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads.deployment.sets import Rollout, Sized, total

Status = dict[str, Any]

NEW_AVAILABLE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"
# What Go reads where no time was written.
_NO_TIME = "0001-01-01T00:00:00Z"


def condition_of(status: Status, type_: str) -> dict[str, Any] | None:
    return next((c for c in status.get("conditions") or () if c.get("type") == type_), None)


def made(type_: str, state: str, reason: str, message: str, now_us: int) -> dict[str, Any]:
    now = rfc3339(now_us)
    return {
        "type": type_,
        "status": state,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def put(status: Status, condition: dict[str, Any]) -> None:
    """Set a condition unless status and reason are there already; the transition time follows the status."""
    current = condition_of(status, condition["type"])
    if current is not None and current["status"] == condition["status"]:
        if current.get("reason") == condition["reason"]:
            return
        condition = {**condition, "lastTransitionTime": current["lastTransitionTime"]}
    drop(status, condition["type"])
    status["conditions"] = [*(status.get("conditions") or ()), condition]


def drop(status: Status, type_: str) -> None:
    listed = status.get("conditions")
    if listed:
        status["conditions"] = [c for c in listed if c.get("type") != type_]


def pause_or_resume(rollout: Rollout, status: Status, now_us: int) -> None:
    """Time spent paused does not count against the deadline. What timed out stays timed out."""
    if not rollout.wishes.has_deadline:
        return
    current = condition_of(status, "Progressing")
    reason = "" if current is None else current.get("reason", "")
    if reason == TIMED_OUT:
        return
    if rollout.wishes.is_paused and reason != PAUSED:
        put(status, made("Progressing", "Unknown", PAUSED, "Deployment is paused", now_us))
    elif not rollout.wishes.is_paused and reason == PAUSED:
        put(status, made("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now_us))


def counted(rollout: Rollout, status: Status, now_us: int) -> Status:
    """The next status with counts and the Available condition; `status` brings the conditions so far."""
    everything = rollout.everything
    available = _sum(everything, "availableReplicas")
    new: Status = {
        "replicas": _sum(everything, "replicas"),
        "updatedReplicas": 0 if rollout.new is None else _sum([rollout.new], "replicas"),
        "readyReplicas": _sum(everything, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(total(everything) - available, 0),
    }
    new = {k: v for k, v in new.items() if v}
    new["observedGeneration"] = rollout.deployment["metadata"].get("generation", 0)
    terminating = _terminating(everything)
    if terminating is not None:
        new["terminatingReplicas"] = terminating
    if status.get("collisionCount"):
        new["collisionCount"] = status["collisionCount"]
    if status.get("conditions"):
        new["conditions"] = status["conditions"]
    if available >= rollout.wishes.min_available:
        found = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        found = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    put(new, made("Available", *found, now_us))
    return new


def _sum(sets: list[Sized], field: str) -> int:
    return sum(s.status.get(field, 0) for s in sets)


def _terminating(sets: list[Sized]) -> int | None:
    """None where a ReplicaSet looked at by its controller does not say."""
    seen = [s.status for s in sets if s.status]
    if any("terminatingReplicas" not in s for s in seen):
        return None
    return sum(int(s["terminatingReplicas"]) for s in seen)


def is_complete(rollout: Rollout, status: Status) -> bool:
    wanted = rollout.wishes.replicas
    return all(status.get(f, 0) == wanted for f in ("updatedReplicas", "replicas", "availableReplicas"))


def estimate_progress(rollout: Rollout, old: Status, new: Status, now_us: int) -> None:
    """Write the Progressing condition into the new status."""
    if not rollout.wishes.has_deadline:
        drop(new, "Progressing")
        return
    current = condition_of(new, "Progressing")
    is_settled = (
        new.get("replicas", 0) == new.get("updatedReplicas", 0)
        and current is not None
        and current.get("reason") == NEW_AVAILABLE
    )
    if is_settled:
        return
    subject = f'Deployment "{rollout.key.name}"'
    if rollout.new is not None:
        subject = f'ReplicaSet "{rollout.new.name}"'
    if is_complete(rollout, new):
        message = f"{subject} has successfully progressed."
        put(new, made("Progressing", "True", NEW_AVAILABLE, message, now_us))
    elif _has_moved(old, new):
        condition = made("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.", now_us)
        if current is not None:
            if current["status"] == "True":
                condition["lastTransitionTime"] = current["lastTransitionTime"]
            drop(new, "Progressing")
        put(new, condition)
    elif _has_timed_out(rollout, current, now_us):
        message = f"{subject} has timed out progressing."
        put(new, made("Progressing", "False", TIMED_OUT, message, now_us))


def _has_moved(old: Status, new: Status) -> bool:
    """More updated, ready or available pods than before, or fewer old ones."""

    def old_pods(status: Status) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old_pods(new) < old_pods(old) or any(new.get(f, 0) > old.get(f, 0) for f in grown)


def _has_timed_out(rollout: Rollout, current: dict[str, Any] | None, now_us: int) -> bool:
    if current is None or current.get("reason") in (NEW_AVAILABLE, TIMED_OUT):
        return False
    return _deadline_us(rollout, current) < now_us


def _deadline_us(rollout: Rollout, current: dict[str, Any]) -> int:
    since = current.get("lastUpdateTime") or _NO_TIME
    return parse_rfc3339(since) + rollout.wishes.progress_deadline_s * SECOND_US


def next_check_us(rollout: Rollout, status: Status) -> int | None:
    """When to see whether the rollout got stuck; a second late, as upstream does, to be past the deadline."""
    current = condition_of(status, "Progressing")
    if not rollout.wishes.has_deadline or rollout.wishes.is_paused or current is None:
        return None
    if is_complete(rollout, status) or current.get("reason") in (TIMED_OUT, NEW_AVAILABLE):
        return None
    return _deadline_us(rollout, current) + SECOND_US


def carry_failures(rollout: Rollout, status: Status, now_us: int) -> None:
    """A ReplicaSet that cannot create pods says so on its Deployment; the new one's word goes first."""
    sets = [*([rollout.new] if rollout.new is not None else []), *rollout.old]
    for one in sets:
        failing = condition_of(one.status, "ReplicaFailure")
        if failing is not None:
            condition = {
                "type": "ReplicaFailure",
                "status": failing["status"],
                "lastUpdateTime": failing["lastTransitionTime"],
                "lastTransitionTime": failing["lastTransitionTime"],
                "reason": failing.get("reason", ""),
                "message": failing.get("message", ""),
            }
            put(status, condition)
            return
    drop(status, "ReplicaFailure")
