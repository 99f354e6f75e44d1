"""The cluster's own controllers have pods that run, and logs."""

from __future__ import annotations

from typing import Any

from apiserver_serving import Served

FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "d"},
    "spec": {},
}
KUEUE = "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "waits", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i:1"}]},
}


def advance(api: Served, seconds: int) -> None:
    assert api.ask("POST", "/fairway/clock", {"advanceUs": seconds * 1_000_000})[0] == 200


def test_the_scheduler_runs_and_says_what_it_did(api: Served) -> None:
    api.until_ready()
    advance(api, 2)
    _, found = api.ask("GET", "/api/v1/namespaces/kube-system/pods")
    phases = {p["metadata"]["name"]: p["status"]["phase"] for p in found["items"]}
    assert phases == {
        "kube-controller-manager-control-plane": "Running",
        "kube-scheduler-control-plane": "Running",
    }
    assert api.ask("POST", "/api/v1/namespaces/default/pods", POD)[0] == 201
    advance(api, 5)
    code, log = api.ask("GET", "/api/v1/namespaces/kube-system/pods/kube-scheduler-control-plane/log")
    assert code == 200
    assert 'object="default/waits" kind="Pod"' in log
    assert 'reason="FailedScheduling" message="no nodes available to schedule pods"' in log


def test_kueue_is_there_with_its_first_object(api: Served) -> None:
    api.until_ready()
    assert api.ask("GET", KUEUE)[0] == 404
    assert api.ask("POST", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors", FLAVOR)[0] == 201
    advance(api, 10)
    code, deployment = api.ask("GET", KUEUE)
    assert code == 200
    available = [c["status"] for c in deployment["status"]["conditions"] if c["type"] == "Available"]
    assert available == ["True"]
