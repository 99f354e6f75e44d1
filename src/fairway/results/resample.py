"""A series on an even grid, for lines on a screen or on paper."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.recorder.tables import SeriesRow, Table


def on_grid(series: Table[SeriesRow], name: str, bins: int) -> list[float | None]:
    """Time-weighted means of a column over equal stretches of the run; None where a stretch has no value."""
    if not len(series) or bins <= 0:
        return []
    starts, ends = series.columns["start_us"], series.columns["end_us"]
    return grid_means(starts, ends, series.columns[name], bins)


def grid_means(
    starts: Sequence[int], ends: Sequence[int], values: Sequence[float | None], bins: int
) -> list[float | None]:
    """The same for any adjoining stretches. O(stretches + bins)."""
    first, span = starts[0], ends[-1] - starts[0]
    sums, weights = [0.0] * bins, [0] * bins
    for start, end, value in zip(starts, ends, values, strict=True):
        if value is None or end <= start:
            continue
        at = min((start - first) * bins // span, bins - 1)
        while at < bins:
            edge = first + -(-(at + 1) * span // bins)
            upto = min(end, edge)
            begin = max(start, first + -(-at * span // bins))
            if upto > begin:
                sums[at] += value * (upto - begin)
                weights[at] += upto - begin
            if end <= edge:
                break
            at += 1
    return [s / w if w else None for s, w in zip(sums, weights, strict=True)]
