"""A fleet's series, derived when they are asked for: one for every device and whoever holds it.

A series ends with a staleness marker at the tick at which its labels changed, as a scraping Prometheus marks it. Values
are worked out for blocks of rows, for the asked window only; all series share its times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fairway.telemetry.dcgm.counters import field_of, spellings
from fairway.telemetry.dcgm.identity import Device, Holder, split_labels
from fairway.telemetry.gpus.fields import COUNTERS, GAUGES, OF_WHOLE_GPUS, Devices
from fairway.telemetry.gpus.fleet import TICK_S, Fleet
from fairway.telemetry.store import NAME, STALE, Labels, Matcher, Series, Times, Values, fits, name_of

_BLOCK = 1_500_000
"""Samples worked out at once: arrays that stay in a processor's cache pay."""
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
        self._labels: dict[tuple[int, Holder], tuple[Labels, Labels]] = {}

    def names(self) -> list[str]:
        return sorted({*GAUGES, *COUNTERS, *spellings()}) if len(self._fleet) else []

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Series]:
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

    def _named(self, name: str, rest: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Series]:
        field = field_of(name)
        first, last = -(-start_ms // _STEP_MS), min(end_ms, self._until_ms) // _STEP_MS + 1
        if len(self._fleet) and field is not None:
            # Nothing is before the first device.
            first = max(first, int(self._fleet.first.min()))
        if field is None or last <= first or not len(self._fleet):
            return
        times = np.arange(first, last, dtype=np.int64) * _STEP_MS
        block = max(1, _BLOCK // len(times))
        for lo in range(0, len(self._fleet), block):
            rows = slice(lo, min(lo + block, len(self._fleet)))
            wanted = list(self._wanted(name, field, rest, rows, first, last))
            if not wanted:
                continue
            values = self._fields.values(field, rows, first, len(times)).astype(np.float64)
            for row, spans, labels in wanted:
                if len(spans) == 1:
                    yield _cut(labels, times, values[row - lo], *spans[0])
                else:
                    pieces = [_cut(labels, times, values[row - lo], *span) for span in spans]
                    joined = (
                        np.concatenate([getattr(p, part) for p in pieces]) for part in ("times", "values")
                    )
                    yield Series(labels, *joined)

    def _wanted(
        self, name: str, field: str, rest: Sequence[Matcher], rows: slice, first: int, last: int
    ) -> Iterator[tuple[int, list[tuple[int, int, bool]], Labels]]:
        """The series of some rows that fit and have something to say in a window: their samples' places in it, and
        whether a staleness marker is behind them."""
        for row in range(rows.start, rows.stop):
            if field in OF_WHOLE_GPUS and self._devices[row].profile:
                continue
            held: dict[Holder, list[tuple[int, int, bool]]] = {}
            for begins, ends, holder in self._spans[row]:
                # A marker may be in the window where its span is not.
                if begins < last and ends >= first:
                    place = (max(begins - first, 0), min(ends, last) - first, ends < last)
                    if place[1] > place[0] or place[2]:
                        held.setdefault(holder, []).append(place)
            for holder, spans in held.items():
                labels = self._labelled(name, row, holder)
                if fits(labels, rest):
                    yield row, spans, labels

    def _labelled(self, name: str, row: int, holder: Holder) -> Labels:
        found = self._labels.get((row, holder))
        if found is None:
            found = self._labels[row, holder] = split_labels(self._devices[row], holder)
        return (*found[0], (NAME, name), *found[1])


def _cut(labels: Labels, times: Times, values: Values, begins: int, ends: int, is_over: bool) -> Series:
    if is_over:
        return Series(labels, times[begins : ends + 1], np.append(values[begins:ends], STALE))
    return Series(labels, times[begins:ends], values[begins:ends])


_Span = tuple[int, int, Holder]
_NOBODY = Holder()


def _spans(fleet: Fleet, stays: Sequence[Stay]) -> list[list[_Span]]:
    """By row: who holds it from when to when, nobody included, over the device's life."""
    spans: list[list[_Span]] = [[] for _ in range(len(fleet))]
    free = fleet.first.tolist()
    ends = fleet.last.tolist()
    for stay in stays:
        first, last = max(stay.first, 0), min(stay.last, ends[stay.row])
        if last <= first:
            continue
        if first > free[stay.row]:
            spans[stay.row].append((free[stay.row], first, _NOBODY))
        spans[stay.row].append((first, last, stay.holder))
        free[stay.row] = max(free[stay.row], last)
    for row, of_row in enumerate(spans):
        if free[row] < ends[row]:
            of_row.append((free[row], ends[row], _NOBODY))
    return spans
