"""Nodes, namespaces and service accounts.

Source: pkg/apis/core/validation/validation.go ValidateNode, ValidateNodeUpdate, ValidateNamespace… (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.internals import Typed
from fairway.kube.objects import Obj, meta_of, spec_of, status_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import resources, scheduling, texts
from fairway.kube.validation.kinds.metadata import known_finalizer, object_meta, object_meta_update

Part = Mapping[str, Any]
_FEATURE = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_FEATURE_TEXT = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_CIDR_FIXED = 'node updates may not change podCIDR except from "" to valid'


def node(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False, core=True)
    spec, status = spec_of(obj), status_of(obj)
    _taints(spec.get("taints") or (), ("metadata", "taints"), out)
    _amounts(status, out)
    capacity = ((status.get("nodeInfo") or {}).get("swap") or {}).get("capacity")
    if capacity is not None and capacity <= 0:
        out.invalid(("metadata", "nodeSwapStatus", "capacity"), capacity, "must be greater than zero")
    _features(status.get("declaredFeatures") or (), out)
    cidrs = spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
    at = ("spec", "podCIDRs")
    for index, cidr in enumerate(cidrs):
        texts.network(cidr, (*at, index), out)
    if len(cidrs) > 1 and not texts.is_one_of_each_family(cidrs):
        out.invalid(at, cidrs, "may specify no more than one CIDR for each IP family")


def _taints(taints: Sequence[Part], at: Path, out: Faults) -> None:
    """Upstream looks for them below the metadata."""
    seen = set()
    for index, taint in enumerate(taints):
        where, key = (*at, index), taint.get("key") or ""
        value, effect = taint.get("value") or "", taint.get("effect") or ""
        texts.qualified_name(key, (*where, "key"), out)
        complaints = names.label_value(value)
        if complaints:
            out.invalid((*where, "value"), value, ";".join(complaints))
        scheduling.taint_effect(effect, (*where, "effect"), out)
        if (key, effect) in seen:
            out.duplicate(where, Typed("core.Taint", taint), "taints must be unique by key and effect pair")
        seen.add((key, effect))


def _amounts(status: Part, out: Faults) -> None:
    for side in ("capacity", "allocatable"):
        for name, value in (status.get(side) or {}).items():
            resources.quantity_of(name, value, ("status", side, name), out)


def _features(features: Sequence[str], out: Faults) -> None:
    at = ("status", "declaredFeatures")
    for index, feature in enumerate(features):
        if len(feature) > 253:
            said = f'invalid feature name "{feature}": must be no more than 253 characters'
            out.invalid((*at, index), feature, said)
        elif not _FEATURE.fullmatch(feature):
            out.invalid((*at, index), feature, f'invalid feature name "{feature}": {_FEATURE_TEXT}')
        following = features[index + 1] if index + 1 < len(features) else None
        if following == feature:
            out.duplicate((*at, index + 1), following)
        elif following is not None and feature > following:
            out.invalid((*at, index + 1), following, "list must be sorted alphabetically")


def node_update(new: Obj, old: Obj, out: Faults) -> None:
    """Of its status, too."""
    object_meta_update(new, old, out, core=True)
    spec, before, status = spec_of(new), spec_of(old), status_of(new)
    _amounts(status, out)
    _features(status.get("declaredFeatures") or (), out)
    seen: list[Part] = []
    for index, address in enumerate(status.get("addresses") or ()):
        if address in seen:
            out.duplicate(("status", "addresses", index), Typed("core.NodeAddress", address))
        seen.append(address)
    _fixed_cidrs(spec, before, out)
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        said = 'node updates may not change providerID except from "" to valid'
        out.forbidden(("spec", "providerID"), said)
    _taints(spec.get("taints") or (), ("metadata", "taints"), out)
    if (spec.get("externalID") or "") != (before.get("externalID") or ""):
        out.forbidden(("spec", "externalID"), "may not be updated")


def _fixed_cidrs(spec: Part, before: Part, out: Faults) -> None:
    now, then = spec.get("podCIDRs") or [], before.get("podCIDRs") or []
    if then and len(now) != len(then):
        out.forbidden(("spec", "podCIDRs"), _CIDR_FIXED)
    elif then:
        for one, other in zip(now, then, strict=True):
            if one != other:
                out.forbidden(("spec", "podCIDRs"), _CIDR_FIXED)


def namespace(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False, rule=names.dns_label, core=True)
    for name in spec_of(obj).get("finalizers") or ():
        out.invalids(("spec", "finalizers"), name, names.label_key(name))
        known_finalizer(name, ("spec", "finalizers"), out)


def namespace_status(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    phase, at = status_of(new).get("phase") or "", ("status", "Phase")
    if meta_of(new).get("deletionTimestamp"):
        if phase != "Terminating":
            out.invalid(at, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
    elif phase != "Active":
        out.invalid(at, phase, "may only be 'Active' if `deletionTimestamp` is empty")


def namespace_finalize(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    for index, name in enumerate(spec_of(new).get("finalizers") or ()):
        at = ("spec", "finalizers", index)
        out.invalids(at, name, names.label_key(name))
        known_finalizer(name, at, out)


def plain(obj: Obj, out: Faults) -> None:
    """Kinds of a namespace whose metadata is all that is looked at."""
    object_meta(obj, out, core=True)


def plain_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)


def named_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    object_meta(new, out, core=True)
