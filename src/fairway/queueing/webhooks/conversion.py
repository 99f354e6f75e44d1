"""What a v1beta1 object of Kueue's says in v1beta2, the version that is stored, and back.

Objects have the shape of their schema. Fields that only one version has are lost on the way, as upstream.

Source: apis/kueue/v1beta1/*_conversion.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.kube.objects import Obj, spec_of
from fairway.queueing.facts.topologyassignments import read_assignment, write_assignment

GROUP = "kueue.x-k8s.io"
HUB = f"{GROUP}/v1beta2"
OLD = f"{GROUP}/v1beta1"
# priorityClassSource of v1beta1 ↔ group and kind of v1beta2.
_PRIORITY_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
_SOURCES_OF = {ref: source for source, ref in _PRIORITY_SOURCES.items()}


def converted(obj: Obj, version: str = HUB) -> Obj:
    """The object in that version; one that is already, or that is not Kueue's, unchanged."""
    before = obj.get("apiVersion")
    if before == version or {before, version} != {HUB, OLD}:
        return obj
    out = {**obj, "apiVersion": version}
    convert = (_TO_HUB if version == HUB else _TO_OLD).get(str(obj.get("kind")))
    return convert(out) if convert is not None else out


def _part(obj: Obj, name: str, change: Callable[[dict[str, Any]], None]) -> Obj:
    """The object with its spec or status changed, where it has one."""
    part = obj.get(name)
    if not part:
        return obj
    part = dict(part)
    change(part)
    return {**obj, name: part}


def _rename(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def rename(part: dict[str, Any]) -> None:
        if old in part:
            part[new] = part.pop(old)

    return rename


# To v1beta2


def _cluster_queue(obj: Obj) -> Obj:
    spec = dict(spec_of(obj))
    _rename("cohort", "cohortName")(spec)
    checks = spec.pop("admissionChecks", None)
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    fungibility = spec.get("flavorFungibility")
    if fungibility:
        gone = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
        spec["flavorFungibility"] = {k: gone.get(v, v) for k, v in fungibility.items()}
    return _part({**obj, "spec": spec}, "status", lambda s: s.pop("pendingWorkloadsStatus", None))


def _cohort(obj: Obj) -> Obj:
    """`parent` is how v1alpha1 called it; v1beta1 says parentName as v1beta2 does."""
    return _part(obj, "spec", _rename("parent", "parentName"))


def _local_queue(obj: Obj) -> Obj:
    out = _part(obj, "status", _rename("flavorUsage", "flavorsUsage"))
    return _part(out, "status", lambda status: status.pop("flavors", None))


def _workload(obj: Obj) -> Obj:
    spec = dict(spec_of(obj))
    source = spec.pop("priorityClassSource", None)
    name = spec.pop("priorityClassName", None)
    if source in _PRIORITY_SOURCES:
        group, kind = _PRIORITY_SOURCES[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name or ""}
    out = {**obj, "spec": spec}
    names = ("accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")
    return _assigned(_part(out, "status", _rename(*names)), write_assignment)


def _assigned(obj: Obj, write: Callable[[Any], Any]) -> Obj:
    """The Workload with the topology assignments of its pod sets written anew."""
    admission = (obj.get("status") or {}).get("admission")
    if not admission:
        return obj
    assignments = [
        {**a, "topologyAssignment": write(read_assignment(a["topologyAssignment"]))}
        if a.get("topologyAssignment")
        else a
        for a in admission.get("podSetAssignments") or ()
    ]
    admission = {**admission, "podSetAssignments": assignments}
    return {**obj, "status": {**obj["status"], "admission": admission}}


def _multi_kueue_cluster(obj: Obj) -> Obj:
    spec = spec_of(obj)
    source = {name: spec[name] for name in ("kubeConfig", "clusterProfileRef") if name in spec}
    if not (source.get("kubeConfig") or {}).get("location"):
        source.pop("kubeConfig", None)
    return {**obj, "spec": {"clusterSource": source}}


def _admission_check(obj: Obj) -> Obj:
    return _part(obj, "spec", lambda spec: spec.pop("retryDelayMinutes", None))


_TO_HUB = {
    "AdmissionCheck": _admission_check,
    "ClusterQueue": _cluster_queue,
    "Cohort": _cohort,
    "LocalQueue": _local_queue,
    "MultiKueueCluster": _multi_kueue_cluster,
    "Workload": _workload,
}

# To v1beta1


def _old_cluster_queue(obj: Obj) -> Obj:
    out = _part(obj, "spec", _rename("cohortName", "cohort"))
    return _part(out, "spec", lambda spec: spec.pop("concurrentAdmissionPolicy", None))


def _old_local_queue(obj: Obj) -> Obj:
    return _part(obj, "status", _rename("flavorsUsage", "flavorUsage"))


def _old_workload(obj: Obj) -> Obj:
    spec = dict(spec_of(obj))
    spec.pop("preemptionGates", None)
    ref = spec.pop("priorityClassRef", None) or {}
    source = _SOURCES_OF.get((ref.get("group", ""), ref.get("kind", "")))
    if source is not None:
        spec |= {"priorityClassSource": source, "priorityClassName": ref.get("name", "")}
    if any(_slices(pod_set) for pod_set in spec.get("podSets") or ()):
        spec["podSets"] = [_without_slices(pod_set) for pod_set in spec["podSets"]]
    out = _part({**obj, "spec": spec}, "status", lambda status: status.pop("preemptionGates", None))
    names = ("accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
    return _assigned(_part(out, "status", _rename(*names)), _domains)


_SLICES = "podsetSliceRequiredTopologyConstraints"


def _slices(pod_set: dict[str, Any]) -> Any:
    return (pod_set.get("topologyRequest") or {}).get(_SLICES)


def _without_slices(pod_set: dict[str, Any]) -> dict[str, Any]:
    return _part(pod_set, "topologyRequest", lambda request: request.pop(_SLICES, None))


def _domains(assignment: Any) -> dict[str, Any]:
    domains = [{"values": list(d.values), "count": d.pods} for d in assignment.domains]
    return {"levels": list(assignment.levels), "domains": domains}


def _old_multi_kueue_cluster(obj: Obj) -> Obj:
    source = spec_of(obj).get("clusterSource") or {}
    # Go has no absent struct: a profile's cluster still has an empty kubeConfig.
    return {**obj, "spec": {"kubeConfig": {"location": "", "locationType": ""}, **source}}


def _old_multi_kueue_config(obj: Obj) -> Obj:
    return _part(obj, "spec", lambda spec: spec.pop("quotaManagement", None))


_TO_OLD = {
    "ClusterQueue": _old_cluster_queue,
    "LocalQueue": _old_local_queue,
    "MultiKueueCluster": _old_multi_kueue_cluster,
    "MultiKueueConfig": _old_multi_kueue_config,
    "Workload": _old_workload,
}
