"""Charts of money: what each step cost and whom, and how it added up beside the budgets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from fairway.kube.timestamps import DAY_US
from fairway.results.costs.breakdown import NOBODY
from fairway.results.costs.budgets import BudgetState, Period
from fairway.results.costs.money import MICROS
from fairway.results.costs.showback import OTHERS, Trend
from fairway.results.drawing import SERIES_COLOURS, Drawing, Line, Shape, Text
from fairway.results.plotting import frame, legend, plot_for, step_area, step_points

_NOBODY_COLOUR = "grid"


def cost_charts(trend: Trend | None, by: str, states: Sequence[BudgetState] = ()) -> dict[str, Drawing]:
    """By file name; none where nothing has a price."""
    if trend is None or not any(map(any, trend.values)):
        return {}
    return {"cost": _stacked(trend, by), "cost-total": _added_up(trend, states)}


def colours(names: Sequence[str]) -> dict[str, str]:
    """Debtors have colours; the rest is grey, nobody is the colour of the grid."""
    owners = [n for n in names if n not in NOBODY and n != OTHERS]
    found = {name: SERIES_COLOURS[i % (len(SERIES_COLOURS) - 1)] for i, name in enumerate(owners)}
    found[OTHERS] = SERIES_COLOURS[-1]
    return {**found, **dict.fromkeys(NOBODY, _NOBODY_COLOUR)}


def _stacked(trend: Trend, by: str) -> Drawing:
    """Dollars of every step, one debtor upon the other."""
    values = [[v / MICROS for v in column] for column in trend.values]
    totals = [sum(step) for step in zip(*values, strict=True)]
    plot, ticks = plot_for(trend.edges_us[0], trend.edges_us[-1], max(totals))
    unit = "$ a day" if trend.step_us == DAY_US else "$ an hour"
    title = f"Cost by {by}"
    shapes: list[Shape] = frame(plot, title, unit, ticks)
    colour = colours(trend.names)
    heights = list(totals)
    # From the top of the stack down, each area over the one before.
    for name, column in reversed(list(zip(trend.names, values, strict=True))):
        shapes.append(step_area(plot, trend.edges_us, heights, colour[name]))
        heights = [h - v for h, v in zip(heights, column, strict=True)]
    shapes.append(Line(step_points(plot, trend.edges_us, totals), "muted", 1.2))
    shapes.extend(legend(plot.right, 40, [(name, colour[name]) for name in trend.names]))
    readout: dict[str, object] = {
        "box": [plot.left, plot.ceiling, plot.right, plot.floor],
        "edges_s": [e // 1_000_000 for e in trend.edges_us],
        "unit": "$",
        "series": [
            {"name": name, "colour": colour[name], "values": [round(v, 2) for v in column]}
            for name, column in zip(trend.names, values, strict=True)
        ],
    }
    return Drawing(plot.width, plot.height, title, tuple(shapes), readout)


def _added_up(trend: Trend, states: Sequence[BudgetState]) -> Drawing:
    """All dollars so far; what is nobody's beside it; and the budget of the whole run, where there is one."""
    steps = [sum(step) for step in zip(*trend.values, strict=True)]
    rows = [c for n, c in zip(trend.names, trend.values, strict=True) if n in NOBODY]
    vain = [sum(step) for step in zip(*rows, strict=True)] if rows else [0] * len(steps)
    total, idle = ([v / MICROS for v in accumulate(column)] for column in (steps, vain))
    limits = [s.budget for s in states if s.budget.period == Period.RUN and not s.budget.for_]
    highest = max([total[-1], *(b.amount_micros / MICROS for b in limits)])
    plot, ticks = plot_for(trend.edges_us[0], trend.edges_us[-1], highest)
    title = "Cost, added up"
    shapes: list[Shape] = frame(plot, title, "$", ticks)
    shapes.append(step_area(plot, trend.edges_us, total, "c0", 0.3))
    shapes.append(Line(step_points(plot, trend.edges_us, total), "c0", 1.6))
    shapes.append(step_area(plot, trend.edges_us, idle, "c5", 0.5))
    for budget in limits:
        y = plot.y(budget.amount_micros / MICROS)
        shapes.append(Line(((plot.left, y), (plot.right, y)), "c5", 1.4, dash=True))
        shapes.append(Text(plot.left + 6, y - 5, f"budget {budget.name}", "ink", 11))
    shapes.extend(legend(plot.right, 40, [("all", "c0"), ("used by nobody", "c5")]))
    readout: dict[str, object] = {
        "box": [plot.left, plot.ceiling, plot.right, plot.floor],
        "edges_s": [e // 1_000_000 for e in trend.edges_us],
        "unit": "$",
        "series": [
            {"name": "all", "colour": "c0", "values": [round(v, 2) for v in total]},
            {"name": "used by nobody", "colour": "c5", "values": [round(v, 2) for v in idle]},
        ],
    }
    return Drawing(plot.width, plot.height, title, tuple(shapes), readout)
