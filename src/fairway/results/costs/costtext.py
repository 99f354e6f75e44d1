"""A cost report for a terminal of 80 to 100 columns and more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from fairway.kube.timestamps import HOUR_US, format_duration
from fairway.recorder.tables import COMPLETE
from fairway.results import words
from fairway.results.costs.answers import CostReport
from fairway.results.costs.breakdown import Line as Debt
from fairway.results.costs.budgets import BudgetState
from fairway.results.costs.figures import CostFigures
from fairway.results.costs.money import dollars, how_many, owed
from fairway.results.costs.showback import Month
from fairway.results.run import partial_words
from fairway.results.textlayout import (
    BAD,
    GOOD,
    HEADING,
    TITLE,
    Line,
    both_ends,
    sparkline,
    table,
    wrapped,
)

LINES_SHOWN = 20
UNPRICED_SHOWN = 6
UNITS_SHOWN = 12
_BAR = 16


def cost_lines(report: CostReport, width: int = 100, *, months: bool = False) -> list[Line]:
    """Everything worth saying, most important first; with `months`, the showback of every month too."""
    parts = [
        _head(report, width),
        _unpriced(report.figures, width),
        _where(report.figures, width),
        _lines(f"BY {', '.join(report.breakdown.by).upper()}", report.breakdown.lines, width),
        *([_month(m, report.breakdown.by[0], width) for m in report.months] if months else []),
        _consumers(report, width),
        _units(report, width),
        _budgets(report.budgets, width),
        _borrowed(report, width),
    ]
    lines: list[Line] = []
    for part in parts:
        if part:
            lines.extend([Line(""), *part] if lines else part)
    return lines


def _head(report: CostReport, width: int) -> list[Line]:
    run, outcome = report.run.run, report.run.run.outcome
    total = dollars(report.figures.total_micros) if report.run.is_priced else "unpriced"
    lines = [Line(both_ends(run.name or "run", total, width), TITLE)]
    if run.status != COMPLETE:
        lines.extend(Line(line.text, BAD) for line in wrapped(partial_words(run), width, ""))
    spent = format_duration(outcome.duration_us)
    lines.append(
        Line(words.cut(f"{words.span(outcome.began_us, outcome.ended_us)} ({spent} simulated)", width))
    )
    lines.extend(wrapped(report.run.rules.words(), width, ""))
    if report.trend is not None and report.run.is_priced:
        steps = [sum(step) for step in zip(*report.trend.values, strict=True)]
        unit = "an hour" if report.trend.step_us == HOUR_US else "a day"
        grid = _thinned(steps, width - 40)
        lines.append(
            Line(words.cut(f"{sparkline(grid, max(grid))}  up to {dollars(max(steps))} {unit}", width))
        )
    return lines


def _thinned(values: Sequence[int], most: int) -> list[float]:
    """As many means as there is room for."""
    if len(values) <= most:
        return [float(v) for v in values]
    edges = [i * len(values) // most for i in range(most + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]


def _unpriced(figures: CostFigures, width: int) -> list[Line]:
    if not figures.unpriced:
        return []
    hours = sum(u.machine_hours for u in figures.unpriced)
    head = (
        f"UNPRICED  {hours:,.1f} machine-hours, {figures.unpriced_gpu_hours:,.1f} GPU-hours "
        "are in no sum below"
    )
    lines = [Line(words.cut(head, width), BAD)]
    for u in figures.unpriced[:UNPRICED_SHOWN]:
        place = f" in {u.zone}" if u.zone else ""
        text = (
            f"{words.counted(u.machines, 'machine')} of {u.instance_type or '(no instance type)'}, "
            f"{u.capacity_type}{place}, {u.machine_hours:,.1f} h: {u.why}"
        )
        lines.extend(wrapped(text, width))
    more = len(figures.unpriced) - UNPRICED_SHOWN
    return lines + ([Line(f"  … and {more} more kinds")] if more > 0 else [])


def _where(figures: CostFigures, width: int) -> list[Line]:
    if not figures.total_micros:
        return []
    used = figures.held_micros - figures.unused_micros
    told = f"{words.percent(figures.told_share)} tell"
    rows = [
        ("held by pods", figures.held_micros, f"{figures.held_gpu_hours:,.1f} GPU-hours"),
        ("  of that in vain", figures.unused_micros, f"GPUs not used; {told}"),
        ("held by nobody", figures.idle_micros, f"{figures.idle_gpu_hours:,.1f} GPU-hours idle"),
        ("kept by nodes", figures.system_micros, "for the system"),
    ]
    if figures.booting_micros:
        note = f"{figures.booting_gpu_hours:,.1f} GPU-hours until the node came"
        rows.append(("booting", figures.booting_micros, note))
    lines = [Line("WHERE IT WENT", HEADING)]
    for name, micros, note in rows:
        share = micros / figures.total_micros
        bar = "█" * round(share * _BAR)
        text = f"  {name:<18}{dollars(micros):>14}  {words.percent(share):>7}  {bar:<{_BAR}}  {note}"
        lines.append(Line(words.cut(text.rstrip(), width)))
    score = f"{words.percent(used / figures.total_micros)} of dollars used, at most"
    hours = words.percent(figures.spot_hours_share)
    spot = f"spot {words.percent(figures.spot_share)} of dollars, {hours} of hours"
    lines.append(Line(words.cut(f"  efficiency  {score};  {spot}", width)))
    if figures.held_hour_micros is not None:
        text = f"  a GPU-hour that somebody held cost {dollars(figures.held_hour_micros)}, idle ones included"
        lines.append(Line(words.cut(text, width)))
    return lines


def _lines(title: str, lines: Sequence[Debt], width: int) -> list[Line]:
    """Who owes how much; nothing shared: no column for it."""
    if not lines:
        return []
    shown = lines if len(lines) <= LINES_SHOWN else lines[: LINES_SHOWN - 1]
    total = sum(line.owed for line in lines)
    header = (
        "",
        "owed",
        "share",
        "own",
        "of shared",
        "GPU-hours",
        "$/GPU-h",
        "in vain",
        "spot",
        "unpriced h",
    )
    is_shared = any(line.shared_micros for line in lines)
    rows = [
        (
            line.name,
            owed(line),
            words.percent(line.owed / total) if total else words.NOTHING,
            dollars(line.micros) if is_shared else "",
            dollars(line.shared_micros) if is_shared else "",
            f"{line.gpu_hours:,.1f}",
            dollars(line.gpu_micros / line.gpu_hours)
            if line.gpu_hours and line.gpu_micros
            else words.NOTHING,
            dollars(line.unused_micros) if line.unused_micros else words.NOTHING,
            words.percent(line.spot_micros / line.micros) if line.spot_micros else words.NOTHING,
            f"{line.unpriced_gpu_hours:,.1f}" if line.unpriced_gpu_hours else words.NOTHING,
        )
        for line in shown
    ]
    found = [Line(words.cut(title, width), HEADING), *table(header, rows, width)]
    if len(shown) < len(lines):
        rest = sum(line.owed for line in lines[len(shown) :])
        found.append(Line(f"  … and {len(lines) - len(shown):,} more, who owe {dollars(rest)}"))
    return found


def _month(month: Month, by: str, width: int) -> list[Line]:
    return _lines(f"{month.name} BY {by.upper()}  {dollars(month.total_micros)}", month.lines, width)


def _consumers(report: CostReport, width: int) -> list[Line]:
    if not report.consumers or not report.run.is_priced:
        return []
    rows = [
        (
            "/".join(line.key),
            owed(line),
            f"{line.gpu_hours:,.1f}",
            dollars(line.unused_micros) if line.unused_micros else words.NOTHING,
        )
        for line in report.consumers
    ]
    header = ("workload", "owed", "GPU-hours", "in vain")
    return [Line("TOP CONSUMERS", HEADING), *table(header, rows, width)]


def _units(report: CostReport, width: int) -> list[Line]:
    units = [u for u in report.units if u.micros or u.note]
    if not units:
        return []
    rows = [
        (
            u.unit,
            u.name,
            dollars(u.each_micros),
            how_many(u.count),
            dollars(u.micros),
            u.note,
        )
        for u in units[:UNITS_SHOWN]
    ]
    lines = [Line("WHAT ONE COST", HEADING)]
    lines += table(("", "of", "each", "how many", "together", "note"), rows, width, left=(0, 1, 5))
    more = len(units) - len(rows)
    return lines + ([Line(f"  … and {more:,} more (-o json has all)")] if more else [])


def _budgets(states: Sequence[BudgetState], width: int) -> list[Line]:
    if not states:
        return []
    lines = [Line("BUDGETS", HEADING)]
    for state in states:
        bar = "█" * min(round(state.share * _BAR), _BAR)
        head = f"  {state.budget.name:<20} {state.period:<18} {dollars(state.spent_micros):>12}"
        text = f"{head} of {dollars(state.budget.amount_micros)}  {words.percent(state.share):>8}  {bar}"
        lines.append(Line(words.cut(text, width), BAD if state.is_over else GOOD))
        if state.crossings:
            said = ", ".join(f"{c.percent} % by {words.clock(c.at_us)}" for c in state.crossings)
            lines.append(Line(words.cut(f"    reached {said}", width)))
        if state.unpriced_gpu_hours:
            text = f"    {state.unpriced_gpu_hours:,.1f} GPU-hours without a price are not in it"
            lines.append(Line(words.cut(text, width), BAD))
    return lines


def _borrowed(report: CostReport, width: int) -> list[Line]:
    def money(micros: int) -> str:
        return dollars(micros) if report.run.is_priced else words.NOTHING

    rows = [
        (
            row.queue,
            row.cohort or words.NOTHING,
            *(money(m) for m in (row.owed_micros, row.own_micros, row.borrowed_micros)),
            f"{row.borrowed_gpu_us / HOUR_US:,.1f}",
            money(row.lent_micros),
        )
        for row in report.borrowed
        if row.owed_micros or row.lent_micros or row.borrowed_gpu_us
    ]
    if not rows:
        return []
    header = (
        "ClusterQueue",
        "cohort",
        "owed",
        "own quota",
        "borrowed",
        "GPU-hours borrowed",
        "lent to others",
    )
    note = "Who borrows quota owes what it cost; what a queue lent is in the borrowers' sums."
    return [Line("QUOTA", HEADING), *table(header, rows, width, left=(0, 1)), *wrapped(note, width)]
