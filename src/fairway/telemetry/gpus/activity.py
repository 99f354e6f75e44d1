"""How busy is each device at each tick? Patterns are tables drawn once; a segment reads them from a place of its own.

A table has `N` ticks (22 days) and repeats after that. Who shares a pattern (pods of one workload) reads from the same
place, so that a job's GPUs wait and save together.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fairway.telemetry.gpus.fleet import TICK_S, Fleet, Floats, Ints
from fairway.telemetry.gpus.kinds import NOTEBOOK, SERVING, TRAINING

N = 1 << 16
_MASK = N - 1
DAY = 86_400 // TICK_S
# Share of pods' time that is busy, by hour of the day (UTC): the GenAI trace's means, over their mean.
_HOURS = (
    *(0.20, 0.23, 0.14, 0.24, 0.30, 0.40, 0.51, 1.68, 2.19, 1.72, 0.90, 1.94),
    *(2.32, 2.65, 2.22, 1.77, 0.81, 0.58, 0.57, 0.64, 0.43, 0.37, 0.28, 0.14),
)
_BUSY = 0.3315
"""Share of time a serving pod is busy, on average. Source: kinds."""
_BURST = 0.08
"""The same of a notebook."""


@cache
def _jitter() -> Floats:
    """Cut at two deviations."""
    return _twice(np.clip(_normal(1), -2, 2))


@cache
def _wobble() -> Floats:
    return (1 + np.float32(0.02) * _jitter()).astype(np.float32)


@cache
def _uniform() -> Floats:
    """Between 0 and 1, correlated over minutes: whether a pattern is on is whether this is below its share."""
    return _twice(_ranks(_smooth(_normal(2), 0.85)))


@lru_cache(maxsize=64)
def _stalls(share: float) -> Floats:
    """Waiting for input takes nine tenths of a tick, now and then, all of the workload at once."""
    return np.where(_uniform() < share, np.float32(0.1), np.float32(1))


@cache
def _cells() -> Floats:
    """Somebody runs a cell for some minutes, then reads: busy 8 % of the time, in tens of minutes."""
    return _twice(np.where(_ranks(_smooth(_normal(3), 0.97)) < _BURST, np.float32(1 / _BURST), np.float32(0)))


@cache
def _sizes() -> Floats:
    """How busy while busy: log-normal, median 0.187, sigma 0.57, at most 1."""
    return _twice(np.minimum(0.187 * np.exp(0.57 * _normal(4)), 1.0).astype(np.float32))


@lru_cache(maxsize=64)
def _works(interval: int, dip: int) -> Floats:
    """No kernel runs while a checkpoint is written: 1 for `interval` ticks, 0 for `dip`, and so on."""
    period = np.zeros(interval + dip, np.float32)
    period[:interval] = 1
    return np.resize(period, interval + dip + N)


@cache
def _days() -> Floats:
    """The share of pods that is busy, by tick of the day, for as long as a table is."""
    hours = np.array(_HOURS, np.float64)
    hours = np.append(hours, hours[0]) / hours.mean()
    curve = np.interp(np.arange(DAY) * TICK_S / 3600, np.arange(25), hours)
    return np.resize(np.minimum(curve * _BUSY, 0.95).astype(np.float32), DAY + N)


def _twice(table: Floats) -> Floats:
    """So that N ticks can be read from any place."""
    return np.concatenate([table, table])


# Samples of rows at ticks; bytes. A day of 8,000 GPUs is 92 MB.
_WORTH_KEEPING = 100_000
_MOST_KEPT = 1 << 28


class Runs(NamedTuple):
    """Who uses some rows over some ticks, as runs: `names[i]` (a segment; the last one is nobody's) holds for the next
    `counts[i]` of row × tick. `begins`: where each run of a segment begins, and its segment and length."""

    names: Ints
    counts: Ints
    begins: list[tuple[int, int, int]]
    shape: tuple[int, int]

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Every segment's value, `[row, tick]`."""
        return np.repeat(values[self.names], self.counts).reshape(self.shape)


def runs_of(fleet: Fleet, layer: int, rows: slice, first: int, ticks: int) -> Runs:
    """One layer's. O(segments of the rows)."""
    order, starts = fleet.layers[layer]
    count = rows.stop - rows.start
    columns = fleet.columns
    nobody = len(columns["kind"]) - 1
    chosen = order[int(starts[rows.start]) : int(starts[rows.stop])]
    row = np.repeat(np.arange(count), np.diff(starts[rows.start : rows.stop + 1]))
    begin = np.maximum(columns["first"][chosen], first) - first
    end = np.minimum(columns["last"][chosen], first + ticks) - first
    there = end > begin
    chosen, begins, ends = chosen[there], (begin + row * ticks)[there], (end + row * ticks)[there]
    counts = np.empty(2 * len(begins) + 1, np.int64)
    counts[0:-1:2] = begins - np.append(0, ends)[:-1]
    counts[1::2] = ends - begins
    counts[-1] = count * ticks - (ends[-1] if len(ends) else 0)
    names = np.full(len(counts), nobody, np.int64)
    names[1::2] = chosen
    found = list(zip(begins.tolist(), chosen.tolist(), counts[1::2].tolist(), strict=True))
    return Runs(names, counts, found, (count, ticks))


class KeptLevels:
    """Levels of every layer, as they were worked out last: the rules of a group ask for nearly the same ticks of the
    same rows, one after another."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], tuple[int, list[Floats]]] = OrderedDict()
        self._bytes = 0

    def levels(self, fleet: Fleet, runs: Sequence[Runs], rows: slice, first: int) -> list[Floats]:
        """`runs`: of every layer, from `first` on. Whoever gets them does not change them."""
        count, ticks = runs[0].shape
        if count * ticks < _WORTH_KEEPING:
            return [levels(fleet, some, rows, first) for some in runs]
        begin, known = self._known.pop((rows.start, rows.stop), (first, []))
        self._bytes -= sum(part.nbytes for part in known)
        lo, hi = max(begin, first), min(begin + (known[0].shape[1] if known else 0), first + ticks)
        if lo >= hi:
            found = [levels(fleet, some, rows, first) for some in runs]
        else:
            edges = ((first, lo - first), (hi, first + ticks - hi))
            before, behind = (
                [levels(fleet, runs_of(fleet, k, rows, at, n), rows, at) for k in range(len(runs))]
                if n
                else []
                for at, n in edges
            )
            shared = [part[:, lo - begin : hi - begin] for part in known]
            pieces = [some for some in (before, shared, behind) if some]
            found = [np.concatenate(layer, axis=1) for layer in zip(*pieces, strict=True)]
        self._known[rows.start, rows.stop] = first, found
        self._bytes += sum(part.nbytes for part in found)
        while self._bytes > _MOST_KEPT:
            self._bytes -= sum(part.nbytes for part in self._known.popitem(last=False)[1][1])
        return found


def levels(fleet: Fleet, runs: Runs, rows: slice, first: int) -> Floats:
    """`float32[row, tick]`, 0 to 1: the share of each tick in which a kernel runs, of one layer.

    O(row × tick), and some µs per segment.
    """
    columns, ticks = fleet.columns, runs.shape[1]
    out = np.zeros(runs.shape[0] * ticks, np.float32)
    wobble = _wobble()
    kinds, level, shift, stalls, interval, dip, anchor = (
        columns[n][runs.names[1::2]].tolist()
        for n in ("kind", "level", "shift", "stalls", "interval", "dip", "anchor")
    )
    shifts = fleet.shift[rows].tolist()
    for i, (begin, name, count) in enumerate(runs.begins):
        if not level[i]:
            continue
        row, tick = divmod(begin, ticks)
        now = first + tick
        # Beyond what a table holds it is read again from its start.
        for done in range(0, count, N):
            n = min(N, count - done)
            piece = out[begin + done : begin + done + n]
            at = now + done
            np.multiply(_from(wobble, shifts[row] + at, n), np.float32(level[i]), out=piece)
            kind = kinds[i]
            if kind == TRAINING:
                piece *= _from(_stalls(stalls[i]), shift[i] + at, n)
            elif kind == SERVING:
                mine = shift[i] + name * 7919 + at
                piece *= _from(_sizes(), mine, n)
                piece *= _from(_uniform(), mine, n) < _from(_days(), at % DAY, n)
            elif kind == NOTEBOOK:
                piece *= _from(_cells(), shift[i] + name * 7919 + at, n)
            if interval[i]:
                works = _works(interval[i], dip[i])
                phase = (at - anchor[i]) % (interval[i] + dip[i])
                piece *= works[phase : phase + n]
    return np.clip(out, 0, 1, out=out).reshape(runs.shape)


def wobbles(fleet: Fleet, rows: slice, first: int, ticks: int) -> Floats:
    """What differs from device to device and tick to tick: normal, `float32[row, tick]`."""
    out = np.empty((rows.stop - rows.start, ticks), np.float32)
    for i, shift in enumerate(fleet.shift[rows].tolist()):
        for done in range(0, ticks, N):
            n = min(N, ticks - done)
            out[i, done : done + n] = _from(_jitter(), 31 * shift + first + done, n)
    return out


def _from(table: Floats, at: int, count: int) -> Floats:
    at &= _MASK
    return table[at : at + count]


def _normal(stream: int) -> Floats:
    """Drawn from streams of a seed that is part of the model: patterns are its data."""
    return np.random.Generator(np.random.PCG64([20240805, stream])).standard_normal(N).astype(np.float32)


def _smooth(noise: Floats, keeps: float) -> Floats:
    """A first-order process: each value keeps that share of the one before."""
    out = np.empty(N, np.float32)
    value, rest = 0.0, (1 - keeps * keeps) ** 0.5
    for i, drawn in enumerate(noise.tolist()):
        value = keeps * value + rest * drawn
        out[i] = value
    return out


def _ranks(values: Floats) -> Floats:
    out = np.empty(N, np.float32)
    out[np.argsort(values, kind="stable")] = (np.arange(N) + 0.5) / N
    return out
