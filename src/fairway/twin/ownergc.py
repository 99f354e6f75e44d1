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
    """The garbage collector. It carries no data: what it must do follows from changes."""

    name = NAME
    kinds: tuple[str, ...] = (EVERY_KIND,)
    skips_pod_status = True

    def attach(self, host: Host) -> None:
        self.host = host
        self._collect = host.loop.register("garbagecollector.collect", self._on_collect)
        self._delay = host.latency.controller_reconcile.sampler(host.streams.stream("garbagecollector"))

    def start(self) -> None:
        """Nothing is owned yet."""

    def fork(self) -> OwnerGarbageCollector:
        return OwnerGarbageCollector()

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
            return any(store.by_uid(ref.get("uid", "")) is None for ref in meta["ownerReferences"] or ())
        return "deletionTimestamp" in meta and bool(meta.get("finalizers"))

    def _on_collect(self, change: Change) -> None:
        collect(self.host.store, [change])
