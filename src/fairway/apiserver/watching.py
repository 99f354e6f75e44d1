"""What happens from now on? One stream a watcher, fed from the store's log as changes become durable.

Nobody is told of a change that is not on disk. The JSON of an object is made once and shared by all watchers; a
watcher with a selector sees an object that starts or stops to match as added or deleted.

Source: apiserver pkg/storage/cacher (bookmarks, sendInitialEvents, KEP-3157), endpoints/handlers/watch.go (v1.36).
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.representing import PARTIAL, PLAIN, TABLE, partial, watched_form_of
from fairway.apiserver.resources import Resource
from fairway.apiserver.selecting import Selection, selection
from fairway.apiserver.statuses import internal
from fairway.apiserver.verbs.reading import parse_version, too_large
from fairway.apiserver.wire.connection import MAX_UNSENT_BYTES, Connection
from fairway.apiserver.wire.messages import encode
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.kube.integers import natural
from fairway.kube.objects import Obj

log = logging.getLogger("fairway.apiserver")
_BOOKMARK = "BOOKMARK"
# Source: cacher bookmarkFrequency is a minute; more often helps clients that were cut off.
_BOOKMARK_EVERY_S = 30.0
# Source: --min-request-timeout 1800: a watch without timeoutSeconds lasts one to two times that.
_MIN_TIMEOUT_S = 1800
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
_HEAD = (
    b"HTTP/1.1 200 OK\r\nCache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


class Watches:
    """All watchers by the kind they watch."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_gk: dict[str, dict[Watch, None]] = {}
        self._told = store.version
        self.sent: dict[tuple[str, str, str], int] = {}
        """Events sent, by group, version and plural."""

    @property
    def told(self) -> int:
        """The version up to which every watcher was told."""
        return self._told

    def __len__(self) -> int:
        return sum(len(watchers) for watchers in self._by_gk.values())

    def add(self, watch: Watch) -> None:
        self._by_gk.setdefault(watch.resource.gk, {})[watch] = None

    def remove(self, watch: Watch) -> None:
        watchers = self._by_gk.get(watch.resource.gk)
        if watchers is not None:
            watchers.pop(watch, None)
            if not watchers:
                del self._by_gk[watch.resource.gk]

    def tell(self, durable: int) -> None:
        """Everything up to this version is on disk: tell who watches it."""
        log = self._store.log
        dirty: dict[Watch, None] = {}
        for version in range(max(self._told + 1, log.first), durable + 1):
            change = log.at(version)
            for watch in self._by_gk.get(change.key.gk, ()):
                if watch.offer(change):
                    dirty[watch] = None
        self._told = max(self._told, durable)
        for watch in dirty:
            watch.flush()

    def bookmark(self) -> None:
        for watchers in list(self._by_gk.values()):
            for watch in list(watchers):
                watch.bookmark(self._told)

    async def bookmark_forever(self) -> None:
        while True:
            await asyncio.sleep(_BOOKMARK_EVERY_S)
            self.bookmark()

    def close(self) -> None:
        for watchers in list(self._by_gk.values()):
            for watch in list(watchers):
                watch.end()


