"""What do the webhooks of Deployments, StatefulSets and LeaderWorkerSets refuse?

Their pods are the jobs; the object itself is never suspended, it counts as suspended while nothing of it is ready.

Source: pkg/controller/jobs/{deployment,statefulset,leaderworkerset}/…_webhook.go; validation.go
ValidateImmutablePodGroupPodSpec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.cluster.actions import View
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, spec_of, status_of
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault
from fairway.queueing.webhooks.gatedby import gated_by_faults
from fairway.queueing.webhooks.jobs import QUEUE_NAME, elastic_faults, priority_class_faults, queue_name_of
from fairway.queueing.webhooks.jobshapes import Shape
from fairway.queueing.webhooks.metadata import LABELS, named_object_faults
from fairway.queueing.webhooks.ownership import should_be_suspended
from fairway.queueing.webhooks.pods import SUSPENDED_BY_PARENT
from fairway.queueing.webhooks.settings import Settings
from fairway.queueing.webhooks.topologyannotations import bound_faults, grouping_faults, topology_faults

_REPLICAS: Path = ("spec", "replicas")
_GROUP: Path = ("spec", "leaderWorkerTemplate")
_MOST_REPLICAS = 1_000_000
# What decides how a pod schedules. Source: utilpod.SpecShape.
_SHAPE = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)


def serving_faults(shape: Shape, obj: Obj, old: Obj | None, view: View, settings: Settings) -> list[Fault]:
    if shape.name == "statefulset" and is_managed_by_another(obj):
        return []
    out = named_object_faults(obj, QUEUE_NAME) + elastic_faults(shape, obj, settings)
    is_groups = shape.name == "leaderworkerset"
    if is_groups:
        out += _replica_faults(obj)
    # A new LeaderWorkerSet hears of its gate before its topology; the rest of an update comes after both.
    gate = gated_by_faults(obj) if settings.is_on("AdmissionGatedBy") and (old is None or is_groups) else []
    out += gate
    if is_groups:
        out += _group_faults(shape, obj, settings)
    if old is None:
        return out
    is_idle = not status_of(old).get("readyReplicas")
    now, was = queue_name_of(obj), queue_name_of(old)
    if not is_idle or not now:
        out += f.immutable(f.at_key(LABELS, QUEUE_NAME), now, was)
    out += priority_class_faults(obj, old, is_suspended=is_idle)
    if settings.is_on("AdmissionGatedBy"):
        out += gated_by_faults(obj, old)
    if shape.name != "deployment" and should_be_suspended(view, obj, settings):
        out += _STAYS[shape.name](obj, old)
    return out


def is_managed_by_another(obj: Obj) -> bool:
    """A StatefulSet that another framework (LeaderWorkerSet) made."""
    meta = (spec_of(obj).get("template") or {}).get("metadata") or {}
    parent = (meta.get("annotations") or {}).get(SUSPENDED_BY_PARENT)
    return parent is not None and parent != "statefulset"


def _replica_faults(obj: Obj) -> list[Fault]:
    replicas = spec_of(obj).get("replicas")
    if replicas is None:
        return []
    if replicas < 0:
        why = f"must be >= 0, got {replicas}"
    elif replicas > _MOST_REPLICAS:
        why = f"must be <= {_MOST_REPLICAS}, got {replicas}"
    else:
        return []
    return [f.invalid(_REPLICAS, replicas, f"invalid LeaderWorkerSet replicas: {why}")]


def _group_faults(shape: Shape, obj: Obj, settings: Settings) -> list[Fault]:
    if not settings.is_on("TopologyAwareScheduling"):
        return []
    templates = shape.templates(obj)
    out = [fault for t in templates for fault in (*topology_faults(t, settings), *bound_faults(t))]
    return out + grouping_faults(templates)


def _stateful_set_stays(new: Obj, old: Obj) -> list[Fault]:
    templates = [spec_of(o).get("template") or {} for o in (new, old)]
    now_spec, old_spec = (_pod_spec_of(t) for t in templates)
    out = _pod_spec_stays(now_spec, old_spec, ("spec", "template", "spec"))
    now, was = (spec_of(o).get("replicas", 1) for o in (new, old))
    if now and was:
        out += f.immutable(_REPLICAS, now, was)
    if not was and now and status_of(new).get("replicas"):
        out.append(f.forbidden(_REPLICAS, "scaling down is still in progress"))
    return out


def _leader_worker_set_stays(new: Obj, old: Obj) -> list[Fault]:
    out: list[Fault] = []
    now, was = (spec_of(o).get("leaderWorkerTemplate") or {} for o in (new, old))
    for field in ("leaderTemplate", "workerTemplate"):
        at: Path = (*_GROUP, field)
        if (now.get(field) is None) != (was.get(field) is None):
            out += f.immutable(at, now.get(field), was.get(field))
        elif now.get(field) is not None:
            out += _pod_spec_stays(_pod_spec_of(now[field]), _pod_spec_of(was[field]), (*at, "spec"))
    return out + f.immutable((*_GROUP, "size"), now.get("size", 1), was.get("size", 1))


_STAYS = {"statefulset": _stateful_set_stays, "leaderworkerset": _leader_worker_set_stays}


def _pod_spec_of(template: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = template.get("spec") or {}
    return found


def _pod_spec_stays(new: Mapping[str, Any], old: Mapping[str, Any], path: Path) -> list[Fault]:
    """Unlike kube: fields in a fixed order, where Go's order is that of a set."""
    out: list[Fault] = []
    for kind in ("containers", "initContainers"):
        now, was = (new.get(kind) or [], old.get(kind) or [])
        if len(now) != len(was):
            out.append(f.invalid((*path, kind), [_shape(c) for c in now], f.IMMUTABLE))
            continue
        for i, (a, b) in enumerate(zip(now, was, strict=True)):
            at: Path = (*path, kind, i)
            out += f.immutable((*at, "ports"), a.get("ports"), b.get("ports"))
            requests = [_shape(c)["resources"]["requests"] for c in (a, b)]
            out += f.immutable((*at, "resources", "requests"), *requests)
    for field in _SHAPE:
        out += f.immutable((*path, field), new.get(field), old.get(field))
    return out


def _shape(container: Mapping[str, Any]) -> dict[str, Any]:
    requests = (container.get("resources") or {}).get("requests")
    return {"ports": container.get("ports"), "resources": {"requests": requests}}
