"""A drawing as SVG text: a file by itself, or a part of a page that brings its own colours."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Sequence
from struct import pack
from xml.sax.saxutils import escape, quoteattr

from fairway.results.drawing import LIGHT, Area, Box, Drawing, Line, Picture, Point, Text

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"

# What a drawing keeps free on its left.
_MARGIN = 12


def svg_file(drawing: Drawing) -> str:
    """A complete SVG file on white paper."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {drawing.width} {drawing.height}" '
        f'width="{drawing.width}" height="{drawing.height}" role="img">\n'
    )
    paper = f'<rect width="{drawing.width}" height="{drawing.height}" fill="{LIGHT["paper"]}"/>\n'
    return f"{head}<style>{style_of(LIGHT)}</style>\n{paper}{_body(drawing)}</svg>\n"


def svg_part(drawing: Drawing, name: str) -> str:
    """For a page, which defines the classes; it scales with its container, whose margins replace its own."""
    view = f"{_MARGIN} 4 {drawing.width - _MARGIN - 6} {drawing.height - 8}"
    head = f'<svg id={quoteattr(name)} viewBox="{view}" role="img" aria-label={quoteattr(drawing.title)}>'
    return f"{head}\n{_body(drawing)}</svg>\n"


def style_of(colours: dict[str, str]) -> str:
    """Classes: `f-NAME` fills, `s-NAME` strokes."""
    rules = [f"text{{font-family:{FONT}}}", "polyline{fill:none;stroke-linejoin:round}"]
    rules += [f".f-{n}{{fill:{c}}}.s-{n}{{stroke:{c}}}" for n, c in colours.items()]
    return "".join(rules)


def _body(drawing: Drawing) -> str:
    lines = [f"<title>{escape(drawing.title)}</title>"]
    for shape in drawing.shapes:
        if isinstance(shape, Line):
            dash = ' stroke-dasharray="4 3"' if shape.dash else ""
            lines.append(
                f'<polyline class="s-{shape.colour}" stroke-width="{_n(shape.width)}"{dash} '
                f'points="{_points(shape.points)}"/>'
            )
        elif isinstance(shape, Area):
            lines.append(
                f'<polygon class="f-{shape.colour}"{_opacity(shape.opacity)} points="{_points(shape.points)}"/>'
            )
        elif isinstance(shape, Box):
            lines.append(_box(shape))
        elif isinstance(shape, Picture):
            lines.append(_picture(shape))
        else:
            lines.append(_text(shape))
    return "\n".join(lines) + "\n"


def _box(box: Box) -> str:
    key = f" data-k={quoteattr(box.key)}" if box.key else ""
    head = (
        f'<rect class="f-{box.colour}" x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" '
        f'height="{_n(box.height)}"{_opacity(box.opacity)}{key}'
    )
    return f"{head}><title>{escape(box.title)}</title></rect>" if box.title else f"{head}/>"


def _picture(picture: Picture) -> str:
    data = b64encode(png_of(picture)).decode()
    return (
        f'<image x="{_n(picture.x)}" y="{_n(picture.y)}" width="{_n(picture.width)}" '
        f'height="{_n(picture.height)}" preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{data}"/>'
    )


def png_of(picture: Picture) -> bytes:
    """The cells as a PNG, one pixel each. Source: W3C PNG, colour type 6, filter 0."""
    stride = 4 * picture.columns
    rows = [b"\0" + picture.rgba[y * stride : (y + 1) * stride] for y in range(picture.rows)]
    header = pack(">IIBBBBB", picture.columns, picture.rows, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows), 9)), (b"IEND", b""))
    parts = [pack(">I", len(d)) + n + d + pack(">I", zlib.crc32(n + d)) for n, d in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _text(text: Text) -> str:
    anchor = "" if text.anchor == "start" else f' text-anchor="{text.anchor}"'
    bold = ' font-weight="600"' if text.bold else ""
    return (
        f'<text class="f-{text.colour}" x="{_n(text.x)}" y="{_n(text.y)}" font-size="{text.size}"'
        f"{anchor}{bold}>{escape(text.text)}</text>"
    )


def _opacity(opacity: float) -> str:
    return "" if opacity == 1.0 else f' opacity="{_n(opacity)}"'


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _n(number: float) -> str:
    """A tenth of a pixel is enough."""
    return f"{number:.1f}".rstrip("0").rstrip(".") if number != int(number) else str(int(number))
