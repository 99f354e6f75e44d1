"""Quantiles of samples, and of classic histograms' buckets.

Source: promql/quantile.go (Prometheus 3.14).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fairway.telemetry.store import Bools, Values

# Relative difference of neighbouring buckets' counts that is taken for rounding.
_SMALL_DELTA = 1e-12


def quantiles(
    samples: npt.NDArray[np.float64], count: npt.NDArray[np.int64], q: Values, present: Bools | None = None
) -> Values:
    """Over the first axis: samples[sample, …, step], of which `present` count. `q`: float64[step]. NaN sorts first.

    Returns: float64[…, step], nothing that means anything where `count` is 0.
    """
    nan = np.isnan(samples) if present is None else np.isnan(samples) & present
    keys = np.where(nan, -np.inf, samples)
    if present is not None:
        keys = np.where(present, keys, np.inf)
    keys = np.sort(keys, axis=0)
    missing = nan.sum(axis=0)
    with np.errstate(invalid="ignore"):
        rank = q * (count - 1)
        lower = np.maximum(0, np.floor(rank))
        lower = np.where(np.isfinite(lower), lower, 0).astype(np.int64)
        lower = np.clip(lower, 0, np.maximum(count - 1, 0))
        upper = np.minimum(np.maximum(count - 1, 0), lower + 1)
        weight = rank - np.floor(rank)
        below = np.where(lower < missing, np.nan, np.take_along_axis(keys, lower[None], 0)[0])
        above = np.where(upper < missing, np.nan, np.take_along_axis(keys, upper[None], 0)[0])
        out = below * (1 - weight) + above * weight
    out = np.where(q < 0, -np.inf, np.where(q > 1, np.inf, out))
    return np.where(np.isnan(q), np.nan, out)


def _coalesced(bounds: Values, counts: Values) -> tuple[Values, Values]:
    """Buckets of one bound as one. `counts`: float64[bucket, step], by rising bound."""
    first = np.flatnonzero(np.concatenate(([True], bounds[1:] != bounds[:-1])))
    if len(first) == len(bounds):
        return bounds, counts
    return bounds[first], np.add.reduceat(counts, first, axis=0)


def _monotonic(counts: Values) -> Values:
    """What falls, or rises by rounding only, is as the bucket before."""
    out = counts.copy()
    before = out[0]
    for bucket in range(1, len(out)):
        now = out[bucket]
        larger = np.maximum(np.abs(before), np.abs(now))
        same = np.abs(before - now) < _SMALL_DELTA * np.minimum(
            np.abs(before) + np.abs(now), np.finfo(float).max
        )
        keep = (now < before) | same | (larger == 0)
        out[bucket] = np.where(keep, before, now)
        before = out[bucket]
    return out


def bucket_quantile(q: Values, bounds: Values, counts: Values) -> Values:
    """`q`: float64[step]; `bounds`: float64[bucket], rising; `counts`: float64[bucket, step], cumulative."""
    steps = counts.shape[1]
    out = np.full(steps, np.nan)
    if bounds[-1] == np.inf:
        bounds, counts = _coalesced(bounds, counts)
        counts = _monotonic(counts)
        if len(bounds) >= 2:
            out = _interpolated(q, bounds, counts)
    out = np.where(q < 0, -np.inf, np.where(q > 1, np.inf, out))
    return np.where(np.isnan(q), np.nan, out)


def _interpolated(q: Values, bounds: Values, counts: Values) -> Values:
    every = np.arange(counts.shape[1])
    total = counts[-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        rank = q * total
        reached = counts[:-1] >= rank
        bucket = np.where(reached.any(axis=0), reached.argmax(axis=0), len(bounds) - 1)
        inside = np.minimum(bucket, len(bounds) - 2)
        below = np.maximum(inside - 1, 0)
        start = np.where(inside > 0, bounds[below], 0.0)
        already = np.where(inside > 0, counts[below, every], 0.0)
        end, count = bounds[inside], counts[inside, every] - already
        out = start + (end - start) * ((rank - already) / count)
    out = np.where((bucket == 0) & (bounds[0] <= 0), bounds[0], out)
    out = np.where(bucket == len(bounds) - 1, bounds[-2], out)
    return np.where(total == 0, np.nan, out)


def bucket_fraction(lower: float, upper: float, bounds: Values, counts: Values) -> Values:
    """Share of observations between two values, at each step."""
    if bounds[-1] != np.inf or np.isnan(lower) or np.isnan(upper):
        return np.full(counts.shape[1], np.nan)
    bounds, counts = _coalesced(bounds, counts)
    total = counts[-1]
    if lower >= upper:
        return np.where(total == 0, np.nan, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        ranks = [np.minimum(_rank(value, bounds, counts), total) for value in (lower, upper)]
        return np.where(total == 0, np.nan, (ranks[1] - ranks[0]) / total)


def _rank(value: float, bounds: Values, counts: Values) -> Values:
    """How many observations are below a value."""
    start = 0.0 if bounds[0] > 0 else -np.inf
    already = np.zeros(counts.shape[1])
    for bucket, end in enumerate(bounds):
        if start >= value:
            break
        here: Values = counts[bucket]
        if end > value:
            return here if start == -np.inf else already + (here - already) * (value - start) / (end - start)
        already, start = here, float(end)
    return already


def of_buckets(
    answer: Callable[[Values, Values, Values], Values],
    argument: Values,
    bounds: Values,
    counts: Values,
    there: Bools,
) -> tuple[Values, Bools]:
    """One histogram's answer at each step, whatever buckets it has there."""
    order = np.argsort(bounds, kind="stable")
    bounds, counts, there = bounds[order], counts[order], there[order]
    out = np.zeros(counts.shape[1])
    present: Bools = np.any(there, axis=0)
    patterns, which = np.unique(there, axis=1, return_inverse=True)
    for pattern in range(patterns.shape[1]):
        rows = patterns[:, pattern]
        if rows.any():
            steps = which.reshape(-1) == pattern
            out[steps] = answer(argument[steps], bounds[rows], counts[rows][:, steps])
    return out, present
