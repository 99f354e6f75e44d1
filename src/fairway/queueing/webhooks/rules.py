"""The CRDs' CEL rules, by the names the tables give them: when do they hold, and what do they say?

A rule gets the value as it is stored (defaulted) and, where it looks back, the value that was there. Written out in
Python: fifty fixed rules need no expression language.

Source: x-kubernetes-validations of config/components/crd/bases (Kueue main, 2026-08).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairway.kube.objects import Obj
from fairway.queueing import conditions as conds
from fairway.queueing.objects import HOSTNAME_LABEL

_NEXT = "TryNextFlavor"
_NEVER = "Never"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POD_CLASS, _WORKLOAD_CLASS = "PriorityClass", "WorkloadPriorityClass"
_POD_GROUP, _WORKLOAD_GROUP = "scheduling.k8s.io", "kueue.x-k8s.io"
_WHILE_RESERVED = "is immutable while workload quota reserved"


@dataclass(frozen=True, slots=True)
class Rule:
    """`holds(new, old)`; `looks_back`: only asked where there was a value before."""

    holds: Callable[[Any, Any], bool]
    message: str
    looks_back: bool = False


def _every_quota(spec: Obj, field: str) -> bool:
    """Whether any quota of the resource groups names the field."""
    return any(
        field in resource
        for group in spec.get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for resource in flavor.get("resources") or ()
    )


def _same_number(group: Obj, _old: Any) -> bool:
    covered = len(group.get("coveredResources") or ())
    return all(len(flavor.get("resources") or ()) == covered for flavor in group.get("flavors") or ())


def _prefers_rightly(fungibility: Obj, _old: Any) -> bool:
    wants = (fungibility.get("whenCanBorrow"), fungibility.get("whenCanPreempt"))
    return "preference" not in fungibility or wants == (_NEXT, _NEXT)


def _never_nor_borrows(preemption: Obj, _old: Any) -> bool:
    borrows = (preemption.get("borrowWithinCohort") or {}).get("policy", _NEVER) != _NEVER
    return not (preemption.get("reclaimWithinCohort") == _NEVER and borrows)


def _is_unique(items: Sequence[Any], _old: Any) -> bool:
    return all(item not in items[:at] for at, item in enumerate(items))


def _ends_at_hostname(levels: Sequence[Obj]) -> bool:
    return bool(levels) and levels[-1].get("nodeLabel") == HOSTNAME_LABEL


def _hostname_lowest(levels: Sequence[Obj], _old: Any) -> bool:
    return _ends_at_hostname(levels) or all(level.get("nodeLabel") != HOSTNAME_LABEL for level in levels)


def _exactly_one(value: Obj, _old: Any, *names: str) -> bool:
    return sum(name in value for name in names) == 1


def _is_reserved(workload: Obj) -> bool:
    return conds.is_true(workload.get("status") or {}, conds.QUOTA_RESERVED)


def _is_admitted(workload: Obj) -> bool:
    return conds.is_true(workload.get("status") or {}, conds.ADMITTED)


def _counts_pod_sets(workload: Obj, _old: Any) -> bool:
    admission = (workload.get("status") or {}).get("admission")
    if not _is_reserved(workload) or admission is None:
        return True
    pod_sets = (workload.get("spec") or {}).get("podSets") or ()
    return len(pod_sets) == len(admission.get("podSetAssignments") or ())


def _class_of(workload: Obj) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = (workload.get("spec") or {}).get("priorityClassRef")
    return found


def _class_stays(field: str, *, only_of_pods: bool = False) -> Callable[[Obj, Obj], bool]:
    def holds(new: Obj, old: Obj) -> bool:
        was, now = _class_of(old), _class_of(new)
        if not _is_reserved(old) or was is None or now is None:
            return True
        if only_of_pods and (now.get("group"), now.get("kind")) != (_POD_GROUP, _POD_CLASS):
            return True
        return was.get(field) == now.get(field)

    return holds


def _spec_field_stays(
    field: str, does_matter: Callable[[Obj], bool], absent: Any
) -> Callable[[Obj, Obj], bool]:
    def holds(new: Obj, old: Obj) -> bool:
        if not (does_matter(old) and does_matter(new)):
            return True
        was, now = ((w.get("spec") or {}).get(field, absent) for w in (old, new))
        return bool(was == now)

    return holds


RULES: dict[str, Rule] = {
    "immutable": Rule(lambda new, old: new == old, "field is immutable", looks_back=True),
    "unique": Rule(_is_unique, "must be unique"),
    "noBorrowingWithoutCohort": Rule(
        lambda spec, _: "cohortName" in spec or not _every_quota(spec, "borrowingLimit"),
        "borrowingLimit must be nil when cohort is empty",
    ),
    "noBorrowingWithoutCohortV1": Rule(
        lambda spec, _: "cohort" in spec or not _every_quota(spec, "borrowingLimit"),
        "borrowingLimit must be nil when cohort is empty",
    ),
    "sameNumberOfResources": Rule(
        _same_number, "flavors must have the same number of resources as the coveredResources"
    ),
    "preferenceNeedsNextFlavor": Rule(
        _prefers_rightly,
        "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor",
    ),
    "neverReclaimsNorBorrows": Rule(
        _never_nor_borrows, "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
    ),
    "topologyNeedsNodeLabels": Rule(
        lambda spec, _: "topologyName" not in spec or len(spec.get("nodeLabels") or ()) >= 1,
        "at least one nodeLabel is required when topology is set",
    ),
    "topologyNameStays": Rule(
        lambda new, old: "topologyName" not in old or new.get("topologyName") == old["topologyName"],
        "topologyName is immutable when topologyName is set",
        looks_back=True,
    ),
    "taintEffects": Rule(
        lambda taints, _: all(t.get("effect") in _EFFECTS for t in taints),
        "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
    ),
    "keylessExists": Rule(
        lambda tolerations, _: all("key" in t or t.get("operator") == "Exists" for t in tolerations),
        "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
    ),
    "secondsNeedNoExecute": Rule(
        lambda tolerations, _: all(
            "tolerationSeconds" not in t or t.get("effect") == "NoExecute" for t in tolerations
        ),
        "effect must be 'NoExecute' when 'tolerationSeconds' is set",
    ),
    "operators": Rule(
        lambda tolerations, _: all(t.get("operator", "Equal") in ("Equal", "Exists") for t in tolerations),
        "supported toleration values: 'Equal'(default), 'Exists'",
    ),
    "existsHasNoValue": Rule(
        lambda tolerations, _: not any(t.get("operator") == "Exists" and "value" in t for t in tolerations),
        "a value must be empty when 'operator' is 'Exists'",
    ),
    "effects": Rule(
        lambda tolerations, _: all(t.get("effect", _EFFECTS[0]) in _EFFECTS for t in tolerations),
        "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
    ),
    "levelsMutable": Rule(
        lambda new, old: new == old or (_ends_at_hostname(new) and _ends_at_hostname(old)),
        "levels are mutable only when kubernetes.io/hostname is the lowest level both before and after the change",
        looks_back=True,
    ),
    "hostnameLowest": Rule(
        _hostname_lowest,
        "the kubernetes.io/hostname label can only be used at the lowest level of topology",
    ),
    "oneClusterSource": Rule(
        lambda value, old: _exactly_one(value, old, "kubeConfig", "clusterProfileRef"),
        "exactly one of the fields in [kubeConfig clusterProfileRef] must be set",
    ),
    "minCountWithinCount": Rule(
        lambda pod_set, _: "minCount" not in pod_set or pod_set["minCount"] <= pod_set.get("count", 1),
        "minCount should be positive and less or equal to count",
    ),
    "podPriorityClassKind": Rule(
        lambda ref, _: ref.get("group") != _POD_GROUP or ref.get("kind") == _POD_CLASS,
        "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
    ),
    "workloadPriorityClassKind": Rule(
        lambda ref, _: ref.get("group") != _WORKLOAD_GROUP or ref.get("kind") == _WORKLOAD_CLASS,
        "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
    ),
    "priorityBesideClass": Rule(
        lambda spec, _: "priorityClassRef" not in spec or "priority" in spec,
        "priority should not be nil when priorityClassRef is set",
    ),
    "priorityBesideClassV1": Rule(
        lambda spec, _: "priorityClassName" not in spec or "priority" in spec,
        "priority should not be nil when priorityClassName is set",
    ),
    "oneCount": Rule(
        lambda value, old: _exactly_one(value, old, "universal", "individual"),
        "exactly one of the fields in [universal individual] must be set",
    ),
    "oneValue": Rule(
        lambda value, old: _exactly_one(value, old, "universal", "individual"),
        "exactly one of the fields in [universal individual] must be set",
    ),
    "countsPerDomain": Rule(
        lambda part, _: (
            len((part.get("podCounts") or {}).get("individual") or range(part["domainCount"]))
            == part["domainCount"]
        ),
        "podCounts.individual must have length equal to domainCount",
    ),
    "rootsPerDomain": Rule(
        lambda part, _: all(
            "individual" not in v or len(v["individual"].get("roots") or ()) == part["domainCount"]
            for v in part.get("valuesPerLevel") or ()
        ),
        "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of this "
        "TopologyAssignmentSlice",
    ),
    "valuesPerLevel": Rule(
        lambda value, _: all(
            len(part.get("valuesPerLevel") or ()) == len(value.get("levels") or ())
            for part in value.get("slices") or ()
        ),
        "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
    ),
    "clusterNameStays": Rule(
        lambda new, old: (
            "clusterName" not in old or "clusterName" not in new or old["clusterName"] == new["clusterName"]
        ),
        "clusterName is immutable once set",
        looks_back=True,
    ),
    "clusterNameOrNominated": Rule(
        lambda status, _: "clusterName" not in status or not status.get("nominatedClusterNames"),
        "clusterName and nominatedClusterNames are mutually exclusive",
    ),
    "assignmentPerPodSet": Rule(
        _counts_pod_sets, "podSetAssignments must have the same number of podSets as the spec"
    ),
    "priorityClassRefStays": Rule(
        lambda new, old: not _is_reserved(old) or (_class_of(old) is None) == (_class_of(new) is None),
        f"priorityClassRef {_WHILE_RESERVED}",
        looks_back=True,
    ),
    "priorityClassGroupStays": Rule(
        _class_stays("group"), f"priorityClassRef.group {_WHILE_RESERVED}", looks_back=True
    ),
    "priorityClassKindStays": Rule(
        _class_stays("kind"), f"priorityClassRef.kind {_WHILE_RESERVED}", looks_back=True
    ),
    "podPriorityClassStays": Rule(
        _class_stays("name", only_of_pods=True),
        "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved",
        looks_back=True,
    ),
    "queueNameStays": Rule(
        _spec_field_stays("queueName", _is_reserved, None), f"queueName {_WHILE_RESERVED}", looks_back=True
    ),
    "executionTimeStays": Rule(
        _spec_field_stays("maximumExecutionTimeSeconds", _is_admitted, 0),
        f"maximumExecutionTimeSeconds {_WHILE_RESERVED}",
        looks_back=True,
    ),
}
