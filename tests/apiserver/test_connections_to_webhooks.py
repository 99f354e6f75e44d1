"""Connections to webhooks: which are used again, how many are kept, and who is told what where none can be had."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Coroutine, Generator
from contextlib import nullcontext
from typing import Any

import pytest

from fairway.admission.request import CallWebhook, WebhookAnswer
from fairway.apiserver import webhookcalls
from fairway.apiserver.webhookcalls import Webhooks
from fairway.apiserver.wire.client import Link, Target, Unanswered
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store

Answer = tuple[int, bytes] | Exception


class Connected:
    """A connection that answers what it is told to; `met` keeps all that were opened."""

    def __init__(self, world: World, target: Target) -> None:
        self.world, self.target = world, target
        self.is_open = True
        self.among: list[Any] | None = None
        self.posted: list[str] = []

    async def post(self, path: str, _body: bytes) -> tuple[int, bytes]:
        self.posted.append(path)
        await self.world.go.wait()
        said = self.world.answers.pop(0) if self.world.answers else (200, b"{}")
        if isinstance(said, Exception):
            self.is_open = False
            raise said
        self.is_open = not self.world.says_goodbye
        return said

    def keep(self, among: list[Any]) -> None:
        among.append(self)
        self.among = among

    def take(self) -> None:
        if self.among is not None:
            self.among.remove(self)
            self.among = None

    def close(self) -> None:
        self.take()
        self.is_open = False


class World:
    """A cluster, and everybody it connects to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[Answer] = []
        self.met: list[Connected] = []
        self.told: list[str] = []
        self.says_goodbye = False
        self.go = asyncio.Event()
        self.go.set()
        cluster: Any = self
        self.hooks = Webhooks(Store(), cluster)

        async def open_(target: Target, _context: Any) -> Any:
            self.met.append(Connected(self, target))
            return self.met[-1]

        monkeypatch.setattr(Link, "open", open_)

    def no_faster(self) -> Any:
        return nullcontext()

    def touch(self) -> None:
        self.told.append("touch")

    def poke(self) -> None:
        self.told.append("poke")

    async def call(self, url: str = "https://hook.example.com/x", ca: str = "") -> WebhookAnswer:
        config = {"url": url, "caBundle": ca} if ca else {"url": url}
        return await self.hooks.call(wanted(config))

    @property
    def opened(self) -> int:
        return len(self.met)


def wanted(config: dict[str, Any]) -> CallWebhook:
    return CallWebhook("c", "w", config, {}, 5, True)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_a_connection_that_stays_open_is_used_again(world: World) -> None:
    async def story() -> None:
        assert (await world.call()).review == {}
        assert (await world.call()).review == {}
        assert world.opened == 1
        assert world.met[0].posted == ["/x?timeout=5s"] * 2
        await world.call("https://hook.example.com/y?a=b")
        assert world.opened == 1 and world.met[0].posted[2] == "/y?a=b&timeout=5s"
        await world.call("https://hook.example.com:444/x")
        assert world.opened == 2, "another port is somebody else"
        world.says_goodbye = True
        await world.call()
        await world.call()
        assert world.opened == 3, "whoever hung up is asked anew"

    run(story())


def test_connections_closed_while_nobody_used_them_are_passed_over(world: World) -> None:
    async def story() -> None:
        world.go.clear()
        calls = [asyncio.ensure_future(world.call()) for _ in range(3)]
        await asyncio.sleep(0)
        world.go.set()
        await asyncio.gather(*calls)
        assert world.opened == 3
        world.answers = [Unanswered("EOF"), Unanswered("EOF"), (200, b'{"a":1}')]
        assert (await world.call()).review == {"a": 1}
        assert world.opened == 3, "the third was still good"
        world.answers = [Unanswered("EOF"), (200, b'{"a":2}')]
        assert (await world.call()).review == {"a": 2}
        assert world.opened == 4, "a new one, in the end"
        world.answers = [Unanswered("EOF"), Unanswered("EOF")]
        assert (await world.call()).error == 'Post "https://hook.example.com/x?timeout=5s": EOF'
        assert world.opened == 5, "and that one is the last"
        world.answers = [ConnectionResetError("reset")]
        await world.call()
        assert world.opened == 6

    run(story())


