"""`kubectl exec`, `attach` and `port-forward` into simulated containers.

A simulated container has no process; it answers the commands people try first: `nvidia-smi` shows the GPUs the pod
has, `hostname`, `env`, `echo`, `cat /etc/hostname`, `true`, `false`, `date`, `ls`, `whoami`, `sh -c` of these. Anything
else is "not found", with exit code 127. Nothing of this machine is read or run.

Source: KEP-4006 (WebSockets), apiserver pkg/util/wsstream; kubelet's Status for exit codes (remotecommand).
"""

from __future__ import annotations

import asyncio
import shlex
from typing import Any

import msgspec

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.statuses import StatusError, bad_request, not_found
from fairway.apiserver.subresources import commands
from fairway.apiserver.subresources.logs import container_named, lines_so_far, status_of
from fairway.apiserver.wire.messages import Answer
from fairway.apiserver.wire.websocket import (
    ERROR,
    PORTFORWARD,
    PROTOCOLS,
    STDERR,
    STDOUT,
    Channels,
    chosen_protocol,
    is_upgrade,
)
from fairway.kube.objects import Obj

_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash", "ash")
# client-go drops what arrives before it has made its streams, a moment after the upgrade; a real process takes longer.
_STREAMS_READY_S = 0.1
_FOLLOW_EVERY_S = 0.5
# An interactive line longer than this is nobody's typing.
_MAX_LINE_BYTES = 64 * 1024


def answer(api: Api, ask: Ask) -> Answer:
    """Raises: StatusError (400, 404)."""
    pod = api.store.get(ask.key)
    if pod is None:
        raise not_found(ask.resource.kind, ask.info.name)
    if ask.info.subresource == "portforward":
        return _forwarded(ask, pod)
    name = container_named(pod, ask.request.option("container"))
    if ask.info.subresource == "exec" and not ask.request.query.get("command"):
        raise bad_request("you must specify at least 1 command for the container")
    if "running" not in (status_of(pod, name).get("state") or {}):
        raise bad_request(f"container {name} is not running: cannot {ask.info.subresource}")
    protocol = _protocol(ask, PROTOCOLS)
    session = _Session(api, ask, pod, name)
    return Channels(ask.request, protocol, session.opened, session.message)


def _protocol(ask: Ask, known: tuple[str, ...]) -> str:
    """Raises: StatusError (400): SPDY is not spoken, and every client since 1.31 tries WebSockets first."""
    if not is_upgrade(ask.request):
        raise bad_request("Upgrade request required: this server speaks WebSockets only, not SPDY")
    protocol = chosen_protocol(ask.request, known)
    if not protocol:
        asked = ask.request.header("sec-websocket-protocol")
        raise bad_request(
            f"unable to upgrade: none of the protocols {asked!r} is supported, only {', '.join(known)}"
        )
    return protocol


class _Session:
    """One exec or attach: a command that answers at once, or a shell that reads lines."""

    def __init__(self, api: Api, ask: Ask, pod: Obj, container: str) -> None:
        self._api = api
        self._pod = pod
        self._container = container
        self._argv = list(ask.request.query.get("command", ()))
        self._ask = ask
        self._is_attach = ask.info.subresource == "attach"
        has_stdin = ask.request.flag("stdin")
        self._is_shell = (
            not self._is_attach and has_stdin and len(self._argv) == 1 and self._argv[0] in _SHELLS
        )
        self._told = 0
        self._tty = ask.request.flag("tty")
        self._line = b""
        self._channels: Channels | None = None

    def opened(self, channels: Channels) -> None:
        self._channels = channels
        asyncio.get_running_loop().call_later(_STREAMS_READY_S, self._begin)

    def _begin(self) -> None:
        if self._is_attach:
            self._follow()
        elif self._is_shell:
            self._prompt()
        else:
            self._finish(self._run(self._argv))

    def _follow(self) -> None:
        """Attached: what the container writes, until it ends."""
        if self._channels is None or self._channels.is_closed:
            return
        pod = self._api.store.get(self._ask.key)
        state = {} if pod is None else status_of(pod, self._container).get("state") or {}
        if pod is not None and ("running" in state or "terminated" in state):
            lines = lines_so_far(self._api, self._ask, pod, self._container)
            self._say(STDOUT, "".join(f"{line}\n" for line in lines[self._told :]))
            self._told = len(lines)
        if "running" not in state:
            self._end((state.get("terminated") or {}).get("exitCode", 0))
            return
        asyncio.get_running_loop().call_later(_FOLLOW_EVERY_S, self._follow)

    def message(self, channel: int, data: bytes) -> None:
        if channel == 255 and data[:1] == b"\x00":
            self._end(0)
            return
        if channel != 0 or not self._is_shell:
            return
        if self._tty:
            self._say(STDOUT, data.replace(b"\r", b"\r\n").decode("utf-8", "replace"))
        self._line += data
        if len(self._line) > _MAX_LINE_BYTES or b"\x04" in data:
            self._end(0)
            return
        *lines, self._line = self._line.replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if not self._entered(line.decode("utf-8", "replace")):
                return

    def _entered(self, line: str) -> bool:
        """One line typed into the shell; false when it was the last."""
        try:
            argv = shlex.split(line)
        except ValueError:
            argv = []
        if argv and argv[0] == "exit":
            self._end(int(argv[1]) if len(argv) > 1 and argv[1].isdigit() else 0)
            return False
        if argv:
            result = self._run(argv)
            self._say(STDOUT, result.stdout)
            self._say(STDOUT if self._tty else STDERR, result.stderr)
        self._prompt()
        return True

    def _prompt(self) -> None:
        if self._tty:
            self._say(STDOUT, "# ")

    def _run(self, argv: list[str]) -> commands.Result:
        node = self._pod["spec"].get("nodeName") or ""
        return commands.run(argv, commands.Place(self._pod, self._container, node, self._api.store))

    def _finish(self, result: commands.Result) -> None:
        self._say(STDOUT, result.stdout)
        self._say(STDOUT if self._tty else STDERR, result.stderr)
        self._end(result.code)

    def _say(self, channel: int, text: str) -> None:
        if text and self._channels is not None:
            if self._tty:
                text = text.replace("\r\n", "\n").replace("\n", "\r\n")
            self._channels.send(channel, text.encode())

    def _end(self, code: int) -> None:
        if self._channels is None:
            return
        self._channels.send(ERROR, msgspec.json.encode(_exit_status(code)))
        self._channels.close()
        self._channels = None


def _exit_status(code: int) -> dict[str, Any]:
    """Source: remotecommandserver.NonZeroExitCodeReason."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _forwarded(ask: Ask, pod: Obj) -> Answer:
    """Nothing listens in a simulated pod: the client hears what a kubelet says of a closed port."""
    if (pod.get("status") or {}).get("phase") != "Running":
        phase = (pod.get("status") or {}).get("phase")
        raise bad_request(f"unable to forward port because pod is not running. Current status={phase}")
    if chosen_protocol(ask.request, PORTFORWARD) or not is_upgrade(ask.request):
        message = "simulated containers listen on no port: there is nothing to forward to"
        raise StatusError(400, "BadRequest", message)
    raise bad_request("unable to upgrade: portforward speaks no protocol offered")
