"""A disk that does not keep what it was given: nothing is passed over, and recovery says exactly what it drops."""

from __future__ import annotations

import random
import sqlite3
import struct
import zlib
from pathlib import Path

import msgspec
import pytest
from apiserver_serving import CONFIG_MAPS, config_map, served

from fairway.apiserver.bodies import Bodies
from fairway.apiserver.inspection import KEPT_FOLDER, _lost, inspect, packed, unpacked
from fairway.apiserver.journal import Journal
from fairway.apiserver.objectsdb import NAME, ObjectsDb, checksum, number
from fairway.apiserver.segments import AROUND_BYTES, Gap, Segments
from fairway.cli.main import main
from fairway.errors import WorldError
from fairway.kube.objects import Key

LOG = "journal.a"
FACTS = {"format": "2", "serial": "20", "now_us": "1", "seed": "7"}


def key(name: str) -> Key:
    return Key("ConfigMap", "default", name)


def body(name: str, version: int) -> bytes:
    meta = {"name": name, "namespace": "default", "resourceVersion": str(version), "uid": name}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six objects in the database, and three records in the log: each makes one object and deletes one. Behind them
    stands what an older turn left."""
    with ObjectsDb(tmp_path / NAME) as db:
        old = {key(f"d{i}"): body(f"d{i}", i) for i in range(6)}
        db.write(dict(old), {**FACTS, "version": "6", "epoch": "1"})
    log = Segments(tmp_path, 0)
    for i in range(6):
        log.append(packed({key(f"stale{i}"): body("stale", 1)}, FACTS))
    log.turn()
    log.turn()
    for i in range(3):
        bodies = {key(f"n{i}"): body(f"n{i}", 10 + i), key(f"d{i}"): None}
        log.append(packed(bodies, {**FACTS, "version": str(10 + i)}))
    end = log._at
    log.close()
    # Files of the usual 16 MiB would only make this slow.
    (tmp_path / LOG).write_bytes((tmp_path / LOG).read_bytes()[: end + 200])
    (tmp_path / "journal.b").unlink()
    return tmp_path


def names(folder: Path) -> set[str]:
    return {k.name for k in inspect(folder).bodies}


def starts_of(folder: Path) -> list[int]:
    """Where the log's records begin."""
    starts = [0]
    for payload in inspect(folder).logs[0].payloads:
        starts.append(starts[-1] + AROUND_BYTES + len(payload))
    return starts


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("count", "want"),
    [
        (0, "the writes of no object"),
        (1, "the writes of ConfigMap default/n0"),
        (5, "the writes of " + ", ".join(f"ConfigMap default/n{i}" for i in range(5))),
        (6, "the writes of " + ", ".join(f"ConfigMap default/n{i}" for i in range(5)) + " and 1 more"),
        (9, "the writes of " + ", ".join(f"ConfigMap default/n{i}" for i in range(5)) + " and 4 more"),
    ],
)
def test_which_writes_a_record_held(count: int, want: str) -> None:
    payload = packed({key(f"n{i}"): b"{}" if i % 2 else None for i in range(count)}, FACTS)
    assert _lost(Gap(1, 0, "torn", payload)) == want
    assert _lost(Gap(1, 0, "torn", payload[:9])) == "the writes in it, which cannot be named"
    assert _lost(Gap(1, 0, "torn", b"")) == "the writes in it, which cannot be named"


def test_a_record_is_read_as_it_was_packed() -> None:
    bodies: Bodies = {key("a"): b"{1}\n", key("b"): None, key("c"): b"", Key("Node", "", "n"): b"{2}"}
    assert unpacked(packed(bodies, FACTS)) == (FACTS, bodies)
    assert unpacked(packed({}, {})) == ({}, {})


def test_rows_are_counted_and_summed(tmp_path: Path) -> None:
    """What is written again counts once, what goes not at all; of rows that nobody counted the tally says nothing."""
    with ObjectsDb(tmp_path / NAME) as db:
        assert db.tally() == (0, 0)
        db.write({key("a"): b"1", key("b"): b"2"}, {})
        a, b, c = checksum(key("a"), b"1"), checksum(key("b"), b"2"), checksum(key("a"), b"3")
        assert db.tally() == (2, a + b)
        db.write({key("a"): b"3", key("none"): None}, {"port": "1"})
        assert db.tally() == (2, c + b)
        db.write({key("b"): None}, {})
        assert db.tally() == (1, c)
        assert [(k.name, body, crc) for k, body, crc in db.rows()] == [("a", b"3", c)]
        assert db.facts() == {"port": "1"} and db.are_facts_whole()


