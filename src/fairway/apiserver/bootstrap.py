"""What a cluster has from its first second: namespaces, the kubernetes service, service accounts, roles, classes…

Source: pkg/controlplane/controller/{systemnamespaces,kubernetesservice,clusterauthenticationtrust,
legacytokentracking}, pkg/controlplane/apiserver/aggregator.go, scheduling.PriorityClass bootstrap,
plugin/pkg/auth/authorizer/rbac/bootstrappolicy, pkg/registry/core/componentstatus (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.cluster.store import Store
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Key, Obj, gk_of
from fairway.kube.timestamps import rfc3339

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
CA_CONFIG_MAP = "kube-root-ca.crt"
_CA_NOTE = {
    "kubernetes.io/description": (
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as "
        "the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of "
        "Kubernetes clusters."
    )
}
_SYSTEM_CLASSES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)
# Which parts of the control plane `kubectl get componentstatuses` lists.
COMPONENTS = ("controller-manager", "etcd-0", "scheduler")
# APIService: (priority of its group, of its version).
API_PRIORITIES = {
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


def furnish(store: Store, ca: str, host: str, port: int) -> None:
    """Create what is missing. Existing objects are left as they are."""
    for obj in _objects(ca, rfc3339(store.now_us), host, port):
        meta = obj["metadata"]
        gk = gk_of(obj)
        key = Key(gk, meta.get("namespace", "") if kind_named(gk).namespaced else "", meta["name"])
        if store.get(key) is None:
            store.create(obj)
            if obj.get("status"):
                store.set_status(key, obj["status"])


def _objects(ca: str, now: str, host: str, port: int) -> Iterable[Obj]:
    from fairway.admission.rbac.bootstrap import objects as roles
    from fairway.apiserver import flowcontrol

    for name in NAMESPACES:
        labels = {"kubernetes.io/metadata.name": name}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    for name in NAMESPACES:
        yield default_account(name)
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CA_CONFIG_MAP, "namespace": name, "annotations": _CA_NOTE},
            "data": {"ca.crt": ca},
        }
    yield from roles()
    for name, value, description in _SYSTEM_CLASSES:
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }
    yield from flowcontrol.objects(now)
    yield from _api_services(now)
    yield from _system_config_maps(ca, now)
    for name in COMPONENTS:
        healthy = {"type": "Healthy", "status": "True", "message": "ok"}
        yield {
            "apiVersion": "v1",
            "kind": "ComponentStatus",
            "metadata": {"name": name},
            "conditions": [healthy],
        }
    yield from _kubernetes_service(host, port)


def _api_services(now: str) -> Iterable[Obj]:
    available = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    for group_version, (group_priority, version_priority) in API_PRIORITIES.items():
        version, _, group = group_version.partition(".")
        yield {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {
                "name": group_version,
                "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
            },
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": group_priority,
                "versionPriority": version_priority,
            },
            "status": {"conditions": [available]},
        }


def _system_config_maps(ca: str, now: str) -> Iterable[Obj]:
    """What API servers tell each other through kube-system."""
    told = {
        "extension-apiserver-authentication": {
            "client-ca-file": ca,
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-client-ca-file": ca,
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-username-headers": '["X-Remote-User"]',
        },
        "kube-apiserver-legacy-service-account-token-tracking": {"since": now.partition("T")[0]},
    }
    for name, data in told.items():
        meta = {"name": name, "namespace": "kube-system"}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def default_account(namespace: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": namespace},
    }


def _kubernetes_service(host: str, port: int) -> Iterable[Obj]:
    labels = {"component": "apiserver", "provider": "kubernetes"}
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.0.1",
            "clusterIPs": ["10.96.0.1"],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
        "status": {"loadBalancer": {}},
    }
    yield {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
    yield {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [
            {"addresses": [{"ip": host}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}
        ],
    }
