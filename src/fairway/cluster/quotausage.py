"""What does an object count towards a ResourceQuota, and how much of a quota is used?

Amounts are integers in the unit of the resource behind the name: `requests.cpu` and `limits.cpu` in
milli-CPU, everything else in whole units. Used by quota admission and by the quota controller.

Source: pkg/quota/v1/evaluator/core/pods.go, persistent_volume_claims.go, services.go (v1.36).
"""

from __future__ import annotations

from typing import Any, Final

from fairway.cluster.actions import View
from fairway.cluster.metadata import qos_class
from fairway.kube import quantity
from fairway.kube.kinds import BY_GROUP_KIND, Kind, kind_named
from fairway.kube.memos import memo
from fairway.kube.objects import Key, Obj, dig, gk_of, spec_of, status_of
from fairway.kube.podrequests import pod_limits, pod_requests
from fairway.kube.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Resources,
    format_amount,
    is_extended,
    is_hugepages,
)

QUOTA: Final = "ResourceQuota"
_COMPUTE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)

# Counted under their plural alone, beside `count/…`. Source: legacyObjectCountAliases.
_LEGACY_COUNTS: Final[dict[str, str]] = {
    "ConfigMap": "configmaps",
    "ResourceQuota": "resourcequotas",
    "ReplicationController": "replicationcontrollers",
    "Secret": "secrets",
    "Service": "services",
    "PersistentVolumeClaim": "persistentvolumeclaims",
}

STORAGE_CLASS_SUFFIX: Final = ".storageclass.storage.k8s.io/"


def base_resource(name: str) -> str:
    """The resource a quota name is about: `requests.cpu` → `cpu`, `limits.memory` → `memory`."""
    if STORAGE_CLASS_SUFFIX in name:
        name = name.partition(STORAGE_CLASS_SUFFIX)[2]
    for prefix in ("requests.", "limits."):
        if name.startswith(prefix):
            name = name[len(prefix) :]
            break
    return MEMORY if name == "storage" else name


def amount(name: str, value: object) -> int:
    return quantity.milli_ceil(value) if base_resource(name) == CPU else quantity.whole_ceil(value)


def format_used(name: str, value: int) -> str:
    if value == 0:
        return "0"
    return format_amount(base_resource(name), value)


def hard_of(quota: Obj) -> Resources:
    """`spec.hard` as amounts."""
    return {n: amount(n, v) for n, v in (spec_of(quota).get("hard") or {}).items()}


def count_name(kind: Kind) -> str:
    return f"count/{kind.plural}.{kind.group}" if kind.group else f"count/{kind.plural}"


# What pods count, by the identity of their spec, which is kept alive beside it. Pods of one template share it.
_OF_SPEC: Final[dict[int, tuple[dict[str, Any], Resources]]] = memo()
_MAX_SPECS: Final = 16384


def usage_of(obj: Obj) -> Resources:
    """Everything this object counts, under every name it counts as."""
    gk = gk_of(obj)
    usage: Resources = {count_name(kind_named(gk)): 1}
    if gk in _LEGACY_COUNTS:
        usage[_LEGACY_COUNTS[gk]] = 1
    if gk == "Pod":
        if is_counted_pod(obj):
            usage["pods"] = 1
            usage.update(_of_pod_spec(obj.get("spec") or {}))
    elif gk == "PersistentVolumeClaim":
        usage.update(_of_claim(obj))
    elif gk == "Service":
        usage.update(_of_service(obj))
    return usage


def is_counted_pod(pod: Obj) -> bool:
    """Pods that have ended count only under `count/pods`."""
    return status_of(pod).get("phase") not in ("Succeeded", "Failed")


def _of_pod_spec(spec: dict[str, Any]) -> Resources:
    known = _OF_SPEC.get(id(spec))
    if known is not None and known[0] is spec:
        return known[1]
    usage: Resources = {}
    for name, value in pod_requests(spec).items():
        if name in _COMPUTE or is_hugepages(name):
            usage[name] = usage[f"requests.{name}"] = value
        elif is_extended(name):
            usage[f"requests.{name}"] = value
    for name, value in pod_limits(spec).items():
        if name in _COMPUTE:
            usage[f"limits.{name}"] = value
    if len(_OF_SPEC) >= _MAX_SPECS:
        _OF_SPEC.clear()
    _OF_SPEC[id(spec)] = (spec, usage)
    return usage


