"""The frame every chart stands in: title, axes with units, grid, legend, and steps drawn as steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairway.results.axes import time_ticks, value_label, value_ticks
from fairway.results.drawing import Area, Box, Line, Point, Shape, Text

WIDTH = 960
HEIGHT = 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 16, 52, 30


@dataclass(frozen=True, slots=True)
class Plot:
    """A plotting area with a time axis below and values on the left; knows where things go."""

    start_us: int
    end_us: int
    top: float
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def left(self) -> int:
        return _LEFT

    @property
    def right(self) -> int:
        return self.width - _RIGHT

    @property
    def ceiling(self) -> int:
        return _TOP

    @property
    def floor(self) -> int:
        return self.height - _BOTTOM

    def x(self, at_us: float) -> float:
        share = (at_us - self.start_us) / max(self.end_us - self.start_us, 1)
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.floor - value / self.top * (self.floor - self.ceiling)


def plot_for(start_us: int, end_us: int, highest: float) -> tuple[Plot, list[float]]:
    """A plot whose top is a round value, and the ticks up to it."""
    ticks = value_ticks(highest)
    return Plot(start_us, end_us, ticks[-1]), ticks


def frame(plot: Plot, title: str, unit: str, ticks: Sequence[float]) -> list[Shape]:
    """Title, grid and both axes."""
    shapes: list[Shape] = [
        Text(_LEFT - 46, 18, title, "ink", 14, bold=True),
        Text(_LEFT - 46, 40, unit, "muted", 11),
    ]
    for value in ticks:
        y = plot.y(value)
        shapes.append(Line(((plot.left, y), (plot.right, y)), "grid"))
        shapes.append(Text(plot.left - 8, y + 4, value_label(value), anchor="end"))
    for at, label in time_ticks(plot.start_us, plot.end_us):
        x = plot.x(at)
        shapes.append(Line(((x, plot.floor), (x, plot.floor + 4)), "muted"))
        shapes.append(Text(x, plot.floor + 18, label, anchor="middle"))
    return shapes


def legend(right: float, baseline: float, entries: Sequence[tuple[str, str]]) -> list[Shape]:
    """(name, colour) each, ending at `right`."""
    shapes: list[Shape] = []
    x = right
    for name, colour in reversed(entries):
        # Letters of this size are about six pixels wide.
        x -= 6.2 * len(name)
        shapes.append(Text(x, baseline, name, "ink", 11))
        x -= 16
        shapes.append(Box(x, baseline - 9, 11, 11, colour))
        x -= 14
    return shapes


def step_points(plot: Plot, edges: Sequence[int], values: Sequence[float]) -> tuple[Point, ...]:
    """Along the top of the steps: value i holds from edge i to edge i + 1. Level stretches are one piece."""
    points: list[Point] = []
    before: float | None = None
    for i, value in enumerate(values):
        y = plot.y(value)
        if y != before:
            if before is not None:
                points.append((plot.x(edges[i]), before))
            points.append((plot.x(edges[i]), y))
            before = y
    if before is not None:
        points.append((plot.x(edges[len(values)]), before))
    return tuple(points)


def step_area(
    plot: Plot, edges: Sequence[int], values: Sequence[float], colour: str, opacity: float = 1.0
) -> Area:
    """From the floor up to the steps."""
    tops = step_points(plot, edges, values)
    if not tops:
        return Area((), colour)
    return Area(((tops[0][0], plot.floor), *tops, (tops[-1][0], plot.floor)), colour, opacity)


def distribution(
    plot: Plot, x: Callable[[int], float], total: int, ordered: Sequence[int]
) -> tuple[Point, ...]:
    """Steps up to the share of `total`, in percent, that `ordered` values reach; at most one step a pixel."""
    points: list[Point] = [(float(plot.left), plot.y(0))]
    for i, value in enumerate(ordered):
        at, y = x(value), plot.y(100.0 * (i + 1) / total)
        if len(points) > 1 and at - points[-1][0] < 1.0:
            points[-1] = (points[-1][0], y)
        else:
            points.extend([(at, points[-1][1]), (at, y)])
    points.append((float(plot.right), points[-1][1]))
    return tuple(points)
