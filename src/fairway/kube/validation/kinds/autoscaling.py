"""HorizontalPodAutoscalers, and the scale of anything.

Source: pkg/apis/autoscaling/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import quantity
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, spec_of, status_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import resources, texts
from fairway.kube.validation.kinds.metadata import object_meta, object_meta_update

Part = Mapping[str, Any]
_AT: Path = ("spec",)
_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
# In the order they are looked for; a type's member starts in lower case.
_SOURCES = ("object", "external", "pods", "resource", "containerResource")
_MAX_PERIOD_S, _MAX_WINDOW_S = 1800, 3600


def autoscaler(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    _spec(spec_of(obj), out, empty_group=False)


def autoscaler_update(new: Obj, old: Obj, out: Faults) -> None:
    """An old object without a group in its target may stay without."""
    object_meta_update(new, old, out, core=True)
    version = (spec_of(old).get("scaleTargetRef") or {}).get("apiVersion") or ""
    _spec(spec_of(new), out, empty_group="/" not in version)


def autoscaler_status(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    for name in ("currentReplicas", "desiredReplicas"):
        out.negative(("status", name), status_of(new).get(name))


def _spec(spec: Part, out: Faults, *, empty_group: bool) -> None:
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if low is not None and low < 1:
        out.invalid((*_AT, "minReplicas"), low, "must be greater than or equal to 1")
    if high == 0:
        out.required((*_AT, "maxReplicas"), "must be set and greater than 0")
    elif high < 0:
        out.invalid((*_AT, "maxReplicas"), high, "must be greater than or equal to 1")
    if low is not None and high < low:
        out.invalid((*_AT, "maxReplicas"), high, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    _reference(target, (*_AT, "scaleTargetRef"), out, empty_group=empty_group)
    _metrics(spec.get("metrics") or (), low, (*_AT, "metrics"), out)
    behavior = spec.get("behavior") or {}
    for name in ("scaleUp", "scaleDown"):
        if behavior.get(name) is not None:
            _rules(behavior[name], (*_AT, "behavior", name), out)


def _reference(found: Part, at: Path, out: Faults, *, empty_group: bool) -> None:
    for name in ("kind", "name"):
        if not found.get(name):
            out.required((*at, name))
        else:
            texts.path_segment(found[name], (*at, name), out)
    version = found.get("apiVersion") or ""
    if version.count("/") > 1:
        out.invalid((*at, "apiVersion"), version, f"unexpected GroupVersion string: {version}")
    elif not version.rpartition("/")[0] and not empty_group:
        out.invalid((*at, "apiVersion"), version, "apiVersion must specify API group")


def _metrics(metrics: Sequence[Part], low: int | None, at: Path, out: Faults) -> None:
    for index, metric in enumerate(metrics):
        _metric(metric, (*at, index), out)
    if low == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        said = "must specify at least one Object or External metric to support scaling to zero replicas"
        out.forbidden(at, said)


def _metric(metric: Part, at: Path, out: Faults) -> None:
    kind = metric.get("type") or ""
    if not kind:
        out.required((*at, "type"), "must specify a metric source type")
    if kind not in _TYPES:
        out.unsupported((*at, "type"), kind, _TYPES)
    present = [name for name in _SOURCES if metric.get(name) is not None]
    for name in present[:1]:
        _source(name, metric[name], (*at, name), out)
    expected = kind[:1].lower() + kind[1:]
    if kind not in _TYPES:
        out.unsupported((*at, "type"), kind, _TYPES)
    elif expected not in present:
        out.required((*at, expected), "must populate information for the given metric source")
    if len(present) != 1:
        for name in present:
            if name != expected or kind not in _TYPES:
                out.forbidden((*at, name), "must populate the given metric source only")


def _source(name: str, source: Part, at: Path, out: Faults) -> None:
    target = source.get("target") or {}
    if name == "object":
        _reference(source.get("describedObject") or {}, (*at, "describedObject"), out, empty_group=True)
    if name in ("object", "external", "pods"):
        metric = (source.get("metric") or {}).get("name") or ""
        if not metric:
            out.required((*at, "metric", "name"), "must specify a metric name")
        else:
            texts.path_segment(metric, (*at, "metric", "name"), out)
    else:
        _resource_names(name, source, at, out)
    _target(target, (*at, "target"), out)
    _given(name, target, (*at, "target"), out)


def _resource_names(name: str, source: Part, at: Path, out: Faults) -> None:
    is_container = name == "containerResource"
    if not source.get("name"):
        out.required((*at, "name"), "must specify a resource name")
    elif is_container:
        resources.container_name(source["name"], (*at, "name"), out)
    if is_container and not source.get("container"):
        out.required((*at, "container"), "must specify a container")
    elif is_container:
        texts.dns_label(source["container"], (*at, "container"), out)


def _given(name: str, target: Part, at: Path, out: Faults) -> None:
    value, average, share = (target.get(m) for m in ("value", "averageValue", "averageUtilization"))
    if name == "object" and value is None and average is None:
        out.required((*at, "averageValue"), "must set either a target value or averageValue")
    elif name == "external":
        if value is None and average is None:
            said = "must set either a target value for metric or a per-pod target"
            out.required((*at, "averageValue"), said)
        if value is not None and average is not None:
            said = "may not set both a target value for metric and a per-pod target"
            out.forbidden((*at, "value"), said)
    elif name == "pods" and average is None:
        out.required((*at, "averageValue"), "must specify a positive target averageValue")
    elif name in ("resource", "containerResource"):
        if share is None and average is None:
            said = "must set either a target raw value or a target utilization"
            out.required((*at, "averageUtilization"), said)
        if share is not None and average is not None:
            said = "may not set both a target raw value and a target utilization"
            out.forbidden((*at, "averageValue"), said)


def _target(target: Part, at: Path, out: Faults) -> None:
    kind = target.get("type") or ""
    if not kind:
        out.required((*at, "type"), "must specify a metric target type")
    if kind not in ("Utilization", "Value", "AverageValue"):
        out.invalid((*at, "type"), kind, "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        value = target.get(name)
        if value is not None and quantity.of(value) <= 0:
            out.invalid((*at, name), quantity.canonical(value), "must be positive")
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        out.invalid((*at, "averageUtilization"), share, "must be greater than 0")


def _rules(rules: Part, at: Path, out: Faults) -> None:
    window, choice, policies = (
        rules.get(m) for m in ("stabilizationWindowSeconds", "selectPolicy", "policies")
    )
    if window is not None and window < 0:
        said = "must be greater than or equal to zero"
        out.invalid((*at, "stabilizationWindowSeconds"), window, said)
    if window is not None and window > _MAX_WINDOW_S:
        said = f"must be less than or equal to {_MAX_WINDOW_S}"
        out.invalid((*at, "stabilizationWindowSeconds"), window, said)
    if choice is not None and choice not in ("Disabled", "Max", "Min"):
        out.unsupported((*at, "selectPolicy"), choice, ("Disabled", "Max", "Min"))
    if not policies:
        out.required((*at, "policies"), "must specify at least one Policy")
    for index, policy in enumerate(policies or ()):
        where, period = (*at, "policies", index), policy.get("periodSeconds") or 0
        if policy.get("type") not in ("Percent", "Pods"):
            out.unsupported((*where, "type"), policy.get("type") or "", ("Percent", "Pods"))
        if (policy.get("value") or 0) <= 0:
            out.invalid((*where, "value"), policy.get("value") or 0, "must be greater than zero")
        if period <= 0:
            out.invalid((*where, "periodSeconds"), period, "must be greater than zero")
        if period > _MAX_PERIOD_S:
            out.invalid((*where, "periodSeconds"), period, f"must be less than or equal to {_MAX_PERIOD_S}")
    if rules.get("tolerance") is not None:
        resources.not_negative(rules["tolerance"], (*at, "tolerance"), out)


def scale(obj: Obj, out: Faults) -> None:
    out.negative((*_AT, "replicas"), spec_of(obj).get("replicas"))
