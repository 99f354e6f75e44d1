"""Rules in CEL that every job meets, written out: an expression costs a hundred times as much. And rules over lists in
lists in lists, whose cost `admission.cel` bounds far too high.

Known by their text: one that a release words anew is evaluated as it stands until somebody writes it out again.

Source: x-kubernetes-validations of config/components/crd/bases (Kueue main, 2026-08).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_POD_GROUP, _WORKLOAD_GROUP = "scheduling.k8s.io", "kueue.x-k8s.io"
_RESERVED: Final = (
    "has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'QuotaReserved' "
    "&& c.status == 'True') && has(self.status.admission) ? size(self.spec.podSets) == "
    "size(self.status.admission.podSetAssignments) : true"
)


def _counts_pod_sets(workload: dict[str, Any]) -> bool:
    status = workload.get("status") or {}
    admission = status.get("admission")
    held = any(c["type"] == "QuotaReserved" and c["status"] == "True" for c in status.get("conditions") or ())
    wanted, given = (workload.get("spec") or {}).get("podSets"), (admission or {}).get("podSetAssignments")
    return not held or admission is None or (wanted is not None and len(wanted) == len(given or ()))


def _nobody_borrows(spec: dict[str, Any]) -> bool:
    """No quota names a borrowing limit."""
    return not any(
        "borrowingLimit" in quota
        for group in spec.get("resourceGroups") or ()
        for flavor in group["flavors"]
        for quota in flavor["resources"]
    )


_BORROWS = (
    "!has(self.{0}) && has(self.resourceGroups) ? self.resourceGroups.all(rg, rg.flavors.all(f, f.resources.all(r, "
    "!has(r.borrowingLimit)))) : true"
)

# Text of a rule that does not look back → whether it holds for a `self` that has the shape of its schema.
HOLDS: Final[dict[str, Callable[[dict[str, Any]], bool]]] = {
    _RESERVED: _counts_pod_sets,
    _BORROWS.format("cohortName"): lambda spec: "cohortName" in spec or _nobody_borrows(spec),
    _BORROWS.format("cohort"): lambda spec: "cohort" in spec or _nobody_borrows(spec),
    "!has(self.priorityClassRef) || has(self.priority)": lambda spec: (
        "priorityClassRef" not in spec or "priority" in spec
    ),
    "has(self.minCount) ? self.minCount <= self.count : true": lambda pod_set: (
        "minCount" not in pod_set or pod_set["minCount"] <= pod_set["count"]
    ),
    "(self.group == 'scheduling.k8s.io') ? self.kind == 'PriorityClass' : true": lambda ref: (
        ref["group"] != _POD_GROUP or ref["kind"] == "PriorityClass"
    ),
    "(self.group == 'kueue.x-k8s.io') ? self.kind == 'WorkloadPriorityClass' : true": lambda ref: (
        ref["group"] != _WORKLOAD_GROUP or ref["kind"] == "WorkloadPriorityClass"
    ),
}
