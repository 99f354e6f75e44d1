"""The host of a cluster: answers the commands of its socket, moves its time, runs its jobs' scripts."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import socket
import struct
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from fairway.slurm.behaviours import BadHint, known
from fairway.slurm.commands import jobtext
from fairway.slurm.commands.call import Call, Quit
from fairway.slurm.commands.environment import batch_variables
from fairway.slurm.commands.hetvariables import het_variables
from fairway.slurm.commands.site import Site
from fairway.slurm.lifecycle import Behaviour
from fairway.slurm.model.job import Job
from fairway.slurm.serving.connections import Connection
from fairway.slurm.serving.processes import Processes, ticks_of
from fairway.slurm.words.durations import stamp
from fairway.slurm.words.hostlist import HostlistError

COMMANDS = (
    "sbatch", "squeue", "sinfo", "scancel", "scontrol", "sacct", "sacctmgr", "sdiag", "sprio", "sreport", "sshare",
    "sstat",
)  # fmt: skip
INTERACTIVE = ("srun", "salloc")
SHIMS = ("sleep", "hostname", "nvidia-smi")
SECOND = 1_000_000
REQUEST_MOST = 8 << 20
"""Bytes of one request: an environment and a script from stdin."""
UNREAD_MOST = 64 << 20
"""Bytes of answers that a client has not read."""
CONNECTIONS_MOST = 512
OPEN_FAILED = 53
"""The signal number a job's exit code tells where its output file could not be opened."""


class Record(Protocol):
    """What makes requests last: told of each after it was carried out and before it is answered."""

    def call(self, connection: Connection, call: Call, code: int | None) -> None: ...
    def told(self, connection: Connection, told: dict[str, Any]) -> None: ...
    def gone(self, connection: Connection) -> None: ...
    def script(self, job: Job, what: str, **more: Any) -> None: ...


