"""Scaling over time: for the targets that changed most, replicas wanted and ready, and every change with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.recorder.tables import Outcome, ScalingRow
from fairway.results import words
from fairway.results.costs.money import dollars
from fairway.results.drawing import Box, Drawing, Line
from fairway.results.htmlparts import Cell, panel, section, table
from fairway.results.plotting import frame, legend, plot_for, step_area, step_points
from fairway.results.run import Run
from fairway.results.scalingfigures import ScaledTarget, scaled_targets, value_at

# Targets with a chart of their own, and changes that the page lists.
CHARTS = 3
CHANGES_LISTED = 200
# Changes marked on a chart at most.
_MARKS = 400


def scaling_charts(outcome: Outcome) -> dict[str, Drawing]:
    """By file name; none for a run without autoscalers."""
    targets = scaled_targets(outcome)[:CHARTS]
    return {f"scaling-{i}": _chart(outcome, target) for i, target in enumerate(targets, 1)}


def _chart(outcome: Outcome, target: ScaledTarget) -> Drawing:
    """Wanted as a line, ready as an area, a mark for each change: red where it goes against the one before."""
    title = f"Replicas of {target.title}"
    inside = {at for at, _ in (*target.wanted, *target.ready) if outcome.began_us <= at < outcome.ended_us}
    edges = sorted(inside | {outcome.began_us, outcome.ended_us})
    wanted = [float(value_at(target.wanted, at)) for at in edges[:-1]]
    ready = [float(value_at(target.ready, at)) for at in edges[:-1]]
    plot, ticks = plot_for(outcome.began_us, outcome.ended_us, max(*wanted, *ready, 1))
    shapes = frame(plot, title, "replicas", ticks)
    shapes.append(step_area(plot, edges, ready, "c2", 0.35))
    shapes.append(Line(step_points(plot, edges, ready), "c2", 1.4))
    shapes.append(Line(step_points(plot, edges, wanted), "c0", 1.8))
    for row in target.changes[:_MARKS]:
        said = f"+{words.duration(row.at_us - outcome.began_us)}: {row.before} → {row.after}: {row.reason}"
        x, y = plot.x(row.at_us), plot.y(row.after)
        shapes.append(Box(x - 3, y - 3, 6, 6, "c5" if row.is_flap else "c0", 1.0, title=said))
    columns = [("wanted", "c0", wanted), ("ready", "c2", ready)]
    shapes.extend(legend(plot.right, 40, [(name, colour) for name, colour, _ in columns]))
    readout = {
        "box": [plot.left, plot.ceiling, plot.right, plot.floor],
        "edges_s": [e // 1_000_000 for e in edges],
        "unit": "",
        "series": [{"name": n, "colour": c, "values": v} for n, c, v in columns],
    }
    return Drawing(plot.width, plot.height, title, tuple(shapes), readout)


def scaling_section(run: Run) -> str:
    """What was scaled, what it took, and every change."""
    outcome = run.outcome
    if not outcome.scalings:
        return ""
    from fairway.results.scalingprices import priced_targets

    targets = priced_targets(run)
    head = (
        "target",
        "changes",
        "flaps",
        "least",
        "most",
        "end",
        "short",
        "surplus",
        "short, $",
        "surplus, $",
        "GPU-hours before ready",
    )
    note = (
        '<p class="note">short: replicas wanted and not ready, over time; surplus: ready and no longer wanted; '
        "$: at the price of a replica's part of its machine. "
        "A flap goes against the change before it within ten minutes.</p>"
    )
    rows = list(outcome.scalings)
    listed = ("at", "by", "target", "replicas", "ready", "metric", "why")
    more = len(rows) - CHANGES_LISTED
    rest = f'<p class="note">{words.counted(more, "change")} more: scalings in the run\'s directory.</p>'
    return section(
        "Scaling",
        panel(table(head, [_row(t) for t in targets[:CHANGES_LISTED]]), note),
        panel(table(listed, _changes(rows[:CHANGES_LISTED], outcome.began_us)), rest if more > 0 else ""),
    )


def _row(target: ScaledTarget) -> Sequence[Cell]:
    sizes = target.sizes
    counts = (len(target.changes), target.flaps, min(sizes), max(sizes), sizes[-1])
    times = (words.duration(target.short_us), words.duration(target.surplus_us))
    money = (dollars(target.short_micros), dollars(target.surplus_micros))
    held = words.gpu_hours(target.starting_gpu_milli_us) if target.starting_gpu_milli_us else ""
    return (
        Cell(target.title, "name"),
        *(Cell(words.count(c), "n") for c in counts),
        *(Cell(t, "n") for t in (*times, *money, held)),
    )


def _changes(rows: Sequence[ScalingRow], began_us: int) -> list[Sequence[Cell]]:
    return [
        (
            Cell(f"+{words.duration(row.at_us - began_us)}", "n"),
            Cell(f"{row.autoscaler_kind} {row.autoscaler}" if row.autoscaler_kind else "somebody else"),
            Cell(f"{row.namespace}/{row.name}", "name"),
            Cell(f"{row.before} → {row.after}", "n fail" if row.is_flap else "n"),
            Cell(words.count(row.ready), "n"),
            Cell(row.metric),
            Cell(row.reason, "why"),
        )
        for row in rows
    ]
