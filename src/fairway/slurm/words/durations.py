"""Durations and times as Slurm's users write them and as its commands print them.

Inside: whole seconds since 1970 (UTC) and whole minutes for time limits. `INFINITE` is Slurm's for "without end".
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

INFINITE = 0xFFFFFFFF
NO_VAL = 0xFFFFFFFE

_COLONS = re.compile(r"(\d+)(?::(\d+))?(?::(\d+))?")
YEAR = 365 * 86400
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_HOURS = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}

# Characters of a duration: longer ones are none.
_LONGEST = 256


class TimeError(ValueError):
    """Text that is no time; the message is Slurm's, with the place it stopped at."""


def seconds(text: str) -> int | None:
    """`min`, `min:sec`, `h:m:s`, `d-h`, `d-h:m`, `d-h:m:s`; INFINITE for its names; None for anything else."""
    if text.lower() in ("-1", "infinite", "unlimited"):
        return INFINITE
    if len(text) > _LONGEST:
        return None
    digits, dashes, colons = len(re.findall(r"\d+", text)), text.count("-"), text.count(":")
    if not re.fullmatch(r"[\d:-]+", text, re.ASCII) or ":" in text.partition("-")[0] * bool(dashes):
        return None
    if not digits or dashes > 1 or colons > 2 or (colons and digits < colons + 1 + bool(dashes)):
        return None
    # Read as C's scanf would: a number that is missing is 0, and `-5` is five days ago.
    found = re.match(r"(-?\d+)(?:-(-?\d+)(?::(\d+))?(?::(\d+))?)?" if dashes else _COLONS, text)
    assert found is not None
    a, b, c, *rest = (int(n or 0) for n in (*found.groups(), None))
    if dashes:
        total = a * 86400 + b * 3600 + c * 60 + rest[0]
    else:
        total = a * 3600 + b * 60 + c if colons == 2 else a * 60 + b
    # C's int: what does not fit wraps around.
    return (total + 2**31) % 2**32 - 2**31


def minutes(text: str) -> int | None:
    """`seconds`, rounded up to minutes: what a time limit is stored as."""
    value = seconds(text)
    if value is None or value == INFINITE:
        return value
    return int((value + 59) / 60) % 2**32  # C division: toward zero; stored unsigned


