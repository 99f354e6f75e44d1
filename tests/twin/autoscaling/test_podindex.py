"""Which pods a selector finds, and what happens to the index as pods change."""

from __future__ import annotations

from typing import Any

from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.labels import EVERYTHING, label_selector
from fairway.kube.objects import Key, Obj
from fairway.twin.autoscaling.podindex import PodIndex, handle_of


def pod(name: str, namespace: str = "d", **labels: str) -> Obj:
    meta: Obj = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": []}}


def found(index: PodIndex, namespace: str = "d", **labels: str) -> list[str]:
    return [p["metadata"]["name"] for p in index.pods(namespace, label_selector({"matchLabels": labels}))]


def world() -> tuple[Store, PodIndex]:
    store = Store(seed=1)
    for one in (
        pod("b", app="x", tier="1"),
        pod("a", app="x"),
        pod("c", app="y"),
        pod("a", "other", app="x"),
    ):
        store.create(one)
    return store, PodIndex(store)


def change(store: Store, index: PodIndex, name: str, labels: Any) -> None:
    old = store.require(Key("Pod", "d", name))
    new = store.patch(Key("Pod", "d", name), {"metadata": {"labels": labels}})
    index.apply(Change(store.version, MODIFIED, Key("Pod", "d", name), new, old))


def test_whom_a_selector_finds() -> None:
    _, index = world()
    assert sorted(found(index, app="x")) == ["a", "b"]
    assert found(index, app="x", tier="1") == ["b"]
    assert found(index, app="x", tier="2") == []
    assert found(index, "other", app="x") == ["a"]
    assert found(index, app="z") == []
    assert len(index.pods("d", EVERYTHING)) == 3
    without = label_selector({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]})
    assert sorted(p["metadata"]["name"] for p in index.pods("d", without)) == ["a", "c"]


def test_pods_come_change_and_go() -> None:
    store, index = world()
    new = store.create(pod("z", app="x"))
    index.apply(Change(store.version, ADDED, Key("Pod", "d", "z"), new, None))
    assert sorted(found(index, app="x")) == ["a", "b", "z"]
    change(store, index, "b", {"app": "y"})
    assert (sorted(found(index, app="x")), sorted(found(index, app="y"))) == (["a", "z"], ["b", "c"])
    assert found(index, tier="1") == ["b"]
    change(store, index, "b", {"tier": None})
    assert ("d", "tier", "1") not in index._names
    gone = store.require(Key("Pod", "d", "z"))
    store.delete(Key("Pod", "d", "z"))
    index.apply(Change(store.version, DELETED, Key("Pod", "d", "z"), gone, gone))
    assert found(index, app="x") == ["a"]
    assert index._names[("d", "app", "x")] == {"a": None}
    index.apply(Change(store.version, DELETED, Key("Pod", "d", "z"), gone, None))
    assert index._names[("d", "app", "x")] == {"a": None}


def test_a_label_that_every_pod_of_a_selector_has() -> None:
    several = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}
    assert handle_of("d", label_selector({"matchLabels": {"app": "x"}})) == ("d", "app", "x")
    assert handle_of("d", label_selector(several)) is None
    assert handle_of("d", EVERYTHING) is None
