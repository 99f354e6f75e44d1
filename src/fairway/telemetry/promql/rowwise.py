"""Queries that treat every series by itself, over tables of many series at once: `x > 85`, `avg_over_time(x[1h]) < 5`,
`sum by (namespace) (x)`.

Pieces of a table lie one after another in one flat array; whatever is done to a value is done to the whole array, and
only what is left becomes series. Where a series has ended, windows over it still hold its last samples.
What does not fit in here (other functions, steps between samples) is answered by `evaluating`, series by series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from fairway.kube.goregexp import RegexpError
from fairway.telemetry.promql.binary import ARITHMETIC_OPERATIONS, COMPARING_OPERATIONS
from fairway.telemetry.promql.matrix import Matrix, empty, merged, only, stacked, unnamed, without
from fairway.telemetry.promql.nodes import (
    ARITHMETIC,
    COMPARISONS,
    Aggregation,
    Binary,
    Call,
    Node,
    Number,
    PromQLError,
    Selector,
)
from fairway.telemetry.promql.selecting import LOOKBACK_MS, check_cells
from fairway.telemetry.store import (
    NAME,
    Labels,
    Series,
    SeriesSource,
    Table,
    Times,
    Values,
    has_tables,
    series_of,
)

# Values laid out at once: what fits in a processor's second cache as float64.
_AT_ONCE: Final = 1 << 16
_RANGES: Final = ("avg_over_time", "sum_over_time", "min_over_time", "max_over_time", "count_over_time")
_AGGREGATIONS: Final = ("sum", "avg", "count", "group")


class _Step(NamedTuple):
    """What is done to every value: `value op number`, or `number op value`."""

    op: str
    number: float
    is_left: bool
    is_bool: bool


class Plan(NamedTuple):
    """A selector, a function over its ranges or none, and then one step after another."""

    selector: Selector
    ranged: str
    steps: tuple[_Step, ...]

    @property
    def drops_name(self) -> bool:
        return bool(self.ranged) or any(s.is_bool or s.op in ARITHMETIC for s in self.steps)


@lru_cache(maxsize=1024)
def plan_of(node: Node) -> Plan | None:
    """How a query is answered by tables; None where it is not."""
    if isinstance(node, Binary) and node.op in (*ARITHMETIC, *COMPARISONS):
        for inner, number, is_left in ((node.left, node.right, False), (node.right, node.left, True)):
            if isinstance(number, Number) and (plan := plan_of(inner)) is not None:
                step = _Step(node.op, number.value, is_left, node.is_bool)
                return plan._replace(steps=(*plan.steps, step))
        return None
    if isinstance(node, Selector):
        return Plan(node, "", ()) if node.at is None and not node.range_ms else None
    if isinstance(node, Call) and node.name in _RANGES:
        inner = node.arguments[0]
        if isinstance(inner, Selector) and inner.at is None:
            return Plan(inner, node.name, ())
    return None


class Asking(Protocol):
    """What an evaluation is made of."""

    @property
    def source(self) -> SeriesSource: ...
    @property
    def steps(self) -> Times: ...


class _Flat(NamedTuple):
    """Some pieces' values. Piece `i`'s first is at `at[i]`; it is of sample `sample[i]`, and `length[i]` follow.

    `keep`: which are there; None: all. `number`: of the table."""

    table: Table
    number: int
    piece: Times
    values: Any
    keep: Any
    at: Times
    sample: Times
    length: Times


class _Grid(NamedTuple):
    """Where steps are among a table's samples: every `stride`th from `first` on."""

    first: int
    stride: int
    steps: int


