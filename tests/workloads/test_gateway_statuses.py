"""Statuses of Gateways, routes and pools, whole; and who is looked at after which change."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.actions import SetStatus
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339, rfc3339
from fairway.workloads import gateways
from fairway.workloads.gateways import CLASS, GATEWAY, POOL, ROUTE

NOW_US = parse_rfc3339("2026-01-05T08:00:00Z")
API = "gateway.networking.k8s.io/v1"
KINDS = {
    GATEWAY: API,
    CLASS: API,
    ROUTE: API,
    POOL: "inference.networking.k8s.io/v1",
    "Service": "v1",
}


def world(*objects: tuple[str, str, str, Obj]) -> Store:
    """Objects as (kind, namespace, name, spec)."""
    store = Store(seed=1, now_us=NOW_US)
    for gk, namespace, name, spec in (
        (CLASS, "", "any", {"controllerName": "example.com/any"}),
        (
            GATEWAY,
            "ns",
            "front",
            {"gatewayClassName": "any", "listeners": [{"name": "http"}, {"name": "https"}]},
        ),
        *objects,
    ):
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        store.create({"apiVersion": KINDS[gk], "kind": gk.partition(".")[0], "metadata": meta, "spec": spec})
    return store


def parent(name: str = "front", **more: Any) -> Obj:
    return {"name": name, **more}


def route(*parents: Obj, backends: list[Obj] | None = None) -> Obj:
    return {"parentRefs": list(parents), "rules": [{}, {"backendRefs": backends or []}]}


def said(holds: bool, type_: str, reason: str, message: str, **more: Any) -> Obj:
    return {
        "type": type_,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": rfc3339(NOW_US),
        **more,
    }


ACCEPTED = said(True, "Accepted", "Accepted", "Resource accepted")
PROGRAMMED = said(True, "Programmed", "Programmed", "Resource programmed")
RESOLVED = said(True, "ResolvedRefs", "ResolvedRefs", "No errors found")


def look(reconcile: Any, store: Store, key: Key) -> Obj | None:
    """The status that is written; a second look writes nothing."""
    actions = reconcile(store, key, NOW_US).actions
    if not actions:
        return None
    (one,) = actions
    assert isinstance(one, SetStatus)
    assert one.key == key
    store.set_status(key, one.status)
    later = reconcile(store, key, NOW_US + 60_000_000).actions
    assert later == (), "times alone are no news"
    return dict(one.status)


def test_a_gateway_counts_the_routes_of_each_listener() -> None:
    store = world(
        (ROUTE, "ns", "all", route(parent())),
        (ROUTE, "ns", "one", route(parent(sectionName="https"))),
        (ROUTE, "ns", "both", route(parent(sectionName="http"), parent(sectionName="https"))),
        (ROUTE, "other", "far", route(parent(namespace="ns", sectionName="https"))),
        (ROUTE, "other", "none", route(parent())),
        (ROUTE, "ns", "bare", {}),
        (GATEWAY, "ns", "plain", {"gatewayClassName": "any", "addresses": [{"value": "1.2.3.4"}]}),
        (GATEWAY, "ns", "strange", {"gatewayClassName": "none"}),
    )
    shown = {
        "supportedKinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}],
        "conditions": [ACCEPTED, PROGRAMMED, RESOLVED],
    }
    assert look(gateways.reconcile_gateway, store, Key(GATEWAY, "ns", "front")) == {
        "addresses": [{"type": "Hostname", "value": "front-any.ns.svc.cluster.local"}],
        "conditions": [ACCEPTED, PROGRAMMED],
        "listeners": [
            {"name": "http", "attachedRoutes": 2, **shown},
            {"name": "https", "attachedRoutes": 4, **shown},
        ],
    }
    assert look(gateways.reconcile_gateway, store, Key(GATEWAY, "ns", "plain")) == {
        "addresses": [{"value": "1.2.3.4"}],
        "conditions": [ACCEPTED, PROGRAMMED],
        "listeners": [],
    }
    for name in ("strange", "gone"):
        assert look(gateways.reconcile_gateway, store, Key(GATEWAY, "ns", name)) is None


VALID = said(True, "Accepted", "Accepted", "Route was valid")
FOUND = said(True, "ResolvedRefs", "ResolvedRefs", "All references resolved")


@pytest.mark.parametrize(
    ("backends", "resolved"),
    [
        ([], FOUND),
        ([{"name": "there"}], FOUND),
        ([{"name": "there", "kind": "Service"}, {"name": "pool", "kind": "InferencePool"}], FOUND),
        ([{"name": "far", "namespace": "other"}], FOUND),
        (
            [{"name": "there"}, {"name": "far"}],
            said(False, "ResolvedRefs", "BackendNotFound", "backend(far.ns.svc.cluster.local) not found"),
        ),
        (
            [{"name": "there", "kind": "InferencePool"}],
            said(False, "ResolvedRefs", "BackendNotFound", "backend(there.ns.svc.cluster.local) not found"),
        ),
        (
            [{"name": "x", "kind": "Bucket", "group": "g"}, {"name": "far"}],
            said(
                False,
                "ResolvedRefs",
                "InvalidKind",
                'referencing unsupported backendRef: group "g" kind "Bucket"',
            ),
        ),
    ],
)
def test_a_route_says_of_each_parent_what_becomes_of_it(backends: list[Obj], resolved: Obj) -> None:
    refs = [
        parent("gone"),
        parent("strange"),
        parent(),
        parent(sectionName="http"),
        parent(sectionName="tcp"),
        parent("far", namespace="other"),
    ]
    store = world(
        ("Service", "ns", "there", {}),
        ("Service", "other", "far", {}),
        (POOL, "ns", "pool", {}),
        (GATEWAY, "ns", "strange", {"gatewayClassName": "none"}),
        (GATEWAY, "other", "far", {"gatewayClassName": "any"}),
        (ROUTE, "ns", "r", route(*refs, backends=backends)),
    )
    missing = said(False, "Accepted", "NoMatchingParent", 'sectionName "tcp" not found')
    of_parent = [(refs[2], VALID), (refs[3], VALID), (refs[4], missing), (refs[5], VALID)]
    want = [
        {"parentRef": ref, "controllerName": "example.com/any", "conditions": [accepted, resolved]}
        for ref, accepted in of_parent
    ]
    key = Key(ROUTE, "ns", "r")
    store.set_status(key, {"kept": 1})
    assert look(gateways.reconcile_route, store, key) == {"kept": 1, "parents": want}
    assert look(gateways.reconcile_route, store, Key(ROUTE, "ns", "gone")) is None


def test_each_parent_keeps_its_own_times() -> None:
    refs = [parent(sectionName="http"), parent(sectionName="https")]
    store = world((ROUTE, "ns", "r", route(*refs, backends=[{"name": "late"}])))
    key = Key(ROUTE, "ns", "r")
    look(gateways.reconcile_route, store, key)
    store.create(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "late", "namespace": "ns"}, "spec": {}}
    )
    later_us = NOW_US + 60_000_000
    (one,) = gateways.reconcile_route(store, key, later_us).actions
    assert isinstance(one, SetStatus)
    now_found = {**FOUND, "lastTransitionTime": rfc3339(later_us)}
    assert [p["conditions"] for p in one.status["parents"]] == [[VALID, now_found]] * 2


LEADS = [{"name": "pool", "kind": "InferencePool"}]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_pools_parents_are_the_gateways_that_lead_to_it(is_there: bool) -> None:
    objects: list[tuple[str, str, str, Obj]] = [
        (POOL, "ns", "pool", {"endpointPickerRef": {"name": "picker"}}),
        (GATEWAY, "ns", "back", {"gatewayClassName": "any"}),
        (GATEWAY, "ns", "strange", {"gatewayClassName": "none"}),
        (GATEWAY, "ns", "idle", {"gatewayClassName": "any"}),
        (ROUTE, "ns", "r", route(parent(), parent("strange"), parent("gone"), backends=LEADS)),
        (ROUTE, "ns", "s", route(parent("back"), parent(), backends=LEADS)),
        (ROUTE, "ns", "t", route(parent("idle"), backends=[{"name": "pool"}])),
        (ROUTE, "other", "u", route(parent("idle", namespace="ns"), backends=LEADS)),
    ]
    store = world(*objects, *([("Service", "ns", "picker", {})] if is_there else []))
    if is_there:
        resolved = said(True, "ResolvedRefs", "ResolvedRefs", "All ExtensionRef references resolved")
    else:
        gone = "Referenced ExtensionRef not found: Service ns/picker not found"
        resolved = said(False, "ResolvedRefs", "InvalidExtensionRef", gone)
    accepted = said(
        True, "Accepted", "Accepted", "Referenced by an HTTPRoute accepted by the parentRef Gateway"
    )
    ref = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "ns"}
    key = Key(POOL, "ns", "pool")
    earlier = {**accepted, "lastTransitionTime": rfc3339(NOW_US - 60_000_000)}
    store.set_status(
        key, {"kept": 1, "parents": [{"parentRef": {**ref, "name": "front"}, "conditions": [earlier]}]}
    )
    assert look(gateways.reconcile_pool, store, key) == {
        "kept": 1,
        "parents": [
            {"parentRef": {**ref, "name": "back"}, "conditions": [accepted, resolved]},
            {"parentRef": {**ref, "name": "front"}, "conditions": [earlier, resolved]},
        ],
    }
    assert look(gateways.reconcile_pool, store, Key(POOL, "ns", "gone")) is None
    unled = world((POOL, "ns", "pool", {}))
    assert look(gateways.reconcile_pool, unled, key) is None


def test_who_is_looked_at_after_a_change() -> None:
    store = world(
        (GATEWAY, "other", "g", {"gatewayClassName": "any"}),
        (ROUTE, "ns", "r", route(parent())),
        (ROUTE, "other", "r", route(parent())),
        (POOL, "ns", "p", {}),
        (POOL, "other", "p", {}),
        ("Service", "ns", "s", {}),
    )
    places = {
        "gateways": [Key(GATEWAY, "ns", "front"), Key(GATEWAY, "other", "g")],
        "routes": [Key(ROUTE, "ns", "r"), Key(ROUTE, "other", "r")],
        "pools": [Key(POOL, "ns", "p"), Key(POOL, "other", "p")],
    }
    of_all = {GATEWAY: "gateways", ROUTE: "routes", POOL: "pools"}

    def looked(controller: Any, key: Key, type_: str = ADDED, *, generation: int | None = None) -> list[Key]:
        obj = store.require(key)
        old = None
        if generation is not None:
            old = {**obj, "metadata": {**obj["metadata"], "generation": generation}}
        return list(controller.map_change(store, Change(1, type_, key, obj, old)))

    # Which kinds' changes concern whom: in all namespaces, of Services and pools in their own.
    table = {
        gateways.GATEWAYS: {CLASS: 2, ROUTE: 2, "Service": 0, POOL: 0},
        gateways.ROUTES: {CLASS: 2, GATEWAY: 2, "Service": 1, POOL: 1},
        gateways.POOLS: {CLASS: 2, GATEWAY: 2, ROUTE: 2, "Service": 1},
    }
    keys = {
        CLASS: Key(CLASS, "", "any"),
        GATEWAY: Key(GATEWAY, "ns", "front"),
        ROUTE: Key(ROUTE, "ns", "r"),
        POOL: Key(POOL, "ns", "p"),
        "Service": Key("Service", "ns", "s"),
    }
    for controller, concerned in table.items():
        every = places[of_all[controller.gk]]
        own = keys[controller.gk]
        assert looked(controller, own) == [own]
        assert looked(controller, own, MODIFIED, generation=0) == [own]
        assert looked(controller, own, MODIFIED, generation=1) == []
        for gk, count in concerned.items():
            for found in (looked(controller, keys[gk]), looked(controller, keys[gk], DELETED)):
                assert found == every[:count], (controller.name, gk)
            if "generation" in store.require(keys[gk])["metadata"]:
                assert looked(controller, keys[gk], MODIFIED, generation=1) == []
                assert looked(controller, keys[gk], MODIFIED, generation=0) == every[:count]
