"""Many series as fewer: `sum by`, `topk`, `quantile`, `count_values` and the others.

Source: promql/engine.go, aggregation and aggregationK (Prometheus 3.14). Series of one value stay in the order of their
labels where Prometheus' order is its heap's.
"""

from __future__ import annotations

from math import fsum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairway.telemetry.promql.matrix import Matrix, empty, merged, only, with_label, without
from fairway.telemetry.promql.nodes import PromQLError
from fairway.telemetry.promql.quantiles import quantiles
from fairway.telemetry.store import NAME, Labels, Values

_CANCELLED: Final = 1e4
_PICKING: Final = ("topk", "bottomk", "limitk")


class _Groups(NamedTuple):
    """Rows in the order of their groups; `starts[g]`: where group g begins."""

    labels: list[Labels]
    order: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]


def aggregated(
    op: str, matrix: Matrix, names: tuple[str, ...], is_without: bool, parameter: Values | str | None
) -> Matrix:
    """`parameter`: float64[step] of topk and quantile, the label of count_values. Raises: PromQLError."""
    steps = matrix.values.shape[1]
    if isinstance(parameter, str):
        return _count_values(matrix, names, is_without, parameter)
    if op in _PICKING:
        assert parameter is not None
        _check_count(parameter)
    if not matrix.labels:
        return empty(steps)
    groups = _grouped(matrix.labels, names, is_without)
    if op in _PICKING:
        assert parameter is not None
        return _picked(op, matrix, groups, parameter)
    values, present = matrix.values, matrix.present
    if (np.diff(groups.order) != 1).any():
        values, present = values[groups.order], present[groups.order]
    if present.all():
        sizes = np.diff(np.append(groups.starts, len(present)))
        count = np.broadcast_to(sizes[:, None], (len(sizes), steps))
    else:
        count = _reduced(np.add, present.view(np.int8), groups.starts, np.int64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        out = _statistic(op, values, present, groups, count, parameter)
    return Matrix(groups.labels, out, count > 0)


def _reduced(op: np.ufunc, table: Any, starts: Any, dtype: Any = None) -> Any:
    """Rows of each group as one. A few large groups are quicker one by one."""
    if 4 * len(starts) > len(table):
        return op.reduceat(table, starts, axis=0, dtype=dtype)
    ends = [*starts[1:], len(table)]
    parts = [op.reduce(table[a:b], axis=0, dtype=dtype) for a, b in zip(starts, ends, strict=True)]
    return np.stack(parts)


def _grouped(labels: list[Labels], names: tuple[str, ...], is_without: bool) -> _Groups:
    found: dict[Labels, int] = {}
    if not names and not is_without:
        return _Groups([()], np.arange(len(labels)), np.zeros(1, np.int64))
    wanted = frozenset((*names, NAME) if is_without else names)
    part = without if is_without else only
    which = np.array([found.setdefault(part(one, wanted), len(found)) for one in labels], np.int64)
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(found)))
    return _Groups(list(found), order, starts)


def _statistic(
    op: str, values: Values, present: Any, groups: _Groups, count: Any, parameter: Values | None
) -> Values:
    starts = groups.starts
    out: Values
    match op:
        case "sum":
            return _sum(values, present, starts)
        case "avg":
            return _average(values, present, starts, count)
        case "count":
            out = count.astype(np.float64)
            return out
        case "group":
            return np.ones(count.shape)
        case "min" | "max":
            best = np.fmin if op == "min" else np.fmax
            out = _reduced(best, values if present.all() else np.where(present, values, np.nan), starts)
            return out
        case "stddev" | "stdvar":
            sizes = np.diff(np.append(starts, len(values)))
            mean = np.repeat(_average(values, present, starts, count), sizes, axis=0)
            out = _reduced(np.add, np.where(present, (values - mean) ** 2, 0.0), starts) / count
            # Of equal values it is 0, whatever the rounding of their mean.
            least, most = (_statistic(o, values, present, groups, count, None) for o in ("min", "max"))
            out = np.where(np.isfinite(out) & (least == most), 0.0, out)
            if op == "stddev":
                out = np.sqrt(out)
            return out
        case "quantile":
            assert parameter is not None
            ends = [*starts[1:], len(values)]
            return np.stack(
                [
                    quantiles(values[a:b], count[g], parameter, present[a:b])
                    for g, (a, b) in enumerate(zip(starts, ends, strict=True))
                ]
            )
        case _:
            raise PromQLError(f"{op} is not answered here")


