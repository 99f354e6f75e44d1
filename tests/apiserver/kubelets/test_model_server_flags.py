"""A model server's flags are written by whoever may create pods: none of them brings the server down."""

from __future__ import annotations

import pytest

from fairway.apiserver.kubelets.modelserver import engine_of, port_of
from fairway.errors import UserError

NODE = {"metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}}
HOSTILE = ["9" * 5000, "999999999999", "\u00b2", "-1", "0", "nan", "inf", "x", ""]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(
    "flag",
    ["port", "max-num-seqs", "max-num-batched-tokens", "max-model-len", "gpu-memory-utilization"],
)
def test_a_flag_that_says_nothing_possible_is_as_if_it_were_not_there(flag: str, value: str) -> None:
    plain = {"name": "c", "image": "vllm/vllm-openai:v0.9", "args": ["--model", "llama-3.1-8b"]}
    odd = {**plain, "args": [*plain["args"], f"--{flag}={value}"]}
    assert port_of(odd) == 8000
    found, want = engine_of(odd, NODE), engine_of(plain, NODE)
    assert (found.context, found.tokens_most, found.seqs_most) == (
        want.context,
        want.tokens_most,
        want.seqs_most,
    )
    assert found.times.cache_tokens == want.times.cache_tokens


def test_a_count_of_gpus_without_end_is_one() -> None:
    container = {"image": "vllm", "resources": {"limits": {"nvidia.com/gpu": "9" * 5000}}}
    assert engine_of(container, NODE).context > 0


@pytest.mark.parametrize(
    ("image", "args", "want"),
    [
        ("vllm/vllm-openai:v0.9", [], 8000),
        ("ghcr.io/huggingface/Text-Generation-Inference:3", [], 80),
        ("lmsysorg/sglang:latest", [], 30000),
        ("kserve/huggingfaceserver:v0.15", [], 8080),
        ("kserve/huggingfaceserver:v0.15", ["--port", "9"], 9),
        ("lmsysorg/sglang:latest", ["--port=999999"], 999_999),
        ("lmsysorg/sglang:latest", ["--port=1000000"], 30000),
    ],
)
def test_where_each_server_listens(image: str, args: list[str], want: int) -> None:
    assert port_of({"name": "c", "image": image, "args": args}) == want


def test_a_context_as_long_as_the_cache_is_served_and_no_longer() -> None:
    plain = {"name": "c", "image": "vllm/vllm-openai:v0.9", "args": ["--model", "llama-3.1-70b"]}
    h100 = {"metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}}
    four = {**plain, "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    room = engine_of({**four, "args": [*plain["args"], "--max-model-len=1"]}, h100).times.cache_tokens
    assert room > 1
    assert engine_of({**four, "args": [*plain["args"], f"--max-model-len={room}"]}, h100).context == room
    with pytest.raises(
        UserError, match=rf"max seq len \({room + 1}\), more KV cache .* available: {room} tokens"
    ):
        engine_of({**four, "args": [*plain["args"], f"--max-model-len={room + 1}"]}, h100)
