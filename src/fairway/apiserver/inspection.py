"""What does a data folder hold, and is all of it as it was written?

Both halves of the journal are read and checked: the database's rows and facts, then the records of the log that are
newer. Damage is data here: `journal` refuses to start over it, `fairway up --recover` drops it and says what it
dropped, `fairway scrub` prints it.
"""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from fairway.apiserver import objectsdb, segments
from fairway.apiserver.folders import is_taken
from fairway.apiserver.objectsdb import Bodies, ObjectsDb, checksum, number
from fairway.errors import UserError
from fairway.kube.objects import Key

FORMAT = "2"
# Before: no checksums of rows, no trailers of records.
_FIRST_FORMAT = "1"
KEPT_FOLDER = "damaged"
# How many objects one line of a report names.
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Damage:
    """`file` and `where` (a record and its byte, a row) cannot be trusted; `lost` is what goes with it."""

    file: str
    where: str
    why: str
    lost: str

    def __str__(self) -> str:
        where = f" {self.where}:" if self.where else ""
        return f"{self.file}:{where} {self.why}; {self.lost}"


@dataclass(slots=True)
class Inspection:
    """Everything that can be read. `logs`: whether there is something the database has yet to take over."""

    bodies: dict[Key, bytes] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)
    logs: list[segments.Log] = field(default_factory=list)
    newer: Bodies = field(default_factory=dict)
    is_old: bool = False

    @property
    def rows(self) -> int:
        return len(self.bodies)

    @property
    def records(self) -> int:
        return sum(len(log.payloads) + len(log.gaps) for log in self.logs)


def inspect(folder: Path) -> Inspection:
    """Read and check a folder; nothing is written.

    Raises: UserError for a journal of another format.
    """
    found = Inspection()
    if (folder / objectsdb.NAME).exists():
        try:
            with ObjectsDb(folder / objectsdb.NAME) as db:
                _read_database(db, found)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as broken:
            lost = "the objects in it that no other line names"
            found.damages.append(Damage(objectsdb.NAME, "", f"cannot be read: {broken}", lost))
    said = found.facts.get("format", FORMAT)
    if said not in (FORMAT, _FIRST_FORMAT) and not found.damages:
        raise UserError(f"{folder}: written by another version of Fairway (format {said})")
    found.is_old = said == _FIRST_FORMAT
    _read_logs(folder, found)
    return found


def _read_database(db: ObjectsDb, found: Inspection) -> None:
    found.facts = db.facts()
    is_old = found.facts.get("format") == _FIRST_FORMAT
    if not is_old and not db.are_facts_whole():
        why = "the facts beside the objects (version, time, seed) do not match their checksum"
        found.damages.append(Damage(objectsdb.NAME, "", why, "those that cannot be made out anew"))
    rows = total = 0
    for key, body, crc in db.rows():
        rows += 1
        total += crc or 0
        if is_old or crc == checksum(key, body):
            found.bodies[key] = body
        else:
            where = f"row {rows} ({_named(key)})"
            found.damages.append(Damage(objectsdb.NAME, where, "its checksum does not match", "this object"))
    if is_old:
        return
    want_rows, want_total = db.tally()
    if rows != want_rows or (total != want_total and not found.damages):
        lost = f"{max(want_rows - rows, 0)} objects that cannot be named"
        found.damages.append(Damage(objectsdb.NAME, "", f"holds {rows} of {want_rows} rows", lost))


def _read_logs(folder: Path, found: Inspection) -> None:
    """What is newer than the database, over it."""
    applied = number(found.facts.get("epoch", "0"))
    for name, epoch in segments.stray(folder, applied):
        why = f"is of epoch {epoch}, and {objectsdb.NAME} ends with epoch {applied}"
        found.damages.append(Damage(name, "", why, "its writes, and all between the two"))
    found.logs = segments.read(folder, applied, has_trailers=not found.is_old)
    if not found.is_old and any(_is_old(log) for log in found.logs):
        # Of the first format, and never merged into a database that says so.
        found.is_old = True
        found.logs = segments.read(folder, applied, has_trailers=False)
    for log in found.logs:
        for payload in log.payloads:
            said, bodies = unpacked(payload)
            found.facts.update(said)
            found.newer.update(bodies)
        for gap in log.gaps:
            where = f"record {gap.number} at byte {gap.at:,}"
            found.damages.append(Damage(log.file, where, gap.why, _lost(gap)))
    for key, body in found.newer.items():
        if body is None:
            found.bodies.pop(key, None)
        else:
            found.bodies[key] = body