@pytest.mark.parametrize(("text", "want"), [("0", 0), ("17", 17), ("", 0), ("x", 0), ("-1", 0), ("²", 0)])
def test_a_count_that_is_damaged_is_none(text: str, want: int) -> None:
    assert number(text) == want


def test_what_is_whole_is_read(folder: Path) -> None:
    found = inspect(folder)
    assert found.damages == []
    assert names(folder) == {"d3", "d4", "d5", "n0", "n1", "n2"}


# Which record, which byte of it, what is said.
PLACES: dict[str, tuple[int, int, str]] = {
    "the first epoch": (
        0,
        0,
        "record 1 at byte 0: its epoch reads 3 instead of 2; the writes of ConfigMap default/n0",
    ),
    "a length": (1, 8, "its length reads"),
    "a checksum": (
        1,
        12,
        "record 2 at byte {1}: its checksum does not match; the writes of ConfigMap default/n1",
    ),
    "a payload": (1, 60, "record 2 at byte {1}: its checksum does not match"),
    "the last payload": (2, 60, "record 3 at byte {2}: its checksum does not match"),
    "the last epoch": (2, 0, "record 3 at byte {2}: its epoch reads 3 instead of 2"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_flipped_bit_is_named_with_its_record_and_byte(folder: Path, name: str) -> None:
    record, offset, want = PLACES[name]
    starts = starts_of(folder)
    flip(folder / LOG, starts[record] + offset)
    with pytest.raises(WorldError) as refused:
        Journal(folder, Bodies()).load()
    assert want.format(*starts) in str(refused.value)
    assert f"{LOG}: record {record + 1} at byte {starts[record]:,}" in str(refused.value)
    assert "fairway up --recover" in str(refused.value)


def test_all_that_is_damaged_is_counted_and_named(folder: Path) -> None:
    def said() -> list[str]:
        with pytest.raises(WorldError) as refused:
            Journal(folder, Bodies()).load()
        return str(refused.value).split("\n")

    starts = starts_of(folder)
    flip(folder / LOG, starts[1] + 60)
    one = said()
    assert one[0] == f"{folder}: 1 part of the cluster's state cannot be trusted"
    flip(folder / LOG, starts[2] + 60)
    two = said()
    assert two[0] == f"{folder}: 2 parts of the cluster's state cannot be trusted"
    assert two[1:2] == one[1:2] and two[3:] == one[2:]


def test_a_bit_flipped_at_every_byte_of_the_log_loses_nothing_without_a_word(folder: Path) -> None:
    good = inspect(folder)
    data = (folder / LOG).read_bytes()
    for at in range(len(data)):
        flip(folder / LOG, at, random.Random(at).randrange(8))
        found = inspect(folder)
        assert found.damages or (found.bodies, found.facts) == (good.bodies, good.facts), at
        (folder / LOG).write_bytes(data)


def test_nor_at_any_byte_of_the_database(folder: Path) -> None:
    good = inspect(folder)
    data = (folder / NAME).read_bytes()
    used = [at for at in range(len(data)) if data[at]]
    for at in random.Random(5).sample(used, 300):
        flip(folder / NAME, at, random.Random(at).randrange(8))
        found = inspect(folder)
        assert found.damages or (found.bodies, found.facts) == (good.bodies, good.facts), at
        (folder / NAME).write_bytes(data)
        (folder / f"{NAME}-journal").unlink(missing_ok=True)


def test_a_row_that_vanished_or_changed_is_noticed(folder: Path) -> None:
    db = sqlite3.connect(folder / NAME)
    db.execute("UPDATE objects SET body = ? WHERE name = 'd4'", (body("d4", 99),))
    db.execute("DELETE FROM objects WHERE name = 'd5'")
    db.commit()
    db.close()
    said = [str(d) for d in inspect(folder).damages]
    assert any("row 5 (ConfigMap default/d4): its checksum does not match; this object" in d for d in said)
    assert any("holds 5 of 6 rows; 1 objects that cannot be named" in d for d in said)


def test_a_record_that_was_being_written_is_left_out(folder: Path) -> None:
    data = (folder / LOG).read_bytes()
    last = starts_of(folder)[2]
    for kept in (4, 40, 100):
        (folder / LOG).write_bytes(data[: last + kept] + bytes(len(data) - last - kept))
        found = inspect(folder)
        assert found.damages == []
        assert "n1" in names(folder)
        assert "n2" not in names(folder)


def test_a_log_that_the_database_is_too_old_for_is_noticed(folder: Path) -> None:
    (folder / NAME).unlink()
    log = Segments(folder, 6)
    log.append(packed({key("x"): body("x", 30)}, FACTS))
    log.close()
    assert "is of epoch 6, and objects.db ends with epoch 0" in str(inspect(folder).damages[0])


def test_recovery_says_what_it_drops_and_keeps_the_rest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = starts_of(folder)
    flip(folder / LOG, starts[1] + 50)
    assert main(["scrub", "--data", str(folder)]) == 1
    assert f"record 2 at byte {starts[1]}" in capsys.readouterr().out
    from fairway.apiserver.inspection import recover

    dropped = recover(folder)
    assert [d.where for d in dropped] == [f"record 2 at byte {starts[1]}"]
    # The record made n1 and deleted d1: n1 is gone, d1 is back, and nothing else differs.
    assert names(folder) == {"d1", "d3", "d4", "d5", "n0", "n2"}
    assert (folder / KEPT_FOLDER / LOG).exists()
    assert main(["scrub", "--data", str(folder)]) == 0
    assert "all of it is as it was written" in capsys.readouterr().out
    saved = Journal(folder, Bodies()).load()
    assert (saved.version, saved.serial) == (12, 20)


def test_a_database_that_cannot_be_read_gives_up_only_itself(folder: Path) -> None:
    (folder / NAME).write_bytes(b"not a database" * 1000)
    from fairway.apiserver.inspection import recover

    assert "cannot be read" in str(recover(folder)[0])
    assert inspect(folder).damages == []


def test_a_server_goes_on_after_recovery(tmp_path: Path) -> None:
    with served(tmp_path) as api:
        for name in ("a", "b", "c"):
            assert api.ask("POST", CONFIG_MAPS, config_map(name))[0] == 201
    data = (tmp_path / LOG).read_bytes(), (tmp_path / "journal.b").read_bytes()
    name = LOG if data[0][0] == 2 or b'"name":"b"' in data[0] else "journal.b"
    raw = (tmp_path / name).read_bytes()
    flip(tmp_path / name, raw.index(b'"name":"b"'))
    with pytest.raises(WorldError, match="ConfigMap default/b"), served(tmp_path):
        pass
    from fairway.apiserver.inspection import recover

    assert len(recover(tmp_path)) == 1
    with served(tmp_path) as api:
        there = [o["metadata"]["name"] for o in api.ask("GET", CONFIG_MAPS)[1]["items"]]
        assert {"a", "c"} <= set(there)
        assert "b" not in there


def test_a_folder_of_the_first_format_is_read_and_carried_over(tmp_path: Path) -> None:
    """Rows without checksums, records without their ends; what is torn ends the log, as it did then."""
    db = sqlite3.connect(tmp_path / NAME)
    db.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
    db.execute(
        "CREATE TABLE objects (gk TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,"
        " UNIQUE (gk, namespace, name))"
    )
    facts = {**FACTS, "format": "1", "version": "6", "epoch": "1"}
    db.executemany("INSERT INTO meta VALUES (?, ?)", list(facts.items()))
    db.execute("INSERT INTO objects VALUES ('ConfigMap', 'default', 'old', ?)", (body("old", 5),))
    db.commit()
    db.close()
    log = b""
    for i in range(2):
        payload = packed(
            {key(f"n{i}"): body(f"n{i}", 10 + i)}, {**FACTS, "format": "1", "version": str(10 + i)}
        )
        log += struct.pack("<QII", 2, len(payload), zlib.crc32(payload)) + payload
    (tmp_path / LOG).write_bytes(log + bytes(500))
    saved = Journal(tmp_path, Bodies()).load()
    assert [o["metadata"]["name"] for o in saved.objects] == ["old", "n0", "n1"]
    found = inspect(tmp_path)
    assert (found.damages, found.facts["format"], found.is_old) == ([], "2", False)
    assert names(tmp_path) == {"old", "n0", "n1"}
