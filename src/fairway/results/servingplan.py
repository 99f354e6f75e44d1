"""For a model, a load and an SLO: which GPU or slice, how many together, which limits, how many replicas, for least?

Every candidate is tried with requests, not reckoned: the fewest replicas that answer the wanted share in time are found
by bisection, each try a few thousand requests at the peak's rate. A GPU costs its share of its cheapest machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fairway.catalog.catalog import Catalog
from fairway.catalog.gpus import GpuModel
from fairway.catalog.prices import Price
from fairway.errors import UserError
from fairway.serving import batching as b
from fairway.serving.fleet import Fleet, Gateway
from fairway.serving.models import Model
from fairway.serving.readings import Readings, Slo, readings
from fairway.serving.steptimes import Deployed, step_times
from fairway.serving.traffic import Requests, Tokens, Traffic, made, steady

PARALLEL: Final = (1, 2, 4, 8)
LIMITS: Final = ((64, 2048), (256, 8192))
"""Sequences at once and tokens a step."""
_REQUESTS: Final = 2_000
_REPLICAS_MOST: Final = 512


@dataclass(frozen=True, slots=True)
class Wanted:
    """`trough` is the rate of quiet hours, as many a day as `quiet_hours`."""

    model: Model
    rate: float
    prompt: Tokens
    output: Tokens
    slo: Slo
    attain: float
    trough: float = 0.0
    quiet_hours: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """A way to serve it that keeps the SLO. `in_flight`: of one replica at the peak, what an autoscaler is told."""

    gpu: str
    slice: str
    parallel: int
    quantization: str
    seqs: int
    tokens: int
    replicas: int
    least: int
    in_flight: float
    micros_per_hour: int
    """Of all replicas at the peak."""
    micros_mean: float
    """Over a day whose quiet hours have `least` replicas."""
    found: Readings

    @property
    def ttft_p95_s(self) -> float:
        return self.found.percentiles["ttft"][1]

    @property
    def tpot_p95_s(self) -> float:
        return self.found.percentiles["tpot"][1]

    @property
    def name(self) -> str:
        card = self.gpu if not self.slice else f"{self.gpu} {self.slice}"
        return f"{self.parallel} × {card}" if self.parallel > 1 else card

    def as_json(self) -> dict[str, Any]:
        return {
            "gpu": self.gpu,
            "slice": self.slice or None,
            "tensorParallel": self.parallel,
            "quantization": self.quantization,
            "maxNumSeqs": self.seqs,
            "maxNumBatchedTokens": self.tokens,
            "replicas": self.replicas,
            "minReplicas": self.least,
            "targetInFlight": round(self.in_flight, 1),
            "usdPerHour": self.micros_per_hour / 1e6,
            "usdPerDayAutoscaled": 24 * self.micros_mean / 1e6,
            **self.found.as_json(),
        }


@dataclass(frozen=True, slots=True)
class _Card:
    gpu: GpuModel
    slice: str
    compute_share: float
    micros: int
    """An hour of it."""
    parallel_most: int


def planned(
    wanted: Wanted,
    catalog: Catalog,
    gpus: Sequence[str] = (),
    quantizations: Sequence[str] = ("auto",),
    zone: str = "",
    tell: Callable[[str], None] = lambda _said: None,
) -> tuple[list[Option], dict[str, int]]:
    """The options, cheapest first, and why others are none: how many by reason. Raises: UserError."""
    cards = list(_cards(catalog, gpus, zone))
    if not cards:
        raise UserError(f"no price for any of {', '.join(gpus) or 'our GPUs'}: add a book with --book")
    found: list[Option] = []
    why: dict[str, int] = {}
    for number, card in enumerate(cards, 1):
        tell(f"{number}/{len(cards)} {card.gpu.name} {card.slice}".rstrip())
        for quantization in quantizations:
            for parallel in (p for p in PARALLEL if p <= card.parallel_most):
                for seqs, tokens in LIMITS:
                    deployed = Deployed(
                        wanted.model,
                        card.gpu,
                        parallel,
                        quantization,
                        seqs_most=seqs,
                        tokens_most=tokens,
                        compute_share=card.compute_share,
                    )
                    option = _tried(wanted, card, deployed)
                    if isinstance(option, str):
                        why[option] = why.get(option, 0) + 1
                    else:
                        found.append(option)
    return sorted(found, key=lambda o: (o.micros_mean, o.ttft_p95_s, o.name, o.seqs)), why


def frontier(options: Sequence[Option]) -> list[Option]:
    """Those that no other beats in both money and the time to the first token; cheapest first."""
    best: list[Option] = []
    for option in sorted(options, key=lambda o: (o.micros_mean, o.ttft_p95_s)):
        if not best or option.ttft_p95_s < best[-1].ttft_p95_s:
            best.append(option)
    return best


def _cards(catalog: Catalog, names: Sequence[str], zone: str) -> Iterator[_Card]:
    """GPUs and MIG slices with a price."""
    wanted = set()
    for name in names:
        gpu = catalog.gpu(name)
        if gpu is None:
            raise UserError(
                f"--gpu {name!r}: expected one of {', '.join(sorted(g.name for g in catalog.gpus()))}"
            )
        wanted.add(gpu.name)
    for gpu in sorted(catalog.gpus(), key=lambda g: g.name):
        if wanted and gpu.name not in wanted:
            continue
        cheapest: tuple[int, int] | None = None
        most = 1
        for machine in catalog.instance_types():
            if machine.gpu != gpu.name or not machine.gpus:
                continue
            price = catalog.price(machine.name, zone=zone) if zone else _anywhere(catalog, machine.name)
            if isinstance(price, Price):
                here = (price.micros_per_hour // machine.gpus, machine.gpus)
                cheapest = here if cheapest is None else min(cheapest, here)
                most = max(most, machine.gpus)
        if cheapest is None:
            continue
        yield _Card(gpu, "", 1.0, cheapest[0], most)
        for profile in gpu.mig:
            if profile.has_media or profile.compute_slices >= gpu.compute_slices or "+" in profile.name:
                continue
            share = profile.memory_slices / gpu.memory_slices
            part = replace(
                gpu,
                memory_bytes=profile.memory_bytes,
                bandwidth_gb_per_s=round(gpu.bandwidth_gb_per_s * share),
            )
            micros = -(-cheapest[0] // profile.instances_most)
            yield _Card(part, profile.name, profile.sms / gpu.sms, micros, 1)


def _anywhere(catalog: Catalog, name: str) -> Price | None:
    """The least on-demand price, wherever."""
    found = [p for p in catalog.prices(name) if p.capacity_type == "on-demand" and not p.commitment]
    return min(found, key=lambda p: p.micros_per_hour, default=None)


def _tried(wanted: Wanted, card: _Card, deployed: Deployed) -> Option | str:
    try:
        times = step_times(deployed)
    except UserError as wrong:
        return "the model does not fit" if "does not fit" in str(wrong) else "its speed is not known"
    if times.cache_tokens < min(wanted.prompt.most, wanted.model.context):
        return "its cache is shorter than the longest prompt"
    alone = _played(wanted, deployed, 1, wanted.rate / 1000)
    if alone.attained < wanted.attain:
        return "too slow even alone"
    replicas = _fewest(wanted, deployed, wanted.rate)
    if replicas is None:
        return f"more than {_REPLICAS_MOST} replicas"
    found = _played(wanted, deployed, replicas, wanted.rate)
    least = replicas
    if wanted.trough > 0:
        least = min(_fewest(wanted, deployed, wanted.trough) or replicas, replicas)
    each = card.micros * deployed.tensor_parallel
    quiet = wanted.quiet_hours / 24 if wanted.trough > 0 else 0.0
    in_flight = wanted.rate * found.means["end_to_end"] / replicas
    return Option(
        gpu=card.gpu.name,
        slice=card.slice,
        parallel=deployed.tensor_parallel,
        quantization=deployed.quantization,
        seqs=deployed.seqs_most,
        tokens=deployed.tokens_most,
        replicas=replicas,
        least=least,
        in_flight=in_flight,
        micros_per_hour=each * replicas,
        micros_mean=each * (replicas * (1 - quiet) + least * quiet),
        found=found,
    )


def _fewest(wanted: Wanted, deployed: Deployed, rate: float) -> int | None:
    """By doubling, then bisection: more replicas never answer fewer in time but for luck."""
    high = 1
    while _played(wanted, deployed, high, rate).attained < wanted.attain:
        high *= 2
        if high > _REPLICAS_MOST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if _played(wanted, deployed, middle, rate).attained >= wanted.attain:
            high = middle
        else:
            low = middle
    return high


def _played(wanted: Wanted, deployed: Deployed, replicas: int, rate: float) -> Readings:
    """The first tenth, while the servers fill, is not looked at."""
    count = max(_REQUESTS, 40 * replicas)
    requests: Requests = made(Traffic(steady(rate, count / rate), wanted.prompt, wanted.output), seed=7)
    fleet = Fleet(deployed, requests, Gateway())
    fleet.add(replicas)
    fleet.drain()
    warm = len(requests) // 10
    when, what = fleet.when[warm:], fleet.what[warm:]
    found = readings(when, what, wanted.slo)
    return found if len(what) and (what[:, b.STATUS] != b.COMING).any() else replace(found, attained=math.nan)
