"""Cron expressions: when is the next start after this moment?

Five fields (minute, hour, day of month, month, day of week) with lists, ranges, steps and names, and the
descriptors @hourly, @daily, …, @every 1h30m. Where both days are restricted, either will do. In time zones
with summer time, a start that falls into the skipped hour does not happen; one in the repeated hour happens
twice.

Source: github.com/robfig/cron v3.0.1 parser.go ParseStandard, spec.go Next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from fairway.kube.timestamps import SECOND_US

# How far ahead a start is looked for; beyond, the expression is taken to never match (30 February).
YEARS_AHEAD = 5

_MONTHS = {
    m: i + 1
    for i, m in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
    )
}
_DAYS = {d: i for i, d in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class ScheduleError(ValueError):
    """Not a schedule; the text is robfig's."""


@dataclass(frozen=True, slots=True)
class Bounds:
    low: int
    high: int
    names: tuple[tuple[str, int], ...] = ()


_MINUTE = Bounds(0, 59)
_HOUR = Bounds(0, 23)
_DAY_OF_MONTH = Bounds(1, 31)
_MONTH = Bounds(1, 12, tuple(_MONTHS.items()))
_DAY_OF_WEEK = Bounds(0, 6, tuple(_DAYS.items()))


@dataclass(frozen=True, slots=True)
class Field:
    """The allowed values, and whether the field was `*` or `?` (which matters for the two day fields)."""

    values: frozenset[int]
    is_star: bool

    def allows(self, value: int) -> bool:
        return value in self.values


@dataclass(frozen=True, slots=True)
class Schedule:
    minute: Field
    hour: Field
    day_of_month: Field
    month: Field
    day_of_week: Field
    zone: tzinfo = UTC

    def next_us(self, after_us: int) -> int | None:
        """The first start after this moment; None where there is none within five years."""
        after = datetime.fromtimestamp(after_us // SECOND_US + 1, UTC).astimezone(self.zone)
        found = self._search(after)
        return None if found is None else round(found.timestamp()) * SECOND_US

    def _search(self, start: datetime) -> datetime | None:
        """From coarse to fine; whenever a coarser field wraps, begin again from the top."""
        t = start
        if t.second:
            t = _plus(t.replace(second=0), seconds=60)
        last_year = start.year + YEARS_AHEAD
        while t.year <= last_year:
            if not self.month.allows(t.month):
                t = _first_of_next_month(t)
            elif not self._allows_day(t):
                t = _next_midnight(t)
            elif not self.hour.allows(t.hour):
                t = _plus(t.replace(minute=0), seconds=3600)
            elif not self.minute.allows(t.minute):
                t = _plus(t, seconds=60)
            else:
                return t
        return None

    def _allows_day(self, t: datetime) -> bool:
        by_month = self.day_of_month.allows(t.day)
        by_week = self.day_of_week.allows((t.weekday() + 1) % 7)
        if self.day_of_month.is_star or self.day_of_week.is_star:
            return by_month and by_week
        return by_month or by_week


@dataclass(frozen=True, slots=True)
class Every:
    """`@every`: a constant delay, in whole seconds."""

    delay_us: int

    def next_us(self, after_us: int) -> int | None:
        return (after_us + self.delay_us) // SECOND_US * SECOND_US


def _plus(t: datetime, *, seconds: int) -> datetime:
    """Elapsed time, not wall time: across a change of the clocks an hour is an hour."""
    return (t.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(t.tzinfo)


def _midnight(t: datetime) -> datetime:
    return t.replace(hour=0, minute=0, second=0, fold=0)


def _first_of_next_month(t: datetime) -> datetime:
    year, month = (t.year + 1, 1) if t.month == 12 else (t.year, t.month + 1)
    return _exists(_midnight(t).replace(year=year, month=month, day=1))


def _next_midnight(t: datetime) -> datetime:
    tomorrow = t.date() + timedelta(days=1)
    return _exists(_midnight(t).replace(year=tomorrow.year, month=tomorrow.month, day=tomorrow.day))


def _exists(t: datetime) -> datetime:
    """The same moment as wall clocks show it: a midnight that summer time skips becomes one o'clock."""
    return t.astimezone(UTC).astimezone(t.tzinfo)


def parse(text: str, zone: tzinfo = UTC) -> Schedule | Every:
    """A schedule in `ParseStandard`'s form.

    Raises: ScheduleError.
    """
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith("@"):
        return _descriptor(text, zone)
    parts = text.split()
    if len(parts) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]")
    bounds = (_MINUTE, _HOUR, _DAY_OF_MONTH, _MONTH, _DAY_OF_WEEK)
    minute, hour, day, month, week = (_field(p, b) for p, b in zip(parts, bounds, strict=True))
    return Schedule(minute, hour, day, month, week, zone)


def _descriptor(text: str, zone: tzinfo) -> Schedule | Every:
    if text in _DESCRIPTORS:
        return parse(_DESCRIPTORS[text], zone)
    if text.startswith("@every "):
        return Every(_duration_us(text.removeprefix("@every "), text))
    raise ScheduleError(f"unrecognized descriptor: {text}")


_UNITS_US = {
    "ns": 0.001,
    "us": 1,
    "µs": 1,
    "ms": 1_000,
    "s": SECOND_US,
    "m": 60 * SECOND_US,
    "h": 3600 * SECOND_US,
}


def _duration_us(text: str, whole: str) -> int:
    """Go's time.ParseDuration; below a second it is a second."""
    pieces = re.findall(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)", text)
    if not pieces or "".join(n + u for n, u in pieces) != text:
        raise ScheduleError(f'failed to parse duration {whole}: time: invalid duration "{text}"')
    total = round(sum(float(n) * _UNITS_US[u] for n, u in pieces))
    return max(total // SECOND_US, 1) * SECOND_US


def _field(text: str, bounds: Bounds) -> Field:
    values: set[int] = set()
    is_star = False
    for part in text.split(","):
        found, star = _range(part, bounds)
        values |= found
        is_star = is_star or star
    return Field(frozenset(values), is_star)


def _range(text: str, bounds: Bounds) -> tuple[set[int], bool]:
    """`*`, `5`, `1-5`, each with an optional `/step`; `5/15` runs to the end of the field."""
    base, slash, step_text = text.partition("/")
    if "/" in step_text:
        raise ScheduleError(f"too many slashes: {text}")
    low_text, dash, high_text = base.partition("-")
    if "-" in high_text:
        raise ScheduleError(f"too many hyphens: {text}")
    is_star = low_text in ("*", "?")
    if is_star:
        low, high = bounds.low, bounds.high
    else:
        low = _number(low_text, bounds)
        high = _number(high_text, bounds) if dash else low
    step = 1
    if slash:
        step = _integer(step_text)
        if not is_star and not dash:
            high = bounds.high
        # A step makes the star an ordinary range for the either-day rule.
        is_star = is_star and step == 1
    if low < bounds.low:
        raise ScheduleError(f"beginning of range ({low}) below minimum ({bounds.low}): {text}")
    if high > bounds.high:
        raise ScheduleError(f"end of range ({high}) above maximum ({bounds.high}): {text}")
    if low > high:
        raise ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return set(range(low, high + 1, step)), is_star


def _number(text: str, bounds: Bounds) -> int:
    for name, value in bounds.names:
        if name == text.lower():
            return value
    return _integer(text)


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", text):
        raise ScheduleError(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        )
    value = int(text)
    if value < 0:
        raise ScheduleError(f"negative number ({value}) not allowed: {text}")
    return value
