"""The charts of a run as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fairway.errors import WorldError
from fairway.extras import have
from fairway.results.atomic import replace_bytes, replace_text
from fairway.results.charts import charts_of
from fairway.results.drawing import Drawing
from fairway.results.png import png_bytes
from fairway.results.run import Run
from fairway.results.svg import svg_file
from fairway.results.timeline import detailed, heat_map


def write_plots(run: Run, directory: Path) -> tuple[str, ...]:
    """`NAME.svg` and `NAME.png` for every chart that this run has data for; returns the names."""
    drawings = charts_of(run)
    for name, drawn in (("nodes", heat_map(run.outcome)), ("timeline", detailed(run.outcome))):
        if drawn is not None:
            drawings[name] = drawn.drawing
    return write_drawings(drawings, directory)


def forms() -> str:
    """What charts are written as here, in words."""
    return "SVG and PNG" if have("PIL") else "SVG (pip install 'fairway[png]' for PNG)"


def write_drawings(drawings: Mapping[str, Drawing], directory: Path) -> tuple[str, ...]:
    """`NAME.svg` and, where Pillow is installed, `NAME.png` of each; returns the names."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as failed:
        raise WorldError(f"{directory}: cannot be made: {failed.strerror or failed}") from failed
    for name, drawing in drawings.items():
        replace_text(directory / f"{name}.svg", svg_file(drawing))
        if have("PIL"):
            replace_bytes(directory / f"{name}.png", png_bytes(drawing))
    return tuple(drawings)
