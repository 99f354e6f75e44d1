"""One connection by itself: what is read of a request, in which order it is answered, when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairway.apiserver.wire import connection as wire
from fairway.apiserver.wire.connection import Connection
from fairway.apiserver.wire.gate import Gate
from fairway.apiserver.wire.messages import Answer, Request, Response


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.unsent = 0
        self.said: list[str] = []

    def write(self, data: Any) -> None:
        assert not self.is_closing()
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return bool({"close", "abort"} & set(self.said))

    def close(self) -> None:
        self.said.append("close")

    def abort(self) -> None:
        self.said.append("abort")

    def pause_reading(self) -> None:
        self.said.append("pause")

    def resume_reading(self) -> None:
        self.said.append("resume")

    def get_write_buffer_size(self) -> int:
        return self.unsent


class Timer:
    def __init__(self, delay: float, call: Callable[[], Any]) -> None:
        self.delay, self.call, self.is_cancelled = delay, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Client:
    """A connection, with everything around it; it is also its own loop, guest and meter."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)
        self.asked: list[Request] = []
        self.answers: dict[str, Answer] = {}
        self.waiting: list[tuple[int, Callable[[], None]]] = []
        self.timers: list[Timer] = []
        self.counted: list[tuple[str, str, int]] = []
        self.everyone: set[Any] = set()
        self.gate = Gate(8)
        self.transport = Transport()
        self.connection = Connection(
            self.handle,
            lambda version, then: self.waiting.append((version, then)),
            lambda code, why: Response(code, why.encode(), "text/plain"),
            self.everyone,
            self,
            self.gate,
        )
        self.connection.guest = self
        self.gate.enter(self)
        self.connection.connection_made(self.transport)

    def cut(self) -> None:
        self.transport.abort()

    def time(self) -> float:
        return 0.0

    def call_later(self, delay: float, call: Callable[..., Any], *given: Any) -> Timer:
        self.timers.append(Timer(delay, lambda: call(*given)))
        return self.timers[-1]

    def call_soon(self, call: Callable[[], Any]) -> None:
        self.call_later(0, call)

    def go_on(self) -> None:
        """Whatever was put off by no time at all."""
        soon = [t for t in self.timers if t.delay == 0]
        self.timers = [t for t in self.timers if t.delay]
        for timer in soon:
            timer.call()

    def handle(self, request: Request) -> Answer:
        self.asked.append(request)
        return self.answers.get(request.path, Response(200, request.path.encode(), "text/plain"))

    def answered(self, request: Request, status: int, size: int) -> None:
        self.counted.append((request.path, str(status), size))

    def began(self, request: Request) -> None:
        self.counted.append((request.path, "began", 0))

    def ended(self, request: Request, status: int) -> None:
        self.counted.append((request.path, "ended", status))

    def send(self, *parts: bytes) -> Client:
        for part in parts:
            self.connection.data_received(part)
        return self

    @property
    def bodies(self) -> list[bytes]:
        """Of all answers so far."""
        return [part.partition(b"\r\n\r\n")[2] for part in self.transport.sent.split(b"HTTP/1.1 ")[1:]]

    @property
    def codes(self) -> list[bytes]:
        return [part[:3] for part in self.transport.sent.split(b"HTTP/1.1 ")[1:]]

    @property
    def armed(self) -> list[float]:
        return [t.delay for t in self.timers if not t.is_cancelled]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    return Client(monkeypatch)


def get(path: str, *headers: str, version: str = "1.1", method: str = "GET") -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/{version}", "Host: x", *headers, "", "")).encode()


def test_what_is_read_of_a_request_however_it_is_cut(client: Client) -> None:
    whole = get("/a%20b?x=1&y", "X-Two: a", "x-two: b", "Content-Length: 5", method="POST") + b"hello"
    client.send(*(whole[i : i + 1] for i in range(len(whole))))
    (request,) = client.asked
    assert (request.method, request.path, request.raw_query) == ("POST", "/a b", "x=1&y")
    assert request.headers == {"host": "x", "x-two": "a, b", "content-length": "5"}
    assert (request.body, request.query) == (b"hello", {"x": ["1"], "y": [""]})
    client.send(get("/next"))
    assert client.asked[1].headers == {"host": "x"} and client.asked[1].body == b""
    assert client.counted == [("/a b", "200", 4), ("/next", "200", 5)]


def test_trailers_are_no_headers(client: Client) -> None:
    head = get("/", "Transfer-Encoding: chunked", method="PUT")
    client.send(head + b"2\r\nab\r\n1\r\nc\r\n0\r\nX-User: me\r\n\r\n")
    assert client.asked[0].body == b"abc" and "x-user" not in client.asked[0].headers


