"""Where a command runs: the controller with its cluster, who the users are, and the files they name."""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway.slurm.model.tres import order
from fairway.slurm.words.sizes import whole

if TYPE_CHECKING:
    from fairway.slurm.administration import Slurmctld
    from fairway.slurm.cluster import Cluster
    from fairway.slurm.commands.call import Call
    from fairway.slurm.conf import Configuration
    from fairway.slurm.model.job import Job

MAX_SCRIPT = 4 << 20
"""Bytes of a script or file that a command reads: Slurm's own limit of a script (max_script_size)."""
FIRST_UID = 1001


@dataclass(slots=True)
class Site:
    """`shown` is how paths below `root` are told (a cluster in a folder may tell its homes as /home)."""

    controller: Slurmctld
    host: str = "localhost"
    uids: dict[str, int] = field(default_factory=lambda: {"root": 0, "slurm": 64030})
    root: str = ""
    shown: str = ""
    token_key: bytes = b""
    """Signs slurmrestd's tokens; none: there are no tokens."""

    @property
    def cluster(self) -> Cluster:
        return self.controller.cluster

    @property
    def conf(self) -> Configuration:
        return self.cluster.conf

    @property
    def now(self) -> int:
        return self.controller.now

    @property
    def name(self) -> str:
        return self.conf.get("ClusterName", "cluster")

    @property
    def gres_names(self) -> tuple[str, ...]:
        return self.conf.words("GresTypes")

    def tres_order(self, names: Iterable[str]) -> list[str]:
        """As slurmctld keeps them: the static ones by id, the rest by name."""
        return order(names)

    @property
    def tres_names(self) -> list[str]:
        """Every TRES that is tracked, in the order of their ids."""
        return self.tres_order(
            ["cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages", *self.conf.tracked]
        )

    def uid(self, name: str) -> int | None:
        """A user's number, by name or number; users of the accounts that this machine has not are given numbers."""
        if name.isdecimal():
            return whole(name)
        if name in self.uids:
            return self.uids[name]
        try:
            number = pwd.getpwnam(name).pw_uid
        except (KeyError, ValueError):
            if name not in self.cluster.accounts.users:
                return None
            number = max(FIRST_UID, *(u + 1 for u in self.uids.values() if u < 60000))
        self.uids[name] = number
        return number

    def user(self, uid: int) -> str:
        for name, number in self.uids.items():
            if number == uid:
                return name
        try:
            return pwd.getpwuid(uid).pw_name
        except (KeyError, OverflowError):
            return str(uid)

    def real_path(self, path: str) -> str:
        """Where a path that users see lies."""
        if self.shown and (path == self.shown or path.startswith(self.shown + "/")):
            return self.root + path[len(self.shown) :]
        return path

    def shown_path(self, path: str) -> str:
        if self.root and (path == self.root or path.startswith(self.root + "/")):
            return self.shown + path[len(self.root) :]
        return path

    def read_file(self, call: Call, path: str) -> str | None:
        """A file the user names, None where it cannot be read, or is none: a pipe would be waited for."""
        if path not in call.files:
            call.files[path] = None
            with contextlib.suppress(OSError):
                descriptor = os.open(self.path_of(call, path), os.O_RDONLY | os.O_NONBLOCK)
                with open(descriptor, "rb") as stream:
                    if stat.S_ISREG(os.fstat(descriptor).st_mode):
                        call.files[path] = stream.read(MAX_SCRIPT).decode("utf-8", "surrogateescape")
        return call.files[path]

    def write_file(self, call: Call, path: str, text: str, *, new: bool = False) -> None:
        """Into a file the user names, which must not be there yet if `new`; no pipe is waited for. Raises: OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | (os.O_EXCL if new else os.O_TRUNC)
        descriptor = os.open(self.path_of(call, path), flags, 0o666)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)

    def path_of(self, call: Call, path: str) -> str:
        """Where a path lies that a user typed."""
        return self.real_path(path if path.startswith("/") else f"{call.cwd}/{path}")

    def is_folder(self, call: Call, path: str) -> bool:
        return os.path.isdir(self.path_of(call, path))

    def job(self, job_id: int) -> Job | None:
        return self.cluster.jobs.get(job_id)
