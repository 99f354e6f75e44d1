"""Sums, least, most and moments over many windows of many series at once.

Windows may overlap and are of any length: window `t` holds samples `lo[t]` to `hi[t] - 1` of every row. `fold` builds
sums of 1, 2, 4, … neighbours and puts every window together from its length's bits: O(samples × log longest), no
running totals, so nothing cancels and an infinite value stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import fsum
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fairway.telemetry.store import Bools, Times, Values

Indexes: TypeAlias = npt.NDArray[np.int64]
# Cells of a table that is made for a part of the windows at a time (32 MiB of float64).
PART: Final = 1 << 22
# A sum of values this many times larger than itself is added up exactly.
_CANCELLED: Final = 1e4


class Windows(NamedTuple):
    """`times`: int64[sample] ms; `values`: float64[row, sample]; `lo`, `hi`: int64[step]; `ends`: int64[step] ms, where
    each window ends; `range_ms`: how long each is."""

    times: Times
    values: Values
    lo: Indexes
    hi: Indexes
    ends: Times
    range_ms: int

    @property
    def counts(self) -> Indexes:
        return self.hi - self.lo


def columns(values: Any, index: Indexes) -> Any:
    """values[:, index], as a view where the indexes are evenly spaced."""
    return values[:, evenly(index)]


def evenly(index: Indexes) -> Indexes | slice:
    """The same places, as a slice where they are evenly spaced."""
    if len(index) > 1:
        step = int(index[1] - index[0])
        if step > 0 and bool((np.diff(index) == step).all()):
            return slice(int(index[0]), int(index[-1]) + 1, step)
    return index


def fold(op: np.ufunc, values: Values, lo: Indexes, hi: Indexes, identity: float) -> Values:
    """`op` over each window. Returns: float64[row, step]; `identity` where a window is empty."""
    counts = hi - lo
    out = np.full((len(values), len(lo)), identity)
    at, level, width = lo.copy(), values, 1
    longest = int(counts.max(initial=0))
    while width <= longest:
        having = np.flatnonzero(counts & width)
        if len(having) == len(lo):
            op(out, columns(level, at), out=out)
            at += width
        elif len(having):
            out[:, having] = op(out[:, having], columns(level, at[having]))
            at[having] += width
        if 2 * width <= longest:
            level = op(level[:, :-width], level[:, width:])
        width *= 2
    return out


def sums(w: Windows) -> Values:
    """As Prometheus' compensated sum gives them, within rounding."""
    with np.errstate(invalid="ignore", over="ignore"):
        out = fold(np.add, w.values, w.lo, w.hi, 0.0)
        if w.values.size and w.values.min() >= 0 and np.isfinite(w.values).all():
            return out
        sizes = fold(np.add, np.abs(w.values), w.lo, w.hi, 0.0)
        doubtful = np.isfinite(sizes) & (sizes > _CANCELLED * np.abs(out))
    for row, step in zip(*np.nonzero(doubtful), strict=True):
        out[row, step] = fsum(w.values[row, w.lo[step] : w.hi[step]])
    return out


def averages(w: Windows) -> Values:
    counts = w.counts
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        out = sums(w) / counts
        for row, step in zip(*np.nonzero(np.isinf(out)), strict=True):
            inside = w.values[row, w.lo[step] : w.hi[step]]
            if len(inside) and np.isfinite(inside).all():
                out[row, step] = fsum(inside / len(inside))
    return out


class Moments(NamedTuple):
    """Over each window: means, and sums of products of what differs from them. float64[row, step] each; `x` of the
    times (seconds since `origin_ms`) is the same for all rows: float64[step]."""

    mean: Values
    squares: Values
    mean_x: Values
    squares_x: Values
    products: Values


def spread(w: Windows) -> Values:
    """Sum of squared differences from the mean of each window (Chan's way of joining halves: nothing cancels)."""
    found = moments(w, is_over_time=False)
    return np.where(np.isfinite(found.mean), found.squares, np.nan)


def moments(w: Windows, is_over_time: bool = True) -> Moments:
    """Joined from halves. `products` and `*_x` stay zero unless `is_over_time`."""
    steps, rows = len(w.lo), len(w.values)
    zero, shape = np.zeros(steps), (rows, steps)
    mean, squares, products = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    mean_x, squares_x, have = zero.copy(), zero.copy(), zero.copy()
    origin = w.times[0] if len(w.times) else 0
    part = [w.values, np.zeros((rows, len(w.times))), (w.times - origin) / 1000.0]
    part_xx, part_xy = np.zeros(len(w.times)), np.zeros((rows, len(w.times)))
    counts, at, width = w.counts, w.lo.copy(), 1
    longest = int(counts.max(initial=0))
    with np.errstate(invalid="ignore", over="ignore"):
        while width <= longest:
            having = np.flatnonzero(counts & width)
            if len(having):
                here = at[having]
                n = have[having]
                share, both = width / (n + width), n * width / (n + width)
                delta = columns(part[0], here) - mean[:, having]
                if is_over_time:
                    delta_x = part[2][here] - mean_x[having]
                    products[:, having] += columns(part_xy, here) + delta * delta_x * both
                    squares_x[having] += part_xx[here] + delta_x**2 * both
                    mean_x[having] += delta_x * share
                squares[:, having] += columns(part[1], here) + delta**2 * both
                mean[:, having] += delta * share
                have[having] += width
                at[having] += width
            if 2 * width <= longest:
                delta = part[0][:, width:] - part[0][:, :-width]
                half = width / 2
                if is_over_time:
                    delta_x = part[2][width:] - part[2][:-width]
                    part_xy = part_xy[:, width:] + part_xy[:, :-width] + delta * delta_x * half
                    part_xx = part_xx[width:] + part_xx[:-width] + delta_x**2 * half
                    part[2] = (part[2][width:] + part[2][:-width]) / 2
                part[1] = part[1][:, width:] + part[1][:, :-width] + delta**2 * half
                part[0] = part[0][:, :-width] + delta / 2
            width *= 2
    return Moments(mean, squares, mean_x, squares_x, products)


def gathered(w: Windows) -> Iterator[tuple[Indexes, Values]]:
    """Windows of one length at a time: which steps, and float64[row, step, sample]. Empty windows are left out."""
    counts = w.counts
    for length in np.unique(counts[counts > 0]):
        steps = np.flatnonzero(counts == length)
        most = max(1, PART // max(1, len(w.values) * int(length)))
        for first in range(0, len(steps), most):
            some = steps[first : first + most]
            yield some, w.values[:, w.lo[some][:, None] + np.arange(length)]


def by_position(w: Windows, act: Callable[[int, Indexes, Values], None]) -> None:
    """`act(position, steps, values)` for the first sample of every window, then the second, …"""
    counts = w.counts
    for position in range(int(counts.max(initial=0))):
        steps = np.flatnonzero(counts > position)
        act(position, steps, w.values[:, w.lo[steps] + position])


def in_rows(w: Windows, kernel: Callable[[Windows], tuple[Values, Bools]]) -> tuple[Values, Bools]:
    """A kernel over some rows at a time, so that what it makes meanwhile stays in the cache."""
    steps = max(len(w.lo), len(w.times), 1)
    most = max(1, (PART >> 3) // steps)
    if len(w.values) <= most:
        return kernel(w)
    values = np.empty((len(w.values), len(w.lo)))
    present = np.empty(values.shape, np.bool_)
    for first in range(0, len(w.values), most):
        part = slice(first, first + most)
        values[part], present[part] = kernel(w._replace(values=w.values[part]))
    return values, present
