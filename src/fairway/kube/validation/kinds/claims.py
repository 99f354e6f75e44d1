"""PersistentVolumeClaims, alone and as templates.

Source: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaim… (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.kube import names, quantity
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.internals import Typed, difference
from fairway.kube.objects import Obj, spec_of, status_of
from fairway.kube.problem import Faults
from fairway.kube.resources import is_native
from fairway.kube.validation.kinds import resources, texts
from fairway.kube.validation.kinds.metadata import object_meta, object_meta_update
from fairway.kube.validation.kinds.sameness import immutable, is_same
from fairway.kube.validation.kinds.selectors import label_selector_of

Spec = Mapping[str, Any]
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_RESIZE = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_FIXED = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
# What a template's metadata may have.
_TEMPLATE_META = ("annotations", "labels")


def claim(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    claim_spec(spec_of(obj), ("spec",), out)


def claim_template(template: Spec, at: Path, out: Faults) -> None:
    meta = template.get("metadata") or {}
    texts.annotation_map(meta.get("annotations"), (*at, "metadata", "annotations"), out)
    texts.label_map(meta.get("labels"), (*at, "metadata", "labels"), out)
    for name, value in meta.items():
        if name not in _TEMPLATE_META and value not in (None, "", [], {}, 0):
            out.forbidden((*at, "metadata", name), "cannot be set")
    claim_spec(template.get("spec") or {}, (*at, "spec"), out)


def access_modes(modes: Any, at: Path, out: Faults) -> None:
    for mode in modes or ():
        if mode not in ACCESS_MODES:
            out.unsupported(at, mode, ACCESS_MODES)
    known = [mode for mode in modes or () if mode in ACCESS_MODES]
    if "ReadWriteOncePod" in known and any(mode != "ReadWriteOncePod" for mode in known):
        out.forbidden(at, "may not use ReadWriteOncePod with other access modes")


def claim_spec(spec: Spec, at: Path, out: Faults) -> None:
    if not spec.get("accessModes"):
        out.required((*at, "accessModes"), "at least 1 access mode is required")
    label_selector_of(spec.get("selector"), (*at, "selector"), out)
    access_modes(spec.get("accessModes"), (*at, "accessModes"), out)
    requests = (spec.get("resources") or {}).get("requests") or {}
    where = (*at, "resources", MapKey("storage"))
    if "storage" not in requests:
        out.required(where)
    else:
        resources.positive(requests["storage"], where, out)
    _class_name(spec.get("storageClassName"), (*at, "storageClassName"), out)
    if spec.get("volumeMode") is not None and spec["volumeMode"] not in VOLUME_MODES:
        out.unsupported((*at, "volumeMode"), spec["volumeMode"], VOLUME_MODES)
    _data_source(spec, at, out)
    _class_name(spec.get("volumeAttributesClassName"), (*at, "volumeAttributesClassName"), out)


def _class_name(name: str | None, at: Path, out: Faults) -> None:
    if name:
        texts.dns_subdomain(name, at, out)


def _data_source(spec: Spec, at: Path, out: Faults) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        _typed_reference(source, (*at, "dataSource"), out)
    if reference is not None:
        _typed_reference(reference, (*at, "dataSourceRef"), out)
        if reference.get("namespace"):
            texts.dns_label(reference["namespace"], (*at, "dataSourceRef", "namespace"), out)
    if source is None or reference is None:
        return
    # Upstream shows the path where the value belongs: an empty struct.
    if reference.get("namespace"):
        out.invalid(at, {}, "may not be specified when dataSourceRef.namespace is specified")
    elif any(source.get(name) != reference.get(name) for name in ("apiGroup", "kind", "name")):
        out.invalid(at, {}, "must match dataSourceRef")


def _typed_reference(reference: Spec, at: Path, out: Faults) -> None:
    kind, group = reference.get("kind") or "", reference.get("apiGroup") or ""
    if not reference.get("name"):
        out.required((*at, "name"))
    if not kind:
        out.required((*at, "kind"))
    if not group and kind != "PersistentVolumeClaim":
        said = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        out.invalid(at, kind, said)
    if group:
        texts.dns_subdomain(group, (*at, "apiGroup"), out)


def claim_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    claim(new, out)
    spec, before = dict(spec_of(new)), dict(spec_of(old))
    if not before.get("volumeName") and spec.get("volumeName"):
        before["volumeName"] = spec["volumeName"]
    annotations = (new["metadata"].get("annotations") or {}), (old["metadata"].get("annotations") or {})
    now, then = (found.get(_CLASS_ANNOTATION) for found in annotations)
    upgraded = (
        then is not None and before.get("storageClassName") is None and spec.get("storageClassName") == then
    )
    if upgraded and now in (None, then):
        spec.pop("storageClassName", None)
    else:
        immutable(now or "", then or "", ("metadata", "annotations", _CLASS_ANNOTATION), out)
        name = spec.get("storageClassName")
        if before.get("storageClassName") is None and name is not None and then in (None, name):
            before["storageClassName"] = name
    if status_of(new).get("phase") == "Bound":
        requests = {**((spec.get("resources") or {}).get("requests") or {})}
        requests["storage"] = ((before.get("resources") or {}).get("requests") or {}).get("storage")
        spec["resources"] = {**(spec.get("resources") or {}), "requests": requests}
        spec["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    if not is_same(spec, before):
        kind = "core.PersistentVolumeClaimSpec"
        out.forbidden(("spec",), f"{_FIXED}\n{difference(Typed(kind, before), Typed(kind, spec))}")
    _smaller(new, old, out)
    immutable(spec_of(new).get("volumeMode"), spec_of(old).get("volumeMode"), ("volumeMode",), out)
    _attributes_class(new, old, out)


def _smaller(new: Obj, old: Obj, out: Faults) -> None:
    def storage(amounts: Any) -> Any:
        return quantity.of((amounts or {}).get("storage") or "0")

    asked = storage((spec_of(new).get("resources") or {}).get("requests"))
    before = storage((spec_of(old).get("resources") or {}).get("requests"))
    if asked < before and asked <= storage(status_of(old).get("capacity")):
        at = ("spec", "resources", "requests", "storage")
        out.forbidden(at, "field can not be less than status.capacity")


def _attributes_class(new: Obj, old: Obj, out: Faults) -> None:
    now, at = spec_of(new).get("volumeAttributesClassName"), ("spec", "volumeAttributesClassName")
    if now == spec_of(old).get("volumeAttributesClassName"):
        return
    if status_of(old).get("currentVolumeAttributesClassName") is not None and not now:
        what = "nil" if now is None else "empty string"
        out.forbidden(
            at, f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
        )


def claim_status(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    status = status_of(new)
    if not spec_of(new).get("accessModes"):
        out.required(("Spec", "accessModes"))
    for name, value in (status.get("capacity") or {}).items():
        resources.basic(value, ("status", "capacity", MapKey(name)), out)
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        at = ("status", "allocatedResourceStatuses")
        _claim_resource(name, at, out)
        if state not in _RESIZE:
            out.unsupported(at, name, _RESIZE)
    for name, value in (status.get("allocatedResources") or {}).items():
        at = ("status", "allocatedResources")
        if _claim_resource(name, at, out):
            resources.basic(value, (*at, MapKey(name)), out)


def _claim_resource(name: str, at: Path, out: Faults) -> bool:
    before = len(out)
    out.invalids(at, name, names.label_key(name))
    if len(out) == before and is_native(name) and name != "storage":
        out.unsupported(at, name, ("storage",))
    return len(out) == before
