"""Two operands and an operator: arithmetic, comparisons, and sets, with their matching.

Source: promql/engine.go, VectorBinop and its neighbours (Prometheus 3.14).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairway.telemetry.promql.matrix import (
    Matrix,
    empty,
    merged,
    only,
    quoted,
    stacked,
    unnamed,
    with_label,
    without,
)
from fairway.telemetry.promql.nodes import ARITHMETIC, COMPARISONS, Binary, Matching, PromQLError
from fairway.telemetry.store import NAME, Labels, Values

ARITHMETIC_OPERATIONS: Final[dict[str, Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
}
COMPARING_OPERATIONS: Final[dict[str, Any]] = {
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}
_MANY: Final = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
_GROUPING: Final = "multiple matches for labels: grouping labels must ensure unique matches"


def scalars(op: str, left: Values, right: Values) -> Values:
    with np.errstate(all="ignore"):
        out: Values = (COMPARING_OPERATIONS if op in COMPARISONS else ARITHMETIC_OPERATIONS)[op](left, right)
        return out.astype(np.float64)


def with_scalar(node: Binary, matrix: Matrix, scalar: Values, is_left: bool) -> Matrix:
    """A vector and a scalar; `is_left`: the scalar stands on the left."""
    op, values, present = node.op, matrix.values, matrix.present
    left, right = (scalar, values) if is_left else (values, scalar)
    with np.errstate(all="ignore"):
        if op in ARITHMETIC:
            out = ARITHMETIC_OPERATIONS[op](left, right)
        else:
            keep = COMPARING_OPERATIONS[op](left, right)
            out = keep.astype(np.float64) if node.is_bool else values
            present = present if node.is_bool else present & keep
    if op in ARITHMETIC or node.is_bool:
        return merged(Matrix([unnamed(labels) for labels in matrix.labels], out, present))
    return Matrix(matrix.labels, out, present)


def _signatures(labels: list[Labels], matching: Matching) -> list[Labels]:
    if matching.is_on:
        wanted = frozenset(matching.names)
        return [only(one, wanted) for one in labels]
    wanted = frozenset((*matching.names, NAME))
    return [without(one, wanted) for one in labels]


def sets(node: Binary, left: Matrix, right: Matrix) -> Matrix:
    """`and`, `or`, `unless`."""
    ours, theirs = _signatures(left.labels, node.matching), _signatures(right.labels, node.matching)
    if node.op == "or":
        there = _any_by_signature(left, ours, theirs)
        joined = stacked(
            [left, Matrix(right.labels, right.values, right.present & ~there)], left.values.shape[1]
        )
        return merged(joined)
    there = _any_by_signature(right, theirs, ours)
    return Matrix(left.labels, left.values, left.present & (there if node.op == "and" else ~there))


def _any_by_signature(matrix: Matrix, theirs: list[Labels], asked: list[Labels]) -> Any:
    """For each asked signature and step: is any series of this matrix with it there? bool[asked, step]"""
    found: dict[Labels, Any] = {}
    for row, signature in enumerate(theirs):
        before = found.get(signature)
        found[signature] = matrix.present[row] if before is None else before | matrix.present[row]
    none = np.zeros(matrix.present.shape[1], np.bool_)
    if not asked:
        return np.zeros((0, len(none)), np.bool_)
    return np.stack([found.get(signature, none) for signature in asked])


def vectors(node: Binary, left: Matrix, right: Matrix) -> Matrix:
    """Arithmetic and comparisons of two vectors. Raises: PromQLError where a match is not unique."""
    matching, steps = node.matching, left.values.shape[1]
    is_swapped = matching.card == "one-to-many"
    many, one = (right, left) if is_swapped else (left, right)
    # Left and right of `fill` are many and one, also where group_right has swapped the operands.
    fill_many, fill_one = matching.fill_left, matching.fill_right
    ours, theirs = _signatures(many.labels, matching), _signatures(one.labels, matching)
    _check_one(one, theirs, np.any(many.present, axis=0), "left" if is_swapped else "right")
    by_signature: dict[Labels, list[int]] = {}
    for row, signature in enumerate(theirs):
        by_signature.setdefault(signature, []).append(row)
    rows = [(m, o) for m, signature in enumerate(ours) for o in by_signature.get(signature, ())]
    pairs = _paired(many, one, rows)
    labels = [(many.labels[m], one.labels[o], ours[m]) for m, o in rows]
    if fill_one is not None:
        there = _any_by_signature(one, theirs, ours)
        part = (many.values, np.full(many.values.shape, fill_one), many.present & ~there)
        pairs = tuple(np.concatenate(both) for both in zip(pairs, part, strict=True))
        labels += [(one_, ours[m], ours[m]) for m, one_ in enumerate(many.labels)]
    if fill_many is not None:
        there = _any_by_signature(many, ours, theirs)
        part = (np.full(one.values.shape, fill_many), one.values, one.present & ~there)
        pairs = tuple(np.concatenate(both) for both in zip(pairs, part, strict=True))
        labels += [(theirs[o], one_, theirs[o]) for o, one_ in enumerate(one.labels)]
    if not labels:
        return empty(steps)
    a, b, present = pairs
    if is_swapped:
        a, b = b, a
    return _result(node, labels, a, b, present)


def _paired(many: Matrix, one: Matrix, rows: list[tuple[int, int]]) -> tuple[Any, ...]:
    index = np.array(rows, np.int64).reshape(-1, 2)
    m, o = index[:, 0], index[:, 1]
    return many.values[m], one.values[o], many.present[m] & one.present[o]


def _result(
    node: Binary, labels: list[tuple[Labels, Labels, Labels]], a: Values, b: Values, present: Any
) -> Matrix:
    with np.errstate(all="ignore"):
        if node.op in ARITHMETIC:
            out, keep = ARITHMETIC_OPERATIONS[node.op](a, b), present
        else:
            holds = COMPARING_OPERATIONS[node.op](a, b)
            out = holds.astype(np.float64) if node.is_bool else a
            keep = present if node.is_bool else present & holds
    matching = node.matching
    drops_name = node.op in ARITHMETIC or node.is_bool
    names = [_result_labels(m, o, matching, drops_name) for m, o, _ in labels]
    # A match is checked before a comparison drops it.
    if matching.card == "one-to-one":
        _check_unique([signature for _, _, signature in labels], present, _MANY)
    else:
        _check_unique([(s, n) for (_, _, s), n in zip(labels, names, strict=True)], present, _GROUPING)
    return merged(Matrix(names, out, keep))


def _result_labels(many: Labels, one: Labels, matching: Matching, drops_name: bool) -> Labels:
    labels = unnamed(many) if drops_name else many
    if matching.card == "one-to-one":
        wanted = frozenset(matching.names)
        labels = only(labels, wanted) if matching.is_on else without(labels, wanted)
    if matching.include:
        theirs = dict(one)
        for name in matching.include:
            labels = with_label(labels, name, theirs.get(name, ""))
    return labels


def _check_unique(keys: list[Any], present: npt.NDArray[np.bool_], message: str) -> None:
    """No two rows of one key are there at one step."""
    if len(set(keys)) == len(keys):
        return
    seen: dict[Any, Any] = {}
    for row, key in enumerate(keys):
        before = seen.get(key)
        if before is not None and (before & present[row]).any():
            raise PromQLError(message)
        seen[key] = present[row] if before is None else before | present[row]


def _check_one(one: Matrix, signatures: list[Labels], asked: Any, side: str) -> None:
    """No two series of one signature at a step where the other side has any."""
    if len(set(signatures)) == len(signatures):
        return
    seen: dict[Labels, list[int]] = {}
    for row, signature in enumerate(signatures):
        for other in seen.setdefault(signature, []):
            if (one.present[row] & one.present[other] & asked).any():
                first, second = sorted((labels_text(one.labels[row]), labels_text(one.labels[other])))
                raise PromQLError(
                    f"found duplicate series for the match group {labels_text(signature)} on the {side} hand-side"
                    f" of the operation: [{first}, {second}];many-to-many matching not allowed:"
                    " matching labels must be unique on one side"
                )
        seen[signature].append(row)


def labels_text(labels: Labels) -> str:
    """`{__name__="up", job="a"}`"""
    return "{" + ", ".join(f"{name}={quoted(value)}" for name, value in labels) + "}"
