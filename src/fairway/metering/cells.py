"""Time cut into cells: one machine, one price, one charge period. What does each cost, exactly?

The costs of a stretch of constant price are differences of one running total, rounded down: however it is cut,
the cells of a machine add up to the same sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairway.catalog.prices import MICROS_PER_HOUR_MOST
from fairway.errors import BugError
from fairway.metering.apportion import Ints
from fairway.metering.rates import UNPRICED, Rates

HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Cells:
    """By machine, then by time. `cost` is 0 where `micros_per_hour` is UNPRICED."""

    machine: Ints
    start_us: Ints
    end_us: Ints
    micros_per_hour: Ints
    stretch: Ints
    """The row of the rates it is cut from."""
    cost: Ints

    def __len__(self) -> int:
        return len(self.machine)


def cells_of(rates: Rates, period_us: int, phase_us: int = 0) -> Cells:
    """Stretches cut at `phase_us + n × period_us` (0: not cut). O(cells)."""
    if len(rates.machine) and int(rates.micros_per_hour.max()) > MICROS_PER_HOUR_MOST:
        raise BugError(f"a price above {MICROS_PER_HOUR_MOST} µ$ an hour cannot be metered exactly")
    stretch, start, end = _cut(rates, period_us, phase_us)
    price = rates.micros_per_hour[stretch]
    since = rates.start_us[stretch]
    cost = _running(price, end - since) - _running(price, start - since)
    cost = np.where(price == UNPRICED, 0, cost)
    return Cells(rates.machine[stretch], start, end, price, stretch, cost)


def _cut(rates: Rates, period_us: int, phase_us: int) -> tuple[Ints, Ints, Ints]:
    """Stretch, start and end of every cell; a stretch of no length has none."""
    start, end = rates.start_us, rates.end_us
    if not period_us:
        rows = np.flatnonzero(end > start)
        return rows, start[rows], end[rows]
    first = (start - phase_us) // period_us
    last = -((phase_us - end) // period_us)
    counts = np.where(end > start, last - first, 0)
    rows = np.repeat(np.arange(len(start)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    edge = phase_us + (first[rows] + within) * period_us
    return rows, np.maximum(edge, start[rows]), np.minimum(edge + period_us, end[rows])


def _running(price: Ints, time_us: Ints) -> Ints:
    """µ$ after so long at a price, rounded down; whole hours and the rest apart, so that 64 bits suffice."""
    hours, rest = np.divmod(time_us, HOUR_US)
    return price * hours + price * rest // HOUR_US
