"""Plays recorded sessions of Slurm's commands, and says which of them agree.

A group of commands starts from a fresh controller. Before each command virtual time moves to where it was typed; the
command runs in a shell (a recording is a script, and is trusted as one) in its user's home, which the commands tell as
the recorded one.

Two loops of the recorded controller look for work, and nothing recorded says when within a second they woke: a group
is played for a few such phases, one for the whole of it, until all of it agrees; else that counts which agrees best.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from fairway.conformance.rows import nothing_recorded, read_rows
from fairway.conformance.slurm.comparing import is_same
from fairway.conformance.verification import Difference, Inapplicable, Verification
from fairway.slurm.administration import Slurmctld
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.site import Site
from fairway.slurm.conf import read_configuration
from fairway.slurm.model.association import empty_accounts
from fairway.slurm.serving.host import Host, install, run

SECOND = 1_000_000
SHOWN = "/srv/slurm"
"""Where the recorded homes lay; users' homes are told there."""
USERS = ("alice", "bob", "carol", "dave", "erin")
UP_BEFORE_S = 5
"""How long the recorded controller had been up when its group began."""
REACHED_AFTER_S = 0.03
"""How long after it was typed a command is taken to reach the controller."""
PHASES_S = ((0.35, 0.4), (0.65, 0.0), (0.95, 0.2), (1.25, 0.4), (1.55, 0.2), (0.05, 0.2))
"""When within its interval the backfill scheduler may have woken, and when within a second the controller's loop."""
COMMAND_MOST_S = 60
"""How long a recorded command was waited for."""
_FIELDS = {
    "group": (),
    "cmd": ("user", "cmd", "stdout", "stderr"),
    "file": ("user", "path", "content"),
    "sleep": ("seconds",),
}


def _shape(row: Any) -> tuple[str, str] | None:
    if not isinstance(row, dict) or row.get("op") not in _FIELDS:
        return "op", "expected group, cmd, file or sleep"
    if not isinstance(row.get("group"), str):
        return "group", "expected the group's name"
    for name in _FIELDS[row["op"]]:
        if not isinstance(row.get(name), (str, int, float)):
            return name, f"expected {name} of a {row['op']} row"
    return None


def verify_commands(file: Path, progress: Callable[[str], None] | None = None) -> Verification:
    """Play every group of a recording. Raises: InvalidInput for a file that is none."""
    rows = list(read_rows(file, _shape))
    if not rows:
        raise nothing_recorded(file, "commands")
    result = Verification()
    texts = _configuration(file)
    for name, group in groupby(rows, key=lambda row: row[1]["group"]):
        if progress is not None:
            progress(name)
        _add(result, _best(texts, list(group)))
    return result


def _best(texts: dict[str, str], rows: list[tuple[int, dict[str, Any]]]) -> Verification:
    """What a group comes to in the phase in which most of it agrees, of several such the first."""
    best: Verification | None = None
    for phases in PHASES_S:
        result = Verification()
        with tempfile.TemporaryDirectory(prefix="fw-slurm-") as folder:
            _play(Session(Path(folder), texts, phases), rows, result)
        if best is None or result.agreed > best.agreed:
            best = result
        if best.holds:
            break
    assert best is not None
    return best


def _add(result: Verification, group: Verification) -> None:
    result.total += group.total
    result.agreed += group.agreed
    result.differences.extend(group.differences)
    result.inapplicable.extend(group.inapplicable)


def _configuration(file: Path) -> dict[str, str]:
    """The recorded cluster's files: those beside the recording, or the ones kept here."""
    beside = file.parent / "conf" / "commands"
    kept = files("fairway.conformance.slurm") / "atlas"
    names = ("slurm.conf", "gres.conf", "accounts_setup.sh")
    folder = beside if all((beside / name).is_file() for name in names) else kept
    return {name: (folder / name).read_text(encoding="utf-8") for name in names}


