"""One client's connection: parse, ask the handler, answer in order, and bound everything it could abuse.

Requests of one connection are answered one after another. Bodies, headers and waiting requests are limited; a
client that sends too slowly, or reads too slowly, is cut off.

The parser is llhttp (`httptools`); asyncio's own TLS was measured faster than uvloop's here (decision 10).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import httptools

from fairway.apiserver.wire.gate import Gate, Guest
from fairway.apiserver.wire.messages import Answer, Request, Response, Stream, split_target
from fairway.kube.integers import natural

# Source: apiserver MaxRequestBodyBytes (3 MiB); net/http DefaultMaxHeaderBytes (1 MiB) is more than we ever need.
MAX_BODY_BYTES = 3 * 1024 * 1024
MAX_HEADER_BYTES = 64 * 1024
MAX_TARGET_BYTES = 16 * 1024
# Requests sent ahead of their answers. No client of Kubernetes pipelines; a few cost nothing.
MAX_AHEAD = 16
# A request must be complete this long after its first byte. Source: net/http ReadHeaderTimeout is 32 s there.
READ_TIMEOUT_S = 32.0
# How long the rest of what was refused is still taken, and thrown away.
LINGER_S = 1.0
# What a slow reader may leave unsent before it is cut off.
MAX_UNSENT_BYTES = 32 * 1024 * 1024


class Meter(Protocol):
    """Whoever counts requests."""

    def answered(self, request: Request, status: int, size: int) -> None:
        """A whole answer of `size` bytes has been sent."""

    def began(self, request: Request) -> None:
        """An answer goes on from here."""

    def ended(self, request: Request, status: int) -> None:
        """That answer is over."""


Handler = Callable[[Request], Answer]
WhenDurable = Callable[[int, Callable[[], None]], None]
Refusal = Callable[[int, str], Response]


class Connection(asyncio.Protocol):
    """A client. `user` is whatever authentication found for its certificate."""

    def __init__(
        self,
        handler: Handler,
        when_durable: WhenDurable,
        refusal: Refusal,
        everyone: set[Any],
        meter: Meter,
        gate: Gate,
    ) -> None:
        self._gate = gate
        self._meter = meter
        self._at_hand: Request | None = None
        self._handler = handler
        self._when_durable = when_durable
        self._refusal = refusal
        self._everyone = everyone
        self._parser: Any = httptools.HttpRequestParser(self)
        self._ahead: deque[Request] = deque()
        self._is_busy = False
        self._is_refused = False
        self._stream: Stream | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._upgraded: Callable[[bytes], None] | None = None
        self.transport: asyncio.Transport
        self.guest: Guest
        """As whom the gate knows this connection."""
        self.certificate_user: Any = None
        self._begin()

    def _begin(self) -> None:
        self._target = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = 0
        self._is_past_headers = False
        self._body: list[bytes] = []
        self._body_bytes = 0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._everyone.add(self)

    def connection_lost(self, _why: Exception | None) -> None:
        self._everyone.discard(self)
        self._disarm()
        if self._task is not None:
            self._task.cancel()
        self._end_stream()

    def data_received(self, data: bytes) -> None:
        if self._upgraded is not None:
            self._upgraded(data)
            return
        if self._is_refused:
            return
        if self._timer is None and not self._is_busy:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(READ_TIMEOUT_S, self._refuse, 408, "request was not sent in time")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._after_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as broken:
            self._refuse(400, f"malformed HTTP: {broken}")

    def _after_upgrade(self, rest: bytes) -> None:
        """What came behind a request for another protocol belongs to whoever took over, if anybody did."""
        if self._upgraded is not None:
            if rest:
                self._upgraded(rest)
            return
        # The upgrade was refused: what follows is HTTP again.
        self._parser = httptools.HttpRequestParser(self)
        if rest:
            self.data_received(rest)

    def pause_writing(self) -> None:
        if self.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.transport.abort()

    # httptools

    def on_url(self, url: bytes) -> None:
        self._target += url
        if len(self._target) > MAX_TARGET_BYTES:
            self._refuse(431, "request target too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_past_headers:
            # A trailer: whoever stands before us has not looked at it.
            return
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(431, "request headers too large")
            return
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        before = self._headers.get(key)
        self._headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        self._is_past_headers = True
        length = self._headers.get("content-length", "")
        if (natural(length) or 0) > MAX_BODY_BYTES:
            self._refuse(413, too_large())
        elif self._headers.get("expect", "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > MAX_BODY_BYTES:
            self._refuse(413, too_large())
            return
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._is_refused:
            return
        self._disarm()
        path, query = split_target(self._target.decode("latin-1"))
        method = self._parser.get_method().decode("ascii")
        request = Request(method, path, query, self._headers, b"".join(self._body), self)
        if not self._parser.should_keep_alive() and "connection" not in self._headers:
            self._headers["connection"] = "close"
        self._begin()
        if self._is_busy:
            self._ahead.append(request)
            if len(self._ahead) >= MAX_AHEAD:
                self.transport.pause_reading()
            return
        self._answer(request)

    # Answering

    def _answer(self, request: Request) -> None:
        self._is_busy = True
        self._gate.work(self.guest)
        answer = self._handler(request)
        if isinstance(answer, Response):
            self._send_when_durable(request, answer)
        elif isinstance(answer, Awaitable):
            self._task = asyncio.ensure_future(self._answer_later(request, answer))
        else:
            self._start_stream(request, answer)

    async def _answer_later(self, request: Request, coming: Awaitable[Response | Stream]) -> None:
        answer = await coming
        self._task = None
        if self.transport.is_closing():
            return
        if isinstance(answer, Response):
            self._send_when_durable(request, answer)
        else:
            self._start_stream(request, answer)

    def _send_when_durable(self, request: Request, response: Response) -> None:
        if response.durable:
            self._when_durable(response.durable, lambda: self._send(request, response))
        else:
            self._send(request, response)

    def _send(self, request: Request, response: Response) -> None:
        if self.transport.is_closing():
            return
        close = request.headers.get("connection", "").lower() == "close"
        body = b"" if request.method == "HEAD" else response.body
        self.transport.write(response.head(close=close) + body)
        self._meter.answered(request, response.status, len(body))
        if close:
            self.transport.close()
            return
        self.done()

    def done(self) -> None:
        """The answer at hand is complete: the next request's turn."""
        self._is_busy = False
        self._gate.rest(self.guest)
        self._stream = None
        self._note_end()
        if self._ahead:
            self.transport.resume_reading()
            # Not from here: a pipelining client could make this recurse as deep as it likes.
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        if self._ahead and not self._is_busy and not self.transport.is_closing():
            self._answer(self._ahead.popleft())

    def _start_stream(self, request: Request, stream: Stream) -> None:
        self._stream = stream
        self._at_hand = request
        self._meter.began(request)
        stream.start(self)

    def _end_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.stop()
        self._note_end()

    def _note_end(self) -> None:
        request, self._at_hand = self._at_hand, None
        if request is not None:
            self._meter.ended(request, 200 if self._upgraded is None else 101)

    def take_over(self, on_data: Callable[[bytes], None]) -> None:
        """From here on the bytes of this connection belong to somebody else (a WebSocket)."""
        self._upgraded = on_data

    def _refuse(self, code: int, why: str) -> None:
        """Answer what cannot be served and hang up: what follows cannot be trusted."""
        if self._is_refused:
            return
        self._is_refused = True
        self._disarm()
        if self._is_busy:
            self.transport.abort()
            return
        response = self._refusal(code, why)
        self.transport.write(response.head(close=True) + response.body)
        # Whoever is still sending would hear of a broken connection before they heard the answer.
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self.transport.close)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def too_large() -> str:
    """Source: apiserver request.RequestBodyLimit errors.NewRequestEntityTooLargeError."""
    return f"limit is {MAX_BODY_BYTES}"
