"""Which pods does a pod spread itself from by default: those of its Services and of its controller.

The Services that select a pod are found by one pair of their selector, the one that fewest others have: with a
Service for each pod, as operators of training jobs make them, asking every one of them was quadratic.

Source: kube-scheduler v1.36 plugins/helper/spread.go DefaultSelector: the Services that select the pod, and
the ReplicationController, ReplicaSet or StatefulSet that owns it, all requirements taken together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.store import Store
from fairway.kube.kinds import group_kind
from fairway.kube.labels import Requirement, Selector, label_selector, set_selector
from fairway.kube.objects import Key, Obj, controller_of, labels_of, spec_of

_SERVICE: Final = "Service"
_SPREADING: Final = frozenset({"ReplicationController", "ReplicaSet.apps", "StatefulSet.apps"})

_Place = tuple[str, str, str]
"""Namespace, label, value."""


class _Chosen(NamedTuple):
    place: _Place
    selector: Selector


class DefaultSelectors:
    """Default selectors of pods in a store, computed when asked; follows the store's Services."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._services: dict[Key, _Chosen] = {}
        self._at: dict[_Place, dict[Key, Selector]] = {}
        for service in store.objects(_SERVICE):
            meta: Obj = service["metadata"]
            self._add(Key(_SERVICE, meta["namespace"], meta["name"]), service)
        store.followers.append(self)

    def apply(self, change: Change) -> None:
        """Hear of a change, or of one undone. O(1) but for Services."""
        if change.key[0] != _SERVICE:
            return
        self._forget(change.key)
        if change.type != DELETED:
            self._add(change.key, change.obj)

    def _add(self, key: Key, service: Obj) -> None:
        selector = set_selector(spec_of(service).get("selector"))
        if not selector.requirements:
            return
        places = [(key.namespace, r.key, r.values[0]) for r in selector.requirements]
        place = min(places, key=lambda p: len(self._at.get(p, ())))
        self._services[key] = _Chosen(place, selector)
        self._at.setdefault(place, {})[key] = selector

    def _forget(self, key: Key) -> None:
        chosen = self._services.pop(key, None)
        if chosen is None:
            return
        there = self._at[chosen.place]
        del there[key]
        if not there:
            del self._at[chosen.place]

    def of(self, key: Key) -> Selector | None:
        """The selector, or None for a pod that belongs to nothing that spreads. O(its labels)."""
        store = self._store
        pod = store.get(key)
        if pod is None:
            return None
        requirements: list[Requirement] = []
        if self._services:
            self._add_services(key.namespace, labels_of(pod), requirements)
        owner = controller_of(pod)
        if owner is not None:
            gk = group_kind(owner.get("apiVersion", ""), owner.get("kind", ""))
            if gk in _SPREADING:
                requirements.extend(self._owner_requirements(Key(gk, key.namespace, owner["name"])))
        return Selector(tuple(sorted(set(requirements)))) if requirements else None

    def _add_services(
        self, namespace: str, labels: Mapping[str, str], requirements: list[Requirement]
    ) -> None:
        for label, value in labels.items():
            for selector in self._at.get((namespace, label, value), {}).values():
                if selector.matches(labels):
                    requirements.extend(selector.requirements)

    def _owner_requirements(self, key: Key) -> tuple[Requirement, ...]:
        owner = self._store.get(key)
        raw = None if owner is None else spec_of(owner).get("selector")
        if raw is None:
            return ()
        selector = set_selector(raw) if key.gk == "ReplicationController" else label_selector(raw)
        return selector.requirements
