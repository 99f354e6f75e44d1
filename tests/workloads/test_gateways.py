"""What is said of Gateways and routes: accepted by whom, which backend is missing, and found once it comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.kube.conditions import get_condition
from fairway.kube.objects import Key, Obj
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario
from fairway.workloads.gateways import GATEWAY, POOL, ROUTE

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: routed}
spec:
  seed: 3
  duration: 10m
  nodes: [{name: box, count: 1, capacity: {cpu: 8, memory: 8Gi}}]
  manifests: [objects.yaml]
  timeline: [TIMELINE]
"""
API = "gateway.networking.k8s.io/v1"
CLASS = {
    "apiVersion": API,
    "kind": "GatewayClass",
    "metadata": {"name": "any"},
    "spec": {"controllerName": "example.com/any"},
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "chat"},
    "spec": {"ports": [{"port": 80}]},
}
POOLED = {
    "apiVersion": "inference.networking.k8s.io/v1",
    "kind": "InferencePool",
    "metadata": {"name": "pool"},
    "spec": {
        "selector": {"matchLabels": {"app": "chat"}},
        "targetPorts": [{"number": 8000}],
        "endpointPickerRef": {"name": "picker", "port": {"number": 9002}},
    },
}


def gateway(**spec: Any) -> Obj:
    listeners = [{"name": "http", "port": 80, "protocol": "HTTP"}]
    spec = {"gatewayClassName": "any", "listeners": listeners, **spec}
    return {"apiVersion": API, "kind": "Gateway", "metadata": {"name": "front"}, "spec": spec}


def route(*backends: Obj, **parent: Any) -> Obj:
    spec = {"parentRefs": [{"name": "front", **parent}], "rules": [{"backendRefs": list(backends)}]}
    return {"apiVersion": API, "kind": "HTTPRoute", "metadata": {"name": "way"}, "spec": spec}


def statuses(folder: Path, *objects: Obj, timeline: str = "") -> dict[str, Any]:
    (folder / "scenario.yaml").write_text(SCENARIO.replace("TIMELINE", timeline), encoding="utf-8")
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    (folder / "late.yaml").write_text(yaml.safe_dump(SERVICE), encoding="utf-8")
    store = run_scenario(load_scenario(folder)).twin.store
    names = {GATEWAY: "front", ROUTE: "way", POOL: "pool"}
    found = {gk: store.get(Key(gk, "default", name)) for gk, name in names.items()}
    return {gk: obj.get("status") or {} for gk, obj in found.items() if obj is not None}


def said(parent: dict[str, Any], type_: str) -> tuple[str, str]:
    found = get_condition(parent["conditions"], type_)
    assert found is not None
    return found["status"], found["reason"]


CHAT = {"name": "chat", "port": 80}
LATER = "{at: 5m, apply: late.yaml}"
GONE = "{at: 5m, delete: service/chat}"


@pytest.mark.parametrize(
    ("objects", "timeline", "want"),
    [
        ([SERVICE], "", ("True", "ResolvedRefs")),
        ([], "", ("False", "BackendNotFound")),
        ([], LATER, ("True", "ResolvedRefs")),
        ([SERVICE], GONE, ("False", "BackendNotFound")),
    ],
)
def test_a_route_is_resolved_while_its_backend_is_there(
    tmp_path: Path, objects: list[Obj], timeline: str, want: tuple[str, str]
) -> None:
    found = statuses(tmp_path, CLASS, gateway(), route(CHAT), *objects, timeline=timeline)
    (parent,) = found[ROUTE]["parents"]
    assert said(parent, "Accepted") == ("True", "Accepted")
    assert said(parent, "ResolvedRefs") == want
    assert parent["controllerName"] == "example.com/any"
    (listener,) = found[GATEWAY]["listeners"]
    assert listener["attachedRoutes"] == 1
    assert found[GATEWAY]["addresses"][0]["value"] == "front-any.default.svc.cluster.local"


def test_without_its_class_or_gateway_nobody_says_anything(tmp_path: Path) -> None:
    assert statuses(tmp_path, gateway(), route(CHAT))[GATEWAY] == {}
    assert statuses(tmp_path, CLASS, route(CHAT))[ROUTE].get("parents", []) == []


def test_a_listener_that_is_not_there_and_a_kind_nobody_routes_to(tmp_path: Path) -> None:
    bucket = {"group": "example.com", "kind": "Bucket", "name": "x"}
    (parent,) = statuses(tmp_path, CLASS, gateway(), route(bucket, sectionName="https"))[ROUTE]["parents"]
    assert said(parent, "Accepted") == ("False", "NoMatchingParent")
    assert said(parent, "ResolvedRefs") == ("False", "InvalidKind")


def test_a_pool_is_accepted_by_the_gateways_that_lead_to_it(tmp_path: Path) -> None:
    led = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool"}
    (parent,) = statuses(tmp_path, CLASS, gateway(), route(led), POOLED)[POOL]["parents"]
    assert parent["parentRef"]["name"] == "front"
    assert said(parent, "Accepted") == ("True", "Accepted")
    assert said(parent, "ResolvedRefs") == ("False", "InvalidExtensionRef")
    assert statuses(tmp_path, CLASS, gateway(), route(CHAT), POOLED)[POOL].get("parents", []) == []
