"""What the server keeps of an object: everything Go would write, what admission adds, and who owns which field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served

CORE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "i:1"}]},
}
SELECTOR = {"matchLabels": {"app": "web"}}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"capacity": {"cpu": "8", "memory": "8Gi", "pods": "10"}},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data: Path = tmp_path_factory.mktemp("forms")
    with served(data, paused=True) as api:
        api.until_ready()
        api.ask("POST", "/api/v1/nodes", NODE)
        yield api


def settle(home: Served, seconds: int = 10) -> None:
    home.ask("POST", "/fairway/clock", {"advanceUs": seconds * 1_000_000})


def made(home: Served, path: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    version = path.removeprefix("/apis/").partition("/namespaces")[0] if path.startswith("/apis/") else "v1"
    version = "/".join(version.split("/")[:2])
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}
    code, answer = home.ask("POST", path, body)
    assert code == 201, answer
    return answer


# kind → (collection, fields of the new object, what must be there although nobody said so)
BORN: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "Deployment": (
        f"{APPS}/deployments",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE, "replicas": 0}},
        {"status": {}},
    ),
    "StatefulSet": (
        f"{APPS}/statefulsets",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE, "replicas": 0}},
        {"status": {"availableReplicas": 0, "replicas": 0}},
    ),
    "ReplicaSet": (
        f"{APPS}/replicasets",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE, "replicas": 0}},
        {"status": {"replicas": 0}},
    ),
    "PodDisruptionBudget": (
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {"spec": {"minAvailable": 1, "selector": SELECTOR}},
        {"status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}},
    ),
    "HorizontalPodAutoscaler": (
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        {
            "spec": {
                "maxReplicas": 2,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
            }
        },
        {"status": {"currentMetrics": None, "desiredReplicas": 0}},
    ),
    "Ingress": (
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
        {"status": {"loadBalancer": {}}},
    ),
    "PersistentVolumeClaim": (
        f"{CORE}/persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        {"status": {"phase": "Pending"}},
    ),
    "Lease": ("/apis/coordination.k8s.io/v1/namespaces/default/leases", {}, {"spec": {}}),
    "Role": ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", {}, {"rules": None}),
    "Secret": (f"{CORE}/secrets", {"stringData": {"a": "b"}}, {"data": {"a": "Yg=="}, "type": "Opaque"}),
}


@pytest.mark.parametrize("kind", BORN)
def test_a_new_object_has_what_go_always_writes(home: Served, kind: str) -> None:
    path, fields, want = BORN[kind]
    answer = made(home, path, kind, f"born-{kind.lower()}", **fields)
    assert {name: answer.get(name, "absent") for name in want} == want
    assert "stringData" not in answer


def test_containers_always_have_resources_and_templates_metadata(home: Served) -> None:
    job = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
    path = "/apis/batch/v1/namespaces/default/cronjobs"
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}
    answer = made(home, path, "CronJob", "yearly", spec=spec)
    template = answer["spec"]["jobTemplate"]["spec"]["template"]
    assert answer["spec"]["jobTemplate"]["metadata"] == {} == template["metadata"]
    assert template["spec"]["containers"][0]["resources"] == {}


GENERATIONS = {
    "configmaps": (f"{CORE}/configmaps", "ConfigMap", {}, None),
    "resourcequotas": (f"{CORE}/resourcequotas", "ResourceQuota", {"spec": {"hard": {"pods": "9"}}}, None),
    "priorityclasses": ("/apis/scheduling.k8s.io/v1/priorityclasses", "PriorityClass", {"value": 5}, 1),
    "deployments": (
        f"{APPS}/deployments",
        "Deployment",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE, "replicas": 0}},
        1,
    ),
}


@pytest.mark.parametrize("name", GENERATIONS)
def test_only_some_kinds_count_generations(home: Served, name: str) -> None:
    path, kind, fields, want = GENERATIONS[name]
    assert made(home, path, kind, "counted", **fields)["metadata"].get("generation") == want


def test_what_admission_adds_belongs_to_nobody(home: Served) -> None:
    answer = made(home, f"{CORE}/pods", "Pod", "owned", spec=TEMPLATE["spec"])
    assert answer["spec"]["serviceAccountName"] == "default"
    owned = answer["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert "f:containers" in owned
    assert owned.keys().isdisjoint({"f:serviceAccountName", "f:tolerations", "f:volumes", "f:priority"})


def test_pods_of_controllers_get_the_token_of_their_account(home: Served) -> None:
    spec = {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE}
    made(home, f"{APPS}/replicasets", "ReplicaSet", "tokens", spec=spec)
    settle(home)
    _, pods = home.ask("GET", f"{CORE}/pods?labelSelector=app=web")
    mounts = [p["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] for p in pods["items"]]
    assert mounts == ["/var/run/secrets/kubernetes.io/serviceaccount"] * 2
    assert {p["spec"]["serviceAccountName"] for p in pods["items"]} == {"default"}


def test_pod_security_refuses_a_controllers_pods_and_the_controller_says_so(home: Served) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": labels}}
    home.ask("POST", "/api/v1/namespaces", body)
    spec = {"replicas": 1, "selector": SELECTOR, "template": TEMPLATE}
    made(home, "/apis/apps/v1/namespaces/strict/replicasets", "ReplicaSet", "web", spec=spec)
    settle(home)
    assert home.ask("GET", "/api/v1/namespaces/strict/pods")[1]["items"] == []
    _, events = home.ask("GET", "/api/v1/namespaces/strict/events?fieldSelector=reason=FailedCreate")
    message = events["items"][0]["message"]
    assert message.startswith('Error creating: pods "web-')
    assert 'is forbidden: violates PodSecurity "restricted:latest": ' in message


def test_a_daemon_set_counts_the_versions_of_its_template(home: Served) -> None:
    path = f"{APPS}/daemonsets"
    made(home, path, "DaemonSet", "agent", spec={"selector": SELECTOR, "template": TEMPLATE})
    note = "deprecated.daemonset.template.generation"
    merge = {"Content-Type": "application/merge-patch+json"}
    renamed = home.ask("PATCH", f"{path}/agent", {"metadata": {"labels": {"a": "b"}}}, headers=merge)[1]
    assert renamed["metadata"]["annotations"][note] == "1"
    template = {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}
    changed = home.ask("PATCH", f"{path}/agent", {"spec": {"template": template}}, headers=merge)[1]
    assert changed["metadata"]["annotations"][note] == "2"


def test_nodes_carry_how_long_kubelets_may_cache(home: Served) -> None:
    settle(home)
    assert home.ask("GET", "/api/v1/nodes/n")[1]["metadata"]["annotations"] == {
        "node.alpha.kubernetes.io/ttl": "0"
    }
