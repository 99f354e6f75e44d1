"""custom.metrics.k8s.io and external.metrics.k8s.io; autoscalers behind the API: kubectl autoscale, get, describe."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served
from test_kubectl import kubectl
from test_metrics_api import NODE, advance

from fairway.kube.timestamps import rfc3339

APPS = "/apis/apps/v1/namespaces/default/deployments"
MAPS = "/api/v1/namespaces/default/configmaps"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta1"
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
LOAD = """
workloads:
- {kind: Deployment, name: web, total: {cpu: "1", requests: "120"}}
series:
- {name: depth, labels: {queue: a}, value: 30}
- {name: depth, labels: {queue: b}, value: 12}
- {name: hits, object: {kind: Service, name: web}, value: "2500m"}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    data: Path = tmp_path_factory.mktemp("adapter")
    with served(data, paused=True) as api:
        api.until_ready()
        api.ask("POST", "/api/v1/nodes", NODE)
        assert api.ask("GET", f"{EXTERNAL}/namespaces/default/depth")[0] == 404
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        assert api.ask("POST", APPS, {**WEB, "spec": spec})[0] == 201
        labels = {"fairway.dev/load": "true"}
        meta = {"name": "load", "labels": labels}
        load = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"load.yaml": LOAD}}
        assert api.ask("POST", MAPS, load)[0] == 201
        advance(api, 60)
        yield api, data


def items(api: Served, path: str) -> list[dict[str, Any]]:
    code, body = api.ask("GET", path)
    assert code == 200, body
    found: list[dict[str, Any]] = body["items"]
    return found


def test_external_metrics(home: tuple[Served, Path]) -> None:
    api = home[0]
    code, body = api.ask("GET", EXTERNAL)
    assert (code, [r["name"] for r in body["resources"]]) == (200, ["depth"])
    told = items(api, f"{EXTERNAL}/namespaces/default/depth")
    assert [(i["metricLabels"], i["value"]) for i in told] == [({"queue": "a"}, "30"), ({"queue": "b"}, "12")]
    told = items(api, f"{EXTERNAL}/namespaces/default/depth?labelSelector=queue%3Db")
    assert [i["value"] for i in told] == ["12"]
    assert items(api, f"{EXTERNAL}/namespaces/default/nothing") == []
    assert api.ask("GET", f"{EXTERNAL}/namespaces/default/depth?labelSelector=%3D%3D")[0] == 400


def test_custom_metrics(home: tuple[Served, Path]) -> None:
    api = home[0]
    code, body = api.ask("GET", CUSTOM)
    assert (code, [r["name"] for r in body["resources"]]) == (200, ["pods/requests", "services/hits"])
    told = items(api, f"{CUSTOM}/namespaces/default/pods/*/requests?labelSelector=app%3Dweb")
    assert [i["value"] for i in told] == ["60", "60"]
    assert told[0]["describedObject"]["kind"] == "Pod"
    (one,) = items(api, f"{CUSTOM}/namespaces/default/services/web/hits")
    assert (one["value"], one["describedObject"]["name"]) == ("2500m", "web")
    code, body = api.ask("GET", f"{CUSTOM}/namespaces/default/pods/*/nonsense")
    assert (code, body["message"]) == (404, "the server could not find the metric nonsense for pods")


def test_values_are_told_whole(home: tuple[Served, Path]) -> None:
    """As the two adapters tell them: what is measured, of whom, when; and what the groups say of themselves."""
    api = home[0]
    now = rfc3339(api.ask("GET", "/fairway/clock")[1]["nowUs"])
    assert api.ask("GET", f"{EXTERNAL}/namespaces/default/depth?labelSelector=queue%3Da")[1] == {
        "kind": "ExternalMetricValueList",
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [{"metricName": "depth", "metricLabels": {"queue": "a"}, "timestamp": now, "value": "30"}],
    }
    told = {"metricName": "hits", "timestamp": now, "value": "2500m", "selector": None}
    about = {"kind": "Service", "namespace": "default", "apiVersion": "/v1", "name": "web"}
    assert api.ask("GET", f"{CUSTOM}/namespaces/default/services/web/hits")[1] == {
        "kind": "MetricValueList",
        "apiVersion": "custom.metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [{"describedObject": about, **told}],
    }
    pods = [o["metadata"]["name"] for o in api.ask("GET", "/api/v1/namespaces/default/pods")[1]["items"]]
    (one,) = items(api, f"{CUSTOM}/namespaces/default/pods/{pods[0]}/requests")
    assert one == {
        "describedObject": {"kind": "Pod", "namespace": "default", "apiVersion": "/v1", "name": pods[0]},
        "metricName": "requests",
        "timestamp": now,
        "value": "60",
        "selector": None,
    }
    assert api.ask("GET", f"{CUSTOM}/namespaces/default/pods/*/requests?labelSelector=app%3Dnone")[0] == 404
    assert api.ask("GET", f"{CUSTOM}/namespaces/default/pods/*/requests?labelSelector=%3D%3D")[0] == 400
    for group, kind, name in (
        ("external.metrics.k8s.io", "ExternalMetricValueList", "depth"),
        ("custom.metrics.k8s.io", "MetricValueList", "pods/requests"),
    ):
        version = {"groupVersion": f"{group}/v1beta1", "version": "v1beta1"}
        assert api.ask("GET", f"/apis/{group}")[1] == {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": group,
            "versions": [version],
            "preferredVersion": version,
        }
        listed = api.ask("GET", f"/apis/{group}/v1beta1")[1]
        assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", f"{group}/v1beta1")
        row = {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]}
        assert listed["resources"][0] == row


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_sees_an_autoscaler_at_work(home: tuple[Served, Path]) -> None:
    api, data = home
    code, made = kubectl(data, "autoscale deployment web --min=1 --max=6 --cpu-percent=50")
    assert (code, made) == (0, "horizontalpodautoscaler.autoscaling/web autoscaled\n")
    advance(api, 20)
    listed = kubectl(data, "get hpa web --no-headers")[1].split()
    assert listed[:6] == ["web", "Deployment/web", "cpu:", "100%/50%", "1", "6"]
    described = kubectl(data, "describe hpa web")[1]
    assert "SucceededRescale" in described
    assert "New size: 4; reason: cpu resource utilization (percentage of request) above target" in described
    assert "horizontal-pod-autoscaler" in described
