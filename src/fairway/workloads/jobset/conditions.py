"""A JobSet's conditions: when one is written, and the event that goes with it.

Source: jobset pkg/controllers/jobset_controller.go setCondition, updateCondition; pkg/constants.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairway.cluster.actions import Action
from fairway.kube.conditions import Condition
from fairway.kube.objects import Key, Obj
from fairway.workloads.controller import NORMAL, WARNING, event

COMPONENT = "jobset"
COMPLETED = "Completed"
FAILED = "Failed"
SUSPENDED = "Suspended"
RESTARTING = "Restarting"
IN_PROGRESS = "StartupPolicyInProgress"
STARTED = "StartupPolicyCompleted"

_EXCLUSIVE = ((IN_PROGRESS, STARTED), (STARTED, IN_PROGRESS))


@dataclass(slots=True)
class Progress:
    """One JobSet while it is decided about: its status as it will be, and what is to be done.

    `told` are events about the status; upstream sends them only after the status was written.
    """

    key: Key
    obj: Obj
    status: dict[str, Any]
    now_text: str
    actions: list[Action] = field(default_factory=list)
    told: list[Action] = field(default_factory=list)

    @property
    def spec(self) -> dict[str, Any]:
        return self.obj.get("spec") or {}

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def is_suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    def set(self, type_: str, status: str, reason: str, message: str, kind: str = NORMAL) -> None:
        """Write a condition, and announce it if that changed anything."""
        made = {
            "lastTransitionTime": self.now_text,
            "message": message,
            "reason": reason,
            "status": status,
            "type": type_,
        }
        before = self.status.get("conditions") or []
        after = _with(before, made)
        if after != before:
            self.status["conditions"] = after
            self.tell(reason, message, kind)

    def tell(self, reason: str, message: str, kind: str = NORMAL) -> None:
        self.told.append(event(self.key, reason, message, COMPONENT, kind))

    def complete(self) -> None:
        self.set(COMPLETED, "True", "AllJobsCompleted", "jobset completed successfully")
        self.set(RESTARTING, "False", "JobSetCompleted", "jobset completed successfully")
        self.status["terminalState"] = COMPLETED

    def fail(self, reason: str, message: str) -> None:
        self.set(FAILED, "True", reason, message, WARNING)
        self.set(RESTARTING, "False", "JobSetFailed", "jobset failed")
        self.status["terminalState"] = FAILED


def _with(conditions: list[Condition], made: Condition) -> list[Condition]:
    """The conditions with this one: a false one is only ever the end of a true one."""
    after: list[Condition] = []
    is_found = False
    for present in conditions:
        if present["type"] == made["type"]:
            is_found = True
            same = present["status"] == made["status"]
            after.append(_unless_equal(present, made) if same else made)
        elif (present["type"], made["type"]) in _EXCLUSIVE and made["status"] == "True":
            after.append({**present, "status": "False"})
        else:
            after.append(present)
    if not is_found and made["status"] == "True":
        after.append(made)
    return after


def _unless_equal(present: Condition, made: Condition) -> Condition:
    return {**made, "lastTransitionTime": present["lastTransitionTime"]}


def finished_since(status: dict[str, Any]) -> str | None:
    """When it completed or failed; None while it goes on."""
    for condition in status.get("conditions") or ():
        if condition["type"] in (COMPLETED, FAILED) and condition["status"] == "True":
            return str(condition["lastTransitionTime"])
    return None
