"""What answers on a simulated container's port? HTTP, with a line that says whose port it is.

A port that a running container of the pod declares (`containerPort`, TCP) listens once the application is up; every
other refuses, as a closed port does. Whatever HTTP request comes is answered `200 OK`; an exporter's has its pages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httptools

from fairway.apiserver.kubelets.interface import Peer

# Of one request, head and body. It is read and forgotten.
_MAX_REQUEST = 4 * 1024 * 1024


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
            self._answer(b"413 Request Entity Too Large", keeps=False)

    def receive_end(self) -> None:
        self._end()

    def hang_up(self) -> None:
        self._is_over = True

    def on_url(self, url: bytes) -> None:
        """httptools: a part of the path."""
        self._url += url

    def on_message_complete(self) -> None:
        """httptools: a whole request."""
        self._received = 0
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
