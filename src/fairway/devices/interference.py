"""How fast is a service on its part of a card, and what do its neighbours do to it?

A service has `rate` requests a second, each of which takes `latency_s` alone on a whole card and meanwhile can use a
share `width` of the multiprocessors and `bandwidth` of the memory's. On less of either it takes longer in proportion
(roofline); its load is rate times that time, and requests that meet wait.

| way | own part | what neighbours do |
|---|---|---|
| whole | all of it | there are none |
| MIG | the instance's multiprocessors, memory slices' share of bandwidth | nothing: both are its own |
| MPS | at most 1/n of the threads by default, bandwidth shared | what they use at the time is missing, in expectation |
| time-slicing | all of it, in turns | every request waits for theirs; 5 % more for switches of context |

Requests wait as in an M/D/1 queue, under time-slicing as in processor sharing; the 95th percentile takes waits to have
an exponential tail. Constants are estimates, not measurements: memory of a CUDA context 512 MiB, switches 5 %. What the
model leaves out: caches, clocks, bursts that are not Poisson's, batching.

Source: NVIDIA's MPS and MIG guides (what is isolated and what is not); Kleinrock, Queueing Systems I (M/D/1, M/G/1-PS).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from typing import Final

from fairway.catalog.gpus import MIB, GpuModel, MigProfile

CONTEXT_BYTES: Final = 512 * MIB
SWITCHING: Final = 1.05
_TAIL: Final = 0.05


@dataclass(frozen=True, slots=True)
class Demand:
    """One replica of a service. Limits 0: none."""

    name: str
    memory_bytes: int
    latency_s: float
    rate: float
    width: float = 1.0
    bandwidth: float = 1.0
    p95_most_s: float = 0.0
    slowdown_most: float = 0.0

    @property
    def load(self) -> float:
        """Share of the time in which it would keep a whole card busy."""
        return self.rate * self.latency_s

    @property
    def held_bytes(self) -> int:
        return self.memory_bytes + CONTEXT_BYTES


@dataclass(frozen=True, slots=True)
class Pace:
    """`stretch`: a request's own time against that on a whole card alone; `load`: of its part of the card."""

    stretch: float
    load: float
    mean_s: float
    p95_s: float

    def meets(self, demand: Demand) -> bool:
        if self.load >= 1 or self.p95_s == inf:
            return False
        if demand.p95_most_s and self.p95_s > demand.p95_most_s:
            return False
        return not demand.slowdown_most or self.stretch <= demand.slowdown_most


def _paced(demand: Demand, stretch: float, load: float, *, shares: bool = False) -> Pace:
    own_s = demand.latency_s * stretch
    if load >= 1:
        return Pace(stretch, load, inf, inf)
    wait_s = own_s * load / (1 - load) / (1 if shares else 2)
    tail_s = wait_s / load * log(load / _TAIL) if load > _TAIL else 0.0
    return Pace(stretch, load, own_s + wait_s, own_s + max(tail_s, wait_s))


def alone(demand: Demand) -> Pace:
    """On a card of its own."""
    return _paced(demand, 1.0, demand.load)


def on_instance(demand: Demand, model: GpuModel, profile: MigProfile) -> Pace:
    """On a MIG instance: it has what the profile says, and nobody else has."""
    multiprocessors = profile.sms / model.sms
    memory = profile.memory_slices / model.memory_slices
    stretch = max(1.0, demand.width / multiprocessors, demand.bandwidth / memory)
    return _paced(demand, stretch, demand.rate * demand.latency_s * stretch)


def under_mps(demands: Sequence[Demand], at: int, threads: float) -> Pace:
    """Beside the others of one card; each may use this share of the threads."""
    mine = demands[at]
    width = min(mine.width, threads)
    others = [(d.load, min(d.width, threads), d.bandwidth) for i, d in enumerate(demands) if i != at]
    used = sum(min(load * max(1.0, d / threads), 1) * d for load, d, _ in others)
    moved = sum(min(load, 1) * bandwidth for load, _, bandwidth in others)
    stretch = max(1.0, mine.width / threads) * max(1.0, width + used, mine.bandwidth + moved)
    return _paced(mine, stretch, mine.load * stretch)


def in_turns(demands: Sequence[Demand], at: int) -> Pace:
    """Time-sliced beside the others of one card."""
    mine = demands[at]
    if len(demands) == 1:
        return alone(mine)
    load = sum(d.load for d in demands) * SWITCHING
    return _paced(mine, SWITCHING, load, shares=True)


def paces(shares: Sequence[float], way: str) -> list[float]:
    """How many times as long runs take that share one card, by the share of it that each can use alone.

    Time-slicing: turns are equal; who needs less than his turn leaves the rest to the others, and switches cost 5 %.
    MPS: each has at most 1/n of the threads. Runs wait for nobody and always have work, unlike services.
    """
    count = len(shares)
    if count < 2 or way not in ("time-slicing", "mps"):
        return [1.0] * count
    if way == "mps":
        return [max(1.0, share * count) for share in shares]
    wanted = [share * SWITCHING for share in shares]
    return [max(want / turn, 1.0) if turn else 1.0 for want, turn in zip(wanted, _turns(wanted), strict=True)]


def _turns(wanted: Sequence[float]) -> list[float]:
    """Shares of a card's time: as much as wanted, and equal among those who want more."""
    turns, left, open_ = [0.0] * len(wanted), 1.0, sorted(range(len(wanted)), key=lambda i: wanted[i])
    for done, i in enumerate(open_):
        turns[i] = min(wanted[i], left / (len(open_) - done))
        left -= turns[i]
    return turns
