"""What does each metric of an autoscaler ask for?

One entry of `spec.metrics` becomes a proposal: replicas, the entry of `status.currentMetrics`, and what to call it.
Where it cannot be computed: the reason of the condition and event, and the controller's two wordings of the fault.

Source: horizontal.go computeReplicasForMetric, computeStatusFor*; metrics/client.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fairway.autoscaling.hpa import podgroups, replicas
from fairway.autoscaling.hpa.replicas import NO_PODS, Count, Fault, Tolerances
from fairway.autoscaling.hpa.settings import Settings
from fairway.autoscaling.hpa.wording import (
    SelectorFault,
    amount_of,
    metric_selector,
    milli_quantity,
    selector_text,
)
from fairway.autoscaling.source import MetricsError, MetricsSource, PodUsage, PodValue
from fairway.kube.labels import Selector
from fairway.kube.objects import Obj
from fairway.kube.quantity import milli_ceil

# Which member of an entry holds the source of its type.
_KINDS = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "External": "external",
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one metric asks for. With a `reason` it is none: `fault` for the condition, `told` for the summary."""

    replicas: int = 0
    name: str = ""
    status: dict[str, Any] | None = None
    reason: str = ""
    fault: str = ""
    told: str = ""


@dataclass(frozen=True)
class Question:
    """What a proposal rests on: the autoscaler's target as it is, and who knows the metrics."""

    namespace: str
    wanted: int
    """Replicas that the scale asks for."""
    there: int
    """Replicas that its status counts."""
    selector: Selector
    pods: Sequence[Obj]
    tolerances: Tolerances
    metrics: MetricsSource
    settings: Settings
    now_us: int

    @cached_property
    def ready(self) -> int:
        """Raises: Fault."""
        if not self.pods:
            raise Fault(f"unable to calculate ready pods: {NO_PODS}")
        return podgroups.ready_count(self.pods)

    def groups(self, values: Mapping[str, PodValue], resource: str) -> podgroups.Groups:
        """Raises: Fault."""
        if not self.pods:
            raise Fault(NO_PODS)
        return podgroups.grouped(
            self.pods,
            values,
            resource,
            initialization_us=self.settings.initialization_us,
            readiness_delay_us=self.settings.readiness_delay_us,
            now_us=self.now_us,
        )


def propose(question: Question, metric: Mapping[str, Any]) -> Proposal:
    """What one entry of `spec.metrics` asks for."""
    kind = metric["type"]
    source = metric[_KINDS[kind]]
    reason = f"FailedGet{kind}Metric"
    try:
        return _READERS[kind](question, source)
    except _Said as said:
        return Proposal(reason=reason, fault=said.fault, told=f"{_summary(kind, source)}: {said.told}")


class _Said(Exception):
    """A fault as the condition says it and as the sum of all faults does."""

    def __init__(self, fault: str, told: str = "") -> None:
        super().__init__(fault)
        self.fault = fault
        self.told = told or fault


def _summary(kind: str, source: Mapping[str, Any]) -> str:
    if kind == "Resource":
        return f"failed to get {source['name']} resource metric value"
    if kind == "ContainerResource":
        return f"failed to get {source['container']} container metric value"
    if kind == "External":
        return f"failed to get {source['metric']['name']} external metric value"
    return f"failed to get {kind.lower()} metric value"


# Resources


def _resource(question: Question, source: Mapping[str, Any]) -> Proposal:
    return _of_resource(question, source, "", "Resource", "resource")


def _container_resource(question: Question, source: Mapping[str, Any]) -> Proposal:
    return _of_resource(question, source, source["container"], "ContainerResource", "containerResource")


