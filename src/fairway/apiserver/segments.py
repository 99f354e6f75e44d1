"""The log that is written at every commit: two files of fixed size, written in turns.

Syncing a file that grows waits for the file system's own journal (measured: 4 ms and more on a busy disk); syncing
bytes inside a file that is already that long does not (0.1 ms). So both files are made full of zeros once and
overwritten from the start again and again. Every record carries the *epoch* it was written in and a checksum: a
reader takes records of one epoch in order and stops at the first that is older, torn or absent.

    record = epoch (8 bytes), length (4), CRC-32 of the payload (4), payload
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

SEGMENT_BYTES = 16 * 1024 * 1024
_HEADER = struct.Struct("<QII")
_NAMES = ("journal.a", "journal.b")
_FILL = bytes(1024 * 1024)


class Segments:
    """The two files. `epoch` is the one being written; its parity says into which file."""

    def __init__(self, folder: Path, epoch: int) -> None:
        self.epoch = epoch
        self._files = [_opened(folder / name) for name in _NAMES]
        self._at = 0

    def has_room(self, payload_bytes: int) -> bool:
        return self._at + _HEADER.size + payload_bytes <= SEGMENT_BYTES

    def append(self, payload: bytes) -> None:
        """On disk when this returns. Raises: OSError."""
        record = _HEADER.pack(self.epoch, len(payload), zlib.crc32(payload)) + payload
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


def _opened(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if os.fstat(file).st_size < SEGMENT_BYTES:
        for at in range(0, SEGMENT_BYTES, len(_FILL)):
            os.pwrite(file, _FILL, at)
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


def recovered(folder: Path, applied: int) -> list[tuple[int, list[bytes]]]:
    """What was written after epoch `applied`: `(epoch, payloads in order)`, oldest first."""
    found = []
    for name in _NAMES:
        path = folder / name
        if path.exists():
            data = path.read_bytes()
            epoch, payloads = _read(data)
            if payloads and epoch > applied:
                found.append((epoch, payloads))
    return sorted(found)


def _read(data: bytes) -> tuple[int, list[bytes]]:
    if len(data) < _HEADER.size:
        return 0, []
    epoch = _HEADER.unpack_from(data, 0)[0]
    return epoch, list(_records(data, epoch))


def _records(data: bytes, epoch: int) -> Iterator[bytes]:
    at = 0
    while at + _HEADER.size <= len(data):
        of, length, checksum = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        payload = data[at : at + length]
        if of != epoch or not length or len(payload) != length or zlib.crc32(payload) != checksum:
            return
        yield payload
        at += length
