"""One call of a command: who typed what where, and what it printed.

A command is a function `Call → None`; it prints into the call and leaves early by `call.quit(code)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from fairway.slurm.words import durations

if TYPE_CHECKING:
    from fairway.slurm.commands.site import Site

VERSION = "slurm-wlm 22.05.8"


class Quit(Exception):
    """The command ends here, with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(slots=True)
class Call:
    """`name` is the command's, `arguments` what follows it; `cwd` as the user sees it; `stdin` read on demand."""

    site: Site
    name: str
    arguments: list[str]
    environment: Mapping[str, str]
    user: str
    cwd: str
    stdin: str = ""
    out: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    code: int = 0
    files: dict[str, str | None] = field(default_factory=dict)
    """What it read of files, by the names it gave."""
    shows_all: bool = False
    """Also partitions that are hidden, from scontrol."""
    waits_for: int = 0
    """The job that has to end before the answer is over."""

    def print(self, text: str = "") -> None:
        self.out.append(text + "\n")

    def write(self, text: str) -> None:
        self.out.append(text)

    def say(self, text: str) -> None:
        """A line on stderr, as it is."""
        self.errors.append(text + "\n")

    def error(self, text: str) -> None:
        """`sbatch: error: …`, as Slurm's log writes."""
        self.say(f"{self.name}: error: {text}")

    def info(self, text: str) -> None:
        self.say(f"{self.name}: {text}")

    def fatal(self, text: str) -> NoReturn:
        self.say(f"{self.name}: fatal: {text}")
        self.quit(1)

    def quit(self, code: int) -> NoReturn:
        raise Quit(code)

    def fail(self, text: str, code: int = 1) -> NoReturn:
        self.error(text)
        self.quit(code)

    def check_clusters(self, text: object) -> None:
        """--clusters, or SLURM_CLUSTERS without it, may name this one alone."""
        text, where = (
            (text, "--cluster") if text else (self.environment.get("SLURM_CLUSTERS"), "SLURM_CLUSTERS")
        )
        for name in str(text or self.site.name).split(","):
            if name not in (self.site.name, "all"):
                self.error(f"No cluster '{name}' known by database.")
                hint = "Use 'sacctmgr list clusters' to see available clusters."
                self.fail(f"'{text}' can't be reached now, or it is an invalid entry for {where}.  {hint}")

    def print_cluster(self, asked: Mapping[str, object]) -> None:
        """What squeue, sinfo and sshare print first when they were told which clusters to ask."""
        named = asked.get("clusters") or asked.get("cluster") or self.environment.get("SLURM_CLUSTERS")
        if named and "noheader" not in asked:
            self.print(f"CLUSTER: {self.site.name}")

    @property
    def now(self) -> int:
        return self.site.now

    def stamp(self, when: int | None) -> str:
        """A time of day, as SLURM_TIME_FORMAT says."""
        form = self.environment.get("SLURM_TIME_FORMAT", "standard")
        if form == "relative" and when and when - when % 86400 == self.now - self.now % 86400:
            return durations.stamp(when, "%H:%M:%S")
        if "%" in form and len(form) < 32:
            return durations.stamp(when, form)
        return durations.stamp(when)
