"""What may stand in a column of the generic job format, and what it means.

Cells come as text (CSV) or as JSON and Parquet values; both are read by the same rules. `docs/traces.md` is
the documentation of this table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from fairway.kube import names
from fairway.kube.quantity import QuantityError, milli_ceil, of, whole_ceil
from fairway.kube.timestamps import parse_duration, parse_rfc3339
from fairway.traces.jobs import MILLI, TraceJob
from fairway.twin.behaviour import BehaviourError, behaviour_of, said

# Numbers of seconds from here on are Unix times: 2001-09-09. Traces are shorter than 31 years.
UNIX_S = 1_000_000_000
# More GPUs than one machine has, more replicas than a cluster starts at once, more CPUs and memory than exist.
MAX_GPU_MILLI = 1024 * MILLI
MAX_REPLICAS = 100_000
MAX_AMOUNT = 1 << 53
_MAX_TEXT = 253
_SECOND = Decimal(1_000_000)
_PLAIN_SECONDS = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,6}))?", re.ASCII)


class BadCell(Exception):
    """This column's value will not do."""

    def __init__(self, column: str, value: Any, expected: str) -> None:
        self.column, self.value, self.expected = column, value, expected
        super().__init__(column, value, expected)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A submission time in µs: since the trace's start, or absolute (since 1970)."""

    us: int
    is_absolute: bool


Reader = Callable[[Any], Any]


def job_from(cells: Mapping[str, Any]) -> tuple[TraceJob, Submitted]:
    """The job of one row; its `submit_us` is still as written.

    Raises: BadCell.
    """
    values: dict[str, Any] = {}
    for column, (field, read) in COLUMNS.items():
        cell = cells.get(column)
        if cell is None or cell == "":
            if column in REQUIRED:
                raise BadCell(column, "", "required")
            continue
        try:
            values[field] = _read(read, cell) if column in _REPEATING and type(cell) is str else read(cell)
        except (ValueError, TypeError, OverflowError, InvalidOperation) as wrong:
            raise BadCell(column, cell, str(wrong)) from None
    submitted: Submitted = values["submit_us"]
    values["submit_us"] = submitted.us
    if values.get("is_censored") and values.get("run_us") is None:
        raise BadCell("is_censored", cells.get("is_censored"), "false without a run_time")
    return TraceJob(**values), submitted


@lru_cache(maxsize=65536)
def _read(read: Reader, cell: str) -> Any:
    """A text cell's value, remembered."""
    return read(cell)


def _seconds(cell: Any, expected: str) -> int:
    """µs; at least 0 and below 317 years."""
    match = _PLAIN_SECONDS.fullmatch(cell) if type(cell) is str else None
    if match is not None:
        return int(match[1]) * 1_000_000 + int((match[2] or "").ljust(6, "0"))
    seconds = _decimal(cell, expected)
    if not 0 <= seconds < 10 * UNIX_S:
        raise ValueError(expected)
    return int(seconds * _SECOND)


def _text(cell: Any) -> str:
    if not isinstance(cell, str) or not cell.strip() or len(cell) > _MAX_TEXT or not cell.isprintable():
        raise ValueError(f"expected text of at most {_MAX_TEXT} printable characters")
    return cell.strip()


def _job_id(cell: Any) -> str:
    return _text(str(cell) if isinstance(cell, int) and not isinstance(cell, bool) else cell)


def _decimal(cell: Any, expected: str) -> Decimal:
    if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
        raise ValueError(expected)
    try:
        value = Decimal(str(cell).strip())
    except InvalidOperation:
        raise ValueError(expected) from None
    if not value.is_finite():
        raise ValueError(expected)
    return value


def _submitted(cell: Any) -> Submitted:
    expected = "expected seconds since the trace's start, a Unix time, or an RFC 3339 time"
    if isinstance(cell, str) and "T" in cell:
        try:
            return Submitted(parse_rfc3339(cell.strip()), True)
        except ValueError:
            raise ValueError(expected) from None
    at_us = _seconds(cell, expected)
    return Submitted(at_us, at_us >= UNIX_S * 1_000_000)


def _duration(cell: Any) -> int:
    expected = "expected a duration: seconds, or text such as 90s, 1h30m or 2d"
    if isinstance(cell, str) and not _looks_numeric(cell):
        try:
            return parse_duration(cell)
        except ValueError:
            raise ValueError(expected) from None
    return _seconds(cell, expected)


