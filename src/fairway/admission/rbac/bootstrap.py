"""The roles and bindings every cluster starts with: those that people and their clients meet.

Roles of the controllers (`system:controller:…`) are left out: Fairway's controllers act as the API server.

Source: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.admission.rbac.aggregation import aggregated_rules
from fairway.admission.rbac.attributes import RBAC_GROUP
from fairway.admission.request import ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, SYSTEM_MASTERS
from fairway.kube.objects import Obj

API_VERSION = f"{RBAC_GROUP}/v1"
_LABEL = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AUTOUPDATE = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

_READ = "get list watch"
_WRITE = "create delete deletecollection patch update"
_READ_UPDATE = "get list watch update patch"

# (verbs, group, resources); every row is one rule.
_Rows = tuple[tuple[str, str, str], ...]

_VIEW: _Rows = (
    (
        _READ,
        "",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
        "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
    ),
    (
        _READ,
        "",
        "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status "
        "resourcequotas resourcequotas/status",
    ),
    (_READ, "", "namespaces"),
    (_READ, "discovery.k8s.io", "endpointslices"),
    (
        _READ,
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status "
        "replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    ),
    (_READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    (_READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    (
        _READ,
        "extensions",
        "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses "
        "ingresses/status networkpolicies replicasets replicasets/scale replicasets/status "
        "replicationcontrollers/scale",
    ),
    (_READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    (_READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    (_READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
)

_EDIT: _Rows = (
    (_READ, "", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    ("impersonate", "", "serviceaccounts"),
    (_WRITE, "", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    ("create", "", "pods/eviction"),
    (
        _WRITE,
        "",
        "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets "
        "serviceaccounts services services/proxy",
    ),
    ("create", "", "serviceaccounts/token"),
    (
        _WRITE,
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale "
        "statefulsets statefulsets/scale",
    ),
    (_WRITE, "autoscaling", "horizontalpodautoscalers"),
    (_WRITE, "batch", "cronjobs jobs"),
    (
        _WRITE,
        "extensions",
        "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets "
        "replicasets/scale replicationcontrollers/scale",
    ),
    (_WRITE, "policy", "poddisruptionbudgets"),
    (_WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    (f"{_WRITE} {_READ}", "coordination.k8s.io", "leases"),
    (_WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
)

_ADMIN: _Rows = (
    ("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    (f"{_WRITE} {_READ}", RBAC_GROUP, "rolebindings roles"),
)

_NODE: _Rows = (
    ("create", "authentication.k8s.io", "tokenreviews"),
    ("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    (_READ, "", "services"),
    ("create get list watch", "", "nodes"),
    ("patch update", "", "nodes/status"),
    ("patch update", "", "nodes"),
    ("create patch update", "", "events"),
    (_READ, "", "pods"),
    ("create delete", "", "pods"),
    ("patch update", "", "pods/status"),
    ("create", "", "pods/eviction"),
    (_READ, "", "configmaps secrets"),
    ("get", "", "persistentvolumeclaims persistentvolumes"),
    ("get", "", "endpoints"),
    ("create", "", "serviceaccounts/token"),
    ("create delete get patch update", "coordination.k8s.io", "leases"),
    (_READ, "node.k8s.io", "runtimeclasses"),
)

_SCHEDULER: _Rows = (
    ("create patch update", "events.k8s.io", "events"),
    ("create patch update", "", "events"),
    ("create list watch", "coordination.k8s.io", "leases"),
    (_READ, "", "nodes"),
    ("delete get list watch", "", "pods"),
    ("create", "", "bindings pods/binding"),
    ("patch update", "", "pods/status"),
    (_READ, "", "replicationcontrollers services"),
    (_READ, "apps", "replicasets statefulsets"),
    (_READ, "policy", "poddisruptionbudgets"),
    (_READ_UPDATE, "", "persistentvolumeclaims persistentvolumes"),
    (_READ, "storage.k8s.io", "csidrivers csinodes csistoragecapacities storageclasses volumeattachments"),
    (_READ, "", "namespaces"),
    (_READ, "resource.k8s.io", "deviceclasses resourceclaims resourceslices"),
)

_DISCOVERY_URLS = "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"
_PUBLIC_URLS = "/healthz /livez /readyz /version /version/"
_MONITORING_URLS = (
    "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /flagz /statusz"
)


def objects() -> list[Obj]:
    """Cluster roles and cluster role bindings, by name. Aggregated roles carry their rules already."""
    roles = [
        _role("cluster-admin", [_rule("*", "*", "*"), _urls("*", "*")]),
        _part("system:aggregate-to-admin", _ADMIN, "admin"),
        _part("system:aggregate-to-edit", _EDIT, "edit"),
        _part("system:aggregate-to-view", _VIEW, "view"),
        _role("system:discovery", [_urls("get", _DISCOVERY_URLS)]),
        _role("system:public-info-viewer", [_urls("get", _PUBLIC_URLS)]),
        _role("system:monitoring", [_urls("get", _MONITORING_URLS)]),
        _role("system:basic-user", _basic_user()),
        _role("system:auth-delegator", _auth_delegator()),
        _role("system:node", _rules(_NODE)),
        _role("system:kube-scheduler", _rules(_SCHEDULER)),
        _role(
            "system:service-account-issuer-discovery",
            [
                _urls(
                    "get",
                    "/.well-known/openid-configuration "
                    "/.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
                )
            ],
        ),
    ]
    for name in ("view", "edit", "admin"):
        roles.append(_aggregated(name, roles))
    return sorted([*roles, *_bindings()], key=lambda o: (o["kind"], o["metadata"]["name"]))


def _bindings() -> list[Obj]:
    groups = {
        "cluster-admin": (SYSTEM_MASTERS,),
        "system:basic-user": (ALL_AUTHENTICATED,),
        "system:discovery": (ALL_AUTHENTICATED,),
        "system:monitoring": ("system:monitoring",),
        "system:public-info-viewer": (ALL_AUTHENTICATED, ALL_UNAUTHENTICATED),
        "system:service-account-issuer-discovery": ("system:serviceaccounts",),
    }
    bound = [_binding(name, [_subject("Group", g) for g in members]) for name, members in groups.items()]
    # The node binding has no subjects: the node authorizer, not RBAC, speaks for kubelets.
    bound.append(_binding("system:node", []))
    bound.append(_binding("system:kube-scheduler", [_subject("User", "system:kube-scheduler")]))
    return bound


def _basic_user() -> list[dict[str, Any]]:
    return [
        _rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        _rule("create", "authentication.k8s.io", "selfsubjectreviews"),
    ]


def _auth_delegator() -> list[dict[str, Any]]:
    return [
        _rule("create", "authentication.k8s.io", "tokenreviews"),
        _rule("create", "authorization.k8s.io", "subjectaccessreviews"),
    ]


def _rule(verbs: str, group: str, resources: str) -> dict[str, Any]:
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}


def _urls(verbs: str, urls: str) -> dict[str, Any]:
    return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}


def _rules(rows: _Rows) -> list[dict[str, Any]]:
    return [_rule(*row) for row in rows]


def _role(name: str, rules: list[dict[str, Any]], labels: dict[str, str] | None = None) -> Obj:
    meta = {"name": name, "labels": {**_LABEL, **(labels or {})}, "annotations": _AUTOUPDATE}
    return {"apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": meta, "rules": rules}


def _part(name: str, rows: _Rows, into: str) -> Obj:
    return _role(name, _rules(rows), {f"{_AGGREGATE}{into}": "true"})


def _aggregated(name: str, roles: list[Obj]) -> Obj:
    """`admin` collects `edit`, which collects `view`: their own labels say into what they go."""
    into = {"edit": {f"{_AGGREGATE}admin": "true"}, "view": {f"{_AGGREGATE}edit": "true"}}.get(name)
    selector = {"matchLabels": {f"{_AGGREGATE}{name}": "true"}}
    role = {**_role(name, [], into), "aggregationRule": {"clusterRoleSelectors": [selector]}}
    return {**role, "rules": aggregated_rules(role, roles)}


def _binding(name: str, subjects: list[dict[str, Any]]) -> Obj:
    bound: Obj = {
        "apiVersion": API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": dict(_LABEL), "annotations": dict(_AUTOUPDATE)},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": name},
    }
    return {**bound, "subjects": subjects} if subjects else bound


def _subject(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "apiGroup": RBAC_GROUP, "name": name}
