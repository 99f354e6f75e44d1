"""Owner garbage collection on the loop: what an owner's end ends, a moment later.

The decisions are `fairway.cluster.garbage`'s; this one only skips the many changes that cannot matter to it.
"""

from __future__ import annotations

from typing import Final

from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.cluster.garbage import collect
from fairway.kube.objects import Obj
from fairway.twin.components import EVERY_KIND, Host
from fairway.twin.loop import CONTROLLERS

NAME: Final = "garbage-collector"


class OwnerGarbageCollector:
    """The garbage collector. What it must do follows from changes.

    `unknown`: UIDs of owners of which nobody knows whether they are there, since nobody read them (of a cluster that
    was written down in part, or that has kinds of its own): what they own stays.
    """

    name = NAME
    kinds: tuple[str, ...] = (EVERY_KIND,)
    skips_pod_status = True

    def __init__(self, unknown: frozenset[str] = frozenset()) -> None:
        self.unknown = unknown

    def attach(self, host: Host) -> None:
        self.host = host
        self._collect = host.loop.register("garbagecollector.collect", self._on_collect)
        self._delay = host.latency.controller_reconcile.sampler(host.streams.stream("garbagecollector"))

    def start(self) -> None:
        """Nothing is owned yet."""

    def fork(self) -> OwnerGarbageCollector:
        return OwnerGarbageCollector(self.unknown)

    def observe(self, change: Change) -> None:
        if self._matters(change):
            loop = self.host.loop
            loop.at(loop.now_us + self._delay(), self._collect, change, CONTROLLERS)

    def _matters(self, change: Change) -> bool:
        meta: Obj = change.obj["metadata"]
        store = self.host.store
        if change.type == DELETED:
            return store.owners.has_dependents(meta["uid"]) or bool(meta.get("ownerReferences"))
        if change.type == ADDED and "ownerReferences" in meta:
            owners = [ref.get("uid", "") for ref in meta["ownerReferences"] or ()]
            return any(store.by_uid(uid) is None and uid not in self.unknown for uid in owners)
        return "deletionTimestamp" in meta and bool(meta.get("finalizers"))

    def _on_collect(self, change: Change) -> None:
        collect(self.host.store, [change])
