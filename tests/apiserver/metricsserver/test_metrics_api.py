"""metrics.k8s.io as clients see it: kubectl top, tables, errors, discovery, the kubelets' own pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served
from test_kubectl import kubectl

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "10", "memory": "10Gi", "pods": "20"}},
}
PODS = "/api/v1/namespaces/default/pods"
METRICS = "/apis/metrics.k8s.io/v1beta1"
TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


def pod(name: str, *, says: dict[str, str], **labels: str) -> dict[str, Any]:
    containers = [{"name": c, "image": f"{c}:1"} for c in ("a", "b")]
    annotations = {f"fairway.dev/{k}": v for k, v in says.items()}
    meta = {"name": name, "annotations": annotations, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """A paused cluster, a minute after two pods started; a third has only just started."""
    data: Path = tmp_path_factory.mktemp("metrics")
    with served(data, paused=True) as api:
        api.until_ready()
        api.ask("POST", "/api/v1/nodes", NODE)
        advance(api, 5)
        api.ask("POST", PODS, pod("web", says={"cpu-usage.a": "1500m", "memory-usage.a": "1Gi"}, app="web"))
        api.ask("POST", PODS, pod("db", says={"cpu-usage": "2", "memory-usage": "2Gi"}))
        advance(api, 60)
        # Scrapes come at multiples of 15 s: the third pod starts between two of them, whenever this runs.
        now_s = api.ask("GET", "/fairway/clock")[1]["nowUs"] // 1_000_000
        advance(api, 15 - now_s % 15 + 5)
        api.ask("POST", PODS, pod("fresh", says={}))
        advance(api, 1)
        yield api, data


def advance(api: Served, seconds: int) -> None:
    assert api.ask("POST", "/fairway/clock", {"advanceUs": seconds * 1_000_000})[0] == 200


def test_a_pods_metrics(home: tuple[Served, Path]) -> None:
    code, body = home[0].ask("GET", f"{METRICS}/namespaces/default/pods/web")
    assert code == 200
    assert (body["kind"], body["metadata"]["labels"], body["window"]) == ("PodMetrics", {"app": "web"}, "15s")
    usage = {c["name"]: (c["usage"]["cpu"], c["usage"]["memory"]) for c in body["containers"]}
    assert usage == {"a": ("1500m", "1Gi"), "b": ("1m", "1Mi")}


def test_lists_select_by_labels_and_fields(home: tuple[Served, Path]) -> None:
    for query, want in (
        ("", ["db", "web"]),
        ("?labelSelector=app%3Dweb", ["web"]),
        ("?fieldSelector=metadata.name%3Ddb", ["db"]),
    ):
        code, body = home[0].ask("GET", f"{METRICS}/pods{query}")
        assert code == 200 and [i["metadata"]["name"] for i in body["items"]] == want
    code, body = home[0].ask("GET", f"{METRICS}/pods?fieldSelector=spec.nodeName%3Dn")
    assert (code, body["message"].partition(" is not")[0]) == (400, '"spec.nodeName"')


def test_a_table_adds_containers_up(home: tuple[Served, Path]) -> None:
    _code, body = home[0].ask("GET", f"{METRICS}/namespaces/default/pods", headers=TABLE)
    assert [c["name"] for c in body["columnDefinitions"]] == ["Name", "cpu", "memory", "swap", "Window"]
    assert [r["cells"] for r in body["rows"]] == [
        ["db", "4", "4Gi", "0", "15s"],
        ["web", "1501m", "1025Mi", "0", "15s"],
    ]
    assert home[0].ask("GET", f"{METRICS}/namespaces/none/pods", headers=TABLE)[1]["columnDefinitions"] == []


def test_what_has_no_samples_is_not_found(home: tuple[Served, Path]) -> None:
    for path, want in (
        ("namespaces/default/pods/fresh", 'podmetrics.metrics.k8s.io "default/fresh" not found'),
        ("namespaces/default/pods/nobody", 'pods "nobody" not found'),
        ("nodes/nowhere", 'nodes "nowhere" not found'),
    ):
        code, body = home[0].ask("GET", f"{METRICS}/{path}")
        assert (code, body["message"]) == (404, want)
    assert home[0].ask("POST", f"{METRICS}/namespaces/default/pods", pod("x", says={}))[0] == 405


def test_it_is_registered_as_metrics_server_registers_it(home: tuple[Served, Path]) -> None:
    api = home[0]
    _, service = api.ask("GET", "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io")
    assert service["status"]["conditions"][0]["reason"] == "Passed"
    _, listed = api.ask("GET", METRICS)
    assert [(r["name"], r["kind"], r["verbs"]) for r in listed["resources"]] == [
        ("nodes", "NodeMetrics", ["get", "list"]),
        ("pods", "PodMetrics", ["get", "list"]),
    ]
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"
    rules = api.ask("GET", path)[1]["rules"]
    assert any(r["apiGroups"] == ["metrics.k8s.io"] for r in rules)


def test_kubelets_pages_are_proxied(home: tuple[Served, Path]) -> None:
    api = home[0]
    code, text = api.ask("GET", "/api/v1/nodes/n/proxy/metrics/resource")
    assert (
        code == 200
        and 'container_memory_working_set_bytes{container="a",namespace="default",pod="web"}' in text
    )
    code, body = api.ask("GET", "/api/v1/nodes/n:10250/proxy/stats/summary")
    assert body["node"]["cpu"]["usageNanoCores"] == (1501 + 4000 + 2 + 1) * 10**6
    assert api.ask("GET", "/api/v1/nodes/n/proxy/pods/../../etc")[0] in (400, 404)
    assert api.ask("GET", "/api/v1/nodes/m/proxy/stats/summary")[0] == 404


def test_definitions_come_and_go_with_their_apiservices(home: tuple[Served, Path]) -> None:
    api = home[0]
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gears", "singular": "gear", "kind": "Gear"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com"
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert api.ask("POST", definitions, crd)[0] == 201
    assert api.ask("GET", path)[1]["spec"]["groupPriorityMinimum"] == 1000
    assert api.ask("DELETE", f"{definitions}/gears.example.com")[0] == 200
    api.ask("GET", "/apis")
    assert api.ask("GET", path)[0] == 404


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_top(home: tuple[Served, Path]) -> None:
    data = home[1]
    assert kubectl(data, "top pods --sort-by=cpu")[1].split()[3:] == [
        *("db", "4000m", "4096Mi"),
        *("web", "1501m", "1025Mi"),
    ]
    shown = kubectl(data, "top pods --containers -l app=web --no-headers")[1].split()
    assert shown == ["web", "a", "1500m", "1024Mi", "web", "b", "1m", "1Mi"]
    assert kubectl(data, "top node n --no-headers")[1].split() == ["n", "5502m", "55%", "5122Mi", "50%"]
    code, said = kubectl(data, "top pod fresh")
    want = 'Error from server (NotFound): podmetrics.metrics.k8s.io "default/fresh" not found\n'
    assert (code, said) == (1, want)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_a_cluster_without_metrics_server(tmp_path: Path) -> None:
    with served(tmp_path, metrics_server=False) as api:
        assert api.ask("GET", METRICS)[0] == 404
        assert kubectl(tmp_path, "top nodes") == (1, "error: Metrics API not available\n")
