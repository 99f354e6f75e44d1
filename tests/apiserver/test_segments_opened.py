"""A journal's files, byte by byte: filled once, kept when opened again; what is damaged is said where it is."""

from __future__ import annotations

import os
import struct
import sys
import zlib
from pathlib import Path

import pytest

from fairway.apiserver import segments


def test_a_file_is_filled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 64)
    monkeypatch.setattr(segments, "_FILL_BYTES", 16)
    path = tmp_path / "segment"
    os.close(segments._opened(path))
    assert path.read_bytes() == bytes(64) and oct(path.stat().st_mode & 0o777) == "0o600"
    path.write_bytes(b"x" * 64)
    os.close(segments._opened(path))
    assert path.read_bytes() == b"x" * 64
    path.write_bytes(b"x" * 63)
    os.close(segments._opened(path))
    assert path.read_bytes() == bytes(64)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which files are open")
def test_a_new_files_folder_is_on_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a crash of the machine would lose the file's name, and with it the file."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 64)
    monkeypatch.setattr(segments, "_FILL_BYTES", 16)
    synced, fsync = list[str](), os.fsync

    def noted(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))
        fsync(file)

    monkeypatch.setattr(os, "fsync", noted)
    before = len(os.listdir("/proc/self/fd"))
    file = segments._opened(tmp_path / "segment")
    assert synced == [str(tmp_path / "segment"), str(tmp_path)]
    os.close(file)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(segments._opened(tmp_path / "segment"))
    assert len(synced) == 2, "one that is there has been"


# Records: what is read where one of three is damaged


def record(epoch: int, at: int, payload: bytes) -> bytes:
    """Header, payload and trailer, written without the writer."""
    head = struct.pack("<QII", epoch, len(payload), zlib.crc32(payload))
    said = struct.pack("<QII", epoch, at, len(payload))
    return head + payload + said + struct.pack("<I", zlib.crc32(said))


PAYLOADS = (b"{one}", b"{two!}", b"{three}")
AROUND = 16 + 20


def whole(epoch: int = 7) -> tuple[bytearray, list[int]]:
    """The bytes of a file, and where each record begins."""
    data, starts = bytearray(), []
    for payload in PAYLOADS:
        starts.append(len(data))
        data += record(epoch, len(data), payload)
    return data + bytes(100), starts


def test_what_is_whole_is_read_to_its_end() -> None:
    data, _ = whole()
    log = segments._read(bytes(data), "f", 7, True)
    assert (log.file, log.epoch, log.payloads, log.gaps) == ("f", 7, list(PAYLOADS), [])
    assert log.end == sum(AROUND + len(p) for p in PAYLOADS)
    assert segments._read(bytes(data), "f", 8, True).payloads == []
    full = bytes(data[:-100])
    assert segments._read(full, "f", 7, True).payloads == list(PAYLOADS), "up to the last byte"
    assert segments._read(full[:-1], "f", 7, True).payloads == list(PAYLOADS)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(
    ("offset", "why"),
    [
        (0, "its epoch reads 6 instead of 7"),
        (8, "its length reads {0} instead of {1}"),
        (12, "its checksum does not match"),
        (16, "its checksum does not match"),
    ],
)
def test_a_damaged_record_is_a_gap_and_the_others_are_read(number: int, offset: int, why: str) -> None:
    data, starts = whole()
    data[starts[number] + offset] ^= 1
    log = segments._read(bytes(data), "f", 7, True)
    payload = PAYLOADS[number]
    length = len(payload)
    (gap,) = log.gaps
    assert (gap.number, gap.at) == (number + 1, starts[number])
    assert gap.why == why.format(length ^ 1, length)
    assert gap.payload == (payload if offset < 16 else bytes([payload[0] ^ 1]) + payload[1:])
    assert log.payloads == [p for p in PAYLOADS if p != payload]
    assert log.end == len(data) - 100


