"""A journal that is written for long: files that are full, records too large for any, disks that fail, what is left."""

from __future__ import annotations

import asyncio
import errno
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from fairway.apiserver import journal as journals
from fairway.apiserver import segments
from fairway.apiserver.bodies import Bodies
from fairway.apiserver.inspection import Damage, Inspection, inspect, packed
from fairway.apiserver.journal import Journal
from fairway.apiserver.objectsdb import NAME, ObjectsDb
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj


def config(name: str, text: str = "") -> Obj:
    meta = {"name": name, "namespace": "d"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"t": text}}


class Written:
    """A store and its journal in a running loop."""

    def __init__(self, folder: Path) -> None:
        self.store, self.journal = Store(), Journal(folder, Bodies())
        self.failures: list[Exception] = []
        self.journal.load()
        self.journal.failed = self.failures.append
        self.journal.begin(self.store)

    async def until_durable(self) -> None:
        for _ in range(2000):
            if self.journal.durable == self.store.version or self.failures:
                return
            await asyncio.sleep(0.005)
        raise AssertionError("it never came to the disk")


def names(folder: Path) -> list[str]:
    return sorted(o["metadata"]["name"] for o in Journal(folder, Bodies()).load().objects)


def in_database(folder: Path) -> list[str]:
    with ObjectsDb(folder / NAME) as db:
        return sorted(key.name for key, _, _ in db.rows())


@pytest.mark.parametrize("beyond", [False, True])
def test_what_is_too_much_for_the_log_goes_straight_into_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beyond: bool
) -> None:
    """With all that came before it; half of a file is still for the log."""

    async def story() -> None:
        world = Written(tmp_path)
        world.store.create(config("first"))
        await world.until_durable()
        made = world.store.create(config("large", "x" * 3_000))
        facts = {
            "format": "2",
            "version": str(world.store.version),
            "serial": str(world.store.serial),
            "now_us": str(world.store.now_us),
        }
        size = len(packed({Key("ConfigMap", "d", "large"): Bodies().of(made)}, facts))
        monkeypatch.setattr(journals, "SEGMENT_BYTES", 2 * size - (2 if beyond else 0))
        await world.until_durable()
        monkeypatch.undo()
        # What is in the log alone is not merged while the file has room.
        assert in_database(tmp_path) == (["first", "large"] if beyond else [])
        world.store.create(config("last"))
        world.journal.close()
        assert world.failures == []

    asyncio.run(story())
    assert names(tmp_path) == ["first", "large", "last"]


def test_what_is_left_is_written_before_it_closes(tmp_path: Path) -> None:
    async def story() -> None:
        world = Written(tmp_path)
        # No turn of the loop comes between.
        world.store.create(config("left"))
        world.journal.note("speed", "7")
        world.journal.close()

    asyncio.run(story())
    saved = Journal(tmp_path, Bodies()).load()
    assert [o["metadata"]["name"] for o in saved.objects] == ["left"] and saved.notes["speed"] == "7"


def test_a_file_that_is_full_is_merged_while_the_other_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 6_000)

    async def story() -> None:
        world = Written(tmp_path)
        for number in range(12):
            world.store.create(config(f"c{number:02}", "x" * 1_000))
            await world.until_durable()
        world.store.delete(Key("ConfigMap", "d", "c03"))
        world.store.replace(config("c04", "new"))
        await world.until_durable()
        world.journal.close()
        assert world.failures == []

    asyncio.run(story())
    assert {"c00", "c01", "c02"} <= set(in_database(tmp_path))
    assert names(tmp_path) == [f"c{n:02}" for n in range(12) if n != 3]


def test_a_database_that_fails_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is written over what it should have taken."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 3_000)

    def write(*_given: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async def story() -> None:
        world = Written(tmp_path)
        monkeypatch.setattr(ObjectsDb, "write", write)
        for number in range(9):
            world.store.create(config(f"c{number}", "x" * 1_000))
            await world.until_durable()
        (failure,) = world.failures
        assert isinstance(failure, OSError) and failure.errno == errno.EIO
        monkeypatch.undo()

    asyncio.run(story())
    assert {"c0", "c1", "c2"} <= set(names(tmp_path)), "nothing that was acknowledged is lost"


def test_a_disk_that_is_full_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = Written(tmp_path)
        monkeypatch.setattr(os, "pwrite", lambda _file, data, _at: len(data) - 1)
        world.store.create(config("c"))
        await world.until_durable()
        (failure,) = world.failures
        assert str(failure).startswith("only ") and str(failure).endswith(
            " bytes were written to the journal"
        )
        assert world.journal.durable == 0
        monkeypatch.undo()

    asyncio.run(story())


def test_a_log_of_the_first_format_without_a_database(tmp_path: Path) -> None:
    """Its records have no ends yet, and say so themselves."""
    body = b'{"metadata":{"name":"n","namespace":"d","resourceVersion":"3"}}'
    payload = packed({Key("ConfigMap", "d", "n"): body}, {"format": "1", "version": "3"})
    record = struct.pack("<QII", 1, len(payload), zlib.crc32(payload)) + payload
    (tmp_path / "journal.b").write_bytes(record + record + bytes(300))
    found = inspect(tmp_path)
    assert (found.is_old, found.damages, found.rows, found.records) == (True, [], 1, 2)
    saved = Journal(tmp_path, Bodies()).load()
    assert [o["metadata"]["name"] for o in saved.objects] == ["n"] and saved.version == 3
    again = inspect(tmp_path)
    assert (again.is_old, again.rows, again.facts["format"]) == (False, 1, "2")


def test_what_an_inspection_counts() -> None:
    found = Inspection()
    assert (found.rows, found.records) == (0, 0)
    found.bodies[Key("A", "", "a")] = b"1"
    found.bodies[Key("A", "", "b")] = b"2"
    gap = segments.Gap(1, 0, "torn", b"")
    found.logs += [
        segments.Log("a", 1, [b"x", b"y"], [gap]),
        segments.Log("b", 2, [b"z"], []),
    ]
    assert (found.rows, found.records) == (2, 4)


@pytest.mark.parametrize(
    "count", [1, 2, journals._MOST_NAMED, journals._MOST_NAMED + 1, journals._MOST_NAMED + 7]
)
def test_a_refusal_names_so_many_damages(count: int) -> None:
    damages = [Damage("f", f"row {n}", "why", "lost") for n in range(count)]
    first, *lines, last = journals._refusal(Path("/x"), damages).splitlines()
    parts = "1 part" if count == 1 else f"{count} parts"
    assert first == f"/x: {parts} of the cluster's state cannot be trusted"
    most = journals._MOST_NAMED
    more = [f"  and {count - most} more (fairway scrub lists them)"] if count > most else []
    assert lines == [*(f"  {d}" for d in damages[:most]), *more]
    assert last.startswith("nothing was changed; fairway up --recover")
