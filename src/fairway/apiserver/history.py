"""What is kept of a served cluster's past? Every change of nodes, pods and work, when it was made, in its own files.

The journal keeps the latest state alone. A follower of the store collects changes on the loop's thread; the journal's
thread packs and writes those of a batch after the batch itself and before anybody hears that it is done: what was
acknowledged is in both, however the process ends. Nothing is synced: a machine that loses power may lose the end.

A file begins with all there is and is followed by the next when it is full; the oldest go where all together would
pass the budget: only where a copy of what is there is an eighth of it do the newest two take more. Of objects nothing
is kept that no reader asks for: managed fields, repeated heartbeats, changes of annotations alone; of long ones neither
commands nor environments. Events are counted.

Read next: `historyfiles` (the format), `ground.recorded` (who reads it).
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from fairway.apiserver.folders import owners_alone
from fairway.apiserver.historyfiles import (
    ADD,
    CHANGE,
    DROP,
    FOLDER,
    FRAME_BYTES,
    HAD,
    HAVE,
    HEADER,
    MAGIC,
    PREEMPTED,
    SAID,
    file_name,
    named,
    number_of,
)
from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, key_of, status_of
from fairway.kube.podowners import is_workload

log = logging.getLogger("fairway.apiserver")

BUDGET_BYTES: Final = 256 * 1024 * 1024
# A file has this part of the budget; more where what was there at its beginning would be most of it.
_PARTS, _FEWEST_PARTS = 16, 4
_TIMES, _LEAST_TIMES = 4, 2
_EVENT: Final = "Event"
_KINDS: Final = frozenset(
    {
        "Node",
        "Pod",
        "ResourceSlice.resource.k8s.io",
        "ResourceClaim.resource.k8s.io",
        "NodeClaim.karpenter.sh",
        "NodePool.karpenter.sh",
    }
)
_KUEUE: Final = ".kueue.x-k8s.io"
# What of metadata is worth a line of its own when it changes.
_TELLING: Final = ("labels", "deletionTimestamp", "ownerReferences", "finalizers")
_UNREAD: Final = ("managedFields", "resourceVersion", "selfLink")
_HEARTBEAT: Final = "lastHeartbeatTime"
# From here on an object is kept without what only its containers read, and none is kept that is still longer then.
_LONG_BYTES: Final = 16 * 1024
_LONGEST_BYTES: Final = 256 * 1024
_OF_CONTAINERS: Final = frozenset(
    {"env", "envFrom", "command", "args", "volumeMounts", "volumes", "lifecycle", "securityContext"}
)
_LONG_TEXT: Final = 1024
# Lines packed in one go.
_LINES: Final = 500


class Entry(NamedTuple):
    """A change as it was heard. `launched_us`: of a new node."""

    version: int
    at_us: int
    type: str
    key: Key
    obj: Obj
    old: Obj | None
    launched_us: int | None


class There(NamedTuple):
    """All that was there at the beginning of a file."""

    at_us: int
    objects: list[Obj]


Told = Entry | There


def is_kept(gk: str) -> bool:
    return gk in _KINDS or gk.endswith(_KUEUE) or is_workload(gk)


class History:
    """One folder. `apply` and `take` are for the loop's thread, `write` and `close` for the journal's."""

    def __init__(self, data: Path, budget_bytes: int = BUDGET_BYTES) -> None:
        self.folder = data / FOLDER
        self.launched: Callable[[str], int | None] = lambda name: None
        """When the machine of a new node was launched, if anybody launched it here."""
        self._budget = budget_bytes
        self._told: list[Told] = []
        self._is_full = False
        self._file = -1
        self._written = 0
        self._limit = 0
        self._packer: Any = None
        self._failed = False

    # On the loop's thread

    def begin(self, store: Store) -> None:
        """Follow the store from its next change on."""
        self._store = store
        self._told.append(self._there())
        store.followers.append(self)

    def _there(self) -> There:
        """O(objects), references alone."""
        store = self._store
        return There(store.now_us, [o for gk in store.kinds() if is_kept(gk) for o in store.objects(gk)])

    def apply(self, change: Change) -> None:
        gk = change[2][0]
        if self._failed or not (gk == _EVENT or is_kept(gk)):
            return
        last = self._told[-1] if self._told else None
        if isinstance(last, Entry) and last.version == change.version:
            # It is undone.
            self._told.pop()
            return
        is_new_node = gk == "Node" and change.type == ADDED
        launched_us = self.launched(change.key.name) if is_new_node else None
        version, type_, key, obj, old = change
        self._told.append(Entry(version, self._store.now_us, type_, key, obj, old, launched_us))

    def take(self) -> list[Told]:
        """What was heard since; to be handed to `write`."""
        told, self._told = self._told, []
        if self._is_full and not self._failed:
            self._is_full = False
            told.append(self._there())
        return told

    # On the journal's thread

    def write(self, told: list[Told]) -> None:
        """Never raises: a history that cannot be kept must not keep the cluster from going on."""
        if self._failed or not told:
            return
        try:
            lines: list[bytes] = []
            for one in told:
                if isinstance(one, There):
                    self._flush(lines)
                    self._begin_file(one)
                    lines = []
                else:
                    _add_contained(lines, one)
            self._flush(lines)
            self._is_full = self._written > self._limit
        except Exception as failed:
            self._failed = True
            self.close()
            why = failed.strerror if isinstance(failed, OSError) else f"{type(failed).__name__}: {failed}"
            log.error("%s: the cluster's history is not kept any more: %s", self.folder, why)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _begin_file(self, there: There) -> None:
        self.close()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        before = named(self.folder)
        path = self.folder / file_name(number_of(before[-1]) + 1 if before else 1)
        self._file = owners_alone(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        self._packer = zlib.compressobj(level=1)
        self._written = 0
        self._put(MAGIC)
        lines: list[bytes] = []
        for obj in there.objects:
            kept = _kept(obj)
            if kept is not None:
                lines.append(_line(HAVE, kept))
        lines.append(_line(HAD, there.at_us))
        self._flush(lines)
        self._limit = _limit(self._budget, self._written)
        sizes = [old.stat().st_size for old in before]
        while before and sum(sizes) + self._limit > self._budget:
            before.pop(0).unlink(missing_ok=True)
            sizes.pop(0)

    def _flush(self, lines: list[bytes]) -> None:
        """Pack lines and write them, whole frames at a time. Raises: OSError."""
        text: list[bytes] = []
        size = 0
        for line in lines:
            if text and (len(text) >= _LINES or size + len(line) > FRAME_BYTES):
                self._frame(b"".join(text))
                text, size = [], 0
            text.append(line)
            size += len(line)
        if text:
            self._frame(b"".join(text))

    def _frame(self, text: bytes) -> None:
        packed = self._packer.compress(text) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        self._put(HEADER.pack(len(packed), zlib.crc32(packed)) + packed)

    def _put(self, data: bytes) -> None:
        if os.write(self._file, data) != len(data):
            raise OSError(None, "the disk is full")
        self._written += len(data)


def _limit(budget: int, begins_with: int) -> int:
    """How long a file becomes. All together stay within the budget, unless what is there is an eighth of it."""
    wanted = max(budget // _PARTS, min(_TIMES * begins_with, budget // _FEWEST_PARTS))
    return max(wanted, _LEAST_TIMES * begins_with)


# What a change says


def _add_contained(lines: list[bytes], entry: Entry) -> None:
    """One object that is not of its kind's shape is left out, alone."""
    try:
        _add(lines, entry)
    except (AttributeError, KeyError, TypeError, ValueError) as odd:
        log.warning("%s: left out of the cluster's history: %s: %s", entry.key, type(odd).__name__, odd)


