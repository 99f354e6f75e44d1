"""Which pods does a pod spread itself from by default: those of its Services and of its controller.

Source: kube-scheduler v1.36 plugins/helper/spread.go DefaultSelector: the Services that select the pod, and
the ReplicationController, ReplicaSet or StatefulSet that owns it, all requirements taken together.
"""

from __future__ import annotations

from fairway.cluster.store import Store
from fairway.kube.kinds import group_kind
from fairway.kube.labels import Requirement, Selector, label_selector, set_selector
from fairway.kube.objects import Key, controller_of, labels_of

_SPREADING = frozenset({"ReplicationController", "ReplicaSet.apps", "StatefulSet.apps"})


class DefaultSelectors:
    """Default selectors of pods in a store, computed when asked."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, key: Key) -> Selector | None:
        """The selector, or None for a pod that belongs to nothing that spreads."""
        store = self._store
        pod = store.get(key)
        if pod is None:
            return None
        requirements: list[Requirement] = []
        if store.count("Service"):
            labels = labels_of(pod)
            for service in store.objects("Service", key.namespace):
                chosen = (service.get("spec") or {}).get("selector")
                if chosen and set_selector(chosen).matches(labels):
                    requirements.extend(set_selector(chosen).requirements)
        owner = controller_of(pod)
        if owner is not None:
            gk = group_kind(owner.get("apiVersion", ""), owner.get("kind", ""))
            if gk in _SPREADING:
                requirements.extend(self._owner_requirements(Key(gk, key.namespace, owner["name"])))
        return Selector(tuple(sorted(set(requirements)))) if requirements else None

    def _owner_requirements(self, key: Key) -> tuple[Requirement, ...]:
        owner = self._store.get(key)
        raw = None if owner is None else (owner.get("spec") or {}).get("selector")
        if raw is None:
            return ()
        selector = set_selector(raw) if key.gk == "ReplicationController" else label_selector(raw)
        return selector.requirements
