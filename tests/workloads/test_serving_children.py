"""What serving operators make of their children: patched only where they differ, routed where they are named."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.actions import Create, Delete, Patch, SetStatus, perform
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, annotations_of, labels_of
from fairway.kube.timestamps import parse_rfc3339
from fairway.workloads.knative import names, routes
from fairway.workloads.kserve.children import brought_to, pruned

NOW = parse_rfc3339("2026-01-05T08:00:00Z")


def config(name: str = "c", labels: Any = None, **spec: Any) -> Obj:
    meta: Obj = {"name": name, "namespace": "default"}
    if labels is not None:
        meta["labels"] = labels
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


CHILD = Key("Deployment.apps", "default", "c")


@pytest.mark.parametrize(
    ("present", "wanted", "want"),
    [
        ({"replicas": 1}, {"replicas": 1}, None),
        ({"replicas": 1, "paused": True}, {"replicas": 1}, None),
        ({"replicas": 1}, {"replicas": 2}, {"replicas": 2}),
        ({"replicas": 1}, {"replicas": "1"}, None),
        ({}, {"replicas": 2}, {"replicas": 2}),
        ({}, {"paused": False, "x": [], "y": {}, "z": None}, {"y": {}}),
        ({"l": [1, 2]}, {"l": [1, 2]}, None),
        ({"l": [1, 2]}, {"l": [1]}, {"l": [1]}),
        ({"l": [1, 2]}, {"l": [2, 1]}, {"l": [2, 1]}),
        ({"l": [{"a": 1, "b": 2}]}, {"l": [{"a": 1}]}, None),
        ({"l": [{"a": 1}]}, {"l": [{"a": 1, "b": 2}]}, {"l": [{"a": 1, "b": 2}]}),
        ({"m": {"a": {"b": 1, "c": 2}}}, {"m": {"a": {"b": 1}}}, None),
        ({"m": {"a": {"b": 1}}}, {"m": {"a": {"b": 2}}}, {"m": {"a": {"b": 2}}}),
        ({"m": 1}, {"m": {"a": 1}}, {"m": {"a": 1}}),
    ],
)
def test_a_child_is_patched_where_it_says_something_else(present: Obj, wanted: Obj, want: Obj | None) -> None:
    store = Store()
    store.create(config(**present))
    found = brought_to(store, config(**wanted))
    assert [a.patch for a in found if isinstance(a, Patch)] == ([] if want is None else [{"spec": want}])


def test_a_child_is_made_and_labelled_and_left_alone_while_it_goes() -> None:
    store = Store()
    assert [a.obj for a in brought_to(store, config()) if isinstance(a, Create)] == [config()]
    store.create(config(labels={"a": "1", "b": "2"}))
    assert brought_to(store, config(labels={"a": "1"})) == []
    (patched,) = brought_to(store, config(labels={"a": "2"}))
    assert isinstance(patched, Patch)
    assert (patched.key, patched.patch) == (CHILD, {"metadata": {"labels": {"a": "2"}}})
    store.patch(CHILD, {"metadata": {"finalizers": ["x/y"]}})
    store.delete(CHILD)
    assert brought_to(store, config(labels={"a": "2"}, replicas=9)) == []


def test_children_that_nobody_asks_for_go() -> None:
    store = Store()
    owner = store.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o", "namespace": "default"}}
    )
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": owner["metadata"]["uid"]}
    for name in ("stays", "goes", "going"):
        made = config(name)
        made["metadata"] |= {"ownerReferences": [ref], "finalizers": ["x/y"] if name == "going" else []}
        store.create(made)
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"}}
    other["metadata"] |= {"ownerReferences": [ref]}
    store.create(other)
    store.delete(CHILD._replace(name="going"))
    found = pruned(store, owner, ("Deployment.apps",), [CHILD._replace(name="stays")])
    assert [a.key.name for a in found if isinstance(a, Delete)] == ["goes"]


# Knative's Routes.

API = names.VERSION
ROUTE = Key(names.ROUTE, "default", "web")


def ready(status: str) -> Obj:
    return {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": status}]}


class World:
    """A Route, two ready Revisions, one that is not yet and one that failed; and a Configuration."""

    def __init__(self, *traffic: Obj, latest: str | None = "r2", configuration: str = "True") -> None:
        self.store = Store(now_us=NOW)
        for name, state in (("r1", "True"), ("r2", "True"), ("r3", "Unknown"), ("r4", "False")):
            self.make("Revision", name, names.REVISION, status=ready(state))
        said = {**ready(configuration), "latestCreatedRevisionName": "r3"}
        if latest:
            said["latestReadyRevisionName"] = latest
        self.make("Configuration", "web", names.CONFIGURATION, status=said)
        self.make("Route", "web", names.ROUTE, spec={"traffic": list(traffic)})
        self.settle()

    def make(self, kind: str, name: str, gk: str, spec: Obj | None = None, status: Obj | None = None) -> None:
        meta = {"name": name, "namespace": "default"}
        self.store.create({"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec or {}})
        if status:
            self.store.set_status(Key(gk, "default", name), status)

    def settle(self) -> None:
        for _ in range(20):
            before = self.store.version
            for action in routes.reconcile(self.store, ROUTE, NOW).actions:
                perform(self.store, action)
            if self.store.version == before:
                return
        raise AssertionError("does not settle")

    @property
    def status(self) -> Obj:
        found: Obj = self.store.require(ROUTE)["status"]
        return found

    def said(self, type_: str) -> tuple[str, str, str]:
        c = next(c for c in self.status["conditions"] if c["type"] == type_)
        return c["status"], c.get("reason", ""), c.get("message", "")

    def marked(self) -> dict[str, tuple[str | None, str | None]]:
        found = self.store.objects(names.REVISION, "default")
        return {
            r["metadata"]["name"]: (
                annotations_of(r).get(names.ROUTES),
                labels_of(r).get(names.ROUTING_STATE),
            )
            for r in found
        }


def test_traffic_goes_to_what_is_named_and_to_the_latest() -> None:
    world = World(
        {"revisionName": "r1", "percent": 30, "tag": "old"}, {"configurationName": "web", "percent": 70}
    )
    assert world.status["traffic"] == [
        {
            "revisionName": "r1",
            "percent": 30,
            "latestRevision": False,
            "tag": "old",
            "url": f"http://old-web.default.{names.DOMAIN}",
        },
        {"revisionName": "r2", "percent": 70, "latestRevision": True},
    ]
    assert (world.status["url"], world.status["address"]["url"]) == (
        f"http://web.default.{names.DOMAIN}",
    ) * 2
    assert world.said("AllTrafficAssigned")[0] == "True"
    assert world.marked() == {
        "r1": ("web", "active"),
        "r2": ("web", "active"),
        "r3": ("web", "active"),
        "r4": (None, None),
    }
    world.store.patch(ROUTE, {"spec": {"traffic": [{"revisionName": "r2"}]}})
    world.settle()
    assert world.status["traffic"] == [{"revisionName": "r2", "percent": 0, "latestRevision": False}]
    assert world.marked()["r1"] == (None, "reserve")
    assert world.marked()["r2"] == ("web", "active")


@pytest.mark.parametrize(
    ("target", "more", "want"),
    [
        ({"revisionName": "r3"}, {}, ("Unknown", "RevisionMissing", 'Revision "r3" is not yet ready.')),
        ({"revisionName": "r4"}, {}, ("False", "RevisionMissing", 'Revision "r4" failed to become ready.')),
        (
            {"revisionName": "x"},
            {},
            ("False", "RevisionMissing", 'Revision "x" referenced in traffic not found.'),
        ),
        (
            {"configurationName": "x"},
            {},
            ("False", "ConfigurationMissing", 'Configuration "x" referenced in traffic not found.'),
        ),
        (
            {"configurationName": "web"},
            {"latest": None, "configuration": "Unknown"},
            ("Unknown", "RevisionMissing", 'Configuration "web" is waiting for a Revision to become ready.'),
        ),
        (
            {"configurationName": "web"},
            {"latest": None, "configuration": "False"},
            ("False", "RevisionMissing", 'Configuration "web" does not have any ready Revision.'),
        ),
    ],
)
def test_traffic_that_cannot_be_assigned(target: Obj, more: Obj, want: tuple[str, str, str]) -> None:
    world = World({**target, "percent": 100}, **more)
    assert world.said("AllTrafficAssigned") == want
    assert not world.status.get("traffic")


def test_a_service_of_somebody_else_is_not_taken() -> None:
    world = World({"revisionName": "r1", "percent": 100})
    made = world.store.require(Key("Service", "default", "web"))
    assert (made["spec"]["type"], made["spec"]["ports"][0]["port"]) == ("ExternalName", 80)
    world.store.delete(Key("Service", "default", "web"))
    world.store.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {},
        }
    )
    world.settle()
    assert world.said("IngressReady") == (
        "False",
        "NotOwned",
        'There is an existing placeholder Service "web" that we do not own.',
    )
    assert [a for a in routes.reconcile(world.store, ROUTE, NOW).actions if isinstance(a, SetStatus)] == []
