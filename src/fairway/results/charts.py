"""The charts of a run: allocation and use, who held the GPUs, what waited, how long, and fragmentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

from fairway.recorder.tables import Outcome
from fairway.results import words
from fairway.results.axes import duration_ticks
from fairway.results.drawing import Drawing, Line, Shape, Text
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
from fairway.results.queuecharts import queue_charts
from fairway.results.resample import on_grid
from fairway.results.run import Run
from fairway.results.scalingcharts import scaling_charts
from fairway.results.shares import GROUPS, REST, held_by, namespace_colours

# Stretches a line is drawn in at most: two pixels each.
BINS = 440
_ALL_PODS = "all pods"


def charts_of(run: Run) -> dict[str, Drawing]:
    """Every chart that this run has data for, by file name."""
    found: dict[str, Drawing] = {}
    for name, make in _CHARTS.items():
        drawing = make(run.outcome)
        if drawing is not None:
            found[name] = drawing
    return {**found, **scaling_charts(run.outcome), **queue_charts(run.outcome)}


def _edges(outcome: Outcome) -> tuple[int, ...]:
    series = outcome.series
    if len(series) <= BINS:
        return (*series.columns["start_us"], outcome.ended_us)
    span = outcome.duration_us
    return tuple(outcome.began_us + i * span // BINS for i in range(BINS + 1))


def _values(outcome: Outcome, name: str, unit: float = 1.0) -> list[float]:
    """A column over `_edges`; what is unknown counts as 0."""
    series = outcome.series
    column: Sequence[float | None] = (
        series.columns[name] if len(series) <= BINS else on_grid(series, name, BINS)
    )
    return [0.0 if v is None else v / unit for v in column]


def _drawing(plot: Plot, title: str, shapes: Sequence[Shape], readout: dict[str, object]) -> Drawing:
    return Drawing(plot.width, plot.height, title, tuple(shapes), readout)


def _readout(
    plot: Plot, edges: Sequence[int], unit: str, columns: Sequence[tuple[str, str, Sequence[float]]]
) -> dict[str, object]:
    """What a page needs to say what is under the pointer."""
    return {
        "box": [plot.left, plot.ceiling, plot.right, plot.floor],
        "edges_s": [e // 1_000_000 for e in edges],
        "unit": unit,
        "series": [
            {"name": name, "colour": colour, "values": [round(v, 3) for v in values]}
            for name, colour, values in columns
        ],
    }


def allocation(outcome: Outcome) -> Drawing | None:
    """GPUs there are, allocated, and in use."""
    if not outcome.integrals.get("gpu_milli_total"):
        return None
    edges = _edges(outcome)
    total = _values(outcome, "gpu_milli_total", 1000)
    held = _values(outcome, "gpu_milli_allocated", 1000)
    plot, ticks = plot_for(outcome.began_us, outcome.ended_us, max(*total, *held))
    shapes = frame(plot, "GPUs allocated and used", "GPUs", ticks)
    shapes.append(step_area(plot, edges, held, "c0", 0.30))
    shapes.append(Line(step_points(plot, edges, held), "c0", 1.6))
    columns = [("in the cluster", "muted", total), ("allocated", "c0", held)]
    if outcome.integrals.get("gpu_milli_told"):
        used = _values(outcome, "gpu_milli_used", 1000)
        shapes.append(step_area(plot, edges, used, "c1", 0.45))
        shapes.append(Line(step_points(plot, edges, used), "c1", 1.6))
        columns.append(("used, as far as told", "c1", used))
    shapes.append(Line(step_points(plot, edges, total), "muted", 1.4, dash=True))
    shapes.extend(legend(plot.right, 40, [(name, colour) for name, colour, _ in columns]))
    return _drawing(plot, "GPUs allocated and used", shapes, _readout(plot, edges, "GPUs", columns))


def holders(outcome: Outcome) -> Drawing | None:
    """Allocated GPUs by namespace, stacked."""
    shares = held_by(outcome, "namespace", BINS, GROUPS)
    if len(shares.names) < 2:
        return None
    colours = namespace_colours(outcome)
    totals = [sum(column) for column in zip(*shares.values, strict=True)]
    plot, ticks = plot_for(outcome.began_us, outcome.ended_us, max(totals))
    shapes = frame(plot, "GPUs allocated by namespace", "GPUs", ticks)
    heights = list(totals)
    columns: list[tuple[str, str, Sequence[float]]] = []
    # From the top of the stack down, each area over the one before.
    for i in reversed(range(len(shares.names))):
        colour = colours.get(shares.names[i], REST)
        shapes.append(step_area(plot, shares.edges, heights, colour))
        heights = [h - v for h, v in zip(heights, shares.values[i], strict=True)]
        columns.insert(0, (shares.names[i], colour, shares.values[i]))
    shapes.extend(legend(plot.right, 40, [(name, colour) for name, colour, _ in columns]))
    return _drawing(
        plot, "GPUs allocated by namespace", shapes, _readout(plot, shares.edges, "GPUs", columns)
    )


def queue(outcome: Outcome) -> Drawing | None:
    """Workloads and pods that wait."""
    if not len(outcome.series):
        return None
    edges = _edges(outcome)
    waiting, pods = _values(outcome, "queue_length"), _values(outcome, "pods_pending")
    plot, ticks = plot_for(outcome.began_us, outcome.ended_us, max(*waiting, *pods, 1))
    shapes = frame(plot, "Queue length", "waiting", ticks)
    shapes.append(step_area(plot, edges, pods, "c4", 0.35))
    shapes.append(Line(step_points(plot, edges, pods), "c4", 1.4))
    shapes.append(Line(step_points(plot, edges, waiting), "c5", 1.8))
    columns = [("pods without a node", "c4", pods), ("workloads", "c5", waiting)]
    shapes.extend(legend(plot.right, 40, [(name, colour) for name, colour, _ in columns]))
    return _drawing(plot, "Queue length", shapes, _readout(plot, edges, "", columns))


def fragmentation(outcome: Outcome) -> Drawing | None:
    """Free GPU, and the part of it that the run's pods could not use."""
    series = outcome.series
    if not any(f is not None for f in series.column("fragmentation")):
        return None
    edges = _edges(outcome)
    total, held = _values(outcome, "gpu_milli_total", 1000), _values(outcome, "gpu_milli_allocated", 1000)
    free = [max(t - h, 0.0) for t, h in zip(total, held, strict=True)]
    lost = [f * s for f, s in zip(free, _values(outcome, "fragmentation"), strict=True)]
    plot, ticks = plot_for(outcome.began_us, outcome.ended_us, max(*free, 1))
    shapes = frame(plot, "Free GPUs, and those no pod of this run fits", "GPUs", ticks)
    shapes.append(step_area(plot, edges, free, "c2", 0.30))
    shapes.append(Line(step_points(plot, edges, free), "c2", 1.4))
    shapes.append(step_area(plot, edges, lost, "c5", 0.55))
    shapes.append(Line(step_points(plot, edges, lost), "c5", 1.4))
    columns = [("free", "c2", free), ("of no use to the pods seen (expected)", "c5", lost)]
    shapes.extend(legend(plot.right, 40, [(name, colour) for name, colour, _ in columns]))
    return _drawing(
        plot, "Free GPUs, and those no pod of this run fits", shapes, _readout(plot, edges, "GPUs", columns)
    )


