"""What survives the process? Every change the store makes, on disk before anyone hears that it is done.

A follower of the store collects changes; one thread writes everything that came together as one record of the log
(`segments`) and syncs it: group commit. `when_durable` calls back once a version is on disk. A log file that is full
is merged into an SQLite database while the other one is written: there is the latest state of every object and
nothing else, so nothing ever has to be compacted.

After a restart versions go on `VERSION_GAP` above the last: a version that somebody may have seen but that never
reached the disk is not given out again, and watches from before get 410.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from fairway.apiserver.bodies import Bodies
from fairway.apiserver.history import History, Told
from fairway.apiserver.inspection import FORMAT, Damage, inspect, packed
from fairway.apiserver.objectsdb import NAME, ObjectsDb
from fairway.apiserver.objectsdb import Bodies as Written
from fairway.apiserver.segments import SEGMENT_BYTES, Segments
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.store import Store
from fairway.errors import WorldError
from fairway.kube.objects import Key, Obj, key_of

log = logging.getLogger("fairway.apiserver")

# Versions skipped at a restart. A process has at most MAX_BACKLOG changes that are not on disk.
VERSION_GAP = 1_000_000
# Changes waiting for the disk at which virtual time waits, too.
MAX_BACKLOG = 4_000
# Damages that a refusal to start names.
_MOST_NAMED = 10

Batch = tuple[dict[Key, Obj | None], dict[str, str], int, list[Told]]


@dataclass(frozen=True, slots=True)
class Saved:
    """What was on disk. `now_us` is the virtual time at the last write, 0 for a new journal."""

    objects: list[Obj]
    version: int
    serial: int
    now_us: int
    notes: dict[str, str]


class Journal:
    """One folder. Methods are for the loop's thread; `_work` and what it calls run in the writer's."""

    def __init__(self, folder: Path, bodies: Bodies, history: History | None = None) -> None:
        """`history`: where what happened is written, too."""
        self.folder = folder
        self._history = history
        self.durable = 0
        """The newest version on disk."""
        self.failed: Callable[[Exception], None] = _raise
        self.advanced: list[Callable[[int], None]] = []
        """Called with `durable` whenever it rises."""
        self.wrote: Callable[[int, dict[Key, int]], None] = lambda durable, sizes: None
        """Called after those, with the bytes of every object that was written."""
        self._bodies = bodies
        self._pending: dict[Key, Obj | None] = {}
        self._notes: dict[str, str] = {}
        self._changes = 0
        self._in_flight = 0
        self._is_kicked = False
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._merger: threading.Thread | None = None
        self._merge_error: Exception | None = None
        self._merged: Written = {}
        self._facts: dict[str, str] = {}

    def load(self) -> Saved:
        """Everything on disk; what the log has beyond the database is merged into it first.

        Raises: UserError for a journal of another format; WorldError, which names what is damaged.
        """
        found = inspect(self.folder)
        if found.damages:
            raise WorldError(_refusal(self.folder, found.damages))
        if found.logs or found.is_old:
            with ObjectsDb(self.folder / NAME) as db:
                epoch = max((log.epoch for log in found.logs), default=0)
                facts = {**found.facts, "format": FORMAT, **({"epoch": str(epoch)} if epoch else {})}
                # Rows of the first format have no checksums yet.
                db.write(dict(found.bodies) if found.is_old else found.newer, facts)
                found.facts = facts
        notes = found.facts
        self._epoch = int(notes.get("epoch", "0")) + 1
        objects = [msgspec.json.decode(body) for body in found.bodies.values()]
        objects.sort(key=lambda o: int(o["metadata"]["resourceVersion"]))
        version, serial = int(notes.get("version", "0")), int(notes.get("serial", "0"))
        return Saved(objects, version, serial, int(notes.get("now_us", "0")), notes)

    def begin(self, store: Store) -> None:
        """Follow the store from its next change on; needs a running loop. `load` comes first."""
        self._store = store
        self._loop = asyncio.get_running_loop()
        self.durable = store.version
        store.followers.append(self)
        if self._history is not None:
            self._history.begin(store)
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
        self._thread.start()

    # Collecting

    def apply(self, change: Change) -> None:
        self._pending[change[2]] = None if change[1] == DELETED else change[3]
        self._changes += 1
        if not self._is_kicked:
            self._is_kicked = True
            self._loop.call_soon(self._kick)

    def note(self, name: str, value: str) -> None:
        """Remember a fact beside the objects (how fast the clock goes)."""
        self._notes[name] = value
        if not self._is_kicked:
            self._is_kicked = True
            self._loop.call_soon(self._kick)

    def when_durable(self, version: int, then: Callable[[], None]) -> None:
        if version <= self.durable:
            then()
        else:
            self._waiting.append((version, then))

    @property
    def waiting(self) -> int:
        """Answers that wait for the disk."""
        return len(self._waiting)

    @property
    def backlog(self) -> int:
        return self._changes + self._in_flight

    def _kick(self) -> None:
        """Hand everything collected to the writer, unless it is still writing."""
        self._is_kicked = False
        if self._in_flight or not (self._pending or self._notes):
            return
        self._in_flight = max(self._changes, 1)
        self._queue.put(self._batch())

    def _batch(self) -> Batch:
        store = self._store
        facts = {
            **self._notes,
            "format": FORMAT,
            "version": str(store.version),
            "serial": str(store.serial),
            "now_us": str(store.now_us),
        }
        told = [] if self._history is None else self._history.take()
        batch = (self._pending, facts, store.version, told)
        self._pending, self._notes, self._changes = {}, {}, 0
        return batch

    def _written(self, done: tuple[int, dict[Key, int]]) -> None:
        version, sizes = done
        self._in_flight = 0
        self.durable = version
        waiting = self._waiting
        while waiting and waiting[0][0] <= version:
            _told(waiting.popleft()[1])
        for told in self.advanced:
            _told(partial(told, version))
        self.wrote(version, sizes)
        self._kick()

    def close(self) -> None:
        """Write what is left. Blocks until it is on disk."""
        if self._thread is None:
            return
        if self._pending or self._notes:
            self._queue.put(self._batch())
        self._queue.put(None)
        self._thread.join()

    # Writing, in the writer's thread

    def _work(self) -> None:
        try:
            segments = Segments(self.folder, self._epoch)
            while (batch := self._queue.get()) is not None:
                sizes = self._write(segments, batch)
                self._call(self._written, (batch[2], sizes))
            if self._merger is not None:
                self._merger.join()
            segments.close()
        except Exception as error:
            self._call(self.failed, error)
        finally:
            if self._history is not None:
                self._history.close()

    def _call(self, what: Callable[[Any], None], value: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what, value)

    def _write(self, segments: Segments, batch: Batch) -> dict[Key, int]:
        changed, facts, _, told = batch
        body = self._bodies.of
        bodies = {key: None if obj is None else body(obj) for key, obj in changed.items()}
        payload = packed(bodies, facts)
        if not segments.has_room(len(payload)):
            self._turn(segments)
        self._merged.update(bodies)
        self._facts.update(facts)
        if len(payload) > SEGMENT_BYTES // 2:
            # Too much for the log: straight into the database, with all that came before it.
            self._turn(segments)
            self._join()
        else:
            segments.append(payload)
        if self._history is not None:
            self._history.write(told)
        return {key: len(made) for key, made in bodies.items() if made is not None}

    def _turn(self, segments: Segments) -> None:
        """Merge the epoch that ends here into the database, beside the writing of the next."""
        self._join()
        merged, facts = self._merged, {**self._facts, "epoch": str(segments.epoch)}
        self._merged = {}
        self._merger = threading.Thread(target=self._merge_into, args=(merged, facts), daemon=True)
        self._merger.start()
        segments.turn()

    def _join(self) -> None:
        """The file that is written next must have been merged."""
        if self._merger is not None:
            self._merger.join()
        if self._merge_error is not None:
            raise self._merge_error

    def _merge_into(self, merged: Written, facts: dict[str, str]) -> None:
        try:
            with ObjectsDb(self.folder / NAME) as db:
                db.write(merged, facts)
        except Exception as error:
            self._merge_error = error


def _refusal(folder: Path, damages: list[Damage]) -> str:
    parts = "1 part" if len(damages) == 1 else f"{len(damages)} parts"
    lines = [f"{folder}: {parts} of the cluster's state cannot be trusted"]
    lines += [f"  {damage}" for damage in damages[:_MOST_NAMED]]
    if len(damages) > _MOST_NAMED:
        lines.append(f"  and {len(damages) - _MOST_NAMED} more (fairway scrub lists them)")
    lines.append("nothing was changed; fairway up --recover starts without what is named, and keeps a copy")
    return "\n".join(lines)


def _told(hear: Callable[[], None]) -> None:
    """One who stumbles over what he hears must not keep the others, and the writing, waiting."""
    try:
        hear()
    except Exception as failed:
        log.error(
            "somebody who waits for the disk failed: %s: %s", type(failed).__name__, failed, exc_info=failed
        )


def _raise(error: Exception) -> None:
    raise error


def fill(journal: Journal, store: Store) -> None:
    """Write a whole store into a journal nobody serves: a cluster to be taken over from elsewhere."""
    journal.load()
    merged: Written = {
        key_of(obj): msgspec.json.encode(obj) for gk in store.kinds() for obj in store.walk(gk)
    }
    facts = {"format": FORMAT, "version": str(store.version), "serial": str(store.serial)}
    with ObjectsDb(journal.folder / NAME) as db:
        db.write(merged, {**facts, "now_us": str(store.now_us), "seed": str(store.seed)})
