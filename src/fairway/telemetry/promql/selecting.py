"""From series to blocks: samples at steps, and windows of samples.

Source: promql/engine.go, vectorSelectorSingle and matrixIterSlice (Prometheus 3.14): a sample counts for five minutes,
both a range and the lookback leave their start out, a staleness marker ends a series and is in no range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from fairway.kube.goregexp import RegexpError
from fairway.telemetry.promql.matrix import Matrix, empty
from fairway.telemetry.promql.nodes import PromQLError, Selector
from fairway.telemetry.promql.windows import Indexes, evenly
from fairway.telemetry.store import Labels, Matcher, Series, SeriesSource, Times, Values, is_stale

LOOKBACK_MS: Final = 300_000
# Cells of one table: 2 GiB of float64. A query that needs more is refused in Prometheus' words.
MOST_CELLS: Final = 1 << 28
_TOO_MANY: Final = "query processing would load too many samples into memory in query execution"


class Block(NamedTuple):
    """Series that share their times: `values` is float64[row, sample], without staleness markers."""

    labels: list[Labels]
    times: Times
    values: Values


def selected(source: SeriesSource, node: Selector, start_ms: int, end_ms: int) -> list[Series]:
    """By their labels. Raises: PromQLError."""
    try:
        found = list(source.select(node.matchers, start_ms, end_ms))
    except RegexpError as wrong:
        raise PromQLError(f"parse error: {wrong}") from None
    found.sort(key=lambda series: series.labels)
    return found


class Selected(NamedTuple):
    """Series that somebody has selected already."""

    found: list[Series]

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterable[Series]:
        return self.found


def _by_times(found: Sequence[Series]) -> Iterable[tuple[list[int], Times]]:
    groups: dict[int, tuple[list[int], Times]] = {}
    for row, series in enumerate(found):
        groups.setdefault(id(series.times), ([], series.times))[0].append(row)
    return groups.values()


def at_steps(found: Sequence[Series], ends: Times, is_time: bool = False) -> Matrix:
    """The last sample before each step; `is_time`: when it was, in seconds."""
    if not found:
        return empty(len(ends))
    check_cells(len(found), len(ends))
    values = np.zeros((len(found), len(ends)))
    present = np.zeros(values.shape, np.bool_)
    for rows, times in _by_times(found):
        index = np.searchsorted(times, ends, "right") - 1
        if not len(times):
            continue
        index, is_before = np.maximum(index, 0), index < 0
        valid = np.logical_not(is_before) & (times[index] > ends - LOOKBACK_MS)
        if not valid.any():
            continue
        places = evenly(index)
        for row in rows:
            values[row] = found[row].values[places]
        present[rows] = valid
        if is_time:
            stale = is_stale(values[rows])
            present[rows] &= ~stale
            values[rows] = times[index] / 1000.0
    if not is_time and np.isnan(values).any():
        present &= np.logical_not(is_stale(values))
    return Matrix([series.labels for series in found], values, present)


def blocks_of(found: Sequence[Series]) -> list[Block]:
    """Series with the same times as one block; one with staleness markers is a block of its own."""
    blocks = []
    for rows, times in _by_times(found):
        check_cells(len(rows), len(times))
        table = np.stack([found[row].values for row in rows])
        whole = np.ones(len(rows), np.bool_)
        if np.isnan(table).any():
            stale = is_stale(table)
            whole = np.logical_not(np.any(stale, axis=1))
            for place in np.flatnonzero(~whole):
                keep = ~stale[place]
                blocks.append(Block([found[rows[place]].labels], times[keep], table[place : place + 1, keep]))
            table = table[whole]
        labels = [found[row].labels for row, is_whole in zip(rows, whole, strict=True) if is_whole]
        if labels:
            blocks.append(Block(labels, times, table))
    return blocks


def blocks_of_matrix(matrix: Matrix, times: Times) -> list[Block]:
    """A subquery's steps as samples."""
    whole = matrix.present.all(axis=1)
    blocks = []
    if whole.any():
        rows = np.flatnonzero(whole)
        blocks.append(Block([matrix.labels[r] for r in rows], times, matrix.values[rows]))
    for row in np.flatnonzero(~whole):
        keep = matrix.present[row]
        if keep.any():
            blocks.append(Block([matrix.labels[row]], times[keep], matrix.values[row : row + 1, keep]))
    return blocks


def bounds(times: Times, ends: Times, range_ms: int) -> tuple[Indexes, Indexes]:
    """Which samples each window has: after its start, up to its end."""
    lo = np.searchsorted(times, ends - range_ms, "right").astype(np.int64)
    hi = np.searchsorted(times, ends, "right").astype(np.int64)
    return lo, hi


def check_cells(rows: int, steps: int) -> None:
    if rows * steps > MOST_CELLS:
        raise PromQLError(f"{_TOO_MANY}: {rows} series at {steps} times")
