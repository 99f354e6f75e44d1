"""A drawing as PNG, with Pillow and the font that comes with it: no system library, no installed fonts."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fairway.results.drawing import LIGHT, Area, Box, Drawing, Line, Picture, Point, Text

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

# Pixels of the image per pixel of the drawing, and how much larger it is painted to smooth its edges.
SCALE = 2
_OVERSAMPLED = 2
_DASH_ON, _DASH_OFF = 4, 3


def png_bytes(drawing: Drawing) -> bytes:
    """The drawing on white paper, at twice its size."""
    from PIL import Image, ImageDraw

    zoom = SCALE * _OVERSAMPLED
    image = Image.new("RGB", (drawing.width * zoom, drawing.height * zoom), LIGHT["paper"])
    draw = ImageDraw.Draw(image, "RGBA")
    for shape in drawing.shapes:
        if isinstance(shape, Line):
            _line(draw, shape, zoom)
        elif isinstance(shape, Area):
            draw.polygon(
                [(x * zoom, y * zoom) for x, y in shape.points], fill=_rgba(shape.colour, shape.opacity)
            )
        elif isinstance(shape, Box):
            _box(draw, shape, zoom)
        elif isinstance(shape, Picture):
            cells = Image.frombytes("RGBA", (shape.columns, shape.rows), shape.rgba)
            cells = cells.resize(
                (round(shape.width * zoom), round(shape.height * zoom)), Image.Resampling.NEAREST
            )
            image.paste(cells, (round(shape.x * zoom), round(shape.y * zoom)), cells)
    image = image.reduce(_OVERSAMPLED)
    # Letters keep their hinting: they are drawn at their own size, last.
    draw = ImageDraw.Draw(image)
    for shape in drawing.shapes:
        if isinstance(shape, Text):
            _text(draw, shape)
    out = BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _rgba(colour: str, opacity: float = 1.0) -> tuple[int, int, int, int]:
    text = LIGHT[colour]
    return (int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16), round(255 * opacity))


def _line(draw: ImageDraw, line: Line, zoom: int) -> None:
    points = [(x * zoom, y * zoom) for x, y in line.points]
    width = max(round(line.width * zoom), 1)
    for part in _dashes(points, zoom) if line.dash else [points]:
        draw.line(part, fill=_rgba(line.colour), width=width, joint="curve")


def _dashes(points: list[Point], zoom: int) -> list[list[Point]]:
    """The pieces of a path that a dashed line shows."""
    parts: list[list[Point]] = []
    left, is_on = float(_DASH_ON * zoom), True
    for (x0, y0), (x1, y1) in pairwise(points):
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        done = 0.0
        while done < length:
            step = min(left, length - done)
            if is_on:
                a, b = done / length, (done + step) / length
                parts.append(
                    [(x0 + (x1 - x0) * a, y0 + (y1 - y0) * a), (x0 + (x1 - x0) * b, y0 + (y1 - y0) * b)]
                )
            done += step
            left -= step
            if left <= 0:
                is_on = not is_on
                left = float((_DASH_ON if is_on else _DASH_OFF) * zoom)
    return parts


def _box(draw: ImageDraw, box: Box, zoom: int) -> None:
    x0, y0 = box.x * zoom, box.y * zoom
    x1, y1 = (box.x + box.width) * zoom - 1, (box.y + box.height) * zoom - 1
    if x1 >= x0 and y1 >= y0:
        draw.rectangle((x0, y0, x1, y1), fill=_rgba(box.colour, box.opacity))


def _text(draw: Any, text: Text) -> None:
    from PIL import ImageFont

    font = ImageFont.load_default(text.size * SCALE)
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[text.anchor]
    at = (text.x * SCALE, text.y * SCALE)
    # The font has no bold face: two strokes half a pixel apart look like one.
    for shift in (0, 1) if text.bold else (0,):
        draw.text((at[0] + shift, at[1]), text.text, font=font, fill=_rgba(text.colour), anchor=anchor)
