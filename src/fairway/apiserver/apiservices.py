"""Which APIServices are there? One per group and version that is served; those of the server itself are `Local`.

With metrics-server comes its APIService, and the role that lets viewers read metrics.

Source: metrics-server manifests/base; kube-aggregator pkg/apiserver, pkg/controllers/autoregister;
controlplane/apiserver/aggregator.go apiVersionPriorities (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.admission.rbac.aggregation import reconcile
from fairway.apiserver.resources import METRICS_GROUP, Resources
from fairway.cluster.actions import Replace
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import rfc3339

READER = "system:aggregated-metrics-reader"
_GK, _ROLE_GK = "APIService.apiregistration.k8s.io", "ClusterRole.rbac.authorization.k8s.io"
_METRICS = f"v1beta1.{METRICS_GROUP}"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
# Of the API server's own groups and versions: how important the group is, and the version within it.
_PRIORITIES: dict[str, tuple[int, int]] = {
    "v1.": (18000, 1),
    "v1.admissionregistration.k8s.io": (16700, 15),
    "v1.apiextensions.k8s.io": (16700, 15),
    "v1.apps": (17800, 15),
    "v1.authentication.k8s.io": (17700, 15),
    "v1.authorization.k8s.io": (17600, 15),
    "v1.autoscaling": (17500, 15),
    "v1.batch": (17400, 15),
    "v1.certificates.k8s.io": (17300, 15),
    "v1.coordination.k8s.io": (16500, 15),
    "v1.discovery.k8s.io": (16200, 15),
    "v1.events.k8s.io": (17750, 15),
    "v1.flowcontrol.apiserver.k8s.io": (16100, 21),
    "v1.networking.k8s.io": (17200, 15),
    "v1.node.k8s.io": (16300, 15),
    "v1.policy": (17100, 15),
    "v1.rbac.authorization.k8s.io": (17000, 15),
    "v1.resource.k8s.io": (16200, 25),
    "v1.scheduling.k8s.io": (16600, 15),
    "v1.storage.k8s.io": (16800, 15),
    "v2.autoscaling": (17500, 30),
}
_OWN_GROUPS = frozenset(name.partition(".")[2] for name in _PRIORITIES)
# Groups of definitions. Source: autoregister's crdRegistrationController.
_OTHER_PRIORITY, _OTHER_VERSION = 1000, 100
# Serves the others, and has none itself.
_OF_THE_AGGREGATOR = "apiregistration.k8s.io"
_LOCAL = ("Local", "Local APIServices are always available")
_PASSED = ("Passed", "all checks passed")


def register(store: Store, resources: Resources) -> None:
    """Create what is missing, and drop the APIServices of groups that are no longer served."""
    if resources.serves_metrics and store.get(Key(_ROLE_GK, "", READER)) is None:
        store.create(_reader())
        for change in reconcile(store).actions:
            if isinstance(change, Replace):
                store.replace(change.obj)
    served = {
        f"{v}.{group}": (group, v, i)
        for group, vs in resources.preferred.items()
        for i, v in enumerate(vs)
        if group != _OF_THE_AGGREGATOR
    }
    for obj in list(store.objects(_GK)):
        meta = obj["metadata"]
        is_ours = _AUTOMANAGED in (meta.get("labels") or {}) or meta["name"] == _METRICS
        if meta["name"] not in served and is_ours:
            store.delete(Key(_GK, "", meta["name"]))
    for name, (group, version, place) in served.items():
        key = Key(_GK, "", name)
        if store.get(key) is None:
            service = _service(group, version, place, store.now_us)
            store.create(service)
            store.set_status(key, service["status"])


def _reader() -> Obj:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": READER,
            "labels": {
                "k8s-app": "metrics-server",
                **{f"{_AGGREGATE}{role}": "true" for role in ("admin", "edit", "view")},
            },
        },
        "rules": [
            {"apiGroups": [METRICS_GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}
        ],
    }


def _service(group: str, version: str, place: int, now_us: int) -> Obj:
    spec: dict[str, Any] = {"version": version}
    if group:
        spec["group"] = group
    meta: dict[str, Any] = {"name": f"{version}.{group}"}
    reason, message = _LOCAL
    if group == METRICS_GROUP:
        meta["labels"] = {"k8s-app": "metrics-server"}
        spec.update(groupPriorityMinimum=100, versionPriority=100, insecureSkipTLSVerify=True)
        spec["service"] = {"name": "metrics-server", "namespace": "kube-system", "port": 443}
        reason, message = _PASSED
    else:
        meta["labels"] = {_AUTOMANAGED: "onstart" if group in _OWN_GROUPS else "true"}
        priorities = _PRIORITIES.get(meta["name"], (_OTHER_PRIORITY, _OTHER_VERSION - place))
        spec["groupPriorityMinimum"], spec["versionPriority"] = priorities
    available = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": rfc3339(now_us),
        "reason": reason,
        "message": message,
    }
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": meta,
        "spec": spec,
        "status": {"conditions": [available]},
    }
