"""What goes with its owner: background, foreground and orphaning deletion."""

from __future__ import annotations

from typing import Any

from fairway.cluster.garbage import collect
from fairway.cluster.store import BACKGROUND, FOREGROUND, ORPHAN, Store
from fairway.kube.objects import Key, Obj, owner_reference

OWNER = Key("ConfigMap", "default", "owner")
CHILD = Key("ConfigMap", "default", "child")
GRANDCHILD = Key("ConfigMap", "default", "grandchild")


def _make(store: Store, name: str, *owners: Obj, block: bool = True, **meta: Any) -> Obj:
    refs = [owner_reference(o, controller=i == 0, block_deletion=block) for i, o in enumerate(owners)]
    metadata = {"name": name, "namespace": "default", "ownerReferences": refs, **meta}
    return store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def _family(**child: Any) -> Store:
    store = Store()
    owner = _make(store, "owner")
    middle = _make(store, "child", owner, **child)
    _make(store, "grandchild", middle)
    return store


def _settle(store: Store, since: int = 0) -> None:
    """Follow the log until nothing more happens."""
    for _ in range(20):
        changes = store.log.since(since)
        since = store.version
        if not changes:
            return
        collect(store, changes)
    raise AssertionError("does not settle")


def _names(store: Store) -> list[str]:
    return [o["metadata"]["name"] for o in store.objects("ConfigMap")]


def test_dependents_are_found_by_owner() -> None:
    store = _family()
    assert store.dependents(store.require(OWNER)["metadata"]["uid"]) == [CHILD]


def test_nothing_happens_to_the_owned_while_owners_live() -> None:
    store = _family()
    _settle(store)
    assert _names(store) == ["child", "grandchild", "owner"]


def test_background_takes_the_whole_family() -> None:
    store = _family()
    assert store.delete(OWNER, propagation=BACKGROUND) is None
    _settle(store)
    assert _names(store) == []


def test_foreground_waits_for_those_that_block() -> None:
    store = _family(finalizers=["hold/it"])
    born = store.version
    store.delete(OWNER, propagation=FOREGROUND)
    _settle(store, born)
    assert _names(store) == ["child", "owner"]
    assert store.require(OWNER)["metadata"]["finalizers"] == ["foregroundDeletion"]
    before = store.version
    store.set_finalizers(CHILD, [])
    _settle(store, before)
    assert _names(store) == []


def test_foreground_does_not_wait_for_those_that_do_not_block() -> None:
    store = Store()
    owner = _make(store, "owner")
    _make(store, "child", owner, block=False, finalizers=["hold/it"])
    store.delete(OWNER, propagation=FOREGROUND)
    _settle(store)
    assert _names(store) == ["child"]
    assert "deletionTimestamp" in store.require(CHILD)["metadata"]


def test_foreground_without_dependents_is_over_at_once() -> None:
    store = Store()
    _make(store, "owner")
    store.delete(OWNER, propagation=FOREGROUND)
    _settle(store)
    assert _names(store) == []


def test_orphans_are_cut_loose() -> None:
    store = _family()
    store.delete(OWNER, propagation=ORPHAN)
    _settle(store)
    assert _names(store) == ["child", "grandchild"]
    assert "ownerReferences" not in store.require(CHILD)["metadata"]


def test_one_living_owner_is_enough() -> None:
    store = Store()
    first, second = _make(store, "owner"), _make(store, "other")
    _make(store, "child", first, second)
    store.delete(OWNER)
    _settle(store)
    assert _names(store) == ["child", "other"]
    (left,) = store.require(CHILD)["metadata"]["ownerReferences"]
    assert left["name"] == "other"


def test_a_child_born_after_its_owner_died_goes_too() -> None:
    store = Store()
    owner = _make(store, "owner")
    store.delete(OWNER)
    _make(store, "child", owner)
    _settle(store)
    assert _names(store) == []


def test_an_owner_of_the_same_name_is_another() -> None:
    store = Store()
    owner = _make(store, "owner")
    store.delete(OWNER)
    _make(store, "owner")
    _make(store, "child", owner)
    _settle(store)
    assert _names(store) == ["owner"]


def test_a_changed_owner_reference_moves_the_child() -> None:
    store = Store()
    first, second = _make(store, "owner"), _make(store, "other")
    child = _make(store, "child", first)
    moved = {**child["metadata"], "ownerReferences": [owner_reference(second)]}
    store.replace({**child, "metadata": moved})
    assert store.dependents(first["metadata"]["uid"]) == []
    assert store.dependents(second["metadata"]["uid"]) == [CHILD]
    store.delete(OWNER)
    _settle(store)
    assert _names(store) == ["child", "other"]


def test_nothing_in_a_namespace_owns_something_in_another() -> None:
    store = Store(seed=1)
    for name in ("a", "b"):
        store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    meta = {"name": "owner", "namespace": "a"}
    owner = store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    uid = owner["metadata"]["uid"]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": uid,
        "blockOwnerDeletion": True,
    }
    for home in ("b", "a"):
        assert not store.owners.has_dependents(uid), "what a stranger says of himself counts for nothing"
        meta = {"name": "d", "namespace": home, "ownerReferences": [reference]}
        store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    assert [key.namespace for key in store.owners.dependents(uid)] == ["a"]