def answer(asking: Asking, node: Node, others: Callable[[list[Series], Node], Matrix]) -> Matrix | None:
    """None where it is not a question for tables. `others`: the answer of series that come as such.

    Raises: PromQLError.
    """
    group = node if isinstance(node, Aggregation) and node.op in _AGGREGATIONS else None
    plan = plan_of(group.inner if group is not None else node)
    if (
        plan is None
        or not has_tables(asking.source, plan.selector.matchers)
        or (group and not _adds_up(plan))
    ):
        return None
    loose: list[Series] = []
    if group is None:
        found = _matrix(asking, plan, loose)
        if loose:
            found = stacked([found, others(loose, node)], len(asking.steps))
        order = sorted(range(len(found.labels)), key=found.labels.__getitem__)
        if order != list(range(len(order))):
            found = Matrix([found.labels[i] for i in order], found.values[order], found.present[order])
        return merged(found) if plan.drops_name else found
    sums = _Sums(group, len(asking.steps))
    for flat, grid in _flats(asking, plan, loose):
        sums.add(flat, grid, plan.drops_name)
    if loose:
        sums.add_rows(others(loose, group.inner))
    return sums.matrix()


class Found(NamedTuple):
    """Values of one series at steps `first` to `end` (not included), all there. The labels are those of the samples."""

    labels: Labels
    first: int
    end: int
    values: Any


def drops_name(node: Node) -> bool:
    """Whether what a query finds has no metric's name."""
    plan = plan_of(node)
    return plan is not None and plan.drops_name


def leaves_out(source: SeriesSource, node: Node) -> bool:
    """Whether a query looks at every series of a table by itself and keeps some samples: what `runs` can answer."""
    plan = plan_of(node)
    if plan is None or not has_tables(source, plan.selector.matchers):
        return False
    return any(step.op in COMPARISONS and not step.is_bool for step in plan.steps)


def runs(asking: Asking, node: Node) -> list[Found] | None:
    """What a query finds, where it is one that leaves something out: by series, each in the order of time. None where
    it is not one for tables alone. Raises: PromQLError."""
    plan = plan_of(node)
    if plan is None or not leaves_out(asking.source, node):
        return None
    loose: list[Series] = []
    found: list[Found] = []
    known: dict[tuple[int, int], Labels] = {}
    for flat, grid in _flats(asking, plan, loose):
        if loose:
            return None
        for piece, at, first, end in _kept(flat, grid):
            key = (flat.number, int(flat.table.series[piece]))
            labels = known.get(key)
            if labels is None:
                labels = known[key] = flat.table.labels(piece)
            part = slice(at, at + (end - first - 1) * grid.stride + 1, grid.stride)
            found.append(Found(labels, first, end, flat.values[part]))
    return None if loose else found


