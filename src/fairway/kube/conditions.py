"""Conditions: what holds of an object, since when and why.

Source: apimachinery pkg/api/meta/conditions.go (v1.36) and, for pods, podutil.UpdatePodCondition: the
transition time moves only when the status changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

Condition = dict[str, Any]

TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"


def get_condition(conditions: Iterable[Condition] | None, type_: str) -> Condition | None:
    if isinstance(conditions, list):
        # Nearly always one: compiled code walks a list in half the time.
        listed: list[Condition] = conditions
        for condition in listed:
            if condition.get("type") == type_:
                return condition
        return None
    for condition in conditions or ():
        if condition.get("type") == type_:
            return condition
    return None


def is_condition_true(conditions: Iterable[Condition] | None, type_: str) -> bool:
    condition = get_condition(conditions, type_)
    return condition is not None and condition.get("status") == TRUE


def set_condition(
    conditions: Iterable[Condition] | None,
    type_: str,
    status: str,
    reason: str = "",
    message: str = "",
    now_text: str = "",
    *,
    observed_generation: int | None = None,
    **extra: Any,
) -> list[Condition]:
    """A new list in which this condition holds: replaced in place, or appended.

    `lastTransitionTime` becomes `now_text` only when the status changes. Empty reason and message are left
    out; `extra` adds members that some kinds have (`lastProbeTime`, `lastUpdateTime`).
    """
    made: Condition = {"type": type_, "status": status}
    if observed_generation is not None:
        made["observedGeneration"] = observed_generation
    made.update(extra)
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    made["lastTransitionTime"] = now_text
    new: list[Condition] = []
    is_placed = False
    for condition in conditions or ():
        if condition.get("type") != type_:
            new.append(condition)
            continue
        if condition.get("status") == status:
            made["lastTransitionTime"] = condition.get("lastTransitionTime") or now_text
        new.append(made)
        is_placed = True
    if not is_placed:
        new.append(made)
    return new


def without_condition(conditions: Iterable[Condition] | None, type_: str) -> list[Condition]:
    return [c for c in conditions or () if c.get("type") != type_]