@pytest.mark.parametrize(
    ("headers", "version", "closes"),
    [
        ((), "1.1", False),
        (("Connection: close",), "1.1", True),
        (("Connection: Close",), "1.1", True),
        (("Connection: keep-alive",), "1.1", False),
        ((), "1.0", True),
        (("Connection: keep-alive",), "1.0", False),
    ],
)
def test_when_a_connection_is_kept(
    client: Client, headers: tuple[str, ...], version: str, closes: bool
) -> None:
    client.send(get("/a", *headers, version=version))
    assert (b"Connection: close" in client.transport.sent) is closes
    assert client.transport.said == (["close"] if closes else [])


def test_the_answer_to_head_has_no_body_but_its_length(client: Client) -> None:
    client.send(get("/abc", method="HEAD"))
    assert client.bodies == [b""] and b"Content-Length: 4\r\n" in client.transport.sent
    assert client.counted == [("/abc", "200", 0)]


def test_a_connection_works_from_a_whole_request_until_its_answer(client: Client) -> None:
    """Between two requests it is idle, and may be cut off for others."""

    def is_idle() -> bool:
        return client in client.gate._idle

    assert is_idle()
    client.answers["/w"] = Response(201, b"w", durable=1)
    client.send(get("/w")[:9])
    assert is_idle()
    client.send(get("/w")[9:])
    assert not is_idle() and len(client.gate) == 1
    client.waiting[0][1]()
    assert is_idle() and len(client.gate) == 1


def test_what_was_written_is_answered_once_it_is_on_disk(client: Client) -> None:
    client.answers["/w"] = Response(201, b"w", durable=7)
    client.send(get("/w"), get("/r"))
    assert client.transport.sent == b"" and [v for v, _ in client.waiting] == [7]
    assert [r.path for r in client.asked] == ["/w"]
    client.waiting[0][1]()
    assert client.bodies == [b"w"]
    client.go_on()
    assert client.bodies == [b"w", b"/r"]
    client.answers["/w"] = Response(201, b"w", durable=8)
    client.send(get("/w"))
    client.transport.close()
    client.waiting[1][1]()
    assert client.bodies == [b"w", b"/r"]


def test_requests_sent_ahead_wait_in_order_and_are_limited(client: Client) -> None:
    client.answers["/0"] = Response(201, b"/0", durable=1)
    for i in range(wire.MAX_AHEAD):
        client.send(get(f"/{i}"))
    assert client.transport.said == []
    client.send(get(f"/{wire.MAX_AHEAD}"))
    assert client.transport.said == ["pause"]
    assert len(client.asked) == 1
    client.waiting[0][1]()
    for _ in range(wire.MAX_AHEAD):
        client.go_on()
    assert client.bodies == [f"/{i}".encode() for i in range(wire.MAX_AHEAD + 1)]
    assert client.transport.said[1] == "resume"


def test_what_was_sent_ahead_is_not_done_for_whoever_left(client: Client) -> None:
    client.answers["/w"] = Response(201, b"w", durable=1)
    client.send(get("/w"), get("/next"))
    client.waiting[0][1]()
    client.transport.close()
    client.go_on()
    assert [r.path for r in client.asked] == ["/w"]


