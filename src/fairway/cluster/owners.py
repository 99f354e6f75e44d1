"""Who depends on whom: dependents by owner UID, and what has no controller, kept up to date from changes."""

from __future__ import annotations

from fairway.cluster.changes import DELETED, MODIFIED, Change
from fairway.kube.objects import Key, Obj, controller_of, meta_of

# Kinds of which owners adopt what matches their selector.
ADOPTED = ("Pod", "ReplicaSet.apps")


class OwnerIndex:
    """Dependents of every owner UID, and where every UID lives."""

    def __init__(self) -> None:
        self.key_by_uid: dict[str, Key] = {}
        self._dependents: dict[str, dict[Key, None]] = {}
        self._orphans: dict[tuple[str, str], dict[Key, None]] = {}

    def apply(self, change: Change) -> None:
        meta: Obj = change.obj["metadata"]
        if change.old is not None:
            was: Obj = change.old["metadata"]
            # Who follows another cluster may see one object in the place of another: then its UID is another.
            if (
                change.type == MODIFIED
                and was.get("ownerReferences") is meta.get("ownerReferences")
                and was["uid"] == meta["uid"]
            ):
                return
            self.key_by_uid.pop(was["uid"], None)
            self._unlink(change.key, change.old)
        if change.type != DELETED:
            self.key_by_uid[meta["uid"]] = change.key
            self._link(change.key, change.obj)

    def dependents(self, uid: str) -> list[Key]:
        """Sorted, so that whoever acts on them does so in one order.

        What lives in a namespace owns nothing in another: whoever knows an owner's UID does not make it work on, or
        wait for, objects of his own. Source: garbagecollector, OwnerRefInvalidNamespace.
        """
        found = self._dependents.get(uid)
        if not found:
            return []
        owner = self.key_by_uid.get(uid)
        if owner is None or not owner.namespace:
            return sorted(found)
        return sorted(key for key in found if key.namespace == owner.namespace)

    def has_dependents(self, uid: str) -> bool:
        found, owner = self._dependents.get(uid), self.key_by_uid.get(uid)
        if not found or owner is None or not owner.namespace:
            return bool(found)
        return any(key.namespace == owner.namespace for key in found)

    def orphans(self, gk: str, namespace: str) -> list[Key]:
        """Objects of one of the kinds `ADOPTED` that no controller has, sorted."""
        found = self._orphans.get((gk, namespace))
        return sorted(found) if found else []

    def _link(self, key: Key, obj: Obj) -> None:
        if key.gk in ADOPTED and controller_of(obj) is None:
            self._orphans.setdefault((key.gk, key.namespace), {})[key] = None
        for ref in meta_of(obj).get("ownerReferences") or ():
            self._dependents.setdefault(ref.get("uid", ""), {})[key] = None

    def _unlink(self, key: Key, obj: Obj) -> None:
        if key.gk in ADOPTED:
            orphans = self._orphans.get((key.gk, key.namespace))
            if orphans is not None:
                orphans.pop(key, None)
                if not orphans:
                    del self._orphans[(key.gk, key.namespace)]
        for ref in meta_of(obj).get("ownerReferences") or ():
            found = self._dependents.get(ref.get("uid", ""))
            if found is not None:
                found.pop(key, None)
                if not found:
                    del self._dependents[ref.get("uid", "")]

    def copy(self) -> OwnerIndex:
        twin = OwnerIndex()
        twin.key_by_uid = dict(self.key_by_uid)
        twin._dependents = {uid: dict(keys) for uid, keys in self._dependents.items()}
        twin._orphans = {at: dict(keys) for at, keys in self._orphans.items()}
        return twin
