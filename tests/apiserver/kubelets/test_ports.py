"""A port of a simulated container: every byte it answers, which requests end the connection, what is too much."""

from __future__ import annotations

import pytest

from fairway.apiserver.kubelets.ports import SimulatedPort

MEGABYTE = 1024 * 1024


class Client:
    """The other end of a connection."""

    def __init__(self) -> None:
        self.read = b""
        self.ends = 0

    def write(self, data: bytes) -> None:
        assert not self.ends
        self.read += data

    def end(self) -> None:
        self.ends += 1


def connected() -> tuple[SimulatedPort, Client]:
    client = Client()
    return SimulatedPort(client, "port 80 of p", {"/metrics": b"up 1\n"}.get), client


def answer(body: bytes, status: bytes = b"200 OK", *, keeps: bool = True, shown: bool = True) -> bytes:
    return (
        b"HTTP/1.1 " + status + b"\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: " + str(len(body)).encode() + b"\r\n"
        + (b"" if keeps else b"Connection: close\r\n")
        + b"\r\n"
        + (body if shown else b"")
    )  # fmt: skip


def request(path: str = "/", method: str = "GET", *headers: str, version: str = "1.1") -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/{version}", "Host: x", *headers, "", "")).encode()


LINE = b"port 80 of p\n"


@pytest.mark.parametrize(
    ("sent", "want", "ends"),
    [
        (request(), answer(LINE), 0),
        (request("/metrics"), answer(b"up 1\n"), 0),
        (request("/metrics?x=1"), answer(b"up 1\n"), 0),
        (request("/metrics/"), answer(LINE), 0),
        (request("/", "HEAD"), answer(LINE, shown=False), 0),
        (request("/metrics", "HEAD"), answer(b"up 1\n", shown=False), 0),
        (request("/", "POST", "Content-Length: 3") + b"abc", answer(LINE), 0),
        (request("/", "POST", "Content-Length: 3") + b"ab", b"", 0),
        (request("/", "GET", "Connection: close"), answer(LINE, keeps=False), 1),
        (request(version="1.0"), answer(LINE, keeps=False), 1),
        (request() + request("/metrics"), answer(LINE) + answer(b"up 1\n"), 0),
        (request("/", "GET", "Connection: close") + request(), answer(LINE, keeps=False), 1),
        (b"nonsense\r\n\r\n", answer(LINE, b"400 Bad Request", keeps=False), 1),
        (b"nonsense\r\n\r\n" + request(), answer(LINE, b"400 Bad Request", keeps=False), 1),
    ],
)
def test_what_is_answered(sent: bytes, want: bytes, ends: int) -> None:
    for parts in ([sent], [sent[i : i + 1] for i in range(len(sent))]):
        port, client = connected()
        for part in parts:
            port.receive(part)
        assert (client.read, client.ends) == (want, ends)


def test_who_stops_sending_is_left() -> None:
    port, client = connected()
    port.receive(request())
    port.receive_end()
    assert (client.read, client.ends) == (answer(LINE), 1)
    port.receive_end()
    port.receive(request())
    assert (client.read, client.ends) == (answer(LINE), 1)


def test_who_hung_up_is_told_nothing() -> None:
    port, client = connected()
    port.hang_up()
    port.receive(request())
    port.receive_end()
    assert (client.read, client.ends) == (b"", 0)


def test_a_request_has_a_size_and_each_has_its_own() -> None:
    too_large = answer(LINE, b"413 Request Entity Too Large", keeps=False)
    for length, want in ((4 * MEGABYTE, b""), (4 * MEGABYTE + 1, too_large)):
        port, client = connected()
        head = request("/", "POST", f"Content-Length: {5 * MEGABYTE}")
        port.receive(head + bytes(length - len(head)))
        assert (client.read, client.ends) == (want, int(bool(want)))
    # Of its body alone where its head came with it.
    port, client = connected()
    head = request("/", "POST", "Transfer-Encoding: chunked")
    port.receive(head + b"400000\r\n" + bytes(4 * MEGABYTE) + b"\r\n0\r\n\r\n")
    assert client.read == answer(LINE)
    port, client = connected()
    port.receive(head + b"400001\r\n" + bytes(4 * MEGABYTE + 1) + b"\r\n0\r\n\r\n")
    assert (client.read, client.ends) == (too_large, 1)
    port, client = connected()
    for _ in range(3):
        port.receive(request("/", "POST", f"Content-Length: {3 * MEGABYTE}") + bytes(3 * MEGABYTE))
    assert (client.read, client.ends) == (answer(LINE) * 3, 0)
