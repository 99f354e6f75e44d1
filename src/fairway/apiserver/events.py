"""Where do the components' events go? Into the store, as the objects they are: listed, watched, kept for an hour.

Repetitions are counted on the object that said it first, many similar events become one, and who speaks too much
about one object is not heard, as client-go's recorder has it. Events that clients write expire the same way.

Source: client-go tools/record/event.go, events_cache.go; tools/events; kube-apiserver --event-ttl.
"""

from __future__ import annotations

from typing import Final

from fairway.apiserver.eventforms import host_of, is_series, observed, recorded, reference, repeated
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.twin.kubeevents import KubeEvents, Said

_EVENT: Final = "Event"
_Ident = tuple[str, str, str, str, str]
"""About whom, type, reason, message, who says so."""

# Source: events_cache.go defaultSpamBurst, defaultSpamQPS, defaultAggregateMaxEvents and …IntervalInSeconds.
_BURST: Final = 25
_REFILL_US: Final = 300 * SECOND_US
_SIMILAR_MANY: Final = 10
_SIMILAR_US: Final = 600 * SECOND_US
_COMBINED: Final = "(combined from similar events): "
# Source: tools/events/event_broadcaster.go refreshTime.
_SERIES_REFRESH_US: Final = 1800 * SECOND_US
# Objects remembered for counting; then it starts anew.
_KEPT: Final = 16384


class StoredEvents(KubeEvents):
    """`KubeEvents` whose events are objects of the store."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._said: dict[_Ident, Key] = {}
        """Which object counts repetitions of what."""
        self._unwritten: dict[_Ident, int] = {}
        self._similar: dict[tuple[str, str, str, str], tuple[tuple[str, ...], int]] = {}
        self._tokens: dict[tuple[str, str], tuple[float, int]] = {}
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
        part: str = "",
    ) -> None:
        total = (component, type_, reason)
        self._reasons[total] = self._reasons.get(total, 0) + times
        subject = uid or str(about)
        try:
            if is_series(reason, component):
                self._observe(now_us, about, uid, (subject, type_, reason, "", component), message)
            elif self._is_allowed((component, subject), now_us):
                message = self._combined((subject, type_, reason, component), message, now_us)
                same = "" if message.startswith(_COMBINED) else message
                ident = (subject, type_, reason, same, component + part)
                self._tell(now_us, about, uid, ident, message, component, times, part)
        except ApiError:
            # As with the real recorder: an event that cannot be written is dropped.
            return

    def emit_all(
        self, now_us: int, about: Key, uid: str, said: tuple[Said, ...], component: str, part: str = ""
    ) -> None:
        for type_, reason, message in said:
            self.emit(now_us, about, uid, type_, reason, message, component, 1, part)

    def _is_allowed(self, source: tuple[str, str], now_us: int) -> bool:
        """Whether this component may still speak about this object: 25 times, then once in five minutes."""
        tokens, since_us = self._tokens.get(source, (_BURST, now_us))
        tokens = min(tokens + (now_us - since_us) / _REFILL_US, float(_BURST))
        if len(self._tokens) >= _KEPT:
            self._tokens.clear()
        self._tokens[source] = (tokens - 1 if tokens >= 1 else tokens, now_us)
        return tokens >= 1

    def _combined(self, similar: tuple[str, str, str, str], message: str, now_us: int) -> str:
        """The message; marked where ten others of its kind came within ten minutes."""
        heard, last_us = self._similar.get(similar, ((), now_us))
        if now_us - last_us > _SIMILAR_US:
            heard = ()
        if message not in heard:
            heard = (*heard, message)
        if len(self._similar) >= _KEPT:
            self._similar.clear()
        is_one_of_many = len(heard) >= _SIMILAR_MANY
        self._similar[similar] = (heard[1:] if is_one_of_many else heard, now_us)
        return _COMBINED + message if is_one_of_many else message

    def _tell(
        self,
        now_us: int,
        about: Key,
        uid: str,
        ident: _Ident,
        message: str,
        component: str,
        times: int,
        part: str,
    ) -> None:
        """Raises: ApiError."""
        event = self._said_before(ident, now_us)
        if event is not None:
            self._store.replace(repeated(event, now_us, message, times))
            return
        host = host_of(component, about, self._store.get(about))
        head = self._head(now_us, about, uid, ident, message, part)
        self._keep_as(ident, self._store.create(recorded(head, now_us, component, host, times)))

    def _observe(self, now_us: int, about: Key, uid: str, ident: _Ident, message: str) -> None:
        """A scheduler's event: its first repetition makes it a series, later ones are written now and then.

        Raises: ApiError.
        """
        event = self._said_before(ident, now_us)
        if event is None:
            head = self._head(now_us, about, uid, ident, message, "")
            self._keep_as(ident, self._store.create(observed(head, now_us, ident[4])))
            return
        pending = self._unwritten.get(ident, 0) + 1
        if event.get("series") and now_us - _last_us(event) < _SERIES_REFRESH_US:
            self._unwritten[ident] = pending
            return
        self._unwritten.pop(ident, None)
        self._store.replace(repeated(event, now_us, message, pending))

    def _said_before(self, ident: _Ident, now_us: int) -> Obj | None:
        known = self._said.get(ident)
        event = None if known is None else self._store.get(known)
        return event if event is not None and now_us - _last_us(event) <= self.ttl_us else None

    def _keep_as(self, ident: _Ident, stored: Obj) -> None:
        self._said[ident] = Key(_EVENT, stored["metadata"]["namespace"], stored["metadata"]["name"])

    def _head(self, now_us: int, about: Key, uid: str, ident: _Ident, message: str, part: str) -> Obj:
        self._serial += 1
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about.name}.{now_us * 1000 + self._serial % 1000:x}",
                "namespace": about.namespace or "default",
            },
            "involvedObject": reference(self._store, about, uid, part),
            "type": ident[1],
            "reason": ident[2],
            "message": message,
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


def _last_us(event: Obj) -> int:
    text = (
        (event.get("series") or {}).get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"]["creationTimestamp"]
    )
    return parse_rfc3339(text)
