"""Tables as Polars frames and Parquet files, and back.

Column types follow from the row's field types: int → Int64, `int | None` → Int64 with nulls, float → Float64,
bool → Boolean, str → String. Labels and other maps are JSON text (keys sorted), so that any tool reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fairway.errors import FieldProblem, InvalidInput
from fairway.recorder.tables import Table
from fairway.results.atomic import replace_file

if TYPE_CHECKING:
    import polars as pl

Row = TypeVar("Row")

_MAPPING, _TUPLE = "Mapping[str, str]", "tuple[str, ...]"


def schema_of(row: type[Any]) -> dict[str, Any]:
    """The Polars type of every column."""
    import polars as pl

    types: dict[str, Any] = {
        "int": pl.Int64,
        "int | None": pl.Int64,
        "float": pl.Float64,
        "float | None": pl.Float64,
        "bool": pl.Boolean,
        "str": pl.String,
        _MAPPING: pl.String,
        _TUPLE: pl.String,
    }
    return {f.name: types[str(f.type)] for f in fields(row)}


def frame_of(table: Table[Row], row: type[Row]) -> pl.DataFrame:
    import polars as pl

    kinds = {f.name: str(f.type) for f in fields(row)}  # type: ignore[arg-type]
    columns = {
        name: _as_text(column) if kinds[name] in (_MAPPING, _TUPLE) else column
        for name, column in table.columns.items()
    }
    return pl.DataFrame(columns, schema=schema_of(row))


def _as_text(column: Any) -> list[str]:
    """Maps and tuples as JSON; equal objects are encoded once."""
    known: dict[int, str] = {}
    texts = []
    for value in column:
        text = known.get(id(value))
        if text is None:
            plain = dict(value) if isinstance(value, Mapping) else list(value)
            text = known[id(value)] = json.dumps(plain, sort_keys=True, ensure_ascii=False)
        texts.append(text)
    return texts


def write_table(table: Table[Row], row: type[Row], path: Path) -> None:
    """As Parquet, whole or not at all."""
    frame = frame_of(table, row)
    replace_file(path, lambda to: frame.write_parquet(to, compression="zstd", statistics=True))


def read_table(path: Path, row: type[Row]) -> Table[Row]:
    """The table a Parquet file holds. Columns this version does not know are left alone.

    Raises: InvalidInput for a file that is no such table.
    """
    import polars as pl

    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as broken:
        raise InvalidInput(
            (FieldProblem(str(path), 0, "", "", f"expected a Parquet file: {broken}"),)
        ) from None
    columns: dict[str, Any] = {}
    for field in fields(row):  # type: ignore[arg-type]
        if field.name not in frame.columns:
            if field.default is not MISSING:
                # Written before there was such a column.
                columns[field.name] = [field.default] * len(frame)
                continue
            expected = f"expected a column of this name, as `fairway simulate` writes it; has {frame.columns}"
            raise InvalidInput((FieldProblem(str(path), 0, field.name, "", expected),))
        values = frame[field.name].to_list()
        kind = str(field.type)
        columns[field.name] = _from_text(values, kind) if kind in (_MAPPING, _TUPLE) else values
    return Table(row, columns)


def _from_text(values: list[str], kind: str) -> list[Any]:
    known: dict[str, Any] = {}
    for text in values:
        if text not in known:
            value = json.loads(text)
            known[text] = value if kind == _MAPPING else tuple(value)
    return [known[text] for text in values]
