"""slurmrestd: HTTP on this machine's loopback in front of a served cluster's socket.

It reads a request, hands its path, headers and body to the server, and writes the answer: it knows no Slurm.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fairway.slurm.words.sizes import whole

BODY_MOST = 4 << 20
CONNECTIONS_MOST = 124
"""Clients at once, slurmrestd's own number; another one is closed without an answer."""
_TIMEOUT_S = 30.0
"""From the first byte of a request to its answer, and of silence between two."""
_HEADERS = ("X-SLURM-USER-NAME", "X-SLURM-USER-TOKEN")


class Restd(ThreadingHTTPServer):
    """`folder` is the cluster's bin folder, where its socket is."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, folder: Path) -> None:
        self.folder = folder
        self.since: dict[socket.socket, float] = {}
        """Open connections: when their last request, or the wait for one, began."""
        super().__init__(("127.0.0.1", port), _Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        if len(self.since) >= CONNECTIONS_MOST:
            return False
        self.since[request] = time.monotonic()
        return True

    def service_actions(self) -> None:
        """Called twice a second: whoever sends byte by byte is not waited for longer than others."""
        for connection, since in list(self.since.items()):
            if time.monotonic() - since > _TIMEOUT_S:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        self.since.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is nobody to tell."""

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Raises: OSError, ValueError where the cluster does not answer."""
        folder = os.open(self.folder, os.O_PATH)
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_TIMEOUT_S)
                connection.connect(f"/proc/self/fd/{folder}/socket")
                with connection.makefile("rwb") as stream:
                    stream.write(json.dumps(message).encode() + b"\n")
                    stream.flush()
                    told: dict[str, Any] = json.loads(stream.readline())
                    return told
        finally:
            os.close(folder)


class _Handler(BaseHTTPRequestHandler):
    server: Restd
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT_S

    def _answer(self) -> None:
        if "Transfer-Encoding" in self.headers:
            self._write(411, "a body comes with its Content-Length", close=True)
            return
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdecimal() and whole(length) <= BODY_MOST):
            self._write(413, f"a body has at most {BODY_MOST} bytes", close=True)
            return
        data = self.rfile.read(int(length))
        if len(data) < int(length):
            self.close_connection = True
            return
        body = data.decode("utf-8", "replace")
        headers = {name: self.headers[name] for name in _HEADERS if name in self.headers}
        message = {
            "name": "slurmrestd",
            "method": self.command,
            "path": self.path,
            "headers": headers,
            "body": body,
        }
        try:
            told = self.server.ask(message)
            self._write(int(told["status"]), told["body"])
        except (OSError, ValueError, KeyError):
            self._write(500, "Unable to contact slurm controller (connect failure)")
        self.server.since[self.request] = time.monotonic()

    do_GET = do_POST = do_DELETE = do_PUT = _answer  # noqa: N815 - the library calls them so

    def _write(self, status: int, body: Any, close: bool = False) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        if close:
            self.close_connection = True
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base names it so
        """Requests are not written anywhere."""
