"""Lines of text that fit: tables, sparklines, headings, with or without colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairway.kube.plaintext import printed
from fairway.results.words import NOTHING, cut

PLAIN, HEADING, TITLE, GOOD, BAD, DIM = "", "heading", "title", "good", "bad", "dim"
_ANSI = {HEADING: "1", TITLE: "1", GOOD: "32", BAD: "31;1", DIM: "2"}
_BLOCKS = "▁▂▃▄▅▆▇█"
_GAP = "  "


class Line(NamedTuple):
    """One line, and what kind of line it is."""

    text: str
    kind: str = PLAIN


def as_text(lines: Sequence[Line], *, colour: bool = False) -> str:
    """The lines as they are printed, ending in a newline."""
    out = []
    for line in lines:
        text = printed(line.text.rstrip())
        code = _ANSI.get(line.kind) if colour else None
        out.append(f"\x1b[{code}m{text}\x1b[0m" if code and text else text)
    return "\n".join(out) + "\n"


def sparkline(values: Sequence[float | None], top: float) -> str:
    """One block per value, from 0 to `top`; a blank where there is none."""
    out = []
    for value in values:
        if value is None:
            out.append(" ")
        elif top <= 0:
            out.append(_BLOCKS[0])
        else:
            out.append(_BLOCKS[min(int(value / top * len(_BLOCKS)), len(_BLOCKS) - 1)])
    return "".join(out)


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, left: Sequence[int] = (0,)
) -> list[Line]:
    """A table within `width`: columns in `left` are aligned left, others right; the widest left column gives way.

    Columns that are empty in every row are dropped.
    """
    kept = [i for i in range(len(header)) if any(row[i] not in ("", NOTHING) for row in rows)]
    widths = {i: max(len(header[i]), *(len(row[i]) for row in rows if any(row[1:]))) for i in kept}
    over = sum(widths.values()) + len(_GAP) * len(kept) - width
    if over > 0:
        giving = max((i for i in kept if i in left), key=lambda i: widths[i])
        widths[giving] = max(widths[giving] - over, 8)

    def line(row: Sequence[str]) -> str:
        if not any(row[1:]):
            return cut(_GAP + row[0], width)  # a heading within the table
        cells = []
        for i in kept:
            text = cut(row[i], widths[i])
            cells.append(text.ljust(widths[i]) if i in left else text.rjust(widths[i]))
        return cut((_GAP + _GAP.join(cells)).rstrip(), width)

    return [Line(line(header), DIM), *(Line(line(row)) for row in rows)]


def wrapped(text: str, width: int, indent: str = "  ") -> list[Line]:
    """A sentence over as many lines as it takes."""
    from textwrap import wrap

    return [Line(indent + part) for part in wrap(text, max(width - len(indent), 20))]


def both_ends(left: str, right: str, width: int) -> str:
    """Left and right, pushed apart; the left gives way."""
    room = max(width - len(right) - 2, 8)
    return cut(left, room).ljust(room) + _GAP + right
