"""PrometheusRules of a served cluster, as its time goes on."""

from collections.abc import Iterator
from typing import Any

import pytest
from apiserver_serving import Served, served

RULES = "/apis/monitoring.coreos.com/v1/namespaces/default/prometheusrules"


def rule(name: str, *rules: dict[str, Any], interval: str = "30s") -> dict[str, Any]:
    spec = {"groups": [{"name": "g", "interval": interval, "rules": list(rules)}]}
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": meta,
        "spec": spec,
    }


IDLE = {
    "alert": "GPUIdle",
    "expr": 'avg_over_time(DCGM_FI_DEV_GPU_UTIL{pod!=""}[5m]) < 5',
    "for": "10m",
    "labels": {"severity": "warning"},
    "annotations": {"summary": "{{ $labels.pod }} leaves its GPU idle"},
}
WAITING = {"alert": "PodWaits", "expr": 'kube_pod_status_phase{phase="Pending"} == 1', "for": "1m"}


def advance(api: Served, seconds: int) -> None:
    assert api.ask("POST", "/fairway/clock", {"advanceUs": seconds * 1_000_000})[0] == 200


def pod(name: str, gpus: int, utilization: str) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "pytorch", "resources": {"limits": limits}}
    meta = {"name": name, "annotations": {"fairway.dev/gpu-utilization": utilization}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


def alerts(api: Served) -> dict[str, str]:
    """Which pods' alerts are in which state."""
    found = {}
    for line in str(api.ask("GET", "/metrics")[1]).splitlines():
        if line.startswith("ALERTS{"):
            labels = dict(part.split("=", 1) for part in line[7 : line.index("}")].split(","))
            found[f"{labels['alertname']}/{labels['pod']}".replace('"', "")] = labels["alertstate"].strip('"')
    return found


def events(api: Served) -> list[tuple[str, str]]:
    items = api.ask("GET", "/api/v1/namespaces/default/events")[1]["items"]
    return [(e["reason"], e["message"]) for e in items if e["involvedObject"]["kind"] == "PrometheusRule"]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("alerts"), paused=True) as found:
        found.until_ready()
        resources = {"cpu": "10", "memory": "10Gi", "pods": "20", "nvidia.com/gpu": "2"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n0", "labels": {"nvidia.com/gpu.product": "NVIDIA-L40S"}},
            "status": {"allocatable": resources, "capacity": resources},
        }
        assert found.ask("POST", "/api/v1/nodes", node)[0] == 201
        advance(found, 10)
        yield found


def test_alerts_fire_and_end_as_time_goes_on(api: Served) -> None:
    pods = "/api/v1/namespaces/default/pods"
    for one in (pod("idle", 1, "1%"), pod("busy", 1, "80%"), pod("waits", 1, "80%")):
        assert api.ask("POST", pods, one)[0] == 201
    advance(api, 600)
    assert "ALERTS" not in str(api.ask("GET", "/metrics")[1])
    assert api.ask("POST", RULES, rule("devices", IDLE, WAITING))[0] == 201
    advance(api, 60)
    assert alerts(api) == {"GPUIdle/idle": "pending", "PodWaits/waits": "pending"}
    advance(api, 120)
    assert alerts(api) == {"GPUIdle/idle": "pending", "PodWaits/waits": "firing"}
    advance(api, 600)
    assert alerts(api) == {"GPUIdle/idle": "firing", "PodWaits/waits": "firing"}
    assert ("AlertFiring", "GPUIdle: idle leaves its GPU idle") in events(api)
    # Another rule beside it does not make alerts begin anew; what ends is told too.
    assert api.ask("POST", RULES, rule("others", {"record": "a:b", "expr": "vector(1)"}))[0] == 201
    advance(api, 30)
    assert alerts(api)["GPUIdle/idle"] == "firing"
    assert api.ask("DELETE", f"{pods}/idle")[0] == 200
    advance(api, 900)
    assert alerts(api) == {}
    assert ("AlertResolved", "GPUIdle: idle leaves its GPU idle") in events(api)


def test_rules_see_kubelets_and_node_exporters(api: Served) -> None:
    queries = {
        "Memory": 'node_memory_MemTotal_bytes{job="node-exporter"} > 0',
        "Kubelet": 'label_replace(kubelet_node_name{job="kubelet"}, "pod", "$1", "node", "(.*)") == 1',
        "Queue": 'label_replace(scheduler_pending_pods{queue="active"}, "node", "n0", "", "") >= 0',
        "Container": 'rate(container_cpu_usage_seconds_total{container="main"}[5m]) >= 0',
    }
    rules = [{"alert": name, "expr": f"sum by (pod, node) ({query})"} for name, query in queries.items()]
    assert api.ask("POST", RULES, rule("machines", *rules))[0] == 201
    advance(api, 120)
    page = str(api.ask("GET", "/metrics")[1])
    for name in queries:
        lines = [line for line in page.splitlines() if line.startswith("ALERTS{") and f'"{name}"' in line]
        assert lines, name
        assert all('node="n0"' in line for line in lines)
    assert api.ask("DELETE", f"{RULES}/machines")[0] == 200


def test_a_rule_that_cannot_be_read_is_told_of(api: Served) -> None:
    code, said = api.ask("POST", RULES, rule("wrong", {"alert": "X", "expr": "sum(("}))
    if code == 201:
        advance(api, 31)
        assert any(reason == "InvalidRule" for reason, _ in events(api))
    else:
        assert code == 422 and "parse error" in str(said)
