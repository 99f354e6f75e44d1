"""What answers on a simulated container's port? HTTP, with a line that says whose port it is.

A port that a running container of the pod declares (`containerPort`, TCP) listens once the application is up; every
other refuses, as a closed port does. Whatever HTTP request comes is answered `200 OK`; an exporter's has its pages, a
model server answers as OpenAI's API does (`modelserver`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httptools

from fairway.apiserver.kubelets.interface import Peer
from fairway.apiserver.kubelets.modelserver import Answering, Engine, json_response, page

# Of one request, head and body; of those that wait behind one another on a connection, all together, and how many.
_MAX_REQUEST = 4 * 1024 * 1024
_MAX_WAITING = 64


class SimulatedPort:
    """One connection."""

    def __init__(
        self, peer: Peer, said: str, page: Callable[[str], bytes | None] = lambda _path: None
    ) -> None:
        """`page`: what is behind a path; None: the line."""
        self._peer = peer
        self._page = page
        self._url = b""
        self._body = f"{said}\n".encode()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._received = 0
        self._is_over = False
        self._content: list[bytes] = []
        self._content_bytes = 0

    def receive(self, data: bytes) -> None:
        if self._is_over:
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._answer(b"400 Bad Request", keeps=False)
            return
        if self._received > _MAX_REQUEST:
            self._refuse()

    def _refuse(self) -> None:
        self._answer(b"413 Request Entity Too Large", keeps=False)

    def receive_end(self) -> None:
        self._end()

    def hang_up(self) -> None:
        self._is_over = True

    def on_body(self, body: bytes) -> None:
        """httptools: a part of the body."""
        self._content_bytes += len(body)
        if self._content_bytes > _MAX_REQUEST:
            self._refuse()
        elif not self._is_over:
            self._content.append(body)

    def on_url(self, url: bytes) -> None:
        """httptools: a part of the path."""
        self._url += url

    def on_message_complete(self) -> None:
        """httptools: a whole request."""
        self._received, self._content_bytes = 0, 0
        self._content.clear()
        page = self._page(self._url.decode("latin-1").partition("?")[0])
        self._url = b""
        if page is not None:
            self._body = page
        is_head = self._parser.get_method() == b"HEAD"
        self._answer(b"200 OK", keeps=self._parser.should_keep_alive(), is_head=is_head)

    def _answer(self, status: bytes, *, keeps: bool, is_head: bool = False) -> None:
        if self._is_over:
            return
        end = b"\r\n" if keeps else b"Connection: close\r\n\r\n"
        self._peer.write(
            b"HTTP/1.1 %b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n%b%b"
            % (status, len(self._body), end, b"" if is_head else self._body)
        )
        if not keeps:
            self._end()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._peer.end()


class ModelServerPort(SimulatedPort):
    """One connection to a model server. Requests are answered one after the other, as HTTP/1.1 has it."""

    def __init__(self, peer: Peer, said: str, engine: Engine) -> None:
        super().__init__(peer, said)
        self._engine = engine
        self._now: Answering | None = None
        self._next: list[tuple[str, bytes, bytes]] = []

    def hang_up(self) -> None:
        super().hang_up()
        if self._now is not None:
            self._now.cancel()

    def on_message_complete(self) -> None:
        """httptools: a whole request. `_content_bytes` are those of all that wait."""
        if self._is_over:
            return
        path = self._url.decode("latin-1").partition("?")[0]
        self._next.append((path, self._parser.get_method(), b"".join(self._content)))
        self._url, self._received = b"", 0
        self._content.clear()
        if len(self._next) > _MAX_WAITING:
            self._refuse()
            return
        self._take_next()

    def _take_next(self) -> None:
        while self._now is None and self._next and not self._is_over:
            path, method, body = self._next.pop(0)
            self._content_bytes -= len(body)
            at_once = page(self._engine, path)
            if at_once is not None:
                self._peer.write(at_once)
            elif path.endswith("/completions") and method == b"POST":
                self._now = Answering(self._engine, self._write, self._went)
                self._now.begin(path, body)
            else:
                code = 405 if path.endswith("/completions") else 404
                self._peer.write(
                    json_response(code, {"detail": "Method Not Allowed" if code == 405 else "Not Found"})
                )

    def _write(self, data: bytes) -> None:
        if not self._is_over:
            self._peer.write(data)

    def _went(self) -> None:
        self._now = None
        self._take_next()
