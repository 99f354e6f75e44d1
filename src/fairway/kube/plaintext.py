"""How does a text that somebody else chose look in a spreadsheet, or on a terminal? As the text it is.

A cell that begins like a formula is one to a spreadsheet (`=cmd|…`); it gets an apostrophe, which says: text. Control
characters would move a terminal's cursor, colour what follows or set its title; they are written out.

Source: OWASP, CSV injection.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-]?[0-9][0-9.,]*$"
_STARTS, _IS_NUMBER = re.compile(_FORMULA), re.compile(_NUMBER)
# Everything that is not printed, but for line ends and tabs; and what turns the direction of writing.
_UNPRINTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def plain_cell(value: Any) -> Any:
    """A cell of a CSV file. `cell_text` reads it back."""
    if not isinstance(value, str):
        return value
    is_formula = _STARTS.match(value) and not _IS_NUMBER.match(value)
    return f"'{value}" if is_formula or cell_text(value) != value else value


def cell_text(cell: str) -> str:
    """What `plain_cell` made the cell of: apostrophes before a formula are one fewer."""
    return cell[1:] if cell.startswith("'") and _STARTS.match(cell.lstrip("'")) else cell


def plain_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Every text of a table as `plain_cell` has it."""
    import polars as pl

    text = pl.col(pl.String)
    is_formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
    return frame.with_columns(pl.when(is_formula).then(pl.lit("'") + text).otherwise(text).name.keep())


def printed(text: str) -> str:
    """A text for a terminal: what would not be printed is written out, as `\\x1b`."""
    return _UNPRINTED.sub(_written_out, text) if not text.isprintable() else text


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
