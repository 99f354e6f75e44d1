"""What does each team owe, month by month (UTC), and how did that go over time?

A charge period belongs to the month, and to the day, that it begins in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairway.kube.timestamps import DAY_US, HOUR_US
from fairway.results.costs.breakdown import NOBODY, Line, Shared, lines_of
from fairway.results.costs.budgets import Period, period_of
from fairway.results.costs.costing import Costed

if TYPE_CHECKING:
    import polars as pl

OTHERS = "others"
# Shorter runs are drawn by the hour.
_DAYS_FROM_US = 4 * DAY_US


@dataclass(frozen=True, slots=True)
class Month:
    """`2026-01` and who owes how much of it, the most first, nobody last; lines add up to the month."""

    name: str
    lines: tuple[Line, ...]

    @property
    def total_micros(self) -> int:
        return sum(line.owed for line in self.lines)


@dataclass(frozen=True, slots=True)
class Trend:
    """µ$ by debtor over even steps of a day or an hour: `values[i][step]`. The dearest first, nobody last."""

    edges_us: tuple[int, ...]
    names: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]

    @property
    def step_us(self) -> int:
        return self.edges_us[1] - self.edges_us[0]


def showback(
    run: Costed, by: str, shared: Sequence[Shared] = (), weights: Mapping[str, float] | None = None
) -> tuple[Month, ...]:
    """Months in order."""
    names = _month_names(run)
    months = []
    for name in dict.fromkeys(names.values()):
        starts = [start for start, month in names.items() if month == name]
        part = replace(run, bill=run.bill.filter(_among(starts)))
        months.append(Month(name, lines_of(part, (by,), shared, weights)))
    return tuple(months)


def over_months(months: Sequence[Month]) -> tuple[Line, ...]:
    """The lines of all months together. Common costs are laid on debtors month by month, and so the sums agree."""
    found: dict[tuple[str, ...], Line] = {}
    for line in (line for month in months for line in month.lines):
        before = found.get(line.key)
        found[line.key] = line if before is None else before.plus(line)
    return tuple(sorted(found.values(), key=lambda line: (line.is_nobody, -line.owed, line.key)))


def _month_names(run: Costed) -> dict[int, str]:
    """By the start of a charge period."""
    return {start: period_of(start, Period.MONTH) for start in run.bill["start_us"].unique().sort().to_list()}


def _among(starts: Sequence[int]) -> pl.Expr:
    import polars as pl

    return pl.col("start_us").is_between(min(starts), max(starts))


def trend(run: Costed, by: str, most: int = 7) -> Trend | None:
    """Those that owe most, one by one; the rest together. None for a run of no duration."""
    import polars as pl

    if not len(run.bill):
        return None
    outcome = run.run.outcome
    step = DAY_US if outcome.duration_us > _DAYS_FROM_US or run.period_us == DAY_US else HOUR_US
    first = outcome.began_us // step
    count = max(-(-outcome.ended_us // step) - first, 1)
    rows = (
        run.bill.lazy()
        .with_columns(((pl.col("start_us") // step) - first).clip(0, count - 1).alias("_step"))
        .group_by(by, "_step")
        .agg(pl.col("micros").sum())
        .with_columns(pl.col(by).cast(pl.String))
        .collect()
    )
    values: dict[str, list[int]] = {}
    for name, at, micros in rows.iter_rows():
        values.setdefault(name, [0] * count)[at] += micros
    ranked = sorted(values, key=lambda n: (n in NOBODY, -sum(values[n]), n))
    kept = [n for n in ranked if n not in NOBODY]
    shown, rest = (kept, []) if len(kept) <= most else (kept[: most - 1], kept[most - 1 :])
    columns = [(name, values[name]) for name in shown]
    if rest:
        columns.append((OTHERS, [sum(column) for column in zip(*(values[n] for n in rest), strict=True)]))
    columns += [(name, values[name]) for name in ranked if name in NOBODY]
    edges = tuple((first + i) * step for i in range(count + 1))
    return Trend(edges, tuple(n for n, _ in columns), tuple(tuple(v) for _, v in columns))
