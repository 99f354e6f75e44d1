"""Times as Kubernetes writes them, from and to integer microseconds since 1970 (UTC)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d|w)")
_UNIT_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 7 * 86400 * 10**9,
}


# Texts by second, and times by text: what is written is soon read, many times. Dropped whole when full, as time goes
# on and does not come back. Plain dictionaries: `lru_cache` cost 4 % of a fleet's month.
_TEXTS: Final[dict[int, str]] = {}
_TIMES: Final[dict[str, int]] = {}
_DATES: Final[dict[int, str]] = {}
_TEXTS_KEPT: Final = 8_192
_TIMES_KEPT: Final = 65_536
_DATES_KEPT: Final = 1_024
# A time may have any number of zeros behind its seconds; those of ordinary length are remembered.
_LONGEST: Final = 40
_TWO_DIGITS: Final = tuple(f"{n:02d}" for n in range(60))


def rfc3339(time_us: int) -> str:
    """`metav1.Time`: whole seconds, truncated. 0 → `1970-01-01T00:00:00Z`."""
    return rfc3339_of_second(time_us // SECOND_US)


def rfc3339_of_second(second: int) -> str:
    """`rfc3339` by seconds since 1970."""
    text = _TEXTS.get(second)
    if text is None:
        # Put together by hand: `datetime.isoformat` costs five times as much, and in a simulated month nearly every
        # second is a new one.
        # (`divmod` would go through objects where `//` and `%` are plain arithmetic.)
        day, rest = second // 86400, second % 86400
        hour, minute = rest // 3600, rest % 3600 // 60
        text = f"{_date(day)}T{_TWO_DIGITS[hour]}:{_TWO_DIGITS[minute]}:{_TWO_DIGITS[rest % 60]}Z"
        if len(_TEXTS) >= _TEXTS_KEPT:
            _TEXTS.clear()
        _TEXTS[second] = text
        _note(text, second * SECOND_US)
    return text


def _date(day: int) -> str:
    """`2026-01-31`, by days since 1970."""
    date = _DATES.get(day)
    if date is None:
        if len(_DATES) >= _DATES_KEPT:
            _DATES.clear()
        date = _DATES[day] = (_EPOCH + timedelta(days=day)).date().isoformat()
    return date


def rfc3339_micro(time_us: int) -> str:
    """`metav1.MicroTime`."""
    return f"{rfc3339(time_us)[:-1]}.{time_us % SECOND_US:06d}Z"


def parse_rfc3339(text: str) -> int:
    """Microseconds since 1970.

    Raises: ValueError for anything but an RFC 3339 time with a zone.
    """
    known = _TIMES.get(text)
    if known is not None:
        return known
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError("expected an RFC 3339 time with a zone, such as 2026-01-31T08:00:00Z")
    delta = when - _EPOCH
    time_us = (delta.days * 86400 + delta.seconds) * SECOND_US + delta.microseconds
    _note(text, time_us)
    return time_us


def _note(text: str, time_us: int) -> None:
    if len(text) > _LONGEST:
        return
    if len(_TIMES) >= _TIMES_KEPT:
        _TIMES.clear()
    _TIMES[text] = time_us


def parse_duration(text: str | int | float) -> int:
    """A duration in microseconds: `90s`, `1h30m`, `2d`, `250ms`; a bare number is seconds.

    Raises: ValueError.
    """
    if isinstance(text, bool):
        raise ValueError("expected a duration such as 90s, 1h30m or 2d")
    if isinstance(text, (int, float)):
        return round(text * SECOND_US)
    stripped = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", stripped):
        return round(float(stripped) * SECOND_US)
    if not re.fullmatch(rf"(?:{_DURATION.pattern})+", stripped):
        raise ValueError("expected a duration such as 90s, 1h30m or 2d")
    total_ns = sum(round(float(n) * _UNIT_NS[unit]) for n, unit in _DURATION.findall(stripped))
    return total_ns // 1000


def format_duration(duration_us: int) -> str:
    """For people: `0s`, `850ms`, `42s`, `3m20s`, `5h10m`, `12d4h` (two units at most)."""
    if duration_us < 0:
        return "-" + format_duration(-duration_us)
    if duration_us < SECOND_US:
        return f"{duration_us // 1000}ms" if duration_us >= 1000 else "0s"
    seconds = duration_us // SECOND_US
    for size, unit, below, below_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if seconds >= size:
            rest = seconds % size // below
            return f"{seconds // size}{unit}{rest}{below_unit}" if rest else f"{seconds // size}{unit}"
    return f"{seconds}s"
