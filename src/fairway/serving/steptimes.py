"""How long does one step of a model server take, on this GPU?

A step computes some tokens of prompts and one token of every sequence that is being written. Each layer multiplies
by its weights: they are read once (bandwidth), and every token is multiplied with them (tensor cores); the two overlap
in part, so their times add as the sides of a right angle. Attention reads the cache. Tensor parallel GPUs share all
this and add their parts up twice a layer.

The six constants are fitted to the kernels that microsoft/vidur (MIT) measured: 71 combinations of 7 models, A40, A100
and H100, and 1 to 8 GPUs. Median error of a layer 4.3 %, nine in ten within 12 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import yaml
from numpy.typing import NDArray

from fairway.catalog.gpus import GpuModel
from fairway.errors import UserError
from fairway.serving.models import Model, bytes_per_weight

# Of the datasheet's bandwidth and tensor throughput, what matrix products reach; then what a layer takes besides.
_OF_BANDWIDTH, _OF_TFLOPS = 0.78, 0.70
_LAYER_S = 30e-6
_ACTIVATION_READS = 12
# Of NVLink's one direction, what an all-reduce over a ring reaches, and what each doubling of GPUs takes at least.
_OF_LINK, _ALL_REDUCE_S = 0.72, 7e-6
# A step's scheduling, sampling and answers, on the CPU: what fits the whole times of vLLM's own CI best
# (data/published.yaml, its first set; chosen by that set alone).
_STEP_S = 1.25e-3
# Without NVLink GPUs talk over PCIe: GB/s one way by generation.
_PCIE_GB = {"3.0": 12.0, "4.0": 24.0, "5.0": 48.0}
# What a server keeps off the cache: CUDA context, graphs, activations. Source: vLLM's profiling run, about 2 GiB.
_RESERVED_BYTES = 2 * 2**30


@dataclass(frozen=True, slots=True)
class Deployed:
    """A model as one replica serves it. `memory_share` is vLLM's `--gpu-memory-utilization`."""

    model: Model
    gpu: GpuModel
    tensor_parallel: int = 1
    quantization: str = "auto"
    kv_bytes: float = 2
    memory_share: float = 0.90
    seqs_most: int = 256
    tokens_most: int = 8192
    """`--max-num-seqs` and `--max-num-batched-tokens`."""
    slowdown: float = 1.0
    """Longer by this factor, for example because others share the GPU."""
    draft_tokens: int = 0
    acceptance: float = 0.0
    draft_share: float = 0.0
    """Speculative decoding: tokens guessed a step, how likely each is right where those before were, and what a guess
    takes as a share of a step for one sequence (0: guessed from the text itself)."""
    compute_share: float = 1.0
    """Of the card's SMs, where it is a slice of one: its memory and bandwidth are then the slice's already."""
    batch_delay_s: float = -1.0
    """Whole batches, as Triton's dynamic batcher makes them, which wait so long for others; negative: continuous."""

    @property
    def tokens_a_step(self) -> float:
        """Of each sequence, on average. Source: Leviathan et al. 2023, equation 1."""
        k, a = self.draft_tokens, self.acceptance
        return float(k + 1) if a >= 1 else (1 - a ** (k + 1)) / (1 - a)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """`linear_s`: float64[tokens of a step], the rest of a step is proportional: to the tokens in the cache of
    those who write, and to the pairs of tokens that prompts attend to."""

    linear_s: NDArray[np.float64]
    writing_s: NDArray[np.float64]
    """float64[sequences]: of one token for each of those who write, guesses and their checking included."""
    cached_token_s: float
    attended_pair_s: float
    cache_tokens: int