def _of_resource(
    question: Question, source: Mapping[str, Any], container: str, kind: str, member: str
) -> Proposal:
    name, target = source["name"], source["target"]
    current: dict[str, Any]
    if target.get("averageValue") is not None:
        count = _measured(question, name, container, "usage", lambda v: _raw(question, name, target, v))
        current = {"averageValue": amount_of(name, count.usage)}
        called = f"{name} resource"
    elif target.get("averageUtilization") is None:
        raise _Said(
            "invalid resource metric source: neither an average utilization target nor an average value "
            "(usage) target was set"
        )
    else:
        percent = target["averageUtilization"]
        count = _measured(
            question, name, container, "utilization", lambda v: _share(question, name, container, percent, v)
        )
        current = {"averageUtilization": count.utilization, "averageValue": amount_of(name, count.usage)}
        what = "container resource" if container else "resource"
        called = f"{name} {what} utilization (percentage of request)"
    stated = {"name": name, **({"container": container} if container else {}), "current": current}
    return Proposal(count.replicas, called, {"type": kind, member: stated})


def _measured(
    question: Question,
    name: str,
    container: str,
    what: str,
    count: Callable[[Mapping[str, PodValue]], Count],
) -> Count:
    """Raises: _Said."""
    try:
        return count(_usage(question, name, container))
    except MetricsError as error:
        fault = f"unable to get metrics for resource {name}: {error}"
        raise _Said(f"failed to get {name} {what}: {fault}") from None
    except (Fault, podgroups.RequestFault) as error:
        raise _Said(f"failed to get {name} {what}: {error}") from None


def _usage(question: Question, resource: str, container: str) -> dict[str, PodValue]:
    """One value a pod. Raises: MetricsError."""
    try:
        found = question.metrics.usage(question.namespace, question.selector)
    except MetricsError as error:
        raise MetricsError(f"unable to fetch metrics from resource metrics API: {error}") from None
    if not found:
        raise MetricsError("no metrics returned from resource metrics API")
    values = {}
    for pod, usage in found.items():
        amount = _amount(usage, resource, container)
        if amount is not None:
            values[pod] = PodValue(usage.at_us, usage.window_us, amount)
    return values


def _amount(usage: PodUsage, resource: str, container: str) -> int | None:
    """Of one container or all of them; None where one has none."""
    if container:
        return usage.containers.get(container, {}).get(resource)
    amounts = [of.get(resource) for of in usage.containers.values()]
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None


def _raw(
    question: Question, resource: str, target: Mapping[str, Any], values: Mapping[str, PodValue]
) -> Count:
    wanted = milli_ceil(target["averageValue"])
    groups = question.groups(values, resource)
    return replicas.by_value(values, groups, wanted, question.tolerances, question.wanted)


def _share(
    question: Question, resource: str, container: str, percent: int, values: Mapping[str, PodValue]
) -> Count:
    groups = question.groups(values, resource)
    return replicas.by_utilization(
        values,
        groups,
        lambda: podgroups.requests(question.pods, container, resource),
        percent,
        question.tolerances,
        question.wanted,
    )


# Custom metrics


def _pods(question: Question, source: Mapping[str, Any]) -> Proposal:
    metric, target = source["metric"], milli_ceil(source["target"]["averageValue"])
    name, selected = metric["name"], _selector(metric)
    try:
        values = _custom(question, name, selected)
        groups = question.groups(values, "")
        count = replicas.by_value(values, groups, target, question.tolerances, question.wanted)
    except MetricsError as error:
        raise _Said(f"unable to get metric {name}: {error}") from None
    except Fault as error:
        raise _Said(str(error)) from None
    current = {"averageValue": milli_quantity(count.usage)}
    stated = {"metric": _identifier(metric), "current": current}
    return Proposal(count.replicas, f"pods metric {name}", {"type": "Pods", "pods": stated})


def _custom(question: Question, name: str, selected: Selector | None) -> Mapping[str, PodValue]:
    try:
        values = question.metrics.of_pods(question.namespace, name, question.selector, selected)
    except MetricsError as error:
        raise MetricsError(f"unable to fetch metrics from custom metrics API: {error}") from None
    if not values:
        raise MetricsError("no metrics returned from custom metrics API")
    return values


