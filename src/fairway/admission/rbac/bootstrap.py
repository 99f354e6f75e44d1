"""The roles and bindings every cluster starts with.

Those of the controllers, and those in single namespaces, are `controllerroles`.

Source: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairway.admission.rbac.aggregation import aggregated_rules
from fairway.admission.rbac.attributes import RBAC_GROUP
from fairway.admission.rbac.controllerroles import (
    BOUND_IN_NAMESPACES,
    EVENTS,
    IN_NAMESPACES,
    OF_CONTROLLERS,
    PREFIX,
    READ,
    Row,
    Rows,
)
from fairway.admission.request import ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, SYSTEM_MASTERS
from fairway.kube.objects import Obj

API_VERSION = f"{RBAC_GROUP}/v1"
_LABEL = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AUTOUPDATE = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

_WRITE = "create delete deletecollection patch update"
_READ_UPDATE = "get list patch update watch"
_CERTIFICATES = "certificates.k8s.io"
_RESOURCE = "resource.k8s.io"
_STORAGE = "storage.k8s.io"
_LEASES = "coordination.k8s.io"

_VIEW: Rows = (
    (
        READ,
        "",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
        "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
    ),
    (
        READ,
        "",
        "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status "
        "resourcequotas resourcequotas/status",
    ),
    (READ, "", "namespaces"),
    (READ, "discovery.k8s.io", "endpointslices"),
    (
        READ,
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status "
        "replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    ),
    (READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    (READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    (
        READ,
        "extensions",
        "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses "
        "ingresses/status networkpolicies replicasets replicasets/scale replicasets/status "
        "replicationcontrollers/scale",
    ),
    (READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    (READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    (READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
)

_EDIT: Rows = (
    (READ, "", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
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
    (f"{_WRITE} {READ}", "coordination.k8s.io", "leases"),
    (_WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
)

_ADMIN: Rows = (
    ("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    (f"{_WRITE} {READ}", RBAC_GROUP, "rolebindings roles"),
)

_NODE: Rows = (
    ("create", "authentication.k8s.io", "tokenreviews"),
    ("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    (READ, "", "services"),
    ("create get list watch", "", "nodes"),
    ("patch update", "", "nodes/status"),
    ("patch update", "", "nodes"),
    ("create patch update", "", "events"),
    (READ, "", "pods"),
    ("create delete", "", "pods"),
    ("patch update", "", "pods/status"),
    ("create", "", "pods/eviction"),
    (READ, "", "configmaps secrets"),
    ("get", "", "persistentvolumeclaims persistentvolumes"),
    ("get", "", "endpoints"),
    ("create get list watch", _CERTIFICATES, "certificatesigningrequests"),
    ("create delete get patch update", _LEASES, "leases"),
    ("get", _STORAGE, "volumeattachments"),
    ("create", "", "serviceaccounts/token"),
    ("get patch update", "", "persistentvolumeclaims/status"),
    (READ, _STORAGE, "csidrivers"),
    ("create delete get patch update", _STORAGE, "csinodes"),
    (READ, "node.k8s.io", "runtimeclasses"),
    ("get", _RESOURCE, "resourceclaims"),
    ("deletecollection", _RESOURCE, "resourceslices"),
    ("get", "", "serviceaccounts"),
)

_SCHEDULER: Rows = (
    EVENTS,
    ("create", _LEASES, "leases"),
    ("get list update watch", _LEASES, "leases", "kube-scheduler"),
    (READ, "", "nodes"),
    ("delete get list watch", "", "pods"),
    ("create", "", "bindings pods/binding"),
    ("patch update", "", "pods/status"),
    (READ, "", "replicationcontrollers services"),
    (READ, "apps,extensions", "replicasets"),
    (READ, "apps", "statefulsets"),
    (READ, "policy", "poddisruptionbudgets"),
    (READ, "", "persistentvolumeclaims persistentvolumes"),
    ("create", "authentication.k8s.io", "tokenreviews"),
    ("create", "authorization.k8s.io", "subjectaccessreviews"),
    (READ, _STORAGE, "csinodes"),
    (READ, _STORAGE, "volumeattachments"),
    (READ, "", "namespaces"),
    (READ, _STORAGE, "csidrivers"),
    (READ, _STORAGE, "csistoragecapacities"),
    (READ, _RESOURCE, "deviceclasses"),
    (_READ_UPDATE, _RESOURCE, "resourceclaims"),
    (_READ_UPDATE, _RESOURCE, "resourceclaims/status"),
    (_READ_UPDATE, "", "pods/finalizers"),
    (READ, _RESOURCE, "resourceslices"),
    (READ, _RESOURCE, "devicetaintrules"),
)

_CONTROLLER_MANAGER: Rows = (
    EVENTS,
    ("create", _LEASES, "leases"),
    ("get update", _LEASES, "leases", "kube-controller-manager"),
    ("create", "", "secrets serviceaccounts"),
    ("delete", "", "secrets"),
    ("get", "", "configmaps namespaces secrets serviceaccounts"),
    ("update", "", "secrets serviceaccounts"),
    ("create", "authentication.k8s.io", "tokenreviews"),
    ("create", "authorization.k8s.io", "subjectaccessreviews"),
    ("list watch", "*", "*"),
    ("create", "", "serviceaccounts/token"),
)

_REVIEWS: Rows = (
    ("create", "authentication.k8s.io", "tokenreviews"),
    ("create", "authorization.k8s.io", "subjectaccessreviews"),
)

_PLAIN: dict[str, Rows] = {
    "system:auth-delegator": _REVIEWS,
    "system:basic-user": (
        ("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        ("create", "authentication.k8s.io", "selfsubjectreviews"),
    ),
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": (
        ("create", _CERTIFICATES, "certificatesigningrequests/nodeclient"),
    ),
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": (
        ("create", _CERTIFICATES, "certificatesigningrequests/selfnodeclient"),
    ),
    "system:certificates.k8s.io:kube-apiserver-client-approver": (
        ("approve", _CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client"),
    ),
    "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver": (
        ("approve", _CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
    ),
    "system:certificates.k8s.io:kubelet-serving-approver": (
        ("approve", _CERTIFICATES, "signers", "kubernetes.io/kubelet-serving"),
    ),
    "system:certificates.k8s.io:legacy-unknown-approver": (
        ("approve", _CERTIFICATES, "signers", "kubernetes.io/legacy-unknown"),
    ),
    "system:heapster": (
        (READ, "", "events namespaces nodes pods"),
        (READ, "extensions", "deployments"),
    ),
    "system:kube-aggregator": ((READ, "", "endpoints services"),),
    "system:kube-controller-manager": _CONTROLLER_MANAGER,
    "system:kube-dns": (("list watch", "", "endpoints services"),),
    "system:kube-scheduler": _SCHEDULER,
    "system:kubelet-api-admin": (
        (READ, "", "nodes"),
        ("proxy", "", "nodes"),
        ("*", "", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
        ("*", "", "nodes/configz nodes/healthz nodes/pods"),
    ),
    "system:node": _NODE,
    "system:node-bootstrapper": (("create get list watch", _CERTIFICATES, "certificatesigningrequests"),),
    "system:node-problem-detector": (("get", "", "nodes"), ("patch", "", "nodes/status"), EVENTS),
    "system:node-proxier": (
        ("list watch", "", "endpoints services"),
        (READ, "", "nodes"),
        EVENTS,
        ("list watch", "networking.k8s.io", "servicecidrs"),
        ("list watch", "discovery.k8s.io", "endpointslices"),
    ),
    "system:persistent-volume-provisioner": (
        ("create delete get list watch", "", "persistentvolumes"),
        ("get list update watch", "", "persistentvolumeclaims"),
        (READ, _STORAGE, "storageclasses"),
        ("watch", "", "events"),
        EVENTS,
    ),
    "system:volume-scheduler": (
        (_READ_UPDATE, "", "persistentvolumes"),
        (READ, _STORAGE, "storageclasses"),
        (_READ_UPDATE, "", "persistentvolumeclaims"),
    ),
}

# Role → what each of its rules lets read.
_URLS: dict[str, tuple[str, ...]] = {
    "system:discovery": (
        "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
    ),
    "system:monitoring": (
        "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*",
        "/flagz",
        "/statusz",
    ),
    "system:public-info-viewer": ("/healthz /livez /readyz /version /version/",),
    "system:service-account-issuer-discovery": (
        "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks "
        "/openid/v1/jwks/",
    ),
}

_GROUPS: dict[str, tuple[str, ...]] = {
    "cluster-admin": (SYSTEM_MASTERS,),
    "system:basic-user": (ALL_AUTHENTICATED,),
    "system:discovery": (ALL_AUTHENTICATED,),
    "system:monitoring": ("system:monitoring",),
    "system:public-info-viewer": (ALL_AUTHENTICATED, ALL_UNAUTHENTICATED),
    "system:service-account-issuer-discovery": ("system:serviceaccounts",),
    # No subjects: the node authorizer, not RBAC, speaks for kubelets.
    "system:node": (),
}
# Role → user, or service account of kube-system; bindings are named like their roles.
_USERS = {
    "system:kube-controller-manager": "system:kube-controller-manager",
    "system:kube-scheduler": "system:kube-scheduler",
    "system:node-proxier": "system:kube-proxy",
    "system:volume-scheduler": "system:kube-scheduler",
}
_ACCOUNTS = {"system:kube-dns": "kube-dns"}


def objects() -> list[Obj]:
    """Roles and bindings, by kind, namespace and name. Aggregated roles carry their rules already."""
    roles = [
        _role("cluster-admin", [_rule("*", "*", "*"), _urls("*", "*")]),
        _part("system:aggregate-to-admin", _ADMIN, "admin"),
        _part("system:aggregate-to-edit", _EDIT, "edit"),
        _part("system:aggregate-to-view", _VIEW, "view"),
        *(_role(name, _rules(rows)) for name, rows in _PLAIN.items()),
        *(_role(name, [_urls("get", row) for row in rows]) for name, rows in _URLS.items()),
        *(_role(PREFIX + name, _rules(rows)) for name, rows in OF_CONTROLLERS.items()),
    ]
    for name in ("view", "edit", "admin"):
        roles.append(_aggregated(name, roles))
    found = [*roles, *_bindings(), *_in_namespaces()]
    return sorted(found, key=lambda o: (o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]))


def _bindings() -> list[Obj]:
    bound = [_binding(name, [_subject("Group", g) for g in members]) for name, members in _GROUPS.items()]
    bound += [_binding(name, [_subject("User", user)]) for name, user in _USERS.items()]
    bound += [_binding(name, [_account(account)]) for name, account in _ACCOUNTS.items()]
    return bound + [_binding(PREFIX + name, [_account(name)]) for name in OF_CONTROLLERS]


def _in_namespaces() -> list[Obj]:
    found = []
    for namespace, roles in IN_NAMESPACES.items():
        for name, rows in roles.items():
            role = {**_role(name, _rules(rows)), "kind": "Role"}
            found.append({**role, "metadata": {**role["metadata"], "namespace": namespace}})
    for namespace, name, role_name, users, accounts in BOUND_IN_NAMESPACES:
        subjects = [_subject("User", u) for u in users.split()] + [_account(a) for a in accounts.split()]
        binding = _binding(name, subjects)
        binding["metadata"]["namespace"] = namespace
        binding["roleRef"] = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": role_name}
        found.append({**binding, "kind": "RoleBinding"})
    return found


def _rule(verbs: str, groups: str, resources: str, names: str = "") -> dict[str, Any]:
    rule = {
        "verbs": sorted(verbs.split()),
        "apiGroups": groups.split(","),
        "resources": sorted(resources.split()),
    }
    return {**rule, "resourceNames": names.split()} if names else rule


def _urls(verbs: str, urls: str) -> dict[str, Any]:
    return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}


def _rules(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [_rule(*row) for row in rows]


def _role(name: str, rules: list[dict[str, Any]], labels: dict[str, str] | None = None) -> Obj:
    meta = {"name": name, "labels": {**_LABEL, **(labels or {})}, "annotations": _AUTOUPDATE}
    return {"apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": meta, "rules": rules}


def _part(name: str, rows: Rows, into: str) -> Obj:
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


def _account(name: str) -> dict[str, Any]:
    return {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
