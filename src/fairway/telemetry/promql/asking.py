"""The two questions: at one time, and at every step of a span. And their answers as Prometheus' API writes them."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from fairway.telemetry.promql.aggregating import number_text
from fairway.telemetry.promql.evaluating import DEFAULT_STEP_MS, Evaluation, as_vector
from fairway.telemetry.promql.matrix import Matrix, side_by_side
from fairway.telemetry.promql.nodes import MATRIX, STRING, PromQLError, Selector, Subquery, kind_of
from fairway.telemetry.promql.parsing import parse
from fairway.telemetry.store import Series, SeriesSource, Values

# A vector, a scalar, a text, or the samples of a range vector.
Result: TypeAlias = Matrix | float | str | list[Series]
# Steps that are answered at once: a day at 30 s. Longer spans are answered in parts, so that memory stays bounded.
PART_STEPS: Final = 2_880
_KINDS: Final = {"matrix": "range vector", "string": "string"}


def query_instant(
    source: SeriesSource, query: str, at_ms: int, default_step_ms: int = DEFAULT_STEP_MS
) -> Result:
    """Raises: PromQLError."""
    node = parse(query)
    asked = Evaluation(source, np.array([at_ms], np.int64), at_ms, at_ms, 0, default_step_ms)
    if isinstance(node, Selector | Subquery) and kind_of(node) == MATRIX:
        ends = asked._ends(node)
        found = []
        for block in asked.blocks(node, ends):
            inside = (block.times > ends[0] - node.range_ms) & (block.times <= ends[0])
            if inside.any():
                for labels, row in zip(block.labels, block.values, strict=True):
                    found.append(Series(labels, block.times[inside], row[inside]))
        return sorted(found, key=lambda series: series.labels)
    answer = asked.of(node)
    if isinstance(answer, Matrix):
        rows = np.flatnonzero(answer.present[:, 0])
        return Matrix([answer.labels[r] for r in rows], answer.values[rows], answer.present[rows])
    return answer if isinstance(answer, str) else float(answer[0])


def query_range(
    source: SeriesSource,
    query: str,
    start_ms: int,
    end_ms: int,
    step_ms: int,
    default_step_ms: int = DEFAULT_STEP_MS,
) -> Matrix:
    """Series by steps from `start_ms` to at most `end_ms`. Raises: PromQLError."""
    node = parse(query, step_ms, end_ms - start_ms)
    if (kind := kind_of(node)) in (MATRIX, STRING):
        raise PromQLError(
            f'invalid expression type "{_KINDS[kind]}" for range query, must be Scalar or instant Vector'
        )
    if step_ms <= 0 or end_ms < start_ms:
        raise PromQLError(
            "zero or negative query resolution step widths are not accepted: try a positive integer"
        )
    parts = []
    steps = np.arange(start_ms, end_ms + 1, step_ms, dtype=np.int64)
    for first in range(0, len(steps), PART_STEPS):
        some = steps[first : first + PART_STEPS]
        answer = Evaluation(source, some, start_ms, end_ms, step_ms, default_step_ms).of(node)
        assert not isinstance(answer, str)
        parts.append(answer if isinstance(answer, Matrix) else as_vector(answer))
    whole = side_by_side(parts)
    rows = np.flatnonzero(whole.present.any(axis=1))
    order = sorted(rows.tolist(), key=lambda row: whole.labels[row])
    return Matrix([whole.labels[r] for r in order], whole.values[order], whole.present[order])


def as_json(result: Result, start_ms: int, step_ms: int = 0) -> dict[str, Any]:
    """`resultType` and `result`, as under `data` of /api/v1/query and /api/v1/query_range (`step_ms` above 0)."""
    if isinstance(result, str):
        return {"resultType": "string", "result": [start_ms / 1000, result]}
    if isinstance(result, float):
        return {"resultType": "scalar", "result": [start_ms / 1000, number_text(result)]}
    if isinstance(result, list):
        series = [{"metric": dict(s.labels), "values": _pairs(s.times / 1000, s.values)} for s in result]
        return {"resultType": "matrix", "result": series}
    if not step_ms:
        values = [[start_ms / 1000, number_text(float(v))] for v in result.values[:, 0]]
        vector = [{"metric": dict(m), "value": v} for m, v in zip(result.labels, values, strict=True)]
        return {"resultType": "vector", "result": vector}
    times = (start_ms + step_ms * np.arange(result.values.shape[1])) / 1000
    rows = [
        {"metric": dict(labels), "values": _pairs(times[there], values[there])}
        for labels, values, there in zip(*result, strict=True)
    ]
    return {"resultType": "matrix", "result": rows}


def _pairs(times: Values, values: Values) -> list[list[Any]]:
    return [[float(t), number_text(float(v))] for t, v in zip(times, values, strict=True)]
