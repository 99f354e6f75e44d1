"""exec and attach in a simulated container: a command that plays what it does, a shell that reads lines, a watcher.

Commands are worked out at once and played in the cluster's time: after `sleep 5` the rest comes five of its seconds
later, and while the clock is paused it does not come.
"""

from __future__ import annotations

import asyncio

from fairway.apiserver.kubelets import archives, running
from fairway.apiserver.kubelets.containerlogs import SimulatedLog, status_of
from fairway.apiserver.kubelets.files import MAX_BYTES, Files
from fairway.apiserver.kubelets.interface import Invocation, Remote
from fairway.apiserver.kubelets.invocation import Run, Said
from fairway.apiserver.kubelets.place import Place
from fairway.kube.objects import Key

_LOOK_EVERY_S = 0.1
_FOLLOW_EVERY_S = 0.5
# Archives are a little larger than what is in them.
_MAX_STDIN = MAX_BYTES + 4 * 1024 * 1024
# An interactive line longer than this is nobody's typing.
_MAX_LINE_BYTES = 64 * 1024
_END_OF_FILE, _INTERRUPT = b"\x04", b"\x03"
_INTERRUPTED = 130


class _Written:
    """What a process writes; with a terminal, lines end as terminals end them."""

    def __init__(self, remote: Remote, what: Invocation) -> None:
        self._remote = remote
        self._tty = what.tty

    def put(self, data: bytes, *, is_error: bool = False) -> None:
        if self._tty:
            self._remote.write(data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
        elif is_error:
            self._remote.write_error(data)
        else:
            self._remote.write(data)

    def exit(self, code: int) -> None:
        self._remote.exit(code)


class CommandProcess:
    """A command. One that reads its input waits for the end of it."""

    def __init__(self, place: Place, files: Files, what: Invocation, remote: Remote) -> None:
        self._place = place
        self._files = files
        self._argv = list(what.argv)
        self._out = _Written(remote, what)
        self._tty = what.tty
        self._waits = what.stdin and running.needs_input(self._argv)
        self._is_archive = self._waits and running.reads_archive(self._argv)
        self._input = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._left: list[Said] = []
        self._code: int
        self._ends_us: int
        self._is_over = False

    def begin(self) -> None:
        if not self._waits:
            self._run()

    def receive(self, data: bytes) -> None:
        if self._tty and _INTERRUPT in data:
            self._end(_INTERRUPTED)
            return
        if not self._waits or self._is_over:
            return
        self._input += data
        if len(self._input) > _MAX_STDIN:
            self._out.put(b"simulated container: too much input\n", is_error=True)
            self._end(1)
        elif self._tty and _END_OF_FILE in data:
            del self._input[self._input.index(_END_OF_FILE) :]
            self._run()
        elif self._is_archive and archives.is_complete(self._input):
            self._run()

    def receive_end(self) -> None:
        if self._waits:
            self._run()

    def resize(self, columns: int, rows: int) -> None:
        """Nothing it prints depends on it."""

    def hang_up(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> None:
        """Work it out, then play it."""
        if self._is_over:
            return
        self._waits = False
        done = running.run(self._argv, self._place, self._files, bytes(self._input))
        self._input.clear()
        self._left, self._code = done.said, done.code
        self._ends_us = self._place.at_us + done.elapsed_us
        self._play()

    def _play(self) -> None:
        passed_us = self._place.store.now_us - self._place.at_us
        due = [said for said in self._left if said.after_us <= passed_us]
        self._left = self._left[len(due) :]
        for said in due:
            self._out.put(said.data, is_error=said.is_error)
        if not self._left and self._place.store.now_us >= self._ends_us:
            self._end(self._code)
        else:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_EVERY_S, self._play)

    def _end(self, code: int) -> None:
        if not self._is_over:
            self.hang_up()
            self._out.exit(code)


class ShellProcess:
    """A shell somebody types into, line by line."""

    def __init__(self, place: Place, files: Files, what: Invocation, remote: Remote) -> None:
        self._place = place
        self._files = files
        self._out = _Written(remote, what)
        self._tty = what.tty
        self._line = b""
        self._last: Run | None = None
        self._is_over = False

    def begin(self) -> None:
        self._prompt()

    def receive(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._tty:
            self._out.put(data.replace(b"\r", b"\n"))
        self._line += data
        if len(self._line) > _MAX_LINE_BYTES or (self._tty and _END_OF_FILE in data):
            self._end()
            return
        *lines, self._line = self._line.replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if not self._entered(line.rpartition(_INTERRUPT)[2].decode("utf-8", "replace")):
                return

    def receive_end(self) -> None:
        if self._line and not self._entered(self._line.decode("utf-8", "replace")):
            return
        self._end()

    def resize(self, columns: int, rows: int) -> None:
        """Nothing it prints depends on it."""

    def hang_up(self) -> None:
        self._is_over = True

    def _entered(self, line: str) -> bool:
        """One line; false when it was the last."""
        place = self._place._replace(at_us=self._place.store.now_us)
        self._last = running.run(["sh", "-c", line], place, self._files, before=self._last)
        for said in self._last.said:
            self._out.put(said.data, is_error=said.is_error)
        if self._last.is_over:
            self._end()
            return False
        self._prompt()
        return True

    def _prompt(self) -> None:
        if self._tty:
            self._out.put(b"# ")

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._out.exit(0 if self._last is None else self._last.code)


class AttachedProcess:
    """What the container writes, until it ends."""

    def __init__(self, key: Key, container: str, log: SimulatedLog, place: Place, out: _Written) -> None:
        self._key = key
        self._container = container
        self._log = log
        self._place = place
        self._out = out
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        lines = self._log.read()
        if lines:
            self._out.put("".join(f"{line}\n" for _, line in lines).encode())
        if self._log.is_over:
            self._out.exit(self._exit_code())
            return
        self._timer = asyncio.get_running_loop().call_later(_FOLLOW_EVERY_S, self.begin)

    def receive(self, data: bytes) -> None:
        """It does not read its input."""

    def receive_end(self) -> None: ...

    def resize(self, columns: int, rows: int) -> None: ...

    def hang_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _exit_code(self) -> int:
        pod = self._place.store.get(self._key)
        status = {} if pod is None else status_of(pod, self._container)
        for state in (status.get("state") or {}, status.get("lastState") or {}):
            if state.get("terminated"):
                return int(state["terminated"].get("exitCode") or 0)
        return 0


def attached(place: Place, what: Invocation, remote: Remote) -> AttachedProcess:
    """Raises: CannotConnect."""
    meta = place.pod["metadata"]
    key = Key("Pod", meta["namespace"], meta["name"])
    log = SimulatedLog(place.store, place.pod, place.container, previous=False)
    return AttachedProcess(key, place.container, log, place, _Written(remote, what))
