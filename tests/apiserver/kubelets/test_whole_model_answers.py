"""What a model server writes, byte by byte and when: answers, streams, refusals, and what it says of itself between."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.histories import check_history

from fairway.apiserver.kubelets.modelserver import Engine, engine_of, page
from fairway.apiserver.kubelets.ports import ModelServerPort

NODE = {"metadata": {"labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}}
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "hello"}]
PARTS: list[Any] = [
    "a",
    {"type": "text", "text": "b"},
    {"type": "image"},
    [1, "c", {"text": "d"}, {"text": None}, {}],
    7,
    None,
    {"text": 5},
]
BODIES: dict[str, tuple[str, Any]] = {
    "a text": (TEXT, {"prompt": "hello", "max_tokens": 3}),
    "sixteen tokens": (TEXT, {"prompt": "hello"}),
    "two choices": (TEXT, {"prompt": "hello", "max_tokens": 2, "n": 2}),
    "streamed": (TEXT, {"prompt": "hello", "max_tokens": 2, "n": 2, "stream": True}),
    "streamed with its use": (
        TEXT,
        {"prompt": "x", "max_tokens": 1, "stream": 1, "stream_options": {"include_usage": True}},
    ),
    "a chat": (CHAT, {"messages": HELLO, "max_tokens": 2, "model": "chat"}),
    "a chat to its end": (CHAT, {"messages": HELLO}),
    "no more than it would say": (CHAT, {"messages": HELLO, "max_tokens": 400}),
    "more than it would say": (TEXT, {"prompt": "hello", "max_tokens": 260, "ignore_eos": True}),
    "a streamed chat": (
        CHAT,
        {"messages": HELLO, "max_completion_tokens": 2, "max_tokens": 9, "stream": True},
    ),
    "a streamed chat of two": (
        CHAT,
        {
            "messages": HELLO,
            "max_tokens": "2",
            "n": 2.0,
            "stream": True,
            "stream_options": {"include_usage": 1},
        },
    ),
    "parts": (TEXT, {"prompt": PARTS, "max_tokens": 1}),
    "parts of a message": (CHAT, {"messages": [{"content": PARTS}, {}, {"content": None}], "max_tokens": 1}),
    "no prompt": (TEXT, {}),
    "a prompt that is none": (TEXT, {"prompt": 7}),
    "no messages": (CHAT, {"messages": []}),
    "messages that are none": (CHAT, {"messages": ["a"]}),
    "nobody's model": (CHAT, {"messages": HELLO, "model": "m" * 300}),
    "a model that is none": (CHAT, {"messages": HELLO, "model": 7}),
    "no tokens": (TEXT, {"prompt": "a", "max_tokens": 0}),
    "no choices": (TEXT, {"prompt": "a", "n": 0}),
    "half a choice": (TEXT, {"prompt": "a", "n": 1.5}),
    "a choice in words": (TEXT, {"prompt": "a", "n": "one"}),
    "a list of choices": (TEXT, {"prompt": "a", "n": [1]}),
    "too many choices": (TEXT, {"prompt": "a", "n": 129, "max_tokens": 1}),
    "too many tokens": (TEXT, {"prompt": "a", "n": 128, "max_tokens": 7813, "ignore_eos": True}),
    "too long": (TEXT, {"prompt": "a", "max_tokens": 131072}),
    "a chat too long": (CHAT, {"messages": [{"content": "x" * 524_289}]}),
    "a list": (TEXT, [1]),
}


class Clock:
    """The loop's timers and the wall clock: whatever is waited for comes in its time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.timers: list[Timer] = []
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)
        monkeypatch.setattr(time, "time", lambda: 1_767_225_600.75 + self.now_s)
        monkeypatch.setattr(time, "time_ns", lambda: 1_767_225_600_750_000_000)

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now_s + delay, call, self))
        return self.timers[-1]

    def go_on(self, steps: int = 10_000) -> None:
        while self.timers and steps:
            steps -= 1
            due = min(self.timers, key=lambda timer: timer.at_s)
            self.timers.remove(due)
            self.now_s = due.at_s
            due.call()


class Timer:
    def __init__(self, at_s: float, call: Callable[[], None], clock: Clock) -> None:
        self.at_s, self.call, self.clock = at_s, call, clock

    def cancel(self) -> None:
        if self in self.clock.timers:
            self.clock.timers.remove(self)


class Client:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.came: list[tuple[float, str]] = []

    def write(self, data: bytes) -> None:
        self.came.append((self.clock.now_s, data.decode()))

    def end(self) -> None:
        self.came.append((self.clock.now_s, "END"))


