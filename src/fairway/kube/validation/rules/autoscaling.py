"""HorizontalPodAutoscaler.

Source: pkg/apis/autoscaling/validation/validation.go, registry/autoscaling/horizontalpodautoscaler/strategy.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube import names, quantity
from fairway.kube.fieldpath import Path
from fairway.kube.validation.context import Context
from fairway.kube.validation.problem import Problem, forbidden, invalid, invalids, required, unsupported
from fairway.kube.validation.rules.resources import check_amount, container_resource_complaints

_MAX_PERIOD_S = 1800
_MAX_WINDOW_S = 3600
_POLICIES = ("Percent", "Pods")
_SELECTIONS = ("Disabled", "Max", "Min")
# Member of a metric by its type, in the order in which the members are looked at.
_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_TYPES = tuple(sorted(_SOURCES))
_NO_TARGET = {
    "object": "must set either a target value or averageValue",
    "external": "must set either a target value for metric or a per-pod target",
}
_ONE_SOURCE = "must populate the given metric source only"


def check_autoscaler(spec: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if high == 0:
        out.append(required((*path, "maxReplicas"), "must be set and greater than 0"))
    elif high < 0:
        out.append(invalid((*path, "maxReplicas"), high, "must be greater than or equal to 1"))
    if low is not None and high < low:
        detail = "must be greater than or equal to `minReplicas`"
        out.append(invalid((*path, "maxReplicas"), high, detail))
    target = spec.get("scaleTargetRef") or {}
    has_group = target.get("kind") != "ReplicationController"
    _check_reference(target, (*path, "scaleTargetRef"), out, needs_group=has_group)
    metrics = spec.get("metrics") or ()
    for i, metric in enumerate(metrics):
        _check_metric(metric, (*path, "metrics", i), out)
    if low == 0 and not any(m.get("type") in ("Object", "External") for m in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        out.append(forbidden((*path, "metrics"), detail))
    for direction, rules in (spec.get("behavior") or {}).items():
        if rules is not None:
            _check_rules(rules, (*path, "behavior", direction), out)


def _check_reference(ref: dict[str, Any], path: Path, out: list[Problem], *, needs_group: bool) -> None:
    for member in ("kind", "name"):
        value = ref.get(member) or ""
        if not value:
            out.append(required((*path, member)))
        else:
            out.extend(invalids((*path, member), value, names.path_segment(value)))
    version = ref.get("apiVersion") or ""
    if version.count("/") > 1:
        out.append(invalid((*path, "apiVersion"), version, f"unexpected GroupVersion string: {version}"))
    elif needs_group and not version.rpartition("/")[0]:
        out.append(invalid((*path, "apiVersion"), version, "apiVersion must specify API group"))


def _check_metric(metric: dict[str, Any], path: Path, out: list[Problem]) -> None:
    kind = metric.get("type") or ""
    if not kind:
        out.append(required((*path, "type"), "must specify a metric source type"))
    if kind not in _SOURCES:
        out.append(unsupported((*path, "type"), kind, _TYPES))
    present = [member for member in _SOURCES.values() if metric.get(member) is not None]
    if present:
        _check_source(present[0], metric[present[0]], (*path, present[0]), out)
    expected = _SOURCES.get(kind)
    if expected is None:
        out.append(unsupported((*path, "type"), kind, _TYPES))
    elif expected not in present:
        out.append(required((*path, expected), "must populate information for the given metric source"))
    if len(present) != 1:
        out.extend(forbidden((*path, member), _ONE_SOURCE) for member in present if member != expected)


def _check_source(member: str, source: dict[str, Any], path: Path, out: list[Problem]) -> None:
    target, at = source.get("target") or {}, (*path, "target")
    if member in ("resource", "containerResource"):
        _check_resource(member, source, path, out)
        _check_target(target, at, out)
        if target.get("averageUtilization") is None and target.get("averageValue") is None:
            detail = "must set either a target raw value or a target utilization"
            out.append(required((*at, "averageUtilization"), detail))
        elif target.get("averageUtilization") is not None and target.get("averageValue") is not None:
            detail = "may not set both a target raw value and a target utilization"
            out.append(forbidden((*at, "averageValue"), detail))
        return
    if member == "object":
        described = source.get("describedObject") or {}
        _check_reference(described, (*path, "describedObject"), out, needs_group=False)
    name = (source.get("metric") or {}).get("name") or ""
    if not name:
        out.append(required((*path, "metric", "name"), "must specify a metric name"))
    else:
        out.extend(invalids((*path, "metric", "name"), name, names.path_segment(name)))
    _check_target(target, at, out)
    if member == "pods":
        if target.get("averageValue") is None:
            out.append(required((*at, "averageValue"), "must specify a positive target averageValue"))
    elif target.get("value") is None and target.get("averageValue") is None:
        out.append(required((*at, "averageValue"), _NO_TARGET[member]))
    elif member == "external" and target.get("value") is not None and target.get("averageValue") is not None:
        detail = "may not set both a target value for metric and a per-pod target"
        out.append(forbidden((*at, "value"), detail))


def _check_resource(member: str, source: dict[str, Any], path: Path, out: list[Problem]) -> None:
    name, container = source.get("name") or "", source.get("container") or ""
    if not name:
        out.append(required((*path, "name"), "must specify a resource name"))
    elif member == "containerResource":
        out.extend(invalids((*path, "name"), name, container_resource_complaints(name)))
    if member == "containerResource":
        if not container:
            out.append(required((*path, "container"), "must specify a container"))
        else:
            out.extend(invalids((*path, "container"), container, names.dns_label(container)))


def _check_target(target: dict[str, Any], path: Path, out: list[Problem]) -> None:
    kind = target.get("type") or ""
    if not kind:
        out.append(required((*path, "type"), "must specify a metric target type"))
    if kind not in ("Utilization", "Value", "AverageValue"):
        detail = "must be either Utilization, Value, or AverageValue"
        out.append(invalid((*path, "type"), kind, detail))
    for member in ("value", "averageValue"):
        amount = target.get(member)
        if amount is not None and quantity.of(amount) <= 0:
            out.append(invalid((*path, member), quantity.canonical(amount), "must be positive"))
    percent = target.get("averageUtilization")
    if percent is not None and percent < 1:
        out.append(invalid((*path, "averageUtilization"), percent, "must be greater than 0"))


def _check_rules(rules: dict[str, Any], path: Path, out: list[Problem]) -> None:
    window, at = rules.get("stabilizationWindowSeconds"), (*path, "stabilizationWindowSeconds")
    if window is not None and window < 0:
        out.append(invalid(at, window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_WINDOW_S:
        out.append(invalid(at, window, f"must be less than or equal to {_MAX_WINDOW_S}"))
    selection = rules.get("selectPolicy")
    if selection is not None and selection not in _SELECTIONS:
        out.append(unsupported((*path, "selectPolicy"), selection, _SELECTIONS))
    if not rules.get("policies"):
        out.append(required((*path, "policies"), "must specify at least one Policy"))
    for i, policy in enumerate(rules.get("policies") or ()):
        _check_policy(policy, (*path, "policies", i), out)
    if rules.get("tolerance") is not None:
        check_amount("", rules["tolerance"], (*path, "tolerance"), out)


def _check_policy(policy: dict[str, Any], path: Path, out: list[Problem]) -> None:
    kind, value, period = policy.get("type") or "", policy.get("value") or 0, policy.get("periodSeconds") or 0
    if kind not in _POLICIES:
        out.append(unsupported((*path, "type"), kind, _POLICIES))
    if value <= 0:
        out.append(invalid((*path, "value"), value, "must be greater than zero"))
    if period <= 0:
        out.append(invalid((*path, "periodSeconds"), period, "must be greater than zero"))
    if period > _MAX_PERIOD_S:
        detail = f"must be less than or equal to {_MAX_PERIOD_S}"
        out.append(invalid((*path, "periodSeconds"), period, detail))


RULES = {"HorizontalPodAutoscalerSpec": check_autoscaler}