def _of_claim(claim: Obj) -> Resources:
    asked = dig(claim, "spec", "resources", "requests", "storage")
    usage: Resources = {}
    if asked is not None:
        usage["requests.storage"] = quantity.whole_ceil(asked)
    class_name = dig(claim, "spec", "storageClassName")
    if class_name:
        prefix = f"{class_name}{STORAGE_CLASS_SUFFIX}"
        usage[f"{prefix}persistentvolumeclaims"] = 1
        if asked is not None:
            usage[f"{prefix}requests.storage"] = quantity.whole_ceil(asked)
    return usage


def _of_service(service: Obj) -> Resources:
    spec = spec_of(service)
    ports = len(spec.get("ports") or ())
    if spec.get("type") == "LoadBalancer":
        nodes = 0 if spec.get("allocateLoadBalancerNodePorts") is False else ports
        return {"services.loadbalancers": 1, "services.nodeports": nodes}
    return {"services.nodeports": ports} if spec.get("type") == "NodePort" else {}


_BY_ATTRIBUTES: Final = "VolumeAttributesClass"


def matches_scopes(quota: Obj, obj: Obj) -> bool:
    """Whether a quota's scopes include this object: claims by their attributes class, pods by all others."""
    spec = spec_of(quota)
    terms = [{"scopeName": s, "operator": "Exists"} for s in spec.get("scopes") or ()]
    terms += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    if not terms:
        return True
    if gk_of(obj) == "PersistentVolumeClaim":
        name = dig(obj, "spec", "volumeAttributesClassName") or ""
        return all(t.get("scopeName") == _BY_ATTRIBUTES and _matches_class(t, name) for t in terms)
    return gk_of(obj) == "Pod" and all(_matches_scope(t, obj) for t in terms)


def _matches_scope(term: dict[str, Any], pod: Obj) -> bool:
    spec = spec_of(pod)
    scope = term.get("scopeName")
    if scope == "Terminating":
        return spec.get("activeDeadlineSeconds") is not None
    if scope == "NotTerminating":
        return spec.get("activeDeadlineSeconds") is None
    if scope == "BestEffort":
        return qos_class(spec) == "BestEffort"
    if scope == "NotBestEffort":
        return qos_class(spec) != "BestEffort"
    if scope == "PriorityClass":
        return _matches_class(term, spec.get("priorityClassName") or "")
    if scope == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec)
    return False


def _matches_class(term: dict[str, Any], name: str) -> bool:
    operator, values = term.get("operator", "Exists"), term.get("values") or ()
    if operator == "Exists":
        return bool(name)
    if operator == "DoesNotExist":
        return not name
    return (name in values) if operator == "In" else (name not in values)


def _crosses_namespaces(spec: dict[str, Any]) -> bool:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        weighted = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [w.get("podAffinityTerm") or {} for w in weighted]
        if any(t.get("namespaces") or t.get("namespaceSelector") is not None for t in terms):
            return True
    return False


def kinds_counted(quota: Obj) -> list[str]:
    """The group kinds that can count towards this quota, sorted."""
    found = []
    for name in spec_of(quota).get("hard") or {}:
        if name.startswith("count/"):
            found += [gk for gk, kind in BY_GROUP_KIND.items() if count_name(kind) == name]
        elif name in _LEGACY_COUNTS.values():
            found += [gk for gk, plural in _LEGACY_COUNTS.items() if plural == name]
        elif name.startswith("services."):
            found.append("Service")
        elif STORAGE_CLASS_SUFFIX in name or name == "requests.storage":
            found.append("PersistentVolumeClaim")
        else:
            found.append("Pod")
    return sorted(dict.fromkeys(found))


def used(view: View, quota: Obj) -> Resources:
    """How much of each of its hard resources is used. O(objects of the kinds it counts in the namespace)."""
    total = dict.fromkeys(spec_of(quota).get("hard") or (), 0)
    for gk in kinds_counted(quota):
        for obj in view.objects(gk, quota["metadata"]["namespace"]):
            if matches_scopes(quota, obj):
                for name, value in usage_of(obj).items():
                    if name in total:
                        total[name] += value
    return total


def quotas_in(view: View, namespace: str) -> list[Obj]:
    return view.objects(QUOTA, namespace)


def quota_key(quota: Obj) -> Key:
    return Key(QUOTA, quota["metadata"]["namespace"], quota["metadata"]["name"])
