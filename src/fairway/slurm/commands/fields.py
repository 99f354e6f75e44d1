"""Tables of sacct, sacctmgr, sshare, sreport and sstat: `--format=JobID%10,State`, `-p`, `-P`.

A field too long ends in `+`; a negative width stands left. What fields there are is data (`data/fields.tsv`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Column:
    """`field` tells what it is, `heading` what stands above, `width` how wide (negative: left-justified)."""

    field: str
    heading: str
    width: int


@dataclass(frozen=True, slots=True)
class Style:
    """parsable: 0 a table, 1 `|` after every field, 2 between fields."""

    parsable: int = 0
    header: bool = True
    delimiter: str = "|"


@cache
def fields_of(command: str) -> tuple[tuple[str, int, Column], ...]:
    """Name, letters that are enough, column."""
    text = files("fairway.slurm").joinpath("data/fields.tsv").read_text(encoding="utf-8")
    found = []
    for line in text.splitlines()[1:]:
        of, name, least, field, heading, width = line.split("\t")
        if of == command:
            found.append((name, int(least), Column(field, heading, int(width))))
    return tuple(found)


def find_column(command: str, word: str) -> Column | None:
    """The column a word of --format names (`JobID%10`), None for no field. A name may be cut short."""
    name, percent, size = word.partition("%")
    lower = name.lower()
    for full, least, column in fields_of(command):
        if len(lower) >= least and full.lower().startswith(lower):
            width = size.lstrip("-")
            if percent and width.isdecimal() and int(width):
                return replace(column, width=int(size[:6]))
            return column
    return None


def cell(text: str, column: Column) -> str:
    wide = abs(column.width)
    if len(text) > wide:
        text = text[: wide - 1] + "+"
    return text.rjust(wide) if column.width > 0 else text.ljust(wide)


def heading_lines(columns: Sequence[Column], style: Style) -> list[str]:
    if not style.header:
        return []
    if style.parsable:
        return [joined([c.heading for c in columns], columns, style)]
    names = "".join(_heading(c) + " " for c in columns)
    return [names, "".join("-" * abs(c.width) + " " for c in columns)]


def _heading(column: Column) -> str:
    text = column.heading[: abs(column.width)]
    return text.rjust(column.width) if column.width > 0 else text.ljust(-column.width)


def joined(values: Iterable[str], columns: Sequence[Column], style: Style) -> str:
    """One line of a table."""
    if style.parsable:
        text = style.delimiter.join(values)
        return text + (style.delimiter if style.parsable == 1 else "")
    return "".join(cell(v, c) + " " for v, c in zip(values, columns, strict=True))


def help_lines(names: Sequence[str], gap: int, columns: int = 4) -> str:
    """--helpformat: names in columns."""
    cells = [name.ljust(gap - 1) for name in names]
    return "\n".join(" ".join(cells[at : at + columns]) for at in range(0, len(cells), columns))
