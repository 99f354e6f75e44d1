"""Orphans that turn up: who takes a pod, a ReplicaSet, without an owner?

A bare pod whose labels match a ReplicaSet becomes that ReplicaSet's pod, as does one that was cut loose from
another owner. One orphan at a time, so its cost is O(owners in the namespace).

Source: the addPod and updatePod handlers of pkg/controller/{replicaset,daemon,statefulset,deployment} (v1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from fairway.cluster.actions import NOTHING_TO_DO, Reconciliation, View
from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.kube.objects import Key, Obj, controller_of
from fairway.workloads.claims import adopt, is_adoptable, selector_of
from fairway.workloads.controller import NO_KEYS, Controller

# Kind of orphan → kinds that adopt it: (group kind, API version, kind), in the order they are asked.
_ADOPTERS: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "Pod": (
        ("ReplicaSet.apps", "apps/v1", "ReplicaSet"),
        ("StatefulSet.apps", "apps/v1", "StatefulSet"),
        ("DaemonSet.apps", "apps/v1", "DaemonSet"),
    ),
    "ReplicaSet.apps": (("Deployment.apps", "apps/v1", "Deployment"),),
}


def reconcile(view: View, key: Key, now_us: int, without: Collection[str] = ()) -> Reconciliation:
    """Give an orphan to the first owner whose selector matches. `without`: kinds whose controllers run elsewhere."""
    orphan = view.get(key)
    if orphan is None or "deletionTimestamp" in orphan["metadata"] or controller_of(orphan) is not None:
        return NOTHING_TO_DO
    for gk, api_version, kind in _ADOPTERS[key.gk]:
        if kind in without:
            continue
        for owner in view.objects(gk, key.namespace):
            if "deletionTimestamp" in owner["metadata"]:
                continue
            if is_adoptable(orphan, selector_of(owner)) and _takes(owner, orphan, kind):
                return Reconciliation((adopt(orphan, key.gk, owner, api_version, kind),))
    return NOTHING_TO_DO


def _takes(owner: Obj, orphan: Obj, kind: str) -> bool:
    """A StatefulSet takes only pods that bear one of its names."""
    if kind != "StatefulSet":
        return True
    stem, _, ordinal = orphan["metadata"]["name"].rpartition("-")
    return bool(stem == owner["metadata"]["name"] and ordinal.isdigit())


def _map_of(gk: str, change: Change) -> Sequence[Key]:
    if change.type == DELETED or controller_of(change.obj) is not None:
        return NO_KEYS
    if change.type != ADDED and change.old is not None:
        new: Obj = change.obj["metadata"]
        old: Obj = change.old["metadata"]
        if new.get("labels") == old.get("labels") and new.get("ownerReferences") == old.get(
            "ownerReferences"
        ):
            return NO_KEYS
    return (change.key,)


def map_pod(view: View, change: Change) -> Sequence[Key]:
    return _map_of("Pod", change)


def map_replica_set(view: View, change: Change) -> Sequence[Key]:
    return _map_of("ReplicaSet.apps", change)


PODS: Final = Controller("pod-adoption", "Pod", ("Pod",), map_pod, reconcile)
REPLICA_SETS: Final = Controller(
    "replicaset-adoption", "ReplicaSet.apps", ("ReplicaSet.apps",), map_replica_set, reconcile
)


def pods_without(kinds: Collection[str]) -> Controller:
    """`PODS`, where owners of these kinds have their controllers elsewhere."""

    def adopted(view: View, key: Key, now_us: int) -> Reconciliation:
        return reconcile(view, key, now_us, kinds)

    return Controller(PODS.name, PODS.gk, PODS.watches, PODS.map_change, adopted)
