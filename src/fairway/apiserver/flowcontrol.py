"""The flow schemas and priority levels every cluster starts with. Nothing here queues by them.

Source: apiserver pkg/apis/flowcontrol/bootstrap/default.go; util/flowcontrol/apf_controller.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairway.kube.objects import Obj

API_VERSION = "flowcontrol.apiserver.k8s.io/v1"
_ANNOTATIONS = {"apf.kubernetes.io/autoupdate-spec": "true"}
_EVERY = ["*"]
_BY_USER, _BY_NAMESPACE = "ByUser", "ByNamespace"

# name: (shares, percent that others may borrow, (queues, hand size, queue length) or None: refuse at once)
_LEVELS: dict[str, tuple[int, int, tuple[int, int, int] | None]] = {
    "catch-all": (5, 0, None),
    "global-default": (20, 50, (128, 6, 50)),
    "leader-election": (10, 0, (16, 4, 50)),
    "node-high": (40, 25, (64, 6, 50)),
    "system": (30, 33, (64, 6, 50)),
    "workload-high": (40, 50, (128, 6, 50)),
    "workload-low": (100, 90, (128, 6, 50)),
}

# name: (level, precedence, how flows are told apart, subjects `kind:name`)
_SCHEMAS: dict[str, tuple[str, int, str, str]] = {
    "catch-all": (
        "catch-all",
        10000,
        _BY_USER,
        "Group:system:unauthenticated Group:system:authenticated",
    ),
    "endpoint-controller": (
        "workload-high",
        150,
        _BY_USER,
        "User:system:kube-controller-manager ServiceAccount:endpoint-controller "
        "ServiceAccount:endpointslicemirroring-controller",
    ),
    "exempt": ("exempt", 1, "", "Group:system:masters"),
    "global-default": (
        "global-default",
        9900,
        _BY_USER,
        "Group:system:unauthenticated Group:system:authenticated",
    ),
    "kube-controller-manager": ("workload-high", 800, _BY_NAMESPACE, "User:system:kube-controller-manager"),
    "kube-scheduler": ("workload-high", 800, _BY_NAMESPACE, "User:system:kube-scheduler"),
    "kube-system-service-accounts": ("workload-high", 900, _BY_NAMESPACE, "ServiceAccount:*"),
    "probes": ("exempt", 2, "", "Group:system:unauthenticated Group:system:authenticated"),
    "service-accounts": ("workload-low", 9000, _BY_USER, "Group:system:serviceaccounts"),
    "system-leader-election": (
        "leader-election",
        100,
        _BY_USER,
        "User:system:kube-controller-manager User:system:kube-scheduler ServiceAccount:*",
    ),
    "system-node-high": ("node-high", 400, _BY_USER, "Group:system:nodes"),
    "system-nodes": ("system", 500, _BY_USER, "Group:system:nodes"),
    "workload-leader-election": ("leader-election", 200, _BY_USER, "ServiceAccount:*"),
}


def objects(now: str) -> Iterator[Obj]:
    """All of them; `now` is when the schemas were found to have their levels (RFC 3339)."""
    exempt = {"type": "Exempt", "exempt": {"lendablePercent": 0, "nominalConcurrencyShares": 0}}
    yield _object("PriorityLevelConfiguration", "exempt", exempt)
    for name, (shares, lendable, queues) in _LEVELS.items():
        limited = {
            "nominalConcurrencyShares": shares,
            "lendablePercent": lendable,
            "limitResponse": _response(queues),
        }
        yield _object("PriorityLevelConfiguration", name, {"type": "Limited", "limited": limited})
    for name, (level, precedence, method, subjects) in _SCHEMAS.items():
        spec: dict[str, Any] = {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "rules": [{"subjects": [_subject(s) for s in subjects.split()], **_rules(name)}],
        }
        if method:
            spec["distinguisherMethod"] = {"type": method}
        yield {**_object("FlowSchema", name, spec), "status": {"conditions": [_found(level, now)]}}


def _object(kind: str, name: str, spec: dict[str, Any]) -> Obj:
    meta = {"name": name, "annotations": dict(_ANNOTATIONS)}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec}


def _response(queues: tuple[int, int, int] | None) -> dict[str, Any]:
    if queues is None:
        return {"type": "Reject"}
    length = {"queues": queues[0], "handSize": queues[1], "queueLengthLimit": queues[2]}
    return {"type": "Queue", "queuing": length}


def _subject(text: str) -> dict[str, Any]:
    kind, _, name = text.partition(":")
    if kind == "ServiceAccount":
        return {"kind": kind, "serviceAccount": {"name": name, "namespace": "kube-system"}}
    return {"kind": kind, kind.lower(): {"name": name}}


def _rules(name: str) -> dict[str, Any]:
    """What requests a schema is about: everything, but for the few that are for one purpose."""
    leases = _resources("get create update", "coordination.k8s.io", "leases")
    if name in ("system-leader-election", "workload-leader-election"):
        return {"resourceRules": [leases]}
    if name == "endpoint-controller":
        return {"resourceRules": [_resources("get create update", "", "endpoints")]}
    if name == "system-node-high":
        nodes = {
            "verbs": _EVERY,
            "apiGroups": [""],
            "resources": ["nodes", "nodes/status"],
            "clusterScope": True,
        }
        return {"resourceRules": [nodes, _resources("*", "coordination.k8s.io", "leases")]}
    if name == "probes":
        return {
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]
        }
    everything = {**_resources("*", "*", "*"), "clusterScope": True}
    return {
        "resourceRules": [everything],
        "nonResourceRules": [{"verbs": _EVERY, "nonResourceURLs": _EVERY}],
    }


def _resources(verbs: str, group: str, resource: str) -> dict[str, Any]:
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": [resource], "namespaces": _EVERY}


def _found(level: str, now: str) -> dict[str, str]:
    return {
        "type": "Dangling",
        "status": "False",
        "lastTransitionTime": now,
        "reason": "Found",
        "message": (
            f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" and it exists'
        ),
    }