def clock(total: int) -> str:
    """`[D-]HH:MM:SS`, as accounting and `scontrol` print."""
    if total == INFINITE:
        return "UNLIMITED"
    if total < 0:
        return "INVALID"
    days, rest = divmod(total, 86400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def clock_of_minutes(total: int) -> str:
    return "UNLIMITED" if total == INFINITE else clock(total * 60)


def short(total: int) -> str:
    """`[D-][HH:]M:SS`, as `squeue` prints; more than a year is INVALID there."""
    if not 0 <= total <= YEAR:
        return "INVALID"
    days, rest = divmod(total, 86400)
    h, m, s = rest // 3600, rest // 60 % 60, rest % 60
    if days:
        return f"{days}-{h:02d}:{m:02d}:{s:02d}"
    return f"{h}:{m:02d}:{s:02d}" if h else f"{m}:{s:02d}"


def stamp(when: int | None, form: str = "%Y-%m-%dT%H:%M:%S") -> str:
    """A time of day in UTC; `Unknown` for none."""
    if not when or when == INFINITE:
        return "Unknown"
    if when == NO_VAL:
        return "None"
    return datetime.fromtimestamp(when, UTC).strftime(form)


def parse_time(text: str, now: int, *, past: bool = False) -> int:
    """`now+1hour`, `16:00`, `tomorrow`, `01/15/30-10:00`, `2030-01-01T00:00:00` … in seconds since 1970.

    past: what leaves the day or year open means the last one, not the next.
    Raises: TimeError.
    """
    return _Reading(text, now, past).read()


class _Reading:
    """One text being read, left to right, as Slurm's parser does; `at` is where it stands."""

    def __init__(self, text: str, now: int, past: bool) -> None:
        self.text, self.now, self.past, self.at = text, now, past, 0
        self.day: tuple[int, int, int] | None = None  # year (0: open), month, day
        self.time: tuple[int, int, int] | None = None

    def read(self) -> int:
        if self.text[:3].lower() == "uts":
            found = re.fullmatch(r"\s*[+-]?\d{1,18}", self.text[3:])
            if found is None or int(found[0]) < 1_000_000:
                raise self._bad(0)
            return int(found[0])
        while self.at < len(self.text) and self.text[self.at] != "\n":
            self._step()
        return self._resolved()

    def _bad(self, at: int) -> TimeError:
        return TimeError(f"Invalid time specification (pos={at}): {self.text}")

    def _step(self) -> None:
        text, at = self.text, self.at
        if text[at] in " \t-T" and not text[at:].lower().startswith(("today", "tomorrow", "teatime")):
            self.at += 1
            return
        word = text[at:].lower()
        today = datetime.fromtimestamp(self.now, UTC)
        for name, days in (("today", 0), ("tomorrow", 1)):
            if word.startswith(name):
                then = today + timedelta(days=days)
                self.day, self.at = (then.year, then.month, then.day), at + len(name)
                return
        for name, hour in _HOURS.items():
            if word.startswith(name):
                self.time, self.at = (hour, 0, 0), at + len(name)
                return
        if word.startswith("now"):
            then = datetime.fromtimestamp(self.now + self._delta(at + 3), UTC)
            self.day, self.time = (then.year, then.month, then.day), (then.hour, then.minute, then.second)
            return
        if not text[at].isascii() or not text[at].isdecimal():
            raise self._bad(at)
        if ":" in text[at + 1 : at + 3]:
            self._read_clock()
        else:
            self._read_date()

    def _delta(self, at: int) -> int:
        """What follows `now`: `+5`, `-2days`, nothing; leaves `self.at` behind it."""
        rest = self.text[at:]
        found = re.match(r"[ \t]*(?:([+-])\s*((?:\d\s*)*)([a-zA-Z]*))?", rest)
        assert found is not None
        sign, digits, unit = found.groups()
        if sign is None:
            self.at = len(self.text)
            if rest.strip():
                raise self._bad(at)
            return 0
        names = [n for n in (*(f"{u}s" for u in _UNITS), *_UNITS) if unit.lower().startswith(n)]
        if (unit and not names) or not digits.strip():
            raise self._bad(at + found.start(1) + (len(digits) if unit else 0))
        self.at = at + found.end(3) - len(unit) + (len(names[0]) if names else 0)
        count = int("".join(digits.split())[:15]) * (_UNITS[names[0].removesuffix("s")] if names else 1)
        return -count if sign == "-" else min(count, 10**10)

    def _read_clock(self) -> None:
        found = re.match(r"(\d{1,2}):(\d\d)(?::(\d\d))?\s*(am|pm)?", self.text[self.at :], re.IGNORECASE)
        if found is None:
            raise self._bad(self.at + (3 if self.text[self.at + 2 : self.at + 3] == ":" else 2))
        h, m, s = int(found[1]), int(found[2]), int(found[3] or 0)
        half = (found[4] or "").lower()
        if half == "pm":
            h = 12 if h == 12 else h + 12
        elif half == "am":
            h = 0 if h == 12 else h
        if h > 23 or m > 59 or s > 59 or (half == "am" and h > 11):
            raise self._bad(self.at + (0 if h > 23 else found.start(2) if m > 59 else found.start(3)))
        self.time, self.at = (h, m, s), self.at + found.end()

    def _read_date(self) -> None:
        rest = self.text[self.at :]
        if len(rest) >= 8 and rest[4] == rest[7] == "-":
            found = re.match(r"(\d{4})-(\d{1,2})-(\d{1,2})", rest)
            if found is None:
                raise self._bad(self.at + 4)
            year, month, day = int(found[1]), int(found[2]), int(found[3])
            month_end, day_end = found.end(2), found.end(3)
        else:
            found = re.match(r"(\d{1,2})[./]?(\d{1,2})?[./]?(\d\d)?", rest)
            assert found is not None
            month, day = int(found[1]), int(found[2] or 0)
            year = 2000 + int(found[3]) if found[3] else self.day[0] if self.day else 0
            month_end, day_end = found.end(1), found.end(2) if found[2] else found.end()
        if not 1 <= month <= 12:
            raise self._bad(self.at + month_end - 2)
        if not 1 <= day <= 31:
            raise self._bad(self.at + day_end - 2)
        self.day, self.at = (year, month, day), self.at + found.end()

    def _resolved(self) -> int:
        if self.day is None and self.time is None:
            return 0
        now = datetime.fromtimestamp(self.now, UTC)
        hour, minute, second = self.time or (0, 0, 0)
        if self.day is None:
            later = self.past or (hour, minute) > (now.hour, now.minute)
            then = now if later else now + timedelta(days=1)
            year, month, day = then.year, then.month, then.day
        else:
            year, month, day = self.day
        if not year:
            if self.past:
                year = now.year - (month > now.month)
            else:
                year = now.year + ((month, day, hour, minute) <= (now.month, now.day, now.hour, now.minute))
        try:
            first = datetime(year, month, 1, hour, minute, second, tzinfo=UTC)
            return int((first + timedelta(days=day - 1)).timestamp())
        except (ValueError, OverflowError):
            raise self._bad(len(self.text)) from None
