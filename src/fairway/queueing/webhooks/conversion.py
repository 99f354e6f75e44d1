"""What a v1beta1 object of Kueue's says in v1beta2, the version that is stored.

Source: apis/kueue/v1beta1/*_conversion.go.
"""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Obj, spec_of
from fairway.queueing.webhooks.tables import GROUP

HUB = f"{GROUP}/v1beta2"
OLD = f"{GROUP}/v1beta1"
# priorityClassSource of v1beta1 → group and kind of v1beta2.
_PRIORITY_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}


def converted(obj: Obj) -> Obj:
    """The object in v1beta2; one that is already, or that is not Kueue's, unchanged."""
    if obj.get("apiVersion") != OLD:
        return obj
    out = {**obj, "apiVersion": HUB}
    convert = _BY_KIND.get(str(obj.get("kind")))
    return convert(out) if convert is not None else out


def _cluster_queue(obj: Obj) -> Obj:
    spec = dict(spec_of(obj))
    _rename(spec, "cohort", "cohortName")
    checks = spec.pop("admissionChecks", None)
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    fungibility = spec.get("flavorFungibility")
    if fungibility:
        gone = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
        spec["flavorFungibility"] = {k: gone.get(v, v) for k, v in fungibility.items()}
    return {**obj, "spec": spec}


def _cohort(obj: Obj) -> Obj:
    """`parent` is how v1alpha1 called it; v1beta1 says parentName as v1beta2 does."""
    spec = dict(spec_of(obj))
    _rename(spec, "parent", "parentName")
    return {**obj, "spec": spec}


def _local_queue(obj: Obj) -> Obj:
    status = obj.get("status")
    if not status or "flavorUsage" not in status:
        return obj
    status = dict(status)
    _rename(status, "flavorUsage", "flavorsUsage")
    status.pop("flavors", None)
    return {**obj, "status": status}


def _workload(obj: Obj) -> Obj:
    spec = dict(spec_of(obj))
    source = spec.pop("priorityClassSource", None)
    name = spec.pop("priorityClassName", None)
    if source in _PRIORITY_SOURCES:
        group, kind = _PRIORITY_SOURCES[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name or ""}
    out = {**obj, "spec": spec}
    status = obj.get("status")
    if status and "accumulatedPastExexcutionTimeSeconds" in status:
        status = dict(status)
        _rename(status, "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")
        out["status"] = status
    return out


def _multi_kueue_cluster(obj: Obj) -> Obj:
    spec = dict(spec_of(obj))
    source = {name: spec.pop(name) for name in ("kubeConfig", "clusterProfileRef") if name in spec}
    if not (source.get("kubeConfig") or {}).get("location"):
        source.pop("kubeConfig", None)
    return {**obj, "spec": {**spec, "clusterSource": source}}


def _admission_check(obj: Obj) -> Obj:
    return {**obj, "spec": {k: v for k, v in spec_of(obj).items() if k != "retryDelayMinutes"}}


def _rename(spec: dict[str, Any], old: str, new: str) -> None:
    if old in spec:
        spec[new] = spec.pop(old)


_BY_KIND = {
    "AdmissionCheck": _admission_check,
    "ClusterQueue": _cluster_queue,
    "Cohort": _cohort,
    "LocalQueue": _local_queue,
    "MultiKueueCluster": _multi_kueue_cluster,
    "Workload": _workload,
}
