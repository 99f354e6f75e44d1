"""Disruption budgets, priority and runtime classes, leases, events.

Source: pkg/apis/{policy,scheduling,node,coordination}/validation/validation.go, pkg/apis/core/validation/events.go
(v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.internals import Typed
from fairway.kube.objects import Obj, name_of, namespace_of, spec_of, status_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import resources, scheduling, texts
from fairway.kube.validation.kinds.metadata import object_meta, object_meta_update
from fairway.kube.validation.kinds.sameness import immutable
from fairway.kube.validation.kinds.selectors import label_selector_of
from fairway.kube.validation.kinds.workloads import at_most_all, int_or_percent

Part = Mapping[str, Any]
_EVICTION = ("AlwaysAllow", "IfHealthyBudget")
_MAX_PRIORITY = 1_000_000_000
_SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_STRATEGIES = ("OldestEmulationVersion",)
_EVENT_TEXTS: tuple[tuple[str, int], ...] = (("reportingInstance", 128), ("action", 128), ("reason", 128))


def budget(obj: Obj, out: Faults) -> None:
    """The metadata is left to `created`, which looks at it where the rest is right."""
    spec, at = spec_of(obj), ("spec",)
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        said = "minAvailable and maxUnavailable cannot be both set"
        out.invalid(at, Typed("policy.PodDisruptionBudgetSpec", spec), said)
    for name, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            int_or_percent(value, (*at, name), out)
            at_most_all(value, (*at, name), out)
    label_selector_of(spec.get("selector"), (*at, "selector"), out)
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION:
        out.unsupported((*at, "unhealthyPodEvictionPolicy"), policy, _EVICTION)


def budget_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out)
    budget(new, out)


def budget_status(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out)
    status = status_of(new)
    texts.conditions(status.get("conditions"), ("status", "conditions"), out)
    for name in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        out.negative(("status", name), status.get(name))


def priority_class(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False)
    name, value = name_of(obj), obj.get("value") or 0
    if name.startswith("system-"):
        why = _unknown_class(name, value, is_default=bool(obj.get("globalDefault")))
        if why:
            said = (
                f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            )
            out.forbidden(("metadata", "name"), said)
    elif value > _MAX_PRIORITY:
        said = f"maximum allowed value of a user defined priority is {_MAX_PRIORITY}"
        out.forbidden(("value",), said)
    if obj.get("preemptionPolicy") is not None:
        known = ("PreemptLowerPriority", "Never")
        texts.one_of(obj["preemptionPolicy"], known, ("preemptionPolicy",), out)


def _unknown_class(name: str, value: int, *, is_default: bool) -> str:
    if name not in _SYSTEM:
        return f"{name} is not a known system priority class"
    if value != _SYSTEM[name]:
        return f"value of {name} PriorityClass must be {_SYSTEM[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def priority_class_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out)
    if (new.get("value") or 0) != (old.get("value") or 0):
        out.forbidden(("value",), "may not be changed in an update.")
    immutable(new.get("preemptionPolicy"), old.get("preemptionPolicy"), ("preemptionPolicy",), out)


def runtime_class(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False)
    handler = obj.get("handler") or ""
    if not handler:
        out.required(("handler",))
    else:
        texts.dns_label(handler, ("handler",), out)
    if obj.get("overhead") is not None:
        resources.overhead(obj["overhead"].get("podFixed"), ("overhead",), out)
    found = obj.get("scheduling")
    if found is None:
        return
    texts.label_map(found.get("nodeSelector"), ("scheduling", "nodeSelector"), out)
    tolerations, at, seen = found.get("tolerations") or (), ("scheduling", "tolerations"), []
    scheduling.tolerations(tolerations, at, out)
    for index, toleration in enumerate(tolerations):
        key = tuple(toleration.get(m) or "" for m in ("key", "operator", "value", "effect"))
        if key in seen:
            out.duplicate((*at, index), Typed("core.Toleration", toleration))
        seen.append(key)


def runtime_class_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out)
    immutable(new.get("handler"), old.get("handler"), ("handler",), out)


def lease(obj: Obj, out: Faults) -> None:
    object_meta(obj, out)
    _lease_spec(spec_of(obj), out)


def lease_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out)
    _lease_spec(spec_of(new), out)


def _lease_spec(spec: Part, out: Faults) -> None:
    at, seconds, moves = ("spec",), spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        out.invalid((*at, "leaseDurationSeconds"), seconds, "must be greater than 0")
    if moves is not None and moves < 0:
        out.invalid((*at, "leaseTransitions"), moves, "must be greater than or equal to 0")
    strategy = spec.get("strategy")
    if strategy is not None and "/" in strategy:
        out.invalids((*at, "strategy", "strategy"), strategy, names.label_key(strategy))
    elif strategy is not None and strategy not in _STRATEGIES:
        out.unsupported((*at, "strategy", "strategy"), strategy, _STRATEGIES)
    if spec.get("preferredHolder") and not strategy:
        out.forbidden((*at, "preferredHolder"), "may only be specified if `strategy` is defined")


def event(obj: Obj, out: Faults) -> None:
    is_new = obj["apiVersion"] == "events.k8s.io/v1"
    regarding = obj.get("regarding" if is_new else "involvedObject") or {}
    _event_texts(obj, regarding.get("namespace") or "", out, is_new=is_new)
    if not is_new:
        return
    object_meta(obj, out)
    series = obj.get("series")
    if series is not None and (series.get("count") or 0) < 2:
        out.invalid(("series.count",), "", "should be at least 2")
    if series is not None and not series.get("lastObservedTime"):
        out.required(("series.lastObservedTime",))
    if not obj.get("eventTime"):
        out.required(("eventTime",))
    if obj.get("type") not in ("Normal", "Warning"):
        out.invalid(("type",), "", f"has invalid value: {obj.get('type') or ''}")
    deprecated = (
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    )
    for name, said in deprecated:
        if obj.get(name):
            out.invalid((said,), "", "needs to be unset")


def _event_texts(obj: Obj, about: str, out: Faults, *, is_new: bool) -> None:
    namespace = namespace_of(obj)
    reporter = "reportingController" if is_new else "reportingComponent"
    controller: Path = (reporter,)
    mismatch = "does not match event.namespace"
    if not obj.get("eventTime"):
        if (not about and namespace not in ("", "default")) or (about and about != namespace):
            out.invalid(("involvedObject", "namespace"), about, mismatch)
    else:
        if not about and namespace not in ("default", "kube-system"):
            out.invalid(("involvedObject", "namespace"), about, mismatch)
        name = obj.get(reporter) or ""
        if not name:
            out.required(controller)
        texts.qualified_name(name, controller, out)
        for member, limit in _EVENT_TEXTS:
            text = obj.get(member) or ""
            if not text:
                out.required((member,))
            if len(text) > limit:
                out.invalid((member,), "", f"can have at most {limit} characters")
        if len(obj.get("note" if is_new else "message") or "") > 1024:
            out.invalid(("message",), "", "can have at most 1024 characters")
    out.invalids(("namespace",), namespace, names.dns_subdomain(namespace))


def event_update(new: Obj, old: Obj, out: Faults) -> None:
    event(new, out)
