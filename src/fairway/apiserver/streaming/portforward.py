"""Connections to ports of a pod, over SPDY streams or WebSocket channels.

Streams come in pairs with the headers `streamType` (data, error), `port` and `requestID`; a pair is one connection.
Channels: two a port (data, error), each beginning with the port as two bytes; one connection per port.

Source: kubelet pkg/cri/streaming/portforward/{httpstream,websocket}.go (v1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairway.apiserver.kubelets.interface import CannotConnect, Peer, Port
from fairway.apiserver.statuses import bad_request
from fairway.apiserver.streaming.spdysession import SpdySession, SpdyStream
from fairway.apiserver.wire.messages import Request
from fairway.apiserver.wire.websocket import WebSocket

STREAM_PROTOCOL = "portforward.k8s.io"
TUNNELLED = f"SPDY/3.1+{STREAM_PROTOCOL}"
CHANNEL_PROTOCOLS = ("v4.channel.k8s.io", "")
# Ports in one request for channels.
_MAX_PORTS = 64
Connect = Callable[[int, Peer], Port]
"""Connects to a port of the pod. Raises: CannotConnect."""


class _Pair:
    """One connection: what the port writes goes to the data stream."""

    def __init__(self, data: SpdyStream, error: SpdyStream, forget: Callable[[_Pair], None]) -> None:
        self._data = data
        self._error = error
        self._forget = forget
        self._port: Port | None = None

    def open(self, connect: Connect, port: int, sandbox: str) -> None:
        try:
            self._port = connect(port, self)
        except CannotConnect as why:
            self._error.write(failed(port, sandbox, str(why)).encode())
            self.end()
            return
        self._data.take(self._port.receive, self._port.receive_end)

    # kubelets.interface.Peer

    def write(self, data: bytes) -> None:
        self._data.write(data)

    def end(self) -> None:
        self._data.end()
        self._error.end()
        self._forget(self)

    def hang_up(self) -> None:
        if self._port is not None:
            self._port.hang_up()


class ForwardStreams:
    """Over SPDY."""

    def __init__(self, connect: Connect, sandbox: str) -> None:
        self._connect = connect
        self._sandbox = sandbox
        self._waiting: dict[str, SpdyStream] = {}
        self._open: dict[_Pair, None] = {}
        self.session = SpdySession(self._accept, self._gone)

    def _accept(self, stream: SpdyStream) -> bool:
        kind, port = stream.headers.get("streamtype", ""), port_of(stream.headers.get("port", ""))
        request = stream.headers.get("requestid", "")
        if kind not in ("data", "error") or port is None or not request:
            return False
        other = self._waiting.get(request)
        if other is None:
            self._waiting[request] = stream
            return True
        if other.headers["streamtype"] == kind or other.headers["port"] != stream.headers["port"]:
            return False
        del self._waiting[request]
        data, error = (stream, other) if kind == "data" else (other, stream)
        # Not from here: the stream has not been answered yet.
        asyncio.get_running_loop().call_soon(self._join, port, data, error)
        return True

    def _join(self, port: int, data: SpdyStream, error: SpdyStream) -> None:
        pair = _Pair(data, error, self._forget)
        self._open[pair] = None
        pair.open(self._connect, port, self._sandbox)

    def _forget(self, pair: _Pair) -> None:
        self._open.pop(pair, None)

    def _gone(self) -> None:
        pairs, self._open = self._open, {}
        for pair in pairs:
            pair.hang_up()


class _Channel:
    """One port's two channels."""

    def __init__(self, socket: WebSocket, number: int, done: Callable[[], None]) -> None:
        self._socket = socket
        self._number = number
        self._done = done
        self.port: Port | None = None

    def open(self, connect: Connect, port: int, sandbox: str) -> None:
        said = port.to_bytes(2, "little")
        for number in (self._number, self._number + 1):
            self._socket.send(bytes((number,)) + said)
        try:
            self.port = connect(port, self)
        except CannotConnect as why:
            self._socket.send(bytes((self._number + 1,)) + failed(port, sandbox, str(why)).encode())
            self._done()

    # kubelets.interface.Peer

    def write(self, data: bytes) -> None:
        self._socket.send(bytes((self._number,)) + data)

    def end(self) -> None:
        self.port = None
        self._done()


class ForwardChannels:
    """Over a WebSocket; it ends when no port is connected any more."""

    def __init__(
        self, request: Request, protocol: str, ports: list[int], connect: Connect, sandbox: str
    ) -> None:
        self._ports = ports
        self._connect = connect
        self._sandbox = sandbox
        self.socket = WebSocket(request, protocol, self._opened, self._message, self._gone)
        self._channels: list[_Channel] = []
        self._left = len(ports)

    def _opened(self) -> None:
        self._channels = [_Channel(self.socket, 2 * i, self._done) for i in range(len(self._ports))]
        for channel, port in zip(self._channels, self._ports, strict=True):
            channel.open(self._connect, port, self._sandbox)

    def _message(self, message: bytes) -> None:
        place, is_error = divmod(message[0], 2)
        if not is_error and place < len(self._channels):
            port = self._channels[place].port
            if port is not None:
                port.receive(message[1:])

    def _done(self) -> None:
        self._left -= 1
        if not self._left:
            self.socket.close()

    def _gone(self) -> None:
        for channel in self._channels:
            if channel.port is not None:
                channel.port.hang_up()


def failed(port: int, sandbox: str, why: str) -> str:
    """What the error stream says."""
    return f"error forwarding port {port} to pod {sandbox}, uid : {why}"


def ports_asked(request: Request) -> list[int]:
    """The query's `ports`.

    Raises: StatusError (400).
    """
    words = [word for value in request.query.get("ports", ()) for word in value.split(",")]
    if not words:
        raise bad_request('query parameter "port" is required')
    if len(words) > _MAX_PORTS:
        raise bad_request(f"{len(words)} ports; at most {_MAX_PORTS} can be forwarded in one request")
    found = []
    for word in words:
        port = port_of(word)
        if port is None:
            raise bad_request(f'unable to parse "{word}" as a port: it must be a number from 1 to 65535')
        found.append(port)
    return found


def port_of(text: str) -> int | None:
    return (
        int(text) if text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536 else None
    )
