"""Services that change: addresses and ports they keep, get, give back, or are refused."""

from __future__ import annotations

from typing import Any

import pytest
from apiserver_serving import Served

SERVICES = "/api/v1/namespaces/default/services"
MERGE = {"Content-Type": "application/merge-patch+json"}


def service(name: str, **spec: Any) -> dict[str, Any]:
    body = {"ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": body}


def test_a_service_gets_node_ports_when_it_needs_them_and_gives_them_back(api: Served) -> None:
    _, before = api.ask("POST", SERVICES, service("turns"))
    assert "externalTrafficPolicy" not in before["spec"]
    _, opened = api.ask("PATCH", f"{SERVICES}/turns", {"spec": {"type": "NodePort"}}, headers=MERGE)
    port = opened["spec"]["ports"][0]["nodePort"]
    assert 30000 <= port <= 32767
    assert opened["spec"]["externalTrafficPolicy"] == "Cluster"
    wider = {"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}]}}
    _, wide = api.ask("PATCH", f"{SERVICES}/turns", wider, headers=MERGE)
    assert wide["spec"]["ports"][0]["nodePort"] == port
    _, closed = api.ask("PATCH", f"{SERVICES}/turns", {"spec": {"type": "ClusterIP"}}, headers=MERGE)
    assert closed["spec"]["ports"] == before["spec"]["ports"]
    assert closed["spec"]["clusterIP"] == before["spec"]["clusterIP"]
    assert closed["spec"].keys() == before["spec"].keys()
    again = api.ask("POST", SERVICES, service("other", type="NodePort"))[1]
    assert again["spec"]["ports"][0]["nodePort"] == port


def test_a_replaced_service_keeps_its_address(api: Served) -> None:
    _, before = api.ask("POST", SERVICES, service("kept"))
    code, after = api.ask("PUT", f"{SERVICES}/kept", service("kept", selector={"a": "b"}))
    assert (code, after["spec"]["clusterIP"]) == (200, before["spec"]["clusterIP"])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a taken node port": (
        {"type": "NodePort", "ports": [{"port": 80, "nodePort": 31111}]},
        "spec.ports[0].nodePort: Invalid value: 31111: provided port is already allocated",
    ),
    "a port that is no node port": (
        {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
        "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. "
        "The range of valid ports is 30000-32767",
    ),
    "a taken address": (
        {"clusterIP": "10.96.7.7"},
        'spec.clusterIPs: Invalid value: ["10.96.7.7"]: failed to allocate IP 10.96.7.7: provided IP is '
        "already allocated",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_taken_or_not_ours_is_refused(api: Served, name: str) -> None:
    spec, want = REFUSED[name]
    holder = service("holder", type="NodePort", clusterIP="10.96.7.7")
    holder["spec"]["ports"][0]["nodePort"] = 31111
    api.ask("POST", SERVICES, holder)
    code, said = api.ask("POST", SERVICES, service("late", **spec))
    assert (code, said["message"]) == (422, f'Service "late" is invalid: {want}')


def test_an_address_may_not_change(api: Served) -> None:
    api.ask("POST", SERVICES, service("fixed"))
    patch = {"spec": {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"]}}
    code, said = api.ask("PATCH", f"{SERVICES}/fixed", patch, headers=MERGE)
    want = 'spec.clusterIPs[0]: Invalid value: ["10.96.9.9"]: may not change once set'
    assert (code, said["message"]) == (422, f'Service "fixed" is invalid: {want}')
