"""How much of a budget is spent, when was each threshold crossed, and what follows?

A budget speaks for the rows of a bill that match it, in each of its periods (UTC): the run, a day, a week, a month.
Crossings are told by the end of the charge period in which they happened. A crossing at or above the threshold of
enforcement becomes a decision: plain data, which the caller writes down or hands to a command. This module does
neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from fairway.errors import InvalidInput
from fairway.kube.located import Field
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.metering.bill import sum_of_hours
from fairway.results.costs.breakdown import columns_of
from fairway.results.costs.costing import Costed


class Period(StrEnum):
    RUN = "run"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Budget:
    """`for_`: columns of the bill and the values they must have; none: everything, idle included.

    `enforce_at`: the threshold (percent) from which on a decision is made; 0: never.
    """

    name: str
    for_: Mapping[str, str]
    amount_micros: int
    period: Period = Period.MONTH
    alerts: tuple[int, ...] = (50, 80, 100)
    enforce_at: int = 0
    action: str = ""
    command: tuple[str, ...] = ()
    where: Field | None = None


@dataclass(frozen=True, slots=True)
class Crossing:
    """A threshold (percent of the amount) reached in a period, by this time (µs since 1970)."""

    percent: int
    at_us: int


@dataclass(frozen=True, slots=True)
class BudgetState:
    """One budget in one period. `unpriced_gpu_hours` are not in `spent_micros`: nobody says what they cost."""

    budget: Budget
    period: str
    spent_micros: int
    unpriced_gpu_hours: float
    crossings: tuple[Crossing, ...]

    @property
    def share(self) -> float:
        return self.spent_micros / self.budget.amount_micros

    @property
    def is_over(self) -> bool:
        return self.spent_micros > self.budget.amount_micros

    def as_json(self) -> dict[str, Any]:
        return {
            "budget": self.budget.name,
            "for": dict(self.budget.for_),
            "period": self.period,
            "amount_micros": self.budget.amount_micros,
            "spent_micros": self.spent_micros,
            "share": self.share,
            "is_over": self.is_over,
            "unpriced_gpu_hours": self.unpriced_gpu_hours,
            "crossings": [{"percent": c.percent, "at": rfc3339(c.at_us)} for c in self.crossings],
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """What enforcement says to do, and why. `command` empty: only to be written down."""

    budget: str
    period: str
    percent: int
    at: str
    spent_micros: int
    amount_micros: int
    action: str
    target: Mapping[str, str]
    command: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "target": dict(self.target), "command": list(self.command)}


def budget_states(run: Costed, budgets: list[Budget]) -> tuple[BudgetState, ...]:
    """Each budget in each of its periods, in order. Raises: InvalidInput where one names an unknown column."""
    check_budgets(run, budgets)
    return tuple(state for budget in budgets for state in _states(run, budget))


def decisions(states: tuple[BudgetState, ...]) -> tuple[Decision, ...]:
    """One per budget and period whose enforcement is due, at the first crossing that calls for it."""
    found = []
    for state in states:
        budget = state.budget
        if not budget.enforce_at:
            continue
        due = next((c for c in state.crossings if c.percent >= budget.enforce_at), None)
        if due is not None:
            found.append(
                Decision(
                    budget=budget.name,
                    period=state.period,
                    percent=due.percent,
                    at=rfc3339(due.at_us),
                    spent_micros=state.spent_micros,
                    amount_micros=budget.amount_micros,
                    action=budget.action,
                    target=budget.for_,
                    command=budget.command,
                )
            )
    return tuple(found)


def check_budgets(run: Costed, budgets: list[Budget]) -> None:
    """Raises: InvalidInput."""
    known = columns_of(run.bill)
    problems = []
    for budget in budgets:
        for name in budget.for_:
            if name not in known and budget.where is not None:
                field = next((f for k, f in budget.where.entries() if k == name), budget.where)
                problems.append(
                    field.problem(f"expected a column of the bill: {', '.join(known)}, or label:KEY")
                )
    if problems:
        raise InvalidInput(tuple(problems))


def _states(run: Costed, budget: Budget) -> list[BudgetState]:
    import polars as pl

    bill = run.bill
    for name, value in budget.for_.items():
        bill = bill.filter(pl.col(name).cast(pl.String) == value)
    unpriced = pl.when(~pl.col("priced")).then(pl.col("gpu_hours")).otherwise(0.0)
    cells = (
        bill.group_by("start_us", "end_us")
        .agg(pl.col("micros").sum(), sum_of_hours(unpriced).alias("unpriced"))
        .sort("end_us", "start_us")
    )
    spent: dict[str, list[tuple[int, int]]] = {}
    without: dict[str, float] = {}
    for start, end, micros, hours in cells.iter_rows():
        period = period_of(start, budget.period)
        so_far = spent.setdefault(period, [])
        so_far.append((end, micros + (so_far[-1][1] if so_far else 0)))
        without[period] = without.get(period, 0.0) + hours
    return [_state(budget, period, spent[period], without[period]) for period in sorted(spent)]


def _state(budget: Budget, period: str, spent: list[tuple[int, int]], unpriced: float) -> BudgetState:
    thresholds = sorted({*budget.alerts, *((budget.enforce_at,) if budget.enforce_at else ())})
    crossings = []
    for percent in thresholds:
        at = next((t for t, total in spent if total * 100 >= percent * budget.amount_micros), None)
        if at is not None:
            crossings.append(Crossing(percent, at))
    return BudgetState(budget, period, spent[-1][1], unpriced, tuple(crossings))


def period_of(at_us: int, period: Period) -> str:
    """`2026-01`, `2026-01-05`, the week's Monday as `week of 2026-01-05`, `run`."""
    when = datetime.fromtimestamp(at_us // SECOND_US, UTC)
    if period == Period.RUN:
        return "run"
    if period == Period.MONTH:
        return f"{when:%Y-%m}"
    if period == Period.WEEK:
        return f"week of {when - timedelta(days=when.weekday()):%Y-%m-%d}"
    return f"{when:%Y-%m-%d}"
