"""Many connections: those that say nothing go, the others are served; and the log says little of it."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map, served

from fairway.apiserver import sparinglog
from fairway.apiserver.sparinglog import Sparing
from fairway.apiserver.wire import connection as wire
from fairway.apiserver.wire import gate
from fairway.apiserver.wire.gate import Gate, most_connections


def opened(api: Served) -> socket.socket:
    """A connection that has not said anything."""
    return socket.create_connection(("127.0.0.1", api.server.port), 20)


def with_tls(api: Served) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(api.pki / "ca.crt"))
    context.load_cert_chain(api.pki / "admin.crt", api.pki / "admin.key")
    return context.wrap_socket(opened(api), server_hostname="127.0.0.1")


def is_cut(connection: socket.socket) -> bool:
    """Whether the other side ended it; waits for that."""
    connection.settimeout(20)
    try:
        return connection.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def settled(api: Served, condition: Callable[[], bool]) -> bool:
    """Whether a condition comes to hold on the server's loop."""

    async def wait() -> bool:
        for _ in range(2000):
            if condition():
                return True
            await asyncio.sleep(0.005)
        return False

    return asyncio.run_coroutine_threadsafe(wait(), api.loop).result(30)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("fairway.apiserver.serving.most_connections", lambda: 8)
    with served(tmp_path) as api:
        yield api


def test_silent_connections_give_way_to_those_that_ask(small: Served) -> None:
    watching = with_tls(small)
    watching.sendall(f"GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert b"200 OK" in watching.recv(100)
    silent = [opened(small) for _ in range(40)]
    assert settled(small, lambda: small.server.gate.shed >= 33)
    assert small.ask("POST", CONFIG_MAPS, config_map("served"))[0] == 201
    assert is_cut(silent[0])
    # The watch was not idle, and hears of it.
    text = b""
    while b"served" not in text:
        text += watching.recv(4096)
    assert len(small.server.gate) <= 8
    for one in (*silent, watching):
        one.close()


def test_idle_connections_with_tls_give_way_too(small: Served) -> None:
    idle = [with_tls(small) for _ in range(8)]
    assert small.ask("GET", CONFIG_MAPS)[0] == 200
    assert is_cut(idle[0])
    for one in idle:
        one.close()


def test_an_idle_connection_is_cut_off_after_a_while(small: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    one = with_tls(small)
    assert settled(small, lambda: len(small.server.gate) == 1)
    small.call(lambda: small.server.gate.expire(small.loop.time() + gate.IDLE_S - 1))
    assert len(small.server.gate) == 1
    small.call(lambda: small.server.gate.expire(small.loop.time() + gate.IDLE_S + 1))
    assert is_cut(one)
    one.close()


def test_a_handshake_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "HANDSHAKE_S", 0.05)
    with served(tmp_path) as api:
        one = opened(api)
        assert is_cut(one)
        one.close()


def test_a_request_sent_byte_by_byte_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "READ_TIMEOUT_S", 0.05)
    with served(tmp_path) as api:
        one = with_tls(api)
        one.sendall(b"GET /version HT")
        assert b"408 Request Timeout" in one.recv(4096)
        one.close()


def test_where_all_are_busy_a_new_one_is_turned_away() -> None:
    async def play() -> None:
        class Guest:
            is_cut = False

            def cut(self) -> None:
                self.is_cut = True

        watched = Gate(2)
        guests = [Guest() for _ in range(3)]
        for guest in guests[:2]:
            watched.enter(guest)
            watched.work(guest)
        watched.enter(guests[2])
        assert [g.is_cut for g in guests] == [False, False, True]
        watched.rest(guests[1])
        assert len(watched) == 2
        watched.enter(guests[2])
        assert [g.is_cut for g in guests] == [False, True, True]

    asyncio.run(play())


def test_whoever_rests_is_idle_from_then_on() -> None:
    """Once: neither work nor rest adds a connection, and who is gone is in neither."""

    async def play() -> None:
        class Guest:
            is_cut = False

            def cut(self) -> None:
                self.is_cut = True

        watched, guest, other = Gate(9), Guest(), Guest()
        watched.work(guest)
        assert len(watched) == 0, "who never entered does not work here"
        watched.enter(guest)
        for step in (watched.work, watched.work, watched.rest, watched.rest, watched.work):
            step(guest)
            assert len(watched) == 1
        watched.expire(asyncio.get_running_loop().time() + 1000)
        assert not guest.is_cut
        watched.rest(guest)
        watched.enter(other)
        watched.work(other)
        since_s = watched._idle[guest]
        watched.expire(since_s + gate.IDLE_S - 0.001)
        assert (len(watched), guest.is_cut) == (2, False)
        watched.expire(since_s + gate.IDLE_S)
        assert (len(watched), guest.is_cut, other.is_cut) == (1, True, False)
        watched.leave(other)
        watched.leave(guest)
        assert (len(watched), watched.shed) == (0, 0)

    asyncio.run(play())


def test_there_are_fewer_connections_than_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate.resource, "getrlimit", lambda _: (1024, 1024))
    assert most_connections() == 896
    monkeypatch.setattr(gate.resource, "getrlimit", lambda _: (1_000_000, 1_000_000))
    assert most_connections() == gate.MOST_CONNECTIONS


def test_a_place_that_complains_a_lot_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(sparinglog.time, "monotonic", lambda: now_s[0])
    spare = Sparing()
    said = []

    def say(line: int, text: str = "accept failed") -> None:
        record = logging.LogRecord("asyncio", logging.ERROR, "events.py", line, text, (), None)
        if spare.filter(record):
            said.append(record.getMessage())

    for _ in range(100_000):
        say(7)
    say(8, "x" * 1_000_000)
    assert len(said) == sparinglog.LINES + 1
    assert len(said[-1]) == sparinglog.MOST_CHARS
    now_s[0] = sparinglog.STRETCH_S
    say(7)
    assert said[-1] == "accept failed (99980 more like this were left out)"


def test_places_are_told_apart_and_lines_cut_with_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty lines of one place in ten seconds; a long line keeps its beginning, and how many were not said."""
    now_s = [5.0]
    monkeypatch.setattr(sparinglog.time, "monotonic", lambda: now_s[0])
    spare = Sparing()

    def say(text: str, *values: object, path: str = "a.py", line: int = 1) -> str | None:
        record = logging.LogRecord("x", logging.ERROR, path, line, text, values, None)
        return record.getMessage() if spare.filter(record) else None

    assert say("n %d of %s", 7, "x") == "n 7 of x"
    assert [say("again") for _ in range(20)] == ["again"] * 19 + [None]
    assert say("other", line=2) == say("other", path="b.py") == "other"
    now_s[0] = 14.999
    assert say("again") is None
    now_s[0] = 15.0
    assert say("50%% of %s", "y") == "50% of y (2 more like this were left out)"
    assert [say("again") for _ in range(20)] == ["again"] * 19 + [None]
    now_s[0] = 24.999
    assert say("again") is None
    now_s[0] = 25.0
    assert say("z" * 5000) == "z" * 4096 + " (2 more like this were left out)"
    assert say("z" * 4096) == "z" * 4096
    assert say("z" * 4097) == "z" * 4096
