"""How commands print: tables of at most 100 columns, or JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer

from fairway.errors import UserError

FORMATS = ("table", "json")
MAX_WIDTH = 100


def check_output(output: str, formats: Sequence[str] = FORMATS) -> None:
    """Raises: UserError for a format this command does not have."""
    if output not in formats:
        raise UserError(f"--output {output!r}: expected one of {', '.join(formats)}")


def print_json(data: Any) -> None:
    """Indented, keys in the order given, ending in a newline."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(data), indent=2)
    sys.stdout.write(text.decode() + "\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Lines of a plain table; `right` are the columns aligned right. The last column is cut to fit the width."""
    widths = [max(len(str(r[i])) for r in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [
            str(c).rjust(w) if i in right else str(c).ljust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        lines.append(line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…")
    return lines


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    for line in table(header, rows, right):
        typer.echo(line)
