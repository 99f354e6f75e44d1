"""What Prometheus finds on a served cluster, and what exporters there answer."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from apiserver_serving import Served, served

from fairway.telemetry.installing.bundle import objects
from fairway.telemetry.installing.scrapeconfigs import Server, scrape_configs

NODES = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{i}", "labels": {"nvidia.com/gpu.product": "NVIDIA-L40S"}},
        "status": {
            "allocatable": {"cpu": "10", "memory": "10Gi", "pods": "20", "nvidia.com/gpu": "2"},
            "capacity": {"cpu": "10", "memory": "10Gi", "pods": "20", "nvidia.com/gpu": "2"},
        },
    }
    for i in range(2)
]
API = "/api/v1/namespaces"


def pod(name: str, node: str, image: str, port: int = 0, gpus: int = 0, **more: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": image}
    if port:
        container["ports"] = [{"name": "metrics", "containerPort": port}]
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "8"}}
    annotations = {f"fairway.dev/{k.replace('_', '-')}": v for k, v in more.items()}
    meta = {"name": name, "labels": {"app": name}, "annotations": annotations}
    spec = {"containers": [container], "nodeSelector": {"kubernetes.io/hostname": node}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def advance(api: Served, seconds: int) -> None:
    assert api.ask("POST", "/fairway/clock", {"advanceUs": seconds * 1_000_000})[0] == 200


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("scrapes"), paused=True) as found:
        found.until_ready()
        for node in NODES:
            node["metadata"]["labels"]["kubernetes.io/hostname"] = node["metadata"]["name"]  # type: ignore[index]
            found.ask("POST", "/api/v1/nodes", node)
        advance(found, 10)
        pods = f"{API}/default/pods"
        found.ask("POST", pods, pod("dcgm", "n0", "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3", 9400))
        found.ask(
            "POST", pods, pod("state", "n0", "registry.k8s.io/kube-state-metrics/kube-state-metrics:v2", 8080)
        )
        found.ask("POST", pods, pod("machine", "n1", "quay.io/prometheus/node-exporter:v1", 9100))
        found.ask("POST", pods, pod("web", "n1", "nginx", 80))
        found.ask(
            "POST", pods, pod("work", "n0", "pytorch", gpus=1, gpu_utilization="70%", gpu_memory="20Gi")
        )
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "dcgm"},
            "spec": {"selector": {"app": "dcgm"}, "ports": [{"name": "gpu", "port": 9400}]},
        }
        assert found.ask("POST", f"{API}/default/services", service)[0] == 201
        advance(found, 600)
        yield found


def series(text: str, name: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if line.startswith(name + "{")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_dcgm_exporter_tells_of_its_nodes_gpus(api: Served) -> None:
    code, text = api.ask("GET", f"{API}/default/pods/dcgm:9400/proxy/metrics")
    assert code == 200
    found = series(text, "DCGM_FI_DEV_GPU_UTIL")
    held = [v for labels, v in found.items() if 'pod="work"' in labels and 'container="main"' in labels]
    idle = [v for labels, v in found.items() if "pod=" not in labels]
    assert held == [pytest.approx(70, abs=4)] and idle == [0]
    (used,) = [v for k, v in series(text, "DCGM_FI_DEV_FB_USED").items() if "work" in k]
    assert used == 20 * 1024
    assert api.ask("GET", f"{API}/default/services/dcgm:gpu/proxy/metrics")[1] == text


def test_counters_go_on(api: Served) -> None:
    def energy() -> float:
        text = api.ask("GET", f"{API}/default/pods/dcgm:9400/proxy/metrics")[1]
        return max(series(text, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION").values())

    first = energy()
    advance(api, 60)
    second = energy()
    assert 60_000 * 100 < second - first < 60_000 * 350
    assert energy() == second


def test_the_other_exporters(api: Served) -> None:
    code, text = api.ask("GET", f"{API}/default/pods/state:8080/proxy/metrics")
    assert code == 200
    assert series(text, "kube_node_status_allocatable")
    assert 1 in [
        v for k, v in series(text, "kube_pod_status_phase").items() if "Running" in k and "work" in k
    ]
    text = api.ask("GET", f"{API}/default/pods/machine:9100/proxy/metrics")[1]
    assert series(text, "node_uname_info") and "node_memory_MemTotal_bytes 10737418240" in text
    text = api.ask("GET", "/api/v1/nodes/n0/proxy/metrics/cadvisor")[1]
    assert any('pod="work"' in key for key in series(text, "container_memory_working_set_bytes"))
    assert 'kubelet_node_name{node="n0"} 1' in api.ask("GET", "/api/v1/nodes/n0/proxy/metrics")[1]


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("pods/dcgm:9400/proxy/else", 404, "404 page not found"),
        ("pods/nobody:1/proxy/metrics", 404, "not found"),
        ("pods/web:81/proxy/metrics", 503, "connection refused"),
        ("pods/web:http/proxy/metrics", 400, "invalid pod request"),
        ("pods/web:80/proxy/", 200, "port 80 of pod default/web"),
        ("services/dcgm:9999/proxy/metrics", 503, "no endpoints available"),
        ("services/nobody/proxy/metrics", 404, "not found"),
    ],
)
def test_what_is_not_there(api: Served, path: str, code: int, words: str) -> None:
    answer = api.ask("GET", f"{API}/default/{path}")
    text = answer[1] if isinstance(answer[1], str) else answer[1]["message"]
    assert answer[0] == code and words in text


def test_discovery_is_as_prometheus_own(api: Served) -> None:
    def asked(query: str) -> list[dict[str, Any]]:
        code, found = api.ask("GET", f"/fairway/discovery?{query}")
        assert code == 200
        return found  # type: ignore[no-any-return]

    meta = "__meta_kubernetes_"
    nodes = asked("role=node")
    assert {g["labels"]["instance"] for g in nodes} == {"n0", "n1"}
    assert all(g["targets"][0].endswith(":10250") for g in nodes)
    (found,) = [g for g in asked("role=pod&namespace=default") if g["labels"][f"{meta}pod_name"] == "dcgm"]
    assert found["labels"][f"{meta}pod_container_port_number"] == "9400"
    assert found["labels"][f"{meta}pod_node_name"] == "n0"
    (found,) = [
        g
        for g in asked("role=endpoints&namespace=default")
        if g["labels"].get(f"{meta}service_name") == "dcgm"
    ]
    assert found["labels"][f"{meta}endpoint_port_name"] == "gpu"
    assert found["labels"][f"{meta}pod_label_app"] == "dcgm"
    assert asked("role=pod&namespace=none") == []
    assert api.ask("GET", "/fairway/discovery?role=ingress")[0] == 400
    assert api.ask("POST", "/fairway/discovery?role=node", {})[0] == 405


def test_what_is_scraped() -> None:
    server = Server("https://h:6443", True, "ca", "crt", "key")
    configs = {c["job_name"]: c for c in scrape_configs(objects(["monitors"]), server)}
    found = configs["serviceMonitor/monitoring/nvidia-dcgm-exporter/0"]
    assert found["kubernetes_sd_configs"][0]["namespaces"] == {"names": ["monitoring"]}
    relabel = found["relabel_configs"]
    selected = {"source_labels": ["__meta_kubernetes_service_label_app"], "regex": "nvidia\\-dcgm\\-exporter"}
    assert {**selected, "action": "keep"} in relabel
    assert relabel[-1] == {"target_label": "__address__", "replacement": "h:6443"}
    assert "/proxy/metrics" in relabel[-2]["replacement"]
    assert "http_sd_configs" in scrape_configs([], server._replace(has_kubernetes=False))[0]
    old = configs["serviceMonitor/monitoring/nvidia-dcgm-exporter-1x/0"]["metric_relabel_configs"]
    renamed = {r["regex"]: r["replacement"] for r in old if "replacement" in r}
    assert renamed["DCGM_FI_DEV_GPU_UTIL"] == "dcgm_gpu_utilization"


def test_selectors_of_monitors() -> None:
    wanted = [
        {"key": "a.b/c", "operator": "In", "values": ["x", "y"]},
        {"key": "d", "operator": "NotIn", "values": ["z"]},
        {"key": "e", "operator": "Exists"},
        {"key": "f", "operator": "DoesNotExist"},
    ]
    monitor = {
        "kind": "PodMonitor",
        "metadata": {"name": "m", "namespace": "n"},
        "spec": {
            "namespaceSelector": {"any": True},
            "selector": {"matchExpressions": wanted},
            "podMetricsEndpoints": [{"port": "web", "path": "/m"}],
        },
    }
    *_, found = scrape_configs([monitor], Server("https://h", False, "", "", ""))
    said = [
        (r["source_labels"][0].rpartition("pod_")[2], r["regex"], r["action"])
        for r in found["relabel_configs"][:5]
    ]
    assert said == [
        ("label_a_b_c", "x|y", "keep"),
        ("label_d", "z", "drop"),
        ("labelpresent_e", "true", "keep"),
        ("labelpresent_f", "true", "drop"),
        ("container_port_name", "web", "keep"),
    ]
    assert found["http_sd_configs"][0]["url"] == "https://h/fairway/discovery?role=pod"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize(
    "path",
    [
        "/metrics",
        f"{API}/default/pods/dcgm:9400/proxy/metrics",
        f"{API}/default/pods/state:8080/proxy/metrics",
        f"{API}/default/pods/machine:9100/proxy/metrics",
        "/api/v1/nodes/n0/proxy/metrics",
        "/api/v1/nodes/n0/proxy/metrics/cadvisor",
    ],
)
def test_promtool_reads_every_page(api: Served, path: str) -> None:
    """Nothing is wrong with a page but how upstream names its metrics."""
    code, page = api.ask("GET", path)
    assert code == 200 and len(page.splitlines()) > 5
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 3), done.stderr
    named = re.compile(
        "(DCGM_FI_|node_memory_Mem).* should be written in 'snake_case' not 'camelCase'"
        '|DCGM_FI_.* (counter metrics should have "_total" suffix|metric name should not include type)'
    )
    assert [line for line in done.stderr.splitlines() if not named.match(line)] == []
