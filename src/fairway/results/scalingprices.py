"""What does an hour of a scaled target's replica cost? What its pods take of the machines they ran on.

A machine's price is divided among GPUs, CPUs and memory as bills divide it (`metering.split`, residual). With it, time
that a target was short of replicas and time that it had too many become dollars. None where no machine has a price.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np

from fairway.catalog.catalog import Catalog
from fairway.errors import FairwayError
from fairway.metering.apportion import Floats
from fairway.metering.rates import UNPRICED, Rates, rates_of
from fairway.metering.split import split_of
from fairway.recorder.tables import PodRow
from fairway.results.billing import machines_of
from fairway.results.costs.pricing import catalog_of_run
from fairway.results.run import Run
from fairway.results.scalingfigures import ScaledTarget, scaled_targets

# Pods of one target whose prices are looked up; one replica is like another.
_PODS_PRICED: Final = 1000


def priced_targets(run: Run) -> list[ScaledTarget]:
    """`scaled_targets` of a run, with prices by its own books where they can be read."""
    targets = scaled_targets(run.outcome)
    if not targets:
        return targets
    try:
        catalog = catalog_of_run(run.info)
    except FairwayError:
        return targets
    book = _Book(run, catalog)
    for target in targets:
        found = [p for pod in target.pods[:_PODS_PRICED] if (p := book.hourly_micros(pod)) is not None]
        target.hourly_micros = sum(found) / len(found) if found else None
    return targets


class _Book:
    """Every machine's price and what of it are its parts."""

    def __init__(self, run: Run, catalog: Catalog) -> None:
        machines, self._lives = machines_of(run.outcome, catalog)
        self._rates: Floats = _mean_rates(rates_of(machines, catalog, run.outcome.began_us), len(machines))
        weights = split_of(machines, np.maximum(self._rates, 0.0)).weights
        whole = np.stack((machines.gpus, machines.cpu_milli, machines.memory_bytes), axis=1).astype(
            np.float64
        )
        total = weights.sum(axis=1, keepdims=True)
        # What a thousandth of a core, a byte or a GPU is of its machine's price.
        self._each = np.divide(
            weights, whole * total, out=np.zeros_like(whole), where=(whole > 0) & (total > 0)
        )

    def hourly_micros(self, pod: PodRow) -> float | None:
        if pod.scheduled_us is None or pod.node not in self._lives:
            return None
        row = _life(self._lives[pod.node], pod.scheduled_us)
        if self._rates[row] < 0:
            return None
        asked = np.array((pod.gpu_milli / 1000, pod.cpu_milli, pod.memory_bytes), np.float64)
        return float(self._rates[row] * min(float((self._each[row] * asked).sum()), 1.0))


def _life(lives: Sequence[tuple[int, int]], at_us: int) -> int:
    return lives[max(bisect_right(lives, at_us, key=lambda life: life[0]) - 1, 0)][1]


def _mean_rates(rates: Rates, count: int) -> Floats:
    """By machine, over the time that has a price; below zero without."""
    known = rates.micros_per_hour != UNPRICED
    lasted = np.where(known, rates.end_us - rates.start_us, 0).astype(np.float64)
    time, money = np.zeros(count), np.zeros(count)
    np.add.at(time, rates.machine, lasted)
    np.add.at(money, rates.machine, lasted * rates.micros_per_hour)
    found: Floats = np.divide(money, time, out=np.full(count, float(UNPRICED)), where=time > 0)
    return found
