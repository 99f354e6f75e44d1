"""Which part of an object may be changed by way of a subresource? Everything else stays as it was.

Source: pkg/registry/core/pod/strategy.go dropNonEphemeralContainerUpdates, dropNonResizeUpdates;
apimachinery metav1.ResetObjectMetaForStatus (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Obj, spec_of

PARTS = ("status", "approval", "ephemeralcontainers", "resize")


def narrowed(part: str, old: Obj, new: Obj) -> Obj:
    """The old object with the new one's part, and with its word on who owns which field."""
    meta = dict(old["metadata"])
    if "managedFields" in (new.get("metadata") or {}):
        meta["managedFields"] = new["metadata"]["managedFields"]
    out = {**old, "metadata": meta}
    if part == "ephemeralcontainers":
        out["spec"] = _with(old["spec"], "ephemeralContainers", spec_of(new).get("ephemeralContainers"))
    elif part == "resize":
        out["spec"] = _resized(old["spec"], spec_of(new))
    elif "status" in new:
        out["status"] = new["status"]
    else:
        out.pop("status", None)
    return out


def _resized(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Its containers with their new resources. Where containers are not the same, validation says so."""
    out = _with(old, "resources", new.get("resources"))
    for field in ("containers", "initContainers"):
        before, after = old.get(field) or [], new.get(field) or []
        if [c.get("name") for c in before] != [c.get("name") for c in after]:
            return new
        if before:
            pairs = zip(before, after, strict=True)
            out[field] = [
                _with(_with(b, "resources", a.get("resources")), "resizePolicy", a.get("resizePolicy"))
                for b, a in pairs
            ]
    return out


def _with(mapping: dict[str, Any], field: str, value: Any) -> dict[str, Any]:
    """With a field as given, or without it. The same mapping where it has it that way."""
    if mapping.get(field) == value:
        return dict(mapping)
    out = {name: member for name, member in mapping.items() if name != field}
    return out if value is None else {**out, field: value}
