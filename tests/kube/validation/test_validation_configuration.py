"""Ingresses, network policies, roles, bindings, volumes and classes: refused in Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.validation.validating import validate

RBAC = "rbac.authorization.k8s.io"
Case = tuple[dict[str, Any], list[str]]


def obj(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **fields}


def ingress(**spec: Any) -> dict[str, Any]:
    return obj("networking.k8s.io/v1", "Ingress", spec=spec)


def path(**fields: Any) -> dict[str, Any]:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    full = {"path": "/", "pathType": "Prefix", "backend": backend, **fields}
    return ingress(rules=[{"host": "a.b", "http": {"paths": [{k: v for k, v in full.items() if v}]}}])


def policy(**spec: Any) -> dict[str, Any]:
    return obj("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}, **spec})


def role(*rules: dict[str, Any], kind: str = "Role") -> dict[str, Any]:
    return obj(f"{RBAC}/v1", kind, rules=list(rules))


def binding(of: str = "RoleBinding", ref: str = "Role", /, **subject: Any) -> dict[str, Any]:
    return obj(f"{RBAC}/v1", of, roleRef={"kind": ref, "name": "r"}, subjects=[subject] if subject else [])


FIRST = "spec.rules[0].http.paths[0]"
CASES: dict[str, Case] = {
    "an ingress for nothing": (
        ingress(),
        ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
    ),
    "no path type": (path(pathType=None), [f"{FIRST}.pathType: Required value: pathType must be specified"]),
    "an unknown path type": (
        path(pathType="Regex"),
        [
            f'{FIRST}.pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", '
            '"Prefix"'
        ],
    ),
    "a relative path": (path(path="a"), [f'{FIRST}.path: Invalid value: "a": must be an absolute path']),
    "a path that climbs": (
        path(path="/a/.."),
        [f"{FIRST}.path: Invalid value: \"/a/..\": cannot end with '/..'"],
    ),
    "a backend without a port": (
        path(backend={"service": {"name": "s"}}),
        [f"{FIRST}.backend: Required value: port name or number is required"],
    ),
    "a host that is an address": (
        ingress(rules=[{"host": "10.0.0.1"}]),
        ['spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address'],
    ),
    "a controller without a domain": (
        obj("networking.k8s.io/v1", "IngressClass", spec={"controller": "x"}),
        ['spec.controller: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")'],
    ),
    "a policy's ports and peers": (
        policy(
            ingress=[{"ports": [{"port": 99999, "protocol": "X"}, {"port": 5, "endPort": 4}], "from": [{}]}]
        ),
        [
            'spec.ingress[0].ports[0].protocol: Unsupported value: "X": supported values: '
            '"TCP", "UDP", "SCTP"',
            "spec.ingress[0].ports[0].port: Invalid value: 99999: must be between 1 and 65535, inclusive",
            "spec.ingress[0].ports[1].endPort: Invalid value: 5: must be greater than or equal to `port`",
            "spec.ingress[0].from[0]: Required value: must specify a peer",
        ],
    ),
    "exceptions outside the block": (
        policy(egress=[{"to": [{"ipBlock": {"cidr": "10.0.0.0/16", "except": ["10.1.0.0/24", "x"]}}]}]),
        [
            'spec.egress[0].to[0].ipBlock.except[0]: Invalid value: "10.1.0.0/24": must be a strict subset of '
            "`cidr`",
            'spec.egress[0].to[0].ipBlock.except[1]: Invalid value: "x": must be a valid CIDR value, '
            "(e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ],
    ),
    "a rule without anything": (
        role({}),
        [
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].resources: Required value: resource rules must supply at least one resource",
        ],
    ),
    "paths in a namespace": (
        role({"verbs": ["get"], "nonResourceURLs": ["/x"]}),
        [
            'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs'
        ],
    ),
    "a role of neither kind": (
        binding("RoleBinding", "Group"),
        ['roleRef.kind: Unsupported value: "Group": supported values: "Role", "ClusterRole"'],
    ),
    "a cluster's binding to a namespace's role": (
        binding("ClusterRoleBinding"),
        ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
    ),
    "an account without a namespace": (
        binding("ClusterRoleBinding", "ClusterRole", kind="ServiceAccount", name="a"),
        ["subjects[0].namespace: Required value"],
    ),
    "a user without a name": (
        binding(kind="User") | {"subjects": [{"kind": "User"}]},
        [
            "subjects[0].name: Required value",
        ],
    ),
    "a volume of nothing": (
        obj("v1", "PersistentVolume", spec={}),
        [
            "spec.accessModes: Required value",
            "spec.capacity: Required value",
            'spec.capacity: Unsupported value: null: supported values: "storage"',
            "spec: Required value: must specify a volume type",
        ],
    ),
    "a class without a provisioner": (
        obj("storage.k8s.io/v1", "StorageClass"),
        ["provisioner: Required value"],
    ),
    "a certificate without its key": (
        obj("v1", "Secret", type="kubernetes.io/tls", data={"tls.crt": "YQ=="}),
        ["data[tls.key]: Required value"],
    ),
    "logins without either": (
        obj("v1", "Secret", type="kubernetes.io/basic-auth"),
        ["data[username]: Required value", "data[password]: Required value"],
    ),
    "a shape that cannot be read": (
        ingress(rules="all"),
        ['spec.rules: Wrong type: "all": expected a list, got text'],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_in_kubernetes_words(name: str) -> None:
    given, want = CASES[name]
    assert [str(problem) for problem in validate(given)] == want


FINE = {
    "an ingress": path(),
    "a wildcard host": ingress(rules=[{"host": "*.a.b"}], tls=[{"hosts": ["*.a.b"], "secretName": "s"}]),
    "a policy": policy(ingress=[{"ports": [{"port": "web"}], "from": [{"podSelector": {}}]}]),
    "a cluster role of paths": role({"verbs": ["get"], "nonResourceURLs": ["/x"]}, kind="ClusterRole"),
    "a binding": binding(kind="User", name="u"),
}


@pytest.mark.parametrize("name", FINE)
def test_let_in(name: str) -> None:
    assert validate(FINE[name]) == []


def test_problems_come_in_the_order_in_which_the_api_server_looks() -> None:
    template = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}
    job = obj("batch/v1", "CronJob", spec={"schedule": "x", "jobTemplate": template})
    assert [".".join(map(str, p.path[:2])) for p in validate(job)] == ["spec.schedule", "spec.jobTemplate"]
    empty = obj("apps/v1", "Deployment", spec={"replicas": -1})
    assert [".".join(map(str, p.path)) for p in validate(empty)] == [
        "spec.replicas",
        "spec.selector",
        "spec.template.metadata.labels",
        "spec.template.spec.containers",
    ]
