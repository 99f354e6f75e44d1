"""What do rules and Alertmanagers of a served cluster remember over a restart?

One file, to which every look appends a record: samples that were scraped and recorded, `ALERTS_FOR_STATE`, and what
was told. A record is its length and a MessagePack; a torn last one is left out. Once an hour of the cluster's time the
file is written anew with what is still needed. It outlives the process that is killed, not the machine that loses
power: it is not synced.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from fairway.telemetry.alertmanager.dispatching import Log, Told
from fairway.telemetry.rules.evaluating import Past
from fairway.telemetry.store import Labels, MemoryStore

log = logging.getLogger("fairway.apiserver")
MOST_BYTES: Final = 64 << 20
"""Of the file: beyond it nothing more is kept until the hour is over."""
_LENGTH: Final = 4
_MOST_RECORD: Final = 16 << 20
Sample = tuple[Labels, float]


class _Record(msgspec.Struct, array_like=True):
    """`names`: labels that are new, in the order of their numbers; `scraped`, `recorded`: number and value."""

    at_ms: int
    names: list[Labels]
    scraped: list[tuple[int, float]]
    recorded: list[tuple[int, float]]
    past: list[tuple[Labels, int, float]]
    told: list[tuple[tuple[str, str, str, int], list[Labels], list[Labels], int]] | None = None
    """None: as before."""


class Kept:
    """The file of one cluster."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._numbers: dict[Labels, int] = {}
        self._bytes = 0
        self._told: Any = None
        self._is_full = False
        self._records: list[_Record] = []

    def load(self, now_ms: int, scraped: MemoryStore, recorded: MemoryStore) -> tuple[Past, Log]:
        """What was kept, into the stores. What is of later than now was never answered for: it is left out."""
        past: dict[Labels, tuple[int, float]] = {}
        told: Log = {}
        names: list[Labels] = []
        for record in self._read():
            names += record.names
            if record.at_ms > now_ms:
                continue
            for pairs, store in ((record.scraped, scraped), (record.recorded, recorded)):
                for number, value in pairs:
                    store.append(names[number], record.at_ms, value)
            past = {labels: (at_ms, since) for labels, at_ms, since in record.past}
            if record.told is not None:
                told = {key: Told(frozenset(a), frozenset(b), at_ms) for key, a, b, at_ms in record.told}
        return past, told

    def keep(
        self, at_ms: int, scraped: Iterable[Sample], recorded: Iterable[Sample], past: Past, told: Log
    ) -> None:
        if self._is_full:
            return
        names: list[Labels] = []
        pairs = [
            [(self._number(labels, names), value) for labels, value in one] for one in (scraped, recorded)
        ]
        listed = [(key, list(t.firing), list(t.resolved), t.at_ms) for key, t in told.items()]
        is_same, self._told = listed == self._told, listed
        rows = [(labels, at, since) for labels, (at, since) in past.items()]
        record = _Record(at_ms, names, pairs[0], pairs[1], rows, None if is_same else listed)
        data = msgspec.msgpack.encode(record)
        if self._bytes + len(data) > MOST_BYTES or len(data) > _MOST_RECORD:
            self._is_full = True
            log.warning("%s: more than %d MiB: nothing more is kept", self._file, MOST_BYTES >> 20)
            return
        self._bytes += len(data) + _LENGTH
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(self._file, "ab") as stream:
                stream.write(len(data).to_bytes(_LENGTH, "big") + data)
        except OSError as failed:
            log.warning("%s: cannot be written: %s", self._file, failed.strerror)

    def forget(self, before_ms: int) -> None:
        """Write anew what is of later."""
        kept = []
        names: list[Labels] = []
        for record in self._read():
            names += record.names
            if record.at_ms >= before_ms:
                pairs = [[(names[n], v) for n, v in one] for one in (record.scraped, record.recorded)]
                kept.append((record, pairs))
        newer = self._file.with_suffix(".new")
        self._numbers, self._bytes, self._is_full, told = {}, 0, False, self._told
        try:
            with open(newer, "wb") as stream:
                for place, (record, pairs) in enumerate(kept):
                    fresh: list[Labels] = []
                    record.scraped, record.recorded = (
                        [(self._number(labels, fresh), value) for labels, value in one] for one in pairs
                    )
                    record.names = fresh
                    if place == len(kept) - 1:
                        record.told = told
                    data = msgspec.msgpack.encode(record)
                    self._bytes += len(data) + _LENGTH
                    stream.write(len(data).to_bytes(_LENGTH, "big") + data)
            os.replace(newer, self._file)
        except OSError as failed:
            log.warning("%s: cannot be written: %s", self._file, failed.strerror)

    def _number(self, labels: Labels, names: list[Labels]) -> int:
        found = self._numbers.get(labels)
        if found is None:
            found = self._numbers[labels] = len(self._numbers)
            names.append(labels)
        return found

    def _read(self) -> Iterator[_Record]:
        """Whole records; from the first that is none on, the file is cut off."""
        self._numbers, self._bytes, read = {}, 0, 0
        if not self._file.is_file():
            return
        with open(self._file, "rb") as stream:
            while len(head := stream.read(_LENGTH)) == _LENGTH:
                length = int.from_bytes(head, "big")
                data = stream.read(length) if length <= _MOST_RECORD else b""
                if len(data) != length:
                    break
                try:
                    record = msgspec.msgpack.decode(data, type=_Record)
                except msgspec.DecodeError:
                    break
                for labels in record.names:
                    self._numbers[labels] = len(self._numbers)
                highest = max((n for one in (record.scraped, record.recorded) for n, _ in one), default=-1)
                if highest >= len(self._numbers):
                    break
                read += _LENGTH + length
                yield record
        self._bytes = read
        if read < self._file.stat().st_size:
            log.warning("%s: what follows byte %d cannot be read: it is left out", self._file, read)
            os.truncate(self._file, read)
