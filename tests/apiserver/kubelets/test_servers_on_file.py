"""What model servers make of their command lines, and frameworks write: as it is on file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.histories import check_history

from fairway.apiserver.kubelets import frameworklogs, modelserver
from fairway.errors import UserError

HERE = Path(__file__).parent
H100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"
VLLM = "vllm/vllm-openai:v0.10.0"
# Image, command line (split at spaces), environment, GPUs, card.
SERVERS: dict[str, tuple[str, str, dict[str, str], str, str]] = {
    "nothing said": (VLLM, "", {}, "1", L4),
    "no card said": (VLLM, "", {}, "", ""),
    "a model by flag": (VLLM, "--model meta-llama/Llama-3.1-8B-Instruct --port 9000", {}, "1", H100),
    "a model behind serve": (
        "x",
        "vllm serve mistral-7b --max-model-len=4096 --max-num-seqs 7",
        {},
        "1",
        H100,
    ),
    "serve and then a flag": ("x", "vllm serve --model phi-2", {}, "1", H100),
    "a model by its variable": (VLLM, "", {"OTHER": "y", "MODEL_NAME": "phi-2"}, "1", H100),
    "an empty variable": (VLLM, "", {"MODEL_ID": "", "MODEL": "phi-2"}, "1", H100),
    "a flag before a variable": (VLLM, "--model qwen2.5-7b", {"MODEL": "phi-2"}, "1", H100),
    "two cards": (VLLM, "--model llama-3-70b --quantization fp8", {}, "2", H100),
    "parallel by flag": (VLLM, "--model llama-3-70b --tensor-parallel-size 4", {}, "8", H100),
    "text generation": (
        "ghcr.io/huggingface/text-generation-inference:2",
        "--model-id phi-2 --num-shard 2",
        {},
        "4",
        H100,
    ),
    "several names": (VLLM, "--model phi-2 --served-model-name a b --port=81", {}, "1", H100),
    "one name": (VLLM, "--model phi-2 --served-model-name=a --gpu-memory-utilization 0.5", {}, "1", H100),
    "shares out of bounds": (
        VLLM,
        "--model phi-2 --gpu-memory-utilization 1.5 --max-num-seqs 0",
        {},
        "1",
        H100,
    ),
    "a share that is none": (
        VLLM,
        "--model phi-2 --gpu-memory-utilization x --max-num-batched-tokens 100",
        {},
        "1",
        H100,
    ),
    "all of a card": (VLLM, "--model phi-2 --gpu-memory-utilization=1", {}, "1", H100),
    "nothing of a card": (VLLM, "--model phi-2 --gpu-memory-utilization=0", {}, "1", H100),
    "not a number": (VLLM, "--model phi-2 --gpu-memory-utilization=nan", {}, "1", H100),
    "parallel by its shards": (VLLM, "--model phi-2 --tensor-parallel-size 0 --num-shard 2", {}, "1", H100),
    "underscores and quotes": (
        VLLM,
        "--model 'phi-2' --max_num_seqs 6 \\ --max-num-batched-tokens=77",
        {},
        "1",
        H100,
    ),
    "a flag after a name": (VLLM, "--model phi-2 --served-model-name --port 82 --seed", {}, "1", H100),
    "serve and nothing": ("x", "vllm serve", {}, "1", H100),
    "six digits": (VLLM, "--model phi-2 --max-num-seqs 999999 --port 999999", {}, "1", H100),
    "seven digits": (VLLM, "--model phi-2 --max-num-seqs 1000000 --port 1000000", {}, "1", H100),
    "shared cards": (VLLM, "--model phi-2", {}, "1", f"{L4}-SHARED"),
    "numbers without end": (VLLM, "--model phi-2 --max-num-seqs 9999999 --port 123456789", {}, "1", H100),
    "an instance of a card": (VLLM, "--model phi-2", {}, "1", f"{H100}-MIG-3g.40gb"),
    "too small a card": (VLLM, "--model llama-3-70b", {}, "1", L4),
    "too long a context": (VLLM, "--model llama-3.1-8b --max-model-len 131072", {}, "1", L4),
    "nobody's model": (VLLM, "--model nobody", {}, "1", L4),
    "sglang": ("lmsysorg/sglang:v0.4", "--model-path phi-2", {}, "1", H100),
    "fetched before": (VLLM, "--model /mnt/models", {}, "1", H100),
    "no server": ("nginx", "serve", {}, "1", H100),
    "by its module": ("x", "python -m vllm.entrypoints.openai.api_server --model phi-2", {}, "1", H100),
}


def _container(image: str, line: str, env: dict[str, str], gpus: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": "c", "image": image, "args": line.split()}
    found["env"] = [{"name": name, "value": value} for name, value in env.items()]
    if gpus:
        found["resources"] = {"limits": {"cpu": "4", "nvidia.com/gpu": gpus}}
    return found


def _servers() -> Iterator[str]:
    fetching = {"name": "storage-initializer", "args": ["hf://org/qwen2.5-7b/", "/mnt/models"]}
    pod = {"spec": {"initContainers": [{"name": "first", "args": ["x"]}, fetching]}}
    for name, (image, line, env, gpus, card) in SERVERS.items():
        container = _container(image, line, env, gpus)
        node = {"metadata": {"labels": {"nvidia.com/gpu.product": card}}} if card else None
        is_one = modelserver.is_model_server(container)
        yield f"== {name}: {'a server' if is_one else 'none'} at {modelserver.port_of(container)}"
        try:
            engine = modelserver.engine_of(container, node, pod if "/mnt" in line else None)
        except UserError as wrong:
            yield f"! {wrong}"
            continue
        yield f"{engine.models} context {engine.context} tokens {engine.tokens_most} at once {engine.seqs_most}"
        yield f"room for {engine.times.cache_tokens} tokens"
        engine.started_s = 1_767_574_800.5
        for running, cached in ((0, 0), (3, 5000), (300, 90_000)):
            engine.running, engine.cached = running, cached
            prompts = " ".join(f"{engine.prompt_s(tokens):.6g}" for tokens in (1, 100, 10_000))
            yield f"with {running}: a token {engine.step_s():.6g} s, prompts {prompts} s"
    engine.waiting, engine.read, engine.written, engine.done = 4, 1000, 200, 7
    for path in ("/health", "/ping", "/openai/v1/models", "/version", "/metrics", "/v1/completions"):
        said = modelserver.page(engine, path)
        yield f"== {path}: {'nothing at once' if said is None else ''}"
        yield from (said or b"").decode().splitlines()


def test_servers_are_what_their_command_lines_say() -> None:
    check_history(HERE / "servers.txt", _servers())


def test_words_are_the_same_for_the_same_prompt() -> None:
    assert modelserver.text_of("hello", 12) == modelserver.text_of("hello", 20)[:12]
    assert "".join(modelserver.text_of("hello", 8)) != "".join(modelserver.text_of("hallo", 8))
    assert modelserver.text_of("x", 0) == []
    assert [modelserver.token_count("x" * n) for n in (0, 1, 4, 5, 8, 9)] == [1, 1, 1, 2, 2, 3]


# Annotations of the pod, GPUs, how long it ran, its exit code, how many lines at most.
RUNS: dict[str, tuple[dict[str, str], int, float, int | None, int]] = {
    "a run": ({}, 1, 12.5, None, 1000),
    "eight cards": ({}, 8, 6.2, None, 1000),
    "with checkpoints": ({"checkpoint-interval": "5m", "checkpoint-time": "30s"}, 2, 22, None, 1000),
    "that restores": ({"checkpoint-interval": "5m", "restore-time": "2m"}, 2, 9, None, 1000),
    "that is done": ({"run-time": "8m"}, 1, 8, 0, 1000),
    "that fails": ({"run-time": "8m"}, 1, 8, 1, 1000),
    "that is killed": ({}, 1, 3, 137, 1000),
    "that starts slowly": ({"startup-time": "4m"}, 1, 7, None, 1000),
    "that idles": ({"gpu-utilization": "0s:0%"}, 1, 7, None, 1000),
    "by steps": ({"step-time": "2s"}, 1, 5, None, 1000),
    "a few lines": ({}, 1, 300, None, 12),
    "just begun": ({}, 1, 0, None, 1000),
}


def _logs() -> Iterator[str]:
    start = 1_767_225_600_000_000
    for name, (said, gpus, minutes, code, most) in RUNS.items():
        container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
        annotations = {f"fairway.dev/{key}": value for key, value in said.items()}
        pod = {
            "metadata": {"name": "train-1", "uid": "u", "annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        run = frameworklogs.Run(pod, container, start, start + round(minutes * 60_000_000), code, most)
        yield f"== {name}"
        yield from (f"+{(at - start) / 1e6:g}s {text}" for at, text in frameworklogs.lines(run) or ())


def test_frameworks_write_what_they_wrote() -> None:
    check_history(HERE / "frameworklogs.txt", _logs())
