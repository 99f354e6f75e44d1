"""Addresses and ports of Services: unique, kept, given back, refused where they are taken or none is left."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver import addresses
from fairway.apiserver.addresses import Addresses
from fairway.apiserver.statuses import StatusError
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj


def service(name: str = "s", *ports: Any, **spec: Any) -> Obj:
    """`ports`: a number, or (number, nodePort)."""
    listed = [{"port": p} if isinstance(p, int) else {"port": p[0], "nodePort": p[1]} for p in ports]
    body = {**spec, **({"ports": listed} if listed else {})}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "d"}, "spec": body}


class Here:
    def __init__(self, *given: Obj) -> None:
        self.store = Store()
        self.addresses = Addresses(self.store)
        for one in given:
            self.add(one)

    def add(self, given: Obj) -> Obj:
        return self.store.create(self.addresses.complete(given))

    def ports(self, given: Obj) -> list[int]:
        return [p["nodePort"] for p in self.add(given)["spec"]["ports"]]


def test_addresses_and_ports_are_unique_and_given_back() -> None:
    here = Here()
    made = [here.add(service(f"s{i}", 80, 81, type="NodePort"))["spec"] for i in range(5)]
    assert [m["clusterIP"] for m in made] == [f"10.96.1.{i}" for i in range(1, 6)]
    assert [m["clusterIPs"] for m in made] == [[m["clusterIP"]] for m in made]
    given = [p["nodePort"] for m in made for p in m["ports"]]
    assert given == list(range(30000, 30010))
    here.store.delete(Key("Service", "d", "s1"))
    again = here.add(service("t", 80, type="LoadBalancer"))
    assert again["spec"]["clusterIP"] == "10.96.1.2"
    assert again["spec"]["ports"][0]["nodePort"] == 30002
    assert here.addresses.complete(service("v"))["status"] == {"loadBalancer": {}}
    assert (made[0]["ipFamilies"], made[0]["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert Addresses(here.store).allocated(service("u"), None)["spec"]["clusterIP"] == "10.96.1.6"


def test_ports_of_one_service_differ_whatever_order_they_are_asked_in() -> None:
    assert Here().ports(service("s", 80, (81, 30000), 82, type="NodePort")) == [30001, 30000, 30002]


@pytest.mark.parametrize(
    ("kind", "more", "has_ports"),
    [
        (None, {}, False),
        ("ClusterIP", {}, False),
        ("NodePort", {}, True),
        ("LoadBalancer", {}, True),
        ("LoadBalancer", {"allocateLoadBalancerNodePorts": False}, False),
    ],
)
def test_who_gets_node_ports(kind: str | None, more: Obj, has_ports: bool) -> None:
    made = Here().add(service("s", 80, **({"type": kind} if kind else {}), **more))
    assert ("nodePort" in made["spec"]["ports"][0]) == has_ports


def test_an_external_name_and_a_headless_service_take_no_address() -> None:
    here = Here()
    assert "clusterIP" not in here.add(service("e", type="ExternalName", externalName="x.org"))["spec"]
    headless = here.add(service("h", clusterIP="None"))["spec"]
    assert (headless["clusterIP"], headless["clusterIPs"]) == ("None", ["None"])
    assert here.add(service("s"))["spec"]["clusterIP"] == "10.96.1.1"


@pytest.mark.parametrize(
    ("asks", "why"),
    [
        ({"clusterIP": "10.96.1.1"}, "failed to allocate IP 10.96.1.1: provided IP is already allocated"),
        (
            {"clusterIP": "10.97.0.1"},
            "failed to allocate IP 10.97.0.1: the provided IP (10.97.0.1) is not in the valid range. "
            "The range of valid IPs is 10.96.0.0/16",
        ),
        ({"clusterIP": "x"}, "failed to allocate IP x: the provided IP (x) is not in the valid range."),
        (
            {"type": "NodePort", "ports": [{"port": 1, "nodePort": 30000}]},
            "provided port is already allocated",
        ),
        (
            {"type": "NodePort", "ports": [{"port": 1, "nodePort": 29999}]},
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        (
            {"type": "NodePort", "ports": [{"port": 1, "nodePort": 32768}]},
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        (
            {"type": "NodePort", "ports": [{"port": 1}, {"port": 2, "nodePort": 30000}]},
            "spec.ports[1].nodePort: Invalid value: 30000: provided port is already allocated",
        ),
        ({"type": "NodePort", "ports": [{"port": 1, "nodePort": 32767}]}, None),
        ({"clusterIP": "10.96.255.254"}, None),
        ({"clusterIP": "10.96.0.10"}, None),
    ],
)
def test_what_is_asked_for(asks: Obj, why: str | None) -> None:
    here = Here(service("first", 80, type="NodePort"))
    if why is None:
        made = here.add(service("s", **asks))["spec"]
        assert made["clusterIP"] == asks.get("clusterIP", made["clusterIP"])
        return
    with pytest.raises(StatusError) as refused:
        here.add(service("s", **asks))
    assert refused.value.code == 422
    assert why in str(refused.value.message)


def test_what_a_service_had_is_still_its_own() -> None:
    here = Here()
    old = here.add(service("s", 80, (81, 31000), type="NodePort"))
    same = here.addresses.allocated(old, old)
    assert same["spec"] == old["spec"]
    asked = service("s", 80, 81, 82, type="NodePort")
    kept = here.addresses.adjusted(asked, old)["spec"]
    assert kept["clusterIP"] == old["spec"]["clusterIP"]
    assert kept["clusterIPs"] == [kept["clusterIP"]]
    assert [p.get("nodePort") for p in kept["ports"]] == [30000, 31000, None]
    here.add(service("t", (80, 32000), type="NodePort"))
    with pytest.raises(StatusError, match=r"spec.ports\[1\].nodePort: Invalid value: 32000"):
        here.addresses.allocated(service("s", (80, 30000), (81, 32000), type="NodePort"), old)
    swapped = here.addresses.adjusted(service("s", (80, 31000), 81, type="NodePort"), old)["spec"]
    assert [p.get("nodePort") for p in swapped["ports"]] == [31000, None], "no port twice"


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("ClusterIP", {"internalTrafficPolicy"}),
        ("NodePort", {"externalTrafficPolicy", "internalTrafficPolicy"}),
        (
            "LoadBalancer",
            {
                "externalTrafficPolicy",
                "internalTrafficPolicy",
                "healthCheckNodePort",
                "allocateLoadBalancerNodePorts",
                "loadBalancerClass",
            },
        ),
        ("ExternalName", set()),
    ],
)
def test_what_another_type_has_no_use_for_goes_unless_it_was_changed(kind: str, kept: set[str]) -> None:
    own = {
        "externalTrafficPolicy": "Local",
        "internalTrafficPolicy": "Cluster",
        "healthCheckNodePort": 32000,
        "allocateLoadBalancerNodePorts": True,
        "loadBalancerClass": "x/y",
    }
    here = Here()
    old = here.add(service("s", 80, type="LoadBalancer", **own))
    new = {**old, "spec": {**old["spec"], "type": kind}}
    left = here.addresses.adjusted(new, old)["spec"]
    assert set(own) & set(left) == kept
    has_ports = kind in ("NodePort", "LoadBalancer")
    assert ("nodePort" in left["ports"][0]) == has_ports
    assert ("clusterIP" in left) == (kind != "ExternalName")
    said = {**new, "spec": {**new["spec"], "externalTrafficPolicy": "Cluster"}}
    assert here.addresses.adjusted(said, old)["spec"]["externalTrafficPolicy"] == "Cluster"


def test_when_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is refused: two Services never share."""
    monkeypatch.setattr(addresses, "_PORTS", range(30_000, 30_002))
    monkeypatch.setattr(addresses, "_LAST", addresses._FIRST + 1)
    here = Here(service("a", 80, type="NodePort"))
    with pytest.raises(StatusError) as full:
        here.add(service("b", 80, 81, type="NodePort"))
    assert (full.value.code, full.value.message) == (
        500,
        "Internal error occurred: failed to allocate a nodePort: range is full",
    )
    here.add(service("c"))
    with pytest.raises(StatusError) as full:
        here.add(service("d"))
    assert full.value.message == "Internal error occurred: failed to allocate a serviceIP: range is full"
