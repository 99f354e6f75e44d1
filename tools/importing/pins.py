"""Which revision of which project, and what its files say there: read with git, whatever is checked out."""

from __future__ import annotations

import fnmatch
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Pin:
    """A component: the files of one repository at one revision.

    `versions`: only these versions of its kinds (none: all). `leave_out`: kinds that nobody writes by hand.
    """

    name: str
    repository: str
    revision: str
    files: tuple[str, ...]
    versions: tuple[str, ...] = ()
    leave_out: frozenset[str] = field(default_factory=frozenset)

    @property
    def source(self) -> str:
        return f"{self.repository}@{self.revision}"


def pins(path: Path) -> list[Pin]:
    """Every pin, in the order of the file."""
    found = []
    for name, row in tomllib.loads(path.read_text()).items():
        found.append(
            Pin(
                name,
                row["repository"],
                row["revision"],
                tuple(row["files"]),
                tuple(row.get("versions", ())),
                frozenset(row.get("leave_out", ())),
            )
        )
    return found


def texts(pin: Pin, clones: Path) -> Iterator[tuple[str, str]]:
    """The pinned files, by path. A pattern's `*` stays within one folder.

    Raises: FileNotFoundError where there is no such clone, revision or file.
    """
    clone = clones / pin.repository
    if not clone.exists():
        raise FileNotFoundError(f"{clone}: clone https://github.com/{pin.repository} there")
    listed = _git(clone, "ls-tree", "-r", "--name-only", pin.revision).splitlines()
    for pattern in pin.files:
        depth = pattern.count("/")
        matching = [p for p in listed if p.count("/") == depth and fnmatch.fnmatch(p, pattern)]
        if not matching:
            raise FileNotFoundError(f"{pin.name}: no file {pattern} in {pin.source}")
        for path in sorted(matching):
            yield path, _git(clone, "show", f"{pin.revision}:{path}")


def _git(clone: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(clone), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise FileNotFoundError(f"{clone}: {done.stderr.strip()}")
    return done.stdout
