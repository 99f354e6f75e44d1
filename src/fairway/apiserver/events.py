"""Where do the components' events go? Into the store, as the objects they are: listed, watched, kept for an hour.

Repetitions are counted on the object that said it first, as client-go's recorder does. Events that clients write
expire the same way.

Source: client-go tools/record/event.go, events_cache.go; kube-apiserver --event-ttl.
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339, rfc3339
from fairway.twin.kubeevents import KubeEvents, Said

_EVENT = "Event"
_Ident = tuple[str, str, str, str, str]


class StoredEvents(KubeEvents):
    """`KubeEvents` whose events are objects of the store."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._said: dict[_Ident, Key] = {}
        """Which object counts repetitions of what."""
        self._ages: dict[Key, int] = {}
        """When every event was last heard, oldest first."""
        store.followers.append(self)
        for event in store.objects(_EVENT):
            self._ages[Key(_EVENT, event["metadata"]["namespace"], event["metadata"]["name"])] = _last_us(
                event
            )
        self._ages = dict(sorted(self._ages.items(), key=lambda item: item[1]))

    def emit(
        self,
        now_us: int,
        about: Key,
        uid: str,
        type_: str,
        reason: str,
        message: str,
        component: str,
        times: int = 1,
    ) -> None:
        total = (component, type_, reason)
        self._reasons[total] = self._reasons.get(total, 0) + times
        ident = (uid or str(about), type_, reason, message, component)
        known = self._said.get(ident)
        event = None if known is None else self._store.get(known)
        try:
            if event is not None and known is not None and now_us - _last_us(event) <= self.ttl_us:
                again = {**event, "count": event.get("count", 1) + times, "lastTimestamp": rfc3339(now_us)}
                self._store.replace(again)
                return
            self._serial += 1
            stored = self._store.create(
                self._event(now_us, about, uid, type_, reason, message, component, times)
            )
        except ApiError:
            # As with the real recorder: an event that cannot be written is dropped.
            return
        self._said[ident] = Key(_EVENT, stored["metadata"]["namespace"], stored["metadata"]["name"])

    def emit_all(self, now_us: int, about: Key, uid: str, said: tuple[Said, ...], component: str) -> None:
        for type_, reason, message in said:
            self.emit(now_us, about, uid, type_, reason, message, component)

    def _event(
        self,
        now_us: int,
        about: Key,
        uid: str,
        type_: str,
        reason: str,
        message: str,
        component: str,
        times: int,
    ) -> Obj:
        now = rfc3339(now_us)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about.name}.{now_us * 1000 + self._serial % 1000:x}",
                "namespace": about.namespace or "default",
            },
            "involvedObject": _reference(self._store, about, uid),
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": times,
            "type": type_,
            "eventTime": None,
            "reportingComponent": component,
            "reportingInstance": "",
        }

    def apply(self, change: Change) -> None:
        """Follow the store: how old is which event?"""
        if change.key.gk != _EVENT:
            return
        self._ages.pop(change.key, None)
        if change.type != DELETED:
            self._ages[change.key] = self._store.now_us

    def expire(self, now_us: int) -> None:
        """Let go of what is older than the TTL, or beyond the limit. O(expired)."""
        too_many = len(self._ages) - self.limit
        old: list[Key] = []
        for key, last_us in self._ages.items():
            if len(old) >= too_many and now_us - last_us <= self.ttl_us:
                break
            old.append(key)
        for key in old:
            if self._store.get(key) is not None:
                self._store.delete(key)
        if old:
            self._said = {ident: key for ident, key in self._said.items() if key in self._ages}

    def fork(self) -> KubeEvents:
        """A fork keeps its own events, as every twin does."""
        return KubeEvents(ttl_us=self.ttl_us, limit=self.limit)


def _reference(store: Store, about: Key, uid: str) -> dict[str, Any]:
    """An ObjectReference, with the resourceVersion the object has now."""
    obj = store.get(about)
    kind = kind_named(about.gk)
    reference: dict[str, Any] = {"kind": kind.kind}
    if about.namespace:
        reference["namespace"] = about.namespace
    reference["name"] = about.name
    if uid:
        reference["uid"] = uid
    reference["apiVersion"] = kind.api_version if obj is None else obj.get("apiVersion", kind.api_version)
    if obj is not None:
        reference["resourceVersion"] = obj["metadata"]["resourceVersion"]
    return reference


def _last_us(event: Obj) -> int:
    text = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return parse_rfc3339(text)
