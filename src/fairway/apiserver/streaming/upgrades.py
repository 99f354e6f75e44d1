"""Which protocol does this client want its connection upgraded to?

Source: apimachinery pkg/util/httpstream/spdy/upgrade.go, apiserver pkg/util/wsstream (v1.36).
"""

from __future__ import annotations

from fairway.apiserver.statuses import StatusError, bad_request
from fairway.apiserver.streaming.spdysession import SpdySession
from fairway.apiserver.wire.connection import Connection
from fairway.apiserver.wire.messages import Request
from fairway.apiserver.wire.websocket import WebSocket, is_upgrade, offered

SPDY = "SPDY/3.1"
_STREAM_PROTOCOL = "X-Stream-Protocol-Version"


def is_websocket(request: Request) -> bool:
    return is_upgrade(request)


def websocket_protocol(request: Request, known: tuple[str, ...]) -> str:
    """The first of the client's protocols that is spoken here; "" is that of a client that names none.

    Raises: StatusError (400).
    """
    asked = offered(request)
    if not asked and "" in known:
        return ""
    for protocol in asked:
        if protocol in known:
            return protocol
    raise bad_request(
        f"unable to upgrade: none of the protocols {', '.join(asked) or '(none)'} is supported, "
        f"only {', '.join(protocol for protocol in known if protocol)}"
    )


def spdy_protocol(request: Request, known: tuple[str, ...]) -> str:
    """The first of ours that the client offers.

    Raises: StatusError (400, 403).
    """
    upgrade = request.header("upgrade").lower()
    if "upgrade" not in request.header("connection").lower() or upgrade != SPDY.lower():
        raise bad_request("Upgrade request required")
    asked = [p.strip() for p in request.header(_STREAM_PROTOCOL.lower()).split(",") if p.strip()]
    found = next((p for p in known if p in asked), "")
    if not found:
        said = f"unable to negotiate protocol: client supports {_go(asked)}, server accepts {_go(known)}"
        raise StatusError(403, "Forbidden", f"unable to upgrade: {said}")
    return found


def _go(words: list[str] | tuple[str, ...]) -> str:
    """A slice as Go prints it."""
    return f"[{' '.join(words)}]"


class SpdyUpgrade:
    """A connection that turns into SPDY."""

    def __init__(self, session: SpdySession, protocol: str) -> None:
        self._session = session
        self._protocol = protocol

    def start(self, connection: Connection) -> None:
        connection.transport.write(
            f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {SPDY}\r\n"
            f"{_STREAM_PROTOCOL}: {self._protocol}\r\n\r\n".encode()
        )

        def write(data: bytes) -> None:
            if not connection.transport.is_closing():
                connection.transport.write(data)

        self._session.attach(write, connection.transport.close)
        connection.take_over(self._session.received)

    def stop(self) -> None:
        self._session.gone()


def spdy_in_websocket(request: Request, session: SpdySession, protocol: str) -> WebSocket:
    """SPDY frames inside WebSocket messages; how they are cut means nothing."""

    def opened() -> None:
        session.attach(socket.send, socket.close)

    socket = WebSocket(request, protocol, opened, session.received, session.gone)
    return socket
