"""The log that is written at every commit: two files of fixed size, written in turns.

Syncing a file that grows waits for the file system's own journal (measured: 4 ms and more on a busy disk); syncing
bytes inside a file that is already that long does not (0.1 ms). So both files are made full of zeros once and
overwritten from the start again and again. Every record carries the *epoch* it was written in, a checksum, and at its
end where it began: whatever of it is damaged, the rest says that it was there.

    record  = epoch (8 bytes), length (4), CRC-32 of the payload (4), payload, trailer
    trailer = epoch (8), offset of the record (4), length (4), CRC-32 of those (4)

A record without its trailer, behind which there is nothing more of the epoch, was being written when the process ended:
nobody heard that it was done, and it is left out without a word. Anything else that does not fit is damage.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

SEGMENT_BYTES = 16 * 1024 * 1024
NAMES = ("journal.a", "journal.b")
_HEADER = struct.Struct("<QII")
_TRAILED = struct.Struct("<QII")
_TRAILER = struct.Struct("<QIII")
AROUND_BYTES = _HEADER.size + _TRAILER.size
_FILL_BYTES = 1024 * 1024


class Segments:
    """The two files. `epoch` is the one being written; its parity says into which file."""

    def __init__(self, folder: Path, epoch: int) -> None:
        self.epoch = epoch
        self._files = [_opened(folder / name) for name in NAMES]
        self._at = 0

    def has_room(self, payload_bytes: int) -> bool:
        return self._at + AROUND_BYTES + payload_bytes <= SEGMENT_BYTES

    def append(self, payload: bytes) -> None:
        """On disk when this returns. Raises: OSError."""
        record = b"".join(
            (
                _HEADER.pack(self.epoch, len(payload), zlib.crc32(payload)),
                payload,
                _trailer(self.epoch, self._at, len(payload)),
            )
        )
        file = self._files[self.epoch % 2]
        written = os.pwrite(file, record, self._at)
        if written != len(record):
            raise OSError(f"only {written} of {len(record)} bytes were written to the journal")
        os.fdatasync(file)
        self._at += len(record)

    def turn(self) -> None:
        """Go on in the other file, whose records must be elsewhere by now."""
        self.epoch += 1
        self._at = 0

    def close(self) -> None:
        for file in self._files:
            os.close(file)


def _trailer(epoch: int, at: int, length: int) -> bytes:
    said = _TRAILED.pack(epoch, at, length)
    return said + struct.pack("<I", zlib.crc32(said))


def _opened(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if os.fstat(file).st_size < SEGMENT_BYTES:
        for at in range(0, SEGMENT_BYTES, _FILL_BYTES):
            os.pwrite(file, bytes(_FILL_BYTES), at)
        os.fsync(file)
        _sync_folder(path.parent)
    return file


def _sync_folder(folder: Path) -> None:
    """A new file is only there after a crash of the machine if its folder was written, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Reading


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of a log that cannot be trusted. `number`: of the record, from 1; `payload`: what stands where it was."""

    number: int
    at: int
    why: str
    payload: bytes = b""


@dataclass(slots=True)
class Log:
    """What one file holds of one epoch: payloads in order, and what is damaged between them."""

    file: str
    epoch: int
    payloads: list[bytes] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    end: int = 0


def read(folder: Path, applied: int, *, has_trailers: bool = True) -> list[Log]:
    """What was written after epoch `applied`, oldest first: one epoch being merged, and one being written.

    `has_trailers`: not so before format 2, where the first record that is not whole ends the log.
    """
    found = []
    for epoch in (applied + 1, applied + 2):
        name = NAMES[epoch % 2]
        if (folder / name).exists():
            log = _read((folder / name).read_bytes(), name, epoch, has_trailers)
            if log.payloads or log.gaps:
                found.append(log)
    return found


def stray(folder: Path, applied: int) -> list[tuple[str, int]]:
    """Files whose first record is of an epoch that the database is too old for: `(name, epoch)`."""
    found = []
    for name in NAMES:
        if (folder / name).exists():
            with open(folder / name, "rb") as file:
                head = file.read(SEGMENT_BYTES)
            epoch = _HEADER.unpack_from(head)[0] if len(head) >= _HEADER.size else 0
            if epoch > applied + 2 and _payload_at(head, 0, epoch) is not None:
                found.append((name, epoch))
    return found


def _read(data: bytes, name: str, epoch: int, has_trailers: bool) -> Log:
    log = Log(name, epoch)
    around = AROUND_BYTES if has_trailers else _HEADER.size
    at = number = 0
    while True:
        number += 1
        payload = _payload_at(data, at, epoch)
        if payload is not None:
            log.payloads.append(payload)
            at += around + len(payload)
            continue
        found = _next_trailer(data, at, epoch) if has_trailers else None
        if found is None:
            log.end = at
            return log
        start, length = found
        if start == at:
            log.gaps.append(Gap(number, at, _why(data, at, epoch, length), _payload_of(data, at, length)))
            at += around + length
        else:
            log.gaps.append(Gap(number, at, f"nothing up to byte {start:,} can be read"))
            at = start


def _payload_at(data: bytes, at: int, epoch: int) -> bytes | None:
    """The payload of a whole record of this epoch; None where there is none."""
    if at + _HEADER.size > len(data):
        return None
    of, length, checksum = _HEADER.unpack_from(data, at)
    payload = _payload_of(data, at, length)
    if of != epoch or not length or len(payload) != length or zlib.crc32(payload) != checksum:
        return None
    return payload


def _payload_of(data: bytes, at: int, length: int) -> bytes:
    return data[at + _HEADER.size : at + _HEADER.size + length]


def _next_trailer(data: bytes, at: int, epoch: int) -> tuple[int, int] | None:
    """Offset and length of the first record from here on whose trailer is whole. JSON holds no byte 0, and so
    nothing that looks like one."""
    mark = struct.pack("<Q", epoch)
    place = data.find(mark, at)
    while place >= 0:
        if place + _TRAILER.size <= len(data):
            _, start, length, checksum = _TRAILER.unpack_from(data, place)
            is_whole = zlib.crc32(data[place : place + _TRAILED.size]) == checksum
            if is_whole and start >= at and start + _HEADER.size + length == place:
                return start, length
        place = data.find(mark, place + 1)
    return None


def _why(data: bytes, at: int, epoch: int, length: int) -> str:
    of, said, _ = _HEADER.unpack_from(data, at)
    if of != epoch:
        return f"its epoch reads {of} instead of {epoch}"
    if said != length:
        return f"its length reads {said} instead of {length}"
    return "its checksum does not match"