def _object(question: Question, source: Mapping[str, Any]) -> Proposal:
    metric, target, described = source["metric"], source["target"], source["describedObject"]
    name, selected = metric["name"], _selector(metric)
    current: dict[str, str]
    if target.get("type") == "Value" and target.get("value") is not None:
        try:
            usage = _described(question, name, described, selected)
            count = replicas.by_total(
                usage,
                milli_ceil(target["value"]),
                lambda: question.ready,
                question.tolerances,
                question.wanted,
            )
        except Fault as error:
            raise _Said(str(error)) from None
        current, called = {"value": milli_quantity(count.usage)}, f"{described['kind']} metric {name}"
    elif target.get("type") == "AverageValue" and target.get("averageValue") is not None:
        try:
            usage = _described(question, name, described, selected)
        except _Said as said:
            raise _Said(said.fault, f"failed to get {name} object metric: {said.fault}") from None
        wanted = milli_ceil(target["averageValue"])
        count = replicas.per_replica(usage, wanted, question.tolerances, question.there, capped=False)
        current = {"averageValue": milli_quantity(count.usage)}
        called = f"external metric {name}({selector_text(metric.get('selector'))})"
    else:
        raise _Said(
            "invalid object metric source: neither a value target nor an average value target was set"
        )
    stated = {"metric": _identifier(metric), "current": current, "describedObject": dict(described)}
    return Proposal(count.replicas, called, {"type": "Object", "object": stated})


def _described(question: Question, name: str, described: Mapping[str, str], selected: Selector | None) -> int:
    """Raises: _Said."""
    try:
        return question.metrics.of_object(question.namespace, name, described, selected)
    except MetricsError as error:
        raise _Said(
            f"unable to get metric {name}: unable to fetch metrics from custom metrics API: {error} "
            f"on {described['kind']} {question.namespace}/{described['name']}"
        ) from None


# External metrics


def _external(question: Question, source: Mapping[str, Any]) -> Proposal:
    metric, target = source["metric"], source["target"]
    name = metric["name"]
    per_pod = target.get("averageValue")
    if per_pod is None and target.get("value") is None:
        raise _Said(
            "invalid external metric source: neither a value target nor an average value target was set"
        )
    try:
        usage = replicas.total(_series(question, metric))
        if per_pod is not None:
            wanted = milli_ceil(per_pod)
            count = replicas.per_replica(usage, wanted, question.tolerances, question.there)
        else:
            count = replicas.by_total(
                usage,
                milli_ceil(target["value"]),
                lambda: question.ready,
                question.tolerances,
                question.wanted,
            )
    except Fault as error:
        said = (
            f"failed to get external metric {name}"
            if per_pod is None
            else f"failed to get {name} external metric"
        )
        raise _Said(str(error), f"{said}: {error}") from None
    amount = milli_quantity(count.usage)
    current = {"averageValue": amount} if per_pod is not None else {"value": amount}
    stated = {"metric": _identifier(metric), "current": current}
    called = f"external metric {name}({selector_text(metric.get('selector'))})"
    return Proposal(count.replicas, called, {"type": "External", "external": stated})


def _series(question: Question, metric: Mapping[str, Any]) -> Sequence[int]:
    """Raises: Fault."""
    name, raw = metric["name"], metric.get("selector")
    try:
        selected = metric_selector(raw)
    except SelectorFault as fault:
        raise Fault(str(fault)) from None
    try:
        values = question.metrics.external(question.namespace, name, selected)
    except MetricsError as error:
        fault_text = f"unable to fetch metrics from external metrics API: {error}"
    else:
        if values:
            return values
        fault_text = "no metrics returned from external metrics API"
    raise Fault(
        f"unable to get external metric {question.namespace}/{name}/{selector_text(raw)}: {fault_text}"
    )


# What several of them need


def _identifier(metric: Mapping[str, Any]) -> dict[str, Any]:
    kept = {"name": metric["name"]}
    return {**kept, "selector": metric["selector"]} if metric.get("selector") is not None else kept


def _selector(metric: Mapping[str, Any]) -> Selector | None:
    """Raises: _Said."""
    try:
        return metric_selector(metric.get("selector"))
    except SelectorFault as fault:
        raise _Said(str(fault)) from None


_READERS: dict[str, Callable[[Question, Mapping[str, Any]], Proposal]] = {
    "Resource": _resource,
    "ContainerResource": _container_resource,
    "Pods": _pods,
    "Object": _object,
    "External": _external,
}
