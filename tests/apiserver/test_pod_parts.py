"""A pod's subresources change their part of it, and nothing else: whoever may debug a pod may not replace its image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from apiserver_serving import Served

PODS = "/api/v1/namespaces/default/pods"
DEBUGGER = {"name": "debug", "image": "busybox", "targetContainerName": "c"}


@pytest.fixture
def pod(api: Served) -> Iterator[dict[str, Any]]:
    container = {"name": "c", "image": "good", "resources": {"requests": {"cpu": "1"}}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container], "nodeName": "none"},
    }
    code, made = api.ask("POST", PODS, body)
    assert code == 201, made
    yield made
    api.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0")


def attacked(pod: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """The pod with everything changed that must not be."""
    meta = {
        **pod["metadata"],
        "labels": {"mine": "yes"},
        "annotations": {"mine": "yes"},
        "finalizers": ["x/y"],
    }
    container = {**pod["spec"]["containers"][0], "image": "evil", "command": ["sh"]}
    changed = {"containers": [container], "hostNetwork": True, "serviceAccountName": "admin", **spec}
    return {**pod, "metadata": meta, "spec": {**pod["spec"], **changed}, "status": {"phase": "Succeeded"}}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_ephemeral_containers_come_alone(api: Served, pod: dict[str, Any], method: str) -> None:
    body = attacked(pod, ephemeralContainers=[DEBUGGER])
    if method == "PATCH":
        body["metadata"].pop("managedFields")
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    code, made = api.ask(method, f"{PODS}/p/ephemeralcontainers", body, headers={"Content-Type": media})
    assert code == 200, made
    (added,) = made["spec"].pop("ephemeralContainers")
    assert (added["name"], added["image"]) == ("debug", "busybox")
    assert made["spec"] == pod["spec"] and made["status"] == pod["status"]
    assert not {"labels", "annotations", "finalizers"} & made["metadata"].keys()


def test_ephemeral_containers_stay(api: Served, pod: dict[str, Any]) -> None:
    path = f"{PODS}/p/ephemeralcontainers"
    _, made = api.ask("PUT", path, {**pod, "spec": {**pod["spec"], "ephemeralContainers": [DEBUGGER]}})
    added = made["spec"]["ephemeralContainers"][0]
    for containers, word in (([], "removed"), ([{**added, "image": "other"}], "changed")):
        code, said = api.ask(
            "PUT", path, {**made, "spec": {**made["spec"], "ephemeralContainers": containers}}
        )
        assert code == 422 and f'existing ephemeral containers "debug" may not be {word}' in said["message"]


def test_a_resize_changes_resources(api: Served, pod: dict[str, Any]) -> None:
    body = attacked(pod)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    code, made = api.ask("PUT", f"{PODS}/p/resize", body)
    assert code == 200, made
    container = made["spec"]["containers"][0]
    assert container.pop("resources") == {"requests": {"cpu": "2"}}
    assert container == {k: v for k, v in pod["spec"]["containers"][0].items() if k != "resources"}
    assert made["spec"].get("hostNetwork") is None and "labels" not in made["metadata"]
    more = {**made, "spec": {**made["spec"], "containers": [{"name": "c2", "image": "evil"}]}}
    code, said = api.ask("PUT", f"{PODS}/p/resize", more)
    assert code == 422 and "containers may not be renamed or reordered on resize" in said["message"]


def test_a_resize_stays_within_the_quota(api: Served, pod: dict[str, Any]) -> None:
    api.until_ready()
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"requests.cpu": "3"}},
    }
    api.ask("POST", "/api/v1/namespaces/default/resourcequotas", quota)
    try:
        api.ask("POST", "/fairway/clock", {"advanceUs": 1_000_000})
        body = {**pod, "spec": {**pod["spec"], "containers": [dict(pod["spec"]["containers"][0])]}}
        body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        body["metadata"] = {k: v for k, v in pod["metadata"].items() if k != "resourceVersion"}
        code, said = api.ask("PUT", f"{PODS}/p/resize", body)
        assert code == 403 and "exceeded quota: q" in said["message"], said
    finally:
        api.ask("DELETE", "/api/v1/namespaces/default/resourcequotas/q")


def test_a_running_pod_is_resized_in_place(api: Served) -> None:
    """As `kubectl patch pod r --subresource resize` asks."""
    api.until_ready()
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "here"}}
    api.ask("POST", "/api/v1/nodes", {**node, "status": {"capacity": amounts, "allocatable": amounts}})
    container = {"name": "c", "image": "good", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "nodeName": "here"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "r"}, "spec": spec}
    assert api.ask("POST", PODS, body)[0] == 201
    media = {"Content-Type": "application/strategic-merge-patch+json"}
    for cpu, want in (("3", "3"), ("40", "3")):
        api.ask("POST", "/fairway/clock", {"advanceUs": 120_000_000})
        asked = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
        code, said = api.ask("PATCH", f"{PODS}/r/resize", asked, headers=media)
        assert code == 200, said
        api.ask("POST", "/fairway/clock", {"advanceUs": 120_000_000})
        _, found = api.ask("GET", f"{PODS}/r")
        (told,) = found["status"]["containerStatuses"]
        assert (told["allocatedResources"], told["resources"]["requests"]) == ({"cpu": want}, {"cpu": want})
    reasons = {c["type"]: c.get("reason") for c in found["status"]["conditions"]}
    assert reasons["PodResizePending"] == "Deferred"
    asked = {
        "spec": {
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}]
        }
    }
    asked["spec"]["containers"][0]["resources"] |= {"limits": {"cpu": "1", "memory": "1"}}
    asked["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1"
    code, said = api.ask("PATCH", f"{PODS}/r/resize", asked, headers=media)
    assert code == 422 and "Pod QOS Class may not change as a result of resizing" in said["message"]
