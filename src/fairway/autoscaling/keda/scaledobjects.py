"""What does KEDA make of a ScaledObject: an autoscaler for one and more, and itself for none.

Source: controllers/keda/{hpa,scaledobject_controller}.go, pkg/scaling/executor/scale_scaledobjects.go,
pkg/fallback/fallback.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairway.autoscaling.keda.triggers import RESOURCE, Probe
from fairway.kube.objects import Obj, annotations_of, labels_of, spec_of
from fairway.kube.quantity import format_milli, milli_ceil
from fairway.kube.timestamps import SECOND_US

OWNER_LABEL: Final = "scaledobject.keda.sh/name"
COMPOSITE: Final = "composite-metric"
VERSION: Final = "2.21.0"
POLLING_S: Final = 30
COOLDOWN_S: Final = 300
_MAX_REPLICAS: Final = 100
_EXCLUDED: Final = "scaledobject.keda.sh/hpa-excluded-labels"
_PAUSED: Final = "autoscaling.keda.sh/paused"
_PAUSED_REPLICAS: Final = "autoscaling.keda.sh/paused-replicas"
_PAUSED_IN: Final = "autoscaling.keda.sh/paused-scale-in"
_PAUSED_OUT: Final = "autoscaling.keda.sh/paused-scale-out"
# A trigger that fails is nothing to the formula, which says what is then.
OF_MODIFIERS: Final = "scalingModifiers"
_FORCED: Final = "autoscaling.keda.sh/force-activation"


class Paused(NamedTuple):
    """What annotations hold back."""

    whole: bool
    replicas: int | None
    scale_in: bool
    scale_out: bool


def paused(obj: Obj) -> Paused:
    annotations = annotations_of(obj)
    wanted = annotations.get(_PAUSED_REPLICAS)
    replicas = int(wanted) if wanted is not None and wanted.isdigit() else None
    return Paused(
        wanted is not None or _flag(annotations, _PAUSED),
        replicas,
        _flag(annotations, _PAUSED_IN),
        _flag(annotations, _PAUSED_OUT),
    )


def _flag(annotations: Mapping[str, str], name: str) -> bool:
    """Set, and not to false: what is no truth value counts as set."""
    return name in annotations and annotations[name].lower() not in ("false", "f", "0")


def is_forced(obj: Obj) -> bool:
    return _flag(annotations_of(obj), _FORCED)


def bounds_fault(spec: Mapping[str, Any]) -> str:
    """Why the replica counts contradict each other; empty where they do not."""
    low, high = spec.get("minReplicaCount") or 0, maximum(spec)
    if low > high:
        return f"MinReplicaCount={low} must be less than MaxReplicaCount={high}"
    idle = spec.get("idleReplicaCount")
    if idle is not None and idle >= low:
        return f"IdleReplicaCount={idle} must be less than MinReplicaCount={low}"
    return ""


def maximum(spec: Mapping[str, Any]) -> int:
    high = spec.get("maxReplicaCount")
    return _MAX_REPLICAS if high is None else int(high)


def modifiers(spec: Mapping[str, Any]) -> dict[str, Any]:
    return (spec.get("advanced") or {}).get("scalingModifiers") or {}


def autoscaler_name(obj: Obj) -> str:
    config = (spec_of(obj).get("advanced") or {}).get("horizontalPodAutoscalerConfig") or {}
    return config.get("name") or f"keda-hpa-{obj['metadata']['name']}"


def autoscaler(obj: Obj, api_version: str, kind: str, probes: Sequence[Probe]) -> Obj:
    """The HorizontalPodAutoscaler for as long as there is at least one replica."""
    spec, meta = spec_of(obj), obj["metadata"]
    config = (spec.get("advanced") or {}).get("horizontalPodAutoscalerConfig") or {}
    name = autoscaler_name(obj)
    low = spec.get("minReplicaCount") or 1
    made: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": api_version, "kind": kind, "name": spec["scaleTargetRef"]["name"]},
        "minReplicas": low,
        "maxReplicas": maximum(spec),
        "metrics": _metrics(obj, probes),
    }
    behavior = _behavior(obj, config.get("behavior"))
    if behavior is not None:
        made["behavior"] = behavior
    excluded = (annotations_of(obj).get(_EXCLUDED) or "").split(",")
    labels = {
        "app.kubernetes.io/name": name[:63].rstrip("-._"),
        "app.kubernetes.io/version": VERSION,
        "app.kubernetes.io/part-of": meta["name"],
        "app.kubernetes.io/managed-by": "keda-operator",
        **{k: v for k, v in labels_of(obj).items() if k not in excluded},
    }
    owner = {
        "apiVersion": obj["apiVersion"],
        "kind": "ScaledObject",
        "name": meta["name"],
        "uid": meta["uid"],
        "blockOwnerDeletion": True,
        "controller": True,
    }
    head: dict[str, Any] = {
        "name": name,
        "namespace": meta["namespace"],
        "labels": labels,
        "ownerReferences": [owner],
    }
    if annotations_of(obj):
        head["annotations"] = dict(annotations_of(obj))
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": head, "spec": made}


def _metrics(obj: Obj, probes: Sequence[Probe]) -> list[dict[str, Any]]:
    """Sorted by type; external ones carry whose they are. Modifiers make one of all external ones."""
    owner = {"matchLabels": {OWNER_LABEL: obj["metadata"]["name"]}}
    found = []
    for probe in probes:
        spec = probe.spec
        if spec["type"] == "External":
            of = spec["external"]
            spec = {**spec, "external": {**of, "metric": {**of["metric"], "selector": owner}}}
        found.append(spec)
    changed = modifiers(spec_of(obj))
    if changed.get("formula"):
        kind = changed.get("metricType") or "AverageValue"
        member = "value" if kind == "Value" else "averageValue"
        target = {"type": kind, member: format_milli(milli_ceil(str(changed.get("target") or "0")))}
        composite = {"metric": {"name": COMPOSITE, "selector": owner}, "target": target}
        found = [m for m in found if m["type"] != "External"]
        found.append({"type": "External", "external": composite})
    return sorted(found, key=lambda metric: str(metric["type"]))


def _behavior(obj: Obj, behavior: dict[str, Any] | None) -> dict[str, Any] | None:
    held = paused(obj)
    for is_held, direction in ((held.scale_in, "scaleDown"), (held.scale_out, "scaleUp")):
        if is_held:
            rules = (behavior or {}).get(direction) or {}
            behavior = {**(behavior or {}), direction: {**rules, "selectPolicy": "Disabled"}}
    return behavior


class Activity(NamedTuple):
    """What the triggers say together. `errors`: whether any failed."""

    is_active: bool
    errors: bool
    active_triggers: tuple[str, ...] = ()


class Step(NamedTuple):
    """What to do about the target: `replicas` or None; `is_activation` where it was idle."""

    replicas: int | None
    ready: tuple[str, str, str] | None
    active: tuple[str, str, str] | None
    is_activation: bool = False
    touches_active_time: bool = False


_ACTIVE: Final = ("True", "ScalerActive", "Scaling is performed because triggers are active")
_FORCED_ACTIVE: Final = (
    "True",
    "ScalerActive",
    "Scaling is performed because activation is being forced by annotation",
)
_NOT_ACTIVE: Final = ("False", "ScalerNotActive", "Scaling is not performed because triggers are not active")
_COOLING: Final = ("False", "ScalerCooldown", "Scaler cooling down because triggers are not active")
_PARTIAL: Final = (
    "Unknown",
    "PartialTriggerError",
    "Some triggers defined in ScaledObject are not working correctly",
)
_FAILED: Final = ("False", "TriggerError", "Triggers defined in ScaledObject are not working correctly")


def step(
    obj: Obj, activity: Activity, current: int, created_us: int, last_active_us: int | None, now_us: int
) -> Step:
    """What the executor does in one poll; the autoscaler does the rest."""
    spec = spec_of(obj)
    low, idle = spec.get("minReplicaCount") or 0, spec.get("idleReplicaCount")
    held = paused(obj)
    if activity.is_active or is_forced(obj):
        said = _FORCED_ACTIVE if is_forced(obj) else _ACTIVE
        if (idle is not None and current < low) or current == 0:
            if held.scale_out:
                return Step(None, None, said)
            return Step(max(low, 1), None, said, is_activation=True, touches_active_time=True)
        if activity.errors:
            return Step(None, _PARTIAL, said)
        return Step(None, None, said, touches_active_time=True)
    fallback = spec.get("fallback")
    if activity.errors and fallback is not None and fallback.get("replicas"):
        return Step(None, None, _NOT_ACTIVE)
    if activity.errors and fallback is None:
        return Step(None, _FAILED, _NOT_ACTIVE)
    if (idle is not None and current > idle) or (current > 0 and low == 0):
        return _deactivated(spec, held, created_us, last_active_us, now_us)
    if idle is None and current < low:
        return Step(low, None, _NOT_ACTIVE)
    return Step(None, None, _NOT_ACTIVE)


def _deactivated(
    spec: Mapping[str, Any], held: Paused, created_us: int, last_active_us: int | None, now_us: int
) -> Step:
    """Down to none, or to idle, once it has cooled down."""
    if held.scale_in:
        return Step(None, None, _NOT_ACTIVE)
    if cooled_at(spec, created_us, last_active_us) < now_us:
        idle = spec.get("idleReplicaCount")
        return Step(spec.get("minReplicaCount") or 0 if idle is None else idle, None, _NOT_ACTIVE)
    return Step(None, None, _COOLING)


def cooled_at(spec: Mapping[str, Any], created_us: int, last_active_us: int | None) -> int:
    """After when a target without activity is idle."""
    if last_active_us is None:
        return created_us + (spec.get("initialCooldownPeriod") or 0) * SECOND_US
    cooldown = spec.get("cooldownPeriod")
    return last_active_us + (COOLDOWN_S if cooldown is None else cooldown) * SECOND_US


def has_fallback(spec: Mapping[str, Any]) -> bool:
    """One that counts: with modifiers their target must be a whole number."""
    fallback = spec.get("fallback")
    if fallback is None:
        return False
    changed = modifiers(spec)
    target = str(changed.get("target") or "")
    is_right = not changed or (target.isdigit() and int(target) > 0)
    return is_right and all(int(fallback.get(name) or 0) >= 0 for name in ("failureThreshold", "replicas"))


def fallback_value(
    spec: Mapping[str, Any], target_milli: int, current: int, is_value: bool, ready: int
) -> int | None:
    """What a failing trigger is taken to say, in thousandths; None where the fallback says nothing.

    `is_value`: its target is a value of all replicas together, which are `ready` so many.
    """
    fallback, changed = spec["fallback"], modifiers(spec)
    wanted = int(fallback.get("replicas") or 0)
    behavior = fallback.get("behavior") or "static"
    if behavior == OF_MODIFIERS:
        return None
    replicas: float = {
        "currentReplicas": current,
        "currentReplicasIfHigher": max(current, wanted),
        "currentReplicasIfLower": min(current, wanted),
    }.get(behavior, wanted)
    if changed:
        is_value, target_milli = changed.get("metricType") == "Value", 1000 * int(changed.get("target") or 0)
    if is_value:
        if not ready:
            return None
        replicas /= ready
    return int(target_milli * replicas)


def only_resources(probes: Sequence[Probe]) -> bool:
    """CPU and memory alone: nothing tells whether anybody needs a first replica."""
    return bool(probes) and all(p.source == RESOURCE for p in probes)
