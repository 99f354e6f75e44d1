"""Who typed a command, and what is still to be told him?"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairway.slurm.commands.call import Call

# With these words it is the client's turn.
_TURNS = frozenset(("run", "need", "exit"))


@dataclass(slots=True, eq=False)
class Connection:
    """One client; without a stream, one of a record that is played again. `then`: what its next message is for."""

    stream: socket.socket | None
    data: bytes = b""
    pid: int = 0
    uid: int = 0
    waits: bool = False
    """Is it our turn? Not before it has asked, nor while it does what it was told, or ends."""
    then: Callable[[dict[str, Any]], None] | None = None
    gone: Callable[[], None] | None = None
    """Ends what ends with it: the allocation or step of srun and salloc."""
    number: int = 0
    """Of its call in the record; 0: not recorded."""
    held: list[dict[str, Any]] | None = None
    """Answers that wait for the record."""
    unsent: bytes = b""

    def release(self) -> None:
        held, self.held = self.held, None
        for what in held or ():
            self.send(**what)

    def send(self, **what: Any) -> None:
        if self.held is not None:
            self.held.append(what)
        elif self.stream is not None:
            self.waits = self.waits and _TURNS.isdisjoint(what)
            self.unsent += msgspec.json.encode(what) + b"\n"
            self.push()

    def push(self) -> None:
        """Send as much as the client takes now; a client that has gone is noticed when it is read from."""
        with contextlib.suppress(OSError):
            while self.stream is not None and self.unsent:
                self.unsent = self.unsent[self.stream.send(self.unsent) :]

    def flush(self, call: Call, code: int | None = None) -> None:
        """What the call has printed so far, and its exit code if it is over."""
        told: dict[str, Any] = {"out": _text(call.out), "err": _text(call.errors)}
        call.out.clear()
        call.errors.clear()
        if code is not None:
            told["exit"] = code
            self.gone = None
        self.send(**told)


@dataclass(slots=True, eq=False)
class Kept(Connection):
    """A client within this process: it keeps what it is told."""

    said: list[dict[str, Any]] = field(default_factory=list)

    def send(self, **what: Any) -> None:
        (self.said if self.held is None else self.held).append(what)


def _text(parts: list[str]) -> str:
    return "".join(parts).encode("utf-8", "replace").decode("utf-8")
