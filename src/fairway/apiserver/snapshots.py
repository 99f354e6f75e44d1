"""What was there of a kind at an earlier version? The pages of one list all come from the state of its first.

The store keeps the present and what changed; an earlier state is the present with the changes since then taken back.
Once those were compacted away the list cannot go on as it began: 410, with a token to go on in what is there by then.

Source: apiserver pkg/storage/etcd3/{store,errors}.go, pkg/storage/continue.go (v1.36).
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

import msgspec

from fairway.apiserver.statuses import StatusError, bad_request
from fairway.cluster.store import Store
from fairway.kube.gojson import json_error
from fairway.kube.objects import Key, Obj

# The version a token names that goes on with whatever is there. Source: continue.go EncodeContinue.
INCONSISTENT = -1
_Place = tuple[str, str]
_VERSION = "meta.k8s.io/v1"
_ALIEN = re.compile(r"[^A-Za-z0-9_-]")
_NO_START = f"continue key is not valid: encoded start key empty (version {_VERSION})"
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_TOO_OLD = "The resourceVersion for the provided list is too old."


class Token(NamedTuple):
    """Where a list goes on: behind this object, as of this version."""

    version: int
    after: _Place

    def text(self) -> str:
        said = {"v": _VERSION, "rv": self.version, "ns": self.after[0], "name": self.after[1]}
        return base64.urlsafe_b64encode(msgspec.json.encode(said)).decode().rstrip("=")


def read_token(text: str) -> Token:
    """Raises: StatusError (400)."""
    alien = _ALIEN.search(text)
    if alien is not None or len(text) % 4 == 1:
        raise _unreadable(
            f"illegal base64 data at input byte {len(text) - 1 if alien is None else alien.start()}"
        )
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    try:
        said = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _unreadable(json_error(raw.decode("utf-8", "replace"))) from None
    version = said.get("v", "") if isinstance(said, dict) else ""
    if version != _VERSION:
        what = "continue key is not valid: server does not recognize this encoded version"
        raise bad_request(f"invalid continue token: {what} {version}")
    try:
        if not isinstance(said["rv"], int):
            raise TypeError("rv")
        return Token(said["rv"], (str(said["ns"]), str(said["name"])))
    except (KeyError, TypeError):
        raise bad_request(f"invalid continue token: {_NO_START}") from None


def _unreadable(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")


def expired(token: Token) -> StatusError:
    """What a list hears whose beginning is too long ago; the answer carries a token that still works."""
    error = StatusError(410, "Expired", _EXPIRED)
    error.list_meta = {"continue": Token(INCONSISTENT, token.after).text()}
    return error


def too_old() -> StatusError:
    return StatusError(410, "Expired", _TOO_OLD)


class Snapshot:
    """A kind in a namespace (or all), as of a version. O(changes since then) to make."""

    def __init__(self, store: Store, gk: str, namespace: str | None, version: int) -> None:
        """Raises: ApiError (410) where the changes since then are gone."""
        self._store = store
        self._gk = gk
        self._namespace = namespace
        self._then: dict[_Place, Obj | None] = {}
        if version != store.version:
            for change in store.log.since(version):
                key = change.key
                if key.gk == gk and (namespace is None or key.namespace == namespace):
                    self._then.setdefault((key.namespace, key.name), change.old)
        self._gone = sorted(
            (
                (place, obj)
                for place, obj in self._then.items()
                if obj is not None and store.get(Key(gk, *place)) is None
            ),
            key=itemgetter(0),
        )

    def walk(self, after: _Place) -> Iterator[Obj]:
        """Objects in order, those behind `after`."""
        gone = iter(self._gone[bisect_right(self._gone, after, key=itemgetter(0)) :])
        waiting = next(gone, None)
        for obj in self._store.walk(self._gk, self._namespace, after):
            meta = obj["metadata"]
            place = (meta.get("namespace", ""), meta["name"])
            while waiting is not None and waiting[0] < place:
                yield waiting[1]
                waiting = next(gone, None)
            then = self._then.get(place, obj)
            if then is not None:
                yield then
        while waiting is not None:
            yield waiting[1]
            waiting = next(gone, None)

    def count_after(self, after: _Place) -> int:
        """How many `walk` would still give."""
        if not self._then:
            return self._store.count_after(self._gk, self._namespace, after)
        return sum(1 for _ in self.walk(after))
