"""Conditions of Knative's objects: Ready follows from those it depends on.

Source: knative.dev/pkg apis/condition_set.go.
"""

from __future__ import annotations

from typing import Any, Final

from fairway.kube.timestamps import rfc3339

READY: Final = "Ready"
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
Condition = dict[str, Any]


class Conditions:
    """Those of one object while a decision is made. `dependents` make up Ready; others say severity Info."""

    def __init__(self, status: dict[str, Any], dependents: tuple[str, ...], now_us: int) -> None:
        self._before = {c["type"]: c for c in status.get("conditions") or ()}
        self._of = dict(self._before)
        self._dependents = dependents
        self._now = rfc3339(now_us)
        for type_ in (*dependents, READY):
            if type_ not in self._of:
                self._set(type_, UNKNOWN, "", "")

    def status(self, type_: str) -> str:
        return str(self._of.get(type_, {}).get("status", ""))

    def get(self, type_: str) -> Condition | None:
        return self._of.get(type_)

    def mark(self, type_: str, status: str, reason: str = "", message: str = "") -> None:
        """Ready is brought up to date with it."""
        self._set(type_, status, reason, message)
        if type_ not in self._dependents:
            return
        if status == TRUE:
            self._settle()
        elif status == FALSE:
            self._set(READY, FALSE, reason, message)
        elif any(self.status(d) == FALSE for d in self._dependents):
            if self.status(READY) != FALSE:
                self._set(READY, FALSE, reason, message)
        else:
            self._set(READY, UNKNOWN, reason, message)

    def clear(self, type_: str) -> None:
        """It says nothing any more."""
        self._of.pop(type_, None)

    def copy(self, type_: str, other: Condition | None) -> None:
        """As another object's condition says."""
        if other is not None:
            reason, message = other.get("reason", ""), other.get("message", "")
            told = ("", "") if other["status"] == TRUE else (reason, message)
            self.mark(type_, other["status"], *told)

    def _settle(self) -> None:
        """Ready after a dependent turned True: as the newest of those that are not, first those that are False."""
        here = [self._of[d] for d in self._dependents]
        for status in (FALSE, UNKNOWN):
            unhappy = [c for c in here if c["status"] == status]
            if unhappy:
                newest = max(unhappy, key=lambda c: c["lastTransitionTime"])
                self._set(READY, status, newest.get("reason", ""), newest.get("message", ""))
                return
        self._set(READY, TRUE, "", "")

    def _set(self, type_: str, status: str, reason: str, message: str) -> None:
        new: Condition = {"type": type_, "status": status}
        if reason:
            new["reason"] = reason
        if message:
            new["message"] = message
        if type_ != READY and type_ not in self._dependents:
            new["severity"] = "Info"
        old = self._of.get(type_)
        if old is not None and {k: v for k, v in old.items() if k != "lastTransitionTime"} == new:
            return
        self._of[type_] = {**new, "lastTransitionTime": self._now}

    def listed(self) -> list[Condition]:
        """What was marked otherwise and back again keeps its time: such a status is not written (VolatileTime)."""
        return [self._kept(self._of[type_]) for type_ in sorted(self._of)]

    def _kept(self, new: Condition) -> Condition:
        old = self._before.get(new["type"])
        is_as_before = old is not None and old == {**new, "lastTransitionTime": old.get("lastTransitionTime")}
        return old if old is not None and is_as_before else new


def condition_of(obj: dict[str, Any], type_: str = READY) -> Condition | None:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition["type"] == type_:
            return dict(condition)
    return None


def is_ready(obj: dict[str, Any]) -> bool:
    """Ready, and of the latest generation."""
    status = obj.get("status") or {}
    if status.get("observedGeneration") != obj["metadata"].get("generation"):
        return False
    condition = condition_of(obj)
    return condition is not None and condition["status"] == TRUE
