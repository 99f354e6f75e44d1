"""`kubectl logs`: a container's lines as the query wants them, to its end if the query follows.

What was written is the kubelet's to say (`kubelets.interface.LogReader`).

Source: pkg/registry/core/pod/rest/log.go; kubelet pkg/kubelet/kuberuntime/logs (v1.36).
"""

from __future__ import annotations

import asyncio

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.controlplanepods import ControllerLog, is_hosted
from fairway.apiserver.kubelets.interface import CannotConnect, Line, LogReader
from fairway.apiserver.statuses import bad_request, not_found
from fairway.apiserver.subresources.containers import container_named
from fairway.apiserver.watching import chunk
from fairway.apiserver.wire.connection import Connection
from fairway.apiserver.wire.messages import Answer, Request, Response
from fairway.kube.integers import natural
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339_micro

_TEXT = "text/plain"
_FOLLOW_EVERY_S = 0.5
_HEAD = (
    b"HTTP/1.1 200 OK\r\nCache-Control: no-cache, private\r\nContent-Type: text/plain\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def answer(api: Api, ask: Ask) -> Answer:
    """Raises: StatusError (400, 404)."""
    pod = api.store.get(ask.key)
    if pod is None:
        raise not_found(ask.resource.kind, ask.info.name)
    request = ask.request
    _check(request)
    name = container_named(pod, request.option("container"))
    node = pod["spec"].get("nodeName") or ""
    if not node and not is_hosted(pod):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    try:
        log: LogReader = (
            api.kubelets.of(node).log(pod, name, previous=request.flag("previous"))
            if node
            else ControllerLog(api.store, pod)
        )
        lines = log.read()
    except CannotConnect as why:
        raise bad_request(str(why)) from why
    text = "".join(_shown(request, lines, api.store.now_us))
    limit = request.option("limitBytes")
    if limit:
        text = text.encode()[: int(limit)].decode("utf-8", "ignore")
    if not request.flag("follow"):
        return Response(200, text.encode(), _TEXT)
    return _Following(request, log, text)


def _check(request: Request) -> None:
    """Numbers are numbers. Raises: StatusError (400)."""
    for name, least in (("tailLines", 0), ("sinceSeconds", 1), ("limitBytes", 1)):
        text = request.option(name)
        number = natural(text)
        if text and (number is None or number < least):
            raise bad_request(f"{name}: expected a whole number of {least} or more, not {text!r}")


def _shown(request: Request, lines: list[Line], now_us: int) -> list[str]:
    """The newest, the last, with times."""
    since = request.option("sinceTime")
    if since:
        try:
            since_us = parse_rfc3339(since)
        except ValueError as wrong:
            raise bad_request(f"sinceTime: {wrong}") from wrong
        lines = [line for line in lines if line[0] >= since_us]
    seconds = request.option("sinceSeconds")
    if seconds:
        lines = [line for line in lines if line[0] >= now_us - int(seconds) * SECOND_US]
    tail = request.option("tailLines")
    if tail:
        lines = lines[-int(tail) :] if int(tail) else []
    return _worded(request, lines)


def _worded(request: Request, lines: list[Line]) -> list[str]:
    stamped = request.flag("timestamps")
    return [f"{rfc3339_micro(at_us)} {said}\n" if stamped else f"{said}\n" for at_us, said in lines]


class _Following:
    """A log that goes on until its container's run ends or its pod is gone."""

    def __init__(self, request: Request, log: LogReader, first: str) -> None:
        self._request = request
        self._log = log
        self._first = first
        self._connection: Connection | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, connection: Connection) -> None:
        self._connection = connection
        connection.transport.write(_HEAD)
        self._go_on(self._first)

    def stop(self) -> None:
        self._connection = None
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._go_on("".join(_worded(self._request, self._log.read())))

    def _go_on(self, text: str) -> None:
        connection = self._connection
        if connection is None or connection.transport.is_closing():
            return
        if text:
            connection.transport.write(chunk(text.encode()))
        if self._log.is_over:
            self.stop()
            connection.transport.write(b"0\r\n\r\n")
            connection.done()
            return
        self._timer = asyncio.get_running_loop().call_later(_FOLLOW_EVERY_S, self._look)
