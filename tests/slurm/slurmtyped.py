"""A served cluster in this process: commands are typed without a socket, time stands until it is moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairway.slurm.commands.call import Call
from fairway.slurm.serving.connections import Kept
from fairway.slurm.serving.server import Server

SECOND = 1_000_000
SHOWN = (
    ("squeue",),
    ("squeue", "-s"),
    ("sinfo", "-N", "-l"),
    ("sacct", "-a", "-X", "-P", "--format=ALL"),
    ("scontrol", "show", "job"),
    ("scontrol", "show", "node"),
    ("scontrol", "show", "reservation"),
    ("sacctmgr", "show", "assoc", "tree", "-P"),
    ("sprio", "-l"),
    ("sshare", "-a"),
)


class Typed:
    """A served cluster whose time stands until it is moved; commands are typed without a socket."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.folder = folder
        self.server = Server(folder, paused=True, **more)
        self.server.start()

    def type(self, *words: str, user: str = "root", stdin: str = "") -> tuple[int | None, str, str]:
        call = Call(self.server.host.site, words[0], list(words[1:]), {"HOME": "/"}, user, str(self.folder))
        connection = Kept(None)
        self.server.host.answer(connection, call, stdin)
        said = connection.said
        out, err = ("".join(one.get(key, "") for one in said) for key in ("out", "err"))
        return next((one["exit"] for one in said if "exit" in one), None), out, err

    def run(self, seconds: float) -> None:
        """Time passes, however long that takes."""
        until = self.server.host.now_us + int(seconds * SECOND)
        while not self.server._move(until):
            pass

    def shown(self) -> list[tuple[int | None, str, str]]:
        return [self.type(*words) for words in SHOWN]

    def end(self) -> None:
        """As if killed: nothing more is written."""
        self.server.host.record = None
        self.server.host.close()
        self.server.journal.close()