def test_four_connections_are_kept_for_a_place(world: World) -> None:
    async def story() -> None:
        world.go.clear()
        calls = [asyncio.ensure_future(world.call()) for _ in range(6)]
        await asyncio.sleep(0)
        world.go.set()
        await asyncio.gather(*calls)
        assert world.opened == 6 and sum(link.is_open for link in world.met) == 4
        world.hooks.close()
        assert not any(link.is_open for link in world.met)

    run(story())


def test_no_more_than_so_many_calls_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (webhookcalls._AT_ONCE, webhookcalls._IDLE, webhookcalls._PLACES) == (64, 4, 256)
    monkeypatch.setattr(webhookcalls, "_AT_ONCE", 2)

    async def story() -> None:
        world.go.clear()
        calls = [asyncio.ensure_future(world.call()) for _ in range(3)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert world.opened == 2
        world.go.set()
        await asyncio.gather(*calls)
        assert world.opened == 2

    run(story())


def test_with_too_many_places_all_begins_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhookcalls, "_PLACES", 2)

    async def story() -> None:
        for name in "ab":
            await world.call(f"https://{name}.example.com/")
        assert [link.is_open for link in world.met] == [True, True]
        await world.call("https://b.example.com/")
        assert world.opened == 2
        await world.call("https://c.example.com/")
        assert [link.is_open for link in world.met] == [False, False, True]

    run(story())


@pytest.mark.parametrize("status", [199, 201, 301, 404, 500])
def test_only_200_is_an_answer(world: World, status: int) -> None:
    async def story() -> None:
        world.answers = [(status, b"{}")]
        said = await world.call()
        assert said.review is None
        assert said.error == f"the server rejected our request for an unknown reason (status {status})"

    run(story())


def test_without_a_bundle_those_are_trusted_whom_the_machine_trusts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(ssl, "create_default_context", lambda **given: asked.append(given) or "context")
    webhookcalls._context.cache_clear()
    try:
        assert webhookcalls._context("") == "context"  # type: ignore[comparison-overlap]
        assert webhookcalls._context("WA==") == "context"  # type: ignore[comparison-overlap]
    finally:
        webhookcalls._context.cache_clear()
    assert asked == [{}, {"cadata": "X"}]


# For objects of the cluster's own controllers


def steps(end: Any) -> Generator[CallWebhook, WebhookAnswer, Any]:
    answer = yield wanted({"url": "https://b.example.com/"})
    assert answer.review == {"n": 2}
    if isinstance(end, Exception):
        raise end
    return end


@pytest.mark.parametrize(
    ("end", "want"),
    [
        ("outcome", "outcome"),
        (ApiError(403, "Forbidden", "no"), (403, "Forbidden", "no")),
        (KeyError("k"), (500, "InternalError", "Internal error occurred: KeyError")),
    ],
)
def test_all_webhooks_are_asked_and_the_end_is_told(
    world: World, end: Any, want: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settled: list[Any] = []

    def twice() -> Generator[CallWebhook, WebhookAnswer, Any]:
        first = yield wanted({"url": "https://a.example.com/"})
        assert first.review == {"n": 1}
        return (yield from steps(end))

    async def both() -> None:
        world.answers = [(200, json.dumps({"n": n}).encode()) for n in (1, 2)]
        going = twice()
        world.hooks.begin(going, next(going), settled.append)
        while world.hooks._asking:
            await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR, "fairway.apiserver"):
        run(both())
    (found,) = settled
    assert ((found.code, found.reason, found.message) if isinstance(found, ApiError) else found) == want
    assert [link.target.host for link in world.met] == ["a.example.com", "b.example.com"]
    assert world.told == ["touch", "touch", "poke"]
    assert len(caplog.records) == isinstance(end, KeyError)


def test_nobody_is_asked_any_more(world: World) -> None:
    settled: list[Any] = []

    async def story() -> None:
        await world.call()
        world.go.clear()
        going = steps("never")
        world.hooks.begin(going, next(going), settled.append)
        await asyncio.sleep(0)
        (task,) = world.hooks._asking
        world.hooks.stop()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled() and not world.hooks._asking

    run(story())
    assert settled == [] and not world.met[0].is_open