def _is_old(log: segments.Log) -> bool:
    return bool(log.payloads) and unpacked(log.payloads[0])[0].get("format") == _FIRST_FORMAT


def _lost(gap: segments.Gap) -> str:
    """Which writes a damaged record held, as far as its first line can be read."""
    if not gap.payload:
        return "the writes in it, which cannot be named"
    try:
        _, index = msgspec.json.decode(gap.payload.partition(b"\n")[0])
        keys = [Key(str(gk), str(namespace), str(name)) for gk, namespace, name, _ in index]
    except (msgspec.DecodeError, ValueError, TypeError):
        return "the writes in it, which cannot be named"
    named = ", ".join(_named(key) for key in keys[:_MOST_NAMED])
    more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
    return f"the writes of {named or 'no object'}{more}"


def _named(key: Key) -> str:
    return f"{key.gk} {key.namespace}/{key.name}" if key.namespace else f"{key.gk} {key.name}"


def recover(folder: Path) -> list[Damage]:
    """Keep what can be read and nothing else; the files as they were go into a folder beside it. What was dropped.

    Raises: UserError, where a server runs on the folder.
    """
    found = checked(folder)
    if found.damages:
        _rebuild(folder, found)
    return found.damages


def checked(folder: Path) -> Inspection:
    """As `inspect`, of a folder that nobody writes to meanwhile.

    Raises: UserError.
    """
    pid = is_taken(folder)
    if pid:
        raise UserError(
            f"{folder}: a server is running on this folder (pid {pid}); stop it first: fairway down"
        )
    return inspect(folder)


def _rebuild(folder: Path, found: Inspection) -> None:
    kept = folder / KEPT_FOLDER
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(mode=0o700)
    for name in (objectsdb.NAME, f"{objectsdb.NAME}-journal", *segments.NAMES):
        if (folder / name).exists():
            (folder / name).rename(kept / name)
    facts = {k: v for k, v in found.facts.items() if k in _FACTS}
    versions = [_version(body) for body in found.bodies.values()]
    # Nothing is given out twice: neither a version nor, since each write names at most one object, a serial.
    version = max([number(facts.get("version", "0")), *versions])
    facts.update(format=FORMAT, epoch="0", version=str(version))
    facts["serial"] = str(max(number(facts.get("serial", "0")), version))
    facts["now_us"] = str(number(facts.get("now_us", "0")))
    with ObjectsDb(folder / objectsdb.NAME) as db:
        db.write(dict(found.bodies), facts)


_FACTS = ("version", "serial", "now_us", "seed", "port", "speed", "paused", "cloud")


def _version(body: bytes) -> int:
    return number(msgspec.json.decode(body)["metadata"].get("resourceVersion", "0"))


def packed(bodies: Bodies, facts: dict[str, str]) -> bytes:
    """A line of JSON (facts, and every key with its body's length, -1: gone), then the bodies."""
    index = [[*key, -1 if body is None else len(body)] for key, body in bodies.items()]
    return b"\n".join(
        (msgspec.json.encode([facts, index]), b"".join(b for b in bodies.values() if b is not None))
    )


def unpacked(payload: bytes) -> tuple[dict[str, str], Bodies]:
    head, _, text = payload.partition(b"\n")
    facts, index = msgspec.json.decode(head)
    bodies: Bodies = {}
    at = 0
    for gk, namespace, name, length in index:
        bodies[Key(gk, namespace, name)] = None if length < 0 else text[at : at + length]
        at += max(length, 0)
    return facts, bodies
