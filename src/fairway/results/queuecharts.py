"""The charts of queues: quota in use by whom, borrowed and lent, what waits, how long, and how fair it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import NamedTuple

from fairway.recorder.queuetables import QueueOutcome
from fairway.recorder.tables import Outcome
from fairway.results import words
from fairway.results.axes import duration_ticks
from fairway.results.drawing import SERIES_COLOURS, Drawing, Line, Shape, Text
from fairway.results.plotting import (
    HEIGHT,
    WIDTH,
    Plot,
    distribution,
    frame,
    legend,
    plot_for,
    step_area,
    step_points,
)
from fairway.results.queuefigures import (
    Stretches,
    queue_names,
    queue_series_of,
    quota_series,
    unit_of,
)
from fairway.results.shares import namespace_colours

# ClusterQueues with a line of their own: those that used most.
QUEUES = 7


class _Member(NamedTuple):
    """A ClusterQueue in a chart; `quota` None: it has none in the chart's unit."""

    name: str
    colour: str
    quota: Stretches | None
    counts: Stretches


def queue_charts(outcome: Outcome) -> dict[str, Drawing]:
    """Every chart of queues that this run has data for, by file name."""
    queues = outcome.queues
    if queues.is_empty or not len(queues.queues):
        return {}
    unit, factors = unit_of(queues)
    members = _members(outcome, factors)
    found: dict[str, Drawing | None] = {
        "quota-used": _used(outcome, members, unit),
        "quota-borrowed": _borrowed(outcome, members, unit),
        "queue-pending": _pending(outcome, members),
        "queue-waits": _waits(queues, members),
        "fairness": _fairness(outcome, members),
    }
    return {name: drawing for name, drawing in found.items() if drawing is not None}


def _members(outcome: Outcome, factors: Mapping[str, float]) -> list[_Member]:
    queues, found = outcome.queues, []
    for name, _ in queue_names(queues):
        found.append((name, quota_series(queues, name, factors), queue_series_of(queues, name)))

    def use(entry: tuple[str, Stretches | None, Stretches]) -> tuple[float, str]:
        name, quota, counts = entry
        values = counts.values["pending"] if quota is None else quota.values["used"]
        return -sum(v * (e - s) for v, s, e in zip(values, counts.starts, counts.ends, strict=False)), name

    kept = {name for name, _, _ in sorted(found, key=use)[:QUEUES]}
    chosen = [entry for entry in found if entry[0] in kept]
    colours = _colours(outcome, [n for n, _, _ in chosen])
    return [_Member(n, colours[n], q, c) for n, q, c in chosen]


def _colours(outcome: Outcome, names: Sequence[str]) -> dict[str, str]:
    """That of its namespace, where every ClusterQueue has one to itself; else one each."""
    workloads, of = outcome.queues.workloads, namespace_colours(outcome)
    namespaces: dict[str, dict[str, None]] = {}
    for name, namespace in zip(workloads.column("cluster_queue"), workloads.column("namespace"), strict=True):
        namespaces.setdefault(name, {})[namespace] = None
    found = {
        n: of[ns]
        for n in names
        if len(namespaces.get(n, ())) == 1 and (ns := next(iter(namespaces[n]))) in of
    }
    if len(found) == len(names) == len(set(found.values())):
        return found
    return dict(zip(names, SERIES_COLOURS, strict=False))


class _Series(NamedTuple):
    name: str
    colour: str
    edges: Sequence[int]
    values: Sequence[float]
    dash: bool = False
    opacity: float = 0.0
    """Of the area below; 0: only a line."""


def _edges(stretches: Stretches) -> tuple[int, ...]:
    return (*stretches.starts, stretches.ends[-1])


def _lines(outcome: Outcome, title: str, unit: str, series: Sequence[_Series]) -> Drawing:
    """Steps over time, one line each; all stand on the same edges."""
    highest = max((v for s in series for v in s.values), default=0.0)
    plot, ticks = plot_for(outcome.began_us, outcome.ended_us, max(highest, 1e-9))
    shapes = frame(plot, title, unit, ticks)
    for s in series:
        if s.opacity:
            shapes.append(step_area(plot, s.edges, s.values, s.colour, s.opacity))
    for s in series:
        shapes.append(Line(step_points(plot, s.edges, s.values), s.colour, 1.7, dash=s.dash))
    shapes.extend(legend(plot.right, 40, [(s.name, s.colour) for s in series]))
    return _drawing(plot, title, unit, shapes, series)


