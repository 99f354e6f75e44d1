"""Rows of one type, kept as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Generic, TypeVar, overload

Row = TypeVar("Row")


class Table(Sequence[Row], Generic[Row]):
    """Rows of one type, kept as columns. A column holds what the field of that name holds, in row order."""

    __slots__ = ("_length", "_row", "columns")

    def __init__(self, row: type[Row], columns: dict[str, Sequence[Any]]) -> None:
        names = tuple(f.name for f in fields(row))  # type: ignore[arg-type]
        self._row = row
        self.columns: dict[str, Sequence[Any]] = {name: columns[name] for name in names}
        self._length = len(self.columns[names[0]])

    @classmethod
    def of(cls, row: type[Row], rows: Sequence[Row]) -> Table[Row]:
        """From finished rows."""
        names = [f.name for f in fields(row)]  # type: ignore[arg-type]
        return cls(row, {name: [getattr(r, name) for r in rows] for name in names})

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self._at(i) for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._at(index)

    def __iter__(self) -> Iterator[Row]:
        make = self._row
        return (make(*values) for values in zip(*self.columns.values(), strict=True))

    def _at(self, index: int) -> Row:
        return self._row(*(column[index] for column in self.columns.values()))

    def column(self, name: str) -> Sequence[Any]:
        """Every row's value of a field, or of a property of the row (`wait_us`)."""
        found = self.columns.get(name)
        return [getattr(row, name) for row in self] if found is None else found
