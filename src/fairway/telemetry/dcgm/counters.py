"""Which fields does an exporter export, under which names? Files of counters as dcgm-exporter reads them.

Source: dcgm-exporter 4.5.3, internal/pkg/counters/counter_config.go: comments, three columns, words of refusals.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from fairway.telemetry.gpus.fields import COUNTERS, GAUGES

_HERE = Path(__file__).parent
TYPES: Final = ("gauge", "counter", "histogram", "summary", "label")
_MOST_LINES: Final = 1000


class Counter(NamedTuple):
    """`field`: DCGM's name; `name`: what the series is called."""

    name: str
    field: str
    type: str
    help: str


class CountersError(ValueError):
    """A file of counters that the exporter would not start with."""


@cache
def default_counters() -> tuple[Counter, ...]:
    return parse_counters((_HERE / "default-counters.csv").read_text())


@cache
def spellings() -> Mapping[str, str]:
    """Old names, and the fields they stand for."""
    lines = (_HERE / "spellings.csv").read_text().splitlines()
    return dict(_cells(line) for line in lines if not line.startswith("#"))  # type: ignore[misc]


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split(","))


def field_of(name: str) -> str | None:
    """The field behind a metric's name, new or old; None for no field of DCGM."""
    field = spellings().get(name, name)
    return field if field in GAUGES or field in COUNTERS else None


def parse_counters(text: str) -> tuple[Counter, ...]:
    """Those that are fields of a GPU; `label` lines are left out, since labels are always the same here.

    Raises: CountersError, in the exporter's words with the line's number.
    """
    found = []
    lines = text.splitlines()
    if len(lines) > _MOST_LINES:
        raise CountersError(f"{len(lines)} lines of counters; expected {_MOST_LINES} at most")
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        record = [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]
        if len(record) != 3:
            shown = " ".join(record)
            raise CountersError(
                f"line {number}: malformed CSV record; err: failed to parse line {number} (`[{shown}]`), "
                "expected 3 fields"
            )
        name, kind, said = record
        if kind not in TYPES:
            raise CountersError(f"line {number}: could not find Prometheus metric type '{kind}'")
        if kind == "label":
            continue
        field = field_of(name)
        if field is None:
            words = f"could not find DCGM field; err: unknown ExporterCounter field '{name}'"
            raise CountersError(f"line {number}: {words}")
        found.append(Counter(name, field, kind, said))
    return tuple(found)
