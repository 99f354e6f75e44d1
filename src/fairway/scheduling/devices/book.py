"""Everything published, asked for and taken in a cluster, kept up to date by following its changes.

Who remembers an answer about a node goes by `published_version` (slices and classes) and by `moved`: the pools in which
devices were taken or given back, in order.
"""

from __future__ import annotations

from typing import Protocol

from fairway.cluster.actions import View
from fairway.cluster.changes import DELETED, Change, Follower
from fairway.kube.objects import Key, Obj, meta_of, status_of
from fairway.kube.resourceclaims import EXTENDED_ANNOTATION
from fairway.scheduling.devices.extended import backed
from fairway.scheduling.devices.facts import CLAIM, CLASS, SLICE, Class, DeviceId, Slice, class_of, slice_of
from fairway.scheduling.devices.pools import PoolId, Published
from fairway.scheduling.devices.usage import Usage, results_in, results_of

KINDS = (SLICE, CLASS, CLAIM)


class Followed(View, Protocol):
    """A store whose changes can be followed."""

    followers: list[Follower]


class DeviceBook:
    """The devices of one store."""

    def __init__(self, store: Followed) -> None:
        self.slices: dict[str, Slice] = {}
        self.classes: dict[str, Class] = {}
        self.usage = Usage()
        self.moved: list[PoolId] = []
        self.published_version = 0
        self.of_pod: dict[str, Key] = {}
        """By a pod's uid: the claim made for its extended resources."""
        self.pending: dict[Key, None] = {}
        """Claims whose devices are chosen for a pod that waits for others, and not written down yet."""
        self._published: Published | None = None
        self._extended: dict[str, Class] | None = None
        self._names: frozenset[str] = frozenset()
        for gk in KINDS:
            for obj in store.objects(gk):
                meta: Obj = obj["metadata"]
                self._put(Key(gk, meta.get("namespace") or "", meta["name"]), obj)
        store.followers.append(self)

    @property
    def published(self) -> Published:
        if self._published is None:
            self._published = Published(self.slices.values())
        return self._published

    @property
    def extended(self) -> dict[str, Class]:
        """Resource → the class that backs it."""
        if self._extended is None:
            self._extended = backed(self.classes.values())
        return self._extended

    @property
    def backed_names(self) -> frozenset[str]:
        """The same object as long as the names are the same."""
        names = self.extended.keys()
        if names != self._names:
            self._names = frozenset(names)
        return self._names

    def apply(self, change: Change) -> None:
        """Hear of a change, or of one undone. O(1) but for devices and claims."""
        if change.key[0] not in KINDS:
            return
        if change.old is not None:
            self._drop(change.key, change.old, change.obj if change.type != DELETED else None)
        if change.type != DELETED:
            self._put(change.key, change.obj, change.old)

    def _put(self, key: Key, obj: Obj, old: Obj | None = None) -> None:
        if key.gk == SLICE:
            self.slices[key.name] = slice_of(obj)
            self._republished()
        elif key.gk == CLASS:
            self.classes[key.name] = class_of(obj)
            self._republished()
        else:
            if old is None or not _same_allocation(old, obj):
                self._move(self.usage.add(results_of(obj)))
            uid = _made_for(obj)
            if uid:
                self.of_pod[uid] = key

    def _drop(self, key: Key, obj: Obj, new: Obj | None) -> None:
        if key.gk == SLICE:
            self.slices.pop(key.name, None)
            self._republished()
        elif key.gk == CLASS:
            self.classes.pop(key.name, None)
            self._republished()
        elif new is None or not _same_allocation(obj, new):
            self._move(self.usage.remove(results_of(obj)))
            if new is None:
                self.of_pod.pop(_made_for(obj), None)

    def hold(self, claim: Key | None, allocation: Obj) -> None:
        """Nobody else gets these devices from now on. `claim` None: it is not made yet."""
        self._move(self.usage.add(results_in(allocation)))
        if claim is not None:
            self.pending[claim] = None

    def let_go(self, claim: Key | None, allocation: Obj) -> None:
        self._move(self.usage.remove(results_in(allocation)))
        if claim is not None:
            self.pending.pop(claim, None)

    def _move(self, devices: list[DeviceId]) -> None:
        self.moved += [PoolId(device.driver, device.pool) for device in devices]

    def _republished(self) -> None:
        self.published_version += 1
        self._published = self._extended = None


def _same_allocation(a: Obj, b: Obj) -> bool:
    before, after = status_of(a).get("allocation"), status_of(b).get("allocation")
    return before is after


def _made_for(claim: Obj) -> str:
    """The uid of the pod whose extended resources it is for."""
    meta = meta_of(claim)
    if (meta.get("annotations") or {}).get(EXTENDED_ANNOTATION) != "true":
        return ""
    return next((str(o["uid"]) for o in meta.get("ownerReferences") or () if o.get("controller")), "")
