"""How long will a job run, as far as jobs like it tell? Past jobs of the same account, user and name; too few of them:
of the user, the account, all; each as a part of its time limit, so that other limits are comparable.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from fairway.slurm.records.record import JobRecord
from fairway.slurm.words.durations import INFINITE

FEWEST = 8
"""Jobs of a kind from which it is believed."""
NEWEST = 200
"""So many of a kind are kept, the newest ones."""
_DAY_MINUTES = 1440


class RunTimes:
    """`draw(record, elapsed)`: seconds in all, more than those it has run already."""

    def __init__(self, past: Iterable[JobRecord], until: int) -> None:
        self._parts: dict[tuple[str, ...], list[float]] = {}
        for record in past:
            if record.end and record.end <= until and record.start and record.ran_s > 0:
                part = record.ran_s / _limit_s(record)
                for key in _keys(record):
                    self._parts.setdefault(key, []).append(part)
        for parts in self._parts.values():
            del parts[:-NEWEST]

    def known(self, record: JobRecord) -> list[float]:
        for key in _keys(record):
            parts = self._parts.get(key, ())
            if len(parts) >= FEWEST or (not key and parts):
                return list(parts)
        return [1.0]

    def draw(self, record: JobRecord, elapsed: int, random: Random) -> int:
        limit = _limit_s(record)
        longer = [part * limit for part in self.known(record) if part * limit > elapsed]
        if not longer:
            return max(limit, elapsed + 60)
        return max(int(random.choice(longer)), elapsed + 1)

    def median(self, record: JobRecord, elapsed: int = 0) -> int:
        limit = _limit_s(record)
        longer = sorted(part * limit for part in self.known(record) if part * limit > elapsed)
        return int(longer[len(longer) // 2]) if longer else max(limit, elapsed + 60)


def _keys(record: JobRecord) -> tuple[tuple[str, ...], ...]:
    return (record.key, record.key[:2], record.key[:1], ())


def _limit_s(record: JobRecord) -> int:
    return (record.limit if 0 < record.limit < INFINITE else _DAY_MINUTES) * 60
