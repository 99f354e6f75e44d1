"""When a model server writes what: each wait, each chunk, and what it says of itself meanwhile.

The loop's clock stands still: what it is asked to wait for is noted, and comes at once.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from fairway.apiserver.kubelets.modelserver import Engine, engine_of, page
from fairway.apiserver.kubelets.ports import ModelServerPort

NODE = {"metadata": {"labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}}
CONTAINER = {"image": "vllm", "args": ["--model", "llama-3.1-8b", "--served-model-name", "chat", "other"]}


class Impatient(asyncio.SelectorEventLoop):
    """Every wait is noted and over at once."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, **_: Any
    ) -> asyncio.TimerHandle:
        self.waits.append(delay)
        return super().call_later(0, callback, *args)


class Client:
    def __init__(self) -> None:
        self.read = b""
        self.chunks: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.read += data
        self.chunks.append(data)

    def end(self) -> None:
        self.chunks.append(b"END")


def posted(port: ModelServerPort, path: str, **body: Any) -> None:
    data = json.dumps(body).encode()
    port.receive(f"POST {path} HTTP/1.1\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)


def answered(engine: Engine, path: str, **body: Any) -> tuple[Client, list[float]]:
    loop = Impatient()
    client = Client()

    async def run() -> None:
        posted(ModelServerPort(client, "", engine), path, **body)
        for _ in range(500):
            await asyncio.sleep(0)
            if engine.done:
                break

    loop.run_until_complete(run())
    loop.close()
    return client, loop.waits


def events(client: Client) -> list[Any]:
    found = [c.split(b"data: ", 1)[1].rsplit(b"\n\n", 1)[0] for c in client.chunks if b"data: " in c]
    assert found.pop() == b"[DONE]"
    return [json.loads(one) for one in found]


@pytest.mark.parametrize("tokens", [1, 2, 7, 12])
def test_a_streams_tokens_come_one_by_one_and_none_twice(tokens: int) -> None:
    engine = engine_of(CONTAINER, NODE)
    reads_s = engine.prompt_s(2)
    client, waits = answered(
        engine, "/v1/completions", prompt="Once up", max_tokens=tokens, ignore_eos=True, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    *texts, last, usage = events(client)
    assert len(texts) == tokens and all(one["choices"][0]["text"] for one in texts)
    assert [one["choices"][0]["finish_reason"] for one in texts] == [None] * tokens
    assert last["choices"] == [{"index": 0, "logprobs": None, "finish_reason": "length", "text": ""}]
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], tokens)
    assert usage["usage"] == {"prompt_tokens": 2, "completion_tokens": tokens, "total_tokens": tokens + 2}
    assert client.chunks[-1] == b"0\r\n\r\n"
    # An H100 takes longer for a token of an 8B model than a timer's tick: each has a wait of its own.
    assert len(waits) == tokens and waits[0] == reads_s
    for cached, wait in enumerate(waits[1:], 1):
        engine.running, engine.cached = 1, 2 + cached
        assert wait == engine.step_s()


@pytest.mark.parametrize("tokens", [1, 2, 3, 8, 9])
def test_a_small_models_tokens_come_several_at_a_time_and_the_rest_last(tokens: int) -> None:
    engine = engine_of({**CONTAINER, "args": ["--model", "phi-2", "--quantization=fp8"]}, NODE)
    engine.running, engine.cached = 1, 3
    several = math.ceil(0.004 / engine.step_s())
    assert several == 2, "an H100 writes a token of phi-2 in 2 to 4 ms"
    engine.running, engine.cached = 0, 0
    client, waits = answered(
        engine, "/v1/completions", prompt="Once up", max_tokens=tokens, ignore_eos=True, stream=True
    )
    assert len(events(client)) == tokens + 1
    assert len(waits) == 1 + math.ceil((tokens - 1) / several)
    # The last wait is for the tokens that are left.
    engine.running, engine.cached = 1, 2 + tokens - ((tokens - 1) % several or several)
    if tokens > 1:
        assert waits[-1] == engine.step_s() * ((tokens - 1) % several or several)
    assert engine.written == tokens


def test_whole_answers_wait_once_for_all_their_tokens() -> None:
    engine = engine_of(CONTAINER, NODE)
    reads_s = engine.prompt_s(2)
    client, waits = answered(engine, "/v1/completions", prompt="Once up", max_tokens=9, ignore_eos=True)
    engine.running, engine.cached = 1, 3
    assert waits == [reads_s, 8 * engine.step_s()]
    assert len(json.loads(client.read.partition(b"\r\n\r\n")[2])["choices"][0]["text"].split()) == 9