def _sum(values: Values, present: Any, starts: Any) -> Values:
    """As Prometheus' compensated sum gives them, within rounding."""
    clean = values if present.all() else np.where(present, values, 0.0)
    out: Values = _reduced(np.add, clean, starts)
    if clean.min(initial=0.0) >= 0:
        return out
    sizes = _reduced(np.add, np.abs(clean), starts)
    ends = [*starts[1:], len(values)]
    for group, step in zip(*np.nonzero(np.isfinite(sizes) & (sizes > _CANCELLED * np.abs(out))), strict=True):
        out[group, step] = fsum(clean[starts[group] : ends[group], step])
    return out


def _average(values: Values, present: Any, starts: Any, count: Any) -> Values:
    out: Values = _sum(values, present, starts) / count
    ends = [*starts[1:], len(values)]
    for group, step in zip(*np.nonzero(np.isinf(out)), strict=True):
        rows = slice(starts[group], ends[group])
        inside = values[rows, step][present[rows, step]]
        if np.isfinite(inside).all():
            out[group, step] = fsum(inside / len(inside))
    return out


def _picked(op: str, matrix: Matrix, groups: _Groups, parameter: Values) -> Matrix:
    """topk and bottomk by value, NaN last; limitk the first. Rows come best first, by the last step."""
    most = np.clip(np.trunc(parameter), 0, len(matrix.labels)).astype(np.int64)
    chosen = np.zeros(matrix.present.shape, np.bool_)
    rows: list[int] = []
    ends = [*groups.starts[1:], len(groups.order)]
    for start, end in zip(groups.starts, ends, strict=True):
        members = groups.order[start:end]
        values, present = matrix.values[members], matrix.present[members]
        keys = np.zeros(values.shape) if op == "limitk" else (-values if op == "topk" else values)
        # Absent ones behind NaN, which are behind all numbers.
        order = np.lexsort((keys, np.isnan(keys), ~present), axis=0)
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(len(members))[:, None], 0)
        chosen[members] = present & (rank < most)
        rows.extend(members[order[:, -1]].tolist())
    there = matrix.present & chosen
    rows = [row for row in rows if there[row].any()]
    return Matrix([matrix.labels[r] for r in rows], matrix.values[rows], there[rows])


def _check_count(parameter: Values) -> None:
    """Raises: PromQLError where it is no whole number of series."""
    if np.isnan(parameter).any():
        raise PromQLError("Parameter value is NaN")
    if parameter.max(initial=0) >= 1:
        for wrong in parameter[np.abs(parameter) >= 2.0**63]:
            raise PromQLError(
                f"Scalar value {number_text(wrong)} {'over' if wrong > 0 else 'under'}flows int64"
            )


def _count_values(matrix: Matrix, names: tuple[str, ...], is_without: bool, label: str) -> Matrix:
    steps = matrix.values.shape[1]
    wanted = frozenset((*names, NAME) if is_without else (*names, label))
    part = without if is_without else only
    found: dict[Labels, Values] = {}
    for row, labels in enumerate(matrix.labels):
        there = matrix.present[row]
        values = matrix.values[row]
        for value in np.unique(values[there]):
            at = there & ((values == value) | (np.isnan(values) & np.isnan(value)))
            key = part(with_label(labels, label, number_text(float(value))), wanted)
            counts = found.setdefault(key, np.zeros(steps))
            counts += at
    if not found:
        return empty(steps)
    table = np.stack(list(found.values()))
    return merged(Matrix(list(found), table, table > 0))


def number_text(value: float) -> str:
    """As Go's FormatFloat(value, 'f', -1, 64) writes it."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    text = np.format_float_positional(value, trim="-")
    return text.removesuffix(".")
