"""Sessions of exec and port-forward by themselves: channels and streams, who begins when, who ends what, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong

from fairway.apiserver.kubelets.interface import CannotConnect, Invocation
from fairway.apiserver.statuses import StatusError
from fairway.apiserver.streaming import portforward, remotecommand
from fairway.apiserver.streaming.remotecommand import ChannelSession, StreamSession
from fairway.apiserver.streaming.upgrades import spdy_in_websocket, spdy_protocol, websocket_protocol
from fairway.apiserver.subresources import execution
from fairway.apiserver.wire import spdy
from fairway.apiserver.wire.messages import Request, Response
from fairway.apiserver.wire.websocket import WebSocket, is_upgrade


class Line:
    """A connection and its transport, at once; and the loop's timers, which go off when a test says so."""

    def __init__(self) -> None:
        self.transport = self
        self.sent = b""
        self.is_over = False
        self.receive: Any = None
        self.timers: list[list[Any]] = []

    def write(self, data: bytes) -> None:
        assert not self.is_over
        self.sent += data

    def close(self) -> None:
        self.is_over = True

    def is_closing(self) -> bool:
        return self.is_over

    def take_over(self, on_data: Any) -> None:
        self.receive = on_data

    def call_later(self, delay: float, call: Callable[..., None], *given: Any) -> Any:
        timer = [delay, call, given]
        self.timers.append(timer)
        return type("Timer", (), {"cancel": lambda _: timer.__setitem__(1, None)})()

    def call_soon(self, call: Callable[..., None], *given: Any) -> Any:
        return self.call_later(0, call, *given)

    def go_off(self, within_s: float = 1) -> None:
        due = [t for t in self.timers if t[0] <= within_s]
        self.timers = [t for t in self.timers if t[0] > within_s]
        for _, call, given in due:
            if call is not None:
                call(*given)

    @property
    def waits_s(self) -> list[float]:
        return [delay for delay, call, _ in self.timers if call is not None]


