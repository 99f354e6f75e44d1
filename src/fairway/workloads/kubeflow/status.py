"""The status of a training job: conditions, counts by role, and the events that go with them.

Source: training-operator release-1.9 pkg/util/status.go, pkg/core/status.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairway.cluster.actions import Action
from fairway.kube.conditions import Condition
from fairway.kube.objects import Key, Obj
from fairway.workloads.controller import NORMAL, event
from fairway.workloads.kubeflow.framework import Framework, Replica, TrainingJob
from fairway.workloads.pods import FAILED, RUNNING, SUCCEEDED, is_deleting, phase_of

JOB_CREATED = "Created"
JOB_RUNNING = "Running"
JOB_RESTARTING = "Restarting"
JOB_SUCCEEDED = "Succeeded"
JOB_SUSPENDED = "Suspended"
JOB_FAILED = "Failed"


@dataclass(slots=True)
class Sync:
    """One job while it is decided about: the status as it will be, and what is to be done."""

    key: Key
    framework: Framework
    job: TrainingJob
    status: dict[str, Any]
    pods: list[Obj]
    now_text: str
    actions: list[Action] = field(default_factory=list)

    def tell(self, reason: str, message: str, kind: str = NORMAL) -> None:
        self.actions.append(event(self.key, reason, message, self.framework.operator, kind))

    def set(self, type_: str, message: str, *, status: str = "True", why: str = "") -> bool:
        """Write a condition with the reason `{kind}{why or type}`. A failed job's conditions stay as they are."""
        before = self.status.get("conditions") or []
        if is_true(before, JOB_FAILED):
            return False
        after = with_condition(
            before, type_, status, f"{self.job.kind}{why or type_}", message, self.now_text
        )
        self.status["conditions"] = after
        return after is not before

    def announce(self, type_: str, message: str, kind: str = NORMAL) -> None:
        """A condition and the event of the same reason and message."""
        self.tell(f"{self.job.kind}{type_}", message, kind)
        self.set(type_, message)

    def end(self, type_: str, message: str) -> None:
        """The job has succeeded or failed."""
        self.status.setdefault("completionTime", self.now_text)
        self.announce(type_, message)

    def counts(self, replica: Replica) -> dict[str, int]:
        found: dict[str, int] = (self.status.get("replicaStatuses") or {}).get(replica.role) or {}
        return found

    def is_true(self, type_: str) -> bool:
        return is_true(self.status.get("conditions"), type_)

    @property
    def is_finished(self) -> bool:
        return self.is_true(JOB_SUCCEEDED) or self.is_true(JOB_FAILED)


def is_true(conditions: list[Condition] | None, type_: str) -> bool:
    return any(c["type"] == type_ and c["status"] == "True" for c in conditions or ())


def with_condition(
    conditions: list[Condition],
    type_: str,
    status: str,
    reason: str,
    message: str,
    now_text: str,
    *,
    ends: tuple[str, ...] = (JOB_RUNNING,),
) -> list[Condition]:
    """The conditions with this one last, or the same list where status and reason are what they were.

    Running and Restarting exclude each other; success and failure make those in `ends` false.
    """
    present = next((c for c in conditions if c["type"] == type_), None)
    if present is not None and (present["status"], present["reason"]) == (status, reason):
        return conditions
    since = now_text
    if present is not None and present["status"] == status:
        since = present["lastTransitionTime"]
    excluded = {JOB_RESTARTING: JOB_RUNNING, JOB_RUNNING: JOB_RESTARTING}.get(type_, "")
    kept = [c for c in conditions if c["type"] not in (type_, excluded)]
    if type_ in (JOB_FAILED, JOB_SUCCEEDED):
        kept = [{**c, "status": "False"} if c["type"] in ends else c for c in kept]
    made = {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": now_text,
        "lastTransitionTime": since,
    }
    return [*kept, made]


def count(counts: dict[str, int], pod: Obj) -> None:
    """Add a pod to the counts of its role; zeros are left out, as the API leaves them."""
    phase = phase_of(pod)
    if phase == RUNNING:
        # A running pod on its way out may never get to say that it failed.
        word = "failed" if is_deleting(pod) else "active"
    elif phase in (SUCCEEDED, FAILED):
        word = phase.lower()
    else:
        return
    counts[word] = counts.get(word, 0) + 1
