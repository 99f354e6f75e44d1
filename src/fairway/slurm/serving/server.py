"""One served cluster: its time goes with the clock on the wall, what changes it is in its journal, and a new server
is where the last one was.

The state is what the journal makes of the configuration: a server that starts plays it again, in virtual time, without
running a script twice. Scripts that ran as processes died with the server; their jobs are requeued or fail, as when a
node reboots. srun and salloc end with their clients.
"""

from __future__ import annotations

import os
import pwd
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from fairway import __version__
from fairway.errors import FieldProblem, InvalidInput, UserError, WorldError
from fairway.slurm.administration import Slurmctld
from fairway.slurm.commands import tokens
from fairway.slurm.commands.accountdump import DumpProblem, read_dump
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.site import FIRST_UID, Site
from fairway.slurm.conf import check_usable, read_configuration
from fairway.slurm.model.association import empty_accounts
from fairway.slurm.model.job import Job
from fairway.slurm.serving import rest
from fairway.slurm.serving.connections import Connection, Kept
from fairway.slurm.serving.host import Host, install
from fairway.slurm.serving.journal import FORMAT, Journal
from fairway.slurm.serving.processes import end_leftover

SECOND = 1_000_000
IDLE_S, BUSY_S = 0.25, 0.05
"""How long a look for requests takes at most: alone, and while scripts run, whose end is looked for as often."""
SLICE_S = 0.2
"""How long time is moved before requests are looked at again."""
_READING = ("sho", "lis", "dum", "wri", "pin", "tok", "hel", "ver")
"""How verbs of scontrol and sacctmgr begin that change nothing."""
_CHANGING = ("sbatch", "srun", "salloc", "scancel", "scontrol", "sacctmgr")


