"""What associations and QOS have used, decayed: one table for all of a cluster, so that its passing is arithmetic.

A row is `raw` (billing-seconds, UsageFactor applied), `wall` (seconds) and each TRES's seconds, in the order in which
they were first used. `Usage` is one row of it, for those who read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

RAW, WALL, FIRST = 0, 1, 2
"""Columns: the first two, and that of the first TRES."""
EXACT = 1 << 40
"""Larger counts are multiplied as Python's integers, which do not overflow."""

Floats = NDArray[np.float64]


def _empty() -> Floats:
    return np.zeros((1, 8))


@dataclass(slots=True)
class Ledger:
    """`values: float64[row, column]`, with room to grow; what is `owed` is not in them yet."""

    columns: dict[str, int] = field(default_factory=dict)
    values: Floats = field(default_factory=_empty)
    rows: int = 0
    owed: list[tuple[int, list[float]]] = field(default_factory=list)
    """(row, what was used): added together, in this order, when somebody reads."""

    @property
    def width(self) -> int:
        return FIRST + len(self.columns)

    def new(self) -> Usage:
        """A row nothing was used in yet."""
        if self.rows == len(self.values):
            self.values = np.concatenate([self.values, np.zeros_like(self.values)])
        self.rows += 1
        return Usage(self, self.rows - 1)

    def know(self, names: Iterable[str]) -> None:
        """These TRES have columns from now on."""
        for name in names:
            if name not in self.columns:
                self.columns[name] = self.width
        if self.width > self.values.shape[1]:
            self.values = np.concatenate([self.values, np.zeros_like(self.values)], axis=1)

    def row_of(self, tres: Mapping[str, int], jobs: int) -> list[int]:
        """What so many jobs with these TRES use in a second. The TRES are known."""
        found = [0] * self.width
        found[RAW], found[WALL] = tres.get("billing", 0), jobs
        for name, count in tres.items():
            found[self.columns[name]] = count
        return found

    def settled(self) -> Floats:
        """`values`, with all that is owed."""
        if self.owed:
            width = self.width
            used = np.zeros((len(self.owed), width))
            for at, (_, row) in enumerate(self.owed):
                used[at, : len(row)] = row
            np.add.at(self.values[:, :width], [row for row, _ in self.owed], used)
            self.owed.clear()
        return self.values

    def add(self, rows: NDArray[np.intp], used: Floats) -> None:
        """`used: float64[len(rows), width]`, each row once."""
        self.settled()[rows, : used.shape[1]] += used

    def add_all(self, row: int, used: Floats) -> None:
        """Each of `used`, in this order, to one row: sums of floats depend on it."""
        width, values = used.shape[1], self.settled()
        values[row, :width] = np.add.accumulate(np.vstack([values[row, :width], used]))[-1]


def counts_array(rows: list[list[int]]) -> NDArray[Any]:
    """Whole numbers as an array that can be multiplied by seconds."""
    found: NDArray[Any] = np.array(rows)
    if found.dtype == object or found.max() > EXACT:
        return found.astype(object)
    return found


@dataclass(slots=True)
class Usage:
    """One row."""

    ledger: Ledger
    row: int

    @property
    def raw(self) -> float:
        return float(self.ledger.settled()[self.row, RAW])

    @raw.setter
    def raw(self, value: float) -> None:
        self.ledger.settled()[self.row, RAW] = value

    @property
    def wall(self) -> float:
        return float(self.ledger.settled()[self.row, WALL])

    @property
    def tres(self) -> dict[str, float]:
        """Seconds of each TRES used at all."""
        row = self.ledger.settled()[self.row].tolist()
        return {name: row[at] for name, at in self.ledger.columns.items() if row[at]}


def lone_usage() -> Usage:
    """Of an association or QOS that is in no cluster's accounts."""
    return Ledger().new()