def _looks_numeric(text: str) -> bool:
    return text.strip()[-1:].isdigit()


def _gpus(cell: Any) -> int:
    expected = "expected a number of GPUs: whole ones, or a share of one such as 0.25"
    milli = _decimal(cell, expected) * MILLI
    if milli != milli.to_integral_value():
        raise ValueError("expected at most three decimals of a GPU")
    if not 0 <= milli <= MAX_GPU_MILLI:
        raise ValueError(f"expected from 0 to {MAX_GPU_MILLI // MILLI} GPUs")
    if milli > MILLI and milli % MILLI:
        raise ValueError(expected)
    return int(milli)


def _amount(read: Callable[[object], int]) -> Reader:
    def amount(cell: Any) -> int:
        try:
            value = read(cell.strip() if isinstance(cell, str) else cell)
            if of(cell.strip() if isinstance(cell, str) else cell) >= 0 and value <= MAX_AMOUNT:
                return value
        except QuantityError as wrong:
            raise ValueError(str(wrong)) from None
        raise ValueError("expected a quantity, 0 or more")

    return amount


def _whole(low: int, high: int) -> Reader:
    def whole(cell: Any) -> int:
        expected = f"expected an integer from {low} to {high}"
        value = _decimal(cell, expected)
        if value != value.to_integral_value() or not low <= value <= high:
            raise ValueError(expected)
        return int(value)

    return whole


def _named(rule: Callable[[str], tuple[str, ...]]) -> Reader:
    def named(cell: Any) -> str:
        text = _text(cell)
        complaints = rule(text)
        if complaints:
            raise ValueError(complaints[0])
        return text

    return named


def _labels(cell: Any) -> tuple[tuple[str, str], ...]:
    expected = "expected labels such as team=vision;tier=prod"
    if isinstance(cell, str):
        pairs = [part.partition("=") for part in cell.split(";") if part.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError(expected)
        items = [(key.strip(), value.strip()) for key, _, value in pairs]
    elif isinstance(cell, dict):
        items = [(str(k), str(v)) for k, v in cell.items() if v is not None]
    else:
        raise ValueError(expected)
    for key, value in items:
        complaints = names.label_key(key) or names.label_value(value)
        if complaints:
            raise ValueError(complaints[0])
    return tuple(sorted(dict(items).items()))


def _utilization(cell: Any) -> str:
    text = f"{cell}%" if isinstance(cell, (int, float)) and not isinstance(cell, bool) else _text(cell)
    try:
        behaviour_of({}, "Never", said({"fairway.dev/gpu-utilization": text}))
    except BehaviourError as wrong:
        raise ValueError(wrong.expected) from None
    return text


def _flag(cell: Any) -> bool:
    if isinstance(cell, bool):
        return cell
    text = str(cell).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("expected true or false")
    return text == "true"


REQUIRED = ("job_id", "submit_time")
COLUMNS: dict[str, tuple[str, Reader]] = {
    "job_id": ("job_id", _job_id),
    "submit_time": ("submit_us", _submitted),
    "run_time": ("run_us", _duration),
    "gpus": ("gpu_milli", _gpus),
    "cpus": ("cpu_milli", _amount(milli_ceil)),
    "memory": ("memory_bytes", _amount(whole_ceil)),
    "replicas": ("replicas", _whole(1, MAX_REPLICAS)),
    "user": ("user", _text),
    "namespace": ("namespace", _named(names.dns_label)),
    "priority_class": ("priority_class", _named(names.dns_subdomain)),
    "queue": ("queue", _named(names.dns_label)),
    "gpu_model": ("gpu_model", _text),
    "exit_code": ("exit_code", _whole(0, 255)),
    "labels": ("labels", _labels),
    "gpu_utilization": ("gpu_utilization", _utilization),
    "checkpoint_interval": ("checkpoint_interval_us", _duration),
    "is_censored": ("is_censored", _flag),
}
"""Column → (field of TraceJob, reader), in the order in which they are written."""
# Columns whose cells say the same few things over and over.
_REPEATING = frozenset(COLUMNS) - {"job_id", "submit_time", "run_time"}
