"""The `serving:` section: which Services model servers answer, and what comes to them.

serving:
  - service: chat                   # its pods are the servers; namespace: default
    route: chat                     # instead: an HTTPRoute, whose weights say which Service a request goes to
    model: llama-3.1-8b             # short name, or a Hugging Face path
    gpu: H100-SXM5-80GB             # a model of the catalog
    tensorParallel: 1
    quantization: auto              # fp8, int8, int4, …
    maxNumSeqs: 256
    maxNumBatchedTokens: 8192
    gpuMemoryUtilization: 0.9
    slowdown: 1.0                   # where others share the GPU
    batch: {size: 8, delay: 5ms}    # whole batches (Triton's dynamic batcher) instead of continuous batching
    pipeline: {start: 2s, step: 60ms, batched: 0.9}   # instead of a language model: `output` are steps; no gpu
    prefill: {gpu: H100-SXM5-80GB, tensorParallel: 1, linkGBPerSecond: 50}   # prompts are read on pods of their own
    speculative: {tokens: 4, acceptance: 0.7, draft: 0.1}   # guessed tokens a step; what a guess takes of a step
    traffic:
      rate: 4                       # requests a second; or {0s: 2, 1h: 20, 2h: 2}, straight between
      burstiness: 1                 # coefficient of variation of the gaps: 1 Poisson, 0 even
      prompt: {median: 500, spread: 0.8, max: 4000}
      output: {median: 150, spread: 0.7, max: 2000}
      sessions: 0                   # of so many clients, for SessionAffinity
      prefixes: {count: 20, tokens: 1000}           # each prompt begins with one of these, cached by whoever read it
      adapters: {count: 8, load: 2s, resident: 4}   # instead: each wants one of these LoRAs
      name: chat                    # of its luck: services with one name get the same requests; absent: the service's
      trace: requests.csv           # instead of all these: a recording; speed: 2 plays it twice as fast
    gateway: {policy: LeastRequests, queue: 0, holds: false, timeout: 60s, retries: false}
    slo: {ttft: 500ms, tpot: 50ms, endToEnd: 30s}
    drains: false                   # whether servers finish what they have after SIGTERM
    endpointDelay: 2s
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from fairway.catalog.catalog import load_catalog
from fairway.errors import UserError
from fairway.kube.located import Field
from fairway.kube.timestamps import SECOND_US, parse_duration
from fairway.serving.fleet import POLICIES, Gateway
from fairway.serving.models import model_named
from fairway.serving.pipelines import Named, Pipeline
from fairway.serving.readings import Slo
from fairway.serving.steptimes import Deployed, step_times
from fairway.serving.traffic import Requests, Tokens, Traffic, made, recorded, sharing
from fairway.twin.serving.served import ENDPOINT_US, Served
from fairway.twin.streams import seed_of

_MEMBERS: Final = (
    "service",
    "route",
    "namespace",
    "model",
    "gpu",
    "tensorParallel",
    "quantization",
    "maxNumSeqs",
    "maxNumBatchedTokens",
    "gpuMemoryUtilization",
    "slowdown",
    "batch",
    "pipeline",
    "prefill",
    "speculative",
    "traffic",
    "gateway",
    "slo",
    "drains",
    "endpointDelay",
)
_TRAFFIC: Final = (
    "rate",
    "burstiness",
    "prompt",
    "output",
    "sessions",
    "prefixes",
    "adapters",
    "trace",
    "speed",
    "name",
)
_PREFILL: Final = ("gpu", "tensorParallel", "linkGBPerSecond")
_THINGS_MOST: Final = 4096


def read_served(item: Field, base: Path, seed: int, duration_us: int | None) -> Served | None:
    """None where it is wrong; the reading knows why."""

    is_pipeline = "pipeline" in item.value if isinstance(item.value, dict) else False
    given = item.members(
        *_MEMBERS, required=("model", "traffic") if is_pipeline else ("model", "gpu", "traffic")
    )
    deployed = _pipeline(given) if is_pipeline else _deployed(given)
    if deployed is None:
        return None
    reads = _reading(given["prefill"], deployed)
    is_route = given["route"].is_given
    if is_route == given["service"].is_given:
        item.reject("expected a service, or a route (HTTPRoute) instead")
        return None
    name = given["route" if is_route else "service"].required_text()
    gateway = given["gateway"].members("policy", "queue", "holds", "timeout", "retries")
    slo = given["slo"].members("ttft", "tpot", "endToEnd")
    try:
        requests = _requests(given["traffic"], base, (seed, name), duration_us)
        if isinstance(deployed, Pipeline):
            # What it asks for are steps; starting is one whatever it says.
            requests = replace(requests, prompt=np.ones_like(requests.prompt))
    except UserError as wrong:
        given["traffic"].reject(str(wrong))
        return None
    patience_us = gateway["timeout"].duration(0, positive=True)
    return Served(
        name=name,
        namespace=given["namespace"].text("default"),
        deployed=deployed,
        requests=requests,
        gateway=Gateway(
            policy=gateway["policy"].choice(tuple(POLICIES), "LeastRequests"),
            queue_most=gateway["queue"].integer(0),
            holds=gateway["holds"].flag(),
            patience_s=patience_us / SECOND_US if patience_us else math.inf,
            retries=gateway["retries"].flag(),
        ),
        slo=Slo(*(_seconds(slo[which]) for which in ("ttft", "tpot", "endToEnd"))),
        drains=given["drains"].flag(),
        is_route=is_route,
        reads=reads,
        link_bytes_per_s=given["prefill"].members(*_PREFILL)["linkGBPerSecond"].number(50.0, 0.001, 1e6)
        * 1e9,
        endpoint_us=given["endpointDelay"].duration(ENDPOINT_US),
    )


def _deployed(given: dict[str, Field]) -> Deployed | None:
    catalog = load_catalog()
    gpu = catalog.gpu(given["gpu"].text())
    if gpu is None:
        given["gpu"].reject(f"expected one of {', '.join(sorted(g.name for g in catalog.gpus()))}")
        return None
    guess = given["speculative"].members("tokens", "acceptance", "draft")
    size, delay_s = _batch(given["batch"])
    try:
        deployed = Deployed(
            model=model_named(given["model"].text()),
            gpu=gpu,
            tensor_parallel=given["tensorParallel"].integer(1, 1, 64),
            quantization=given["quantization"].text("auto"),
            memory_share=given["gpuMemoryUtilization"].number(0.9, 0.05, 1.0),
            seqs_most=size or given["maxNumSeqs"].integer(256, 1, 65_536),
            tokens_most=given["maxNumBatchedTokens"].integer(8192, 16, 1_000_000),
            slowdown=given["slowdown"].number(1.0, 0.01, 1000.0),
            draft_tokens=guess["tokens"].integer(0, 0, 32),
            acceptance=guess["acceptance"].number(0.7, 0.0, 1.0),
            draft_share=guess["draft"].number(0.0, 0.0, 1.0),
            batch_delay_s=delay_s,
        )
        step_times(deployed)
    except UserError as wrong:
        given["model"].reject(str(wrong))
        return None
    return deployed


def _reading(field: Field, deployed: Deployed | Pipeline) -> Deployed | None:
    """Who reads prompts, where that is somebody else: as the others, but for what is said."""
    if not field.is_given:
        return None
    if isinstance(deployed, Pipeline):
        field.reject("expected a language model: a pipeline reads no prompts")
        return None
    given = field.members(*_PREFILL)
    gpu = load_catalog().gpu(given["gpu"].text(deployed.gpu.name))
    if gpu is None:
        given["gpu"].reject("expected a GPU of the catalog")
        return None
    parallel = given["tensorParallel"].integer(deployed.tensor_parallel, 1, 64)
    reads = replace(deployed, gpu=gpu, tensor_parallel=parallel, draft_tokens=0)
    try:
        step_times(reads)
    except UserError as wrong:
        field.reject(str(wrong))
        return None
    return reads


def _pipeline(given: dict[str, Field]) -> Pipeline:
    steps = given["pipeline"].members("start", "step", "batched", required=("step",))
    size, delay_s = _batch(given["batch"])
    return Pipeline(
        model=Named(given["model"].text()),
        start_s=steps["start"].duration(0) / SECOND_US,
        step_s=steps["step"].duration(1, positive=True)
        / SECOND_US
        * given["slowdown"].number(1.0, 0.01, 1000.0),
        batched=steps["batched"].number(1.0, 0.0, 1.0),
        seqs_most=size or 1,
        batch_delay_s=max(delay_s, 0.0),
    )


def _batch(field: Field) -> tuple[int, float]:
    """Size and delay in seconds; (0, -1) where nothing is said: continuous batching."""
    if not field.is_given:
        return 0, -1.0
    given = field.members("size", "delay", required=("size",))
    return given["size"].integer(1, 1, 4096), given["delay"].duration(0) / SECOND_US


def _requests(field: Field, base: Path, luck: tuple[int, str], duration_us: int | None) -> Requests:

    given = field.members(*_TRAFFIC)
    seed = seed_of(luck[0], f"serving/{given['name'].text(luck[1])}") % 2**63
    if given["trace"].is_given:
        found = recorded(base / given["trace"].text())
        found = replace(found, arrived_s=found.arrived_s / given["speed"].number(1.0, 1e-6, 1e6))
    else:
        rates = _rates(given["rate"], duration_us)
        prompt, output = _tokens(given["prompt"], 512), _tokens(given["output"], 128)
        sessions = given["sessions"].integer(0, 0, 10**9)
        found = made(
            Traffic(rates, prompt, output, given["burstiness"].number(1.0, 0.0, 100.0), sessions), seed
        )
    if given["prefixes"].is_given and given["adapters"].is_given:
        given["adapters"].reject("expected prefixes or adapters, not both")
    elif given["prefixes"].is_given:
        what = given["prefixes"].members("count", "tokens", required=("count", "tokens"))
        count, tokens = what["count"].integer(1, 1, _THINGS_MOST), what["tokens"].integer(1, 1, 10**6)
        found = sharing(found, count, tokens, 0.0, 0, seed + 1)
    elif given["adapters"].is_given:
        what = given["adapters"].members("count", "load", "resident", required=("count", "load"))
        count, most = what["count"].integer(1, 1, _THINGS_MOST), what["resident"].integer(0, 0, _THINGS_MOST)
        found = sharing(found, count, 0, what["load"].duration(0) / SECOND_US, most, seed + 1)
    return found


def _rates(field: Field, duration_us: int | None) -> tuple[tuple[float, float], ...]:
    """Points of seconds and requests a second. Raises: UserError."""
    if not isinstance(field.value, dict):
        if duration_us is None:
            raise UserError("a rate without an end: give the scenario a duration, or the rate points in time")
        rate = field.number(0.0, 0.0, 1e6)
        return ((0.0, rate), (duration_us / SECOND_US, rate))
    points = sorted((_time(member, name), member.number(0.0, 0.0, 1e6)) for name, member in field.entries())
    if len(points) < 2:
        raise UserError("expected two points in time or more, such as {0s: 2, 1h: 20}")
    return tuple(points)


def _time(member: Field, name: str) -> float:
    at = member.at("", name)
    return at.parsed(parse_duration, "expected a time such as 2h", 0) / SECOND_US


def _tokens(field: Field, median: int) -> Tokens:

    if not isinstance(field.value, dict):
        return Tokens(field.integer(median, 1, 10**7))
    given = field.members("median", "spread", "max")
    most = given["max"].integer(1_000_000, 1, 10**7)
    return Tokens(given["median"].integer(median, 1, 10**7), given["spread"].number(0.0, 0.0, 10.0), most)


def _seconds(field: Field) -> float:
    return field.duration(0, positive=True) / SECOND_US if field.is_given else math.inf