def step_times(deployed: Deployed) -> StepTimes:
    """Raises: UserError: the model does not fit, the card has no tensor cores that we know of."""
    model, gpu, parts = deployed.model, deployed.gpu, deployed.tensor_parallel
    per_weight = bytes_per_weight(deployed.quantization)
    tokens = np.arange(deployed.tokens_most + deployed.seqs_most + 1, dtype=np.float64)
    bandwidth = gpu.bandwidth_gb_per_s * 1e9 * _OF_BANDWIDTH
    flops = _flops(gpu, deployed.quantization) * _OF_TFLOPS * deployed.compute_share

    def product(read: NDArray[np.float64] | float, used: float) -> NDArray[np.float64]:
        return np.hypot(read * per_weight / parts / bandwidth, 2 * used * tokens / parts / flops)

    experts, taken = model.experts
    # So many experts are read as the tokens of a step choose.
    chosen = experts * (1 - (1 - taken / experts) ** tokens)
    layer = product(
        model.attention_weights + chosen * model.expert_weights,
        model.attention_weights + taken * model.expert_weights,
    )
    activations = (
        (_ACTIVATION_READS * model.hidden + 3 * model.inner * taken / parts) * 2 * tokens / bandwidth
    )
    layer = layer + _LAYER_S + activations + 2 * _all_reduce_s(gpu, parts, 2 * model.hidden * tokens)
    head = product(model.vocabulary * model.hidden, 0) + 2 * model.vocabulary * model.hidden * np.minimum(
        tokens, deployed.seqs_most
    ) / (parts * flops)
    linear = (_STEP_S + model.layers * layer + head) * deployed.slowdown
    linear[0] = 0.0
    cached = model.cache_values * deployed.kv_bytes / parts / bandwidth * deployed.slowdown
    pair = 4 * model.layers * model.heads * model.head_size / parts / (flops * 0.6) * deployed.slowdown
    return StepTimes(linear, _writing_s(deployed, linear), cached, pair, _cache_tokens(deployed, per_weight))


def _writing_s(deployed: Deployed, linear: NDArray[np.float64]) -> NDArray[np.float64]:
    guessed = deployed.draft_tokens
    if not guessed:
        return linear
    checked = np.minimum(np.arange(len(linear)) * (guessed + 1), len(linear) - 1)
    drafts = guessed * deployed.draft_share * linear[1]
    found: NDArray[np.float64] = (linear[checked] + drafts) / deployed.tokens_a_step
    found[0] = 0.0
    return found


def _cache_tokens(deployed: Deployed, per_weight: float) -> int:
    model, gpu, parts = deployed.model, deployed.gpu, deployed.tensor_parallel
    if model.heads % parts:
        raise UserError(
            f"{model.name}: {model.heads} attention heads cannot be divided by tensor parallel size {parts}"
        )
    weights = model.weights * per_weight / parts
    free = gpu.memory_bytes * deployed.memory_share - weights - _RESERVED_BYTES
    per_token = model.cache_values * deployed.kv_bytes / parts
    if free < per_token * 16:
        usable = gpu.memory_bytes * deployed.memory_share
        raise UserError(
            f"{model.name} does not fit on {parts} × {gpu.name}: its weights take {weights / 2**30:.1f} GiB of "
            f"{usable / 2**30:.1f} GiB on each, {_RESERVED_BYTES / 2**30:.0f} GiB are the server's; expected at least "
            f"{math.ceil(model.weights * per_weight / (usable - _RESERVED_BYTES))} GPUs, fewer bits per weight, or a "
            "larger card"
        )
    return int(free / per_token)


def _all_reduce_s(gpu: GpuModel, parts: int, sent_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over a ring: every byte goes out and comes back but for each GPU's own part."""
    if parts == 1:
        return np.zeros_like(sent_bytes)
    link = gpu.nvlink_gb_per_s / 2 or _PCIE_GB.get(gpu.pcie.split()[0], 24.0)
    return _ALL_REDUCE_S * math.log2(parts) + 2 * (parts - 1) / parts * sent_bytes / (link * 1e9 * _OF_LINK)


def _flops(gpu: GpuModel, quantization: str) -> float:
    of_16, of_8 = _tensor_tflops().get(gpu.name, (0, 0))
    found = of_8 or of_16 if quantization == "fp8" else of_16
    if not found:
        raise UserError(
            f"{gpu.name}: its tensor cores are not known; expected one of {', '.join(_tensor_tflops())}"
        )
    return found * 1e12


@cache
def _tensor_tflops() -> dict[str, tuple[float, float]]:
    text = (files(__package__) / "data" / "tensorcores.yaml").read_text(encoding="utf-8")
    return {name: (row[0], row[1]) for name, row in yaml.safe_load(text)["tflops"].items()}
