"""A simulated vLLM on its port: OpenAI's paths, the real client, and the time its GPU would take."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fairway.apiserver.kubelets.modelserver import Engine, engine_of, is_model_server, port_of, text_of
from fairway.apiserver.kubelets.ports import ModelServerPort
from fairway.errors import UserError

CONTAINER = {
    "name": "vllm",
    "image": "vllm/vllm-openai:v0.11.0",
    "args": ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len=8192"],
    "resources": {"limits": {"nvidia.com/gpu": 1}},
}
NODE = {"metadata": {"labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}}


class Bridge(asyncio.Protocol):
    """A TCP connection to a port of a pod, as a forwarded one is."""

    def __init__(self, engine: Engine, opened: list[Any]) -> None:
        self._engine, self._opened = engine, opened

    def connection_made(self, transport: Any) -> None:
        self._opened.append(transport)
        self._transport = transport
        self._port = ModelServerPort(self, "", self._engine)

    def data_received(self, data: bytes) -> None:
        self._port.receive(data)

    def connection_lost(self, wrong: Exception | None) -> None:
        self._port.hang_up()

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def end(self) -> None:
        self._transport.close()


@pytest.fixture
def engine() -> Engine:
    return engine_of(CONTAINER, NODE)


@pytest.fixture
def address(engine: Engine) -> Iterator[str]:
    loop = asyncio.new_event_loop()
    opened: list[Any] = []
    server = loop.run_until_complete(loop.create_server(lambda: Bridge(engine, opened), "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    for transport in opened:
        transport.abort()
    server.close()
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_the_real_client_gets_answers_whole_and_in_pieces(
    engine: Engine, address: str, closing: ExitStack
) -> None:
    openai = pytest.importorskip("openai")
    client = closing.enter_context(openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0))
    (model,) = client.models.list().data
    assert model.id == "meta-llama/Llama-3.1-8B-Instruct"
    messages = [{"role": "user", "content": "What is a token?"}]
    whole = client.chat.completions.create(model=model.id, messages=messages, max_tokens=12)
    assert whole.usage.completion_tokens == 12
    assert whole.choices[0].finish_reason == "length"
    pieces = list(
        client.chat.completions.create(model=model.id, messages=messages, max_tokens=12, stream=True)
    )
    assert "".join(p.choices[0].delta.content or "" for p in pieces) == whole.choices[0].message.content
    text = client.completions.create(model=model.id, prompt="Once upon a time", max_tokens=5)
    assert len(text.choices[0].text.split()) == 5
    with pytest.raises(openai.NotFoundError, match="The model `other` does not exist"):
        client.completions.create(model="other", prompt="x")
    with pytest.raises(openai.BadRequestError, match="maximum context length is 8192 tokens"):
        client.completions.create(model=model.id, prompt="word " * 8000, max_tokens=100)
    assert (engine.running, engine.waiting, engine.cached) == (0, 0, 0)


def test_tokens_take_the_time_of_the_gpus_steps(engine: Engine, address: str, closing: ExitStack) -> None:
    openai = pytest.importorskip("openai")
    client = closing.enter_context(openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0))
    began = time.perf_counter()
    client.completions.create(
        model=engine.model, prompt="Once", max_tokens=100, extra_body={"ignore_eos": True}
    )
    # An H100 writes a token of an 8B model of 16 bits in 8 to 9 ms; timers and this machine add to it, never take away.
    expected_s = 99 * engine.step_s()
    assert 0.6 < expected_s < 1.1
    assert time.perf_counter() - began >= 0.98 * expected_s


def test_a_server_says_of_itself_what_vllm_says(engine: Engine, address: str) -> None:
    import urllib.request

    def got(path: str) -> tuple[int, str]:
        with urllib.request.urlopen(address + path) as answer:
            return answer.status, answer.read().decode()

    assert got("/health") == (200, "")
    assert json.loads(got("/v1/models")[1])["data"][0]["max_model_len"] == 8192
    assert (
        'vllm:num_requests_running{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.0'
        in got("/metrics")[1]
    )


def test_what_does_not_fit_is_said_in_numbers() -> None:
    with pytest.raises(UserError, match="does not fit on 1 × H100"):
        engine_of({**CONTAINER, "args": ["--model", "llama-3.1-70b"]}, NODE)
    with pytest.raises(UserError, match=r"max seq len \(131072\), more KV cache is needed than is available"):
        engine_of({**CONTAINER, "args": ["--model", "llama-3.1-8b", "--gpu-memory-utilization", "0.3"]}, NODE)
    with pytest.raises(UserError, match="no such model"):
        engine_of({**CONTAINER, "args": ["--model", "somebody/unheard-of"]}, NODE)


@pytest.mark.parametrize(
    ("container", "port"),
    [
        (CONTAINER, 8000),
        ({"image": "ghcr.io/huggingface/text-generation-inference:3", "args": ["--model-id", "x"]}, 80),
        ({"image": "ours", "command": ["sh", "-c", "vllm serve llama-3.1-8b --port 9000"]}, 9000),
        ({"image": "nginx"}, None),
    ],
)
def test_model_servers_are_known_by_image_or_command(container: dict[str, Any], port: int | None) -> None:
    assert is_model_server(container) is (port is not None)
    if port is not None:
        assert port_of(container) == port


def test_one_prompt_has_one_text() -> None:
    assert text_of("a", 20) == text_of("a", 20) != text_of("b", 20)
