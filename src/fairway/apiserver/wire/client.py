"""A connection to somebody else's HTTPS server: one POST after another, while both sides keep it open.

Nothing here waits for longer than its caller does; a call that is given up closes its connection.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, NamedTuple

import httptools

MAX_ANSWER_BYTES = 3 * 1024 * 1024
_MAX_HEAD_BYTES = 64 * 1024
# Source: net/http Transport.IdleConnTimeout of client-go.
_IDLE_S = 90.0


class Target(NamedTuple):
    """Where to connect, whose certificate is expected, and what the Host header says."""

    address: tuple[str, int]
    host: str
    authority: str


class Unanswered(ConnectionError):
    """The other side hung up without a word."""


class Link(asyncio.Protocol):
    """One connection."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._transport: asyncio.Transport
        self._waiting: asyncio.Future[tuple[int, bytes]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._kept_in: list[Link] | None = None
        self.is_open = False
        self._begin()

    @classmethod
    async def open(cls, target: Target, context: ssl.SSLContext) -> Link:
        """Raises: OSError."""
        loop = asyncio.get_running_loop()
        host, port = target.address
        _, link = await loop.create_connection(
            lambda: cls(target), host, port, ssl=context, server_hostname=target.host
        )
        return link

    def _begin(self) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._read_bytes = 0

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer.

        Raises: Unanswered, OSError, ValueError for an answer that is none.
        """
        self._begin()
        if not self.is_open:
            raise Unanswered("closed")
        self._waiting = asyncio.get_running_loop().create_future()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._target.authority}\r\nUser-Agent: kube-apiserver-admission\r\n"
            f"Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._transport.write(head.encode("ascii") + body)
        try:
            return await self._waiting
        except BaseException:
            self.close()
            raise
        finally:
            self._waiting = None

    def keep(self, among: list[Link]) -> None:
        """For the next call, for a while."""
        among.append(self)
        self._kept_in = among
        self._timer = asyncio.get_running_loop().call_later(_IDLE_S, self.close)

    def take(self) -> None:
        """In use again."""
        self._leave()

    def close(self) -> None:
        self._leave()
        if self.is_open:
            self.is_open = False
            self._transport.abort()

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        kept, self._kept_in = self._kept_in, None
        if kept is not None and self in kept:
            kept.remove(self)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True

    def connection_lost(self, why: Exception | None) -> None:
        self.is_open = False
        self._leave()
        self._fail(why if isinstance(why, OSError) and self._read_bytes else Unanswered("EOF"))

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            # Nobody asked: whatever it is, the next answer could not be told from it.
            self.close()
            return
        self._read_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as broken:
            self._fail(ValueError(f"malformed HTTP response: {broken}"))
            self.close()
        if self._read_bytes > _MAX_HEAD_BYTES + MAX_ANSWER_BYTES:
            self._fail(ValueError("webhook answer is too large"))
            self.close()

    def _fail(self, why: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(why)

    # httptools

    def on_message_begin(self) -> None:
        assert self._waiting is not None
        if self._waiting.done():
            # Ends the reading, and with it the connection.
            raise ValueError("a second answer")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200:
            self._body.clear()
            return
        if not self._parser.should_keep_alive():
            self.is_open = False
            self._transport.close()
        assert self._waiting is not None
        self._waiting.set_result((status, b"".join(self._body)))
