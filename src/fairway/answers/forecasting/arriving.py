"""What else will come? Past arrivals, taken again in blocks of hours of the same time of day and kind of day.

A block keeps what belongs together: sweeps of one user, the busy morning after a quiet night. Each block of a future
comes from a day drawn at random among those of the same kind (working day or weekend); where none of that kind was
seen, from any day; where less than a day was seen, from any moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from fairway.answers.forecasting.history import History, PastJob
from fairway.kube.timestamps import DAY_US, HOUR_US

BLOCK_US: Final = 4 * HOUR_US
_DAYS_BACK: Final = 28
_EPOCH_WEEKDAY: Final = 3  # 1970-01-01 was a Thursday.


class Arrivals:
    """Past arrivals, ready to be drawn."""

    def __init__(self, history: History, now_us: int, *, factor: float = 1.0) -> None:
        """`factor`: so many times the load of the past."""
        since_us = now_us - _DAYS_BACK * DAY_US
        self.jobs = [job for job in history.jobs if job.ask.submit_us >= since_us]
        self.times = [job.ask.submit_us for job in self.jobs]
        self.now_us, self.factor = now_us, factor
        self.first_us = self.times[0] if self.times else now_us

    @property
    def note(self) -> str:
        if not self.jobs:
            return "no arrivals are known: nothing is taken to come"
        seen_us = self.now_us - self.first_us
        if seen_us < DAY_US:
            return f"arrivals are known of {seen_us / HOUR_US:.1f} hours only: their rhythm over the day is not known"
        return ""

    def draw(self, seed: int, until_us: int) -> list[tuple[int, PastJob]]:
        """(µs from now, the past job that comes again), by time."""
        return [(at_us, self.jobs[n]) for _, block in self.blocks(seed, until_us) for at_us, n in block]

    def blocks(self, seed: int, until_us: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """The same, block by block: until when a block reaches, and who comes in it, as numbers in `jobs`."""
        random = Random(seed)
        if not self.jobs or self.now_us <= self.first_us:
            return
        at_us = 0
        while at_us < until_us:
            found: list[tuple[int, int]] = []
            # Blocks begin at the same hours every day, so the first one is a part of one.
            begin_us = self.now_us + at_us
            length_us = BLOCK_US - begin_us % BLOCK_US
            from_us = self._source(random, begin_us, length_us)
            for _ in range(self._copies(random)):
                first = bisect_left(self.times, from_us)
                last = bisect_left(self.times, from_us + length_us)
                shift_us = at_us - from_us
                found += [(self.times[n] + shift_us, n) for n in range(first, last)]
                from_us = self._source(random, begin_us, length_us)
            at_us += length_us
            if self.factor < 1:
                found = [pair for pair in found if random.random() < self.factor]
            found.sort()
            yield at_us, found

    def _copies(self, random: Random) -> int:
        if self.factor <= 1:
            return 1
        whole = int(self.factor)
        return whole + (random.random() < self.factor - whole)

    def _source(self, random: Random, begin_us: int, length_us: int) -> int:
        """Where in the past the block that begins at this time is taken from."""
        back = 1 + (begin_us - self.now_us) // DAY_US
        days = range(back, back + _DAYS_BACK)
        whole = [
            from_us
            for day in days
            if self.first_us <= (from_us := begin_us - day * DAY_US) and from_us + length_us <= self.now_us
        ]
        alike = [from_us for from_us in whole if is_weekend(from_us) == is_weekend(begin_us)]
        if alike or whole:
            return random.choice(alike or whole)
        return self.first_us + random.randrange(max(self.now_us - self.first_us - length_us, 1))


def is_weekend(at_us: int) -> bool:
    return (at_us // DAY_US + _EPOCH_WEEKDAY) % 7 >= 5


def again(job: PastJob, name: str, submit_us: int, run_us: int | None = None) -> PastJob:
    """The same request under another name and at another time."""
    return PastJob(name, replace(job.ask, job_id=name, submit_us=submit_us, run_us=run_us))
