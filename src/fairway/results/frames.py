"""Tables as files, and back: Parquet where Polars is installed, else columns as gzipped JSON.

A JSON table is one object, `{"columns": {"name": […], …}}`: equal runs give equal bytes. Either is read wherever the
library for it is there.

Column types in Parquet follow from the row's field types: int → Int64, `int | None` → Int64 with nulls, float →
Float64, bool → Boolean, str → String. Labels and other maps are JSON text (keys sorted), so that any tool reads them.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from fairway.errors import FieldProblem, InvalidInput
from fairway.extras import have, need
from fairway.recorder.tables import Table
from fairway.results.atomic import replace_bytes, replace_file

if TYPE_CHECKING:
    import polars as pl

Row = TypeVar("Row")

PARQUET, JSON = ".parquet", ".json.gz"
SUFFIXES = (PARQUET, JSON)
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


def suffix() -> str:
    """What the tables written here are called after their names."""
    return PARQUET if have("polars") else JSON


def table_file(directory: Path, name: str) -> Path | None:
    """The file of a table, in whichever form it is there."""
    return next((f for s in SUFFIXES if (f := directory / f"{name}{s}").exists()), None)


def write_table(table: Table[Row], row: type[Row], directory: Path, name: str) -> None:
    """The table's file, whole or not at all."""
    path = directory / f"{name}{suffix()}"
    if path.suffix == PARQUET:
        frame = frame_of(table, row)
        replace_file(path, lambda to: frame.write_parquet(to, compression="zstd", statistics=True))
    else:
        write_columns(path, table.columns)


def write_columns(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """As gzipped JSON. Maps are objects with sorted keys, tuples are arrays."""
    plain = {name: [*column] for name, column in columns.items()}
    text = msgspec.json.encode({"columns": plain}, order="deterministic", enc_hook=dict)
    replace_bytes(path, gzip.compress(text, compresslevel=3, mtime=0))


def read_table(path: Path, row: type[Row]) -> Table[Row]:
    """The table that a file holds. Columns this version does not know are left alone.

    Raises: InvalidInput for a file that is no such table; WorldError for Parquet without Polars.
    """
    held = read_columns(path)
    length = len(next(iter(held.values()), ()))
    columns: dict[str, Any] = {}
    for field in fields(row):  # type: ignore[arg-type]
        if field.name not in held:
            if field.default is not MISSING:
                # Written before there was such a column.
                columns[field.name] = [field.default] * length
                continue
            expected = f"expected a column of this name, as `fairway simulate` writes it; has {[*held]}"
            raise InvalidInput((FieldProblem(str(path), 0, field.name, "", expected),))
        values = held[field.name]
        kind = str(field.type)
        columns[field.name] = _structured(values, kind) if kind in (_MAPPING, _TUPLE) else values
    return Table(row, columns)


def read_columns(path: Path) -> dict[str, list[Any]]:
    """What a file holds, by column. Raises: InvalidInput; WorldError for Parquet without Polars."""
    if path.suffix == PARQUET:
        return _parquet_columns(path)
    try:
        with gzip.open(path) as stream:
            return msgspec.json.decode(stream.read(), type=_Columns).columns
    except (OSError, EOFError, zlib.error, msgspec.DecodeError) as broken:
        expected = f"expected a table of columns in gzipped JSON: {broken}"
        raise InvalidInput((FieldProblem(str(path), 0, "", "", expected),)) from None


class _Columns(msgspec.Struct):
    columns: dict[str, list[Any]]

    def __post_init__(self) -> None:
        if len({len(column) for column in self.columns.values()}) > 1:
            raise ValueError("its columns differ in length")


def _parquet_columns(path: Path) -> dict[str, list[Any]]:
    pl = need("polars")
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as broken:
        raise InvalidInput(
            (FieldProblem(str(path), 0, "", "", f"expected a Parquet file: {broken}"),)
        ) from None
    found: dict[str, list[Any]] = frame.to_dict(as_series=False)
    return found


def _structured(values: list[Any], kind: str) -> list[Any]:
    """Maps and tuples: JSON text in Parquet; equal texts are decoded once."""
    if values and not isinstance(values[0], str):
        return values if kind == _MAPPING else [tuple(value) for value in values]
    return _from_text(values, kind)


def _from_text(values: list[str], kind: str) -> list[Any]:
    known: dict[str, Any] = {}
    for text in values:
        if text not in known:
            value = json.loads(text)
            known[text] = value if kind == _MAPPING else tuple(value)
    return [known[text] for text in values]
