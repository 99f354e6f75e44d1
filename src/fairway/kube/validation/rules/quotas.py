"""ResourceQuota and LimitRange.

Source: pkg/apis/core/validation/validation.go ValidateResourceQuotaSpec, ValidateLimitRange (v1.36).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fairway.kube import names, quantity
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.validation.context import Context
from fairway.kube.validation.problem import Problem, duplicate, forbidden, invalid, invalids, required
from fairway.kube.validation.rules.resources import (
    QUOTA_NAMES,
    check_amount,
    container_resource_complaints,
    is_overcommittable,
    resource_name_complaints,
)

_SCOPES = frozenset(
    [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "VolumeAttributesClass",
        "CrossNamespacePodAffinity",
    ]
)
_EXISTS_ONLY = frozenset(
    ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity"]
)
_CONFLICTS = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_POD_COMPUTE = frozenset(
    ["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"]
)
_OF_CLAIMS = frozenset({"persistentvolumeclaims", "requests.storage"})
_EXISTS_TEXT = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
    "ResourceQuotaScopeCrossNamespacePodAffinity"
)


def check_quota(spec: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    hard = spec.get("hard") or {}
    for name, value in hard.items():
        at = (*path, "hard", MapKey(name))
        out.extend(invalids(at, name, quota_name_complaints(name)))
        check_amount(name, value, at, out)
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            out.append(invalid((*path, "scopes"), scopes, "unsupported scope"))
        out.extend(
            invalid((*path, "scopes"), scopes, "unsupported scope applied to resource")
            for _ in _outside_scope(scope, hard)
        )
    _check_conflicts(scopes, scopes, (*path, "scopes"), out)
    selector = spec.get("scopeSelector")
    if selector is not None:
        _check_scope_selector(selector, hard, (*path, "scopeSelector"), out)


def quota_name_complaints(name: str) -> tuple[str, ...]:
    """Names a quota may limit. `count/jobs.batch` and `requests.nvidia.com/gpu` are qualified names."""
    complaints = resource_name_complaints(name)
    if "/" not in name and name not in QUOTA_NAMES and not _is_pages(name):
        return (*complaints, "must be a standard resource for quota")
    return complaints


def _is_pages(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-"))


def _outside_scope(scope: str, hard: dict[str, Any]) -> list[str]:
    """Standard resources that this scope does not apply to."""
    if scope == "BestEffort":
        allowed = frozenset({"pods"})
    elif scope == "VolumeAttributesClass":
        allowed = _OF_CLAIMS
    elif scope in _SCOPES:
        allowed = _POD_COMPUTE
    else:
        return []
    return sorted(n for n in hard if (n in QUOTA_NAMES or _is_pages(n)) and n not in allowed)


def _check_conflicts(scopes: list[str], shown: Any, path: Path, out: list[Problem]) -> None:
    for a, b in _CONFLICTS:
        if a in scopes and b in scopes:
            out.append(invalid(path, shown, "conflicting scopes"))


def _check_scope_selector(
    selector: dict[str, Any], hard: dict[str, Any], path: Path, out: list[Problem]
) -> None:
    scopes: list[str] = []
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        at = (*path, "matchExpressions", index)
        scope, operator = expression.get("scopeName") or "", expression.get("operator") or ""
        values = expression.get("values") or []
        if scope not in _SCOPES:
            out.append(invalid((*at, "scopeName"), scope, "unsupported scope"))
        out.extend(
            invalid(at, scope, "unsupported scope applied to resource") for _ in _outside_scope(scope, hard)
        )
        if scope in _EXISTS_ONLY and operator != "Exists":
            out.append(invalid((*at, "operator"), operator, _EXISTS_TEXT))
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                out.append(required((*at, "values"), detail))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                out.append(invalid((*at, "values"), values, detail))
        else:
            out.append(invalid((*at, "operator"), operator, "not a valid selector operator"))
        scopes.append(scope)
    _check_conflicts(scopes, scopes, (*path, "matchExpressions"), out)


def check_limit_range(spec: dict[str, Any], path: Path, context: Context) -> None:
    seen: set[str] = set()
    for index, item in enumerate(spec.get("limits") or ()):
        at = (*path, "limits", index)
        type_ = item.get("type") or ""
        complaints = names.label_key(type_)
        context.out.extend(invalids((*at, "type"), type_, complaints))
        if not complaints and "/" not in type_ and type_ not in ("Pod", "Container", "PersistentVolumeClaim"):
            detail = "must be a standard limit type or fully qualified"
            context.out.append(invalid((*at, "type"), type_, detail))
        if type_ in seen:
            context.out.append(duplicate((*at, "type"), type_))
        seen.add(type_)
        _check_item(item, type_, at, context.out)


def _check_item(item: dict[str, Any], type_: str, at: Path, out: list[Problem]) -> None:
    complaints = container_resource_complaints if type_ in ("Pod", "Container") else resource_name_complaints
    for member in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        amounts = item.get(member) or {}
        if type_ == "Pod" and member.startswith("default"):
            if amounts:
                out.append(forbidden((*at, member), "may not be specified when `type` is 'Pod'"))
            continue
        for name in amounts:
            out.extend(invalids((*at, member, MapKey(name)), name, complaints(name)))
    storage = {**(item.get("min") or {}), **(item.get("max") or {})}
    if type_ == "PersistentVolumeClaim" and "storage" not in storage:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        out.append(required((*at, "limits"), detail))
    members = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
    for name in sorted({n for m in members for n in item.get(m) or {}}):
        _check_order(item, name, at, out)


def _check_order(item: dict[str, Any], name: str, at: Path, out: list[Problem]) -> None:
    """min ≤ defaultRequest ≤ default ≤ max, and a ratio of at least one."""

    def stated(member: str) -> tuple[Fraction, str] | None:
        value = (item.get(member) or {}).get(name)
        return None if value is None else (quantity.of(value), quantity.canonical(value))

    rules = (
        ("min", "max", "min", "min value {0} is greater than max value {1}"),
        (
            "min",
            "defaultRequest",
            "defaultRequest",
            "min value {0} is greater than default request value {1}",
        ),
        (
            "defaultRequest",
            "max",
            "defaultRequest",
            "default request value {0} is greater than max value {1}",
        ),
        (
            "defaultRequest",
            "default",
            "defaultRequest",
            "default request value {0} is greater than default limit value {1}",
        ),
        ("min", "default", "default", "min value {0} is greater than default value {1}"),
        ("default", "max", "default", "default value {0} is greater than max value {1}"),
    )
    for low, high, where, text in rules:
        a, b = stated(low), stated(high)
        if a is not None and b is not None and a[0] > b[0]:
            shown = (item.get(where) or {}).get(name)
            out.append(invalid((*at, where, MapKey(name)), shown, text.format(a[1], b[1])))
    ratio, low_end, high_end = stated("maxLimitRequestRatio"), stated("min"), stated("max")
    if ratio is not None and ratio[0] < 1:
        where_at = (*at, "maxLimitRequestRatio", MapKey(name))
        out.append(invalid(where_at, ratio[1], f"ratio {ratio[1]} is less than 1"))
    if ratio is not None and low_end is not None and high_end is not None and low_end[0] > 0:
        bound = high_end[0] / low_end[0]
        if ratio[0] > bound:
            detail = f"ratio {ratio[1]} is greater than max/min = {float(bound):f}"
            out.append(invalid((*at, "maxLimitRequestRatio", MapKey(name)), ratio[1], detail))
    default, request = stated("default"), stated("defaultRequest")
    if not is_overcommittable(name) and default and request and default[0] != request[0]:
        detail = f"default value {default[1]} must equal to defaultRequest value {request[1]} in {name}"
        out.append(invalid((*at, "defaultRequest", MapKey(name)), request[1], detail))


RULES = {"ResourceQuotaSpec": check_quota, "LimitRangeSpec": check_limit_range}
