"""Durations as Go reads and writes them: `1h30m`, `-5m`, `0`; no days.

Source: time.ParseDuration, Duration.String.
"""

from __future__ import annotations

import re
from fractions import Fraction

_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")
_WHOLE = re.compile(r"([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+|0)")


def duration_ns(text: str) -> int:
    """Raises: ValueError, in Go's words."""
    match = _WHOLE.fullmatch(text)
    if match is None:
        raise ValueError(f'time: invalid duration "{text}"')
    total = sum(int(Fraction(n) * _NS[unit]) for n, unit in _PART.findall(match[2]))
    return -total if match[1] == "-" else total


def duration_us(text: str | None) -> int | None:
    return None if text is None else duration_ns(text) // 1000


def go_duration(text: str) -> str:
    """As Go prints it: `5m` → `5m0s`."""
    return _printed(duration_ns(text))


def go_duration_us(amount_us: int) -> str:
    """As Go prints so many µs."""
    return _printed(amount_us * 1000)


def _printed(ns: int) -> str:
    sign, ns = ("-" if ns < 0 else ""), abs(ns)
    if ns == 0:
        return "0s"
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if ns < size * 1000:
            return f"{sign}{_decimal(ns, size)}{unit}"
    hours, rest = divmod(ns, _NS["h"])
    minutes, rest = divmod(rest, _NS["m"])
    text = f"{_decimal(rest, _NS['s'])}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _decimal(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    digits = str(rest).rjust(len(str(size)) - 1, "0").rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)