class Endless:
    """An answer that goes on."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def start(self, _connection: Any) -> None:
        self.said.append("start")

    def stop(self) -> None:
        self.said.append("stop")


@pytest.mark.parametrize("has_left", [True, False])
def test_an_answer_that_goes_on_may_come_later(
    client: Client, monkeypatch: pytest.MonkeyPatch, has_left: bool
) -> None:
    """As an exec that a webhook was asked about first."""
    tasks: list[Any] = []

    def ensure_future(coming: Any) -> Any:
        tasks.append(coming)
        return type("Task", (), {"cancel": lambda _: None})()

    monkeypatch.setattr(asyncio, "ensure_future", ensure_future)
    stream = Endless()

    async def later() -> Any:
        return stream

    client.answers["/exec"] = later()
    client.send(get("/exec"))
    assert stream.said == [] and client.counted == []
    if has_left:
        client.transport.close()
    with pytest.raises(StopIteration):
        tasks[0].send(None)
    assert stream.said == ([] if has_left else ["start"])
    assert client.counted == ([] if has_left else [("/exec", "began", 0)])


def test_an_answer_that_comes_later(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    class Task:
        def __init__(self, coming: Any) -> None:
            self.coming, self.is_cancelled = coming, False

        def cancel(self) -> None:
            self.is_cancelled = True
            self.coming.close()

        def finish(self) -> None:
            with pytest.raises(StopIteration):
                self.coming.send(None)

    tasks: list[Task] = []
    monkeypatch.setattr(asyncio, "ensure_future", lambda coming: tasks.append(Task(coming)) or tasks[-1])

    class Later(Awaitable[Any]):
        def __await__(self) -> Any:
            return Response(200, b"late")
            yield

    client.answers["/later"] = Later()
    client.send(get("/later"), get("/then"))
    assert client.transport.sent == b""
    tasks[0].finish()
    client.go_on()
    assert client.bodies == [b"late", b"/then"]
    client.send(get("/later"))
    client.transport.close()
    tasks[1].finish()
    assert len(client.bodies) == 2
    client.connection._is_busy = False
    client.transport.said.clear()
    client.send(get("/later"))
    client.connection.connection_lost(None)
    assert tasks[2].is_cancelled and client.everyone == set()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (get("/" + "a" * (wire.MAX_TARGET_BYTES - 1)), b"200"),
        (get("/" + "a" * wire.MAX_TARGET_BYTES), b"431"),
        (get("/", "X: " + "v" * (wire.MAX_HEADER_BYTES - 6)), b"200"),
        (get("/", "X: " + "v" * (wire.MAX_HEADER_BYTES - 5)), b"431"),
        (get("/", f"Content-Length: {wire.MAX_BODY_BYTES + 1}", method="PUT"), b"413"),
        (get("/", "Transfer-Encoding: chunked", method="PUT") + b"300001\r\n" + b"x" * 0x300001, b"413"),
        (
            get("/", "Transfer-Encoding: chunked", method="PUT")
            + b"300000\r\n"
            + b"x" * 0x300000
            + b"\r\n0\r\n\r\n",
            b"200",
        ),
        (b"NONSENSE\r\n\r\n", b"400"),
    ],
)
def test_what_is_too_large_or_no_request(client: Client, sent: bytes, code: bytes) -> None:
    client.send(sent)
    assert client.codes == [code]
    if code == b"200":
        assert client.armed == [] and not client.transport.said
        return
    assert client.asked == [] and b"Connection: close" in client.transport.sent
    client.send(get("/more"))
    assert client.codes == [code] and client.armed == [wire.LINGER_S]
    next(t for t in client.timers if not t.is_cancelled).call()
    assert client.transport.said == ["close"]


def test_nonsense_behind_a_request_that_is_being_answered_ends_it_all(client: Client) -> None:
    client.answers["/w"] = Response(201, b"w", durable=1)
    client.send(get("/w"), b"NONSENSE\r\n\r\n")
    assert client.transport.said == ["abort"] and client.transport.sent == b""


def test_whoever_asks_first_is_told_to_go_on(client: Client) -> None:
    client.send(get("/", "Expect: 100-Continue", "Content-Length: 2", method="PUT"))
    assert client.transport.sent == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(b"ab")
    assert client.asked[0].body == b"ab"


def test_a_request_has_its_time_from_its_first_byte(client: Client) -> None:
    assert client.armed == []
    client.send(b"GET ")
    client.send(b"/ HTTP/1.1\r\n")
    assert client.armed == [wire.READ_TIMEOUT_S]
    client.timers[0].call()
    assert client.codes == [b"408"]


def test_whoever_does_not_read_is_cut_off(client: Client) -> None:
    client.transport.unsent = wire.MAX_UNSENT_BYTES
    client.connection.pause_writing()
    assert client.transport.said == []
    client.transport.unsent += 1
    client.connection.pause_writing()
    assert client.transport.said == ["abort"]


class Going:
    """An answer that goes on."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.stopped = 0

    def start(self, connection: Connection) -> None:
        self.connection = connection

    def stop(self) -> None:
        self.stopped += 1


def test_an_answer_that_goes_on_ends_once(client: Client) -> None:
    going = client.answers["/watch"] = Going()
    client.send(get("/watch"), get("/then"))
    assert going.connection is client.connection and client.counted == [("/watch", "began", 0)]
    client.connection.done()
    client.go_on()
    assert client.counted == [("/watch", "began", 0), ("/watch", "ended", 200), ("/then", "200", 5)]
    client.connection.connection_lost(None)
    assert going.stopped == 0
    again = client.answers["/watch"] = Going()
    client.send(get("/watch"))
    client.connection.connection_lost(None)
    client.connection.connection_lost(None)
    assert again.stopped == 1
    assert client.counted[3:] == [("/watch", "began", 0), ("/watch", "ended", 200)]


UPGRADE = ("Connection: Upgrade", "Upgrade: websocket")


def test_bytes_of_another_protocol_go_to_whoever_took_over(client: Client) -> None:
    taken: list[bytes] = []

    class Taking(Going):
        def start(self, connection: Connection) -> None:
            connection.take_over(taken.append)

    client.answers["/exec"] = Taking()
    client.send(get("/exec", *UPGRADE) + b"first", b"second")
    assert taken == [b"first", b"second"]
    client.connection.connection_lost(None)
    assert client.counted == [("/exec", "began", 0), ("/exec", "ended", 101)]


def test_an_upgrade_that_is_refused_leaves_http(client: Client) -> None:
    client.answers["/exec"] = Response(403, b"no")
    client.send(get("/exec", *UPGRADE) + get("/a"), get("/b"))
    client.go_on()
    assert client.codes == [b"403", b"200", b"200"] and client.bodies == [b"no", b"/a", b"/b"]
