"""Functions over range vectors: `rate`, `avg_over_time`, `predict_linear` and the others.

Each is a kernel over `Windows`: values and presence, [row, step]. Source: promql/functions.go (Prometheus 3.14).
Histograms and start timestamps are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from fairway.telemetry.promql.nodes import PromQLError
from fairway.telemetry.promql.quantiles import quantiles
from fairway.telemetry.promql.windows import (
    Windows,
    averages,
    by_position,
    columns,
    fold,
    gathered,
    moments,
    spread,
    sums,
)
from fairway.telemetry.store import Bools, Times, Values

Result: TypeAlias = tuple[Values, Bools]
# The windows, the times of the steps (ms), and the scalar arguments, float64[step] each.
Kernel: TypeAlias = Callable[[Windows, Times, Sequence[Values]], Result]


def _shown(values: Values, counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]], least: int = 1) -> Result:
    return values, np.broadcast_to(counts >= least, values.shape)


def _first(w: Windows) -> Values:
    found: Values = columns(w.values, np.minimum(w.lo, w.values.shape[1] - 1))
    return found


def _last(w: Windows) -> Values:
    found: Values = columns(w.values, np.maximum(w.hi - 1, 0))
    return found


def _time_of(w: Windows, index: Times) -> Times:
    """In ms: differences are taken of whole numbers."""
    return w.times[np.clip(index, 0, len(w.times) - 1)]


def _increments(w: Windows, is_counter: bool) -> Values:
    """Last less first; of a counter, with what was lost at each reset added."""
    with np.errstate(invalid="ignore"):
        out = _last(w) - _first(w)
        if not is_counter:
            return out
        lost = np.zeros_like(w.values)
        before = w.values[:, :-1]
        drops = w.values[:, 1:] < before
        if drops.any():
            lost[:, 1:] = np.where(drops, before, 0.0)
            out = out + fold(np.add, lost, np.minimum(w.lo + 1, w.hi), w.hi, 0.0)
    return out


def _extrapolated(w: Windows, is_counter: bool, is_rate: bool) -> Result:
    counts = w.counts
    enough = counts >= 2
    out = _increments(w, is_counter)
    first, last = _time_of(w, w.lo), _time_of(w, w.hi - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        to_start = (first - (w.ends - w.range_ms)) / 1000.0
        to_end = (w.ends - last) / 1000.0
        sampled = np.where(enough, (last - first) / 1000.0, 1.0)
        between = sampled / np.maximum(counts - 1, 1)
        threshold = between * 1.1
        to_start = np.where(to_start >= threshold, between / 2, to_start)
        to_end = np.where(to_end >= threshold, between / 2, to_end)
        if is_counter:
            began = _first(w)
            to_zero = sampled * (began / out)
            limited = (out > 0) & (began >= 0) & (to_zero < to_start)
            to_start = np.where(limited, to_zero, to_start)
        factor = (sampled + to_start + to_end) / sampled
        if is_rate:
            factor = factor / (w.range_ms / 1000.0)
        return _shown(out * factor, counts, 2)


def _instant(w: Windows, is_rate: bool) -> Result:
    last, before = w.hi - 1, w.hi - 2
    now, then = _last(w), w.values[:, np.maximum(before, 0)]
    with np.errstate(invalid="ignore", divide="ignore"):
        out = np.where(now < then, now, now - then) if is_rate else now - then
        if is_rate:
            out = out / np.where(w.counts >= 2, (_time_of(w, last) - _time_of(w, before)) / 1000.0, 1.0)
    return _shown(out, w.counts, 2)


def _jumps(w: Windows, is_reset: bool) -> Result:
    before, after = w.values[:, :-1], w.values[:, 1:]
    found = np.zeros(w.values.shape, np.int64)
    if is_reset:
        found[:, 1:] = after < before
    else:
        found[:, 1:] = (after != before) & ~(np.isnan(after) & np.isnan(before))
    total = np.cumsum(found, axis=1)
    last = np.maximum(w.hi - 1, 0)
    out = columns(total, last) - columns(total, np.minimum(w.lo, last))
    return _shown(out.astype(np.float64), w.counts)


def _regression(w: Windows, at: Times | None) -> tuple[Values, Values]:
    """Slope, and the value at a time of each step. A constant's slope is 0, an infinite one's no number."""
    m = moments(w)
    least, most = fold(np.fmin, w.values, w.lo, w.hi, np.nan), fold(np.fmax, w.values, w.lo, w.hi, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = m.products / m.squares_x
        level = m.mean
        if at is not None:
            origin = w.times[0] if len(w.times) else 0
            level = m.mean + slope * ((at - origin) / 1000.0 - m.mean_x)
    is_finite = np.isfinite(m.mean)
    slope, level = np.where(least == most, 0.0, slope), np.where(least == most, least, level)
    return np.where(is_finite, slope, np.nan), np.where(is_finite, level, np.nan)


def _deriv(w: Windows, at: Times, arguments: Sequence[Values]) -> Result:
    return _shown(_regression(w, None)[0], w.counts, 2)


def _predict_linear(w: Windows, at: Times, arguments: Sequence[Values]) -> Result:
    slope, level = _regression(w, at)
    return _shown(slope * arguments[0] + level, w.counts, 2)


def _smoothing(w: Windows, at: Times, arguments: Sequence[Values]) -> Result:
    """Holt's double exponential smoothing, sample by sample over all windows."""
    data, trend = arguments
    for name, factors in (("smoothing", data), ("trend", trend)):
        if wrong := [f for f in factors if not 0 < f < 1][:1]:
            short = "sf" if name == "smoothing" else "tf"
            raise PromQLError(f"invalid {name} factor. Expected: 0 < {short} < 1, got: {wrong[0]:f}")
    shape = (len(w.values), len(w.lo))
    before, now, slope = np.zeros(shape), np.zeros(shape), np.zeros(shape)

    def step(position: int, steps: Times, values: Values) -> None:
        if position == 0:
            now[:, steps] = values
            return
        if position == 1:
            slope[:, steps] = values - now[:, steps]
        else:
            tf = trend[steps]
            slope[:, steps] = tf * (now[:, steps] - before[:, steps]) + (1 - tf) * slope[:, steps]
        sf = data[steps]
        after = sf * values + (1 - sf) * (now[:, steps] + slope[:, steps])
        before[:, steps] = now[:, steps]
        now[:, steps] = after

    with np.errstate(invalid="ignore", over="ignore"):
        by_position(w, step)
    return _shown(now, w.counts, 2)


