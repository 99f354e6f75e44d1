"""The processes of jobs' scripts on this machine: started, signalled, waited for; and whether all of them wait.

Virtual time may go on only while nothing computes. A process waits if the kernel says it sleeps and it is not one of
ours on its way to the socket; that is looked at twice, so that one just waking up is seen.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Processes:
    """`live`: process group leaders by pid, with what they are for."""

    live: dict[int, tuple[subprocess.Popen[bytes], int]] = field(default_factory=dict)

    def start(
        self,
        of: int,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        cwd: str,
        streams: tuple[int, int, int],
    ) -> int:
        """A new session; returns its pid. Raises: OSError."""
        process = subprocess.Popen(
            list(arguments),
            env=dict(environment),
            cwd=cwd,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
        )
        self.live[process.pid] = (process, of)
        return process.pid

    def ended(self) -> list[tuple[int, int, int]]:
        """(pid, what for, status as wait gives it) of those that ended since."""
        found = []
        for pid, (process, of) in list(self.live.items()):
            code = process.poll()
            if code is not None:
                del self.live[pid]
                found.append((pid, of, code << 8 if code >= 0 else -code))
        return found

    def signal(self, of: int, number: int, *, others: bool = True) -> None:
        """Signal a job's script, and what it started (others)."""
        for pid, (_, whose) in self.live.items():
            if whose == of:
                for one in _members({pid}) if others else [pid]:
                    _kill(one, number)

    def signal_below(self, above: Sequence[int], number: int) -> None:
        """Signal what these processes (srun of steps) started, and what that did."""
        below = list(above)
        for pid in below:
            below += _children(pid)
        for pid in below[len(above) :]:
            _kill(pid, number)

    def kill_all(self) -> None:
        for pid in list(self.live):
            for one in _members({pid}):
                _kill(one, signal.SIGKILL)
        for process, _ in self.live.values():
            process.wait()
        self.live.clear()

    def are_busy(self, clients: Mapping[int, bool], also: Sequence[int] = ()) -> bool:
        """Does any process of a job compute?

        clients: those connected; True: it waits for our answer. One that was told to go on runs, or waits for others as
        any process does: for who reads what it prints. also: more sessions.
        """
        sessions = {*self.live, *also}
        if not sessions:
            return False
        return any(
            not clients.get(pid, False)
            and (_state(pid) in ("R", "D") or (pid not in clients and _is_client(pid)))
            for pid in _members(sessions)
        )


_PR_SET_PDEATHSIG = 1
_C = ctypes.CDLL(None)


def _die_with_parent() -> None:
    """A script whose server was killed goes no further; what it had started ends with the next server."""
    _C.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _state(pid: int) -> str:
    """A process's state letter; empty where it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]


def ticks_of(pid: int) -> int:
    """When a process started, in the kernel's ticks: with its number it names it for good. 0 where it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[19])


def end_leftover(pid: int, ticks: int) -> None:
    """Kill the session of a script that an earlier process of ours started, if it is still that one."""
    if ticks_of(pid) in (0, ticks):
        for one in _members({pid}):
            _kill(one, signal.SIGKILL)


def _is_client(pid: int) -> bool:
    """One of ours that is not connected yet, or no more: it starts, or ends."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return len(words) > 2 and b"-IS" in words[1:2] and _state(pid) not in ("", "T") and not _children(pid)


def _children(pid: int) -> list[int]:
    """Of all its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii").split())
    return found


def _members(sessions: Set[int]) -> Iterator[int]:
    """The processes of these sessions, the newest first; of the machine's others not a file is read."""
    for pid in sorted((int(name) for name in os.listdir("/proc") if name.isdecimal()), reverse=True):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) in sessions:
                yield pid


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
