"""What a query answers: every part over all steps at once.

A part's answer is a Matrix, a scalar as float64[step], or a text. `@` and `offset` move the times at which selectors
look; everything else sees the steps. Source: promql/engine.go (Prometheus 3.14).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from fairway.kube.goregexp import RegexpError
from fairway.telemetry.promql import binary, rowwise
from fairway.telemetry.promql.aggregating import aggregated
from fairway.telemetry.promql.functions import DATES, SIMPLE
from fairway.telemetry.promql.labelling import join_labels, replace_labels, sorted_by_labels
from fairway.telemetry.promql.matrix import Matrix, empty, merged, stacked, unnamed
from fairway.telemetry.promql.nodes import (
    SCALAR,
    SET_OPERATORS,
    Aggregation,
    Binary,
    Call,
    Negation,
    Node,
    Number,
    PromQLError,
    Selector,
    Subquery,
    Text,
    kind_of,
)
from fairway.telemetry.promql.overhistograms import (
    histogram_fraction,
    histogram_quantile,
    histogram_quantiles,
)
from fairway.telemetry.promql.rangefunctions import KEEPS_NAME, KERNELS
from fairway.telemetry.promql.selecting import (
    LOOKBACK_MS,
    Block,
    Selected,
    at_steps,
    blocks_of,
    blocks_of_matrix,
    bounds,
    check_cells,
    selected,
)
from fairway.telemetry.promql.windows import Windows, in_rows
from fairway.telemetry.store import NAME, Series, SeriesSource, Times, Values

Answer: TypeAlias = Matrix | Values | str
# Of a subquery without a step of its own, as Prometheus' global evaluation interval.
DEFAULT_STEP_MS: Final = 60_000
_SORTS: Final = ("sort", "sort_desc", "sort_by_label", "sort_by_label_desc")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`steps`: int64[step] ms; `first_ms`, `last_ms`, `step_ms`: of the whole query, whatever part of it this is."""

    source: SeriesSource
    steps: Times
    first_ms: int
    last_ms: int
    step_ms: int
    default_step_ms: int = DEFAULT_STEP_MS

    def of(self, node: Node) -> Answer:
        """Raises: PromQLError."""
        if isinstance(node, Selector | Binary | Call | Aggregation):
            known = rowwise.answer(self, node, self._of_loose)
            if known is not None:
                return known
        match node:
            case Number():
                return np.full(len(self.steps), node.value)
            case Text():
                return node.value
            case Selector():
                if node.range_ms:
                    raise PromQLError("a range vector is not answered at several steps")
                ends = self._ends(node)
                return at_steps(self._series(node, ends, LOOKBACK_MS), ends)
            case Negation():
                return self._negated(self.of(node.inner))
            case Binary():
                return self._binary(node)
            case Aggregation():
                parameter = None if node.parameter is None else self.of(node.parameter)
                if isinstance(parameter, Matrix):
                    raise PromQLError("expected type scalar in aggregation parameter, got instant vector")
                inner = self._vector(node.inner)
                return aggregated(node.op, inner, node.names, node.is_without, parameter)
            case Call():
                return self._call(node)
            case Subquery():
                raise PromQLError("a range vector is not answered at several steps")

    def _of_loose(self, found: list[Series], node: Node) -> Matrix:
        """The answer of these series alone."""
        answer = replace(self, source=Selected(found)).of(node)
        assert isinstance(answer, Matrix), node
        return answer

    def blocks(self, node: Selector | Subquery, ends: Times) -> list[Block]:
        """The samples of a range vector whose windows end at `ends`."""
        if isinstance(node, Selector):
            return blocks_of(self._series(node, ends, node.range_ms))
        step = node.step_ms or self.default_step_ms
        first = int(ends.min()) - node.range_ms
        first = (first // step + 1) * step
        last = int(ends.max())
        if last < first:
            return []
        check_cells(1, (last - first) // step + 1)
        times = np.arange(first, last + 1, step, dtype=np.int64)
        inner = replace(self, steps=times).of(node.inner)
        if isinstance(inner, str):
            return []
        return blocks_of_matrix(inner if isinstance(inner, Matrix) else as_vector(inner), times)

    def _ends(self, node: Selector | Subquery) -> Times:
        match node.at:
            case None:
                return self.steps - node.offset_ms
            case "start":
                at = self.first_ms
            case "end":
                at = self.last_ms
            case _:
                at = int(node.at)
        return np.full(len(self.steps), at - node.offset_ms, np.int64)

    def _series(self, node: Selector, ends: Times, back_ms: int) -> list[Series]:
        return selected(self.source, node, int(ends.min()) - back_ms + 1, int(ends.max()))

    def _vector(self, node: Node) -> Matrix:
        answer = self.of(node)
        assert isinstance(answer, Matrix), node
        return answer

    def _scalar(self, node: Node) -> Values:
        answer = self.of(node)
        assert isinstance(answer, np.ndarray), node
        return answer

    def _negated(self, answer: Answer) -> Answer:
        if isinstance(answer, Matrix):
            return merged(Matrix([unnamed(one) for one in answer.labels], -answer.values, answer.present))
        assert not isinstance(answer, str)
        return -answer

    def _binary(self, node: Binary) -> Answer:
        kinds = kind_of(node.left), kind_of(node.right)
        if kinds == (SCALAR, SCALAR):
            return binary.scalars(node.op, self._scalar(node.left), self._scalar(node.right))
        if kinds[1] == SCALAR:
            return binary.with_scalar(node, self._vector(node.left), self._scalar(node.right), is_left=False)
        if kinds[0] == SCALAR:
            return binary.with_scalar(node, self._vector(node.right), self._scalar(node.left), is_left=True)
        left, right = self._vector(node.left), self._vector(node.right)
        if node.op in SET_OPERATORS:
            return binary.sets(node, left, right)
        return binary.vectors(node, left, right)

    def _call(self, node: Call) -> Answer:
        name, arguments = node.name, node.arguments
        ranged = next((a for a in arguments if isinstance(a, Subquery | Selector) and _is_range(a)), None)
        if ranged is not None:
            return self._over_range(node, ranged)
        if name in SIMPLE:
            return self._simple(node)
        seconds = self.steps / 1000.0
        match name:
            case "time":
                return seconds
            case "pi":
                return np.full(len(self.steps), np.pi)
            case "start":
                return np.full(len(self.steps), self.first_ms / 1000.0)
            case "end":
                return np.full(len(self.steps), self.last_ms / 1000.0)
            case "step":
                return np.full(len(self.steps), self.step_ms / 1000.0)
            case "range":
                return np.full(len(self.steps), (self.last_ms - self.first_ms) / 1000.0)
            case "max_of" | "min_of":
                better = np.maximum if name == "max_of" else np.minimum
                return better(self._scalar(arguments[0]), self._scalar(arguments[1]))
            case "vector":
                return as_vector(self._scalar(arguments[0]))
            case "scalar":
                return _as_scalar(self._vector(arguments[0]))
            case "absent":
                return self._absent(node, self._vector(arguments[0]))
            case "timestamp":
                return self._timestamp(arguments[0])
            case "histogram_quantile":
                return histogram_quantile(self._scalar(arguments[0]), self._vector(arguments[1]))
            case "histogram_quantiles":
                label = _text(arguments[1])
                qs = [self._scalar(a) for a in arguments[2:]]
                return histogram_quantiles(self._vector(arguments[0]), label, qs)
            case "histogram_fraction":
                lower, upper = self._scalar(arguments[0]), self._scalar(arguments[1])
                return histogram_fraction(lower, upper, self._vector(arguments[2]))
            case "label_replace" | "label_join":
                return self._labelled(node)
            case _ if name in _SORTS:
                return self._sorted(node)
            case _:
                raise PromQLError(f"{name}() is not answered here")

    def _simple(self, node: Call) -> Matrix:
        if node.name in DATES and not node.arguments:
            return as_vector(DATES[node.name](self.steps / 1000.0).astype(np.float64))
        inner = self._vector(node.arguments[0])
        scalars = [self._scalar(a) for a in node.arguments[1:]]
        present = inner.present
        if node.name == "clamp":
            present = present & ~(scalars[1] < scalars[0])
        with np.errstate(all="ignore"):
            out = np.asarray(SIMPLE[node.name](inner.values, *scalars), np.float64)
        return merged(Matrix([unnamed(one) for one in inner.labels], out, present))

    def _over_range(self, node: Call, ranged: Selector | Subquery) -> Matrix:
        ends = self._ends(ranged)
        blocks = self.blocks(ranged, ends)
        if node.name == "absent_over_time":
            there = np.zeros(len(ends), np.bool_)
            for block in blocks:
                lo, hi = bounds(block.times, ends, ranged.range_ms)
                there |= hi > lo
            return _missing(ranged, there)
        if node.name not in KERNELS:
            raise PromQLError(f"{node.name}() is not answered here")
        kernel = KERNELS[node.name]
        scalars = [self._scalar(a) for a in node.arguments if a is not ranged]
        parts = []
        for block in blocks:
            check_cells(len(block.labels), len(ends))
            lo, hi = bounds(block.times, ends, ranged.range_ms)
            if not (hi > lo).any():
                continue
            windows = Windows(block.times, block.values, lo, hi, ends, ranged.range_ms)
            values, present = in_rows(windows, lambda w: kernel(w, self.steps, scalars))
            parts.append(Matrix(block.labels, values, present))
        out = stacked(parts, len(ends))
        if node.name not in KEEPS_NAME:
            out = Matrix([unnamed(one) for one in out.labels], out.values, out.present)
        return merged(out)

    def _absent(self, node: Call, inner: Matrix) -> Matrix:
        return _missing(node.arguments[0], np.any(inner.present, axis=0))

    def _timestamp(self, argument: Node) -> Matrix:
        if isinstance(argument, Selector):
            ends = self._ends(argument)
            out = at_steps(self._series(argument, ends, LOOKBACK_MS), ends, is_time=True)
        else:
            out = self._vector(argument)
            out = out._replace(values=np.broadcast_to(self.steps / 1000.0, out.values.shape))
        return merged(Matrix([unnamed(one) for one in out.labels], out.values, out.present))

    def _labelled(self, node: Call) -> Matrix:
        inner = self._vector(node.arguments[0])
        texts = [_text(a) for a in node.arguments[1:]]
        try:
            change = replace_labels if node.name == "label_replace" else join_labels
            return merged(change(inner, texts))
        except RegexpError:
            raise PromQLError(f"invalid regular expression in label_replace(): {texts[3]}") from None

    def _sorted(self, node: Call) -> Matrix:
        inner = self._vector(node.arguments[0])
        is_down = node.name.endswith("desc")
        if node.name.startswith("sort_by_label"):
            order = sorted_by_labels(inner.labels, [_text(a) for a in node.arguments[1:]], is_down)
        else:
            last = inner.values[:, -1] if inner.values.shape[1] else inner.values[:, :0].sum(axis=1)
            order = np.lexsort((-last if is_down else last, np.isnan(last))).tolist()
        return Matrix([inner.labels[i] for i in order], inner.values[order], inner.present[order])


def as_vector(values: Values) -> Matrix:
    """A scalar as the one series without labels."""
    return Matrix([()], values[None].astype(np.float64), np.ones((1, len(values)), np.bool_))


def _is_range(node: Selector | Subquery) -> bool:
    return isinstance(node, Subquery) or node.range_ms > 0


def _as_scalar(matrix: Matrix) -> Values:
    one = matrix.present.sum(axis=0) == 1
    total: Values = np.where(matrix.present, matrix.values, 0.0).sum(axis=0)
    return np.where(one, total, np.nan)


def _text(node: Node) -> str:
    if not isinstance(node, Text):
        raise PromQLError(f"expected type string in function argument, got {kind_of(node)}")
    return node.value


def _missing(asked: Node, there: Any) -> Matrix:
    """1 where nothing is, with the labels that were asked for."""
    if there.all():
        return empty(len(there))
    pairs: dict[str, str] = {}
    seen: set[str] = set()
    for matcher in asked.matchers if isinstance(asked, Selector) else ():
        if matcher.name == NAME:
            continue
        if matcher.op == "=" and matcher.name not in seen:
            pairs[matcher.name] = matcher.value
            seen.add(matcher.name)
        else:
            pairs.pop(matcher.name, None)
    labels = tuple(sorted((name, value) for name, value in pairs.items() if value))
    return Matrix([labels], np.ones((1, len(there))), ~there[None])
