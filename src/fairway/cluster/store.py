"""The one store of objects: create, replace, patch, delete, and the log of it all.

Objects are frozen by convention: every write stores a new dict that shares what did not change, so a fork
copies references, an undo puts the old one back, and whoever read an object keeps what it read. Time comes
in as `now_us`; whoever owns the clock sets it. Chance comes from the seed: UIDs and generated names are the
same in every run.

Graceful deletion of pods, finalizers, optimistic concurrency and generations follow the API server
(source: apiserver registry/generic/registry/store.go, v1.36).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from fairway.cluster import errors
from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change, ChangeLog, Follower, inverse
from fairway.cluster.mergepatch import merge_patch
from fairway.cluster.metadata import bumps_generation, generated_name, stamped, uid_for
from fairway.cluster.owners import OwnerIndex
from fairway.errors import BugError
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Key, Obj, gk_of, key_of, meta_of, spec_of, status_of
from fairway.kube.timestamps import SECOND_US, rfc3339

BACKGROUND: Final = "Background"
FOREGROUND: Final = "Foreground"
ORPHAN: Final = "Orphan"
FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"
DEFAULT_GRACE_S: Final = 30


class Mark(NamedTuple):
    """A point to rewind to."""

    version: int
    serial: int


class Store:
    """Objects by kind, namespace and name."""

    def __init__(self, *, seed: int = 0, now_us: int = 0) -> None:
        self.now_us = now_us
        self.seed = seed
        self.log = ChangeLog()
        self.owners = OwnerIndex()
        self.accounts = NodeAccounts()
        self.followers: list[Follower] = []
        """Further indexes; its own two come before them."""
        self._objects: dict[str, dict[Key, Obj]] = {}
        self._order: dict[str, list[Key]] = {}
        self._serial = 0
        self.completing: dict[str, Callable[[Obj], Obj]] = {}
        """By kind: what a server fills in once a new object has its UID (a Job's selector, a Service's address)."""

    # Reading

    @property
    def version(self) -> int:
        """The resource version of the newest change."""
        return self.log.next - 1

    def get(self, key: Key) -> Obj | None:
        bucket = self._objects.get(key[0])
        return None if bucket is None else bucket.get(key)

    def require(self, key: Key) -> Obj:
        """Raises: ApiError (404)."""
        obj = self.get(key)
        if obj is None:
            raise errors.not_found(key)
        return obj

    def by_uid(self, uid: str) -> Obj | None:
        key = self.owners.key_by_uid.get(uid)
        return None if key is None else self.get(key)

    def objects(self, gk: str, namespace: str | None = None) -> list[Obj]:
        """All objects of a kind, ordered by namespace and name as etcd orders them. O(n) (sorting is cached)."""
        bucket = self._objects.get(gk)
        if not bucket:
            return []
        order = self._sorted_keys(gk)
        if namespace is None:
            return [bucket[k] for k in order]
        start = bisect_left(order, Key(gk, namespace, ""))
        found = []
        for k in order[start:]:
            if k[1] != namespace:
                break
            found.append(bucket[k])
        return found

    def dependents(self, uid: str) -> list[Key]:
        """Keys of the objects that name this UID as an owner, sorted."""
        return self.owners.dependents(uid)

    def orphans(self, gk: str, namespace: str) -> list[Obj]:
        """Pods (or ReplicaSets) of a namespace that no controller has, by name. O(their number)."""
        bucket = self._objects.get(gk, {})
        return [bucket[key] for key in self.owners.orphans(gk, namespace)]

    def count(self, gk: str) -> int:
        return len(self._objects.get(gk, ()))

    def kinds(self) -> list[str]:
        """Group kinds with at least one object, sorted."""
        return sorted(gk for gk, bucket in self._objects.items() if bucket)

    def _sorted_keys(self, gk: str) -> list[Key]:
        order = self._order.get(gk)
        if order is None:
            order = self._order[gk] = sorted(self._objects[gk])
        return order

    def walk(self, gk: str, namespace: str | None = None, after: tuple[str, str] = ("", "")) -> Iterator[Obj]:
        """Objects of a kind in order, those behind `(namespace, name)`: a page of a long list costs its length."""
        bucket = self._objects.get(gk)
        if not bucket:
            return
        order = self._sorted_keys(gk)
        start = after if namespace is None else max(after, (namespace, ""))
        for at in range(bisect_right(order, Key(gk, *start)), len(order)):
            key = order[at]
            if namespace is not None and key[1] != namespace:
                return
            yield bucket[key]

    def count_after(self, gk: str, namespace: str | None, after: tuple[str, str]) -> int:
        """How many objects `walk` would still give. O(log n)."""
        if not self._objects.get(gk):
            return 0
        order = self._sorted_keys(gk)
        end = len(order) if namespace is None else bisect_left(order, Key(gk, namespace + "\0", ""))
        return max(end - bisect_right(order, Key(gk, *max(after, (namespace or "", "")))), 0)

    # Writing

    @property
    def serial(self) -> int:
        """How many objects have been named so far: UIDs and generated names follow from it."""
        return self._serial

    def restore(self, objects: Iterable[Obj], *, version: int, serial: int) -> None:
        """Fill an empty store with objects as they were stored, and go on from this version and serial."""
        if self._objects:
            raise BugError("only an empty store can be restored")
        for obj in objects:
            at = int(obj["metadata"]["resourceVersion"])
            change = Change(at, ADDED, key_of(obj), obj, None)
            self._put(change)
            self._tell(change)
        self.log = ChangeLog(version + 1)
        self._serial = serial

    def create(self, obj: Obj) -> Obj:
        """Store a new object; returns it as stored.

        Raises: ApiError (409 AlreadyExists; 422 without a name).
        """
        gk = gk_of(obj)
        given = meta_of(obj)
        self._serial += 1
        name = given.get("name") or ""
        if not name and given.get("generateName"):
            name = generated_name(given["generateName"], self.seed, self._serial)
        namespace = (given.get("namespace") or "default") if kind_named(gk).namespaced else ""
        key = Key(gk, namespace, name)
        if not name:
            raise errors.invalid(key, "metadata.name: Required value: name or generateName is required")
        if self.get(key) is not None:
            raise errors.already_exists(key)
        uid = uid_for(self.seed, self._serial)
        stored = stamped(
            obj, gk=gk, namespace=namespace, name=name, uid=uid, version=self.log.next, now_us=self.now_us
        )
        if gk in self.completing:
            stored = self.completing[gk](stored)
        self._record(ADDED, key, stored, None)
        return stored

    def load(self, obj: Obj) -> Obj:
        """Store an object as it is in another cluster's dump: its UID, times and status kept."""
        gk = gk_of(obj)
        given = meta_of(obj)
        self._serial += 1
        namespace = (given.get("namespace") or "default") if kind_named(gk).namespaced else ""
        key = Key(gk, namespace, given["name"])
        if self.get(key) is not None:
            raise errors.already_exists(key)
        meta = {**given, "resourceVersion": str(self.log.next)}
        if namespace:
            meta["namespace"] = namespace
        meta.setdefault("uid", uid_for(self.seed, self._serial))
        meta.setdefault("creationTimestamp", rfc3339(self.now_us))
        stored = {**obj, "metadata": meta}
        self._record(ADDED, key, stored, None)
        return stored

    def follow(self, key: Key, obj: Obj | None) -> None:
        """Take over what became of an object in another cluster, where all was decided; None: it is gone."""
        old = self.get(key)
        if obj is None:
            if old is not None:
                self._remove(key, old)
            return
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.log.next)}}
        self._record(ADDED if old is None else MODIFIED, key, stored, old)

    def replace(self, obj: Obj) -> Obj:
        """Store a new state of an existing object; metadata the API server owns is kept from the old one.

        With `metadata.resourceVersion` set it must be the current one. Removing the last finalizer of an
        object that is being deleted removes it. Writing what is already there changes nothing.

        Raises: ApiError (404; 409 Conflict).
        """
        meta = obj.get("metadata") or {}
        gk = gk_of(obj)
        namespace = (meta.get("namespace") or "default") if kind_named(gk).namespaced else ""
        key = Key(gk, namespace, meta.get("name") or "")
        old = self.require(key)
        old_meta: Obj = old["metadata"]
        given_version = meta.get("resourceVersion")
        if given_version and given_version != old_meta["resourceVersion"]:
            raise errors.modified_meanwhile(key)
        if meta.get("uid") and meta["uid"] != old_meta["uid"]:
            raise errors.conflict(
                key,
                f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old_meta['uid']}",
            )
        new_meta = {**meta}
        for owned in ("namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp"):
            if owned in old_meta:
                new_meta[owned] = old_meta[owned]
            else:
                new_meta.pop(owned, None)
        if bumps_generation(gk, old, obj):
            new_meta["generation"] = old_meta["generation"] + 1
        return self._write(key, old, {**obj, "metadata": new_meta})

    def set_status(self, key: Key, status: dict[str, Any]) -> Obj:
        """Replace `status` alone: the hot path of kubelets and controllers. Unchanged status writes nothing."""
        old = self.require(key)
        if old.get("status") == status:
            return old
        new = {**old, "status": status}
        new["metadata"] = {**old["metadata"], "resourceVersion": str(self.log.next)}
        self._record(MODIFIED, key, new, old)
        return new

    def bind(
        self, key: Key, node: str, status: dict[str, Any], annotations: Mapping[str, str] | None = None
    ) -> Obj:
        """The binding subresource: `spec.nodeName`, status and annotations that go with it, in one write.

        Raises: ApiError (409) when the pod is bound already or being deleted.
        """
        old = self.require(key)
        spec = old["spec"]
        if spec.get("nodeName"):
            raise errors.conflict(key, f'pod {key.name} is already assigned to node "{spec["nodeName"]}"')
        if "deletionTimestamp" in old["metadata"]:
            raise errors.conflict(key, f"pod {key.name} is being deleted, cannot be assigned to a host")
        new = {**old, "spec": {**spec, "nodeName": node}, "status": status}
        meta = {**old["metadata"], "resourceVersion": str(self.log.next)}
        if annotations:
            meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
        new["metadata"] = meta
        self._record(MODIFIED, key, new, old)
        return new

    def patch(self, key: Key, patch: Any, *, form: str = "merge") -> Obj:
        """Apply a patch: `merge`, `strategic` or `json` (a list of operations)."""
        old = self.require(key)
        if form == "merge":
            return self.replace(merge_patch(old, patch))
        # Imported here: they bring the schemas along, which whoever only reads and writes need not load.
        from fairway.cluster.patches import json_patch, strategic_patch

        return self.replace(strategic_patch(old, patch) if form == "strategic" else json_patch(old, patch))

    def set_finalizers(self, key: Key, finalizers: list[str]) -> Obj | None:
        """Replace the finalizers; None when that let the object go."""
        old = self.require(key)
        meta = {k: v for k, v in old["metadata"].items() if k != "finalizers"}
        if finalizers:
            meta["finalizers"] = finalizers
        self._write(key, old, {**old, "metadata": meta})
        return self.get(key)

    def delete(
        self, key: Key, *, grace_s: int | None = None, propagation: str = BACKGROUND, uid: str = ""
    ) -> Obj | None:
        """Delete, or begin to: a running pod gets its grace, finalizers are waited for.

        Returns the object while it is still there, None once it is gone.
        Raises: ApiError (404; 409 where `uid` is another object's).
        """
        obj = self.require(key)
        meta: Obj = obj["metadata"]
        if uid and meta["uid"] != uid:
            raise errors.conflict(
                key, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}"
            )
        grace = pod_grace_s(obj, grace_s) if key.gk == "Pod" else 0
        finalizers = _finalizers_for(meta.get("finalizers") or [], propagation)
        has_content = key.gk == "Namespace" and bool(spec_of(obj).get("finalizers"))
        if grace == 0 and not finalizers and not has_content:
            self._remove(key, obj)
            return None
        until = rfc3339(self.now_us + grace * SECOND_US)
        if (
            "deletionTimestamp" in meta
            and until >= meta["deletionTimestamp"]
            and finalizers == meta.get("finalizers", [])
        ):
            return obj
        new_meta = {**meta, "deletionTimestamp": min(until, meta.get("deletionTimestamp", until))}
        new_meta["deletionGracePeriodSeconds"] = grace
        if finalizers:
            new_meta["finalizers"] = finalizers
        if "generation" in meta and "deletionTimestamp" not in meta:
            new_meta["generation"] = meta["generation"] + 1
        new_meta["resourceVersion"] = str(self.log.next)
        new = {**obj, "metadata": new_meta}
        if has_content:
            new["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        self._record(MODIFIED, key, new, obj)
        return new

    def _write(self, key: Key, old: Obj, new: Obj) -> Obj:
        """Record a new state unless it equals the old one; complete a deletion that waited for it."""
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if new == old:
            return old
        meta: Obj = new["metadata"]
        meta["resourceVersion"] = str(self.log.next)
        self._record(MODIFIED, key, new, old)
        waits = key.gk == "Pod" and meta.get("deletionGracePeriodSeconds", 0) > 0
        waits = waits or (key.gk == "Namespace" and bool(spec_of(new).get("finalizers")))
        if "deletionTimestamp" in meta and not meta.get("finalizers") and not waits:
            self._remove(key, new)
        return new

    def _remove(self, key: Key, obj: Obj) -> None:
        last = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.log.next)}}
        self._record(DELETED, key, last, obj)

    def _record(self, type_: str, key: Key, obj: Obj, old: Obj | None) -> None:
        # A tuple made directly: half the cost of the named constructor, on every write there is.
        change = tuple.__new__(Change, (self.log.next, type_, key, obj, old))
        self._put(change)
        self.log.append(change)
        try:
            self._tell(change)
        except Exception:
            self.log.pop()
            self._put(inverse(change))
            raise

    def _tell(self, change: Change) -> None:
        """Whoever stumbles over a change has not taken it in: it is taken back from those told before, and raised."""
        told = 0
        try:
            self.owners.apply(change)
            told = 1
            self.accounts.apply(change)
            told = 2
            for follower in self.followers:
                follower.apply(change)
                told += 1
        except Exception:
            undone = inverse(change)
            for follower in reversed(self.followers[: max(told - 2, 0)]):
                follower.apply(undone)
            if told > 1:
                self.accounts.apply(undone)
            if told:
                self.owners.apply(undone)
            raise

    def _put(self, change: Change) -> None:
        key = change[2]
        gk = key[0]
        bucket = self._objects.get(gk)
        if bucket is None:
            bucket = self._objects[gk] = {}
        if change[1] == MODIFIED:
            bucket[key] = change[3]
            return
        self._order.pop(gk, None)
        if change[1] == DELETED:
            del bucket[key]
        else:
            bucket[key] = change[3]

    # What-ifs

    def mark(self) -> Mark:
        return Mark(self.version, self._serial)

    def rewind(self, mark: Mark) -> None:
        """Undo every change since the mark, newest first: objects, versions and indexes are as they were."""
        if mark.version < self.log.first - 1:
            raise BugError(
                f"version {mark.version} was compacted away: nothing before {self.log.first} can be undone"
            )
        while self.version > mark.version:
            undone = inverse(self.log.pop())
            self._put(undone)
            for follower in reversed(self.followers):
                follower.apply(undone)
            self.accounts.apply(undone)
            self.owners.apply(undone)
        self._serial = mark.serial

    def fork(self) -> Store:
        """An independent copy. O(objects), sharing every object. Followers added by others are not copied."""
        twin = Store(seed=self.seed, now_us=self.now_us)
        twin.log = self.log.copy()
        twin.owners = self.owners.copy()
        twin.accounts = self.accounts.copy()
        twin._objects = {gk: dict(bucket) for gk, bucket in self._objects.items()}
        twin._order = dict(self._order)
        twin._serial = self._serial
        twin.completing = self.completing
        return twin


def pod_grace_s(pod: Obj, asked_s: int | None) -> int:
    """How long a pod may take to stop. Source: pkg/registry/core/pod/strategy.go CheckGracefulDelete."""
    spec = spec_of(pod)
    if asked_s is None:
        asked_s = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_S)
    if not spec.get("nodeName"):
        return 0
    if status_of(pod).get("phase") in ("Failed", "Succeeded"):
        return 0
    return max(int(asked_s or 0), 0)


def _finalizers_for(present: list[str], propagation: str) -> list[str]:
    wanted = {FOREGROUND: FOREGROUND_FINALIZER, ORPHAN: ORPHAN_FINALIZER}.get(propagation)
    kept = [f for f in present if f not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER) or f == wanted]
    if wanted and wanted not in kept:
        kept.append(wanted)
    return kept
