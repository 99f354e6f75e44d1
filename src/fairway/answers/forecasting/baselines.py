"""What would a plain rule have said? The forecasts that a site can make by hand, to be beaten.

Seconds from now until each pending object starts; None where the rule has nothing to go by.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from fairway.answers.forecasting.history import History
from fairway.answers.forecasting.situation import Item, Situation
from fairway.kube.timestamps import DAY_US, SECOND_US

Guess = list[float | None]

THROUGHPUT: Final = "queue length / throughput"
MEDIAN: Final = "median wait of the last day"
LIMITS: Final = "limits, perfect backfill"


def guesses(situation: Situation, history: History, gpu_milli_total: int) -> dict[str, Guess]:
    """By rule, in the order of `situation.pending`."""
    return {
        THROUGHPUT: by_throughput(situation, history),
        MEDIAN: by_median(situation, history),
        LIMITS: by_limits(situation, gpu_milli_total),
    }


def by_throughput(situation: Situation, history: History) -> Guess:
    """How many stand before it in its queue, by how many of its queue started in the last day."""
    since_us = situation.now_us - DAY_US
    started: dict[str, int] = {}
    for job in history.jobs:
        if job.started_us is not None and job.started_us >= since_us:
            started[job.ask.queue] = started.get(job.ask.queue, 0) + 1
    before: dict[str, int] = {}
    found: Guess = []
    for item in situation.pending:
        queue = item.ask.queue
        before[queue] = before.get(queue, 0) + 1
        rate = started.get(queue, 0)
        found.append(before[queue] * 86_400 / rate if rate else None)
    return found


def by_median(situation: Situation, history: History) -> Guess:
    """The median wait of those of its GPU count that started in the last day, less what it has waited already."""
    since_us = situation.now_us - DAY_US
    waits: dict[int, list[int]] = {}
    for job in history.jobs:
        if job.started_us is not None and job.started_us >= since_us:
            waits.setdefault(_gpus(job.ask), []).append(job.started_us - job.ask.submit_us)
    found: Guess = []
    for item in situation.pending:
        known = waits.get(_gpus(item.ask))
        if known is None:
            found.append(None)
            continue
        waited_us = situation.now_us - item.ask.submit_us
        found.append(max(median(known) - waited_us, 0) / SECOND_US)
    return found


def by_limits(situation: Situation, gpu_milli_total: int) -> Guess:
    """One pool of GPUs, everybody runs as long as declared, whoever fits starts: more important ones first."""
    if not any(item.limit_us for item in situation.items):
        return [None] * len(situation.pending)
    now_us = situation.now_us
    ends = sorted(
        (max(item.limit_us - item.elapsed_us(now_us), 0), _gpus(item.ask))
        for item in situation.items
        if item.since_us is not None
    )
    free = gpu_milli_total - sum(gpus for _, gpus in ends)
    waiting = sorted(range(len(situation.pending)), key=lambda n: (-situation.pending[n].priority, n))
    found: Guess = [None] * len(situation.pending)
    at_us = 0
    while waiting:
        free = _start(situation.pending, waiting, found, ends, at_us, free)
        if not ends:
            break
        at_us, gpus = ends.pop(0)
        free += gpus
    return found


def _start(
    pending: Sequence[Item],
    waiting: list[int],
    found: Guess,
    ends: list[tuple[int, int]],
    at_us: int,
    free: int,
) -> int:
    for number in list(waiting):
        gpus = _gpus(pending[number].ask)
        if gpus <= free and pending[number].limit_us:
            free -= gpus
            found[number] = at_us / SECOND_US
            ends.append((at_us + pending[number].limit_us, gpus))
            waiting.remove(number)
    ends.sort()
    return free


def _gpus(ask: object) -> int:
    return ask.gpu_milli * ask.replicas  # type: ignore[attr-defined,no-any-return]
