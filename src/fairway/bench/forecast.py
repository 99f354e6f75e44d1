"""How fast is a forecast, and how good? 200 futures of 1,000 nodes with 500 pending jobs, and whether the quick way
says the same; and backtests of a week under Kueue with preemption, on seeds that nothing was tuned on
(`forecastworlds`).

The nodes are full of jobs of one to eight GPUs that have run for hours; 500 more wait. The history is a week of such
jobs, which kept three quarters of the GPUs busy: what runs now is drawn from it, and so is what arrives. The limit of
10 s for two cores is our own. Agreement is the median, over pending jobs, of the difference between the quick way's P50
of the start and all engines', as a share of the latter, on a tenth of the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from fairway.answers.forecasting.backtest import backtest
from fairway.answers.forecasting.forecast import Options, question_of
from fairway.answers.forecasting.futures import cores, play_all
from fairway.answers.forecasting.history import History, PastJob
from fairway.answers.forecasting.situation import situation_of
from fairway.bench import BenchRow
from fairway.bench.forecastworlds import write_lab
from fairway.ground import open_ground
from fairway.ground.ground import Moment
from fairway.kube.objects import Obj
from fairway.kube.timestamps import DAY_US, HOUR_US, MINUTE_US
from fairway.traces.arrival import Arrivals, objects_for
from fairway.traces.jobs import JobTrace, TraceJob
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.streams import seed_of
from fairway.twin.twin import EPOCH_US, Twin

NODES, PENDING, FUTURES, LIMIT_S = 1_000, 500, 200, 10.0
_GPUS, _WEIGHTS = (1, 2, 4, 8), (45, 25, 15, 15)
_MEDIAN_S, _SIGMA = 2 * 3600, 1.2
_BUSY = 0.75


SPEED, BACKTEST = "speed", "backtest"
_SEEDS, _DAYS, _LOAD = (11, 12, 13), 8, 1.15


def run(quick: bool, setup: str = "") -> Iterator[BenchRow]:
    """`quick`: a quarter of the futures, one week. `setup`: one of the two; both without."""
    if setup in ("", SPEED):
        yield from _speed(quick)
    if setup in ("", BACKTEST):
        for seed in _SEEDS[:1] if quick else _SEEDS:
            yield from _backtest(seed, 8 if quick else 16)


def _backtest(seed: int, futures: int) -> Iterator[BenchRow]:
    """Every twelve hours from the fourth day on, 24 hours ahead."""
    with TemporaryDirectory() as folder:
        ground = open_ground(write_lab(Path(folder), seed, days=_DAYS, load=_LOAD))
        moments = [f"{hour}h" for hour in range(72, 169, 12)]
        found = backtest(ground, moments, options=Options(futures, horizon_us=DAY_US)).scores["start"]
    if found.coverage is None or found.median_error_s is None or found.best_rule is None:
        return
    rule, best_s = found.best_rule
    name, said = f"forecast/backtest/week-{seed}", f"{found.cases} cases; "
    yield BenchRow(f"{name}/inside", found.coverage, "%", 0.0, f"{said}75 to 85 % are the goal")
    error_s = found.median_error_s
    yield BenchRow(f"{name}/error", error_s, "s", best_s / max(error_s, 1), f"{rule}: {best_s:.0f} s")


def _speed(quick: bool) -> Iterator[BenchRow]:
    count = FUTURES // 4 if quick else FUTURES
    moment, history = cluster(NODES, PENDING)
    took_s, _ = asked(moment, history, count, "quick")
    allowed_s = LIMIT_S * count / FUTURES * 2 / min(cores(), 2)
    name = f"forecast/{NODES}-nodes/{PENDING}-pending/{count}-futures"
    yield BenchRow(
        name, took_s, "s", allowed_s / took_s, f"{allowed_s:g} s on {min(cores(), 2)} cores, our limit"
    )
    small, small_history = cluster(NODES // 10, PENDING // 10)
    answers = {engine: asked(small, small_history, 24, engine) for engine in ("quick", "twin")}
    one, other = (np.median(answers[engine][1], axis=0) for engine in ("quick", "twin"))
    apart = float(np.median(np.abs(one - other) / np.maximum(other, 60.0)))
    yield BenchRow(
        "forecast/quick-against-all-engines", 100 * apart, "% apart", 0.0, "all engines, 100 nodes"
    )
    yield BenchRow(
        "forecast/all-engines",
        answers["twin"][0] / 24,
        "s a future",
        0.0,
        f"quick: {answers['quick'][0] / 24:.3f} s",
    )


def asked(moment: Moment, history: History, futures: int, engine: str) -> tuple[float, np.ndarray]:
    """Seconds, and when each pending job starts: float64[future, job]."""
    began_s = time.perf_counter()
    situation = situation_of(moment.store, moment.now_us)
    options = Options(futures, engine=engine)
    question, _ = question_of(moment, situation, history, options)
    found = play_all(question, futures)
    waiting = [n for n, item in enumerate(situation.items) if item.since_us is None]
    return time.perf_counter() - began_s, found.start_s[:, waiting]


def cluster(nodes: int, pending: int) -> tuple[Moment, History]:
    """A full cluster with so many jobs that wait, and a week of jobs before it."""
    random = Random(seed_of(1, "bench.forecast"))
    now_us = EPOCH_US + 7 * DAY_US
    twin = Twin(
        seed=1, latency=latency_named("zero"), components=standard_components(), start_us=now_us - 2 * HOUR_US
    )
    twin.apply([_node(n) for n in range(nodes)])
    left, number = 8 * nodes, 0
    while left > 0:
        job = _job(random, number, twin.now_us)
        twin.apply(objects_for(Arrivals(JobTrace("bench", ()), "bench"), job))
        left, number = left - job.gpu_milli // 1000, number + 1
    twin.run(now_us)
    while len(situation_of(twin.store, now_us).pending) < pending:
        for _ in range(pending // 5):
            twin.apply(objects_for(Arrivals(JobTrace("bench", ()), "bench"), _job(random, number, now_us)))
            number += 1
        twin.run_for(0)
    past = []
    hours_each = _MEDIAN_S / 3600 * float(np.exp(_SIGMA**2 / 2))
    gpus_each = sum(g * w for g, w in zip(_GPUS, _WEIGHTS, strict=True)) / sum(_WEIGHTS)
    for i in range(round(_BUSY * 8 * nodes * 7 * 24 / gpus_each / hours_each)):
        at_us = EPOCH_US + random.randrange(7 * DAY_US)
        ended_us = at_us + round(random.lognormvariate(np.log(_MEDIAN_S), _SIGMA)) * 1_000_000
        ask = _job(random, i, at_us)
        past.append(PastJob(f"Job/default/past-{i}", ask, at_us, ended_us if ended_us < now_us else None))
    past.sort(key=lambda job: job.ask.submit_us)
    return Moment(twin), History(tuple(past))


def _job(random: Random, number: int, at_us: int) -> TraceJob:
    gpus = random.choices(_GPUS, _WEIGHTS)[0]
    user = f"user-{random.randrange(40)}"
    run_us = random.randrange(HOUR_US, 12 * HOUR_US) + MINUTE_US
    return TraceJob(
        f"job-{number}",
        at_us,
        run_us + 2 * HOUR_US,
        1000 * gpus,
        8000 * gpus,
        gpus << 34,
        user=user,
        namespace="default",
    )


def _node(number: int) -> Obj:
    name = f"node-{number:04d}"
    allocatable = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}