@dataclass(slots=True)
class Server:
    """See the module. `texts`: configuration files by name, None: the cluster's own, or the default one."""

    folder: Path
    texts: Mapping[str, str] | None = None
    accounts: str | None = None
    speed: float | None = None
    paused: bool | None = None
    skip_unknown: bool = False
    gpus: Callable[[Site, Mapping[str, str], list[str]], tuple[str, int]] | None = None
    """What nvidia-smi prints in a step of these variables, and its exit code."""
    host: Host = field(init=False)
    journal: Journal = field(init=False)
    ending: bool = False
    calls: int = 0
    advances: list[tuple[int, Connection]] = field(default_factory=list)
    _from: tuple[int, int] = (0, 0)
    """Monotonic ns and virtual µs from which on time is counted."""
    _began: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Scripts that ran as processes: (job, version) → (pid, its start)."""

    # Beginning

    def start(self) -> None:
        """Build or rebuild the cluster and answer at its socket. Raises: InvalidInput, UserError, WorldError."""
        self.journal = Journal(self.folder)
        asked = self.speed, self.paused
        self.speed, self.paused = 1.0, False
        if self.journal.exists():
            self._resume()
        else:
            self._create()
        self.host.site.token_key = tokens.key_of(self.folder)
        self.host.record = self
        self.host.control, self.host.catch_up = self._control, self.catch_up
        self._set_pace(*asked)
        self._lose_scripts()
        install(self.host.bin)
        self.host.open(self.host.bin / "socket")

    def _create(self) -> None:
        default = files("fairway.slurm").joinpath("data/default")
        owner = _owner()
        texts, accounts = self.texts, self.accounts
        if texts is None:
            texts = {
                name: default.joinpath(name).read_text(encoding="utf-8")
                for name in ("slurm.conf", "gres.conf")
            }
            if accounts is None:
                accounts = default.joinpath("accounts.cfg").read_text(encoding="utf-8")
                if owner != "root":
                    accounts += (
                        f"Parent - 'research'\nUser - '{owner}':DefaultAccount='research':Fairshare=1\n"
                    )
        head = {
            "format": FORMAT,
            "fairway": __version__,
            "texts": dict(texts),
            "accounts": accounts or "",
            "t": time.time_ns() // 1000,
            "host": socket.gethostname().partition(".")[0],
            "uids": {"root": 0, "slurm": 64030, owner: os.getuid()},
        }
        self._build(head)
        self.journal.open()
        self.journal.add(head)

    def _build(self, head: Mapping[str, Any]) -> None:
        conf = read_configuration(head["texts"])
        check_usable(conf)
        if conf.problems and not self.skip_unknown and not self.journal.exists():
            raise InvalidInput(tuple(conf.problems))
        name = conf.get("ClusterName", "cluster")
        controller = Slurmctld(conf, empty_accounts(name), _unattached, head["t"])
        site = Site(controller, host=head["host"], uids=dict(head["uids"]))
        try:
            read_dump(Call(site, "sacctmgr", [], {}, "root", "/"), head["accounts"])
        except DumpProblem as bad:
            raise InvalidInput((FieldProblem("accounts", 0, "", "", str(bad)),)) from None
        controller.accounts_changed()
        self.host = Host(site, self.folder / "bin")
        self.host.attach()

    def _resume(self) -> None:
        """Play the journal again. Raises: WorldError for a damaged one, UserError for another configuration."""
        records = list(self.journal.read())
        if not records or records[0][1].get("format") != FORMAT:
            raise WorldError(
                f"{self.journal.path}: this is no journal of a Slurm cluster that this version reads"
            )
        head = records[0][1]
        if (self.texts is not None and dict(self.texts) != head["texts"]) or (
            self.accounts is not None and self.accounts != head["accounts"]
        ):
            raise UserError(
                f"{self.folder} holds a cluster of another configuration, which it keeps; leave --conf and --accounts "
                "out, name another folder, or delete it with fairway slurm down --wipe"
            )
        self._build(head)
        host, calls = self.host, dict[int, Connection]()
        host.replayed = {(w["job"], w["version"], w["op"]) for _, w in records if "version" in w}
        for number, what in records[1:]:
            self._to(what["t"])
            try:
                self._again(what, calls)
            except (KeyError, TypeError, AttributeError, WorldError) as failed:
                said = failed if isinstance(failed, WorldError) else f"{type(failed).__name__}: {failed}"
                made = head["fairway"]
                raise WorldError(
                    f"{self.journal.path}:{number}: cannot be done again as it was ({said}); it was written by "
                    f"Fairway {made}, this is {__version__}"
                ) from failed
            host._look()
        self._to(max(records[-1][1]["t"], self.journal.marked()))
        host.replayed = None
        self.journal.open()
        host.record = self
        for connection in calls.values():
            host.left(connection)

    def _to(self, t: int) -> None:
        while (due := self.host.next_us()) is not None and due <= t:
            self.host.step(due)
        self.host.site.controller.advance(t)

    def _again(self, what: dict[str, Any], calls: dict[int, Connection]) -> None:
        host, op = self.host, what["op"]
        if op == "call":
            connection = calls[what["n"]] = Connection(None, number=what["n"], held=[])
            self.calls = what["n"]
            call = Call(
                host.site, what["name"], what["arguments"], what["environment"], what["user"], what["cwd"]
            )
            call.stdin, call.files = what["stdin"], what["files"]
            code = host.carry_out(connection, call)
            out = "".join(one.get("out", "") for one in connection.held or ())
            connection.held = None
            if (code, out) != (what["code"], what["out"]):
                before, now = (
                    f"{text.strip()[:60]!r} ({rc})" for text, rc in ((what["out"], what["code"]), (out, code))
                )
                raise WorldError(f"{call.name} answered {before}, now {now}")
        elif op == "told":
            then = calls[what["n"]].then
            if then is not None:
                then(what["told"])
        elif op == "gone":
            host.left(calls[what["n"]])
        elif op == "began":
            self._began[what["job"], what["version"]] = what["pid"], what["ticks"]
        elif op == "ended":
            host.ended(what["job"], what["status"])
        elif op == "lost":
            host.site.controller.script_lost(what["job"])
        elif op == "pace":
            self.speed, self.paused = what["speed"], what["paused"]

    def _lose_scripts(self) -> None:
        """Jobs whose script ran as a process of the server that is gone."""
        controller = self.host.site.controller
        for job in list(controller.cluster.running.values()):
            does = controller.behaviours.get(job.job_id)
            if not job.batch or does is None or does.duration_s is not None:
                continue
            left = self._began.get((job.job_id, job.version))
            if left is not None:
                end_leftover(*left)
            self._add("lost", job=job.job_id)
            controller.script_lost(job.job_id)
        self._began.clear()

    # The record: see host.Record

    def call(self, connection: Connection, call: Call, code: int | None) -> None:
        words = [word for word in call.arguments if not word.startswith("-")]
        resets = call.name == "sdiag" and any(word in ("-r", "--reset") for word in call.arguments)
        if (call.name not in _CHANGING and not resets) or (
            call.name in ("scontrol", "sacctmgr") and words and words[0][:3].lower() in _READING
        ):
            return
        self.calls += 1
        connection.number = self.calls
        self._add(
            "call",
            n=self.calls,
            name=call.name,
            arguments=call.arguments,
            environment=dict(call.environment),
            user=call.user,
            cwd=call.cwd,
            stdin=call.stdin,
            files=call.files,
            code=code,
            out="".join(one.get("out", "") for one in connection.held or ()),
        )

    def told(self, connection: Connection, told: dict[str, Any]) -> None:
        self._add("told", n=connection.number, told=told)

    def gone(self, connection: Connection) -> None:
        self._add("gone", n=connection.number)

    def script(self, job: Job, what: str, **more: Any) -> None:
        self._add(what, job=job.job_id, version=job.version, **more)

    def _add(self, op: str, **what: Any) -> None:
        try:
            self.journal.add({"t": self.host.now_us, "op": op, **what})
        except OSError as failed:
            raise WorldError(f"{self.journal.path}: {failed.strerror}; the server stops") from failed

    # Time

    def _set_pace(self, speed: float | None, paused: bool | None) -> None:
        before = self.speed, self.paused
        self.speed = self.speed if speed is None else speed
        self.paused = self.paused if paused is None else paused
        self._count_from_here()
        if (self.speed, self.paused) != before:
            self._add("pace", speed=self.speed, paused=self.paused)

    def _count_from_here(self) -> None:
        self._from = time.monotonic_ns(), self.host.now_us

    def _target_us(self) -> int:
        """What time it should be."""
        return self.host.now_us if self.paused or self.advances else self._wall_us()

    def _wall_us(self) -> int:
        """As the clock on the wall and the speed have it."""
        since, us = self._from
        assert self.speed is not None
        return max(us + int((time.monotonic_ns() - since) // 1000 * self.speed), self.host.now_us)

    def catch_up(self) -> None:
        """Move time to where it should be, or as far as it comes in a slice."""
        self._move(self._target_us())
        self.journal.mark(self.host.now_us)

    def _move(self, to_us: int) -> bool:
        """False where the slice was over before, or scripts have to be looked at."""
        host, until = self.host, time.monotonic() + SLICE_S
        while (due := host.next_us()) is not None and due <= to_us:
            if time.monotonic() > until and due > host.now_us:
                if not self.advances:
                    self._count_from_here()
                return False
            host.step(due)
            if self.advances and host.processes.live:
                return False
        host.site.controller.advance(to_us)
        return True

    def run(self) -> None:
        """Serve until told to end. Raises: WorldError where the journal cannot be written."""
        try:
            while not self.ending:
                if self.advances:
                    self._advance()
                    continue
                self.catch_up()
                self.host.pump(self._pause_s())
        finally:
            self.host.record = None
            self.host.close()
            self.journal.mark(self.host.now_us)
            self.journal.close()

    def _pause_s(self) -> float:
        most = BUSY_S if self.host.processes.live else IDLE_S
        due = self.host.next_us()
        if due is None or self.paused or not self.speed:
            return most
        return min(max((due - self.host.now_us) / SECOND / self.speed, 0.0), most)

    def _advance(self) -> None:
        """Towards what was asked for first: at once where every script waits for time, as usual while one computes."""
        self.host.pump(0.0)
        self.advances = [one for one in self.advances if one[1].stream is not None]
        if not self.advances:
            self._count_from_here()
            return
        until, connection = self.advances[0]
        if self.host.is_quiet():
            self._move(until)
            self._count_from_here()
        else:
            self._move(min(until, self._wall_us()))
            self.host.pump(0.005)
        self.journal.mark(self.host.now_us)
        if self.host.now_us >= until:
            self.advances.pop(0)
            connection.send(out="", now_us=self.host.now_us, exit=0)

    # What the command line asks

    def _control(self, connection: Connection, asked: dict[str, Any]) -> None:
        self.catch_up()
        name = asked.get("name")
        if name == "fairway-advance":
            base = max([self.host.now_us, *(until for until, _ in self.advances)])
            self.advances.append((base + max(int(asked["us"]), 0), connection))
        elif name == "fairway-pace":
            self._set_pace(asked.get("speed"), asked.get("paused"))
            self._status(connection)
        elif name == "fairway-status":
            self._status(connection)
        elif name == "nvidia-smi" and self.gpus is not None:
            environment = {str(k): str(v) for k, v in dict(asked.get("environment", {})).items()}
            out, code = self.gpus(self.host.site, environment, [str(a) for a in asked.get("arguments", [])])
            connection.send(**{"err" if code == 127 else "out": out}, exit=code)
        elif name == "slurmrestd":
            status, body = rest.answer(asked, self.host.site.token_key, self.rest_call, self.rest_run)
            connection.send(status=status, body=body)
        else:
            connection.send(err=f"{name}: error: no such command\n", exit=1)

    def rest_call(self, user: str) -> Call:
        """A call that a user of slurmrestd's API reads with."""
        return Call(self.host.site, "slurmrestd", [], {}, user, "/")

    def rest_run(
        self, user: str, words: list[str], environment: dict[str, str], cwd: str, stdin: str
    ) -> tuple[int, str, str]:
        """A command typed for one: recorded as every other. Its exit code, stdout and stderr."""
        call = Call(self.host.site, words[0], words[1:], environment, user, cwd)
        connection = Kept(None)
        self.host.answer(connection, call, stdin)
        out, err = ("".join(one.get(key, "") for one in connection.said) for key in ("out", "err"))
        return next((one["exit"] for one in connection.said if "exit" in one), 1), out, err

    def _status(self, connection: Connection) -> None:
        cluster = self.host.site.cluster
        connection.send(
            status={
                "cluster": self.host.site.name,
                "pid": os.getpid(),
                "nowUs": self.host.now_us,
                "speed": self.speed,
                "paused": self.paused,
                "nodes": len(cluster.nodes),
                "partitions": list(cluster.partitions),
                "pending": len(cluster.pending),
                "running": len(cluster.running),
                "ended": len(cluster.archive),
                "scripts": len(self.host.processes.live),
                "journalBytes": self.journal.path.stat().st_size,
            },
            exit=0,
        )


def _owner() -> str:
    """Who serves it, as accounts name users."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name.lower()
    except KeyError:
        return f"user{max(os.getuid(), FIRST_UID)}"


def _unattached(job: Job, now: int) -> Any:
    raise AssertionError("the host says what scripts do")


def serve(server: Server, told: Callable[[Server], None]) -> None:
    """The life of a started server."""
    import signal

    def end(number: int, frame: object) -> None:
        server.ending = True

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    server.start()
    told(server)
    server.run()
