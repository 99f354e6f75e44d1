"""Values over time, exactly: step functions from when things began and ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Extreme:
    """A value and the first moment (µs since 1970) at which it is reached."""

    value: float
    at_us: int


@dataclass(frozen=True, slots=True)
class Curve:
    """`values[i]` holds on `[times[i], times[i + 1])`, the last one until `end_us`. NaN: not defined there."""

    times: Times
    values: Floats
    end_us: int

    def within(self, start_us: int, end_us: int) -> Curve:
        """The part of it in `[start, end)`; empty where they do not meet."""
        start_us, end_us = max(start_us, int(self.times[0])), min(end_us, self.end_us)
        if end_us <= start_us:
            return Curve(np.empty(0, np.int64), np.empty(0), start_us)
        first = int(np.searchsorted(self.times, start_us, "right")) - 1
        last = int(np.searchsorted(self.times, end_us, "left"))
        times = self.times[first:last].copy()
        times[0] = start_us
        return Curve(times, self.values[first:last], end_us)

    @property
    def is_defined(self) -> bool:
        return bool(len(self.values)) and not bool(np.all(np.isnan(self.values)))

    def lengths(self) -> Floats:
        ends = np.append(self.times[1:], self.end_us)
        return (ends - self.times).astype(np.float64)

    def integral(self) -> float:
        return float(np.nansum(self.values * self.lengths()))

    def mean(self) -> float:
        """Time-weighted over where it is defined."""
        lengths = np.where(np.isnan(self.values), 0.0, self.lengths())
        total = float(lengths.sum())
        return float(np.nansum(self.values * lengths)) / total if total else float("nan")

    def lowest(self) -> Extreme:
        i = int(np.nanargmin(self.values))
        return Extreme(float(self.values[i]), int(self.times[i]))

    def highest(self) -> Extreme:
        i = int(np.nanargmax(self.values))
        return Extreme(float(self.values[i]), int(self.times[i]))


def stepping(deltas: Iterable[tuple[int, float]], start_us: int, end_us: int) -> Curve:
    """The running sum of `(time, change)` over `[start, end)`. O(n log n)."""
    listed = sorted(deltas)
    times = np.array([t for t, _ in listed], np.int64)
    sums = np.cumsum(np.array([d for _, d in listed], np.float64)) if listed else np.empty(0)
    times = np.clip(times, start_us, end_us)
    # Of several changes at one time the last sum counts.
    is_last = np.append(times[1:] != times[:-1], True) if len(times) else np.empty(0, np.bool_)
    times, sums = times[is_last], sums[is_last]
    if not len(times) or times[0] > start_us:
        times, sums = np.insert(times, 0, start_us), np.insert(sums, 0, 0.0)
    inside = times < max(end_us, start_us + 1)
    return Curve(times[inside], sums[inside], end_us)


def ratio(part: Curve, whole: Curve) -> Curve:
    """Pointwise; not defined where `whole` is 0."""
    times = np.union1d(part.times, whole.times)
    a = part.values[np.searchsorted(part.times, times, "right") - 1]
    b = whole.values[np.searchsorted(whole.times, times, "right") - 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(b > 0, a / np.where(b > 0, b, 1.0), np.nan)
    return Curve(times, values, part.end_us)
