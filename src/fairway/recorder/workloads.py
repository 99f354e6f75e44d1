"""The workloads of a run as they are noted: what owned pods, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairway.kube.objects import Obj, controller_of, dig, labels_of, meta_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339

NEVER: Final = -(2**62)
"""A time that is not yet. Times are µs since the run began, below zero for what happened before."""

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"

# Condition types that end a workload, and what came of it. Source: batch/v1, jobset/v1alpha2, kubeflow.org/v1.
_ENDS: Final = {
    "Complete": "Complete",
    "Completed": "Complete",
    "Succeeded": "Complete",
    "Failed": "Failed",
}
_POD_TEMPLATES: Final = (
    ("spec", "template", "spec"),
    ("spec", "jobTemplate", "spec", "template", "spec"),
)


class Workload:
    """One workload as the run goes on. When it started follows from its pods."""

    __slots__ = (
        "conditions",
        "created",
        "deleted",
        "finished",
        "index",
        "kind",
        "labels",
        "message",
        "name",
        "namespace",
        "outcome",
        "parent",
        "priority_class",
        "queue",
        "reason",
        "suspensions",
        "uid",
    )

    def __init__(self, kind: str, namespace: str, name: str, uid: str, now: int) -> None:
        self.index = -1
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.labels: Mapping[str, str] = {}
        self.parent: Workload | None = None
        self.priority_class = ""
        self.queue = ""
        self.created = now
        self.finished = self.deleted = NEVER
        self.suspensions: tuple[int, ...] = ()
        """When it was suspended, resumed, suspended, … in turn."""
        self.outcome = self.reason = self.message = ""
        self.conditions: tuple[str, ...] = ()

    def copy(self) -> Workload:
        """As it is now; the parent is the same one."""
        twin = Workload(self.kind, self.namespace, self.name, self.uid, self.created)
        twin.index, twin.labels, twin.parent = self.index, self.labels, self.parent
        twin.priority_class, twin.queue = self.priority_class, self.queue
        twin.finished, twin.deleted, twin.suspensions = self.finished, self.deleted, self.suspensions
        twin.outcome, twin.reason, twin.message = self.outcome, self.reason, self.message
        twin.conditions = self.conditions
        return twin

    @property
    def root(self) -> Workload:
        found = self
        while found.parent is not None:
            found = found.parent
        return found

    @property
    def depth(self) -> int:
        """Owners above it."""
        return 0 if self.parent is None else 1 + self.parent.depth

    @property
    def is_suspended(self) -> bool:
        return len(self.suspensions) % 2 == 1


class WorkloadLedger:
    """Workloads by UID, and in order of creation."""

    def __init__(self) -> None:
        self.rows: list[Workload] = []
        self._by_uid: dict[str, Workload] = {}

    def get(self, uid: str) -> Workload | None:
        return self._by_uid.get(uid)

    def of_reference(self, namespace: str, ref: Mapping[str, Any], now: int) -> Workload:
        """The owner a reference names; one never seen is noted as it is."""
        uid = ref.get("uid") or ""
        found = self._by_uid.get(uid)
        if found is None:
            found = self._add(
                Workload(ref.get("kind") or "", namespace, ref.get("name") or "", uid, now), uid
            )
        return found

    def _add(self, workload: Workload, uid: str) -> Workload:
        workload.index = len(self.rows)
        self._by_uid[uid] = workload
        self.rows.append(workload)
        return workload

    def see(self, obj: Obj, old: Obj | None, now: int, began_us: int) -> Workload:
        """Take note of a workload's present state."""
        meta: Obj = obj["metadata"]
        uid = meta["uid"]
        found = self._by_uid.get(uid)
        if found is None:
            created = min(now, created_at(meta, now, began_us))
            found = self._add(
                Workload(obj["kind"], meta.get("namespace") or "", meta["name"], uid, created), uid
            )
            owner = controller_of(obj)
            if owner is not None:
                found.parent = self.of_reference(found.namespace, owner, now)
        if (
            old is None
            or old.get("spec") is not obj.get("spec")
            or meta_of(old).get("labels") is not meta.get("labels")
        ):
            _describe(found, obj, now)
        status = obj.get("status")
        if status and (old is None or old.get("status") is not status):
            _conclude(found, status.get("conditions") or (), now)
        return found

    def remove(self, uid: str, now: int) -> Workload | None:
        found = self._by_uid.pop(uid, None)
        if found is not None:
            found.deleted = now
            if found.is_suspended:
                found.suspensions = (*found.suspensions, now)
        return found

    def fork(self) -> tuple[WorkloadLedger, dict[int, Workload]]:
        """A copy, and which copy stands for which original (by id)."""
        copies: dict[int, Workload] = {}
        for workload in self.rows:
            copies[id(workload)] = workload.copy()
        for twin in copies.values():
            if twin.parent is not None:
                twin.parent = copies[id(twin.parent)]
        ledger = WorkloadLedger()
        ledger.rows = list(copies.values())
        ledger._by_uid = {uid: copies[id(w)] for uid, w in self._by_uid.items()}
        return ledger, copies


def created_at(meta: Mapping[str, Any], now: int, began_us: int) -> int:
    """When it was created, where it is older than this run; else now. The object only knows whole seconds."""
    stamp = meta.get("creationTimestamp")
    if not stamp:
        return now
    stamped = parse_rfc3339(stamp) - began_us
    return stamped if stamped < now - SECOND_US else now


def _describe(workload: Workload, obj: Obj, now: int) -> None:
    labels = labels_of(obj)
    workload.labels = labels
    workload.queue = labels.get(QUEUE_LABEL) or ("" if workload.parent is None else workload.parent.queue)
    workload.priority_class = labels.get(PRIORITY_LABEL) or _template_priority(obj)
    # A suspended CronJob makes no Jobs: nothing waits.
    suspends = bool(dig(obj, "spec", "suspend")) and workload.kind != "CronJob" and workload.finished == NEVER
    if suspends != workload.is_suspended:
        workload.suspensions = (*workload.suspensions, now)


def _template_priority(obj: Obj) -> str:
    for path in _POD_TEMPLATES:
        template = dig(obj, *path)
        if template:
            return template.get("priorityClassName") or ""
    return ""


def _conclude(workload: Workload, conditions: Any, now: int) -> None:
    true = tuple([c["type"] for c in conditions if c.get("status") == "True"])
    if true == workload.conditions:
        return
    workload.conditions = true
    if workload.kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        return
    for condition in conditions:
        outcome = _ENDS.get(condition["type"])
        if outcome is not None and condition.get("status") == "True" and workload.finished == NEVER:
            workload.finished = now
            workload.outcome = outcome
            workload.reason = condition.get("reason") or ""
            workload.message = condition.get("message") or ""
