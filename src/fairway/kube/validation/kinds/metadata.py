"""An object's metadata: names per kind, labels, annotations, owners, finalizers, and what an update may change.

Source: apimachinery pkg/api/validation/objectmeta.go; pkg/apis/core/validation ValidateObjectMeta (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.internals import Typed
from fairway.kube.names import Complaints
from fairway.kube.objects import Obj
from fairway.kube.problem import Faults, quoted
from fairway.kube.validation.kinds import texts
from fairway.kube.validation.kinds.sameness import immutable

NameRule = Callable[[str], Complaints]
_AT: Path = ("metadata",)
_KUBE_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def object_meta(
    obj: Obj,
    out: Faults,
    *,
    namespaced: bool = True,
    rule: NameRule = names.dns_subdomain,
    core: bool = False,
) -> None:
    """`core`: kinds of the core group ask for known finalizers."""
    meta = obj.get("metadata") or {}
    prefix, name = meta.get("generateName") or "", meta.get("name") or ""
    if prefix:
        out.invalids((*_AT, "generateName"), prefix, rule(names.mask_trailing_dash(prefix)))
    if name:
        out.invalids((*_AT, "name"), name, rule(name))
    elif not prefix:
        out.required((*_AT, "name"), "name or generateName is required")
    if namespaced and meta.get("namespace"):
        out.invalids((*_AT, "namespace"), meta["namespace"], names.dns_label(meta["namespace"]))
    out.negative((*_AT, "generation"), meta.get("generation"))
    texts.label_map(meta.get("labels"), (*_AT, "labels"), out)
    texts.annotation_map(meta.get("annotations"), (*_AT, "annotations"), out)
    _owners(meta.get("ownerReferences") or (), (*_AT, "ownerReferences"), out)
    _finalizers(meta.get("finalizers") or (), (*_AT, "finalizers"), out)
    if core:
        known_finalizers(meta.get("finalizers") or (), (*_AT, "finalizers"), out)


def object_meta_update(new: Obj, old: Obj, out: Faults, *, core: bool = False) -> None:
    meta, before = new.get("metadata") or {}, old.get("metadata") or {}
    finalizers = meta.get("finalizers") or ()
    if before.get("deletionTimestamp"):
        added = sorted(set(finalizers) - set(before.get("finalizers") or ()))
        if added:
            listed = "[]string{" + ", ".join(quoted(name) for name in added) + "}"
            said = f"no new finalizers can be added if the object is being deleted, found new finalizers {listed}"
            out.forbidden((*_AT, "finalizers"), said)
    if (meta.get("generation") or 0) < (before.get("generation") or 0):
        out.invalid((*_AT, "generation"), meta.get("generation") or 0, "must not be decremented")
    for name in _FIXED:
        immutable(meta.get(name), before.get(name), (*_AT, name), out)
    texts.label_map(meta.get("labels"), (*_AT, "labels"), out)
    texts.annotation_map(meta.get("annotations"), (*_AT, "annotations"), out)
    _owners(meta.get("ownerReferences") or (), (*_AT, "ownerReferences"), out)
    if core:
        known_finalizers(finalizers, (*_AT, "finalizers"), out)


def common_fields(new: Obj, old: Obj, out: Faults, *, namespaced: bool) -> None:
    """What every update is asked before its kind's own rules, which ask again. Source: rest.validateCommonFields."""
    object_meta(new, out, namespaced=namespaced, rule=names.path_segment)
    object_meta_update(new, old, out)


def known_finalizers(finalizers: Sequence[str], at: Path, out: Faults) -> None:
    for index, name in enumerate(finalizers):
        known_finalizer(name, (*at, index), out)


def known_finalizer(name: str, at: Path, out: Faults) -> None:
    if "/" not in name and name not in _KUBE_FINALIZERS:
        out.invalid(at, name, "name is neither a standard finalizer name nor is it fully qualified")


def _owners(owners: Sequence[Mapping[str, Any]], at: Path, out: Faults) -> None:
    controller = ""
    for owner in owners:
        version = (owner.get("apiVersion") or "").rpartition("/")[2]
        if not version:
            out.invalid((*at, "apiVersion"), owner.get("apiVersion") or "", "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                out.invalid((*at, name), "", "must not be empty")
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            shown = Typed("meta.OwnerReference", owner)
            out.invalid(at, shown, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            this = f"{owner.get('kind') or ''}/{owner.get('name') or ''}"
            if controller:
                found = f'Found "true" in references for {controller} and {this}'
                said = f"Only one reference can have Controller set to true. {found}"
                out.invalid(at, Typed("[]meta.OwnerReference", owners), said)
            else:
                controller = this


def _finalizers(finalizers: Sequence[str], at: Path, out: Faults) -> None:
    for name in finalizers:
        out.invalids(at, name, names.label_key(name))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        out.invalid(at, list(finalizers), "finalizer orphan and foregroundDeletion cannot be both set")
