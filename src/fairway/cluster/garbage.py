"""What an owner's end ends: garbage collection by owner references.

`GarbageCollector.decide` looks at a change and says what to do; `collect` does it until nothing is left.
An object whose owners are all gone is deleted; one with a living owner only loses the dead reference; a
foreground deletion waits for the dependents that block it; an orphaning one cuts them loose.

Source: pkg/controller/garbagecollector/garbagecollector.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.cluster.store import BACKGROUND, FOREGROUND, FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Store
from fairway.kube.objects import Key, Obj, meta_of


def collect(store: Store, changes: list[Change]) -> int:
    """Act on a batch of changes; returns how many objects were touched. O(changes + dependents touched).

    The collector's own writes show up in the log like any other; follow them with another call.
    """
    touched = 0
    for change in changes:
        touched += _after(store, change)
    return touched


def _after(store: Store, change: Change) -> int:
    meta: Obj = change.obj["metadata"]
    touched = 0
    if change.type == DELETED:
        for dependent in store.owners.dependents(meta["uid"]):
            touched += _reconsider(store, dependent)
        for ref in meta.get("ownerReferences") or ():
            touched += _finish_foreground(store, ref.get("uid", ""))
        return touched
    if change.type == ADDED and meta.get("ownerReferences"):
        touched += _reconsider(store, change.key)
    finalizers = meta.get("finalizers") or ()
    if "deletionTimestamp" in meta and finalizers:
        if ORPHAN_FINALIZER in finalizers:
            touched += _orphan(store, change.key, meta["uid"])
        elif FOREGROUND_FINALIZER in finalizers:
            for dependent in store.owners.dependents(meta["uid"]):
                touched += _reconsider(store, dependent)
            touched += _finish_foreground(store, meta["uid"])
    return touched


def _reconsider(store: Store, key: Key) -> int:
    """Delete a dependent nobody living owns; otherwise drop its references to the dead."""
    obj = store.get(key)
    if obj is None:
        return 0
    refs: list[dict[str, Any]] = meta_of(obj).get("ownerReferences") or []
    solid = [
        r for r in refs if (o := store.by_uid(r.get("uid", ""))) is not None and not _awaits_dependents(o)
    ]
    waiting = [r for r in refs if (o := store.by_uid(r.get("uid", ""))) is not None and _awaits_dependents(o)]
    if solid:
        if len(solid) == len(refs):
            return 0
        _set_owners(store, key, obj, solid)
        return 1
    if not refs or "deletionTimestamp" in obj["metadata"]:
        return 0
    blocks = waiting and store.owners.has_dependents(obj["metadata"]["uid"])
    store.delete(key, propagation=FOREGROUND if blocks else BACKGROUND)
    return 1


def _awaits_dependents(owner: Obj) -> bool:
    meta: Obj = owner["metadata"]
    return "deletionTimestamp" in meta and FOREGROUND_FINALIZER in (meta.get("finalizers") or ())


def _finish_foreground(store: Store, uid: str) -> int:
    """Let an owner go once no dependent blocks its deletion."""
    key = store.owners.key_by_uid.get(uid)
    owner = None if key is None else store.get(key)
    if key is None or owner is None or not _awaits_dependents(owner):
        return 0
    for dependent in store.owners.dependents(uid):
        obj = store.get(dependent)
        if obj is not None and _blocks(obj, uid):
            return 0
    kept = [f for f in owner["metadata"]["finalizers"] if f != FOREGROUND_FINALIZER]
    store.set_finalizers(key, kept)
    return 1


def _blocks(obj: Obj, uid: str) -> bool:
    return any(
        r.get("uid") == uid and r.get("blockOwnerDeletion") for r in meta_of(obj).get("ownerReferences") or ()
    )


def _orphan(store: Store, key: Key, uid: str) -> int:
    touched = 0
    for dependent in store.owners.dependents(uid):
        obj = store.get(dependent)
        if obj is not None:
            kept = [r for r in obj["metadata"]["ownerReferences"] if r.get("uid") != uid]
            _set_owners(store, dependent, obj, kept)
            touched += 1
    owner = store.get(key)
    if owner is not None:
        store.set_finalizers(key, [f for f in owner["metadata"]["finalizers"] if f != ORPHAN_FINALIZER])
    return touched + 1


def _set_owners(store: Store, key: Key, obj: Obj, refs: list[dict[str, Any]]) -> None:
    meta = {k: v for k, v in obj["metadata"].items() if k != "ownerReferences"}
    if refs:
        meta["ownerReferences"] = refs
    store.replace({**obj, "metadata": meta})