@pytest.mark.parametrize("at", range(20))
def test_a_damaged_trailer_alone_loses_nothing(at: int) -> None:
    data, starts = whole()
    data[starts[1] - 20 + at] ^= 1
    log = segments._read(bytes(data), "f", 7, True)
    assert (log.payloads, log.gaps) == (list(PAYLOADS), [])


def test_where_a_record_and_its_trailer_are_damaged_the_next_one_is_found() -> None:
    data, starts = whole()
    data[20] ^= 1
    data[starts[1] - 1] ^= 1
    log = segments._read(bytes(data), "f", 7, True)
    assert log.payloads == list(PAYLOADS[1:])
    (gap,) = log.gaps
    assert (gap.number, gap.at, gap.payload) == (1, 0, b"")
    assert gap.why == f"nothing up to byte {starts[1]:,} can be read"


def test_a_last_record_without_its_trailer_was_being_written() -> None:
    for cut in (1, 20, 21, 30):
        data, starts = whole()
        end = len(data) - 100
        log = segments._read(bytes(data[: end - cut]) + bytes(100 + cut), "f", 7, True)
        if cut <= 20:
            assert (log.payloads, log.gaps) == (list(PAYLOADS), []), "all of what it says is there"
        else:
            assert (log.payloads, log.gaps, log.end) == (list(PAYLOADS[:2]), [], starts[2])


def test_what_an_older_turn_left_is_not_read() -> None:
    data, _ = whole(5)
    newer = record(7, 0, b"{new}")
    data[: len(newer)] = newer
    log = segments._read(bytes(data), "f", 7, True)
    assert (log.payloads, log.gaps) == ([b"{new}"], [])


def test_a_file_of_the_first_format_ends_where_it_cannot_be_read() -> None:
    bare = b"".join(struct.pack("<QII", 7, len(p), zlib.crc32(p)) + p for p in PAYLOADS)
    log = segments._read(bare + bytes(50), "f", 7, False)
    assert (log.payloads, log.gaps, log.end) == (list(PAYLOADS), [], len(bare))
    damaged = bytearray(bare)
    damaged[16 + len(PAYLOADS[0]) + 16] ^= 1
    log = segments._read(bytes(damaged), "f", 7, False)
    assert (log.payloads, log.gaps) == ([PAYLOADS[0]], [])


def test_files_of_epochs_that_do_not_follow_are_stray(tmp_path: Path) -> None:
    for name, epoch in (("journal.a", 6), ("journal.b", 9)):
        (tmp_path / name).write_bytes(record(epoch, 0, b"{x}") + bytes(40))
    assert segments.stray(tmp_path, 3) == [("journal.a", 6), ("journal.b", 9)]
    assert segments.stray(tmp_path, 4) == [("journal.b", 9)]
    assert segments.stray(tmp_path, 7) == []
    (tmp_path / "journal.b").write_bytes(b"x" * 15)
    assert segments.stray(tmp_path, 3) == [("journal.a", 6)]
    (tmp_path / "journal.a").write_bytes(record(6, 0, b"{x}")[:18])
    assert segments.stray(tmp_path, 3) == []
    assert segments.read(tmp_path, 5) == []


def test_two_epochs_are_read_the_older_first(tmp_path: Path) -> None:
    for name, epoch in (("journal.a", 6), ("journal.b", 5)):
        first = record(epoch, 0, b"{%d}" % epoch)
        (tmp_path / name).write_bytes(first + record(epoch, len(first), b"{}"))
    assert [(log.epoch, log.payloads) for log in segments.read(tmp_path, 4)] == [
        (5, [b"{5}", b"{}"]),
        (6, [b"{6}", b"{}"]),
    ]
    assert [log.epoch for log in segments.read(tmp_path, 5)] == [6]
    (tmp_path / "journal.b").unlink()
    assert [log.epoch for log in segments.read(tmp_path, 4)] == [6]
