"""The body of a request is written by whoever reaches the port: all of it is answered, in the server's words."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apiserver.kubelets.modelserver import Engine, engine_of
from fairway.apiserver.kubelets.ports import ModelServerPort

NODE = {"metadata": {"labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}}
CONTAINER = {"image": "vllm", "args": ["--model", "llama-3.1-8b", "--served-model-name", "chat"]}
CHAT = "/v1/chat/completions"


class Client:
    """The other end: what was written, and whether the connection was ended."""

    def __init__(self) -> None:
        self.read = b""
        self.is_ended = False

    def write(self, data: bytes) -> None:
        self.read += data

    def end(self) -> None:
        self.is_ended = True

    @property
    def code(self) -> int:
        return int(self.read.split(b" ", 2)[1]) if self.read else 0

    @property
    def said(self) -> str:
        return str(json.loads(self.read.partition(b"\r\n\r\n")[2])["error"]["message"])


def engine() -> Engine:
    return engine_of(CONTAINER, NODE)


def asked(body: bytes, path: str = CHAT, length: int | None = None, server: Engine | None = None) -> Client:
    """Until it is answered or, where it begins to generate, for a moment."""

    async def run() -> Client:
        client = Client()
        port = ModelServerPort(client, "", server or engine())
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n"
        port.receive(head.encode() + body)
        await asyncio.sleep(0)
        port.hang_up()
        return client

    return asyncio.run(run())


def chat(**more: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": "hello"}], **more}).encode()


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (b"", 400, "'loc': ('body', 'messages')"),
        (b"[]", 400, "Input should be a valid dictionary"),
        (b"\xff\xfe\x00{", 400, "There was an error parsing the body"),
        (b'{"messages": "\xff"}', 400, "There was an error parsing the body"),
        (b"[" * 200_000, 400, "There was an error parsing the body"),
        (b'{"messages": ' + b'[{"a": ' * 50_000, 400, "There was an error parsing the body"),
        (b'{"n": ' + b"9" * 5000 + b"}", 400, "There was an error parsing the body"),
        (json.dumps({"messages": "hello"}).encode(), 400, "'loc': ('body', 'messages')"),
        (json.dumps({"messages": [1]}).encode(), 400, "'loc': ('body', 'messages')"),
        (chat(model=7), 400, "Input should be a valid string"),
        (chat(model="gpt-5"), 404, "The model `gpt-5` does not exist."),
        (chat(model="x" * 1_000_000), 404, "x` does not exist."),
        (chat(max_tokens=0), 400, "max_tokens must be at least 1, got 0."),
        (chat(max_completion_tokens=0, max_tokens=5), 400, "max_tokens must be at least 1, got 0."),
        (chat(max_tokens=-1), 400, "max_tokens must be at least 1, got -1."),
        (chat(max_tokens="many"), 400, "unable to parse string as an integer"),
        (chat(max_tokens=1.5), 400, "got a number with a fractional part"),
        (chat(max_tokens=float("nan")), 400, "got a number with a fractional part"),
        (chat(max_tokens=[1]), 400, "'type': 'int_type'"),
        (chat(max_tokens=10**30), 400, "This model's maximum context length is 131072 tokens."),
        (chat(n=0), 400, "n must be at least 1, got 0."),
        (chat(n=10**9), 400, "n must be at most 128, got 1000000000."),
        (chat(n=100, max_tokens=100_000, ignore_eos=True), 400, "n must be at most 10, got 100."),
        (chat(n={"a": 1}), 400, "Input should be a valid integer"),
    ],
)
def test_what_is_wrong_is_said_and_the_connection_stays(body: bytes, code: int, said: str) -> None:
    client = asked(body)
    assert (client.code, client.is_ended) == (code, False)
    assert said in client.said
    assert len(client.read) < 2000


def test_a_body_of_ten_megabytes_is_refused_and_the_connection_ended() -> None:
    client = asked(chat(user="x" * 10_000_000))
    assert client.read.startswith(b"HTTP/1.1 413")
    assert client.is_ended


def test_a_body_shorter_than_it_says_is_waited_for() -> None:
    assert asked(chat(), length=5000).read == b""


def test_a_body_longer_than_it_says_is_not_another_request() -> None:
    client = asked(b"{}" + b"junk that is no request\r\n\r\n", length=2)
    assert client.read.count(b"HTTP/1.1 ") == client.read.count(b"HTTP/1.1 400") == 2
    assert client.is_ended


def test_who_asks_without_waiting_for_answers_has_an_end() -> None:
    """Each would wait for the first, and memory with it."""

    async def run() -> Client:
        client = Client()
        port = ModelServerPort(client, "", engine())
        body = chat(user="x" * 1000)
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        for _ in range(200):
            port.receive(head + body)
        port.hang_up()
        return client

    client = asyncio.run(run())
    assert client.read.startswith(b"HTTP/1.1 413")
    assert client.is_ended


def test_as_many_choices_as_are_asked_for() -> None:
    server = engine()

    async def run() -> bytes:
        client = Client()
        port = ModelServerPort(client, "", server)
        body = chat(n=3, max_tokens="4", model="chat")
        port.receive(f"POST {CHAT} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        for _ in range(400):
            if client.read:
                break
            await asyncio.sleep(0.01)
        return client.read.partition(b"\r\n\r\n")[2]

    answer = json.loads(asyncio.run(run()))
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert len({choice["message"]["content"] for choice in answer["choices"]}) == 3
    assert answer["usage"]["completion_tokens"] == 12
    assert (server.running, server.cached, server.waiting) == (0, 0, 0)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
FIELDS = (
    "messages",
    "prompt",
    "model",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "stream",
    "stream_options",
    "ignore_eos",
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5), st.sampled_from([CHAT, "/v1/completions"])
)
def test_no_value_of_any_field_brings_it_down(body: dict[str, Any], path: str) -> None:
    server = engine_of(CONTAINER, NODE)
    client = asked(json.dumps(body).encode(), path, server=server)
    assert client.code in (0, 200, 400, 404)
    assert (server.running, server.cached, server.waiting) == (0, 0, 0)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_bring_it_down(body: bytes) -> None:
    assert asked(body).code in (0, 400, 404)
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        assert body == b"" or asked(body).code == 400


def test_a_preset_of_kserve_says_which_model_by_what_is_fetched() -> None:
    command = 'eval "vllm serve /mnt/models \\\n --served-model-name "chat" "publishers/x/models/chat" \\\n --port 1'
    fetching = {"name": "storage-initializer", "args": ["hf://Qwen/Qwen2.5-7B-Instruct", "/mnt/models"]}
    container = {"name": "main", "image": "llm-d", "command": ["/bin/bash", "-c", command, "--"]}
    found = engine_of(container, NODE, {"spec": {"initContainers": [fetching], "containers": [container]}})
    assert found.models == ("chat", "publishers/x/models/chat")
    assert found.times.cache_tokens > 2 * engine().times.cache_tokens
