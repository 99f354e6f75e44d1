"""Pages of lists, restored and loaded stores, followers that stumble: the store against plain lists."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from accountstate import account_state
from builders import node, pod
from fairway.cluster import errors
from fairway.cluster.actions import Create, Delete, Emit, Patch, Replace, SetStatus, perform
from fairway.cluster.changes import Change
from fairway.cluster.errors import ApiError
from fairway.cluster.garbage import collect
from fairway.cluster.store import FOREGROUND, ORPHAN, Store
from fairway.errors import BugError
from fairway.kube.objects import Key, key_of

Obj = dict[str, Any]
MAP = "ConfigMap"


def _config(name: str, namespace: str = "default", **meta: Any) -> Obj:
    return {"apiVersion": "v1", "kind": MAP, "metadata": {"name": name, "namespace": namespace, **meta}}


@pytest.mark.parametrize("seed", range(6))
def test_a_page_begins_behind_its_mark_and_knows_how_many_follow(seed: int) -> None:
    draw, store = Random(seed), Store()
    for namespace in ("a", "ab", "b"):
        for name in draw.sample(("a", "a-b", "b", "c0", "z"), draw.randint(0, 5)):
            store.create(_config(name, namespace))
    everything = sorted((o["metadata"]["namespace"], o["metadata"]["name"]) for o in store.objects(MAP))
    assert store.count(MAP) == len(everything)
    marks = [("", ""), *everything, ("a", "bb"), ("ab", ""), ("b", "zz"), ("c", "")]
    for namespace in (None, "a", "ab", "b", "nobody"):
        inside = [at for at in everything if namespace in (None, at[0])]
        assert [key_of(o)[1:] for o in store.objects(MAP, namespace)] == inside
        for mark in marks:
            rest = [at for at in inside if at > mark]
            assert [key_of(o)[1:] for o in store.walk(MAP, namespace, mark)] == rest, (namespace, mark)
            begun = mark if namespace is None else max(mark, (namespace, ""))
            assert store.count_after(MAP, namespace, begun) == len(rest), (namespace, mark)
    assert list(store.walk("Secret")) == [] == store.objects("Secret")
    assert store.count_after("Secret", None, ("", "")) == store.count("Secret") == 0
    assert store.kinds() == ([MAP] if everything else [])


def test_a_restored_store_goes_on_where_the_other_stopped() -> None:
    first = Store(seed=3)
    for i in range(3):
        first.create(node(f"n{i}").build())
        first.create(pod(f"p{i}").cpu(1).spec(nodeName=f"n{i}").build())
    first.delete(Key("Node", "", "n1"))
    again = Store(seed=3)
    kept = [o for gk in first.kinds() for o in first.objects(gk)]
    again.restore(kept, version=first.version, serial=first.serial)
    assert (again.version, again.serial) == (first.version, first.serial)
    assert account_state(again.accounts) == account_state(first.accounts)
    assert [again.objects(gk) for gk in first.kinds()] == [first.objects(gk) for gk in first.kinds()]
    assert again.create(_config("c")) == first.create(_config("c"))
    assert [c.version for c in again.log.since(first.version - 1)] == [first.version]
    assert again.by_uid(kept[0]["metadata"]["uid"]) == kept[0] and again.by_uid("nobody") is None
    with pytest.raises(BugError, match="only an empty store"):
        again.restore([], version=1, serial=1)


def test_what_is_loaded_gets_what_it_lacks_and_keeps_what_it_has() -> None:
    store = Store(now_us=5_000_000)
    bare = store.load({"apiVersion": "v1", "kind": MAP, "metadata": {"name": "c"}})["metadata"]
    assert bare["namespace"] == "default" and bare["uid"]
    assert bare["creationTimestamp"] == "1970-01-01T00:00:05Z"
    own = store.load(_config("d", "x", uid="u", creationTimestamp="2020-01-01T00:00:00Z", generation=4))[
        "metadata"
    ]
    assert (own["uid"], own["creationTimestamp"], own["generation"]) == ("u", "2020-01-01T00:00:00Z", 4)
    assert own["resourceVersion"] == str(store.version)
    assert "namespace" not in store.load(node("n").build())["metadata"]
    with pytest.raises(ApiError) as caught:
        store.load(_config("d", "x"))
    assert caught.value.code == 409


class _Stumbling:
    """A follower that takes changes in until it meets one it does not understand."""

    def __init__(self, word: str = "") -> None:
        self.word = word
        self.seen: list[Change] = []

    def apply(self, change: Change) -> None:
        if self.word and change.key.name == self.word:
            raise ValueError(self.word)
        self.seen.append(change)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_change_that_a_follower_does_not_take_is_taken_back_from_all(at: int) -> None:
    store = Store()
    followers = [_Stumbling("bad" if i == at else "") for i in range(3)]
    store.followers.extend(followers)
    store.create(node("n").build())
    before, version = account_state(store.accounts), store.version
    owned = pod("bad").cpu(1).meta(ownerReferences=[{"uid": "o", "kind": "Job", "name": "j"}])
    with pytest.raises(ValueError, match="bad"):
        store.create(owned.spec(nodeName="n").build())
    assert account_state(store.accounts) == before
    assert store.version == version and store.get(Key("Pod", "default", "bad")) is None
    assert store.dependents("o") == [] and store.count("Pod") == 0
    for i, follower in enumerate(followers):
        names = [c.key.name for c in follower.seen]
        # Those before it heard of the change and of its undoing; those behind it of neither.
        assert names == ["n", *(["bad", "bad"] if i < at else [])]
    assert [c.type for c in followers[0].seen[1:]] in ([], ["ADDED", "DELETED"])
    store.create(pod("good").spec(nodeName="n").build())
    assert [c.key.name for f in followers for c in f.seen].count("good") == 3


def test_a_binding_keeps_annotations_and_adds_its_own() -> None:
    store = Store()
    store.create(pod("p").meta(annotations={"a": "1", "b": "2"}).build())
    bound = store.bind(Key("Pod", "default", "p"), "n", {"phase": "Pending"}, {"b": "3", "c": "4"})
    assert bound["metadata"]["annotations"] == {"a": "1", "b": "3", "c": "4"}
    store.create(pod("q").build())
    assert "annotations" not in store.bind(Key("Pod", "default", "q"), "n", {})["metadata"]


def test_actions_that_came_too_late_are_dropped_and_wrong_ones_are_not() -> None:
    store = Store()
    made = perform(store, Create(_config("c")))
    assert made is not None and perform(store, Create(_config("c"))) is None
    key = key_of(made)
    assert perform(store, Replace({**made, "data": {"a": "b"}})) is not None
    assert perform(store, Replace({**made, "data": {"a": "c"}})) is None, "of an older version"
    assert perform(store, Patch(key, {"data": {"x": "y"}})) is not None
    assert perform(store, SetStatus(Key("Pod", "default", "nobody"), {})) is None
    assert perform(store, SetStatus(key, {"of": "it"})) is store.require(key)
    assert perform(store, Emit(key, "Normal", "Why", "what", "who")) is None
    assert perform(store, Delete(key, "another")) is None and store.get(key) is not None
    assert perform(store, Delete(key, made["metadata"]["uid"])) is None and store.get(key) is None
    with pytest.raises(ApiError) as caught:
        perform(store, Create({"apiVersion": "v1", "kind": MAP, "metadata": {}}))
    assert caught.value.code == 422
    refused = errors.forbidden(key, "so it is")
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message == 'configmaps "c" is forbidden: so it is'


def test_deletions_again_and_again() -> None:
    """A grace may be shortened, finalizers may be added; what changes nothing writes nothing."""
    store = Store(now_us=100_000_000)
    store.create(pod("p").build())
    key = Key("Pod", "default", "p")
    store.bind(key, "n", {"phase": "Running"})
    first = store.delete(key, grace_s=30)
    assert first is not None and first["metadata"]["deletionTimestamp"] == "1970-01-01T00:02:10Z"
    version = store.version
    assert store.delete(key, grace_s=30) == first == store.delete(key, grace_s=40)
    assert store.version == version
    shorter = store.delete(key, grace_s=10)
    assert shorter is not None and shorter["metadata"]["deletionTimestamp"] == "1970-01-01T00:01:50Z"
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 10
    assert shorter["metadata"]["generation"] == first["metadata"]["generation"] == 2
    waiting = store.delete(key, grace_s=10, propagation=FOREGROUND)
    assert waiting is not None and waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    other = store.delete(key, grace_s=10, propagation=ORPHAN)
    assert other is not None and other["metadata"]["finalizers"] == ["orphan"]
    held = store.delete(key, grace_s=0, propagation=ORPHAN)
    assert held is not None and held["metadata"]["deletionTimestamp"] == "1970-01-01T00:01:40Z"
    assert store.delete(key, grace_s=0) is None and store.get(key) is None


def test_the_collector_frees_whom_nobody_blocks() -> None:
    store = Store()
    owner = store.create(_config("owner"))
    ref = {"apiVersion": "v1", "kind": MAP, "name": "owner", "uid": owner["metadata"]["uid"]}
    dead = {**ref, "name": "dead", "uid": "dead"}
    blocking = store.create(_config("blocking", ownerReferences=[{**ref, "blockOwnerDeletion": True}]))
    store.create(_config("two", ownerReferences=[ref, dead]))
    start = store.version
    collect(store, store.log.since(0))
    assert len(store.log.since(start)) == 1, "only the dead reference went"
    two = store.require(Key(MAP, "default", "two"))
    assert [r["uid"] for r in two["metadata"]["ownerReferences"]] == [owner["metadata"]["uid"]]
    at = store.version
    store.delete(key_of(owner), propagation=FOREGROUND)
    while store.version > at:
        at, changes = store.version, store.log.since(at)
        collect(store, changes)
    assert store.count(MAP) == 0
    assert key_of(blocking) not in {key_of(o) for o in store.objects(MAP)}
