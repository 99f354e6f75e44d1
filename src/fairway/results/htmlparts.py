"""Pieces of an HTML page: sections, panels, cards, tables. Text is escaped unless it says it is HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple


class Cell(NamedTuple):
    """One cell of a table; `kind` is its class: name, n (number), why, pass, fail, group."""

    text: str
    kind: str = ""
    is_html: bool = False


def section(title: str, *parts: str) -> str:
    """A heading and what belongs under it; nothing where there is nothing."""
    content = "\n".join(p for p in parts if p)
    return f"<section><h2>{escape(title)}</h2>\n{content}</section>" if content else ""


def panel(*parts: str) -> str:
    return f'<div class="panel">{"".join(parts)}</div>'


def card(label: str, value: str, below: str, ratio: float | None = None, colour: str = "c0") -> str:
    """One number, what it is, and a meter where it is a share of something."""
    meter = ""
    if ratio is not None:
        width = 100 * min(max(ratio, 0.0), 1.0)
        meter = f'<div class="meter"><i class="{colour}" style="width:{width:.1f}%"></i></div>'
    return (
        f'<div class="card"><span class="label">{escape(label)}</span><b>{escape(value)}</b>{meter}'
        f"<span>{escape(below)}</span></div>"
    )


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A row of one cell spans the table; a column's heading is aligned as its first full row is."""
    full = next((row for row in rows if len(row) == len(header)), ())
    heads = "".join(
        f'<th class="n">{escape(name)}</th>'
        if i < len(full) and full[i].kind == "n"
        else f"<th>{escape(name)}</th>"
        for i, name in enumerate(header)
    )
    lines = [_row(row, len(header)) for row in rows]
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _row(row: Sequence[Cell], width: int) -> str:
    if len(row) == 1:
        return f'<tr class="{row[0].kind}"><td colspan="{width}">{escape(row[0].text)}</td></tr>'
    cells = []
    for cell in row:
        kind = f' class="{cell.kind}"' if cell.kind else ""
        cells.append(f"<td{kind}>{cell.text if cell.is_html else escape(cell.text)}</td>")
    return f"<tr>{''.join(cells)}</tr>"
