"""`-o "%.18i %.9P"` and `-O name:width`: columns of squeue, sinfo and sprio.

A column is right-justified after a dot, cut or filled to its width, and followed by the text up to the next one.
Its heading is cut as its values are. What letters and names there are is data (`data/columns.tsv`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Generic, TypeVar

from fairway.slurm.commands.call import Call

T = TypeVar("T")
Value = Callable[[T], str]
LONG_WIDTH = 20
"""Of a column of -O that names no width."""


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a format; `column` "" is text only."""

    column: str
    width: int = 0
    right: bool = False
    suffix: str = ""
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Columns:
    """What one command may print about one kind of thing."""

    by_letter: Mapping[str, str]
    by_name: Mapping[str, str]
    headings: Mapping[str, str]


@cache
def columns_of(command: str, of: str = "") -> Columns:
    text = files("fairway.slurm").joinpath("data/columns.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    mine = [row for row in rows if row[0] == command and row[1] == of]
    return Columns(
        {letter: column for _, _, column, letter, _, _ in mine if letter},
        {name: column for _, _, column, _, names, _ in mine for name in names.split(",") if name},
        {column: heading for _, _, column, _, _, heading in mine},
    )


def short_format(
    call: Call,
    columns: Columns,
    text: str,
    complaint: Callable[[str], None],
    *,
    shown: bool = True,
    all_columns: bool = True,
) -> list[Field]:
    """Read `-o`. complaint: told the letter of a column that is none; shown: whether its text is printed instead;
    all_columns: `%all` names every column."""
    prefix, _percent, rest = text.partition("%")
    fields = [Field("", suffix=prefix)] if prefix else []
    if all_columns and text.lower() == "%all":
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        blank = " " if call.name == "sinfo" else ""
        return [
            Field(
                columns.by_letter[x],
                suffix=(blank if x.isupper() else "") + ("|" if x != "Z" else ""),
                heading=columns.headings[columns.by_letter[x]],
            )
            for x in letters
            if x in columns.by_letter
        ]
    for token in filter(None, rest.split("%")):
        found = re.fullmatch(r"(\.?)(\d*)(.)(.*)", token, re.DOTALL)
        if found is None:
            continue
        right, width, letter, suffix = bool(found[1]), int(found[2][:6] or 0), found[3], found[4]
        column = columns.by_letter.get(letter)
        if column is not None:
            fields.append(Field(column, width, right, suffix, columns.headings[column]))
            continue
        complaint(letter)
        if shown:
            fields.append(Field("", suffix=f"%{token}"))
    return fields


def long_format(call: Call, columns: Columns, text: str, of: str = "job") -> list[Field]:
    """Read `-O`: names with widths, joined without a blank. of: what a name that is none is said to be no field of."""
    fields = []
    for token in filter(None, text.split(",")):
        name, colon, size = token.partition(":")
        found = re.match(r"(\.?)(-?\d+|)(.*)", size, re.DOTALL)
        assert found is not None
        column = columns.by_name.get(name.lower())
        if column is None:
            call.error(f"Invalid {of} format specification: {name}")
            continue
        width = int(found[2][:6] or 0) if colon else LONG_WIDTH
        if width >= 0:
            fields.append(Field(column, width, bool(found[1]), found[3], columns.headings[column]))
        elif call.name == "sinfo":  # it prints by "%.-20s", which glibc knows not and writes out
            fields.append(Field("", suffix=f"%.0{width}s{found[3]}"))
        else:  # as it is, and a blank (_print_str of squeue)
            fields.append(Field(column, suffix=f" {found[3]}", heading=columns.headings[column]))
    return fields


def fitted(text: str, width: int, right: bool, cut: bool = True) -> str:
    """Cut and filled to a width; 0 leaves it as it is. Right-justified text that must not be cut may be longer."""
    if width <= 0:
        return text
    if right:
        text = text.rjust(width)
        return text[:width] if cut else text
    if text == "(null)" and width < len(text):  # printf("%.5s", NULL) of glibc writes nothing
        text = ""
    return text[:width].ljust(width)


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """How one kind of thing is printed: a function a column, and the columns that are not cut when right-justified."""

    values: Mapping[str, Value[T]]
    uncut: frozenset[str] = frozenset()

    def heading(self, fields: list[Field]) -> str:
        return "".join(fitted(f.heading, f.width, f.right) + f.suffix for f in fields)

    def line(self, fields: list[Field], thing: T) -> str:
        return "".join(
            fitted(
                self.values[f.column](thing) if f.column else "", f.width, f.right, f.column not in self.uncut
            )
            + f.suffix
            for f in fields
        )
