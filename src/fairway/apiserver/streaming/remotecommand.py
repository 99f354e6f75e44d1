"""A process in a pod, and a client at the other end of WebSocket channels or SPDY streams.

Channels: the first byte of a message is its channel: 0 stdin, 1 stdout, 2 stderr, 3 error (a Status at the end),
4 resize, 255 close (v5 only). Streams: one each, named by the header `streamType`; the error stream carries the Status.

Source: apimachinery pkg/util/remotecommand/constants.go; client-go tools/remotecommand/{v4,v5}.go; kubelet
pkg/cri/streaming/remotecommand/{httpstream,websocket}.go (v1.36).
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from fairway.apiserver.kubelets.interface import Invocation, Process
from fairway.apiserver.streaming.spdysession import SpdySession, SpdyStream
from fairway.apiserver.streaming.upgrades import SpdyUpgrade
from fairway.apiserver.wire.messages import Request
from fairway.apiserver.wire.websocket import WebSocket

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
# Of clients from before v4, or that name no protocol: their error channel carries a sentence, not a Status.
_V1 = ("channel.k8s.io", "")
CHANNEL_PROTOCOLS = (V5, V4, *_V1)
STREAM_PROTOCOLS = (V4,)
# client-go drops what arrives before it has made its streams, a moment after the upgrade; a real process takes longer.
_STREAMS_READY_S = 0.1
# Source: kubelet streaming server's DefaultConfig.StreamCreationTimeout.
_STREAMS_DUE_S = 30.0
_MAX_RESIZE_BYTES = 1024


class Session:
    """What both have in common. `process` is set before anything starts; it is the kubelet's answer."""

    process: Process

    def __init__(self) -> None:
        self._is_over = False

    def _begin(self) -> None:
        if not self._is_over:
            self.process.begin()

    def _gone(self) -> None:
        if not self._is_over:
            self._is_over = True
            self.process.hang_up()

    def _resized(self, data: bytes) -> None:
        """A line of JSON: `{"Width":80,"Height":24}`."""
        if len(data) > _MAX_RESIZE_BYTES:
            return
        try:
            said = msgspec.json.decode(data)
            columns, rows = int(said["Width"]), int(said["Height"])
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            return
        if not self._is_over:
            self.process.resize(columns, rows)


class ChannelSession(Session):
    """Over a WebSocket."""

    def __init__(self, request: Request, protocol: str, refusal: str = "") -> None:
        """`refusal`: why there is no process; the client hears it as the Status of its error channel."""
        super().__init__()
        self._refusal = refusal
        self._protocol = protocol
        self.socket = WebSocket(request, protocol, self._opened, self._message, self._gone)

    def _opened(self) -> None:
        then = self._refuse if self._refusal else self._begin
        asyncio.get_running_loop().call_later(_STREAMS_READY_S, then)

    def _refuse(self) -> None:
        self._finish(refused_status(self._refusal))

    def _gone(self) -> None:
        if self._refusal:
            self._is_over = True
        super()._gone()

    def _message(self, message: bytes) -> None:
        if self._is_over or self._refusal:
            return
        channel, data = message[0], message[1:]
        if channel == STDIN:
            self.process.receive(data)
        elif channel == RESIZE:
            self._resized(data)
        elif channel == CLOSE and data[:1] == bytes((STDIN,)):
            self.process.receive_end()

    # kubelets.interface.Remote

    def write(self, data: bytes) -> None:
        self._put(STDOUT, data)

    def write_error(self, data: bytes) -> None:
        self._put(STDERR, data)

    def _put(self, channel: int, data: bytes) -> None:
        if data and not self._is_over:
            self.socket.send(bytes((channel,)) + data)

    def exit(self, code: int) -> None:
        self._finish(exit_status(code))

    def _finish(self, status: dict[str, Any]) -> None:
        if not self._is_over:
            sentence = str(status.get("message", "")).encode()
            self._put(ERROR, sentence if self._protocol in _V1 else msgspec.json.encode(status))
            self._is_over = True
            self.socket.close()


class StreamSession(Session):
    """Over SPDY: it begins when the client has opened all the streams it asked for."""

    def __init__(self, what: Invocation, protocol: str) -> None:
        super().__init__()
        wanted = [("stdin", what.stdin), ("stdout", what.stdout), ("stderr", what.stderr and not what.tty)]
        self._awaited = {"error", *(name for name, is_wanted in wanted if is_wanted)}
        if what.tty:
            self._awaited.add("resize")
        self._streams: dict[str, SpdyStream] = {}
        self._spdy = SpdySession(self._accept, self._gone)
        self.upgrade = SpdyUpgrade(self._spdy, protocol)
        self._deadline = asyncio.get_running_loop().call_later(_STREAMS_DUE_S, self._spdy.close)

    def _accept(self, stream: SpdyStream) -> bool:
        name = stream.headers.get("streamtype", "").lower()
        if name not in self._awaited:
            return False
        self._awaited.discard(name)
        self._streams[name] = stream
        if not self._awaited:
            self._deadline.cancel()
            # Not from here: the stream has not been answered yet.
            asyncio.get_running_loop().call_soon(self._ready)
        return True

    def _ready(self) -> None:
        self._begin()
        for name, taker in (("stdin", self._received), ("resize", self._resized), ("error", _ignored)):
            stream = self._streams.get(name)
            if stream is not None:
                stream.take(taker, self._received_all if name == "stdin" else _nothing)

    def give_up(self) -> None:
        """There is no process: nothing will be upgraded."""
        self._deadline.cancel()

    def _gone(self) -> None:
        self._deadline.cancel()
        super()._gone()

    def _received(self, data: bytes) -> None:
        if not self._is_over:
            self.process.receive(data)

    def _received_all(self) -> None:
        if not self._is_over:
            self.process.receive_end()

    # kubelets.interface.Remote

    def write(self, data: bytes) -> None:
        self._put("stdout", data)

    def write_error(self, data: bytes) -> None:
        self._put("stderr", data)

    def _put(self, name: str, data: bytes) -> None:
        stream = self._streams.get(name)
        if stream is not None and not self._is_over:
            stream.write(data)

    def exit(self, code: int) -> None:
        if self._is_over:
            return
        self._put("error", msgspec.json.encode(exit_status(code)))
        self._is_over = True
        for name in ("stdout", "stderr", "error"):
            if name in self._streams:
                self._streams[name].end()
        self._spdy.close()


def _ignored(_data: bytes) -> None:
    """Nobody writes there."""


def _nothing() -> None:
    """A client that ends its own side of other streams goes on."""


def exit_status(code: int) -> dict[str, Any]:
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


def refused_status(why: str) -> dict[str, Any]:
    """A kubelet's refusal as the API server translates it. Source: apiserver util/proxy/streamtranslator.go."""
    said = f"unable to upgrade connection: {why}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {said}",
        "reason": "InternalError",
        "details": {"causes": [{"message": said}]},
        "code": 500,
    }