def waits(outcome: Outcome) -> Drawing | None:
    """Which share of the pods had started after how long: one line per namespace, on a logarithmic axis."""
    groups = _wait_groups(outcome)
    longest = max((group[-1] for _, _, group in groups if group), default=None)
    if longest is None:
        return None
    ticks = duration_ticks(1_000_000, longest)
    low, high = ticks[0][0], ticks[-1][0]
    plot = Plot(0, 1, 100.0, WIDTH, HEIGHT)

    def x(us: int) -> float:
        share = log(max(us, low) / low) / log(high / low)
        return plot.left + min(share, 1.0) * (plot.right - plot.left)

    shapes: list[Shape] = [
        Text(12, 18, "Waits: created until running", "ink", 14, bold=True),
        Text(12, 40, "% of pods started within", "muted", 11),
    ]
    for value in (0, 25, 50, 75, 100):
        y = plot.y(value)
        shapes.append(Line(((plot.left, y), (plot.right, y)), "grid"))
        shapes.append(Text(plot.left - 8, y + 4, str(value), anchor="end"))
    for us, label in ticks:
        at = x(us)
        shapes.append(Line(((at, plot.ceiling), (at, plot.floor + 4)), "grid"))
        shapes.append(Text(at, plot.floor + 18, label, anchor="middle"))
    colours = namespace_colours(outcome)
    entries = []
    for name, total, group in groups:
        colour = "ink" if name == _ALL_PODS else colours.get(name, REST)
        shapes.append(Line(distribution(plot, x, total, group), colour, 1.8, dash=name == _ALL_PODS))
        entries.append((f"{name} ({words.count(total)})", colour))
    shapes.extend(legend(plot.right, 40, entries))
    return Drawing(plot.width, plot.height, "Waits", tuple(shapes))


def _wait_groups(outcome: Outcome) -> list[tuple[str, int, list[int]]]:
    """Name, pods, and the waits of those that started (sorted), of all pods and of the largest namespaces."""
    by: dict[str, tuple[list[int], list[int]]] = {}
    pods = outcome.pods
    columns = (pods.columns[n] for n in ("namespace", "created_us", "started_us"))
    for namespace, created, started in zip(*columns, strict=True):
        total, found = by.setdefault(namespace, ([0], []))
        total[0] += 1
        if started is not None:
            found.append(started - created)
    largest = sorted(by, key=lambda n: (-by[n][0][0], n))[: GROUPS - 1]
    groups = [(name, by[name][0][0], sorted(by[name][1])) for name in sorted(largest)]
    if len(by) < 2:
        return groups
    everything = sorted(wait for _, found in by.values() for wait in found)
    return [(_ALL_PODS, len(pods), everything), *groups]


_CHARTS: dict[str, Callable[[Outcome], Drawing | None]] = {
    "allocation": allocation,
    "holders": holders,
    "queue": queue,
    "waits": waits,
    "fragmentation": fragmentation,
}
