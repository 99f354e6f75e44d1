"""Bindings by either route, kinds of several versions, and kinds that each version spells its own way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served

from fairway.apiserver.converting import converted
from fairway.kube.objects import Key, Obj

HOME = "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data: Path = tmp_path_factory.mktemp("versions")
    with served(data, paused=True) as api:
        api.until_ready()
        yield api


# Bindings


def pod(name: str, **spec: Any) -> Obj:
    body = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def binding(name: str, target: Obj | None, **meta: Any) -> Obj:
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **meta}}
    return {**body, "target": target} if target is not None else body


ROUTES = ("pods/{}/binding", "bindings")


@pytest.mark.parametrize("route", ROUTES)
def test_a_pod_is_bound_by_either_route(home: Served, route: str) -> None:
    name = f"bound-{len(route)}"
    meta = {"annotations": {"a": "1"}}
    made = {**pod(name), "metadata": {"name": name, "annotations": {"own": "2"}}}
    assert home.ask("POST", f"{HOME}/pods", made)[0] == 201
    store = home.server.api.store
    nominated = {
        "phase": "Pending",
        "nominatedNodeName": "old",
        "conditions": [{"type": "X", "status": "True"}],
    }
    home.call(lambda: store.set_status(Key("Pod", "default", name), nominated))
    path = f"{HOME}/{route.format(name)}"
    before = store.version
    body = binding(name, {"kind": "Node", "name": "n1"}, **meta)
    code, said = home.ask("POST", f"{path}?dryRun=All", body)
    assert (code, said["status"]) == (201, "Success")
    found = home.ask("GET", f"{HOME}/pods/{name}")[1]
    assert "nodeName" not in found["spec"] and store.version == before
    assert found["status"]["nominatedNodeName"] == "old"
    assert home.ask("POST", path, body)[0] == 201
    found = home.ask("GET", f"{HOME}/pods/{name}")[1]
    assert found["spec"]["nodeName"] == "n1"
    assert found["metadata"]["annotations"] == {"own": "2", "a": "1"}
    conditions = {c["type"]: c["status"] for c in found["status"]["conditions"]}
    assert conditions == {"X": "True", "PodScheduled": "True"}
    assert "nominatedNodeName" not in found["status"]
    code, said = home.ask("POST", path, binding(name, {"name": "n2"}))
    assert (code, said["message"].endswith('is already assigned to node "n1"')) == (409, True)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("spec", "target", "code", "said"),
    [
        ({}, {"name": "n1"}, 201, ""),
        ({}, {"kind": "", "name": "n1"}, 201, ""),
        ({}, {"kind": "Pod", "name": "n1"}, 500, 'target.kind: Unsupported value: "Pod"'),
        ({}, {"kind": "Node"}, 500, "target.name: Required value"),
        ({}, {"kind": "Pod"}, 500, "[target.kind: Unsupported value"),
        (
            {"schedulingGates": [{"name": "a.b/c"}]},
            {"name": "n1"},
            409,
            "has non-empty .spec.schedulingGates",
        ),
    ],
)
def test_what_is_not_bound(home: Served, route: str, spec: Obj, target: Obj, code: int, said: str) -> None:
    home.ask("DELETE", f"{HOME}/pods/one?gracePeriodSeconds=0")
    assert home.ask("POST", f"{HOME}/pods", pod("one", **spec))[0] == 201
    found, answer = home.ask("POST", f"{HOME}/{route.format('one')}", binding("one", target))
    assert (found, said in answer.get("message", "")) == (code, True), answer
    is_bound = "nodeName" in home.ask("GET", f"{HOME}/pods/one")[1]["spec"]
    assert is_bound is (code == 201)


@pytest.mark.parametrize("route", ROUTES)
def test_a_pod_that_is_not_there_or_going_is_not_bound(home: Served, route: str) -> None:
    code, said = home.ask("POST", f"{HOME}/{route.format('none')}", binding("none", {"name": "n1"}))
    assert (code, said["message"]) == (404, 'pods "none" not found')
    name = f"going-{len(route)}"
    made = {**pod(name), "metadata": {"name": name, "finalizers": ["example.com/held"]}}
    assert home.ask("POST", f"{HOME}/pods", made)[0] == 201
    home.ask("DELETE", f"{HOME}/pods/{name}")
    code, said = home.ask("POST", f"{HOME}/{route.format(name)}", binding(name, {"name": "n1"}))
    assert code == 409 and "is being deleted, cannot be assigned to a host" in said["message"]


# A kind of several versions


def version(name: str, *, served: bool = True, storage: bool = False, **fields: Obj) -> Obj:
    spec = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": spec}}


def test_a_kind_of_three_versions_is_kept_in_one_and_told_in_each(home: Served) -> None:
    text, number = {"type": "string"}, {"type": "integer", "default": 3}
    versions = [
        version("v1alpha1", a=text),
        version("v1beta1", storage=True, a=text, b=number),
        version("v1", served=False, a=text),
    ]
    names = {"plural": "mules", "singular": "mule", "kind": "Mule", "listKind": "MuleList"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "mules.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert home.ask("POST", definitions, crd)[0] == 201
    home.ask("POST", "/fairway/clock", {"advanceUs": 10_000_000})
    assert home.ask("GET", f"{definitions}/mules.example.com")[1]["status"]["storedVersions"] == ["v1beta1"]
    at = {v: f"/apis/example.com/{v}/namespaces/default/mules" for v in ("v1alpha1", "v1beta1", "v1")}
    body = {
        "apiVersion": "example.com/v1alpha1",
        "kind": "Mule",
        "metadata": {"name": "m"},
        "spec": {"a": "x", "b": 9},
    }
    code, made = home.ask("POST", at["v1alpha1"], body)
    assert (code, made["apiVersion"], made["spec"]) == (201, "example.com/v1alpha1", {"a": "x", "b": 3})
    kept = home.call(lambda: home.server.api.store.require(Key("Mule.example.com", "default", "m")))
    assert kept["apiVersion"] == "example.com/v1beta1"
    _, newer = home.ask("GET", f"{at['v1beta1']}/m")
    assert (newer["apiVersion"], newer["spec"]) == ("example.com/v1beta1", {"a": "x", "b": 3})
    for v in ("v1alpha1", "v1beta1"):
        code, listed = home.ask("GET", at[v])
        assert (listed["apiVersion"], listed["kind"]) == (f"example.com/{v}", "MuleList")
        assert [o["apiVersion"] for o in listed["items"]] == [f"example.com/{v}"]
        code, answer = home.ask("POST", at[v], {**body, "apiVersion": f"example.com/{v}x"})
        assert code == 400, answer
        code, patched = home.ask(
            "PATCH",
            f"{at[v]}/m",
            {"spec": {"a": v}},
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert (code, patched["apiVersion"], patched["spec"]["a"]) == (200, f"example.com/{v}", v)
    assert home.ask("GET", at["v1"])[0] == 404
    group = home.ask("GET", "/apis/example.com")[1]
    assert [v["version"] for v in group["versions"]] == ["v1beta1", "v1alpha1"]
    assert group["preferredVersion"]["version"] == "v1beta1"
    assert home.ask("DELETE", f"{at['v1alpha1']}/m")[0] == 200
    assert home.ask("GET", f"{at['v1beta1']}/m")[0] == 404
    # Those that are left go with the definition, whatever holds them.
    for name, meta in (("free", {}), ("held", {"finalizers": ["example.com/f"]})):
        made = {**body, "metadata": {"name": name, **meta}}
        assert home.ask("POST", at["v1alpha1"], made)[0] == 201
    assert home.ask("DELETE", f"{definitions}/mules.example.com")[0] == 200
    assert home.call(lambda: list(home.server.api.store.walk("Mule.example.com"))) == []


# Kinds whose versions are spelt apart

CORE: Obj = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "p"},
    "message": "said",
    "source": {"component": "c"},
    "firstTimestamp": "2026-01-05T08:00:00Z",
    "lastTimestamp": "2026-01-05T09:00:00Z",
    "count": 2,
    "eventTime": "2026-01-05T08:00:00.000001Z",
    "reportingComponent": "rc",
    "reportingInstance": "ri",
    "reason": "R",
    "type": "Normal",
    "action": "A",
    "related": {"name": "q"},
    "series": {"count": 3},
}


def test_an_event_comes_back_as_it_was() -> None:
    newer = converted(CORE, "events.k8s.io/v1")
    assert newer == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": CORE["involvedObject"],
        "note": "said",
        "deprecatedSource": {"component": "c"},
        "deprecatedFirstTimestamp": CORE["firstTimestamp"],
        "deprecatedLastTimestamp": CORE["lastTimestamp"],
        "deprecatedCount": 2,
        "eventTime": CORE["eventTime"],
        "reportingController": "rc",
        "reportingInstance": "ri",
        **{name: CORE[name] for name in ("reason", "type", "action", "related", "series")},
    }
    assert converted(newer, "v1") == CORE
    assert converted(CORE, "v1") is CORE
    bare: Obj = {"apiVersion": "v1", "kind": "Event", "metadata": {}}
    assert converted(bare, "events.k8s.io/v1")["deprecatedCount"] == 0
    assert "count" not in converted(converted(bare, "events.k8s.io/v1"), "v1")


def cpu(target: Obj, kind: str = "Resource", name: str = "cpu") -> Obj:
    return {"type": kind, "resource": {"name": name, "target": target}}


def test_a_scaler_keeps_its_target_of_cpu_in_either_version() -> None:
    of = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    newer: Obj = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {
            "scaleTargetRef": of,
            "maxReplicas": 4,
            "behavior": {"scaleUp": {}},
            "metrics": [
                cpu({"type": "Utilization", "averageUtilization": 70}),
                cpu({"type": "Utilization", "averageUtilization": 80}, name="memory"),
                cpu({"type": "AverageValue", "averageValue": "1"}),
                cpu({"type": "Utilization", "averageUtilization": 90}, kind="ContainerResource"),
            ],
        },
        "status": {"currentReplicas": 1, "desiredReplicas": 2, "conditions": [], "currentMetrics": []},
    }
    older = converted(newer, "autoscaling/v1")
    assert older["spec"] == {"scaleTargetRef": of, "maxReplicas": 4, "targetCPUUtilizationPercentage": 70}
    assert older["status"] == {"currentReplicas": 1, "desiredReplicas": 2}
    back = converted(older, "autoscaling/v2")
    assert back["spec"]["metrics"] == [newer["spec"]["metrics"][0]]
    assert (back["apiVersion"], back["spec"]["maxReplicas"]) == ("autoscaling/v2", 4)
    assert "targetCPUUtilizationPercentage" not in back["spec"]
    assert "status" not in converted({k: v for k, v in newer.items() if k != "status"}, "autoscaling/v1")
