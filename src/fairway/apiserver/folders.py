"""Where does a server's state live, and is one running there?

A folder holds one cluster: certificates, journal, kubeconfig. The process that serves it holds a lock on it, which
the kernel lets go however the process ends: a pid that is written down but not locked is history.
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from fairway.errors import UserError, WorldError

_NOTE = "server.json"
# How long a look may take before it is asked again whether it is over.
_LOOK_S = 0.001


def default_folder() -> Path:
    """$FAIRWAY_DATA, or a place among the user's data."""
    asked = os.environ.get("FAIRWAY_DATA")
    if asked:
        return Path(asked)
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "fairway"


@dataclass(frozen=True, slots=True)
class Running:
    """A server that is there: its process, its URL, the kubeconfig it wrote."""

    pid: int
    url: str
    kubeconfig: str


def take(data: Path) -> IO[str]:
    """Hold the folder's lock while the process lives.

    Raises: UserError where another process holds it; WorldError.
    """
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = open(data / "lock", "a+", encoding="utf-8", opener=owners_alone)  # noqa: SIM115 - held until we end
        os.fchmod(file.fileno(), 0o600)
    except OSError as failed:
        raise WorldError(f"{data}: {failed.strerror}") from failed
    if not _hold(file):
        file.close()
        found = running(data)
        where = f" at {found.url} (pid {found.pid})" if found is not None else ""
        raise UserError(f"{data}: a server is running on this folder already{where}; see fairway status")
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    (data / _NOTE).unlink(missing_ok=True)
    return file


def owners_alone(path: str, flags: int) -> int:
    """Opens a file that, where it is new, nobody but its owner reads: for `open(…, opener=…)`."""
    return os.open(path, flags, 0o600)


def _hold(file: IO[str]) -> bool:
    """Lock it for this process alone, unless another process did. Whoever only looks (`is_taken`) shares it for some
    microseconds, and is waited for.
    """
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if not _is_shared(file):
                return False
        time.sleep(_LOOK_S)


def _is_shared(file: IO[str]) -> bool:
    """Whether nobody holds it alone."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return True


def is_taken(data: Path) -> int:
    """The pid of the process that holds the folder; 0 where none does."""
    path = data / "lock"
    if not path.exists():
        return 0
    with open(path, "r+", encoding="utf-8") as file:
        if _is_shared(file):
            return 0
        text = file.read().strip()
        return int(text) if text.isdigit() else -1


def announce(data: Path, url: str, kubeconfig: Path) -> None:
    """Say that the server answers."""
    said = {"pid": os.getpid(), "url": url, "kubeconfig": str(kubeconfig)}
    fresh = data / f"{_NOTE}.new"
    fresh.unlink(missing_ok=True)
    with open(fresh, "xb", opener=owners_alone) as file:
        file.write(msgspec.json.encode(said))
    fresh.replace(data / _NOTE)


def running(data: Path) -> Running | None:
    """The server that answers for this folder, if any."""
    pid = is_taken(data)
    if not pid:
        return None
    try:
        said: Any = msgspec.json.decode((data / _NOTE).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    return Running(pid, str(said.get("url", "")), str(said.get("kubeconfig", "")))