def _add(lines: list[bytes], entry: Entry) -> None:
    if entry.key.gk == _EVENT:
        _count(lines, entry)
    elif entry.type == DELETED:
        lines.append(_line(DROP, entry.at_us, entry.key))
    elif entry.old is None:
        kept = _kept(entry.obj)
        if kept is not None:
            lines.append(_line(ADD, entry.at_us, kept, entry.launched_us))
    else:
        changed = _changed(entry.obj, entry.old)
        parts = _short(changed, entry.key) if changed else None
        if parts is not None:
            lines.append(_line(CHANGE, entry.at_us, entry.key, parts))


def _count(lines: list[bytes], entry: Entry) -> None:
    """How often something was said, in the words of whoever counts them."""
    event, at_us = entry.obj, entry.at_us
    times = 0 if entry.type == DELETED else _times(event) - (0 if entry.old is None else _times(entry.old))
    if times <= 0:
        return
    source = event.get("source") or {}
    who = str(source.get("component") or event.get("reportingComponent") or "")
    reason = str(event.get("reason") or "")
    lines.append(_line(SAID, at_us, who[:253], str(event.get("type") or "")[:253], reason[:253], times))
    if reason == "Preempted":
        about = event.get("involvedObject") or {}
        lines.append(
            _line(
                PREEMPTED, at_us, about.get("namespace"), about.get("name"), str(event.get("message"))[:1024]
            )
        )


