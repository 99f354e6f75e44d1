"""WebSocket messages: no bytes break the framing, and no message is larger than it may be."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, TextMessage

from fairway.apiserver.wire.messages import Request
from fairway.apiserver.wire.websocket import MAX_MESSAGE_BYTES, WebSocket


class Line:
    """A connection and its transport, at once."""

    def __init__(self) -> None:
        self.transport = self
        self.sent = b""
        self.is_over = False
        self.receive: Any = None

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.is_over = True

    def is_closing(self) -> bool:
        return self.is_over

    def take_over(self, on_data: Any) -> None:
        self.receive = on_data


def opened() -> tuple[Line, list[bytes]]:
    line, said = Line(), list[bytes]()
    request = Request("GET", "/", "", {"sec-websocket-key": "k"}, b"")
    WebSocket(request, "", lambda: None, said.append, lambda: None).start(line)  # type: ignore[arg-type]
    return line, said


def test_text_and_bytes_mean_the_same() -> None:
    line, said = opened()
    client = Frames(ConnectionType.CLIENT)
    line.receive(client.send(TextMessage("\x00ls\n")) + client.send(BytesMessage(b"\x00pwd\n")))
    assert said == [b"\x00ls\n", b"\x00pwd\n"]


def test_a_message_that_never_ends_is_cut_off() -> None:
    line, said = opened()
    client = Frames(ConnectionType.CLIENT)
    piece = bytes(1024 * 1024)
    for _ in range(MAX_MESSAGE_BYTES // len(piece) + 1):
        if not line.is_over:
            line.receive(client.send(BytesMessage(piece, message_finished=False)))
    assert line.is_over and said == []


@settings(max_examples=200)
@given(junk=st.lists(st.binary(max_size=80), max_size=5))
def test_no_bytes_break_the_framing(junk: list[bytes]) -> None:
    line, _ = opened()
    for data in junk:
        if not line.is_over:
            line.receive(data)
