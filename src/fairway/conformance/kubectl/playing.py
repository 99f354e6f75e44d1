"""Plays a recorded kubectl session against a fresh server, and says which commands agree.

The server runs in a process and a folder of its own, in wall time, because that is what kubectl's waits were
recorded in. Commands run in a shell, in that folder, with that server's kubeconfig: a recording is a script, and
is trusted as one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from fairway.apiserver.folders import running
from fairway.conformance.kubectl.comparing import is_same
from fairway.conformance.kubectl.session import Command, Join, Step, Wait, read_session
from fairway.conformance.verification import Difference, Verification
from fairway.errors import UserError, WorldError

_START_TIMEOUT_S = 60.0
# A recorded command waits for tens of seconds at most; one that does not come back would hold up the rest.
_COMMAND_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 20.0
_TIMED_OUT = 124


def verify_session(file: Path, progress: Callable[[Command], None] | None = None) -> Verification:
    """Play a recording.

    Raises: InvalidInput (no recording), UserError (no kubectl), WorldError (the server does not start).
    """
    steps = read_session(file)
    if shutil.which("kubectl") is None:
        raise UserError("kubectl is not installed: this check plays a session with it")
    result = Verification()
    with tempfile.TemporaryDirectory(prefix="fairway-kubectl-") as folder:
        home = Path(folder)
        with fresh_server(home / "data") as kubeconfig:
            shell = _Shell(home, kubeconfig)
            for step in steps:
                _play(step, shell, result)
                if progress is not None and isinstance(step, Command):
                    progress(step)
    return result


def _play(step: Step, shell: _Shell, result: Verification) -> None:
    if isinstance(step, Wait):
        time.sleep(step.seconds)
        return
    if isinstance(step, Join):
        code, _, said = shell.run(
            "kubectl create --validate=false -f -", msgspec.json.encode(step.node).decode()
        )
        if code:
            raise WorldError(f"node {step.node['metadata']['name']} could not join: {said.strip()}")
        # A recorded node has joined when its kubelet has: that takes the moment it takes.
        shell.run(
            f"kubectl wait --for=condition=Ready node/{step.node['metadata']['name']} --timeout=30s", ""
        )
        return
    code, stdout, stderr = shell.run(step.text, step.stdin)
    result.count(_differences(step, code, stdout, stderr))


def _differences(step: Command, code: int, stdout: str, stderr: str) -> list[Difference]:
    found = []
    if code != step.exit_code:
        found.append(Difference(step.line, step.text, "exit code", str(step.exit_code), str(code)))
    for aspect, wanted, got in (("stdout", step.stdout, stdout), ("stderr", step.stderr, stderr)):
        if not is_same(step.text, wanted, got):
            found.append(Difference(step.line, step.text, aspect, wanted, got))
    return found


class _Shell:
    """Runs recorded lines with the server's kubeconfig and a cache of its own."""

    def __init__(self, home: Path, kubeconfig: str) -> None:
        self._home = home
        self._env = {
            **os.environ,
            "HOME": str(home),
            "KUBECONFIG": kubeconfig,
            "KUBECACHEDIR": str(home / "cache"),
            "LC_ALL": "C.UTF-8",
        }

    def run(self, line: str, stdin: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", line],
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_COMMAND_TIMEOUT_S,
                check=False,
                cwd=self._home,
                env=self._env,
            )
        except subprocess.TimeoutExpired:
            return _TIMED_OUT, "", f"did not end within {_COMMAND_TIMEOUT_S:.0f} s"
        return done.returncode, done.stdout, done.stderr


@contextmanager
def fresh_server(data: Path, **settings: Any) -> Iterator[str]:
    """The kubeconfig of a server on an empty folder, stopped afterwards.

    As in the recorded clusters there is no metrics-server.

    Raises: WorldError.
    """
    given = {"data": str(data), "kubeconfig": None, "fleet": [], "metrics_server": False, **settings}
    text = msgspec.json.encode(given).decode()
    data.mkdir(parents=True)
    with open(data / "server.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "fairway.apiserver", text],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield _started(process, data)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _started(process: subprocess.Popen[bytes], data: Path) -> str:
    until_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < until_s and process.poll() is None:
        found = running(data)
        if found is not None:
            return found.kubeconfig
        time.sleep(0.02)
    said = (data / "server.log").read_text(encoding="utf-8", errors="replace").strip()
    raise WorldError(f"the server did not start: {said.splitlines()[-1] if said else 'no word of why'}")