def _times(event: Obj) -> int:
    said = (event.get("series") or {}).get("count") or event.get("count") or 1
    return said if isinstance(said, int) else 1


def _kept(obj: Obj) -> msgspec.Raw | None:
    """An object without what nobody reads; None: too long."""
    return _short({**obj, "metadata": _meta(obj)}, key_of(obj))


def _meta(obj: Obj) -> Obj:
    return {k: v for k, v in obj["metadata"].items() if k not in _UNREAD}


def _changed(obj: Obj, old: Obj) -> Obj:
    """The parts that are not as they were; None for one that is gone."""
    parts: Obj = {}
    meta = obj["metadata"]
    if any(meta.get(t) != old["metadata"].get(t) for t in _TELLING):
        parts["metadata"] = _meta(obj)
    for name in {**old, **obj}:
        new, before = obj.get(name), old.get(name)
        if name == "metadata":
            continue
        if new is not before and new != before and not (name == "status" and _only_beats(obj, old)):
            parts[name] = new
    return parts


def _only_beats(obj: Obj, old: Obj) -> bool:
    """Whether a status says nothing but that somebody is still there."""
    return obj.get("kind") == "Node" and _without_beats(obj) == _without_beats(old)


def _without_beats(node: Obj) -> Obj:
    status = status_of(node)
    conditions = [
        {k: v for k, v in c.items() if k != _HEARTBEAT}
        for c in status.get("conditions") or ()
        if isinstance(c, dict)
    ]
    return {**status, "conditions": conditions}


def _short(parts: Obj, key: Key) -> msgspec.Raw | None:
    """As it is; where it is long without what only containers read; None where it is still too long then."""
    text = msgspec.json.encode(parts)
    if len(text) > _LONG_BYTES:
        text = msgspec.json.encode(_pruned(parts))
    if len(text) > _LONGEST_BYTES:
        log.warning("%s is too long for the cluster's history", key)
        return None
    return msgspec.Raw(text)


def _pruned(value: Any) -> Any:
    """The API takes no object that is nested deeper than this goes."""
    if isinstance(value, dict):
        return {
            k: _pruned(v)
            for k, v in value.items()
            if k not in _OF_CONTAINERS and not (isinstance(v, str) and len(v) > _LONG_TEXT)
        }
    return [_pruned(v) for v in value] if isinstance(value, list) else value


def _line(*values: Any) -> bytes:
    return msgspec.json.encode(values) + b"\n"