class Watch:
    """One watcher: what it selects, in which form, and how far it has been told."""

    def __init__(self, api: Api, ask: Ask, after: int | None, *, initial: bool, initial_end: bool) -> None:
        self._api = api
        self.resource: Resource = ask.resource
        self._counted = (ask.resource.group, ask.resource.version, ask.resource.kind.plural)
        namespace = ask.info.namespace if ask.resource.kind.namespaced else ""
        self._selection: Selection = selection(ask.request, ask.resource, namespace, ask.info.name)
        self._form = watched_form_of(ask.accept)
        self._include = ask.include
        self._after = after
        self._initial = initial
        self._initial_end = initial_end
        self._bookmarks = ask.request.flag("allowWatchBookmarks")
        self._timeout_s = timeout_s(ask)
        self._has_columns = False
        self._pending: list[bytes] = []
        self._connection: Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0
        self._broken: ApiError | None = None

    # wire.Stream

    def start(self, connection: Connection) -> None:
        self._connection = connection
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self.end)
        # What is there now may not be on disk yet; nobody hears of it before it is.
        self._api.journal.when_durable(self._api.store.version, self._begin)

    def stop(self) -> None:
        self._connection = None
        self._api.watches.remove(self)
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        if self._connection is None:
            return
        try:
            self._tell_first()
        except Exception as bug:
            self._stumbled(bug)
            self.flush()

    def _stumbled(self, bug: Exception) -> None:
        """One object that cannot be shown ends this watch with a word, and no other."""
        log.error("a watch of %s failed", self.resource.kind.plural, exc_info=bug)
        self._broken = internal(f"{type(bug).__name__} while watching {self.resource.kind.plural}")

    def _tell_first(self) -> None:
        """What was there, or happened, before."""
        assert self._connection is not None
        store = self._api.store
        self._connection.transport.write(_HEAD)
        self._at = store.version
        if self._initial:
            namespace = self._selection.namespace or None
            for obj in store.walk(self.resource.gk, namespace):
                if self._selection.matches(obj):
                    self._put(ADDED, obj)
            if self._initial_end:
                self._put_bookmark(self._at, _INITIAL_EVENTS_END)
        else:
            try:
                missed = store.log.since(self._after or 0)
            except ApiError as expired:
                self._fail(expired)
                return
            self._at = self._after or 0
            for change in missed:
                # The log is of everything there is; nothing else may leave it than what was asked for, and allowed.
                if change.key.gk == self.resource.gk:
                    self.offer(change)
        self._at = store.version
        self._api.watches.add(self)
        self.flush()

    def _fail(self, error: ApiError) -> None:
        self._broken = error
        self.flush()

    def end(self) -> None:
        """Finish the stream; the client may go on with another request."""
        connection = self._connection
        self.stop()
        if connection is not None and not connection.transport.is_closing():
            connection.transport.write(b"0\r\n\r\n")
            connection.done()

    # Events

    def offer(self, change: Change) -> bool:
        """Queue what this change means here; whether there is anything to send."""
        try:
            return self._offer(change)
        except Exception as bug:
            self._stumbled(bug)
            return True

    def _offer(self, change: Change) -> bool:
        if change.version <= self._at:
            return False
        type_ = self._type(change)
        if type_ is None:
            return False
        obj = change.obj
        if type_ == DELETED and change.type != DELETED and change.old is not None:
            # It no longer matches: its last matching state, at the version that ended it.
            version = change.obj["metadata"]["resourceVersion"]
            obj = {**change.old, "metadata": {**change.old["metadata"], "resourceVersion": version}}
        self._put(type_, obj)
        return True

    def _type(self, change: Change) -> str | None:
        chosen = self._selection
        if chosen.is_all and not chosen.namespace:
            return change.type
        now = change.type != DELETED and chosen.matches(change.obj)
        before = change.old is not None and chosen.matches(change.old)
        if now:
            return MODIFIED if before else ADDED
        return DELETED if before else None

    def _put(self, type_: str, obj: Obj) -> None:
        sent = self._api.watches.sent
        sent[self._counted] = sent.get(self._counted, 0) + 1
        self._pending.append(chunk(self._line(type_, obj)))

    def _line(self, type_: str, obj: Obj) -> bytes:
        if self._form == PLAIN:
            body = self._api.representation.body(obj, self.resource)
        elif self._form == TABLE:
            body = encode(self._table(obj))
        elif self._form == PARTIAL:
            body = encode(partial(obj))
        else:
            body = encode(self._api.representation.version(obj, self.resource))
        return b'{"type":"' + type_.encode() + b'","object":' + body + b"}\n"

    def _table(self, obj: Obj) -> dict[str, Any]:
        """One row; the columns travel with the first."""
        meta = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        table = self._api.representation.table([obj], self.resource, meta, self._include)
        if self._has_columns:
            table["columnDefinitions"] = None
        self._has_columns = True
        return table

    def bookmark(self, version: int) -> None:
        if self._bookmarks and version >= self._at:
            self._put_bookmark(version, None)
            self.flush()

    def _put_bookmark(self, version: int, annotations: dict[str, str] | None) -> None:
        meta: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        resource = self.resource
        body: dict[str, Any] = {
            "kind": resource.kind.kind,
            "apiVersion": resource.api_version,
            "metadata": meta,
        }
        if self._form == TABLE:
            body = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": str(version)},
                "columnDefinitions": [],
                "rows": [
                    {
                        "cells": [],
                        "object": {**body, "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"},
                    }
                ],
            }
        elif self._form == PARTIAL:
            body = {**body, "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        self._pending.append(chunk(encode({"type": _BOOKMARK, "object": body}) + b"\n"))

    def flush(self) -> None:
        connection = self._connection
        if self._broken is not None:
            told = {"type": "ERROR", "object": self._broken.status()}
            self._pending.append(chunk(encode(told) + b"\n"))
        pending, self._pending = self._pending, []
        if connection is None or connection.transport.is_closing() or not pending:
            return
        connection.transport.write(b"".join(pending))
        if connection.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            # There is no place left for a word to the client, who may go on from the last event that arrived.
            log.warning("a watch of %s reads too slowly and is cut off", self.resource.kind.plural)
            connection.transport.abort()
        elif self._broken is not None:
            self.end()


def watch(api: Api, ask: Ask) -> Watch:
    """A watch as the query asks for it.

    Raises: StatusError (400; 504 for a version that is not there yet).
    """
    request = ask.request
    text = request.option("resourceVersion")
    wanted = request.option("sendInitialEvents")
    version = parse_version(text) if text else 0
    if version > api.store.version:
        raise too_large(version, api.store.version)
    initial = wanted == "true" or (not wanted and version == 0)
    after = None if initial or not version else version
    if wanted == "false" and not version:
        after = api.store.version
    return Watch(
        api, ask, after, initial=initial, initial_end=wanted == "true" and request.flag("allowWatchBookmarks")
    )


def timeout_s(ask: Ask) -> float:
    asked = natural(ask.request.option("timeoutSeconds"))
    if asked:
        return float(asked)
    return _MIN_TIMEOUT_S * (1 + random.random())


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