@dataclass(slots=True)
class Host:
    """See the module. `bin`: the folder with the commands' names; `user_of`: who a request is from."""

    site: Site
    bin: Path
    processes: Processes = field(default_factory=Processes)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    connections: set[Connection] = field(default_factory=set)
    sleeping: list[tuple[int, int, Connection]] = field(default_factory=list)
    """(until µs, number, who), sorted when looked at."""
    waiting: list[tuple[Callable[[], bool], Callable[[], None]]] = field(default_factory=list)
    sessions: set[int] = field(default_factory=set)
    """Sessions beside jobs' whose processes time must wait for."""
    record: Record | None = None
    control: Callable[[Connection, dict[str, Any]], None] | None = None
    """Answers requests that are no command of Slurm's."""
    catch_up: Callable[[], None] = lambda: None
    """Brings time to where it is before anything is done."""
    replayed: Collection[tuple[int, int, str]] | None = None
    """While a record is played again: what became of scripts then (job, its version, what)."""
    _listener: socket.socket | None = None

    def open(self, path: Path) -> None:
        """Listen at a socket, and put the commands' names beside it."""
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        folder, before = os.open(path.parent, os.O_PATH), os.umask(0o177)
        try:  # by the folder's descriptor: an address has at most 108 bytes
            listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.umask(before)
            os.close(folder)
        listener.listen(128)
        listener.setblocking(False)
        self._listener = listener
        self.selector.register(listener, selectors.EVENT_READ)
        self.attach()

    def attach(self) -> None:
        """From now on the controller's jobs are ours to run."""
        controller = self.site.controller
        controller.behave = self.behave
        controller.on_signal = self.on_signal

    def close(self) -> None:
        if self._listener is not None:
            self.selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
        self.processes.kill_all()
        for connection in list(self.connections):
            self._drop(connection)
        self.selector.close()

    # Time

    @property
    def now_us(self) -> int:
        return self.site.controller.now_us

    def advance(self, to_us: int) -> None:
        """Let virtual time pass, event by event, each time until every process waits again."""
        self.settle()
        while (due := self.next_us()) is not None and due <= to_us:
            self._step(due)
        self.site.controller.advance(to_us)
        self.settle()

    def next_us(self) -> int | None:
        """When something happens next, by itself."""
        times = [
            t
            for t in (self.site.controller.next_event_us(), min((s[0] for s in self.sleeping), default=None))
            if t is not None
        ]
        return max(min(times), self.now_us) if times else None

    def _step(self, due: int) -> None:
        self.step(due)
        self.settle()

    def step(self, due: int) -> None:
        """Time moves to the next thing that happens, and no further."""
        self.site.controller.advance(due)
        for entry in sorted(self.sleeping, key=lambda s: s[:2]):
            if entry[0] <= due:
                self.sleeping.remove(entry)
                entry[2].send(exit=0)
        self._look()

    def _look(self) -> None:
        """Do what was waited for."""
        again = True
        while again:
            again = False
            for entry in list(self.waiting):
                if entry in self.waiting and entry[0]():
                    self.waiting.remove(entry)
                    entry[1]()
                    again = True

    def when(self, ready: Callable[[], bool], then: Callable[[], None]) -> None:
        self.waiting.append((ready, then))
        self._look()

    def settle(self) -> None:
        """Answer and reap until every process waits for time to pass."""
        quiet = 0
        while quiet < 2:
            acted = self.pump(0.0)
            if not self.processes.live and not self.sessions:
                if not acted:
                    return
                continue
            if acted or self.are_busy():
                quiet = 0
                self.pump(0.001)
            else:
                quiet += 1
                if quiet < 2 and self.pump(0.001):
                    quiet = 0

    def is_quiet(self) -> bool:
        """Does every process wait for time to pass? Looked at twice, so that one just waking up is seen."""
        if not self.processes.live and not self.sessions:
            return True
        return not any(self.are_busy() or self.pump(0.001) for _ in range(2))

    def are_busy(self) -> bool:
        """Does a process of a job or session compute? A client that waits for our answer does not."""
        waiting = {c.pid: c.waits for c in self.connections if c.pid}
        return self.processes.are_busy(waiting, tuple(self.sessions))

    def pump(self, timeout_s: float) -> bool:
        """Answer what has come, reap what has ended; True if there was anything."""
        acted = False
        for key, what in self.selector.select(timeout_s):
            acted = True
            if key.fileobj is self._listener:
                self._accept()
            elif what & selectors.EVENT_WRITE:
                key.data.push()
            else:
                self._receive(key.data)
        for _, job_id, status in self.processes.ended():
            acted = True
            self._script_ended(job_id, status)
        for connection in list(self.connections):
            self._await(connection)
        return acted

    def _await(self, connection: Connection) -> None:
        """Look for what a client can do next: send, or take what it has not yet read."""
        assert connection.stream is not None
        if len(connection.unsent) > UNREAD_MOST:
            self._drop(connection)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        if self.selector.get_key(connection.stream).events != wanted:
            self.selector.modify(connection.stream, wanted, connection)

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            stream, _ = self._listener.accept()
        except OSError:  # it has gone again, or there are too many
            return
        stream.setblocking(False)
        told = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, uid, _ = struct.unpack("3i", told)
        if uid not in (0, os.getuid()) or len(self.connections) >= CONNECTIONS_MOST:
            stream.close()
            return
        connection = Connection(stream, pid=pid, uid=uid)
        self.connections.add(connection)
        self.selector.register(stream, selectors.EVENT_READ, connection)

    def _receive(self, connection: Connection) -> None:
        if connection.stream is None:
            return
        try:
            data = connection.stream.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(connection.data) > REQUEST_MOST:
            self._drop(connection)
            return
        connection.data += data
        while b"\n" in connection.data:
            line, _, connection.data = connection.data.partition(b"\n")
            try:
                message = json.loads(line)
                if not isinstance(message, dict):
                    raise ValueError("expected an object")
                connection.waits = True
                then, connection.then = connection.then, None
                (then or (lambda m: self._request(connection, m)))(message)
            except Exception as failed:  # one request stops nobody's cluster
                if os.environ.get("FAIRWAY_DEBUG"):
                    raise
                sys.stderr.write(f"a request was dropped: {type(failed).__name__}: {str(failed)[:200]}\n")
                self._drop(connection)
                return

    def _drop(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)
            assert connection.stream is not None
            self.selector.unregister(connection.stream)
            connection.stream.close()
            connection.stream = None
            self.sleeping = [s for s in self.sleeping if s[2] is not connection]
            if connection.gone is not None and self._listener is not None:
                self.left(connection)

    def left(self, connection: Connection) -> None:
        """Its client has gone: what it held ends."""
        self.catch_up()
        gone, connection.gone, connection.then = connection.gone, None, None
        if gone is not None:
            gone()
            if self.record is not None:
                self.record.gone(connection)
            self._look()

    def try_now(self, job: Job) -> None:
        """Who types srun or salloc waits for the answer: the scheduler looks at once, if nobody is before the job."""
        self.site.controller.consider(job)

    # Commands

    def _request(self, connection: Connection, asked: dict[str, Any]) -> None:
        name = str(asked.get("name"))
        words = [str(w) for w in asked.get("arguments", [])]
        if name == "sleep":
            self.catch_up()
            self._sleep(connection, words)
            return
        if name not in (*COMMANDS, *INTERACTIVE) and self.control is not None:
            self.control(connection, asked)
            return
        environment = {str(k): str(v) for k, v in asked.get("environment", {}).items()}
        user = environment.pop("FAIRWAY_AS", "") or self.site.user(connection.uid)
        cwd = self.site.shown_path(str(asked.get("cwd", "/")))
        call = Call(self.site, name, words, environment, user, cwd)
        needs = (name == "sbatch" and not any(w.startswith("--wrap") for w in words)) or name in (
            "scontrol",
            "sacctmgr",
            "sreport",
        )
        if needs and _reads_stdin(name, words):
            connection.then = lambda told: self.answer(connection, call, str(told.get("stdin", "")))
            connection.send(need="stdin")
            return
        self.answer(connection, call, "")

    def answer(self, connection: Connection, call: Call, stdin: str) -> None:
        call.stdin = stdin
        self.catch_up()
        connection.held = []
        try:
            code = self.carry_out(connection, call)
            if self.record is not None:
                self.record.call(connection, call, code)
        finally:
            connection.release()
        self._look()

    def carry_out(self, connection: Connection, call: Call) -> int | None:
        """Run a command; returns its exit code, None for one that goes on."""
        if call.name in INTERACTIVE:
            from fairway.slurm.serving import interactive

            interactive.begin(self, connection, call)
            return None
        code = run(call)
        if code == 0 and call.waits_for:
            connection.flush(call)
            self.when(lambda: self._have_ended(call.waits_for), lambda: self._told_end(connection, call))
            return None
        connection.flush(call, code)
        return code

    def _of(self, number: int) -> list[Job]:
        """Records of a job, an array or a heterogeneous job."""
        jobs = self.site.cluster.jobs.values()
        return [job for job in jobs if number in (job.job_id, job.array_job_id, job.het_job_id)]

    def _have_ended(self, number: int) -> bool:
        return all(job.finished for job in self._of(number))

    def _told_end(self, connection: Connection, call: Call) -> None:
        """sbatch --wait ends as its job, or the worst of its tasks, did."""
        codes = [128 + job.signal if job.signal else job.exit_code for job in self._of(call.waits_for)]
        connection.flush(call, max(codes, default=0))

    def answer_told(self, connection: Connection, told: dict[str, Any], then: Callable[[], None]) -> None:
        """What a client says of tasks it ran: recorded before it is answered."""
        self.catch_up()
        connection.held = []
        try:
            then()
            if self.record is not None:
                self.record.told(connection, told)
        finally:
            connection.release()
        self._look()

    def _sleep(self, connection: Connection, words: list[str]) -> None:
        from fairway.slurm.behaviours import seconds_of

        total = 0.0
        for word in words:
            try:
                total += float(word)
            except ValueError:
                total += seconds_of(word) or 0.0
        self.sleeping.append((self.now_us + int(min(total, 1e9) * SECOND), len(self.sleeping), connection))

    # Jobs

    def behave(self, job: Job, now: int) -> Behaviour:
        """Called by the controller when a job starts: known beforehand, or run as a process."""
        if not job.batch:
            return Behaviour(None)
        again = self.replayed is not None
        streams = None if again else self._streams(job)
        if streams is None and (not again or (job.job_id, job.version, "unopened") in (self.replayed or ())):
            self._script(job, "unopened")
            return Behaviour(0, 0, OPEN_FAILED)
        try:
            does = known(job.request.script)
        except BadHint:
            does = None
        if does is None:
            if streams is not None:
                self._start_script(job, streams)
            return Behaviour(None)
        for one in set(streams or ()):
            os.close(one)
        return Behaviour(does.runtime_s, does.exit_code)

    def _script(self, job: Job, what: str, **more: Any) -> None:
        if self.record is not None and self.replayed is None:
            self.record.script(job, what, **more)

    def _streams(self, job: Job) -> tuple[int, int, int] | None:
        """stdin, stdout, stderr; None where one cannot be opened."""
        extra, site = job.request.extra, self.site
        append = "a" in str(
            extra.get("open_mode") or ("a" if site.conf.is_on("JobFileAppend") or job.restarts else "t")
        )
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
        opened: list[int] = []
        try:
            opened.append(_opened(site.real_path(jobtext.batch_path(site, job, "in")), os.O_RDONLY))
            out = jobtext.batch_path(site, job, "out")
            opened.append(_opened(_real(site, out), flags))
            err = jobtext.batch_path(site, job, "err")
            opened.append(opened[1] if err == out else _opened(_real(site, err), flags))
        except (OSError, ValueError):  # a path may have NUL bytes
            for one in set(opened):
                os.close(one)
            return None
        return opened[0], opened[1], opened[2]

    def _start_script(self, job: Job, streams: tuple[int, int, int]) -> None:
        path = self.bin / f"job{job.job_id:05d}" / "slurm_script"
        environment = dict(job.request.environment) | batch_variables(self.site, job)
        environment |= het_variables(self.site, job)
        environment |= {"FAIRWAY_AS": job.user, "FAIRWAY_SOCKET": str(self.bin / "socket")}
        environment["PATH"] = f"{self.bin / 'jobs'}:{self.bin}:{environment.get('PATH', os.defpath)}"
        cwd = self.site.real_path(job.request.work_dir)
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_text(job.request.script, encoding="utf-8", errors="surrogateescape")
            path.chmod(0o700)
            pid = self.processes.start(
                job.job_id,
                [str(path), *job.request.argv],
                environment,
                cwd if os.path.isdir(cwd) else "/",
                streams,
            )
            self._script(job, "began", pid=pid, ticks=ticks_of(pid))
        except (OSError, ValueError):  # no variable of a process has NUL bytes, no name of one `=`
            self._script(job, "ended", status=127 << 8)
            self.site.controller.finish(job.job_id, 127)
        finally:
            for one in set(streams):
                os.close(one)

    def _script_ended(self, job_id: int, status: int) -> None:
        self.catch_up()
        shutil.rmtree(self.bin / f"job{job_id:05d}", ignore_errors=True)
        self._script(self.site.cluster.jobs[job_id], "ended", status=status)
        self.ended(job_id, status)

    def ended(self, job_id: int, status: int) -> None:
        """A script has ended so."""
        self.site.controller.finish(
            job_id, os.waitstatus_to_exitcode(status) if status & 0x7F == 0 else 0, status & 0x7F
        )
        self._look()

    def on_signal(self, job: Job, number: int) -> None:
        """Told by the controller of every signal a running job is sent."""
        if self.replayed is not None:
            return
        final = job.state not in ("RUNNING", "SUSPENDED")
        if final and job.batch:
            why = (
                " DUE TO TIME LIMIT"
                if job.state == "TIMEOUT"
                else " DUE TO PREEMPTION"
                if job.state == "PREEMPTED"
                else ""
            )
            head = f"slurmstepd-{job.batch_host}: error: *** JOB {job.job_id} ON {job.batch_host}"
            self._note(job, f"{head} CANCELLED AT {stamp(self.site.now)}{why} ***\n")
        which = "" if final else job.request.extra.get("signal_only", "")
        if which in ("", "batch"):
            self.processes.signal(job.job_id, number, others=not which)
            return
        steps = [s for s in job.steps if not s.end and which in ("steps", f".{s.step_id}")]
        self.processes.signal_below([s.extra["pid"] for s in steps if "pid" in s.extra], number)

    def _note(self, job: Job, text: str) -> None:
        """A line of slurmstepd's into the job's stderr."""
        path = jobtext.batch_path(self.site, job, "err")
        with contextlib.suppress(OSError):
            descriptor = _opened(self.site.real_path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.set_blocking(descriptor, False)  # a full pipe is not waited for either
            with open(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)


def _opened(path: str, flags: int) -> int:
    """An open file; a pipe is not waited for, whoever is at its other end. Raises: OSError, ValueError."""
    opened = os.open(path, flags | os.O_NONBLOCK, 0o644)
    os.set_blocking(opened, True)
    return opened


def _real(site: Site, path: str) -> str:
    """Where an output file lies; `none` is nowhere."""
    return "/dev/null" if path.rsplit("/", 1)[-1] == "none" else site.real_path(path)


def _reads_stdin(name: str, words: list[str]) -> bool:
    """Does this command line read stdin? sbatch without a script, scontrol and sacctmgr without a command or -i."""
    if name == "sbatch":
        from fairway.slurm.commands.getopt import job_options

        required = {o.letter for o in job_options("sbatch") if o.argument == "required" and o.letter}
        names = {o.name for o in job_options("sbatch") if o.argument == "required"}
        skip = False
        for word in words:
            if skip:
                skip = False
            elif word.startswith("--"):
                skip = "=" not in word and any(n.startswith(word[2:]) for n in names) and word != "--"
            elif word.startswith("-") and len(word) > 1:
                skip = word[1] in required and len(word) == 2
            else:
                return False
        return not any(w in ("-h", "--help", "--usage", "-V", "--version") for w in words)
    plain = [w for w in words if not w.startswith("-")]
    if not plain:
        return not any(w in ("-h", "--help", "--usage", "-V", "--version") for w in words)
    return (
        name == "sacctmgr"
        and plain[0][:1] in "admcr"
        and not any(
            w in ("-i", "--immediate") or (w[:1] == "-" and w[1:2] != "-" and "i" in w) for w in words
        )
    )


def run(call: Call) -> int:
    """One command that ends at once; returns its exit code."""
    if call.name not in COMMANDS:
        call.say(f"{call.name}: error: no such command")
        return 1
    function = getattr(import_module(f"fairway.slurm.commands.{call.name}"), call.name)
    try:
        function(call)
    except Quit as left:
        return left.code
    except HostlistError as bad:
        call.error(bad.reason or str(bad))
        return 1
    return call.code


def install(folder: Path) -> None:
    """Put the commands' names into a folder, and what jobs find instead of this machine's below it."""
    source = Path(__file__).with_name("client.py").read_text(encoding="utf-8")
    (folder / "jobs").mkdir(parents=True, exist_ok=True)
    client = folder / "client"
    client.write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
    client.chmod(0o755)
    for name in _names(folder):
        name.unlink(missing_ok=True)
        name.symlink_to(client)


def _names(folder: Path) -> Iterator[Path]:
    yield from (folder / name for name in (*COMMANDS, *INTERACTIVE))
    yield from (folder / "jobs" / name for name in SHIMS)
