"""What came in and what goes out: a request, an answer, and an answer that goes on.

A `Response` may name the store version it depends on: it is sent once that version is on disk.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, unquote

import msgspec

if TYPE_CHECKING:
    from fairway.apiserver.wire.connection import Connection

JSON = "application/json"
_PHRASES = {
    101: "Switching Protocols",
    200: "OK",
    201: "Created",
    202: "Accepted",
    301: "Moved Permanently",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    413: "Request Entity Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}

encode = msgspec.json.Encoder().encode


class Request:
    """One request. Header names are lower case; `path` is decoded once, `query` when asked for."""

    __slots__ = ("_query", "about", "began_s", "body", "connection", "headers", "method", "path", "raw_query")

    def __init__(
        self,
        method: str,
        path: str,
        raw_query: str,
        headers: dict[str, str],
        body: bytes,
        connection: Connection | None = None,
    ) -> None:
        self.method = method
        self.path = path
        self.raw_query = raw_query
        self.headers = headers
        self.body = body
        self.connection = connection
        self._query: dict[str, list[str]] | None = None
        self.about: Any = None
        """What the handler made of it, for whoever counts requests."""
        self.began_s = 0.0

    @property
    def query(self) -> dict[str, list[str]]:
        if self._query is None:
            self._query = parse_qs(self.raw_query, keep_blank_values=True) if self.raw_query else {}
        return self._query

    def option(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        values = self.query.get(name) if self.raw_query else None
        return values[0] if values else default

    def flag(self, name: str) -> bool:
        """A boolean query parameter, as Go's conversion reads it: present and not false or 0."""
        values = self.query.get(name) if self.raw_query else None
        return values is not None and values[0].lower() not in ("false", "0")

    def header(self, name: str) -> str:
        return self.headers.get(name, "")


class Response:
    """A whole answer. `durable` is the version to wait for (0: none); `headers` are extra lines."""

    __slots__ = ("body", "content_type", "durable", "headers", "status")

    def __init__(
        self,
        status: int,
        body: bytes,
        content_type: str = JSON,
        headers: tuple[tuple[str, str], ...] = (),
        durable: int = 0,
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.durable = durable

    def head(self, *, close: bool = False) -> bytes:
        lines = [
            f"HTTP/1.1 {self.status} {phrase(self.status)}\r\nCache-Control: no-cache, private\r\n"
            f"Content-Type: {self.content_type}\r\nContent-Length: {len(self.body)}\r\n"
        ]
        lines.extend(f"{name}: {one_line(value)}\r\n" for name, value in self.headers)
        lines.append("Connection: close\r\n\r\n" if close else "\r\n")
        return "".join(lines).encode("utf-8", "replace")


class Stream(Protocol):
    """An answer that goes on: `start` writes its head and first part, `stop` hears that the client left."""

    def start(self, connection: Connection) -> None: ...
    def stop(self) -> None: ...


Answer = Response | Stream | Awaitable["Response | Stream"]


def phrase(status: int) -> str:
    return _PHRASES.get(status, "Unknown")


def one_line(value: str) -> str:
    """A header's value cannot end the header."""
    return value.replace("\r", " ").replace("\n", " ")


def json_response(status: int, body: Any, *, durable: int = 0) -> Response:
    return Response(status, encode(body), durable=durable)


def split_target(target: str) -> tuple[str, str]:
    """Path (percent-decoded) and raw query of a request target."""
    path, _, query = target.partition("?")
    return unquote(path), query
