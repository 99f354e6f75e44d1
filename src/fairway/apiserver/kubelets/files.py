"""A simulated container's file system: a small tree in memory, gone when the container's run is over.

Paths are the container's own; `..` at the top leads nowhere, and nothing here touches this machine's files. Sizes and
counts are limited.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

MAX_BYTES = 16 * 1024 * 1024
MAX_ENTRIES = 10_000
_MAX_PATH = 4096
_MAX_NAME = 255
FILE_MODE, DIRECTORY_MODE = 0o644, 0o755
_DIRECTORIES = (
    "bin dev etc home lib proc root run sbin sys tmp usr var var/run/secrets/kubernetes.io/serviceaccount"
)


class FileError(Exception):
    """What the kernel would say: `No such file or directory`."""


NOT_FOUND, IS_DIRECTORY = "No such file or directory", "Is a directory"
NOT_DIRECTORY, EXISTS, NO_SPACE = "Not a directory", "File exists", "No space left on device"
TOO_LONG, NOT_EMPTY, NOT_PERMITTED = "File name too long", "Directory not empty", "Operation not permitted"


@dataclass(slots=True)
class Entry:
    """A file, or a directory where `data` is None."""

    data: bytes | None
    mode: int
    modified_s: int

    @property
    def is_directory(self) -> bool:
        return self.data is None


class Files:
    """Entries by absolute path, without a slash at the end."""

    def __init__(self, now_s: int) -> None:
        self.used = 0
        self._entries: dict[str, Entry] = {"/": Entry(None, DIRECTORY_MODE, now_s)}
        for path in _DIRECTORIES.split():
            self.make_directories("/" + path, now_s)
        self.write("/dev/null", b"", now_s)

    def entry(self, path: str) -> Entry:
        """Raises: FileError."""
        found = self._entries.get(path)
        if found is None:
            raise FileError(NOT_FOUND)
        return found

    def exists(self, path: str) -> bool:
        return path in self._entries

    def is_directory(self, path: str) -> bool:
        found = self._entries.get(path)
        return found is not None and found.is_directory

    def read(self, path: str) -> bytes:
        """Raises: FileError."""
        data = self.entry(path).data
        if data is None:
            raise FileError(IS_DIRECTORY)
        return data

    def write(self, path: str, data: bytes, now_s: int, *, append: bool = False, mode: int = -1) -> None:
        """Raises: FileError."""
        self._check_parent(path)
        old = self._entries.get(path)
        if old is not None and old.data is None:
            raise FileError(IS_DIRECTORY)
        before = old.data if old is not None and old.data is not None else b""
        data = before + data if append else data
        self._reserve(len(data) - len(before), new=old is None)
        kept = old.mode if old is not None else FILE_MODE
        self._entries[path] = Entry(data, kept if mode < 0 else mode, now_s)

    def make_directory(self, path: str, now_s: int, mode: int = DIRECTORY_MODE) -> None:
        """Raises: FileError."""
        if path in self._entries:
            raise FileError(EXISTS)
        self._check_parent(path)
        self._reserve(0, new=True)
        self._entries[path] = Entry(None, mode, now_s)

    def make_directories(self, path: str, now_s: int) -> None:
        """With its parents; those that are there stay.

        Raises: FileError.
        """
        at = ""
        for part in path.strip("/").split("/"):
            at = f"{at}/{part}"
            found = self._entries.get(at)
            if found is None:
                self.make_directory(at, now_s)
            elif not found.is_directory:
                raise FileError(NOT_DIRECTORY)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Raises: FileError."""
        entry = self.entry(path)
        if path == "/":
            raise FileError(NOT_PERMITTED)
        below = [p for p in self._entries if p.startswith(path + "/")] if entry.is_directory else []
        if below and not recursive:
            raise FileError(NOT_EMPTY)
        for gone in (*below, path):
            self.used -= len(self._entries.pop(gone).data or b"")

    def listed(self, path: str) -> list[str]:
        """Names in a directory, sorted.

        Raises: FileError.
        """
        if not self.entry(path).is_directory:
            raise FileError(NOT_DIRECTORY)
        prefix = path.rstrip("/") + "/"
        names = (p[len(prefix) :] for p in self._entries if p.startswith(prefix) and p != "/")
        return sorted(name for name in names if "/" not in name)

    def below(self, path: str) -> list[str]:
        """A path and everything under it, parents first."""
        prefix = path.rstrip("/") + "/"
        return sorted(p for p in self._entries if p == path or p.startswith(prefix))

    def _check_parent(self, path: str) -> None:
        if len(path) > _MAX_PATH or any(len(part) > _MAX_NAME for part in path.split("/")):
            raise FileError(TOO_LONG)
        parent = self._entries.get(posixpath.dirname(path))
        if parent is None:
            raise FileError(NOT_FOUND)
        if not parent.is_directory:
            raise FileError(NOT_DIRECTORY)

    def _reserve(self, more: int, *, new: bool) -> None:
        if self.used + more > MAX_BYTES or (new and len(self._entries) >= MAX_ENTRIES):
            raise FileError(NO_SPACE)
        self.used += more


def absolute(path: str, directory: str = "/") -> str:
    """The path from the top, `.` and `..` worked out; `..` above the top is the top."""
    found = posixpath.normpath(posixpath.join(directory, path or "."))
    return found[1:] if found.startswith("//") else found
