"""How an external scaler is asked and listened to, call by call; without gRPC's own sockets."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from fairway.apiserver import externalscalers
from fairway.apiserver.externalscalers import CALL_S, ExternalScalers, _Known
from fairway.autoscaling.keda import external
from fairway.autoscaling.keda.external import Answer, Asked, Metric, ScalerFault
from fairway.cluster.store import Store
from fairway.kube.objects import Key

ASKED = Asked(Key("ScaledObject.keda.sh", "team", "s"), 0, "h:1", True, (("queue", "a"),))
REF = external.scaled_object_ref(ASKED)


def named(name: str, number: float) -> bytes:
    body = bytes([1 << 3 | 2, len(name)]) + name.encode() + bytes([3 << 3 | 1]) + struct.pack("<d", number)
    return bytes([1 << 3 | 2, len(body)]) + body


ACTIVE = b"\x08\x01"
Told = list[Any]


class Channel:
    """What a scaler answers, by method; what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.asked = answers, list[tuple[str, bytes, float]]()
        self.streams: list[Callable[[], AsyncIterator[bytes]]] = []

    def unary_unary(self, path: str) -> Any:
        service, _, method = path.removeprefix("/").partition("/")
        assert service == external.SERVICE

        async def call(request: bytes, timeout: float) -> bytes:
            self.asked.append((method, request, timeout))
            found = self.answers[method]
            if isinstance(found, Exception):
                raise found
            return bytes(found.pop(0) if isinstance(found, list) else found)

        return call

    def unary_stream(self, path: str) -> Any:
        assert path == f"/{external.SERVICE}/StreamIsActive"

        def call(request: bytes) -> AsyncIterator[bytes]:
            assert request == REF
            return self.streams.pop(0)()

        return call


def scalers(channel: Channel | Exception, told: Told) -> ExternalScalers:
    room = SimpleNamespace(
        keda=SimpleNamespace(answered=lambda key, is_another: told.append((key, is_another)))
    )
    cluster = SimpleNamespace(touch=lambda: None, poke=lambda: None, no_faster=nullcontext)
    made = ExternalScalers(room, Store(), cluster, ())  # type: ignore[arg-type]

    async def found(_asked: Asked) -> Any:
        if isinstance(channel, Exception):
            raise channel
        return channel

    made._channel = found  # type: ignore[method-assign]
    return made


def test_a_scaler_is_asked_for_its_metrics_each_of_them_and_whether_it_is_active() -> None:
    spec = named("depth", 10) + named("age", 2.5)
    channel = Channel(GetMetricSpec=spec, GetMetrics=[named("depth", 35), named("age", 0.5)], IsActive=ACTIVE)
    found = asyncio.run(scalers(channel, [])._answered(ASKED))
    assert found == Answer(
        (Metric("depth", 10_000), Metric("age", 2_500)), {"depth": 35_000, "age": 500}, True
    )
    assert channel.asked == [
        ("GetMetricSpec", REF, CALL_S),
        ("GetMetrics", external.metrics_request(REF, "depth"), CALL_S),
        ("GetMetrics", external.metrics_request(REF, "age"), CALL_S),
        ("IsActive", REF, CALL_S),
    ]


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (TimeoutError(), "rpc error: code = DeadlineExceeded desc = context deadline exceeded"),
        (OSError("no route"), "external: h:1: no route"),
        (ScalerFault("x" * 300), f"external: h:1: {'x' * 200}"),
        (ValueError("odd"), "external: h:1: odd"),
    ],
)
def test_why_a_scaler_says_nothing(wrong: Exception, fault: str) -> None:
    for channel in (wrong, Channel(GetMetricSpec=wrong)):
        assert asyncio.run(scalers(channel, [])._answered(ASKED)) == Answer(fault=fault)


def test_a_stream_is_followed_and_begun_again_later_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds, then twice as long up to a minute; from the beginning once something came."""
    told: Told = []
    channel, slept, now_s = Channel(), list[float](), [0.0]
    known = _Known(Answer((), {}, False), wanted_s=0.0)

    async def broken() -> AsyncIterator[bytes]:
        raise OSError("reset")
        yield b""

    async def speaks() -> AsyncIterator[bytes]:
        yield ACTIVE
        yield ACTIVE
        yield b""

    async def nonsense() -> AsyncIterator[bytes]:
        yield b"\xff\xff\xff"

    channel.streams = [*[broken] * 7, speaks, nonsense, broken]

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now_s[0] = 301.0 if not channel.streams else now_s[0]

    monkeypatch.setattr(externalscalers, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    made = scalers(channel, told)

    async def story() -> None:
        known.listening = asyncio.current_task()
        await made._listen(ASKED, known)

    monkeypatch.setattr(externalscalers, "asyncio", SimpleNamespace(sleep=sleep))
    asyncio.run(story())
    assert slept == [2, 4, 8, 16, 32, 60, 60, 0.1, 0.1, 0.1, 2, 2, 4]
    assert told == [(ASKED.key, False)] * 2, "active, and then not: the second message is no news"
    assert known.answer == Answer((), {}, False) and known.listening is None


def test_a_stream_nobody_asks_for_any_more_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    for since_s, begins in ((300.0, False), (299.9, True)):
        known, began, now_s = _Known(wanted_s=0.0), list[bool](), [since_s]

        async def once(began: list[bool] = began) -> AsyncIterator[bytes]:
            began.append(True)
            return
            yield b""

        async def sleep(_seconds: float, now_s: list[float] = now_s) -> None:
            now_s[0] = 1000.0

        channel = Channel()
        channel.streams = [once]
        monkeypatch.setattr(externalscalers, "time", SimpleNamespace(monotonic=lambda now_s=now_s: now_s[0]))
        monkeypatch.setattr(externalscalers, "asyncio", SimpleNamespace(sleep=sleep))
        asyncio.run(scalers(channel, [])._listen(ASKED, known))
        assert bool(began) is begins