def engine(*more: str) -> Engine:
    args = ["--model", "llama-3.1-8b", "--served-model-name", "chat", "other", *more]
    return engine_of({"image": "vllm", "args": args}, NODE)


def post(port: ModelServerPort, path: str, body: Any) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    port.receive(f"POST {path} HTTP/1.1\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)


def stands(server: Engine) -> str:
    return (
        f"{server.running} running with {server.cached}, {server.waiting} waiting; "
        f"{server.read} read, {server.written} written, {server.done} done"
    )


def test_every_answer_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> Iterator[str]:
        for name, (path, body) in BODIES.items():
            clock, server = Clock(monkeypatch), engine()
            client = Client(clock)
            post(ModelServerPort(client, "", server), path, body)
            yield f"== {name}: {stands(server)}"
            clock.go_on()
            for at_s, data in client.came:
                yield f"{at_s:.6f} {data!r}"
            yield stands(server)

    check_history(Path(__file__).parent / "modelanswers.txt", told())


def test_answers_at_once_slow_each_other_down_and_wait_for_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, server = Clock(monkeypatch), engine("--max-num-seqs", "2")
    clients = [Client(clock) for _ in range(3)]
    ports = [ModelServerPort(client, "", server) for client in clients]
    for port in ports:
        post(port, TEXT, {"prompt": "hello", "max_tokens": 4})
    assert stands(server) == "2 running with 4, 1 waiting; 0 read, 0 written, 0 done"
    clock.go_on()
    assert stands(server) == "0 running with 0, 0 waiting; 6 read, 12 written, 3 done"
    first, second, third = (client.came[0][0] for client in clients)
    assert first < second < third
    # Whoever leaves gives back what it held: running, or waiting for its place.
    for port in ports:
        post(port, TEXT, {"prompt": "hello", "max_tokens": 4})
    clock.go_on(2)
    for port, left in zip(ports, ("1 running", "0 running", "0 running"), strict=True):
        port.hang_up()
        assert stands(server).startswith(left)
    assert stands(server).startswith("0 running with 0, 0 waiting") and not clock.timers
    assert [len(client.came) for client in clients] == [1, 1, 1]


def test_requests_of_one_connection_are_answered_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, server = Clock(monkeypatch), engine()
    client = Client(clock)
    port = ModelServerPort(client, "", server)
    post(port, TEXT, {"prompt": "a", "max_tokens": 2})
    port.receive(b"GET /health HTTP/1.1\r\n\r\n")
    port.receive(b"GET /v1/completions HTTP/1.1\r\n\r\nGET /nothing HTTP/1.1\r\n\r\n")
    post(port, "/openai" + CHAT, {"messages": HELLO, "max_tokens": 1})
    assert client.came == []
    clock.go_on()
    assert [data.split("\r\n")[0] for _, data in client.came] == [
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 405 Method Not Allowed",
        "HTTP/1.1 404 Not Found",
        "HTTP/1.1 200 OK",
    ]
    assert [data.partition("\r\n\r\n")[2] for _, data in client.came][1:4] == [
        "",
        '{"detail": "Method Not Allowed"}',
        '{"detail": "Not Found"}',
    ]
    assert server.done == 2 and page(server, "/v1/completions") is None


def test_as_many_as_wait_on_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    for waiting in (64, 65):
        clock, server = Clock(monkeypatch), engine()
        client = Client(clock)
        port = ModelServerPort(client, "", server)
        for _ in range(1 + waiting):
            post(port, TEXT, {"prompt": "a", "max_tokens": 1})
        refused = "HTTP/1.1 413 Request Entity Too Large"
        assert [d.partition("\r\n")[0] for _, d in client.came] == ([refused, "END"] if waiting > 64 else [])
        clock.go_on()
        assert server.done == (65 if waiting == 64 else 1)


def test_what_waits_on_a_connection_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    megabyte = 1024 * 1024
    for last, is_fine in ((megabyte, True), (megabyte + 1, False)):
        clock, server = Clock(monkeypatch), engine()
        client = Client(clock)
        port = ModelServerPort(client, "", server)
        post(port, TEXT, {"prompt": "a", "max_tokens": 1})
        for size in (megabyte, 2 * megabyte, last):
            post(port, TEXT, b"{" + b" " * (size - 2) + b"}")
        assert [data.split("\r\n")[0] for _, data in client.came] == (
            [] if is_fine else ["HTTP/1.1 413 Request Entity Too Large", "END"]
        )
