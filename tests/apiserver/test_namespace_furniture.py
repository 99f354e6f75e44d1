"""What a namespace is furnished with: its default account and the cluster's root certificate, as long as it stays."""

from __future__ import annotations

import pytest

from fairway.apiserver.namespaced import NamespaceFurniture
from fairway.kube.objects import Key, Obj
from fairway.twin.latency import NONE
from fairway.twin.twin import Twin

ACCOUNT, ROOT = "ServiceAccount", "kube-root-ca.crt"
PUBLISHED: Obj = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": ROOT,
        "namespace": "kube-system",
        "annotations": {"kubernetes.io/description": "Contains a CA bundle"},
        "labels": {"a": "b"},
    },
    "data": {"ca.crt": "PEM"},
}


class World:
    def __init__(self, *objects: Obj) -> None:
        self.twin = Twin(seed=1, latency=NONE, components=[NamespaceFurniture()])
        self.store = self.twin.store
        self.twin.apply(objects)
        self.run()

    def run(self) -> None:
        self.twin.wake()
        self.twin.run(self.twin.now_us + 1_000_000)

    def namespace(self, name: str) -> None:
        self.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.run()

    def there(self, namespace: str) -> list[str]:
        found = (*self.store.objects(ACCOUNT, namespace), *self.store.objects("ConfigMap", namespace))
        return [obj["metadata"]["name"] for obj in found]


def test_a_new_namespace_gets_both() -> None:
    world = World(PUBLISHED)
    world.namespace("team")
    assert world.there("team") == ["default", ROOT]
    root = world.store.require(Key("ConfigMap", "team", ROOT))
    assert root["data"] == {"ca.crt": "PEM"} and "labels" not in root["metadata"]
    assert root["metadata"]["annotations"] == PUBLISHED["metadata"]["annotations"]


def test_before_the_certificate_is_published_there_is_the_account_alone() -> None:
    world = World()
    world.namespace("team")
    assert world.there("team") == ["default"]


def test_a_certificate_without_annotations_has_none_anywhere() -> None:
    meta = {"name": ROOT, "namespace": "kube-system"}
    world = World({**PUBLISHED, "metadata": meta})
    world.namespace("team")
    assert world.store.require(Key("ConfigMap", "team", ROOT))["metadata"].get("annotations", {}) == {}


@pytest.mark.parametrize(
    ("kind", "name", "comes_again"),
    [
        (ACCOUNT, "default", True),
        ("ConfigMap", ROOT, True),
        (ACCOUNT, "other", False),
        ("ConfigMap", "other", False),
    ],
)
def test_what_is_deleted_comes_again(kind: str, name: str, comes_again: bool) -> None:
    world = World(PUBLISHED)
    world.namespace("team")
    meta = {"name": name, "namespace": "team"}
    if not comes_again:
        world.store.create({"apiVersion": "v1", "kind": kind, "metadata": meta})
        world.run()
    before = world.store.get(Key(kind, "team", name)) or {}
    world.store.delete(Key(kind, "team", name))
    world.run()
    after = world.store.get(Key(kind, "team", name))
    assert (after is not None) is comes_again
    assert after is None or after["metadata"]["uid"] != before["metadata"]["uid"]
    assert world.there("team") == ["default", ROOT]


def test_what_is_there_stays_as_somebody_changed_it() -> None:
    world = World(PUBLISHED)
    world.namespace("team")
    world.store.patch(Key("ConfigMap", "team", ROOT), {"data": {"ca.crt": "mine"}})
    world.store.delete(Key(ACCOUNT, "team", "default"))
    world.run()
    assert world.there("team") == ["default", ROOT]
    assert world.store.require(Key("ConfigMap", "team", ROOT))["data"] == {"ca.crt": "mine"}


def test_in_a_namespace_that_goes_or_is_not_there_nothing_is_made() -> None:
    world = World(PUBLISHED)
    world.namespace("team")
    world.store.delete(Key("Namespace", "", "team"))
    world.store.create(
        {"apiVersion": "v1", "kind": ACCOUNT, "metadata": {"name": "default", "namespace": "void"}}
    )
    world.run()
    for namespace in ("team", "void"):
        world.store.delete(Key(ACCOUNT, namespace, "default"))
    world.run()
    assert world.there("team") == [ROOT] and world.there("void") == []
