"""One object that no reader can make anything of is left out of a cluster's history, and nothing else."""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from typing import Any

import pytest

from fairway.apiserver.history import Entry, History, There
from fairway.apiserver.historyfiles import ADD, FOLDER, FRAME_BYTES, HEADER, MAGIC, Reading, contents, lines
from fairway.cluster.changes import ADDED
from fairway.kube.objects import Key


@pytest.mark.parametrize(
    "odd", [{"source": "kubelet"}, {"series": [3]}, {"reason": "Preempted", "involvedObject": "pod"}]
)
def test_an_odd_event_is_left_out_alone(odd: dict[str, Any], tmp_path: Path) -> None:
    event = {"metadata": {"name": "e", "namespace": "d"}, "type": "Normal", **odd}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "d"}, "spec": {}}
    history = History(tmp_path)
    told = [
        There(0, []),
        Entry(1, 5, ADDED, Key("Event", "d", "e"), event, None, None),
        Entry(2, 6, ADDED, Key("Job.batch", "d", "j"), job, None, None),
    ]
    history.write(told)
    history.write([Entry(3, 7, ADDED, Key("Job.batch", "d", "k"), job, None, None)])
    history.close()
    reading = Reading()
    found = [line for line in lines(contents(tmp_path / FOLDER), reading) if line[0] == ADD]
    assert [line[1] for line in found] == [6, 7] and not reading.notes


# A file, frame by frame


def file_of(*frames: bytes, head: bytes = MAGIC) -> bytes:
    """Each frame a line or several, in one stream."""
    packer, data = zlib.compressobj(), head
    for text in frames:
        chunk = packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)
        data += HEADER.pack(len(chunk), zlib.crc32(chunk)) + chunk
    return data


FIRST, SECOND = b'["had",1]\n', b'["-",2,["Pod","d","p"]]\n["-",3,["Pod","d","q"]]\n'
BOTH = [["had", 1], ["-", 2, ["Pod", "d", "p"]], ["-", 3, ["Pod", "d", "q"]]]
WHOLE, ONE = file_of(FIRST, SECOND), len(file_of(FIRST))
DAMAGED = "history/00000007.log is damaged at byte {:,}: {}; what follows in this file is lost"
FILES: dict[str, tuple[bytes, list[Any], str]] = {
    "whole": (WHOLE, BOTH, ""),
    "nothing yet": (MAGIC, [], ""),
    "a part of its first bytes": (MAGIC[:5], [], ""),
    "empty": (b"", [], ""),
    "another version": (
        b"fairway history 2\n" + WHOLE[len(MAGIC) :],
        [],
        "history/00000007.log is no history of this version: left out",
    ),
    "a part of a header": (WHOLE[: ONE + HEADER.size - 1], BOTH[:1], ""),
    "a header alone": (WHOLE[: ONE + HEADER.size], BOTH[:1], ""),
    "without its last byte": (WHOLE[:-1], BOTH[:1], ""),
    "a length beyond its end": (
        WHOLE[:ONE] + HEADER.pack(1 << 30, 0) + WHOLE[ONE + HEADER.size :],
        BOTH[:1],
        "",
    ),
    "another byte": (
        WHOLE[:-1] + bytes((WHOLE[-1] ^ 1,)),
        BOTH[:1],
        DAMAGED.format(ONE, "its checksum does not match"),
    ),
    "a line that is no list": (
        file_of(FIRST, b'{"a":1}\n', SECOND),
        BOTH[:1],
        DAMAGED.format(ONE, "a line is no list"),
    ),
    "a list of nothing": (file_of(FIRST, b"[]\n"), BOTH[:1], DAMAGED.format(ONE, "a line is no list")),
    "more than a server writes": (
        file_of(FIRST, b'["' + b"x" * 100_000 + b'"]\n'),
        BOTH[:1],
        DAMAGED.format(ONE, "it unpacks to more than any server writes"),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_believed_as_far_as_it_goes(name: str) -> None:
    data, want, note = FILES[name]
    reading = Reading()
    more = ("00000009.log", WHOLE)
    assert list(lines([("00000007.log", data), more], reading)) == [*want, *BOTH], "the next one counts again"
    assert reading.notes == ([note] if note else [])
    assert (reading.files, reading.first) == (2, 7)


def test_a_frame_unpacks_to_so_much() -> None:
    noise = random.Random(1).randbytes(40_000).hex().encode()
    for size, is_read in ((FRAME_BYTES, True), (FRAME_BYTES + 1, False)):
        text = b'["' + noise + b"x" * (size - 5 - len(noise)) + b'"]\n'
        assert len(text) == size
        reading = Reading()
        found = list(lines([("1.log", file_of(text))], reading))
        assert (len(found), len(reading.notes)) == ((1, 0) if is_read else (0, 1))
