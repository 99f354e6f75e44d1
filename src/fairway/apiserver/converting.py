"""The same object in another API version.

Stored is one version of each kind. Most versions differ in name only (that is also what a
CustomResourceDefinition without conversion webhook means); HorizontalPodAutoscaler and Event differ in fields.

Source: pkg/apis/autoscaling/v1/conversion.go, pkg/apis/core/v1/conversion.go, pkg/apis/events/v1 (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.apiserver.resources import Resource
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Obj

_EVENTS_V1 = "events.k8s.io/v1"
_KUEUE = "kueue.x-k8s.io/"
_HPA_V1, _HPA_V2 = "autoscaling/v1", "autoscaling/v2"
# Kinds whose engines read every version they are written in.
_AS_WRITTEN = frozenset({"karpenter.sh"})


def converted(obj: Obj, api_version: str) -> Obj:
    """The object as that version spells it."""
    before = obj.get("apiVersion", "")
    if before == api_version:
        return obj
    if obj.get("kind") == "Event" and api_version == _EVENTS_V1:
        return _to_events(obj)
    if obj.get("kind") == "Event" and before == _EVENTS_V1:
        return _to_core(obj)
    if obj.get("kind") == "HorizontalPodAutoscaler":
        if api_version == _HPA_V1:
            return _hpa_to_v1(obj)
        if before == _HPA_V1:
            return _hpa_to_v2(obj)
    if api_version.startswith(_KUEUE):
        # Imported with the first object of Kueue's that is asked for in a version it is not stored in.
        from fairway.queueing.webhooks import conversion

        if api_version in (conversion.HUB, conversion.OLD):
            return conversion.converted(obj, api_version)
    return {**obj, "apiVersion": api_version}


def stored_version(resource: Resource) -> str:
    """The version objects of this resource are kept in."""
    if resource.crd is not None:
        kept = _kept_as(resource.crd)
        return f"{resource.group}/{resource.version if kept is None else kept['name']}"
    if resource.storage_kind:
        return "v1"
    return resource.api_version if resource.group in _AS_WRITTEN else resource.kind.api_version


def _kept_as(crd: Obj) -> Obj | None:
    return next((v for v in crd["spec"]["versions"] if v.get("storage")), None)


def for_storage(obj: Obj, resource: Resource) -> Obj:
    """As it is kept. A custom object has the defaults of the version it is kept in, whichever one it was written in."""
    found = converted(obj, stored_version(resource))
    kept = None if found is obj or resource.crd is None else _kept_as(resource.crd)
    if kept is None:
        return found
    from fairway.kube.schema.shaping import fill_defaults
    from fairway.kube.schema.structural import tree_of

    schema = tree_of(kept)
    return found if schema is None else fill_defaults(found, schema)


def _to_events(obj: Obj) -> Obj:
    """core/v1 → events.k8s.io/v1: the old fields stay, as deprecated ones."""
    out: dict[str, Any] = {
        "apiVersion": _EVENTS_V1,
        "kind": "Event",
        "metadata": obj["metadata"],
        "eventTime": obj.get("eventTime"),
        "regarding": obj.get("involvedObject") or {},
        "note": obj.get("message", ""),
        "deprecatedSource": obj.get("source") or {},
        "deprecatedFirstTimestamp": obj.get("firstTimestamp"),
        "deprecatedLastTimestamp": obj.get("lastTimestamp"),
        "deprecatedCount": obj.get("count", 0),
        "reportingController": obj.get("reportingComponent", ""),
    }
    for name in ("reason", "type", "action", "related", "series", "reportingInstance"):
        if obj.get(name):
            out[name] = obj[name]
    return out


def _to_core(obj: Obj) -> Obj:
    out: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": obj["metadata"],
        "involvedObject": obj.get("regarding") or {},
        "message": obj.get("note", ""),
        "source": obj.get("deprecatedSource") or {},
        "firstTimestamp": obj.get("deprecatedFirstTimestamp"),
        "lastTimestamp": obj.get("deprecatedLastTimestamp"),
        "eventTime": obj.get("eventTime"),
        "reportingComponent": obj.get("reportingController", ""),
        "reportingInstance": obj.get("reportingInstance", ""),
    }
    if obj.get("deprecatedCount"):
        out["count"] = obj["deprecatedCount"]
    for name in ("reason", "type", "action", "related", "series"):
        if obj.get(name):
            out[name] = obj[name]
    return out


def _hpa_to_v1(obj: Obj) -> Obj:
    """One CPU utilisation target becomes its field; other metrics travel in an annotation in kube, here not."""
    spec = dict(obj.get("spec") or {})
    for metric in spec.pop("metrics", None) or ():
        resource = metric.get("resource") or {}
        target = (resource.get("target") or {}).get("averageUtilization")
        if metric.get("type") == "Resource" and resource.get("name") == "cpu" and target is not None:
            spec["targetCPUUtilizationPercentage"] = target
    spec.pop("behavior", None)
    out = {**obj, "apiVersion": _HPA_V1, "spec": spec}
    status = obj.get("status")
    if status:
        kept = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
        out["status"] = {k: v for k, v in status.items() if k in kept}
    return out


def _hpa_to_v2(obj: Obj) -> Obj:
    spec = dict(obj.get("spec") or {})
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    if percentage is not None:
        target = {"type": "Utilization", "averageUtilization": percentage}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    return apply_defaults({**obj, "apiVersion": _HPA_V2, "spec": spec})
