"""A chart as shapes: drawn once, rendered as SVG or PNG alike.

Coordinates are pixels from the top left. Colours are names of roles (`ink`, `grid`, `c0` …), so that a page can
give them other values in the dark; `LIGHT` and `DARK` are ours. The series colours are told apart with every
common colour vision deficiency.
Source of the series colours: Okabe and Ito, Color Universal Design (2008); yellow darkened for white paper.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1f2933",
    "muted": "#66727f",
    "grid": "#e3e7eb",
    "c0": "#0072b2",
    "c1": "#e69f00",
    "c2": "#009e73",
    "c3": "#cc79a7",
    "c4": "#56b4e9",
    "c5": "#d55e00",
    "c6": "#a39a1e",
    "c7": "#7f7f8c",
}
DARK = {
    "paper": "#14181d",
    "ink": "#e4e8ec",
    "muted": "#98a3af",
    "grid": "#2b323a",
    "c0": "#4aa3df",
    "c1": "#f0b429",
    "c2": "#2fc79a",
    "c3": "#dd9cc0",
    "c4": "#8fd0f5",
    "c5": "#f0803c",
    "c6": "#d9cf4a",
    "c7": "#a0a0ad",
}
SERIES_COLOURS = ("c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7")

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    points: tuple[Point, ...]
    colour: str
    width: float = 1.0
    dash: bool = False


@dataclass(frozen=True, slots=True)
class Area:
    """A filled polygon."""

    points: tuple[Point, ...]
    colour: str
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Box:
    """A filled rectangle; `key` lets a page find what it stands for."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    opacity: float = 1.0
    key: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """`anchor`: start, middle or end; `y` is the baseline."""

    x: float
    y: float
    text: str
    colour: str = "muted"
    size: int = 11
    anchor: str = "start"
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A grid of cells, stretched without smoothing: `rgba` holds 4 bytes per cell, row by row."""

    x: float
    y: float
    width: float
    height: float
    columns: int
    rows: int
    rgba: bytes


Shape = Line | Area | Box | Text | Picture


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes in the order they are painted. `readout` is what a page shows under the pointer, as plain data."""

    width: int
    height: int
    title: str
    shapes: tuple[Shape, ...]
    readout: dict[str, Any] = field(default_factory=dict)
