"""WebSockets: messages over an upgraded connection. The framing is wsproto's; what messages mean is `streaming`'s."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Callable

from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import LocalProtocolError

from fairway.apiserver.wire.connection import Connection
from fairway.apiserver.wire.messages import Request

# Of one message. kubectl's are 32 KiB, the Python client's as long as what is written at once.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TOO_BIG = 1009


def is_upgrade(request: Request) -> bool:
    return request.header("upgrade").lower() == "websocket" and bool(request.header("sec-websocket-key"))


def offered(request: Request) -> list[str]:
    """The client's protocols, the one it likes best first."""
    return [p.strip() for p in request.header("sec-websocket-protocol").split(",") if p.strip()]


class WebSocket:
    """A stream of messages; `on_gone` is called once when the client left or was cut off."""

    def __init__(
        self,
        request: Request,
        protocol: str,
        on_open: Callable[[], None],
        on_message: Callable[[bytes], None],
        on_gone: Callable[[], None],
    ) -> None:
        self._request = request
        self._protocol = protocol
        self._on_open = on_open
        self._on_message = on_message
        self._on_gone = on_gone
        self._frames = Frames(ConnectionType.SERVER)
        self._connection: Connection | None = None
        self._partial = bytearray()

    # wire.Stream

    def start(self, connection: Connection) -> None:
        self._connection = connection
        key = self._request.header("sec-websocket-key") + _GUID
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        chosen = f"Sec-WebSocket-Protocol: {self._protocol}\r\n" if self._protocol else ""
        connection.transport.write(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n{chosen}\r\n".encode()
        )
        connection.take_over(self._received)
        self._on_open()

    def stop(self) -> None:
        if self._connection is not None:
            self._connection = None
            self._on_gone()

    def send(self, message: bytes) -> None:
        connection = self._connection
        if connection is not None and not connection.transport.is_closing():
            connection.transport.write(self._frames.send(BytesMessage(message)))

    def close(self, code: int = 1000) -> None:
        connection = self._connection
        if connection is None or connection.transport.is_closing():
            return
        # The client may have closed it already.
        with contextlib.suppress(LocalProtocolError):
            connection.transport.write(self._frames.send(CloseConnection(code)))
        connection.transport.close()

    def _received(self, data: bytes) -> None:
        self._frames.receive_data(data)
        for event in self._frames.events():
            if isinstance(event, BytesMessage):
                self._piece(event.data, is_last=event.message_finished)
            elif isinstance(event, Ping):
                self._pong(event)
            elif isinstance(event, TextMessage):
                # The Python client sends its input so; it means the same bytes.
                self._piece(event.data.encode(), is_last=event.message_finished)
            elif isinstance(event, CloseConnection):
                # As the client said, or why its frame is none.
                self.close(event.code)
            if self._connection is None or self._connection.transport.is_closing():
                return

    def _piece(self, data: bytes | bytearray, *, is_last: bool) -> None:
        self._partial += data
        if len(self._partial) > MAX_MESSAGE_BYTES:
            self.close(_TOO_BIG)
        elif is_last and self._partial:
            message = bytes(self._partial)
            self._partial.clear()
            self._on_message(message)

    def _pong(self, event: Ping) -> None:
        if self._connection is not None:
            self._connection.transport.write(self._frames.send(event.response()))
