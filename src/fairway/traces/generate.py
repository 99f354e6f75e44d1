"""Work that never was: jobs with the statistics one asks for.

Arrivals are a Poisson process, constant or with a daily and weekly rhythm (drawn by thinning); run times,
GPU counts, users and the rest are drawn per job. Everything about the n-th job comes from its own stream, so
changing one ingredient leaves the others as they were.

The daily rhythm is a cosine: `peakHour` has `peakToTrough` times the rate of twelve hours later; the mean
over a working day is the stated rate. Saturdays and Sundays have `weekend` times that.
Source: Lewis & Shedler 1979 (thinning); shapes as in Hu et al. SC'21 (Helios) and Jeon et al. ATC'19 (Philly).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

from fairway.kube.timestamps import DAY_US, HOUR_US, MINUTE_US
from fairway.traces.jobs import MILLI, JobTrace, TraceJob
from fairway.twin.distributions import Distribution
from fairway.twin.streams import Streams

POISSON, DIURNAL = "poisson", "diurnal"
PATTERNS = (POISSON, DIURNAL)
MAX_JOBS = 5_000_000
_GI = 2**30
_WEEK_DAYS = 7
_SATURDAY = 5

Mix = tuple[tuple[str, float], ...]
"""Values and their weights, in the order they were written."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to generate. `rate_per_hour` is the mean; `jobs` 0: as many as come within `duration_us`.

    `starts_at_us` is the time of the week at which the trace begins (0: Monday midnight). CPU and memory are
    per GPU; a job without GPUs gets `cpu_milli_alone` and `memory_bytes_alone`.
    """

    name: str = "generated"
    duration_us: int = DAY_US
    rate_per_hour: float = 20.0
    pattern: str = POISSON
    peak_hour: float = 15.0
    peak_to_trough: float = 4.0
    weekend: float = 1.0
    starts_at_us: int = 0
    jobs: int = 0
    run_time: Distribution = field(default_factory=lambda: Distribution("lognormal", 30 * MINUTE_US, 1.2))
    gpus: Mix = (("1", 0.6), ("2", 0.1), ("4", 0.1), ("8", 0.2))
    replicas: Mix = (("1", 1.0),)
    users: Mix = ()
    namespaces: Mix = ()
    priority_classes: Mix = ()
    queues: Mix = ()
    gpu_models: Mix = ()
    exit_codes: Mix = (("0", 1.0),)
    cpu_milli_per_gpu: int = 8 * MILLI
    memory_bytes_per_gpu: int = 64 * _GI
    cpu_milli_alone: int = 4 * MILLI
    memory_bytes_alone: int = 16 * _GI
    gpu_utilization: str = ""


def generate(recipe: Recipe, seed: int) -> JobTrace:
    """The same jobs for the same recipe and seed."""
    streams = Streams(seed)
    draw = _Draws(recipe, streams)
    most = recipe.jobs or MAX_JOBS
    jobs = []
    for number, submit_us in enumerate(_arrivals(recipe, streams.stream(f"{recipe.name}/arrivals"))):
        if number >= most or (not recipe.jobs and submit_us >= recipe.duration_us):
            break
        jobs.append(draw.job(number, submit_us))
    return JobTrace(f"generated {recipe.name}, seed {seed}", tuple(jobs))


def _arrivals(recipe: Recipe, random: Random) -> Iterator[int]:
    """Submission times in µs, without end."""
    peak = _peak(recipe)
    mean_gap_us = HOUR_US / (recipe.rate_per_hour * peak)
    at_us = 0.0
    while True:
        at_us += random.expovariate(1.0) * mean_gap_us
        if recipe.pattern == POISSON or random.random() * peak <= rate_at(recipe, round(at_us)):
            yield round(at_us)


def _peak(recipe: Recipe) -> float:
    """The largest rate, as a multiple of the mean of a working day."""
    if recipe.pattern == POISSON:
        return 1.0
    return (1 + _swing(recipe)) * max(1.0, recipe.weekend)


def _swing(recipe: Recipe) -> float:
    return (recipe.peak_to_trough - 1) / (recipe.peak_to_trough + 1)


def rate_at(recipe: Recipe, at_us: int) -> float:
    """The rate at a time since the trace's start, as a multiple of the mean of a working day."""
    if recipe.pattern == POISSON:
        return 1.0
    day, of_day_us = divmod(recipe.starts_at_us + at_us, DAY_US)
    angle = 2 * math.pi * (of_day_us / HOUR_US - recipe.peak_hour) / 24
    rate = 1 + _swing(recipe) * math.cos(angle)
    return rate * recipe.weekend if day % _WEEK_DAYS >= _SATURDAY else rate


class _Draws:
    """What belongs to the n-th job."""

    def __init__(self, recipe: Recipe, streams: Streams) -> None:
        self._recipe = recipe
        self._streams = streams
        mixes = {
            "gpus": recipe.gpus,
            "replicas": recipe.replicas,
            "user": recipe.users,
            "namespace": recipe.namespaces,
            "priority": recipe.priority_classes,
            "queue": recipe.queues,
            "model": recipe.gpu_models,
            "exit": recipe.exit_codes,
        }
        self._mixes = {
            what: ([v for v, _ in mix], list(accumulate(w for _, w in mix)))
            for what, mix in mixes.items()
            if mix
        }

    def _pick(self, what: str, number: int, default: str = "") -> str:
        mix = self._mixes.get(what)
        if mix is None:
            return default
        values, sums = mix
        if len(values) == 1:
            return values[0]
        return values[bisect_left(sums, self._u(what, number) * sums[-1])]

    def _u(self, what: str, number: int) -> float:
        return self._streams.draw_for(self._recipe.name, what, str(number))

    def job(self, number: int, submit_us: int) -> TraceJob:
        recipe = self._recipe
        gpu_milli = round(float(self._pick("gpus", number, "0")) * MILLI)
        exit_code = int(self._pick("exit", number, "0"))
        return TraceJob(
            job_id=f"{recipe.name}-{number:05d}",
            submit_us=submit_us,
            run_us=max(recipe.run_time.at_quantile(self._u("run", number)), 1),
            gpu_milli=gpu_milli,
            cpu_milli=gpu_milli * recipe.cpu_milli_per_gpu // MILLI or recipe.cpu_milli_alone,
            memory_bytes=gpu_milli * recipe.memory_bytes_per_gpu // MILLI or recipe.memory_bytes_alone,
            replicas=int(self._pick("replicas", number, "1")),
            user=self._pick("user", number),
            namespace=self._pick("namespace", number),
            priority_class=self._pick("priority", number),
            queue=self._pick("queue", number),
            gpu_model=self._pick("model", number),
            exit_code=exit_code,
            gpu_utilization=recipe.gpu_utilization if gpu_milli else "",
        )


def zipf(count: int, skew: float, prefix: str = "user-") -> Mix:
    """`count` names of which the n-th has weight 1/n^skew."""
    width = len(str(count))
    return tuple((f"{prefix}{n:0{width}d}", 1.0 / n**skew) for n in range(1, count + 1))
