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
from fairway.kube.objects import Key, Obj, key_of, meta_of


def collect(store: Store, changes: list[Change]) -> None:
    """Act on a batch of changes. O(changes + dependents touched).

    The collector's own writes show up in the log like any other; follow them with another call.
    """
    for change in changes:
        _after(store, change)


def _after(store: Store, change: Change) -> None:
    meta: Obj = change.obj["metadata"]
    if change.type == DELETED:
        for dependent in store.owners.dependents(meta["uid"]):
            _reconsider(store, dependent)
        for ref in meta.get("ownerReferences") or ():
            _finish_foreground(store, ref.get("uid", ""))
        return
    if change.type == ADDED and meta.get("ownerReferences"):
        _reconsider(store, change.key)
    finalizers = meta.get("finalizers") or ()
    if "deletionTimestamp" not in meta:
        return
    if ORPHAN_FINALIZER in finalizers:
        _orphan(store, change.key, meta["uid"])
    elif FOREGROUND_FINALIZER in finalizers:
        for dependent in store.owners.dependents(meta["uid"]):
            _reconsider(store, dependent)
        _finish_foreground(store, meta["uid"])


def _reconsider(store: Store, key: Key) -> None:
    """Delete a dependent nobody living owns; otherwise drop its references to the dead."""
    obj = store.get(key)
    if obj is None:
        return
    refs: list[dict[str, Any]] = meta_of(obj).get("ownerReferences") or []
    there = [(r, o) for r in refs if (o := store.by_uid(r.get("uid", ""))) is not None]
    solid = [r for r, owner in there if not _awaits_dependents(owner)]
    if solid:
        if len(solid) < len(refs):
            _set_owners(store, key, obj, solid)
    elif refs and "deletionTimestamp" not in obj["metadata"]:
        # All that are there wait for it to go.
        blocks = there and store.owners.has_dependents(obj["metadata"]["uid"])
        store.delete(key, propagation=FOREGROUND if blocks else BACKGROUND)


def _awaits_dependents(owner: Obj) -> bool:
    meta: Obj = owner["metadata"]
    return "deletionTimestamp" in meta and FOREGROUND_FINALIZER in (meta.get("finalizers") or ())


def _finish_foreground(store: Store, uid: str) -> None:
    """Let an owner go once no dependent blocks its deletion."""
    owner = store.by_uid(uid)
    if owner is None or not _awaits_dependents(owner):
        return
    for dependent in store.owners.dependents(uid):
        obj = store.get(dependent)
        if obj is not None and _blocks(obj, uid):
            return
    kept = [f for f in owner["metadata"]["finalizers"] if f != FOREGROUND_FINALIZER]
    store.set_finalizers(key_of(owner), kept)


def _blocks(obj: Obj, uid: str) -> bool:
    return any(
        r.get("uid") == uid and r.get("blockOwnerDeletion") for r in meta_of(obj).get("ownerReferences") or ()
    )


def _orphan(store: Store, key: Key, uid: str) -> None:
    for dependent in store.owners.dependents(uid):
        obj = store.get(dependent)
        if obj is not None:
            kept = [r for r in obj["metadata"]["ownerReferences"] if r.get("uid") != uid]
            _set_owners(store, dependent, obj, kept)
    owner = store.by_uid(uid)
    if owner is not None:
        kept = [f for f in meta_of(owner).get("finalizers") or () if f != ORPHAN_FINALIZER]
        store.set_finalizers(key, kept)


def _set_owners(store: Store, key: Key, obj: Obj, refs: list[dict[str, Any]]) -> None:
    meta = {k: v for k, v in obj["metadata"].items() if k != "ownerReferences"}
    if refs:
        meta["ownerReferences"] = refs
    store.replace({**obj, "metadata": meta})
