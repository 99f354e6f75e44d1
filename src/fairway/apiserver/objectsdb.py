"""The latest state of every object up to some epoch of the log: one SQLite file.

SQLite trusts its disk. So every row carries a checksum of what it says, and the facts beside them carry the number of
rows and the sum of their checksums: a row that changed, vanished or came from nowhere is noticed when it is read.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

from fairway.kube.objects import Key

NAME = "objects.db"
# Not facts of the cluster: what is checked with.
_ROWS, _SUM, _FACTS = "rows", "sum", "check"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS objects (
  gk TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL, crc INTEGER,
  UNIQUE (gk, namespace, name)
);
"""
_PUT = (
    "INSERT INTO objects (gk, namespace, name, body, crc) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (gk, namespace, name) DO UPDATE SET body = excluded.body, crc = excluded.crc"
)
_CRC = "SELECT crc FROM objects WHERE gk = ? AND namespace = ? AND name = ?"
_DROP = "DELETE FROM objects WHERE gk = ? AND namespace = ? AND name = ?"
_META = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"

Bodies = dict[Key, bytes | None]


class ObjectsDb:
    """One open file. Whatever reads a damaged one may raise `sqlite3.DatabaseError`, or `UnicodeDecodeError`."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        # What was text may be any bytes by now.
        self._db.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
        os.chmod(path, 0o600)
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(_SCHEMA)
        if "crc" not in {row[1] for row in self._db.execute("PRAGMA table_info(objects)")}:
            self._db.execute("ALTER TABLE objects ADD COLUMN crc INTEGER")

    def __enter__(self) -> ObjectsDb:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def facts(self) -> dict[str, str]:
        """What was noted beside the objects."""
        return {k: v for k, v in self._meta().items() if k not in (_ROWS, _SUM, _FACTS)}

    def _meta(self) -> dict[str, str]:
        return {str(k): str(v) for k, v in self._db.execute("SELECT name, value FROM meta")}

    def are_facts_whole(self) -> bool:
        """Whether the facts are as they were written."""
        meta = self._meta()
        return not meta or meta.get(_FACTS, "") == _check(meta)

    def tally(self) -> tuple[int, int]:
        """How many rows were written, and the sum of their checksums."""
        meta = self._meta()
        return number(meta.get(_ROWS, "0")), number(meta.get(_SUM, "0"))

    def rows(self) -> Iterator[tuple[Key, bytes, int | None]]:
        """Key, body, checksum as it stands there."""
        said = "SELECT gk, namespace, name, CAST(body AS BLOB), CAST(crc AS INTEGER) FROM objects"
        for gk, namespace, name, body, crc in self._db.execute(said):
            yield Key(str(gk), str(namespace), str(name)), body or b"", crc

    def write(self, bodies: Bodies, facts: dict[str, str]) -> None:
        """All of it or nothing."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        rows, total = self.tally()
        for key, body in bodies.items():
            old = db.execute(_CRC, key).fetchone()
            # A row of the first format was not counted.
            if old is not None and old[0] is not None:
                rows, total = rows - 1, total - old[0]
            if body is None:
                db.execute(_DROP, key)
            else:
                crc = checksum(key, body)
                rows, total = rows + 1, total + crc
                db.execute(_PUT, (*key, body, crc))
        db.executemany(_META, [*facts.items(), (_ROWS, str(rows)), (_SUM, str(total))])
        db.execute(_META, (_FACTS, _check(self._meta())))
        db.execute("COMMIT")


def number(text: str) -> int:
    """A count that may be damaged: 0 then."""
    return int(text) if text.isascii() and text.isdigit() else 0


def checksum(key: Key, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32("\0".join(key).encode("utf-8", "surrogatepass")))


def _check(meta: dict[str, str]) -> str:
    said = "\0".join(f"{k}={v}" for k, v in sorted(meta.items()) if k != _FACTS)
    return str(zlib.crc32(said.encode("utf-8", "surrogatepass")))
