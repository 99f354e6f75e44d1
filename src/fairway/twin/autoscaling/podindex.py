"""Which pods does a selector select, and who selects a pod? By label, kept up to date change by change."""

from __future__ import annotations

from collections.abc import Iterable

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.store import Store
from fairway.kube.labels import IN, Selector
from fairway.kube.objects import Key, Obj, labels_of, namespace_of

Label = tuple[str, str, str]
"""Namespace, key, value."""


class PodIndex:
    """Names of pods by label, in the order of their creation. Filled when somebody first asks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._names: dict[Label, dict[str, None]] = {}
        for pod in store.objects("Pod"):
            self._add(pod)

    def _add(self, pod: Obj) -> None:
        namespace, name = namespace_of(pod), pod["metadata"]["name"]
        for key, value in labels_of(pod).items():
            self._names.setdefault((namespace, key, value), {})[name] = None

    def apply(self, change: Change) -> None:
        """Follow one change of a pod."""
        is_gone = change.type == DELETED
        if not is_gone and change.old is not None and labels_of(change.old) is labels_of(change.obj):
            return
        if change.old is not None or is_gone:
            self._drop(change.old or change.obj)
        if not is_gone:
            self._add(change.obj)

    def _drop(self, pod: Obj) -> None:
        namespace, name = namespace_of(pod), pod["metadata"]["name"]
        for key, value in labels_of(pod).items():
            names = self._names.get((namespace, key, value))
            if names is not None:
                names.pop(name, None)
                if not names:
                    del self._names[(namespace, key, value)]

    def pods(self, namespace: str, selector: Selector) -> list[Obj]:
        """O(pods with the rarest of its labels)."""
        names: Iterable[str] | None = None
        fewest = -1
        for requirement in selector.requirements:
            if requirement.operator == IN and len(requirement.values) == 1:
                found = self._names.get((namespace, requirement.key, requirement.values[0]), {})
                if fewest < 0 or len(found) < fewest:
                    names, fewest = found, len(found)
        if names is None:
            return [p for p in self._store.objects("Pod", namespace) if selector.matches(labels_of(p))]
        listed = (self._store.get(Key("Pod", namespace, name)) for name in names)
        return [p for p in listed if p is not None and selector.matches(labels_of(p))]


def handle_of(namespace: str, selector: Selector) -> Label | None:
    """A label that every pod of the selector has; None where there is none."""
    for requirement in selector.requirements:
        if requirement.operator == IN and len(requirement.values) == 1:
            return (namespace, requirement.key, requirement.values[0])
    return None
