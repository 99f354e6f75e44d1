"""What a server fills in when it stores an object, and what stands behind a Service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served

SERVICES = "/api/v1/namespaces/default/services"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {
        "capacity": {"cpu": "8", "memory": "8Gi", "pods": "10"},
        "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"},
    },
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data: Path = tmp_path_factory.mktemp("services")
    with served(data, paused=True) as api:
        api.until_ready()
        api.ask("POST", "/api/v1/nodes", NODE)
        yield api


def service(name: str, **spec: Any) -> dict[str, Any]:
    ports = [{"port": 80, "targetPort": "web"}]
    body = {"selector": {"app": name}, "ports": ports, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": body}


def test_every_service_gets_an_address_of_its_own_and_ports_where_it_needs_them(home: Served) -> None:
    made = [home.ask("POST", SERVICES, service(f"s{i}", type="NodePort"))[1]["spec"] for i in range(3)]
    assert len({spec["clusterIP"] for spec in made}) == 3
    assert len({spec["ports"][0]["nodePort"] for spec in made}) == 3
    headless = home.ask("POST", SERVICES, service("none", clusterIP="None"))[1]["spec"]
    assert (headless["clusterIP"], headless["clusterIPs"]) == ("None", ["None"])
    address = made[1]["clusterIP"]
    home.ask("DELETE", f"{SERVICES}/s1")
    assert home.ask("POST", SERVICES, service("again"))[1]["spec"]["clusterIP"] == address


def test_endpoints_follow_the_pods_that_are_ready(home: Served) -> None:
    home.ask("POST", SERVICES, service("web"))
    container = {"name": "c", "image": "i:1", "ports": [{"name": "web", "containerPort": 8080}]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"containers": [container]},
    }
    home.ask("POST", "/api/v1/namespaces/default/pods", pod)
    home.ask("POST", "/fairway/clock", {"advanceUs": 30_000_000})
    _, found = home.ask("GET", "/api/v1/namespaces/default/endpoints/web")
    _, running = home.ask("GET", "/api/v1/namespaces/default/pods/web")
    assert [a["ip"] for a in found["subsets"][0]["addresses"]] == [running["status"]["podIP"]]
    assert found["subsets"][0]["ports"] == [{"port": 8080, "protocol": "TCP"}]
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    assert found["metadata"]["annotations"].keys() == {"endpoints.kubernetes.io/last-change-trigger-time"}
    _, slices = home.ask("GET", f"{path}?labelSelector=kubernetes.io/service-name=web")
    assert [e["conditions"]["ready"] for s in slices["items"] for e in s["endpoints"]] == [True]
    home.ask("DELETE", "/api/v1/namespaces/default/pods/web?gracePeriodSeconds=0")
    home.ask("POST", "/fairway/clock", {"advanceUs": 5_000_000})
    assert "subsets" not in home.ask("GET", "/api/v1/namespaces/default/endpoints/web")[1]
    _, empty = home.ask("GET", f"{path}?labelSelector=kubernetes.io/service-name=web")
    assert [(s["endpoints"], s["ports"]) for s in empty["items"]] == [(None, None)]
    home.ask("DELETE", f"{SERVICES}/web")
    home.ask("POST", "/fairway/clock", {"advanceUs": 5_000_000})
    assert home.ask("GET", "/api/v1/namespaces/default/endpoints/web")[0] == 404


def test_a_job_finds_its_pods_by_its_uid(home: Served) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    _, made = home.ask("POST", JOBS, job)
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"


def test_jobs_in_a_queue_pass_kueues_webhooks(home: Served) -> None:
    queue = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "cq"},
        "spec": {"namespaceSelector": {}},
    }
    code, made = home.ask("POST", queue, body)
    assert (code, made["spec"]["queueingStrategy"]) == (201, "BestEffortFIFO")
    body["spec"] = {"preemption": {"withinClusterQueue": "Sometimes"}}
    body["metadata"] = {"name": "bad"}
    code, said = home.ask("POST", queue, body)
    assert (code, said["reason"]) == (422, "Invalid")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}
    meta = {"name": "queued", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}
    assert home.ask("POST", JOBS, job)[1]["spec"]["suspend"] is True
