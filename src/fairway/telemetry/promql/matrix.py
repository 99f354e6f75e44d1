"""Values of many series at many steps: what every part of a query gives the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from fairway.telemetry.promql.nodes import PromQLError
from fairway.telemetry.store import NAME, Bools, Labels, Values

SAME_LABELS = "vector cannot contain metrics with the same labelset"


class Matrix(NamedTuple):
    """`values`: float64[series, step]; `present`: bool[series, step], where there is a sample. What stands in
    `values` where there is none means nothing."""

    labels: list[Labels]
    values: Values
    present: Bools


def empty(steps: int) -> Matrix:
    return Matrix([], np.empty((0, steps)), np.empty((0, steps), np.bool_))


# What a value computed from others has no longer: the metric's name, type and unit.
_METADATA: Final = (NAME, "__type__", "__unit__")


def unnamed(labels: Labels) -> Labels:
    """Without the metric's name."""
    return tuple(pair for pair in labels if pair[0] not in _METADATA)


def with_label(labels: Labels, name: str, value: str) -> Labels:
    """Set, or taken away where the value is empty."""
    pairs = [pair for pair in labels if pair[0] != name]
    if value:
        pairs.append((name, value))
        pairs.sort()
    return tuple(pairs)


def only(labels: Labels, names: frozenset[str]) -> Labels:
    return tuple(pair for pair in labels if pair[0] in names)


def without(labels: Labels, names: frozenset[str]) -> Labels:
    return tuple(pair for pair in labels if pair[0] not in names)


def merged(matrix: Matrix) -> Matrix:
    """Series of the same labels as one, where they are never there at once; rows without any sample left out.

    Raises: PromQLError where two are.
    """
    keep = matrix.present.any(axis=1)
    if not keep.all():
        rows = np.flatnonzero(keep)
        matrix = Matrix([matrix.labels[i] for i in rows], matrix.values[rows], matrix.present[rows])
    if len(set(matrix.labels)) == len(matrix.labels):
        return matrix
    first: dict[Labels, int] = {}
    values, present = matrix.values.copy(), matrix.present.copy()
    for row, labels in enumerate(matrix.labels):
        into = first.setdefault(labels, row)
        if into == row:
            continue
        if (present[into] & present[row]).any():
            raise PromQLError(SAME_LABELS)
        values[into] = np.where(present[row], values[row], values[into])
        present[into] |= present[row]
    rows = np.array(list(first.values()), np.int64)
    return Matrix(list(first), values[rows], present[rows])


def stacked(parts: Sequence[Matrix], steps: int) -> Matrix:
    """Rows of several as one."""
    parts = [part for part in parts if part.labels]
    if not parts:
        return empty(steps)
    if len(parts) == 1:
        return parts[0]
    return Matrix(
        [labels for part in parts for labels in part.labels],
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.present for part in parts]),
    )


def side_by_side(parts: Iterable[Matrix]) -> Matrix:
    """Steps of several behind each other; series by their labels."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    rows: dict[Labels, int] = {}
    for part in parts:
        for labels in part.labels:
            rows.setdefault(labels, len(rows))
    steps = sum(part.values.shape[1] for part in parts)
    values, present = np.zeros((len(rows), steps)), np.zeros((len(rows), steps), np.bool_)
    at = 0
    for part in parts:
        end = at + part.values.shape[1]
        places = np.array([rows[labels] for labels in part.labels], np.int64)
        values[places, at:end] = part.values
        present[places, at:end] = part.present
        at = end
    return Matrix(list(rows), values, present)


def text_of(labels: Labels) -> str:
    """As Prometheus writes a series: `up{job="a"}`."""
    name = dict(labels).get(NAME, "")
    inside = ", ".join(f"{key}={quoted(value)}" for key, value in labels if key != NAME)
    return f"{name}{{{inside}}}" if inside or not name else name


def quoted(text: str) -> str:
    """As Go's strconv.Quote for ordinary text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
