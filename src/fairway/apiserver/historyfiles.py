"""The files of a served cluster's history: what each says, and how far it can be believed.

    history/00000001.log, 00000002.log, …   oldest first; the server drops the oldest (see `history`)

    file  = MAGIC, frames of one zlib stream
    frame = length (4 bytes), CRC-32 (4), that much of the stream, which ends on a whole line

A line is a JSON array. A file begins with all that was there (`have` lines, then `had`) and goes on with what changed:
whoever reads one file alone knows the cluster from there on, and whatever is missing before it, or lost at its end, is
made good by the next.

    ["have", object]  ["had", µs, rest]                   what is left out of objects: see `history`
    ["+", µs, object, launched µs or null]  ["~", µs, [kind, namespace, name], {part: value}]  ["-", µs, [kind, …]]
    ["said", µs, component, type, reason, times]          events, counted
    ["preempted", µs, namespace, name, message]

A frame that is not whole at the end of a file was being written when the process was killed: it is left out without a
word. Anything else that does not fit is damage, and said.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

FOLDER: Final = "history"
MAGIC: Final = b"fairway history 1\n"
HAVE, HAD, ADD, CHANGE, DROP, SAID, PREEMPTED = "have", "had", "+", "~", "-", "said", "preempted"
HEADER: Final = struct.Struct("<II")
# Unpacked, a frame of ours is at most this long: what is longer was not written by a server.
FRAME_BYTES: Final = 4 * 1024 * 1024
# A file of ours unpacks to thirty times its size at most (measured: 8 to 25 times).
_MOST_TIMES: Final = 200
_SUFFIX: Final = ".log"

Line = list[Any]


@dataclass(slots=True)
class Reading:
    """What was read, as far as it could be. `notes`: what could not, as sentences."""

    notes: list[str] = field(default_factory=list)
    files: int = 0
    first: int = 0
    """The number of the oldest file; more than 1: older ones were dropped."""


def named(folder: Path) -> list[Path]:
    """The files, oldest first. A name that is no number is none of ours."""
    found = [p for p in folder.glob(f"*{_SUFFIX}") if p.stem.isascii() and p.stem.isdigit() and p.is_file()]
    return sorted(found, key=number_of)


def number_of(path: Path) -> int:
    return int(path.stem)


def file_name(number: int) -> str:
    return f"{number:08}{_SUFFIX}"


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every file, oldest first. One that is dropped meanwhile was too old."""
    for path in named(folder):
        try:
            yield path.name, path.read_bytes()
        except OSError:
            continue


def lines(files: Iterable[tuple[str, bytes]], reading: Reading) -> Iterator[Line]:
    """Every line that can be believed, in order."""
    for name, data in files:
        reading.files += 1
        reading.first = reading.first or int(Path(name).stem)
        if not data.startswith(MAGIC):
            # The process was killed before it had written its first bytes.
            if not MAGIC.startswith(data):
                reading.notes.append(f"{FOLDER}/{name} is no history of this version: left out")
            continue
        yield from _lines_of(name, data, reading)


def _lines_of(name: str, data: bytes, reading: Reading) -> Iterator[Line]:
    unpacker, at, total = zlib.decompressobj(), len(MAGIC), 0
    while at + HEADER.size <= len(data):
        length, checksum = HEADER.unpack_from(data, at)
        chunk = data[at + HEADER.size : at + HEADER.size + length]
        if len(chunk) < length:
            # The last frame was not written to its end; or its length is damaged, which reads the same.
            return
        try:
            if zlib.crc32(chunk) != checksum:
                raise ValueError("its checksum does not match")
            text = unpacker.decompress(chunk, FRAME_BYTES)
            total += len(text)
            if unpacker.unconsumed_tail or total > _MOST_TIMES * len(data):
                raise ValueError("it unpacks to more than any server writes")
            found = [_line(part) for part in text.splitlines()]
        except (ValueError, zlib.error, RecursionError) as wrong:
            lost = "what follows in this file is lost"
            reading.notes.append(f"{FOLDER}/{name} is damaged at byte {at:,}: {wrong}; {lost}")
            return
        yield from found
        at += HEADER.size + length


def _line(text: bytes) -> Line:
    """Raises: ValueError."""
    found = msgspec.json.decode(text)
    if not isinstance(found, list) or not found:
        raise ValueError("a line is no list")
    return found