def _kept(flat: _Flat, grid: _Grid) -> Iterator[tuple[int, int, int, int]]:
    """Runs of what is kept: the piece, where the first value lies, and from which step to which."""
    # 1. Runs of the whole array, whosever they are.
    keep = flat.keep
    edges = np.flatnonzero(keep[1:] != keep[:-1]) + 1
    if keep[0]:
        edges = np.append(0, edges)
    if len(edges) % 2:
        edges = np.append(edges, len(keep))
    starts, ends = edges[::2], edges[1::2]
    # 2. The part of each that is a piece's.
    over = flat.at + flat.length
    lo, hi = np.searchsorted(ends, flat.at, "right"), np.searchsorted(starts, over, "left")
    many = np.maximum(hi - lo, 0)
    owner = np.repeat(np.arange(len(many)), many)
    which = np.arange(len(owner)) - np.repeat(np.cumsum(many) - many, many) + lo[owner]
    at = flat.at[owner]
    # 3. As steps.
    shift = flat.sample[owner] - at - grid.first
    first = np.maximum(-(-(np.maximum(starts[which], at) + shift) // grid.stride), 0)
    end = np.minimum(-(-(np.minimum(ends[which], over[owner]) + shift) // grid.stride), grid.steps)
    some = np.flatnonzero(end > first)
    begins = first[some] * grid.stride - shift[some]
    numbers = (flat.piece[owner[some]], begins, first[some], end[some])
    yield from zip(*(part.tolist() for part in numbers), strict=True)


def _adds_up(plan: Plan) -> bool:
    """Whether sums cannot cancel: values of tables are not negative."""
    return all(
        s.op in COMPARISONS or (s.op in "*/" and s.number > 0 and not (s.op == "/" and s.is_left))
        for s in plan.steps
    )


def _flats(asking: Asking, plan: Plan, loose: list[Series]) -> Iterator[tuple[_Flat, _Grid]]:
    """Some pieces after another, with all steps done; what does not come in tables goes to `loose`."""
    ends = asking.steps - plan.selector.offset_ms
    back_ms = plan.selector.range_ms or LOOKBACK_MS
    try:
        parts = asking.source.parts(  # type: ignore[attr-defined]
            plan.selector.matchers, int(ends[0]) - back_ms + 1, int(ends[-1])
        )
        for number, part in enumerate(parts):
            if isinstance(part, Series):
                loose.append(part)
            elif (grid := _grid(part.times, ends)) is None:
                loose += series_of(part)
            else:
                width = plan.selector.range_ms // max(1, _apart(part.times))
                laid = _instants(part) if not plan.ranged else _windows(part, plan.ranged, width)
                for flat in laid:
                    flat = flat._replace(number=number)
                    for step in plan.steps:
                        flat = _done(flat, step)
                    yield flat, grid
    except RegexpError as wrong:
        raise PromQLError(f"parse error: {wrong}") from None


def _apart(times: Times) -> int:
    return int(times[1] - times[0]) if len(times) > 1 else 0


def _grid(times: Times, ends: Times) -> _Grid | None:
    """None where steps are between samples, or where no samples are known."""
    apart = _apart(times)
    if not apart or ends[-1] > times[-1] or (ends[0] - times[0]) % apart:
        return None
    stride = int(ends[1] - ends[0]) if len(ends) > 1 else apart
    if stride <= 0 or stride % apart or (len(ends) > 2 and (np.diff(ends) != stride).any()):
        return None
    return _Grid(int(ends[0] - times[0]) // apart, stride // apart, len(ends))


def _instants(table: Table) -> Iterator[_Flat]:
    """Every sample at its own time: of regular series nothing else is the last one."""
    pieces = np.arange(len(table.row))
    at = table.row * len(table.times) + table.begin
    yield _Flat(table, 0, pieces, table.values.reshape(-1), None, at, table.begin, table.end - table.begin)


def _windows(table: Table, ranged: str, width: int) -> Iterator[_Flat]:
    """A function over the last `width` samples, at every sample and as long as a window has one."""
    # 1. Pieces of one series that a window may hold together are a chain.
    order = np.lexsort((table.begin, table.series))
    order = order[table.end[order] > table.begin[order]]
    if not len(order) or width < 1:
        return
    begin, end = table.begin[order], table.end[order]
    heads = np.ones(len(order), np.bool_)
    heads[1:] = (np.diff(table.series[order]) != 0) | (begin[1:] - end[:-1] >= width)
    first = np.flatnonzero(heads)
    last = np.append(first[1:], len(order)) - 1
    lengths = end[last] - begin[first] + width - 1
    # 2. Some chains at a time, with nothing of a window's length before each.
    upto = np.cumsum(lengths)
    done = 0
    while done < len(first):
        until = max(done + 1, int(np.searchsorted(upto, upto[done] + _AT_ONCE)))
        mine = slice(int(first[done]), int(last[until - 1]) + 1)
        yield _laid_out(table, ranged, width, order[mine], heads[mine], lengths[done:until])
        done = until


def _laid_out(table: Table, ranged: str, width: int, order: Any, heads: Any, lengths: Any) -> _Flat:
    starts = np.cumsum(lengths) - lengths
    begin = table.begin[order]
    chain = np.cumsum(heads) - 1
    sample = begin[heads]
    at = starts[chain] + begin - sample[chain]
    size = int(lengths.sum()) + width - 1
    is_least = ranged in ("min_over_time", "max_over_time")
    nothing = {"min_over_time": np.inf, "max_over_time": -np.inf}.get(ranged, 0.0)
    flat = np.full(size, nothing)
    there = np.zeros(size, np.int32)
    for place, row, lo, hi in zip(
        (at + width - 1).tolist(),
        table.row[order].tolist(),
        begin.tolist(),
        table.end[order].tolist(),
        strict=True,
    ):
        flat[place : place + hi - lo] = table.values[row, lo:hi]
        there[place : place + hi - lo] = 1
    if ranged == "count_over_time":
        out = _counted(there, width).astype(np.float64)
    else:
        op = np.add if not is_least else (np.minimum if ranged == "min_over_time" else np.maximum)
        out = _summed(flat, width) if op is np.add and _is_exact(flat) else _folded(op, flat, width)
    if ranged == "avg_over_time":
        out /= _counted(there, width)
    # Every window has a sample: where none would, a chain has ended.
    return _Flat(table, 0, order[heads], out, None, starts, sample, lengths)


def _counted(there: Any, width: int) -> Any:
    counts = np.cumsum(there, dtype=np.int32)
    counts[width:] -= counts[:-width].copy()
    return counts[width - 1 :]


def _is_exact(values: Values) -> bool:
    """Whether sums of them have no rounding: whole numbers that stay below 2⁵³."""
    most = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    return most * len(values) < 2**53 and bool((np.rint(values) == values).all())


def _summed(values: Values, width: int) -> Values:
    """Sums of every `width` neighbours; exact where `_is_exact`."""
    upto = np.cumsum(values)
    out = upto[width - 1 :].copy()
    out[1:] -= upto[:-width]
    return out


def _folded(op: np.ufunc, values: Values, width: int) -> Values:
    """`op` over every `width` neighbours, put together from runs of 1, 2, 4, …"""
    count = len(values) - width + 1
    out: Values | None = None
    at, level, run = 0, values, 1
    while True:
        if width & run:
            part = level[at : at + count]
            out = part.copy() if out is None else op(out, part, out=out)
            at += run
        if 2 * run > width:
            assert out is not None
            return out
        level = op(level[:-run], level[run:])
        run *= 2


def _done(flat: _Flat, step: _Step) -> _Flat:
    values, number = flat.values, step.number
    if step.op in COMPARISONS:
        if values.dtype != np.float64 and float(values.dtype.type(number)) != number:
            values = values.astype(np.float64)
        compare = COMPARING_OPERATIONS[step.op]
        with np.errstate(invalid="ignore"):
            holds = compare(number, values) if step.is_left else compare(values, number)
        if step.is_bool:
            return flat._replace(values=holds.astype(np.float64))
        return flat._replace(keep=holds if flat.keep is None else np.logical_and(holds, flat.keep, out=holds))
    values = values.astype(np.float64, copy=False)
    act = ARITHMETIC_OPERATIONS[step.op]
    with np.errstate(all="ignore"):
        return flat._replace(values=act(number, values) if step.is_left else act(values, number))


def _left(flat: _Flat, grid: _Grid) -> Iterator[tuple[int, int, int, int]]:
    """Pieces that have anything at a step: which, where the first of it lies, its step, and how many steps."""
    # 1. On the grid, of what is asked.
    skipped = np.maximum(grid.first - flat.sample, 0)
    skipped += -(flat.sample + skipped - grid.first) % grid.stride
    step = (flat.sample + skipped - grid.first) // grid.stride
    count = np.minimum(-(-(flat.length - skipped) // grid.stride), grid.steps - step)
    at = flat.at + skipped
    there = count > 0
    # 2. With something kept.
    if flat.keep is not None:
        kept = np.flatnonzero(flat.keep)
        there &= np.searchsorted(kept, flat.at + flat.length) > np.searchsorted(kept, at)
    for i in np.flatnonzero(there).tolist():
        yield int(flat.piece[i]), int(at[i]), int(step[i]), int(count[i])


def _matrix(asking: Asking, plan: Plan, loose: list[Series]) -> Matrix:
    """Of what is kept."""
    steps = len(asking.steps)
    found: dict[tuple[int, int], int] = {}
    labels: list[Labels] = []
    cut: list[tuple[int, int, Any, Any]] = []
    for flat, grid in _flats(asking, plan, loose):
        for piece, at, step, count in _left(flat, grid):
            row = found.setdefault((flat.number, int(flat.table.series[piece])), len(labels))
            if row == len(labels):
                check_cells(row, steps)
                named = flat.table.labels(piece)
                labels.append(unnamed(named) if plan.drops_name else named)
            part = slice(at, at + (count - 1) * grid.stride + 1, grid.stride)
            keep = None if flat.keep is None else flat.keep[part].copy()
            cut.append((row, step, flat.values[part].copy(), keep))
    if not labels:
        return empty(steps)
    values = np.zeros((len(labels), steps))
    present = np.zeros((len(labels), steps), np.bool_)
    for row, step, part, keep in cut:
        values[row, step : step + len(part)] = part
        present[row, step : step + len(part)] |= True if keep is None else keep
    return Matrix(labels, values, present)


def _is_partition(flat: _Flat) -> bool:
    """Whether the pieces are the table as it stands, every sample in one of them."""
    size, table = flat.table.values.size, flat.table
    if flat.values.size != size or not size or int(flat.length.sum()) != size:
        return False
    if (flat.at != table.row[flat.piece] * len(table.times) + flat.sample).any():
        return False
    order = np.argsort(flat.at, kind="stable")
    at, length = flat.at[order], flat.length[order]
    return at[0] == 0 and bool((at[1:] == (at + length)[:-1]).all())


class _Sums:
    """Sums and counts by group, as pieces come."""

    def __init__(self, node: Aggregation, steps: int) -> None:
        self._node, self._steps = node, steps
        names = frozenset((*node.names, NAME) if node.is_without else node.names)
        part = without if node.is_without else only
        self._group: Callable[[Labels], Labels] = lambda one: part(one, names)
        self._is_one = not node.names and not node.is_without
        self._rows: dict[Labels, tuple[Values, Values]] = {}

    def _row(self, labels: Labels) -> tuple[Values, Values]:
        found = self._rows.get(labels)
        if found is None:
            check_cells(2 * len(self._rows), self._steps)
            found = self._rows[labels] = np.zeros(self._steps), np.zeros(self._steps)
        return found

    def add(self, flat: _Flat, grid: _Grid, drops_name: bool) -> None:
        needs_values = self._node.op in ("sum", "avg")
        if self._is_one and flat.keep is None and _is_partition(flat):
            shape = flat.table.values.shape
            here = slice(grid.first, grid.first + (grid.steps - 1) * grid.stride + 1, grid.stride)
            sums, counts = self._row(())
            sums += flat.values.reshape(shape)[:, here].sum(axis=0, dtype=np.float64)
            counts += shape[0]
            return
        for piece, at, step, count in _left(flat, grid):
            if self._is_one:
                sums, counts = self._row(())
            else:
                labels = flat.table.labels(piece)
                sums, counts = self._row(self._group(unnamed(labels) if drops_name else labels))
            part = slice(at, at + (count - 1) * grid.stride + 1, grid.stride)
            here = slice(step, step + count)
            values = flat.values[part]
            if flat.keep is None:
                if needs_values:
                    sums[here] += values
                counts[here] += 1
            else:
                keep = flat.keep[part]
                if needs_values:
                    sums[here] += np.where(keep, values, 0.0)
                counts[here] += keep

    def add_rows(self, found: Matrix) -> None:
        for labels, values, there in zip(*found, strict=True):
            sums, counts = self._row(self._group(labels))
            sums += np.where(there, values, 0.0)
            counts += there

    def matrix(self) -> Matrix:
        if not self._rows:
            return empty(self._steps)
        labels = sorted(self._rows)
        sums, counts = (np.stack([self._rows[one][k] for one in labels]) for k in range(2))
        with np.errstate(invalid="ignore", divide="ignore"):
            match self._node.op:
                case "sum":
                    out = sums
                case "avg":
                    out = sums / counts
                case "count":
                    out = counts
                case _:
                    out = np.ones(counts.shape)
        return Matrix(labels, out, counts > 0)
