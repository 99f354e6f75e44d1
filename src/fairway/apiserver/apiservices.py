"""Which APIServices does a cluster have besides the API server's own? Other projects' groups', and metrics-server's.

With metrics-server comes the role that lets viewers read metrics. The server's own APIServices are `bootstrap`'s.

Source: metrics-server manifests/base; kube-aggregator pkg/controllers/autoregister,
pkg/controlplane/controller/crdregistration (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.admission.rbac.aggregation import reconcile
from fairway.apiserver.bootstrap import API_PRIORITIES
from fairway.apiserver.resources import METRICS_GROUP, Resources
from fairway.cluster.actions import Replace
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import rfc3339

READER = "system:aggregated-metrics-reader"
METRICS = f"v1beta1.{METRICS_GROUP}"
_GK, _ROLE_GK = "APIService.apiregistration.k8s.io", "ClusterRole.rbac.authorization.k8s.io"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_AUTOMANAGED = {"kube-aggregator.kubernetes.io/automanaged": "true"}
_LABEL = {"k8s-app": "metrics-server"}
# Source: crdregistration_controller.go (1000, 100), metrics-server's apiservice.yaml (100, 100).
_OF_DEFINITIONS = {"groupPriorityMinimum": 1000, "versionPriority": 100}
_OF_METRICS = {"groupPriorityMinimum": 100, "versionPriority": 100}


def register(store: Store, resources: Resources) -> None:
    """Create what is missing, and drop the APIServices of groups that are no longer served."""
    if resources.serves_metrics and store.get(Key(_ROLE_GK, "", READER)) is None:
        store.create(_reader())
        for change in reconcile(store).actions:
            if isinstance(change, Replace):
                store.replace(change.obj)
    wanted = _wanted(resources)
    for obj in list(store.objects(_GK)):
        meta = obj["metadata"]
        is_ours = meta["name"] == METRICS or _AUTOMANAGED.items() <= (meta.get("labels") or {}).items()
        if is_ours and meta["name"] not in wanted:
            store.delete(Key(_GK, "", meta["name"]))
    for name, (labels, spec, reason, message) in wanted.items():
        key = Key(_GK, "", name)
        if store.get(key) is None:
            service = _service(name, labels, spec)
            store.create(service)
            store.set_status(key, _available(reason, message, store.now_us))


_Wanted = tuple[dict[str, str], dict[str, Any], str, str]


def _wanted(resources: Resources) -> dict[str, _Wanted]:
    """By name: labels, what the spec has beside group and version, and why it is available."""
    local = ("Local", "Local APIServices are always available")
    apart = {METRICS, "v1.apiregistration.k8s.io"}
    served = sorted({f"{r.version}.{r.group}" for r in resources.by_route.values()} - apart)
    found: dict[str, _Wanted] = {
        name: (_AUTOMANAGED, _OF_DEFINITIONS, *local) for name in served if name not in API_PRIORITIES
    }
    if resources.serves_metrics:
        service = {"name": "metrics-server", "namespace": "kube-system", "port": 443}
        spec = {**_OF_METRICS, "insecureSkipTLSVerify": True, "service": service}
        found[METRICS] = (_LABEL, spec, "Passed", "all checks passed")
    return found


def _service(name: str, labels: dict[str, str], spec: dict[str, Any]) -> Obj:
    version, _, group = name.partition(".")
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name, "labels": labels},
        "spec": {"group": group, "version": version, **spec},
    }


def _available(reason: str, message: str, now_us: int) -> dict[str, Any]:
    condition = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": rfc3339(now_us),
        "reason": reason,
        "message": message,
    }
    return {"conditions": [condition]}


def _reader() -> Obj:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": READER,
            "labels": {**_LABEL, **{f"{_AGGREGATE}{role}": "true" for role in ("admin", "edit", "view")}},
        },
        "rules": [
            {"apiGroups": [METRICS_GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}
        ],
    }
