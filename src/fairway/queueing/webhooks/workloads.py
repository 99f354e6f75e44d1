"""What does the webhook of Workload refuse, new and changed?

Source: pkg/webhooks/workload_webhook.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import quantity
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, annotations_of, spec_of, status_of
from fairway.kube.resources import CPU
from fairway.queueing.facts import conditions as conds
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault
from fairway.queueing.webhooks.flavors import label_faults, toleration_faults
from fairway.queueing.webhooks.gatedby import gated_by_faults
from fairway.queueing.webhooks.metadata import annotation_faults
from fairway.queueing.webhooks.quotas import negative_faults
from fairway.queueing.webhooks.settings import Settings

_POD_SETS: Path = ("spec", "podSets")
_ADMISSION: Path = ("status", "admission")
_BOOST = "kueue.x-k8s.io/priority-boost"
_ELASTIC = "kueue.x-k8s.io/elastic-job"
_REPLACEMENT_FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
_RESERVED_KEY = "the key is reserved for internal kueue use"


def workload_faults(workload: Obj, old: Obj | None, settings: Settings) -> list[Fault]:
    out = _spec_faults(workload, settings) + _status_faults(workload, old, settings)
    if settings.is_on("AdmissionGatedBy"):
        out += gated_by_faults(workload)
    if settings.is_on("PriorityBoost"):
        out += _boost_faults(workload)
    return out if old is None else out + _update_faults(workload, old, settings)


def is_reserved(workload: Obj) -> bool:
    return conds.is_true(status_of(workload), conds.QUOTA_RESERVED)


def is_elastic(obj: Obj, settings: Settings) -> bool:
    """Workload slicing is on for this job or workload."""
    return settings.is_on("ElasticJobsViaWorkloadSlices") and annotations_of(obj).get(_ELASTIC) == "true"


def _spec_faults(workload: Obj, settings: Settings) -> list[Fault]:
    pod_sets = spec_of(workload).get("podSets") or ()
    out: list[Fault] = []
    for i, pod_set in enumerate(pod_sets):
        out += _pod_set_faults(pod_set, (*_POD_SETS, i), settings)
    variable = sum(p.get("minCount") is not None for p in pod_sets)
    if variable > 1:
        out.append(f.invalid(_POD_SETS, variable, "at most one podSet can use minCount"))
    if variable and is_elastic(workload, settings):
        why = "partial admission and elastic job cannot be used together"
        out.append(f.invalid(_POD_SETS, variable, why))
    return out


def _pod_set_faults(pod_set: Obj, path: Path, settings: Settings) -> list[Fault]:
    template = pod_set.get("template") or {}
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    out: list[Fault] = []
    at: Path = (*path, "template")
    if settings.is_on("WorkloadValidationForPodSetMetadata"):
        out += label_faults(meta.get("labels"), (*at, "metadata", "labels"))
        out += annotation_faults(meta.get("annotations"), (*at, "metadata", "annotations"))
    places: list[tuple[Path, Mapping[str, Any]]] = [
        ((*at, "spec", kind, i, "resources"), container.get("resources") or {})
        for kind in ("initContainers", "containers")
        for i, container in enumerate(spec.get(kind) or ())
    ]
    places.append(((*at, "spec", "resources"), spec.get("resources") or {}))
    for place, resources in places:
        for part in ("requests", "limits"):
            out += _resource_faults(resources.get(part) or {}, (*place, part), settings)
    if settings.is_on("TASValidateWorkloadSliceSize"):
        out += _slice_faults(pod_set.get("topologyRequest"), (*path, "topologyRequest"))
    return out


def _resource_faults(resources: Mapping[str, Any], path: Path, settings: Settings) -> list[Fault]:
    out: list[Fault] = []
    for name, value in resources.items():
        at = f.at_key(path, name)
        if name == "pods":
            out.append(f.invalid(at, "pods", _RESERVED_KEY))
        if settings.is_on("WorkloadValidateResourcesAreNonNegative"):
            out += negative_faults(value, at)
    return out


def _slice_faults(request: Mapping[str, Any] | None, path: Path) -> list[Fault]:
    request = request or {}
    topology, size = request.get("podSetSliceRequiredTopology"), request.get("podSetSliceSize")
    out = []
    at: Path = (*path, "podSetSliceSize")
    if topology is not None and size is None:
        out.append(f.required(at, "must be set when podSetSliceRequiredTopology is specified"))
    elif topology is not None and size is not None and size <= 0:
        out.append(f.invalid(at, size, "must be greater than 0"))
    elif topology is None and size is not None:
        out.append(f.forbidden(at, "may not be set when podSetSliceRequiredTopology is not specified"))
    for i, layer in enumerate(request.get("podsetSliceRequiredTopologyConstraints") or ()):
        if layer.get("size", 0) <= 0:
            here: Path = (*path, "podsetSliceRequiredTopologyConstraints", i, "size")
            out.append(f.invalid(here, layer.get("size", 0), "must be greater than 0"))
    return out


def _status_faults(workload: Obj, old: Obj | None, settings: Settings) -> list[Fault]:
    status = status_of(workload)
    out: list[Fault] = []
    if is_reserved(workload):
        out += _admission_faults(workload, old)
    out += _reclaimable_faults(workload, old, settings)
    names = [p.get("name", "main") for p in spec_of(workload).get("podSets") or ()]
    for i, check in enumerate(status.get("admissionChecks") or ()):
        path: Path = ("status", "admissionChecks", i, "podSetUpdates")
        for j, update in enumerate(check.get("podSetUpdates") or ()):
            out += _pod_set_update_faults(update, names, (*path, j))
    return out


def _pod_set_update_faults(update: Obj, names: Sequence[str], path: Path) -> list[Fault]:
    out: list[Fault] = []
    if update.get("name") not in names:
        out.append(f.unsupported((*path, "name"), update.get("name"), sorted(names)))
    out += toleration_faults(update.get("tolerations") or (), (*path, "tolerations"))
    out += annotation_faults(update.get("annotations"), (*path, "annotations"))
    out += label_faults(update.get("nodeSelector"), (*path, "nodeSelector"))
    return out + label_faults(update.get("labels"), (*path, "labels"))


def _lacks_admission(workload: Obj | None) -> bool:
    return workload is not None and is_reserved(workload) and status_of(workload).get("admission") is None


def _admission_faults(workload: Obj, old: Obj | None) -> list[Fault]:
    admission = status_of(workload).get("admission")
    if admission is None:
        why = "must be set while the QuotaReserved condition is true"
        return [] if _lacks_admission(old) else [f.required(_ADMISSION, why)]
    names = {p.get("name", "main") for p in spec_of(workload).get("podSets") or ()}
    out = []
    for i, assignment in enumerate(admission.get("podSetAssignments") or ()):
        path: Path = (*_ADMISSION, "podSetAssignments", i)
        name = assignment.get("name", "main")
        if name not in names:
            out.append(f.not_found((*path, "name"), name))
        # Of no pods, or who knows how many, any amount will do.
        count = assignment.get("count") or 1
        for resource, amount in (assignment.get("resourceUsage") or {}).items():
            if _amount(resource, amount) % count:
                at = f.at_key((*path, "resourceUsage"), resource)
                out.append(f.invalid(at, quantity.canonical(amount), f"is not a multiple of {count}"))
    return out


def _amount(resource: str, value: Any) -> int:
    return quantity.milli_ceil(value) if resource == CPU else quantity.whole_ceil(value)


def _reclaimable_faults(workload: Obj, old: Obj | None, settings: Settings) -> list[Fault]:
    counts = {p.get("name", "main"): p.get("count", 1) for p in spec_of(workload).get("podSets") or ()}
    was = status_of(old).get("reclaimablePods") or () if old is not None else ()
    out = []
    for entry in status_of(workload).get("reclaimablePods") or ():
        name, count = entry.get("name", ""), entry.get("count", 0)
        path = f.at_key(("status", "reclaimablePods"), name)
        if name not in counts:
            out.append(f.unsupported((*path, "name"), name, counts))
        elif count > counts[name]:
            is_stale = is_elastic(workload, settings) and any(
                o.get("name") == name and o.get("count") == count for o in was
            )
            if not is_stale:
                out.append(f.invalid((*path, "count"), count, f"should be less or equal to {counts[name]}"))
    return out


def _boost_faults(workload: Obj) -> list[Fault]:
    value = annotations_of(workload).get(_BOOST)
    path = f.at_key(("metadata", "annotations"), _BOOST)
    if value == "":
        why = 'must be a valid signed integer; use "0" explicitly, empty string is not allowed'
        return [f.invalid(path, value, why)]
    if value is not None and not re.fullmatch(r"[+-]?\d+", value, re.ASCII):
        return [f.invalid(path, value, "must be a valid signed integer")]
    return []


def _update_faults(new: Obj, old: Obj, settings: Settings) -> list[Fault]:
    out: list[Fault] = []
    if is_reserved(old):
        out += _pod_sets_stay(new, old, settings)
    if is_reserved(new) and is_reserved(old):
        out += _reclaimable_grows(new, old, settings)
    out += _admission_stays(status_of(new).get("admission"), status_of(old).get("admission"), settings)
    out += _ready_checks_stay(new, old)
    out += _cluster_was_nominated(new, old, settings)
    if settings.is_on("AdmissionGatedBy"):
        out += gated_by_faults(new, old)
    return out


def _pod_sets_stay(new: Obj, old: Obj, settings: Settings) -> list[Fault]:
    now, was = spec_of(new).get("podSets") or [], spec_of(old).get("podSets") or []
    if len(now) != len(was):
        return [f.invalid(_POD_SETS, now, f.IMMUTABLE)]
    out: list[Fault] = []
    may_shrink = settings.is_on("ElasticJobsViaWorkloadSlices")
    for i, both in enumerate(zip(now, was, strict=True)):
        a, b = ({**pod_set, "count": pod_set.get("count", 1)} for pod_set in both)
        if may_shrink and a["count"] < b["count"]:
            a["count"] = b["count"]
        # Kueue writes the index as a field here: `spec.podSets.0`.
        out += f.immutable((*_POD_SETS, str(i)), a, b)
    return out


def _reclaimable_grows(new: Obj, old: Obj, settings: Settings) -> list[Fault]:
    was = {e.get("name", ""): e.get("count", 0) for e in status_of(old).get("reclaimablePods") or ()}
    now = {e.get("name", ""): e.get("count", 0) for e in status_of(new).get("reclaimablePods") or ()}
    shrunk = _shrunk_pod_sets(new) if is_elastic(new, settings) else frozenset()
    out = []
    for name, count in now.items():
        if name in was and count < was[name] and name not in shrunk:
            path = f.at_key(("status", "reclaimablePods"), name)
            out.append(f.invalid((*path, "count"), count, f"cannot be less than {was[name]}"))
    gone = [name for name in was if name not in now and name not in shrunk]
    return out + [f.required(f.at_key(("status", "reclaimablePods"), n), "cannot be removed") for n in gone]


def _shrunk_pod_sets(workload: Obj) -> frozenset[str]:
    counts = {p.get("name", "main"): p.get("count", 1) for p in spec_of(workload).get("podSets") or ()}
    admission = status_of(workload).get("admission") or {}
    return frozenset(
        a.get("name", "main")
        for a in admission.get("podSetAssignments") or ()
        if (a.get("count") or 0) > counts.get(a.get("name", "main"), 0)
    )


def _admission_stays(new: Obj | None, old: Obj | None, settings: Settings) -> list[Fault]:
    """It may be set and unset; while it stands only the topology may change."""
    if new is None or old is None or new == old:
        return []
    if settings.is_on("TopologyAwareScheduling"):
        now, was = _without_topology(new), _without_topology(old)
        if now == was:
            return []
    return [f.invalid(_ADMISSION, new, f.IMMUTABLE)]


def _without_topology(admission: Obj) -> Obj:
    gone = ("topologyAssignment", "delayedTopologyRequest")
    assignments = admission.get("podSetAssignments") or ()
    bare = [{k: v for k, v in a.items() if k not in gone} for a in assignments]
    return {**admission, "podSetAssignments": bare}


def _ready_checks_stay(new: Obj, old: Obj) -> list[Fault]:
    now = {c.get("name"): c for c in status_of(new).get("admissionChecks") or ()}
    out: list[Fault] = []
    for i, was in enumerate(status_of(old).get("admissionChecks") or ()):
        check = now.get(was.get("name"))
        if check is not None and check.get("state") == was.get("state") == "Ready":
            path: Path = ("status", "admissionChecks", i, "podSetUpdates")
            out += f.immutable(path, check.get("podSetUpdates"), was.get("podSetUpdates"))
    return out


def _cluster_was_nominated(new: Obj, old: Obj, settings: Settings) -> list[Fault]:
    if settings.is_on("ElasticJobsViaWorkloadSlices") and annotations_of(new).get(_REPLACEMENT_FOR):
        return []
    name = status_of(new).get("clusterName")
    if name is None or status_of(old).get("clusterName") is not None:
        return []
    if name in (status_of(old).get("nominatedClusterNames") or ()):
        return []
    why = "when setting clusterName it must be one of the nominatedClusterNames"
    return [f.invalid(("status", "clusterName"), name, why)]
