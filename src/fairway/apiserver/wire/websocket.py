"""The other protocol of `exec`: frames over an upgraded connection, channels of bytes within them.

`v5.channel.k8s.io` and `v4.channel.k8s.io`: the first byte of a message is its channel: 0 stdin, 1 stdout, 2 stderr,
3 error (a Status at the end), 4 resize, 255 close (v5). The framing is wsproto's.

Source: apimachinery pkg/util/remotecommand/constants.go, KEP-4006.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from fairway.apiserver.wire.connection import Connection
from fairway.apiserver.wire.messages import Request

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
PORTFORWARD = ("v2.portforward.k8s.io",)
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def is_upgrade(request: Request) -> bool:
    return request.header("upgrade").lower() == "websocket" and bool(request.header("sec-websocket-key"))


def chosen_protocol(request: Request, known: tuple[str, ...] = PROTOCOLS) -> str:
    """The first of the client's protocols that is spoken here; empty where there is none."""
    asked = [p.strip() for p in request.header("sec-websocket-protocol").split(",")]
    return next((p for p in asked if p in known), "")


class Channels:
    """A stream of channel messages; `on_message` gets channel and bytes, `on_close` that the client left."""

    def __init__(
        self,
        request: Request,
        protocol: str,
        on_open: Callable[[Channels], None],
        on_message: Callable[[int, bytes], None],
    ) -> None:
        self._request = request
        self.protocol = protocol
        self._on_open = on_open
        self._on_message = on_message
        self._frames = Frames(ConnectionType.SERVER)
        self._connection: Connection | None = None
        self._partial = b""

    def start(self, connection: Connection) -> None:
        self._connection = connection
        key = self._request.header("sec-websocket-key") + _GUID
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        connection.transport.write(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {self.protocol}\r\n\r\n".encode()
        )
        connection.take_over(self._received)
        self._on_open(self)

    def stop(self) -> None:
        self._connection = None

    @property
    def is_closed(self) -> bool:
        return self._connection is None or self._connection.transport.is_closing()

    def send(self, channel: int, data: bytes) -> None:
        self._put(self._frames.send(BytesMessage(bytes((channel,)) + data)))

    def close(self) -> None:
        connection = self._connection
        if connection is not None:
            self._put(self._frames.send(CloseConnection(1000)))
            connection.transport.close()

    def _put(self, data: bytes) -> None:
        if self._connection is not None and not self._connection.transport.is_closing():
            self._connection.transport.write(data)

    def _received(self, data: bytes) -> None:
        self._frames.receive_data(data)
        for event in self._frames.events():
            if isinstance(event, BytesMessage):
                self._partial += bytes(event.data)
                if event.message_finished and self._partial:
                    message, self._partial = self._partial, b""
                    self._on_message(message[0], message[1:])
            elif isinstance(event, Ping):
                self._put(self._frames.send(event.response()))
            elif isinstance(event, (CloseConnection, TextMessage)):
                if self._connection is not None:
                    self._connection.transport.close()
                return
