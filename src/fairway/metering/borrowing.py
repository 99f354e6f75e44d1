"""Who used whose quota, and at what price?

A queue that holds more than its nominal quota borrows the rest from its cohort. The borrower owes all of it: quota is
a right, not a machine, and whoever has the machine pays. What was borrowed is told beside what a queue owes, and so is
what it lent: borrowed money of every moment is divided among the queues of the cohort that had quota to spare then,
in the ratio of what they had to spare. What nobody had to spare (quota that was taken away) is lent by nobody.

Flavors are not told apart: a queue's quota is the sum over its flavors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairway.metering.apportion import Floats, Ints, apportion


@dataclass(frozen=True, slots=True)
class Lender:
    """A queue of a cohort (empty: it is alone) with its nominal quota, in GPUs."""

    name: str
    cohort: str
    gpus: float


@dataclass(frozen=True, slots=True)
class Holdings:
    """One row per stretch: which queue (its number) held how many GPUs, and owes how much (µ$) for it."""

    queue: Ints
    start_us: Ints
    end_us: Ints
    gpus: Floats
    micros: Ints


@dataclass(frozen=True, slots=True)
class Borrowed:
    """µ$ and GPU-µs of one queue. `own + borrowed` is what it owes; `lent` is owed by others."""

    queue: str
    cohort: str
    own_micros: int
    borrowed_micros: int
    lent_micros: int
    borrowed_gpu_us: float
    lent_gpu_us: float

    @property
    def owed_micros(self) -> int:
        return self.own_micros + self.borrowed_micros


def borrowed(queues: Sequence[Lender], held: Holdings) -> tuple[Borrowed, ...]:
    """In the order of the queues. O(n log n) in stretches, times the queues of a cohort."""
    found: dict[int, Borrowed] = {}
    cohorts: dict[str, list[int]] = {}
    for number, queue in enumerate(queues):
        cohorts.setdefault(queue.cohort or f"\0{number}", []).append(number)
    for members in cohorts.values():
        found.update(_of_cohort(queues, members, held))
    return tuple(found[number] for number in range(len(queues)))


def _of_cohort(queues: Sequence[Lender], members: list[int], held: Holdings) -> dict[int, Borrowed]:
    rows = np.isin(held.queue, members)
    edges = np.unique(np.concatenate((held.start_us[rows], held.end_us[rows])))
    lengths = np.diff(edges).astype(np.float64)
    spare = np.zeros(max(len(lengths), 0))
    taken_gpu, taken_money = np.zeros(len(lengths)), np.zeros(len(lengths))
    own: dict[int, tuple[int, int, float]] = {}
    for number in members:
        gpus, rate = _levels(held, number, edges)
        over = np.maximum(gpus - queues[number].gpus, 0.0)
        share = over / np.where(gpus > 0, gpus, 1.0)
        money = rate * lengths * share
        spare += np.maximum(queues[number].gpus - gpus, 0.0)
        taken_gpu += over * lengths
        taken_money += money
        owed = int(held.micros[held.queue == number].sum())
        own[number] = (owed, min(round(float(money.sum())), owed), float((over * lengths).sum()))
    lent = _lent(
        queues, members, held, edges, (spare, taken_money, taken_gpu), sum(o[1] for o in own.values())
    )
    return {
        number: Borrowed(
            queue=queues[number].name,
            cohort=queues[number].cohort,
            own_micros=own[number][0] - own[number][1],
            borrowed_micros=own[number][1],
            lent_micros=lent[number][0],
            borrowed_gpu_us=own[number][2],
            lent_gpu_us=lent[number][1],
        )
        for number in members
    }


def _levels(held: Holdings, number: int, edges: Ints) -> tuple[Floats, Floats]:
    """GPUs held, and µ$ a µs, between the edges."""
    rows = held.queue == number
    start, end = held.start_us[rows], held.end_us[rows]
    first, after = np.searchsorted(edges, start), np.searchsorted(edges, end)
    rates = held.micros[rows] / np.maximum(end - start, 1)
    levels = []
    for amounts in (held.gpus[rows], rates):
        level = np.zeros(len(edges))
        np.add.at(level, first, amounts)
        np.add.at(level, after, -amounts)
        # What floats leave of nothing is nothing.
        running = np.cumsum(level)[:-1]
        levels.append(np.where(np.abs(running) < 1e-9 * max(float(amounts.sum()), 1e-12), 0.0, running))
    return levels[0], levels[1]


def _lent(
    queues: Sequence[Lender],
    members: list[int],
    held: Holdings,
    edges: Ints,
    taken: tuple[Floats, Floats, Floats],
    borrowed_micros: int,
) -> dict[int, tuple[int, float]]:
    """What each queue lent: µ$ and GPU-µs. What was lent by nobody is a claim too, and dropped."""
    spare, money, gpus = taken
    whole = np.where(spare > 0, spare, 1.0)
    weights, amounts = [], []
    for number in members:
        level, _ = _levels(held, number, edges)
        share = np.maximum(queues[number].gpus - level, 0.0) / whole
        weights.append(float((money * share).sum()))
        amounts.append(float((gpus * share).sum()))
    nobody = max(float(money.sum()) - sum(weights), 0.0)
    claims = np.array([*weights, nobody])
    shares = apportion(np.array([borrowed_micros], np.int64), np.zeros(len(claims), np.int64), claims)
    return {n: (int(shares[i]), amounts[i]) for i, n in enumerate(members)}
