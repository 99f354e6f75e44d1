"""A fleet's series, derived when they are asked for: one for every device and whoever holds it.

A series ends with a staleness marker at the tick at which its labels changed, as a scraping Prometheus marks it. Values
are worked out for blocks of rows, for the asked window only; all series share its times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np

from fairway.telemetry.dcgm.counters import field_of, spellings
from fairway.telemetry.dcgm.identity import Device, Holder, split_labels
from fairway.telemetry.gpus.fields import COUNTERS, GAUGES, OF_WHOLE_GPUS, Devices
from fairway.telemetry.gpus.fleet import TICK_S, Fleet, Ints
from fairway.telemetry.store import NAME, Labels, Matcher, Series, Table, fits, name_of, series_of

_BLOCK = 600_000
"""Samples worked out at once: arrays that stay in a processor's cache pay."""
_TOGETHER = 64
_STEP_MS = TICK_S * 1000


class Stay(NamedTuple):
    """A holder of a row, from a tick to another (not included)."""

    row: int
    first: int
    last: int
    holder: Holder


class DcgmSource:
    """`stays` by row, then by first tick; of those that overlap (a shared GPU) every holder has a series."""

    def __init__(self, fleet: Fleet, devices: Sequence[Device], stays: Sequence[Stay], until_ms: int) -> None:
        """`until_ms`: nothing is known of what comes later."""
        self._until_ms = until_ms
        self._fields = Devices(fleet)
        self._fleet = fleet
        self._devices = devices
        self._spans = _spans(fleet, stays)
        self._has_parts = any(device.profile for device in devices)
        self._labels: dict[tuple[int, Holder], tuple[Labels, Labels]] = {}
        # Where GPUs begin, and behind the last; and which rows are asked for.
        self._heads = np.append(np.flatnonzero(np.append(True, np.diff(fleet.gpu) != 0)), len(fleet))
        self._own = slice(0, len(fleet))

    def row_count(self) -> int:
        return self._own.stop - self._own.start

    def divided(self, share: float) -> tuple[DcgmSource, DcgmSource]:
        """The first rows, and the rest. No GPU is divided."""
        cut = self._head(self._own.start + round(self.row_count() * share))
        parts = copy(self), copy(self)
        parts[0]._own, parts[1]._own = slice(self._own.start, cut), slice(cut, self._own.stop)
        return parts

    def _head(self, row: int) -> int:
        """The first row of a GPU, not before that one."""
        return int(self._heads[np.searchsorted(self._heads, row)])

    def names(self) -> list[str]:
        return sorted({*GAUGES, *COUNTERS, *spellings()}) if len(self._fleet) else []

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Series]:
        for table in self.parts(matchers, start_ms, end_ms):
            yield from series_of(table)

    def has_tables(self, matchers: Sequence[Matcher]) -> bool:
        name = name_of(matchers)
        return name is not None and field_of(name) is not None

    def parts(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Table]:
        name = name_of(matchers)
        if name is not None:
            rest = [m for m in matchers if m != Matcher(NAME, "=", name)]
            yield from self._named(name, rest, start_ms, end_ms)
            return
        asked = [m for m in matchers if m.name == NAME]
        rest = [m for m in matchers if m.name != NAME]
        for name in [*GAUGES, *COUNTERS]:
            if all(m.matches(name) for m in asked):
                yield from self._named(name, rest, start_ms, end_ms)

    def _named(self, name: str, rest: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Table]:
        field = field_of(name)
        first, last = -(-start_ms // _STEP_MS), min(end_ms, self._until_ms) // _STEP_MS + 1
        if len(self._fleet) and field is not None:
            # Nothing is before the first device.
            first = max(first, int(self._fleet.first.min()))
        if field is None or last <= first or not len(self._fleet):
            return
        times = np.arange(first, last, dtype=np.int64) * _STEP_MS
        # The same rows for spans of nearly the same length: what they have in common is worked out once.
        block = max(1, _BLOCK // len(times) & -_TOGETHER or _BLOCK // len(times))
        hi = self._own.start
        while hi < self._own.stop:
            # What a GPU draws is the sum of its parts': they stay together.
            lo, hi = hi, min(self._head(min(hi + block, len(self._fleet))), self._own.stop)
            rows = slice(lo, hi)
            wanted = self._wanted(name, field, rest, rows, first, last)
            if not len(wanted):
                continue
            spans = self._spans
            begin = np.maximum(spans.first[wanted] - first, 0)
            end = np.minimum(spans.last[wanted], last) - first
            yield Table(
                times,
                self._fields.values(field, rows, first, len(times)),
                spans.row[wanted] - lo,
                begin,
                np.maximum(end, begin),
                spans.series[wanted],
                spans.last[wanted] < last,
                partial(self._labelled_span, name, wanted),
            )

    def _wanted(
        self, name: str, field: str, rest: Sequence[Matcher], rows: slice, first: int, last: int
    ) -> Ints:
        """The spans of some rows that fit and have something to say in a window."""
        spans = self._spans
        some = slice(int(spans.starts[rows.start]), int(spans.starts[rows.stop]))
        # A marker may be in the window where its span is not.
        there = (spans.first[some] < last) & (spans.last[some] >= first)
        there &= (spans.last[some] > first) | (spans.last[some] < last)
        found: Ints = np.flatnonzero(there) + some.start
        if field in OF_WHOLE_GPUS and self._has_parts:
            found = found[[not self._devices[row].profile for row in spans.row[found].tolist()]]
        if rest:
            fitting = [fits(self._labelled(name, *self._of(i)), rest) for i in found.tolist()]
            found = found[fitting]
        return found

    def _of(self, span: int) -> tuple[int, Holder]:
        return int(self._spans.row[span]), self._spans.holders[span]

    def _labelled_span(self, name: str, wanted: Ints, place: int) -> Labels:
        return self._labelled(name, *self._of(int(wanted[place])))

    def _labelled(self, name: str, row: int, holder: Holder) -> Labels:
        found = self._labels.get((row, holder))
        if found is None:
            found = self._labels[row, holder] = split_labels(self._devices[row], holder)
        return (*found[0], (NAME, name), *found[1])


_NOBODY = Holder()


class _Spans(NamedTuple):
    """Who holds which row from when to when, nobody included, over each device's life. By row, then by time;
    `starts[row]`: where a row's begin; `series`: a number for each row and holder."""

    row: Ints
    first: Ints
    last: Ints
    series: Ints
    holders: list[Holder]
    starts: Ints


def _spans(fleet: Fleet, stays: Sequence[Stay]) -> _Spans:
    found: list[tuple[int, int, int, Holder]] = []
    free = fleet.first.tolist()
    ends = fleet.last.tolist()
    row = 0

    def rest_until(next_row: int) -> None:
        """What is left of the rows before it belongs to nobody."""
        nonlocal row
        while row < next_row:
            if free[row] < ends[row]:
                found.append((row, free[row], ends[row], _NOBODY))
            row += 1

    for stay in stays:
        first, last = max(stay.first, 0), min(stay.last, ends[stay.row])
        if last <= first:
            continue
        rest_until(stay.row)
        if first > free[row]:
            found.append((row, free[row], first, _NOBODY))
        if found and found[-1][0] == row and found[-1][3] == stay.holder and found[-1][2] > first:
            # Two parts of one device, held by one pod, are one series.
            found[-1] = (row, found[-1][1], max(last, found[-1][2]), stay.holder)
        else:
            found.append((row, first, last, stay.holder))
        free[row] = max(free[row], last)
    rest_until(len(fleet))
    numbers: dict[tuple[int, Holder], int] = {}
    series = [numbers.setdefault((at, holder), len(numbers)) for at, _, _, holder in found]
    rows, begins, lasts = (np.array([span[k] for span in found], np.int64) for k in range(3))
    starts = np.searchsorted(rows, np.arange(len(fleet) + 1))
    return _Spans(rows, begins, lasts, np.array(series, np.int64), [span[3] for span in found], starts)