@dataclass(slots=True)
class Session:
    """A fresh cluster with its users' homes, below one folder."""

    folder: Path
    texts: dict[str, str]
    phases_s: tuple[float, float] = PHASES_S[0]
    began: int = 0
    host: Host = field(init=False)

    def begin(self, at: int) -> None:
        """An empty controller that has just come up."""
        self.began = at
        for user in USERS:
            (self.folder / "home" / user).mkdir(parents=True)
        for number in range(1, 6):  # left there by the recorder
            (self.folder / "home" / "alice" / f"sched{number}").mkdir()
        conf = read_configuration({name: text for name, text in self.texts.items() if name.endswith(".conf")})
        accounts = empty_accounts(conf.get("ClusterName", "cluster"))
        controller = Slurmctld(conf, accounts, _unknown, (at - UP_BEFORE_S) * SECOND)
        controller.backfill_phase_us, controller.pass_phase_us = (int(one * SECOND) for one in self.phases_s)
        uids = {"root": 0, "slurm": 64030} | {user: 1001 + number for number, user in enumerate(USERS)}
        site = Site(controller, host="vm", uids=uids, root=str(self.folder), shown=SHOWN)
        for line in self.texts["accounts_setup.sh"].splitlines():
            words = shlex.split(line, comments=True)
            if words:
                run(Call(site, words[0], words[1:], {}, "root", "/"))
        tools = self.folder / "bin"
        install(tools)
        self.host = Host(site, tools)
        self.host.open(tools / "socket")
        self.host.advance(at * SECOND)

    def write(self, user: str, path: str, content: str) -> None:
        where = self.home(user) / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(content, encoding="utf-8")

    def home(self, user: str) -> Path:
        return self.folder / "home" / user if user in USERS else self.folder

    def type(self, user: str, command: str) -> tuple[int | None, str, str]:
        """Run one command line; virtual time goes on while all of its processes wait for it."""
        site = self.host.site
        environment = {
            "PATH": f"{self.folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home(user)),
            "TZ": "UTC",
            "LC_ALL": "C",
            "SLURM_CONF": "/srv/slurm/atlas/slurm.conf",
            "FAIRWAY_AS": user,
            "FAIRWAY_HOSTNAME": site.host,
        }
        out, err = (
            os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC) for name in ("out", "err")
        )
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.home(user),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        until = self.host.now_us + COMMAND_MOST_S * SECOND
        self.host.sessions = {process.pid}
        code: int | None
        while (code := process.poll()) is None:
            if self.host.pump(0.002):
                continue
            if self.host.are_busy() or process.poll() is not None:
                continue
            if self.host.pump(0.002) or self.host.are_busy() or not self._waits():
                continue
            due = self.host.next_us()
            if due is None or due > until:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = None
                break
            self.host.sessions = set()
            self.host.advance(due)
            self.host.sessions = {process.pid}
        self.host.sessions = set()
        for descriptor in (out, err):
            os.close(descriptor)
        texts = [(self.folder / name).read_text("utf-8", "replace") for name in ("out", "err")]
        texts = [text.replace(str(self.folder), SHOWN) for text in texts]
        return code, texts[0], texts[1]

    def _waits(self) -> bool:
        """Is one of the command's processes waiting for something of ours?"""
        return bool(self.host.waiting or self.host.sleeping or any(c.then for c in self.host.connections))

    def end(self) -> None:
        self.host.close()


def _unknown(job: Any, now: int) -> Any:
    raise AssertionError("the host says what scripts do")


def _play(session: Session, rows: list[tuple[int, dict[str, Any]]], result: Verification) -> None:
    head = rows[0][1]
    session.begin(int(head.get("t0_epoch", 1_795_384_416)))
    try:
        for line, row in rows:
            if row["op"] == "file":
                session.host.advance(int((session.began + float(row.get("t", 0))) * SECOND))
                session.write(row["user"], row["path"], row["content"])
            if row["op"] != "cmd":
                continue
            session.host.advance(int((session.began + float(row.get("t", 0)) + REACHED_AFTER_S) * SECOND))
            code, out, err = session.type(row["user"], row["cmd"])
            where = f"{row['group']} {row.get('seq', '')} {row['user']}$ {row['cmd']}"
            if row.get("repeat") == "differs":
                reason = "the real one answered differently the second time"
                result.inapplicable.append(Inapplicable(line, where, reason))
                continue
            result.count(list(_differences(line, where, row, code, out, err)))
    finally:
        session.end()


def _differences(
    line: int, where: str, row: dict[str, Any], code: int | None, out: str, err: str
) -> Iterator[Difference]:
    if row.get("rc") is not None and row["rc"] != code:
        yield Difference(line, where, "exit code", str(row["rc"]), str(code))
    if not is_same(row["cmd"], row["stdout"], out):
        yield Difference(line, where, "stdout", row["stdout"], out)
    if not is_same(row["cmd"], row["stderr"], err):
        yield Difference(line, where, "stderr", row["stderr"], err)
