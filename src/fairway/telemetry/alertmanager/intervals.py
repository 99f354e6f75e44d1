"""Is a time within one of Alertmanager's time intervals?

Source: timeinterval/timeinterval.go (Alertmanager main, August 2026).
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_TIME: Final = re.compile(r"(?:([01]\d|2[0-3]):([0-5]\d)|(24):(00))")
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Interval:
    """All that is given must hold; an empty part says nothing. Minutes of the day end before their second number."""

    times: tuple[Range, ...]
    weekdays: tuple[Range, ...]
    days: tuple[Range, ...]
    months: tuple[Range, ...]
    years: tuple[Range, ...]
    zone: tzinfo

    def holds(self, at_ms: int) -> bool:
        at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(self.zone)
        minute = at.hour * 60 + at.minute
        if self.times and not any(a <= minute < b for a, b in self.times):
            return False
        if self.days and not any(_has_day(at, *bounds) for bounds in self.days):
            return False
        weekday = (at.weekday() + 1) % 7
        for ranges, value in ((self.months, at.month), (self.weekdays, weekday), (self.years, at.year)):
            if ranges and not any(a <= value <= b for a, b in ranges):
                return False
        return True


def _has_day(at: datetime, begin: int, end: int) -> bool:
    """Negative days count from the month's end."""
    last = monthrange(at.year, at.month)[1]
    begin = last + begin + 1 if begin < 0 else begin
    end = last + end + 1 if end < 0 else end
    return begin <= last and max(begin, -last) <= at.day <= min(end, last)


def read_interval(value: Any) -> Interval:
    """One entry of `time_intervals`. Raises: ValueError."""
    if not isinstance(value, dict):
        raise ValueError("expected a mapping of times, weekdays, days_of_month, months, years, location")
    unknown = set(value) - {"times", "weekdays", "days_of_month", "months", "years", "location"}
    if unknown:
        raise ValueError(f"field {min(map(str, unknown))} not found")
    try:
        zone: tzinfo = ZoneInfo(str(value["location"])) if value.get("location") else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {value['location']}") from None
    times = tuple((_minutes(t, "start_time"), _minutes(t, "end_time")) for t in value.get("times") or ())
    if any(a >= b for a, b in times):
        raise ValueError("start time cannot be equal or greater than end time")
    return Interval(
        times,
        _ranges(value, "weekdays", _DAYS, 0, 0, 6),
        _ranges(value, "days_of_month", (), 0, -31, 31),
        _ranges(value, "months", _MONTHS, 1, 1, 12),
        _ranges(value, "years", (), 0, 0, 9999),
        zone,
    )


def _minutes(value: Any, name: str) -> int:
    found = _TIME.fullmatch(str(value.get(name, ""))) if isinstance(value, dict) else None
    if found is None:
        raise ValueError(f"couldn't parse timestamp {value}, invalid format")
    hours, minutes = (g for g in found.groups() if g is not None)
    return int(hours) * 60 + int(minutes)


def _ranges(
    value: dict[str, Any], name: str, words: Any, base: int, least: int, most: int
) -> tuple[Range, ...]:
    found = []
    for text in value.get(name) or ():
        ends = str(text).lower().split(":")
        numbers = [words.index(e) + base if e in words else _integer(e, name) for e in ends]
        first, last = numbers[0], numbers[-1]
        if len(numbers) > 2 or any(n < least or n > most for n in numbers):
            raise ValueError(f"{text} is not a valid value of {name}")
        if first > last and (first < 0) == (last < 0):
            raise ValueError(
                "start day cannot be before end day" if name == "weekdays" else "end before start"
            )
        found.append((first, last))
    return tuple(found)


def _integer(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text} is not a valid value of {name}") from None
