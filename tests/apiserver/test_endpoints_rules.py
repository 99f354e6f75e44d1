"""Endpoints and EndpointSlices of a Service: who is in them, ready or not, on which ports, and what stays of them."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.endpoints import EndpointsController
from fairway.kube.objects import Key, Obj
from fairway.twin.latency import NONE
from fairway.twin.twin import Twin

ENDPOINTS = Key("Endpoints", "default", "web")
SLICE = "EndpointSlice.discovery.k8s.io"
WEB = {"app": "web"}


def service(**spec: Any) -> Obj:
    meta = {"name": "web", "namespace": "default", "labels": {"team": "a"}}
    body = {"selector": WEB, "ports": [{"name": "http", "port": 80, "targetPort": "web"}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": body}


def a_pod(name: str, labels: Any = None, ports: Any = None) -> Obj:
    given = [{"name": "web", "containerPort": 8080}] if ports is None else ports
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i", "ports": given}]}
    meta = {"name": name, "namespace": "default", "labels": WEB if labels is None else labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


class World:
    def __init__(self, *objects: Obj) -> None:
        self.controller = EndpointsController()
        self.twin = Twin(seed=1, latency=NONE, components=[self.controller])
        self.store = self.twin.store
        self.twin.apply(objects)
        self.run()

    def run(self) -> World:
        self.twin.wake()
        self.twin.run(self.twin.now_us + 1_000_000)
        return self

    def up(self, name: str, ip: str, *, ready: bool = True, phase: str = "Running") -> World:
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        status = {"phase": phase, "podIP": ip, "conditions": conditions}
        self.store.set_status(Key("Pod", "default", name), status)
        return self.run()

    def subsets(self) -> list[Any]:
        """Ready and other addresses, and ports, of each subset."""
        found = self.store.require(ENDPOINTS).get("subsets") or []
        return [
            (
                [a["ip"] for a in s.get("addresses", ())],
                [a["ip"] for a in s.get("notReadyAddresses", ())],
                [(p.get("name"), p["port"], p["protocol"]) for p in s.get("ports", ())],
            )
            for s in found
        ]

    def slice(self) -> Obj:
        (found,) = self.store.objects(SLICE, "default")
        return found


HTTP = [("http", 8080, "TCP")]


def test_pods_are_in_it_once_they_have_an_address_and_by_their_readiness() -> None:
    world = World(service(), a_pod("a"), a_pod("b"), a_pod("c"), a_pod("other", {"app": "x"}))
    assert world.subsets() == []
    assert (world.slice()["endpoints"], world.slice()["ports"]) == (None, None)
    world.up("b", "10.0.0.10").up("a", "10.0.0.9").up("c", "10.0.0.2", ready=False).up("other", "10.0.0.1")
    assert world.subsets() == [(["10.0.0.9", "10.0.0.10"], ["10.0.0.2"], HTTP)]
    first = world.store.require(ENDPOINTS)["subsets"][0]["addresses"][0]
    uid = world.store.require(Key("Pod", "default", "a"))["metadata"]["uid"]
    assert first["targetRef"] == {"kind": "Pod", "name": "a", "namespace": "default", "uid": uid}
    assert first["nodeName"] == "n"
    conditions = {e["addresses"][0]: e["conditions"] for e in world.slice()["endpoints"]}
    assert conditions == {
        "10.0.0.9": {"ready": True, "serving": True, "terminating": False},
        "10.0.0.10": {"ready": True, "serving": True, "terminating": False},
        "10.0.0.2": {"ready": False, "serving": False, "terminating": False},
    }
    world.up("a", "10.0.0.9", phase="Succeeded")
    assert world.subsets() == [(["10.0.0.10"], ["10.0.0.2"], HTTP)]


def test_a_pod_that_goes_is_in_the_slice_only() -> None:
    world = World(service(), a_pod("a"), a_pod("b")).up("a", "1.1.1.1").up("b", "1.1.1.2")
    world.store.patch(Key("Pod", "default", "a"), {"metadata": {"finalizers": ["x/y"]}})
    world.store.delete(Key("Pod", "default", "a"))
    world.run()
    assert world.subsets() == [(["1.1.1.2"], [], HTTP)]
    conditions = {e["addresses"][0]: e["conditions"] for e in world.slice()["endpoints"]}
    assert conditions["1.1.1.1"] == {"ready": False, "serving": True, "terminating": True}


def test_a_pod_that_loses_its_label_leaves() -> None:
    world = World(service(), a_pod("a"), a_pod("b")).up("a", "1.1.1.1").up("b", "1.1.1.2")
    world.store.patch(Key("Pod", "default", "a"), {"metadata": {"labels": {"app": "else"}}})
    world.run()
    assert world.subsets() == [(["1.1.1.2"], [], HTTP)]
    world.store.patch(Key("Pod", "default", "a"), {"metadata": {"labels": WEB}})
    world.run()
    assert world.subsets() == [(["1.1.1.1", "1.1.1.2"], [], HTTP)]


@pytest.mark.parametrize(
    ("spec", "ports", "want"),
    [
        ({}, None, HTTP),
        ({"ports": [{"port": 80}]}, None, [(None, 80, "TCP")]),
        ({"ports": [{"port": 80, "targetPort": 81, "protocol": "UDP"}]}, None, [(None, 81, "UDP")]),
        ({"ports": [{"port": 80, "targetPort": "web", "protocol": "UDP"}]}, None, None),
        ({}, [{"name": "other", "containerPort": 1}], None),
        ({}, [{"name": "x", "containerPort": 1}, {"name": "web", "containerPort": 2}], [("http", 2, "TCP")]),
        ({"ports": [{"port": 1}, {"port": 2, "targetPort": "none"}]}, None, [(None, 1, "TCP")]),
        ({"ports": []}, None, []),
    ],
)
def test_ports(spec: Obj, ports: Any, want: list[Any] | None) -> None:
    world = World(service(**spec), a_pod("a", ports=ports)).up("a", "1.1.1.1")
    assert world.subsets() == ([] if want is None else [(["1.1.1.1"], [], want)])
    listed = world.slice()["ports"] or []
    assert [(p["name"], p["port"], p["protocol"]) for p in listed] == [
        (n or "", p, t) for n, p, t in want or ()
    ]


def test_pods_with_other_ports_are_a_subset_of_their_own() -> None:
    other = [{"name": "web", "containerPort": 9090}]
    world = World(service(), a_pod("a"), a_pod("b", ports=other)).up("a", "1.1.1.1").up("b", "1.1.1.2")
    assert world.subsets() == [
        (["1.1.1.1"], [], HTTP),
        (["1.1.1.2"], [], [("http", 9090, "TCP")]),
    ]


def test_labels_and_owners_and_what_others_wrote() -> None:
    for headless in (False, True):
        world = World(service(**({"clusterIP": "None"} if headless else {})), a_pod("a")).up("a", "1.1.1.1")
        marks = {"service.kubernetes.io/headless": ""} if headless else {}
        made = world.store.require(ENDPOINTS)
        assert made["metadata"]["labels"] == {
            "team": "a",
            "endpoints.kubernetes.io/managed-by": "endpoint-controller",
            **marks,
        }
        meta = world.slice()["metadata"]
        assert meta["labels"] == {
            "team": "a",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            "kubernetes.io/service-name": "web",
            **marks,
        }
        owner = meta["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Service", "web", True)
        world.store.patch(ENDPOINTS, {"metadata": {"annotations": {"mine": "kept"}}})
        world.up("a", "1.1.1.1", ready=False)
        notes = world.store.require(ENDPOINTS)["metadata"]["annotations"]
        assert notes["mine"] == "kept"
        assert set(notes) == {"mine", "endpoints.kubernetes.io/last-change-trigger-time"}
        before = world.store.version
        world.controller._plan("default", "web")
        world.run()
        assert world.store.version == before, "nothing is written where nothing changed"


def test_pods_that_are_not_ready_may_be_published() -> None:
    world = World(service(publishNotReadyAddresses=True), a_pod("a")).up("a", "1.1.1.1", ready=False)
    assert world.subsets() == [(["1.1.1.1"], [], HTTP)]
    assert world.slice()["endpoints"][0]["conditions"] == {
        "ready": True,
        "serving": False,
        "terminating": False,
    }


def test_who_has_no_endpoints_and_whose_go() -> None:
    for spec in ({"selector": None}, {"type": "ExternalName", "externalName": "x"}):
        world = World(service(**spec), a_pod("a")).up("a", "1.1.1.1")
        assert world.store.get(ENDPOINTS) is None
        assert world.store.objects(SLICE, "default") == []
    gone = World(service(), a_pod("a")).up("a", "1.1.1.1")
    gone.store.delete(Key("Service", "default", "web"))
    gone.run()
    assert gone.store.get(ENDPOINTS) is None
    meta = {"name": "web", "namespace": "default"}
    by_hand = World(service(), {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": []})
    by_hand.store.patch(ENDPOINTS, {"metadata": {"labels": None}})
    by_hand.store.delete(Key("Service", "default", "web"))
    by_hand.run()
    assert by_hand.store.get(ENDPOINTS) is not None, "what nobody says is ours stays"


def test_a_copy_goes_on_by_itself() -> None:
    world = World(service(), a_pod("a"))
    copy = world.controller.fork()
    world.store.delete(Key("Service", "default", "web"))
    world.run()
    assert copy._selectors == {"default": {"web": WEB}}
    assert world.controller._selectors == {"default": {}}


def test_the_slice_and_the_endpoints_name_their_pods() -> None:
    world = World(service(), a_pod("a")).up("a", "1.1.1.1")
    pod = world.store.require(Key("Pod", "default", "a"))["metadata"]
    of = {"kind": "Pod", "name": "a", "namespace": "default", "uid": pod["uid"]}
    found = world.slice()
    assert (found["apiVersion"], found["kind"], found["addressType"]) == (
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "IPv4",
    )
    assert found["endpoints"] == [
        {
            "addresses": ["1.1.1.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": "n",
            "targetRef": of,
        }
    ]
    assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert found["metadata"]["name"].startswith("web-") and found["metadata"]["namespace"] == "default"
    assert world.store.require(ENDPOINTS)["subsets"] == [
        {
            "addresses": [{"ip": "1.1.1.1", "nodeName": "n", "targetRef": of}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        }
    ]