def metrics(engine: Engine) -> dict[str, float]:
    said = (page(engine, "/metrics") or b"").decode()
    rows = [line.split(" ") for line in said.splitlines() if line.startswith("vllm:")]
    return {name.partition("{")[0].removeprefix("vllm:"): float(value) for name, value in rows}


def test_who_finds_no_room_waits_a_step_and_is_counted() -> None:
    engine = engine_of({**CONTAINER, "args": [*CONTAINER["args"], "--max-num-seqs", "2"]}, NODE)
    loop = Impatient()

    async def run() -> None:
        ports = [ModelServerPort(Client(), "", engine) for _ in range(3)]
        posted(ports[0], "/v1/completions", prompt="Once up", max_tokens=4, ignore_eos=True, n=2)
        posted(ports[1], "/v1/completions", prompt="Once up on a time", max_tokens=2, ignore_eos=True)
        told = metrics(engine)
        assert (told["num_requests_running"], told["num_requests_waiting"]) == (2, 1)
        assert told["kv_cache_usage_perc"] == 2 / engine.times.cache_tokens
        assert loop.waits[1] == engine.step_s()
        ports[1].hang_up()
        assert (engine.running, engine.waiting) == (2, 0)
        posted(ports[2], "/v1/chat/completions", messages=[{"content": "x"}], max_tokens=3)
        for _ in range(100):
            await asyncio.sleep(0)
        assert (engine.running, engine.waiting, engine.cached, engine.done) == (0, 0, 0, 2)

    loop.run_until_complete(run())
    loop.close()
    told = metrics(engine)
    assert (told["prompt_tokens_total"], told["generation_tokens_total"]) == (3, 11)
    assert told["request_success_total"] == 2


def test_a_full_cache_is_waited_for_and_an_exact_fit_is_none() -> None:
    for free, is_taken in ((2, True), (1, False)):
        engine = engine_of(CONTAINER, NODE)
        engine.cached = engine.times.cache_tokens - free
        loop = Impatient()

        async def run(engine: Engine = engine, is_taken: bool = is_taken) -> None:
            posted(ModelServerPort(Client(), "", engine), "/v1/completions", prompt="Once up", max_tokens=1)
            assert (engine.running, engine.waiting) == ((1, 0) if is_taken else (0, 1))

        loop.run_until_complete(run())
        loop.close()


def test_who_leaves_gives_back_what_it_held() -> None:
    engine = engine_of(CONTAINER, NODE)
    loop = Impatient()

    async def run() -> None:
        port = ModelServerPort(Client(), "", engine)
        posted(port, "/v1/completions", prompt="Once up", max_tokens=50, ignore_eos=True, stream=True)
        for _ in range(6):
            await asyncio.sleep(0)
        assert engine.running == 1 and engine.cached > 2
        port.hang_up()
        port.hang_up()
        assert (engine.running, engine.cached, engine.waiting, engine.done) == (0, 0, 0, 0)

    loop.run_until_complete(run())
    loop.close()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0."),
        ({"n": 0}, "n must be at least 1, got 0."),
        ({"n": 129}, "n must be at most 128, got 129."),
        ({"n": 20, "max_tokens": 100_000, "ignore_eos": True}, "n must be at most 10, got 20."),
        ({"max_tokens": 131_071}, "you requested 131073 tokens (2 in the prompt, 131071 in the completion)"),
        ({"model": 3}, "Input should be a valid string"),
        ({"model": "x" * 300}, f"The model `{'x' * 200}` does not exist."),
    ],
)
def test_bounds_are_said_with_their_numbers(body: dict[str, Any], said: str) -> None:
    engine = engine_of(CONTAINER, NODE)
    client, waits = answered(engine, "/v1/completions", prompt="Once up", **body)
    assert said in json.loads(client.read.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert (engine.waiting, waits) == (0, [])


def test_at_its_bounds_a_request_is_taken() -> None:
    for body in ({"max_tokens": 131_070}, {"n": 128}, {"max_tokens": 1}, {"model": "other"}):
        engine = engine_of(CONTAINER, NODE)
        client, waits = answered(engine, "/v1/completions", prompt="Once up", **body)
        assert client.read.startswith(b"HTTP/1.1 200 OK") and len(waits) in (1, 2), body
