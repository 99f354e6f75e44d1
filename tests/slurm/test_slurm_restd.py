"""slurmrestd's HTTP: what clients may send, how many of them, for how long; without a cluster behind it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway.slurm.serving import restd


@pytest.fixture
def served(tmp_path: Path) -> Iterator[restd.Restd]:
    one = restd.Restd(0, tmp_path)
    thread = threading.Thread(target=one.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield one
    one.shutdown()
    thread.join()
    one.server_close()


def connected(served: restd.Restd) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.server_port), timeout=20)


def answered(served: restd.Restd, sent: bytes) -> bytes:
    """All that comes back until the connection is closed."""
    with connected(served) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as stream:
            return stream.read()


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (b"\r\n", b"500"),  # there is no cluster
        (b"Content-Length: 2\r\n\r\n{}", b"500"),
        (b"Content-Length: \xd9\xa3\r\n\r\n", b"413"),
        (b"Content-Length: -1\r\n\r\n", b"413"),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", b"413"),
        (b"Content-Length: 4194305\r\n\r\n", b"413"),
        (b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", b"411"),
        (b"A: b\r\n" * 200 + b"\r\n", b"431"),
    ],
)
def test_what_a_request_may_be(served: restd.Restd, more: bytes, status: bytes) -> None:
    told = answered(served, b"POST /slurm/v0.0.38/job/submit HTTP/1.1\r\n" + more)
    assert told.split(b" ")[1] == status
    assert told.count(b"HTTP/1.1 ") == 1  # what came after a refused body is no request


def test_half_a_body_is_asked_of_nobody(served: restd.Restd) -> None:
    assert answered(served, b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{}") == b""


def test_clients_have_a_number_and_a_time(served: restd.Restd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that send letter by letter hold their places no longer than others."""
    monkeypatch.setattr(restd, "CONNECTIONS_MOST", 2)
    slow = [connected(served) for _ in range(2)]
    for client in slow:
        client.sendall(b"GET / HT")
    one_more = connected(served)
    assert one_more.recv(1) == b""
    assert len(served.since) == 2
    monkeypatch.setattr(restd, "_TIMEOUT_S", 0.0)
    assert [client.recv(1) for client in slow] == [b"", b""]
    for client in (*slow, one_more):
        client.close()
    monkeypatch.undo()
    while served.since:
        threading.Event().wait(0.001)
    assert answered(served, b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 500 ")
