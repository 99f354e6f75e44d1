"""Functions over classic histograms: series with a label `le` are the buckets of the one without it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairway.telemetry.promql.aggregating import number_text
from fairway.telemetry.promql.matrix import Matrix, empty, merged, stacked, with_label, without
from fairway.telemetry.promql.quantiles import bucket_fraction, bucket_quantile, of_buckets
from fairway.telemetry.store import NAME, Labels, Values

_BUCKET = frozenset(("le", NAME))


def histogram_quantile(q: Values, matrix: Matrix) -> Matrix:
    parts = []
    for labels, rows in _histograms(matrix).items():
        values, present = of_buckets(bucket_quantile, q, *_buckets(matrix, rows))
        parts.append(Matrix([labels], values[None], present[None]))
    return merged(stacked(parts, matrix.values.shape[1]))


def histogram_quantiles(matrix: Matrix, label: str, qs: Sequence[Values]) -> Matrix:
    """Several at once, each with its quantile in a label (that of the first step)."""
    parts = []
    for q in qs:
        found = histogram_quantile(q, matrix)
        text = number_text(float(q[0])) if len(q) else ""
        text = f"{text}.0" if text.lstrip("-").isdecimal() else text
        parts.append(
            Matrix([with_label(one, label, text) for one in found.labels], found.values, found.present)
        )
    return merged(stacked(parts, matrix.values.shape[1]))


def histogram_fraction(lower: Values, upper: Values, matrix: Matrix) -> Matrix:
    """Bounds that differ from step to step are answered a pair of them at a time."""
    steps = matrix.values.shape[1]
    out = empty(steps)
    pairs = np.stack([lower, upper], axis=1)
    for low, high in np.unique(pairs, axis=0):
        at = ((lower == low) | (np.isnan(lower) & np.isnan(low))) & (
            (upper == high) | (np.isnan(upper) & np.isnan(high))
        )

        def answer(_: Values, bounds: Values, counts: Values, low: float = low, high: float = high) -> Values:
            return bucket_fraction(low, high, bounds, counts)

        for labels, rows in _histograms(matrix).items():
            values, present = of_buckets(answer, lower, *_buckets(matrix, rows))
            out = stacked([out, Matrix([labels], values[None], (present & at)[None])], steps)
    return merged(out)


def _histograms(matrix: Matrix) -> dict[Labels, list[tuple[int, float]]]:
    """Rows and upper bounds by the labels of their histogram. What has no bound is no bucket."""
    found: dict[Labels, list[tuple[int, float]]] = {}
    for row, labels in enumerate(matrix.labels):
        try:
            bound = float(dict(labels).get("le", ""))
        except ValueError:
            continue
        found.setdefault(without(labels, _BUCKET), []).append((row, bound))
    return found


def _buckets(
    matrix: Matrix, rows: list[tuple[int, float]]
) -> tuple[Values, Values, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    index = [row for row, _ in rows]
    return np.array([bound for _, bound in rows]), matrix.values[index], matrix.present[index]
