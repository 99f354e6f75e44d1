"""How many jobs does KEDA create for a ScaledJob?

Source: pkg/scaling/scaledjob/metrics.go, pkg/scaling/executor/scale_jobs.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fairway.kube.objects import Obj, annotations_of, labels_of, spec_of

NAME_LABEL = "scaledjob.keda.sh/name"
_MAX_REPLICAS = 100


class Asked(NamedTuple):
    """What one trigger asks for: its queue's length, the jobs for that, and whether it is active."""

    length: float
    jobs: float
    is_active: bool


class Demand(NamedTuple):
    """All triggers together."""

    is_active: bool
    length: int
    jobs: int


def maximum(spec: Mapping[str, Any]) -> int:
    high = spec.get("maxReplicaCount")
    return _MAX_REPLICAS if high is None else int(high)


def asked(values: Sequence[int], target_milli: int, is_active: bool, spec: Mapping[str, Any]) -> Asked:
    """`values` of its metric in thousandths."""
    length = sum(values) / 1000
    jobs = min(length * 1000 / target_milli, float(maximum(spec))) if target_milli else 0.0
    return Asked(length, jobs, is_active)


def demand(spec: Mapping[str, Any], triggers: Sequence[Asked]) -> Demand:
    """By `multipleScalersCalculation`: max (the default), min, avg or sum of those that are active."""
    active = [t for t in triggers if t.is_active]
    how = (spec.get("scalingStrategy") or {}).get("multipleScalersCalculation") or "max"
    length = jobs = 0.0
    if how == "sum":
        length, jobs = sum(t.length for t in active), sum(t.jobs for t in active)
    elif how == "avg" and active:
        length, jobs = sum(t.length for t in active) / len(active), sum(t.jobs for t in active) / len(active)
    elif active:
        chosen = (min if how == "min" else max)(active, key=lambda t: t.length)
        length, jobs = chosen.length, chosen.jobs
    is_active = bool(active) and (how != "max" or length > 0)
    return Demand(
        is_active or bool(spec.get("minReplicaCount")),
        math.ceil(length),
        math.ceil(min(jobs, float(maximum(spec)))),
    )


def to_create(spec: Mapping[str, Any], wanted: Demand, running: int, pending: int) -> int:
    """How many jobs more. `running`: not finished; `pending`: of those, not yet at work."""
    low, high = spec.get("minReplicaCount") or 0, maximum(spec)
    if running < low:
        return low - running
    most, length = _effective(spec, wanted, running - low, pending, high)
    return max(min(most, length), 0)


def _effective(
    spec: Mapping[str, Any], wanted: Demand, running: int, pending: int, high: int
) -> tuple[int, int]:
    """By the scaling strategy."""
    strategy = spec.get("scalingStrategy") or {}
    kind = strategy.get("strategy") or "default"
    share = _share(strategy.get("customScalingRunningJobPercentage"))
    if kind == "custom" and share is not None:
        less = int(strategy.get("customScalingQueueLengthDeduction") or 0)
        return min(wanted.jobs - less - int(running * share), high), wanted.length
    if kind == "accurate":
        if wanted.jobs + running - pending > high:
            return high - running, wanted.length
        return wanted.jobs - pending, wanted.length
    if kind == "eager":
        return min(high - running - pending, wanted.jobs), high
    return wanted.jobs - running, wanted.length


def _share(told: Any) -> float | None:
    """None where it is no number: the custom strategy is then the default one."""
    try:
        return float(told or "")
    except ValueError:
        return None


def job(obj: Obj, name: str) -> Obj:
    """One of them."""
    meta, spec = obj["metadata"], spec_of(obj)
    target = spec["jobTargetRef"]
    template = target["template"]
    inner = template.get("metadata") or {}
    pod = template["spec"]
    labels = {
        "app.kubernetes.io/name": meta["name"],
        "app.kubernetes.io/part-of": meta["name"],
        "app.kubernetes.io/managed-by": "keda-operator",
        NAME_LABEL: meta["name"],
        **labels_of(obj),
    }
    owner = {
        "apiVersion": obj["apiVersion"],
        "kind": "ScaledJob",
        "name": meta["name"],
        "uid": meta["uid"],
        "blockOwnerDeletion": True,
        "controller": True,
    }
    generation = str(meta.get("generation", 1))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {"scaledjob.keda.sh/generation": generation, **annotations_of(obj)},
            "ownerReferences": [owner],
        },
        "spec": {
            **target,
            "template": {
                **template,
                "metadata": {**inner, "labels": {**(inner.get("labels") or {}), NAME_LABEL: meta["name"]}},
                "spec": {**pod, "restartPolicy": pod.get("restartPolicy") or "OnFailure"},
            },
        },
    }
