"""What was asked of a cluster and what became of its scripts, in order, on disk before anybody is told.

A line is the CRC-32 of the rest and a JSON object; the first describes the cluster, each later one has the virtual
time `t` (µs) at which it was done. The last line may be torn by a crash, and is dropped then: nobody was told of it.
Environments, which are large and the same for hours, stand once each. Beside the lines a small file has the time up to
which something was told, so that time never goes back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from fairway.errors import WorldError

FORMAT = 1
LINE_MOST = 64 << 20
"""Bytes of one line: far over a request's most (host.REQUEST_MOST), escaped."""


@dataclass(slots=True)
class Journal:
    """`folder` is the cluster's; one process writes."""

    folder: Path
    environments: dict[str, int] = field(default_factory=dict)
    _lines: int = -1
    _clock: int = -1

    @property
    def path(self) -> Path:
        return self.folder / "journal"

    def exists(self) -> bool:
        return self.path.exists() and self.path.stat().st_size > 0

    def read(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(line, what), environments filled in; a torn end is cut off. Raises: WorldError for damage before it."""
        whole, size = 0, self.path.stat().st_size
        environments: list[dict[str, str]] = []
        with open(self.path, "rb") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(LINE_MOST), b""), 1):
                what = _decoded(line)
                if what is None:
                    if whole + len(line) < size:
                        raise WorldError(
                            f"{self.path}:{number}: damaged at byte {whole}: the check sum does not agree. What "
                            f"stands before it is whole: truncate -s {whole} {self.path} goes back to there"
                        )
                    break
                whole += len(line)
                if "env" in what:
                    self.environments[json.dumps(what["env"], sort_keys=True)] = len(environments)
                    environments.append(what["env"])
                    continue
                if "environment" in what:
                    what["environment"] = environments[what["environment"]]
                yield number, what
        if whole < size:
            os.truncate(self.path, whole)

    def open(self) -> None:
        """Begin to write where it ends."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        self._lines = os.open(self.path, flags | os.O_APPEND, 0o600)
        self._clock = os.open(self.folder / "clock", flags, 0o600)
        if not self.path.stat().st_size:
            folder = os.open(self.folder, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    def close(self) -> None:
        for one in (self._lines, self._clock):
            if one >= 0:
                os.close(one)
        self._lines = self._clock = -1

    def add(self, what: dict[str, Any]) -> None:
        """Returns once it is on disk. Raises: OSError."""
        if "environment" in what:
            key = json.dumps(what["environment"], sort_keys=True)
            if key not in self.environments:
                self.add({"env": what["environment"]})
                self.environments[key] = len(self.environments)
            what = what | {"environment": self.environments[key]}
        data = _encoded(what)
        while data:
            data = data[os.write(self._lines, data) :]
        os.fdatasync(self._lines)

    def mark(self, now_us: int) -> None:
        """Time has come this far."""
        os.pwrite(self._clock, b"%020d\n" % now_us, 0)

    def marked(self) -> int:
        try:
            return int((self.folder / "clock").read_bytes()[:20])
        except (OSError, ValueError):
            return 0


def _encoded(what: dict[str, Any]) -> bytes:
    text = json.dumps(what, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (crc32(text), text)


def head_of(folder: Path) -> dict[str, Any]:
    """What a served cluster was made of: the first line of its journal. Raises: WorldError."""
    path = folder / "journal"
    with open(path, "rb") as stream:
        head = _decoded(stream.readline(LINE_MOST))
    if head is None or "texts" not in head:
        raise WorldError(f"{path}: this is no journal of a Slurm cluster that this version reads")
    return head


def _decoded(line: bytes) -> dict[str, Any] | None:
    """None where it is not whole."""
    if len(line) < 10 or not line.endswith(b"\n") or line[:8] != b"%08x" % crc32(line[9:-1]):
        return None
    found: dict[str, Any] = json.loads(line[9:-1])
    return found
