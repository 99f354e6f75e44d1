"""Where a Service leads for a server that calls it: kube-apiserver's ResolveEndpoint, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.serviceaddresses import Unresolved, resolved
from fairway.cluster.store import Store
from fairway.kube.objects import Obj

WEB: Obj = {"ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}]}
HTTP, HTTPS = {"name": "http", "port": 8080}, {"name": "https", "port": 8443}


def world(spec: Obj, *slices: tuple[str, list[Obj] | None, list[Obj] | None]) -> Store:
    """`slices`: of which Service, with which ports and endpoints."""
    store = Store()
    meta = {"name": "web", "namespace": "team"}
    store.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})
    for number, (of, ports, endpoints) in enumerate(slices):
        store.create(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": f"s{number}",
                    "namespace": "team",
                    "labels": {"kubernetes.io/service-name": of},
                },
                "addressType": "IPv4",
                "ports": ports,
                "endpoints": endpoints,
            }
        )
    return store


def at(*addresses: str, ready: bool | None = None) -> Obj:
    return {"addresses": list(addresses), **({} if ready is None else {"conditions": {"ready": ready}})}


NONE = 'no endpoints available for service "web"'
BOTH = [HTTP, HTTPS]


@pytest.mark.parametrize(
    ("spec", "slices", "port", "want"),
    [
        (WEB, [("web", BOTH, [at("10.0.0.1", "10.0.0.2")])], 80, ("10.0.0.1", 8080)),
        (WEB, [("web", BOTH, [at("10.0.0.1")])], None, ("10.0.0.1", 8443)),
        (WEB, [("web", BOTH, [at("10.0.0.1")])], 0, ("10.0.0.1", 8443)),
        (
            WEB,
            [("web", BOTH, [at("10.0.0.1", ready=False), at("10.0.0.2", ready=True)])],
            80,
            ("10.0.0.2", 8080),
        ),
        (WEB, [("web", BOTH, [at(), at("10.0.0.2")])], 80, ("10.0.0.2", 8080)),
        (WEB, [("web", BOTH, [at("10.0.0.1", ready=False)])], 80, NONE),
        (WEB, [("other", BOTH, [at("10.0.0.1")]), ("web", BOTH, [at("10.0.0.2")])], 80, ("10.0.0.2", 8080)),
        (WEB, [("web", [HTTPS], [at("10.0.0.1")]), ("web", BOTH, [at("10.0.0.2")])], 80, ("10.0.0.2", 8080)),
        (WEB, [("web", [{"name": "http"}], [at("10.0.0.1")])], 80, NONE),
        (WEB, [("web", None, None)], 80, NONE),
        (WEB, [], 80, NONE),
        (WEB, [("web", BOTH, [at("10.0.0.1")])], 81, 'no service port 81 found for service "web"'),
        ({}, [("web", BOTH, [at("10.0.0.1")])], None, 'no service port 443 found for service "web"'),
        ({"ports": [{"port": 80}]}, [("web", [{"port": 9}], [at("10.0.0.1")])], 80, ("10.0.0.1", 9)),
        (
            {"ports": [{"port": 80}]},
            [("web", [{"name": "", "port": 9}], [at("10.0.0.1")])],
            80,
            ("10.0.0.1", 9),
        ),
        ({"ports": [{"port": 80}]}, [("web", [HTTP], [at("10.0.0.1")])], 80, NONE),
        ({"type": "ExternalName", "externalName": "x.example"}, [], 80, ("x.example", 80)),
        ({"type": "ExternalName", "externalName": "x.example"}, [], None, ("x.example", 443)),
    ],
)
def test_where_a_service_leads(spec: Obj, slices: list[Any], port: int | None, want: Any) -> None:
    asked = {"namespace": "team", "name": "web", **({} if port is None else {"port": port})}
    store = world(spec, *slices)
    if isinstance(want, tuple):
        assert resolved(store, asked) == want
        return
    with pytest.raises(Unresolved) as refused:
        resolved(store, asked)
    assert str(refused.value) == want


def test_a_service_that_is_not_there() -> None:
    for asked, name in (({"namespace": "other", "name": "web"}, "web"), ({}, "")):
        with pytest.raises(Unresolved, match=f'^service "{name}" not found$'):
            resolved(world(WEB), asked)
