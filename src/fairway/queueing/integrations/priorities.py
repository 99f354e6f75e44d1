"""Which priority does a job's Workload get, and from which class?

Source: pkg/controller/jobframework/reconciler.go ExtractPriority; pkg/util/priority.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, labels_of, name_of, spec_of, status_of
from fairway.queueing.facts import conditions as conds

PRIORITY_CLASS: Final = "PriorityClass.scheduling.k8s.io"
WORKLOAD_PRIORITY_CLASS: Final = "WorkloadPriorityClass.kueue.x-k8s.io"
PRIORITY_CLASS_LABEL: Final = "kueue.x-k8s.io/priority-class"


class WorkloadPriority(NamedTuple):
    """`ref`: `spec.priorityClassRef`."""

    ref: dict[str, str] | None
    value: int


class ClassMissing(Exception):
    """The class is not there (yet). `is_workload_class`: it is a WorkloadPriorityClass, by the job's label."""

    def __init__(self, name: str, *, is_workload_class: bool) -> None:
        self.name = name
        self.is_workload_class = is_workload_class
        super().__init__(name)


def priority_of(
    view: View, job: Obj, pod_sets: Sequence[dict[str, Any]], custom: str | None
) -> WorkloadPriority:
    """By the job's label, else by the kind's own answer (`custom`), else by the first pod set that names a class.

    Raises: ClassMissing.
    """
    label = labels_of(job).get(PRIORITY_CLASS_LABEL) or ""
    if label:
        found = view.get(Key(WORKLOAD_PRIORITY_CLASS, "", label))
        if found is None:
            raise ClassMissing(label, is_workload_class=True)
        ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": label}
        return WorkloadPriority(ref, int(found.get("value") or 0))
    return _of_pods(view, _of_pod_sets(pod_sets) if custom is None else custom)


def priority_change(view: View, job: Obj, workload: Obj, custom: str | None) -> dict[str, Any] | None:
    """The Workload's spec with the priority that the job's label asks for now; None where nothing changes.

    Raises: ClassMissing.
    """
    spec = spec_of(workload)
    ref = spec.get("priorityClassRef")
    name = (ref or {}).get("name") or ""
    label = labels_of(job).get(PRIORITY_CLASS_LABEL) or ""
    follows_label = ref is None or ref.get("kind") == "WorkloadPriorityClass"
    has_quota = conds.is_true(status_of(workload), conds.QUOTA_RESERVED)
    if name == label or not follows_label or (ref is None and has_quota):
        return None
    found = priority_of(view, job, spec.get("podSets") or (), custom)
    changed = {**spec, "priority": found.value}
    changed.pop("priorityClassRef", None)
    if found.ref is not None:
        changed["priorityClassRef"] = found.ref
    return changed


def _of_pod_sets(pod_sets: Sequence[dict[str, Any]]) -> str:
    for pod_set in pod_sets:
        name = ((pod_set.get("template") or {}).get("spec") or {}).get("priorityClassName")
        if name:
            return str(name)
    return ""


def _of_pods(view: View, name: str) -> WorkloadPriority:
    if not name:
        default = _default_class(view)
        return WorkloadPriority(None, 0) if default is None else _from_class(default)
    found = view.get(Key(PRIORITY_CLASS, "", name))
    if found is None:
        system = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
        if name in system:
            return WorkloadPriority(_pod_ref(name), system[name])
        raise ClassMissing(name, is_workload_class=False)
    return _from_class(found)


def _from_class(found: Obj) -> WorkloadPriority:
    return WorkloadPriority(_pod_ref(name_of(found)), int(found.get("value") or 0))


def _pod_ref(name: str) -> dict[str, str]:
    return {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}


def _default_class(view: View) -> Obj | None:
    """The global default; of several the lowest."""
    defaults = [c for c in view.objects(PRIORITY_CLASS) if c.get("globalDefault")]
    return min(defaults, key=lambda c: int(c.get("value") or 0)) if defaults else None
