"""The showback as one HTML file: opens anywhere, needs no network, prints."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fairway.kube.timestamps import HOUR_US
from fairway.recorder.tables import COMPLETE
from fairway.results import words
from fairway.results.costs.answers import CostReport
from fairway.results.costs.breakdown import Line
from fairway.results.costs.money import dollars, how_many, owed
from fairway.results.costs.trends import cost_charts
from fairway.results.htmlpage import page
from fairway.results.htmlparts import Cell, card, panel, section, table
from fairway.results.svg import svg_part

LINES_LISTED = 200


def showback_html(report: CostReport) -> str:
    """The whole page."""
    charts = cost_charts(report.trend, report.breakdown.by[0], report.budgets)
    body = "\n".join(
        [
            _head(report),
            _unpriced(report),
            _cards(report),
            section("Over time", *(panel(svg_part(d, f"chart-{name}")) for name, d in charts.items())),
            *_months(report),
            _consumers(report),
            _units(report),
            _budgets(report),
            _borrowed(report),
            _foot(report),
        ]
    )
    data = {"charts": {f"chart-{name}": d.readout for name, d in charts.items()}, "boxes": (), "pods": ()}
    return page(f"{report.run.run.name or 'run'}: showback", body, data)


def _head(report: CostReport) -> str:
    run = report.run.run
    bad = "" if run.status == COMPLETE else " bad"
    badges = f'<span class="badge{bad}">{escape(run.status)}</span>'
    if report.budgets:
        over = sum(s.is_over for s in report.budgets)
        text = f"{words.counted(over, 'budget')} overspent" if over else "within budget"
        badges += f'<span class="badge{" bad" if over else ""}">{text}</span>'
    when = words.span(run.outcome.began_us, run.outcome.ended_us)
    return (
        f"<header><div><h1>{escape(run.name or 'run')}: showback{badges}</h1>"
        f"<p>{escape(when)} · {escape(report.run.rules.words())}</p></div>"
        '<button id="theme" class="screen">light / dark</button></header>'
    )


def _unpriced(report: CostReport) -> str:
    figures = report.figures
    if not figures.unpriced:
        return ""
    hours = sum(u.machine_hours for u in figures.unpriced)
    rows = [
        (
            Cell(u.instance_type or "(no instance type)", "name"),
            Cell(u.capacity_type),
            Cell(u.zone),
            Cell(words.count(u.machines), "n"),
            Cell(f"{u.machine_hours:,.1f}", "n"),
            Cell(f"{u.gpu_hours:,.1f}", "n"),
            Cell(u.why, "why"),
        )
        for u in figures.unpriced
    ]
    banner = (
        f'<div class="banner">{hours:,.1f} machine-hours ({figures.unpriced_gpu_hours:,.1f} GPU-hours) have no '
        "price. They are in no sum on this page.</div>"
    )
    header = ("instance type", "capacity type", "zone", "machines", "hours", "GPU-hours", "why")
    return banner + section("Unpriced", panel(table(header, rows)))


def _cards(report: CostReport) -> str:
    f = report.figures
    spot = f"{words.percent(f.spot_hours_share)} of GPU-hours"
    total = dollars(f.total_micros) if report.run.is_priced else "unpriced"
    cards = [
        card("Cost", total, f"{f.machine_hours:,.1f} machine-hours"),
        card("Efficiency", words.percent(f.efficiency), "of every dollar used, at most", f.efficiency, "c2"),
        card("Held", words.percent(f.held_share), f"{f.held_gpu_hours:,.1f} GPU-hours", f.held_share),
        card("Idle", dollars(f.idle_micros), f"{f.idle_gpu_hours:,.1f} GPU-hours that nobody held"),
        card(
            "In vain", dollars(f.unused_micros), f"use told of {words.percent(f.told_share)} of what was held"
        ),
        card("Spot", words.percent(f.spot_share), spot, f.spot_share, "c4"),
        card("GPU-hour held", dollars(f.held_hour_micros), "idle ones included"),
    ]
    return f'<div class="cards">{"".join(cards)}</div>'


def _months(report: CostReport) -> list[str]:
    by = report.breakdown.by[0]
    parts = []
    for month in report.months:
        title = f"{month.name} by {by}: {dollars(month.total_micros)}"
        parts.append(section(title, panel(_lines(by, month.lines))))
    return parts


def _lines(by: str, lines: Sequence[Line]) -> str:
    total = sum(line.owed for line in lines)
    rows = [
        (
            Cell(line.name, "name"),
            Cell(owed(line), "n"),
            Cell(words.percent(line.owed / total) if total else words.NOTHING, "n"),
            Cell(dollars(line.micros), "n"),
            Cell(dollars(line.shared_micros) if line.shared_micros else words.NOTHING, "n"),
            Cell(f"{line.gpu_hours:,.1f}", "n"),
            Cell(dollars(line.unused_micros) if line.unused_micros else words.NOTHING, "n"),
            Cell(words.percent(line.spot_micros / line.micros) if line.spot_micros else words.NOTHING, "n"),
            Cell(f"{line.unpriced_gpu_hours:,.1f}" if line.unpriced_gpu_hours else words.NOTHING, "n"),
        )
        for line in lines[:LINES_LISTED]
    ]
    header = (
        by,
        "owed",
        "share",
        "own",
        "of shared",
        "GPU-hours",
        "held in vain",
        "spot",
        "unpriced GPU-hours",
    )
    more = len(lines) - len(rows)
    note = f'<p class="note">{words.counted(more, "line")} more in the CSV.</p>' if more > 0 else ""
    return table(header, rows) + note


def _consumers(report: CostReport) -> str:
    rows = [
        (
            Cell("/".join(line.key), "name"),
            Cell(owed(line), "n"),
            Cell(f"{line.gpu_hours:,.1f}", "n"),
            Cell(dollars(line.unused_micros) if line.unused_micros else words.NOTHING, "n"),
        )
        for line in report.consumers
    ]
    header = ("workload", "owed", "GPU-hours", "held in vain")
    return section("Top consumers", panel(table(header, rows))) if rows else ""


def _units(report: CostReport) -> str:
    rows = [
        (
            Cell(u.unit, "name"),
            Cell(u.name),
            Cell(dollars(u.each_micros), "n"),
            Cell(how_many(u.count), "n"),
            Cell(dollars(u.micros), "n"),
            Cell(u.note, "why"),
        )
        for u in report.units[:LINES_LISTED]
    ]
    header = ("", "of", "each", "how many", "together", "")
    return section("What one cost", panel(table(header, rows))) if rows else ""


def _budgets(report: CostReport) -> str:
    rows = [
        (
            Cell("over" if s.is_over else "within", "fail" if s.is_over else "pass"),
            Cell(s.budget.name, "name"),
            Cell(s.period),
            Cell(dollars(s.spent_micros), "n"),
            Cell(dollars(s.budget.amount_micros), "n"),
            Cell(words.percent(s.share), "n"),
            Cell(", ".join(f"{c.percent} % by {words.clock(c.at_us)}" for c in s.crossings), "why"),
        )
        for s in report.budgets
    ]
    header = ("", "budget", "period", "spent", "of", "share", "thresholds reached")
    return section("Budgets", panel(table(header, rows))) if rows else ""


def _borrowed(report: CostReport) -> str:
    rows = [
        (
            Cell(row.queue, "name"),
            Cell(row.cohort),
            Cell(dollars(row.owed_micros), "n"),
            Cell(dollars(row.own_micros), "n"),
            Cell(dollars(row.borrowed_micros), "n"),
            Cell(f"{row.borrowed_gpu_us / HOUR_US:,.1f}", "n"),
            Cell(dollars(row.lent_micros), "n"),
        )
        for row in report.borrowed
    ]
    header = (
        "ClusterQueue",
        "cohort",
        "owed",
        "on its own quota",
        "borrowed",
        "GPU-hours borrowed",
        "lent to others",
    )
    return section("Quota", panel(table(header, rows))) if rows else ""


def _foot(report: CostReport) -> str:
    from fairway import __version__

    run = report.run.run
    parts = [f"Fairway {__version__}", *(p for p in (run.info.source, run.info.digest) if p)]
    return f"<footer><p>{escape(' · '.join(parts))}</p></footer>"
