"""Default selectors: found by index, equal to asking every Service, whatever was written or undone."""

from __future__ import annotations

from typing import Any

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
