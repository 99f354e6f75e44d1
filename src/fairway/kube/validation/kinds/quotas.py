"""LimitRanges and ResourceQuotas.

Source: pkg/apis/core/validation/validation.go ValidateLimitRange, ValidateResourceQuota (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names, quantity
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.internals import Typed
from fairway.kube.objects import Obj, spec_of, status_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import resources
from fairway.kube.validation.kinds.metadata import object_meta, object_meta_update

Part = Mapping[str, Any]
_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_OF_PODS = "may not be specified when `type` is 'Pod'"
_COMPUTE = frozenset(
    ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory", "pods")
)
_SCOPED = {
    "BestEffort": frozenset(("pods",)),
    "VolumeAttributesClass": frozenset(("persistentvolumeclaims", "requests.storage")),
    **dict.fromkeys(
        ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"),
        _COMPUTE,
    ),
}
_EXISTING = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_PAIRS = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def limit_range(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    seen = set()
    for index, limit in enumerate(spec_of(obj).get("limits") or ()):
        at, kind = ("spec", "limits", index), limit.get("type") or ""
        complaints = names.label_key(kind)
        out.invalids((*at, "type"), kind, complaints)
        if not complaints and "/" not in kind and kind not in _TYPES:
            out.invalid((*at, "type"), kind, "must be a standard limit type or fully qualified")
        if kind in seen:
            out.duplicate((*at, "type"), kind)
        seen.add(kind)
        _limit(limit, kind, at, out)


def _limit(limit: Part, kind: str, at: Path, out: Faults) -> None:
    sides = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
    if kind == "Pod":
        for side in ("default", "defaultRequest"):
            sides.remove(side)
    for side in sides[:-1]:
        _names(limit, side, kind, at, out)
    if kind == "Pod":
        for side in ("default", "defaultRequest"):
            if limit.get(side):
                out.forbidden((*at, side), _OF_PODS)
    if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(s) or {}) for s in ("min", "max")):
        said = "either minimum or maximum storage value is required, but neither was provided"
        out.required((*at, "limits"), said)
    _names(limit, sides[-1], kind, at, out)
    amounts = {side: limit.get(side) or {} for side in sides}
    for name in dict.fromkeys(name for side in sides for name in amounts[side]):
        _order(name, {side: found[name] for side, found in amounts.items() if name in found}, at, out)


def _names(limit: Part, side: str, kind: str, at: Path, out: Faults) -> None:
    complaints = resources.container_complaints if kind in ("Pod", "Container") else resources.name_complaints
    for name in limit.get(side) or ():
        out.invalids((*at, side, MapKey(name)), name, complaints(name))


def _order(name: str, found: dict[str, Any], at: Path, out: Faults) -> None:
    values = {side: quantity.of(value) for side, value in found.items()}
    shown = {side: quantity.canonical(value) for side, value in found.items()}

    def above(low: str, high: str) -> bool:
        return low in values and high in values and values[low] > values[high]

    def said(side: str, value: str, text: str) -> None:
        out.invalid((*at, side, MapKey(name)), shown[value], text)

    if above("min", "max"):
        said("min", "min", f"min value {shown['min']} is greater than max value {shown['max']}")
    if above("min", "defaultRequest"):
        text = f"min value {shown['min']} is greater than default request value {shown['defaultRequest']}"
        said("defaultRequest", "defaultRequest", text)
    if above("defaultRequest", "max"):
        text = f"default request value {shown['defaultRequest']} is greater than max value {shown['max']}"
        said("defaultRequest", "defaultRequest", text)
    if above("defaultRequest", "default"):
        text = f"default request value {shown['defaultRequest']} is greater than default limit value {shown['default']}"
        said("defaultRequest", "defaultRequest", text)
    if above("min", "default"):
        said("default", "min", f"min value {shown['min']} is greater than default value {shown['default']}")
    if above("default", "max"):
        said("default", "max", f"default value {shown['default']} is greater than max value {shown['max']}")
    _ratio(name, values, shown, at, out)
    fixed, asked = values.get("default"), values.get("defaultRequest")
    if fixed is not None and asked is not None and fixed != asked and not resources.is_overcommittable(name):
        equal = f"must equal to defaultRequest value {shown['defaultRequest']} in {name}"
        said("defaultRequest", "defaultRequest", f"default value {shown['default']} {equal}")


def _ratio(name: str, values: dict[str, Any], shown: dict[str, str], at: Path, out: Faults) -> None:
    ratio = values.get("maxLimitRequestRatio")
    if ratio is None:
        return
    where, text = (*at, "maxLimitRequestRatio", MapKey(name)), shown["maxLimitRequestRatio"]
    if ratio < 1:
        out.invalid(where, text, f"ratio {text} is less than 1")
    if values.get("min") and "max" in values and ratio > values["max"] / values["min"]:
        out.invalid(
            where, text, f"ratio {text} is greater than max/min = {float(values['max'] / values['min']):f}"
        )


def resource_quota(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    _quota_spec(spec_of(obj), out)


def _quota_spec(spec: Part, out: Faults) -> None:
    _amounts(spec.get("hard"), ("spec", "hard"), out)
    _scopes(spec, spec.get("scopes") or (), ("spec", "scopes"), out)
    if spec.get("scopeSelector") is not None:
        _scope_selector(spec, ("spec", "scopeSelector", "matchExpressions"), out)


def _amounts(found: Mapping[str, Any] | None, at: Path, out: Faults) -> None:
    for name, value in (found or {}).items():
        where = (*at, MapKey(name))
        out.invalids(where, name, resources.name_complaints(name))
        if "/" not in name and not resources.is_quota_name(name):
            out.invalid(where, name, "must be a standard resource for quota")
        resources.quantity_of(name, value, where, out)


def _misapplied(scope: str, hard: Mapping[str, Any] | None) -> int:
    allowed = _SCOPED.get(scope)
    return sum(
        allowed is not None and resources.is_quota_name(n) and n not in allowed for n in sorted(hard or ())
    )


def _scopes(spec: Part, scopes: Sequence[str], at: Path, out: Faults) -> None:
    for scope in scopes:
        if scope not in _SCOPED:
            out.invalid(at, scopes, "unsupported scope")
        for _ in range(_misapplied(scope, spec.get("hard"))):
            out.invalid(at, scopes, "unsupported scope applied to resource")
    _conflicts(scopes, scopes, at, out)


def _conflicts(found: Sequence[str], shown: Any, at: Path, out: Faults) -> None:
    for pair in _PAIRS:
        if set(pair) <= set(found):
            out.invalid(at, shown, "conflicting scopes")


def _scope_selector(spec: Part, at: Path, out: Faults) -> None:
    found = []
    for requirement in spec["scopeSelector"].get("matchExpressions") or ():
        scope, operator = requirement.get("scopeName") or "", requirement.get("operator") or ""
        values = requirement.get("values") or ()
        if scope not in _SCOPED:
            out.invalid((*at, "scopeName"), scope, "unsupported scope")
        for _ in range(_misapplied(scope, spec.get("hard"))):
            shown = Typed("core.ScopeSelector", spec["scopeSelector"])
            out.invalid(at, shown, "unsupported scope applied to resource")
        if scope in _EXISTING and operator != "Exists":
            out.invalid((*at, "operator"), operator, _EXISTS)
        if operator in ("In", "NotIn"):
            if not values:
                said = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                out.required((*at, "values"), said)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                said = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                out.invalid((*at, "values"), values, said)
        else:
            out.invalid((*at, "operator"), operator, "not a valid selector operator")
        found.append(scope)
    _conflicts(found, spec.get("scopes"), at, out)


def resource_quota_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    _quota_spec(spec_of(new), out)
    scopes = spec_of(new).get("scopes")
    if set(scopes or ()) != set(spec_of(old).get("scopes") or ()):
        out.invalid(("spec", "scopes"), scopes, "field is immutable")


def resource_quota_status(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    for side in ("hard", "used"):
        _amounts(status_of(new).get(side), ("status", side), out)
