"""Everything a cost report says, worked out once, for text, HTML and JSON alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fairway.metering.borrowing import Borrowed
from fairway.results.costs.borrowing import borrowed_in
from fairway.results.costs.breakdown import Breakdown, Line, Shared, breakdown
from fairway.results.costs.budgets import Budget, BudgetState, Decision, budget_states, decisions
from fairway.results.costs.costing import Costed
from fairway.results.costs.figures import CostFigures, cost_figures
from fairway.results.costs.showback import Month, Trend, over_months, showback, trend
from fairway.results.costs.unitcosts import Asked, UnitCost, unit_costs


@dataclass(frozen=True, slots=True)
class Question:
    """What to show of a bill: by what, how common costs are borne, which budgets, how many consumers."""

    by: Sequence[str] = ("namespace",)
    shared: Sequence[Shared] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    budgets: Sequence[Budget] = ()
    asked: Asked = field(default_factory=Asked)
    top: int = 5


@dataclass(frozen=True, slots=True)
class CostReport:
    run: Costed
    figures: CostFigures
    breakdown: Breakdown
    consumers: tuple[Line, ...]
    """Workloads that owe most, `(namespace, workload)` each."""
    units: tuple[UnitCost, ...]
    budgets: tuple[BudgetState, ...]
    decisions: tuple[Decision, ...]
    borrowed: tuple[Borrowed, ...]
    months: tuple[Month, ...]
    trend: Trend | None

    @property
    def is_within_budget(self) -> bool:
        return not any(state.is_over for state in self.budgets)

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.run.run.name,
            "status": self.run.run.status,
            "began_us": self.run.run.outcome.began_us,
            "ended_us": self.run.run.outcome.ended_us,
            "rules": {
                "basis": self.run.rules.basis.value,
                "measure": self.run.rules.measure.value,
                "split": self.run.rules.split.value,
                "commitment": self.run.rules.commitment,
                "shared": [{"what": s.what, "rule": s.rule.value} for s in self.breakdown.shared],
            },
            "figures": self.figures.as_json(),
            "by": list(self.breakdown.by),
            "lines": [_line_json(line, self.breakdown.by) for line in self.breakdown.lines],
            "consumers": [_line_json(line, ("namespace", "workload")) for line in self.consumers],
            "units": [asdict(unit) for unit in self.units],
            "budgets": [state.as_json() for state in self.budgets],
            "decisions": [decision.as_json() for decision in self.decisions],
            "borrowed": [asdict(row) for row in self.borrowed],
            "months": [
                {
                    "month": m.name,
                    "total_micros": m.total_micros,
                    "lines": [_line_json(line, self.breakdown.by[:1]) for line in m.lines],
                }
                for m in self.months
            ],
        }


def cost_report(run: Costed, question: Question | None = None) -> CostReport:
    """Raises: UserError, InvalidInput for questions that name what is not there."""
    question = question or Question()
    figures = cost_figures(run)
    first = question.by[0]
    consumers = [line for line in breakdown(run, ("namespace", "workload")).lines if not line.is_nobody]
    states = budget_states(run, list(question.budgets))
    whole = breakdown(run, question.by, question.shared, question.weights)
    months = showback(run, first, question.shared, question.weights)
    if question.shared:
        whole = replace(whole, lines=over_months(months))
    return CostReport(
        run=run,
        figures=figures,
        breakdown=whole,
        consumers=tuple(consumers[: question.top]),
        units=unit_costs(run, figures, question.asked),
        budgets=states,
        decisions=decisions(states),
        borrowed=borrowed_in(run),
        months=months,
        trend=trend(run, first),
    )


def _line_json(line: Line, by: Sequence[str]) -> dict[str, Any]:
    data = asdict(line)
    del data["key"]
    return {
        **dict(zip(by, line.key, strict=True)),
        "owed_micros": None if line.is_unpriced else line.owed,
        **data,
    }