class Process:
    """A process, or a port, that keeps what happens to it."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def begin(self) -> None:
        self.said.append("begin")

    def receive(self, data: bytes) -> None:
        self.said.append(data)

    def receive_end(self) -> None:
        self.said.append("end")

    def resize(self, columns: int, rows: int) -> None:
        self.said.append((columns, rows))

    def hang_up(self) -> None:
        self.said.append("hang up")


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    found = Line()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: found)
    return found


def request(**headers: str) -> Request:
    return Request("GET", "/", "", {"sec-websocket-key": "k", **headers}, b"")


def messages(line: Line) -> list[bytes]:
    """Of the server, after its head."""
    client = Frames(ConnectionType.CLIENT)
    client.receive_data(line.sent.partition(b"\r\n\r\n")[2])
    return [bytes(e.data) for e in client.events() if isinstance(e, BytesMessage)]


# Channels


def channels(
    line: Line, protocol: str = remotecommand.V5, refusal: str = ""
) -> tuple[ChannelSession, Process, Any]:
    session, process, client = (
        ChannelSession(request(), protocol, refusal),
        Process(),
        Frames(ConnectionType.CLIENT),
    )
    session.process = process
    session.socket.start(line)  # type: ignore[arg-type]
    return session, process, lambda data: line.receive(client.send(BytesMessage(data)))


def test_a_process_begins_a_moment_after_the_upgrade(line: Line) -> None:
    session, process, send = channels(line)
    assert b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n" in line.sent
    assert process.said == [] and line.waits_s == [0.1]
    line.go_off()
    session.write(b"out")
    session.write_error(b"err")
    session.write(b"")
    for data in (b"\x00in", b"\x00", b"\x01x", b"\xff\x00", b"\xff\x01", b"\xff"):
        send(data)
    assert process.said == ["begin", b"in", b"", "end"]
    session.exit(0)
    session.exit(1)
    session.write(b"late")
    assert messages(line) == [b"\x01out", b"\x02err", b'\x03{"metadata":{},"status":"Success"}']
    assert line.is_over
    session.socket.stop()
    assert process.said[-1] == "end"


@pytest.mark.parametrize(
    ("data", "want"),
    [
        (b'{"Width":80,"Height":24}', [(80, 24)]),
        (b'{"Width":"80","Height":24}', [(80, 24)]),
        (b'{"Width":80}', []),
        (b"[]", []),
        (b"{", []),
        (b'{"Width":80,"Height":24}' + b" " * (1024 - 24), [(80, 24)]),
        (b'{"Width":80,"Height":24}' + b" " * (1025 - 24), []),
    ],
)
def test_sizes_of_terminals(line: Line, data: bytes, want: list[Any]) -> None:
    _, process, send = channels(line)
    send(b"\x04" + data)
    assert process.said == want


@pytest.mark.parametrize(
    ("protocol", "want"),
    [
        (remotecommand.V5, "status"),
        (remotecommand.V4, "status"),
        ("channel.k8s.io", b"command terminated with non-zero exit code: exit status 3"),
        ("", b"command terminated with non-zero exit code: exit status 3"),
    ],
)
def test_how_a_failure_is_told(line: Line, protocol: str, want: Any) -> None:
    session, _, _ = channels(line, protocol)
    session.exit(3)
    (told,) = messages(line)
    if want == "status":
        status = json.loads(told[1:])
        assert status["status"] == "Failure" and status["reason"] == "NonZeroExitCode"
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    else:
        assert told == b"\x03" + want


def test_a_refusal_comes_in_place_of_a_process(line: Line) -> None:
    _, process, send = channels(line, refusal="no such container")
    send(b"\x00in")
    line.go_off()
    (told,) = messages(line)
    status = json.loads(told[1:])
    assert status["message"] == "Internal error occurred: unable to upgrade connection: no such container"
    assert (status["code"], status["reason"]) == (500, "InternalError")
    assert process.said == [] and line.is_over


@pytest.mark.parametrize("refusal", ["", "no"])
def test_whoever_leaves_before_it_begins_hears_nothing(line: Line, refusal: str) -> None:
    session, process, _ = channels(line, refusal=refusal)
    session.socket.stop()
    line.go_off()
    session.write(b"x")
    assert messages(line) == []
    assert process.said == ([] if refusal else ["hang up"])


@pytest.mark.parametrize("data", [b"\xff" * 20, b"\x81\x02hi"])
def test_what_is_no_websocket_ends_it(line: Line, data: bytes) -> None:
    """Frames of a client are masked, and their reserved bits are not set (RFC 6455): 1002 is a protocol error."""
    _, process, _ = channels(line)
    line.go_off()
    line.receive(data)
    assert line.is_over and process.said == ["begin"]
    client = Frames(ConnectionType.CLIENT)
    client.receive_data(line.sent.partition(b"\r\n\r\n")[2])
    assert [e.code for e in client.events() if isinstance(e, CloseConnection)] == [1002]


def _refuse(*_given: Any) -> Any:
    raise CannotConnect("no such container")


@pytest.mark.parametrize("part", ["exec", "attach"])
def test_how_a_kubelets_refusal_is_told(line: Line, part: str) -> None:
    """Over v5 the API server has upgraded by then, and says so as a process would; else it is the answer."""
    kubelet: Any = SimpleNamespace(exec=_refuse, attach=_refuse)
    for protocol in (remotecommand.V5, remotecommand.V4):
        headers = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-protocol": protocol}
        ask: Any = SimpleNamespace(request=request(**headers), info=SimpleNamespace(subresource=part))
        told = execution._over_channels(ask, kubelet, {}, "c", Invocation(("ls",), stdout=True))
        if protocol == remotecommand.V4:
            assert isinstance(told, Response)
            assert (told.status, told.body) == (500, b"no such container\n")
            assert told.content_type == "text/plain; charset=utf-8"
            continue
        told.start(line)  # type: ignore[arg-type, union-attr]
        line.go_off()
        (said,) = messages(line)
        assert json.loads(said[1:])["message"].endswith("unable to upgrade connection: no such container")


def test_nothing_waits_for_streams_of_a_process_that_is_not(line: Line) -> None:
    session = StreamSession(Invocation(("ls",), stdout=True), remotecommand.V4)
    assert line.waits_s == [30]
    session.give_up()
    assert line.waits_s == []


# Streams


class Client:
    """A client that speaks SPDY with a session."""

    def __init__(self, line: Line, session: Any) -> None:
        self.line, self.session, self.writer = line, session, spdy.Writer()

    def open(self, number: int, **headers: str) -> None:
        self.line.receive(self.writer.open(number, headers))

    def send(self, number: int, data: bytes, *, is_last: bool = False) -> None:
        self.line.receive(spdy.data_frames(number, data, is_last=is_last))

    def heard(self) -> list[Any]:
        """Frames since the head, without replies: data as (stream, bytes, last), resets as their stream."""
        found: list[Any] = []
        for frame in spdy.Reader().feed(self.line.sent.partition(b"\r\n\r\n")[2]):
            if isinstance(frame, spdy.Data):
                found.append((frame.stream, frame.data, frame.is_last))
            elif isinstance(frame, spdy.Reset):
                found.append(frame.stream)
        return found


def streams(line: Line, **what: bool) -> tuple[StreamSession, Process, Client]:
    session, process = StreamSession(Invocation(("ls",), **what), remotecommand.V4), Process()
    session.process = process
    session.upgrade.start(line)  # type: ignore[arg-type]
    return session, process, Client(line, session)


def test_it_begins_with_the_last_of_the_streams_asked_for(line: Line) -> None:
    session, process, client = streams(line, stdin=True, stdout=True, stderr=True)
    assert b"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n" in line.sent
    for number, name in ((1, "error"), (3, "stdin"), (5, "stdout")):
        client.open(number, streamtype=name)
    client.send(3, b"early")
    line.go_off()
    assert process.said == [] and line.waits_s == [30]
    client.open(7, streamtype="stdout")
    client.open(9, streamtype="resize")
    client.open(11, streamtype="stderr")
    line.go_off()
    assert process.said == ["begin", b"early"] and line.waits_s == []
    client.send(3, b"in")
    client.send(3, b"", is_last=True)
    client.send(3, b"after the end")
    assert process.said[2:] == [b"in", "end"]
    session.write(b"out")
    session.write_error(b"err")
    session.exit(0)
    session.exit(2)
    session.write(b"late")
    assert client.heard() == [
        7,
        9,
        (5, b"out", False),
        (11, b"err", False),
        (1, b'{"metadata":{},"status":"Success"}', False),
        (5, b"", True),
        (11, b"", True),
        (1, b"", True),
    ]
    assert line.is_over and process.said[-1] == "end"


def test_a_terminal_has_sizes_and_one_stream_for_both(line: Line) -> None:
    session, process, client = streams(line, stdin=True, stdout=True, stderr=True, tty=True)
    for number, name in ((1, "error"), (3, "stdin"), (5, "stdout"), (7, "resize")):
        client.open(number, streamtype=name)
    line.go_off()
    client.send(7, b'{"Width":80,"Height":24}')
    client.send(7, b"", is_last=True)
    session.write_error(b"err")
    assert process.said == ["begin", (80, 24)]
    assert client.heard() == []
    session.upgrade.stop()
    session.upgrade.stop()
    assert process.said[2:] == ["hang up"]


def test_streams_that_never_come_end_it(line: Line) -> None:
    _, process, client = streams(line, stdout=True)
    client.open(1, streamtype="error")
    line.go_off(30)
    assert line.is_over and process.said == ["hang up"]


def test_a_stream_that_is_reset_is_over_for_both(line: Line) -> None:
    session, process, client = streams(line, stdin=True, stderr=False)
    for number, name in ((1, "error"), (3, "stdin"), (5, "stdout")):
        client.open(number, streamtype=name)
    line.go_off()
    for number in (3, 5, 5, 99):
        line.receive(spdy.reset(number, spdy.REFUSED_STREAM))
    client.send(3, b"late")
    session.write(b"out")
    assert process.said == ["begin", "end"] and client.heard() == []
    session.exit(0)
    assert [f[0] for f in client.heard()] == [1, 1]


def test_a_stream_may_be_over_for_the_client_as_it_begins(line: Line) -> None:
    _, process, client = streams(line, stdin=True, stdout=False, stderr=False)
    client.open(1, streamtype="error")
    opened = bytearray(client.writer.open(3, {"streamtype": "stdin"}))
    opened[4] |= spdy.FIN
    line.receive(bytes(opened))
    client.send(3, b"late")
    line.go_off()
    assert process.said == ["begin", "end"]


def test_streams_inside_a_websocket(line: Line) -> None:
    """As kubectl forwards ports since 1.31: frames of SPDY, however messages cut them."""
    ports = Ports()
    forward = portforward.ForwardStreams(ports.connect, "box")
    socket = spdy_in_websocket(request(), forward.session, portforward.TUNNELLED)
    socket.start(line)  # type: ignore[arg-type]
    assert f"Sec-WebSocket-Protocol: {portforward.TUNNELLED}\r\n".encode() in line.sent
    client, writer = Frames(ConnectionType.CLIENT), spdy.Writer()
    pair = {"port": "80", "requestid": "a"}
    frames = writer.open(1, {"streamtype": "error", **pair}) + writer.open(3, {"streamtype": "data", **pair})
    for piece in (frames[:7], frames[7:], spdy.data_frames(3, b"in")):
        line.receive(client.send(BytesMessage(piece)))
    line.go_off()
    ((_, process, peer),) = ports.open
    assert process.said == [b"in"]
    peer.write(b"out")
    heard = list(spdy.Reader().feed(b"".join(messages(line))))
    assert heard[-1] == spdy.Data(3, b"out", False)
    socket.stop()
    assert process.said == [b"in", "hang up"]


# Ports


class Ports:
    """What connects: 80 is open, all else closed."""

    def __init__(self) -> None:
        self.open: list[tuple[int, Process, Any]] = []

    def connect(self, port: int, peer: Any) -> Any:
        if port != 80:
            raise CannotConnect("connection refused")
        self.open.append((port, Process(), peer))
        return self.open[-1][1]


def test_pairs_of_streams_are_connections(line: Line) -> None:
    ports = Ports()
    forward = portforward.ForwardStreams(ports.connect, "box")
    forward.session.attach(line.write, line.close)
    line.take_over(forward.session.received)
    client = Client(line, forward)
    line.sent = b"\r\n\r\n"
    pair = {"port": "80", "requestid": "a"}
    client.open(1, streamtype="error", **pair)
    client.open(3, streamtype="error", **pair)
    client.open(5, streamtype="data", port="81", requestid="a")
    client.open(7, streamtype="other", **pair)
    client.open(9, streamtype="data", port="0", requestid="b")
    client.open(11, streamtype="data", port="80", requestid="")
    assert client.heard() == [3, 5, 7, 9, 11]
    client.open(13, streamtype="data", **pair)
    client.send(13, b"early")
    line.go_off()
    ((_, process, peer),) = ports.open
    client.send(13, b"more", is_last=True)
    assert process.said == [b"early", b"more", "end"]
    peer.write(b"answer")
    client.open(15, streamtype="data", port="81", requestid="c")
    client.open(17, streamtype="error", port="81", requestid="c")
    line.go_off()
    said = b"error forwarding port 81 to pod box, uid : connection refused"
    assert client.heard()[5:] == [(13, b"answer", False), (17, said, False), (15, b"", True), (17, b"", True)]
    client.open(19, streamtype="data", port="80", requestid="d")
    client.open(21, streamtype="error", port="80", requestid="d")
    line.go_off()
    peer.end()
    forward.session.gone()
    assert process.said[-1] == "end" and ports.open[1][1].said == ["hang up"]


def test_channels_are_two_a_port_and_end_with_the_last(line: Line) -> None:
    ports, client = Ports(), Frames(ConnectionType.CLIENT)
    forward = portforward.ForwardChannels(request(), "", [80, 81, 80], ports.connect, "box")
    forward.socket.start(line)  # type: ignore[arg-type]
    said = b"error forwarding port 81 to pod box, uid : connection refused"
    heads = [bytes((n,)) + p.to_bytes(2, "little") for n, p in enumerate((80, 80, 81, 81, 80, 80))]
    assert messages(line) == [*heads[:4], b"\x03" + said, *heads[4:]]
    first, second = ports.open
    for data in (b"\x00a", b"\x01error", b"\x02gone", b"\x04b", b"\x06none"):
        line.receive(client.send(BytesMessage(data)))
    assert (first[1].said, second[1].said) == ([b"a"], [b"b"])
    second[2].write(b"answer")
    assert messages(line)[-1] == b"\x04answer"
    first[2].end()
    line.receive(client.send(BytesMessage(b"\x00late")))
    assert not line.is_over and first[1].said == [b"a"]
    forward.socket.stop()
    assert second[1].said == [b"b", "hang up"] and first[1].said == [b"a"]
    again = Line()
    lone = portforward.ForwardChannels(request(), "", [81], ports.connect, "box")
    lone.socket.start(again)  # type: ignore[arg-type]
    assert again.is_over


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ("ports=80", [80]),
        ("ports=80,81&ports=1", [80, 81, 1]),
        ("ports=65535", [65535]),
        ("ports=65536", None),
        ("ports=0", None),
        ("ports=x", None),
        ("ports=000080", None),
        ("", None),
        ("ports=" + ",".join(["1"] * 64), [1] * 64),
        ("ports=" + ",".join(["1"] * 65), None),
    ],
)
def test_which_ports_are_asked_for(query: str, want: list[int] | None) -> None:
    asked = Request("GET", "/", query, {}, b"")
    if want is not None:
        assert portforward.ports_asked(asked) == want
        return
    with pytest.raises(StatusError) as refused:
        portforward.ports_asked(asked)
    assert refused.value.code == 400


# Upgrades


def upgraded(**headers: str) -> Request:
    return Request("GET", "/", "", {name.replace("_", "-"): value for name, value in headers.items()}, b"")


def test_the_protocol_is_one_that_both_speak() -> None:
    known = ("b", "a", "")
    assert websocket_protocol(upgraded(sec_websocket_protocol="x, a, b"), known) == "a"
    assert websocket_protocol(upgraded(), known) == ""
    for asked, ours in (("x", known), ("", ("a",))):
        with pytest.raises(StatusError) as refused:
            websocket_protocol(upgraded(sec_websocket_protocol=asked), ours)
        assert refused.value.code == 400
    head = {"connection": "Upgrade", "upgrade": "spdy/3.1"}
    assert spdy_protocol(upgraded(**head, x_stream_protocol_version="a, b"), ("b", "a")) == "b"
    for wrong, code in (
        ({**head, "connection": "close"}, 400),
        ({**head, "upgrade": "websocket"}, 400),
        ({**head, "x_stream_protocol_version": "z"}, 403),
        (head, 403),
    ):
        with pytest.raises(StatusError) as refused:
            spdy_protocol(upgraded(**wrong), ("b", "a"))
        assert refused.value.code == code
    assert is_upgrade(upgraded(upgrade="WebSocket", sec_websocket_key="k"))
    assert not is_upgrade(upgraded(upgrade="WebSocket"))
    assert not is_upgrade(upgraded(upgrade="h2c", sec_websocket_key="k"))


def test_a_websocket_answers_pings_and_leaves_when_it_is_told() -> None:
    line, gone, said = Line(), list[str](), list[bytes]()
    socket = WebSocket(request(), "p", lambda: None, said.append, lambda: gone.append("gone"))
    socket.send(b"too early")
    socket.start(line)  # type: ignore[arg-type]
    client = Frames(ConnectionType.CLIENT)
    line.receive(client.send(Ping(b"hi")))
    other = Frames(ConnectionType.CLIENT)
    other.receive_data(line.sent.partition(b"\r\n\r\n")[2])
    assert [bytes(e.payload) for e in other.events() if isinstance(e, Pong)] == [b"hi"]
    line.receive(client.send(BytesMessage(b"a", message_finished=False)))
    assert said == []
    line.receive(client.send(BytesMessage(b"b")))
    assert said == [b"ab"]
    line.receive(client.send(CloseConnection(1000)))
    assert line.is_over
    socket.close()
    socket.send(b"late")
    socket.stop()
    socket.stop()
    assert gone == ["gone"]