def _drawing(
    plot: Plot, title: str, unit: str, shapes: Sequence[Shape], series: Sequence[_Series]
) -> Drawing:
    readout = {
        "box": [plot.left, plot.ceiling, plot.right, plot.floor],
        "edges_s": [e // 1_000_000 for e in series[0].edges],
        "unit": unit,
        "series": [
            {"name": s.name, "colour": s.colour, "values": [round(v, 3) for v in s.values]} for s in series
        ],
    }
    return Drawing(plot.width, plot.height, title, tuple(shapes), readout)


def _used(outcome: Outcome, members: Sequence[_Member], unit: str) -> Drawing | None:
    """Quota in use, stacked by ClusterQueue, under all the quota there is."""
    shown = [(m, m.quota) for m in members if m.quota is not None]
    if not shown:
        return None
    edges = _edges(shown[0][1])
    columns = [(m, list(q.values["used"])) for m, q in shown]
    heights = [sum(values) for values in zip(*(v for _, v in columns), strict=True)]
    nominal = [sum(values) for values in zip(*(q.values["nominal"] for _, q in shown), strict=True)]
    has_limit = max(nominal) < 1e15
    plot, ticks = plot_for(
        outcome.began_us, outcome.ended_us, max([*heights, *(nominal if has_limit else ()), 1e-9])
    )
    shapes = frame(plot, "Quota in use by ClusterQueue", unit, ticks)
    # From the top of the stack down, each area over the one before.
    for member, values in reversed(columns):
        shapes.append(step_area(plot, edges, heights, member.colour))
        heights = [h - v for h, v in zip(heights, values, strict=True)]
    series = [_Series(m.name, m.colour, edges, values) for m, values in columns]
    if has_limit:
        series.append(_Series("nominal", "muted", edges, nominal))
        shapes.append(Line(step_points(plot, edges, nominal), "muted", 1.4, dash=True))
    shapes.extend(legend(plot.right, 40, [(s.name, s.colour) for s in series]))
    return _drawing(plot, "Quota in use by ClusterQueue", unit, shapes, series)


def _borrowed(outcome: Outcome, members: Sequence[_Member], unit: str) -> Drawing | None:
    """Borrowed (lines over areas) and lent (dashes)."""
    series = []
    for m in members:
        if m.quota is None:
            continue
        edges = _edges(m.quota)
        if any(m.quota.values["borrowed"]):
            values = m.quota.values["borrowed"]
            series.append(_Series(f"{m.name} borrows", m.colour, edges, values, opacity=0.25))
        if any(m.quota.values["lent"]):
            series.append(_Series(f"{m.name} lends", m.colour, edges, m.quota.values["lent"], dash=True))
    return _lines(outcome, "Quota borrowed and lent (dashed)", unit, series) if series else None


def _pending(outcome: Outcome, members: Sequence[_Member]) -> Drawing | None:
    series = [
        _Series(m.name, m.colour, _edges(m.counts), m.counts.values["pending"], opacity=0.18)
        for m in members
        if any(m.counts.values["pending"])
    ]
    if not series:
        return None
    gangs = [sum(values) for values in zip(*(m.counts.values["gangs_pending"] for m in members), strict=True)]
    if any(gangs):
        series.append(_Series("gangs", "ink", series[0].edges, gangs, dash=True))
    return _lines(outcome, "Workloads that wait for quota", "workloads", series)


def _fairness(outcome: Outcome, members: Sequence[_Member]) -> Drawing | None:
    """Dominant shares, in percent of their cohort's quota."""
    series = [
        _Series(m.name, m.colour, _edges(m.counts), [100 * v for v in m.counts.values["dominant_share"]])
        for m in members
        if any(m.counts.values["dominant_share"])
    ]
    if len(series) < 2:
        return None
    return _lines(outcome, "Dominant share of the cohort's quota", "%", series)


def _waits(queues: QueueOutcome, members: Sequence[_Member]) -> Drawing | None:
    """Which share of a ClusterQueue's Workloads was admitted after how long, on a logarithmic axis."""
    colours = {m.name: m.colour for m in members}
    totals = dict.fromkeys(colours, 0)
    waits: dict[str, list[int]] = {name: [] for name in colours}
    columns = (queues.workloads.column(n) for n in ("cluster_queue", "wait_us"))
    for name, wait in zip(*columns, strict=True):
        if name in colours:
            totals[name] += 1
            if wait is not None:
                waits[name].append(wait)
    longest = max((max(w) for w in waits.values() if w), default=None)
    if longest is None:
        return None
    ticks = duration_ticks(1_000_000, longest)
    low, high = ticks[0][0], ticks[-1][0]
    plot = Plot(0, 1, 100.0, WIDTH, HEIGHT)

    def x(us: int) -> float:
        share = log(max(us, low) / low) / log(high / low)
        return plot.left + min(share, 1.0) * (plot.right - plot.left)

    shapes: list[Shape] = [
        Text(12, 18, "Waits in the queue: created until admitted", "ink", 14, bold=True),
        Text(12, 40, "% of workloads admitted within", "muted", 11),
    ]
    for value in (0, 25, 50, 75, 100):
        y = plot.y(value)
        shapes.append(Line(((plot.left, y), (plot.right, y)), "grid"))
        shapes.append(Text(plot.left - 8, y + 4, str(value), anchor="end"))
    for us, label in ticks:
        at = x(us)
        shapes.append(Line(((at, plot.ceiling), (at, plot.floor + 4)), "grid"))
        shapes.append(Text(at, plot.floor + 18, label, anchor="middle"))
    entries = []
    for name, colour in colours.items():
        if totals[name]:
            shapes.append(Line(distribution(plot, x, totals[name], sorted(waits[name])), colour, 1.8))
            entries.append((f"{name} ({words.count(totals[name])})", colour))
    shapes.extend(legend(plot.right, 40, entries))
    return Drawing(plot.width, plot.height, "Waits in the queue", tuple(shapes))
