"""Default selectors: found by index, equal to asking every Service, whatever was written or undone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.cluster.store import Store
from fairway.kube.labels import Requirement, Selector, set_selector
from fairway.kube.objects import Key, labels_of
from fairway.twin.owners import DefaultSelectors

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)


def service(name: str, selector: dict[str, str] | None) -> dict[str, Any]:
    spec = {} if selector is None else {"selector": selector}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def by_asking_all(store: Store, key: Key) -> Selector | None:
    labels = labels_of(store.require(key))
    found: set[Requirement] = set()
    for each in store.objects("Service", key.namespace):
        selector = set_selector(each["spec"].get("selector"))
        if selector.requirements and selector.matches(labels):
            found.update(selector.requirements)
    return Selector(tuple(sorted(found))) if found else None


@given(
    st.lists(st.tuples(st.sampled_from("pqrs"), st.none() | LABELS, st.booleans()), max_size=12),
    LABELS,
    st.integers(0, 12),
)
@settings(max_examples=200, deadline=None)
def test_the_index_answers_as_asking_every_service(
    writes: list[tuple[str, dict[str, str] | None, bool]], labels: dict[str, str], undone_from: int
) -> None:
    store = Store()
    pod = Key("Pod", "default", "pod")
    store.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "labels": labels}, "spec": {}}
    )
    selectors = DefaultSelectors(store)
    mark = store.mark()
    for count, (name, selector, is_deletion) in enumerate(writes):
        if count == undone_from:
            mark = store.mark()
        key = Key("Service", "default", name)
        if store.get(key) is None:
            store.create(service(name, selector))
        elif is_deletion:
            store.delete(key)
        else:
            store.replace(service(name, selector))
        assert selectors.of(pod) == by_asking_all(store, pod)
    store.rewind(mark)
    assert selectors.of(pod) == by_asking_all(store, pod)
    assert DefaultSelectors(store.fork()).of(pod) == by_asking_all(store, pod)


def owned(kind: str, api: str, selector: Any, labels: dict[str, str]) -> tuple[Store, Key]:
    """A pod with labels and a controller of this kind, which has this selector (None: it is not there)."""
    store = Store()
    owner = {"apiVersion": api, "kind": kind, "name": "owner", "uid": "u", "controller": True}
    meta = {"name": "pod", "labels": labels, "ownerReferences": [owner]}
    store.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {}})
    if selector is not None:
        spec = selector and {"selector": selector}
        store.create({"apiVersion": api, "kind": kind, "metadata": {"name": "owner"}, "spec": spec})
    return store, Key("Pod", "default", "pod")


A, B = Requirement("a", "In", ("x",)), Requirement("b", "In", ("y",))
C = Requirement("c", "Exists", ())
MATCH = {"matchLabels": {"b": "y", "a": "x"}}
OWNERS: dict[str, tuple[str, str, Any, tuple[Requirement, ...] | None]] = {
    "a ReplicaSet": ("ReplicaSet", "apps/v1", MATCH, (A, B)),
    "a StatefulSet": (
        "StatefulSet",
        "apps/v1",
        {"matchExpressions": [{"key": "c", "operator": "Exists"}]},
        (C,),
    ),
    "a ReplicationController": ("ReplicationController", "v1", {"b": "y", "a": "x"}, (A, B)),
    "a ReplicaSet without a selector": ("ReplicaSet", "apps/v1", {}, None),
    "one that is gone": ("ReplicaSet", "apps/v1", None, None),
    "a Job": ("Job", "batch/v1", MATCH, None),
    "a ReplicaSet of others": ("ReplicaSet", "example.com/v1", MATCH, None),
}


@pytest.mark.parametrize("name", OWNERS)
def test_pods_spread_from_those_of_their_controller(name: str) -> None:
    kind, api, selector, want = OWNERS[name]
    store, pod = owned(kind, api, selector, {"a": "x", "b": "y"})
    found = DefaultSelectors(store).of(pod)
    assert found == (None if want is None else Selector(want))


def test_a_service_adds_to_what_the_controller_says() -> None:
    store, pod = owned("ReplicaSet", "apps/v1", {"matchLabels": {"b": "y"}}, {"a": "x", "b": "y"})
    selectors = DefaultSelectors(store)
    for name, selector in (("one", {"a": "x"}), ("two", {"b": "y", "a": "x"}), ("other", {"a": "z"})):
        store.create(service(name, selector))
    assert selectors.of(pod) == Selector((A, B))
    assert selectors.of(Key("Pod", "default", "nobody")) is None
    for name in ("one", "two"):
        store.delete(Key("Service", "default", name))
    assert selectors.of(pod) == Selector((B,))


def test_a_service_is_looked_for_where_fewest_are() -> None:
    """Of its pairs the one that fewest others have; what nobody looks for any more is forgotten."""
    store = Store()
    selectors = DefaultSelectors(store)
    for name, selector in (
        ("one", {"a": "x"}),
        ("two", {"a": "x", "b": "y"}),
        ("three", {"a": "x", "b": "y"}),
    ):
        store.create(service(name, selector))
    at = {place: [key.name for key in found] for place, found in selectors._at.items()}
    assert at == {("default", "a", "x"): ["one", "three"], ("default", "b", "y"): ["two"]}
    store.delete(Key("Service", "default", "two"))
    assert list(selectors._at) == [("default", "a", "x")]
    assert [key.name for key in selectors._services] == ["one", "three"]