def _quantile(w: Windows, at: Times, arguments: Sequence[Values]) -> Result:
    out = np.full((len(w.values), len(w.lo)), np.nan)
    for steps, values in gathered(w):
        count = np.full(values.shape[:2], values.shape[2])
        out[:, steps] = quantiles(np.moveaxis(values, 2, 0), count, arguments[0][steps])
    return _shown(out, w.counts)


def _mad(w: Windows, at: Times, arguments: Sequence[Values]) -> Result:
    out = np.full((len(w.values), len(w.lo)), np.nan)
    for steps, values in gathered(w):
        with np.errstate(invalid="ignore"):
            middle = np.median(values, axis=2, keepdims=True)
            out[:, steps] = np.median(np.abs(values - middle), axis=2)
    return _shown(out, w.counts)


def _time_of_best(w: Windows, is_most: bool) -> Result:
    """When the least or most was there last."""
    shape = (len(w.values), len(w.lo))
    best, when = np.full(shape, np.nan), np.zeros(shape)

    def step(position: int, steps: Times, values: Values) -> None:
        so_far = best[:, steps]
        better = (values >= so_far) if is_most else (values <= so_far)
        better |= np.isnan(so_far)
        best[:, steps] = np.where(better, values, so_far)
        when[:, steps] = np.where(better, _time_of(w, w.lo[steps] + position) / 1000.0, when[:, steps])

    by_position(w, step)
    return _shown(when, w.counts)


def _deviation(w: Windows, is_root: bool) -> Result:
    with np.errstate(invalid="ignore", divide="ignore"):
        out = spread(w) / w.counts
        return _shown(np.sqrt(out) if is_root else out, w.counts)


def _count(w: Windows) -> Values:
    return np.broadcast_to(w.counts.astype(np.float64), (len(w.values), len(w.lo)))


KERNELS: Final[dict[str, Kernel]] = {
    "avg_over_time": lambda w, at, a: _shown(averages(w), w.counts),
    "changes": lambda w, at, a: _jumps(w, is_reset=False),
    "count_over_time": lambda w, at, a: _shown(_count(w), w.counts),
    "delta": lambda w, at, a: _extrapolated(w, is_counter=False, is_rate=False),
    "deriv": _deriv,
    "double_exponential_smoothing": _smoothing,
    "first_over_time": lambda w, at, a: _shown(_first(w), w.counts),
    "holt_winters": _smoothing,
    "idelta": lambda w, at, a: _instant(w, is_rate=False),
    "increase": lambda w, at, a: _extrapolated(w, is_counter=True, is_rate=False),
    "irate": lambda w, at, a: _instant(w, is_rate=True),
    "last_over_time": lambda w, at, a: _shown(_last(w), w.counts),
    "mad_over_time": _mad,
    "max_over_time": lambda w, at, a: _shown(fold(np.fmax, w.values, w.lo, w.hi, np.nan), w.counts),
    "min_over_time": lambda w, at, a: _shown(fold(np.fmin, w.values, w.lo, w.hi, np.nan), w.counts),
    "predict_linear": _predict_linear,
    "present_over_time": lambda w, at, a: _shown(np.ones((len(w.values), len(w.lo))), w.counts),
    "quantile_over_time": _quantile,
    "rate": lambda w, at, a: _extrapolated(w, is_counter=True, is_rate=True),
    "resets": lambda w, at, a: _jumps(w, is_reset=True),
    "stddev_over_time": lambda w, at, a: _deviation(w, is_root=True),
    "stdvar_over_time": lambda w, at, a: _deviation(w, is_root=False),
    "sum_over_time": lambda w, at, a: _shown(sums(w), w.counts),
    "ts_of_first_over_time": lambda w, at, a: _shown(_time_of(w, w.lo) / 1000.0 + 0 * _count(w), w.counts),
    "ts_of_last_over_time": lambda w, at, a: _shown(_time_of(w, w.hi - 1) / 1000.0 + 0 * _count(w), w.counts),
    "ts_of_max_over_time": lambda w, at, a: _time_of_best(w, is_most=True),
    "ts_of_min_over_time": lambda w, at, a: _time_of_best(w, is_most=False),
}
# These keep the metric's name.
KEEPS_NAME: Final = ("first_over_time", "last_over_time")
