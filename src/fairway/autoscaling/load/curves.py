"""A value over time: steps, straight lines between them, or a pattern that repeats.

    parse_curve("0s:10,5m:90")      # 10 at first, 90 from five minutes on
    parse_curve("0s:0,1h:100", ramp=True, every_us=DAY_US)

Values are thousandths, times µs since the load began.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fairway.autoscaling.source import NEVER_US
from fairway.kube.quantity import QuantityError, milli_ceil
from fairway.kube.timestamps import SECOND_US, parse_duration

# How often a straight line is taken to have changed: as often as metrics are scraped.
GRAIN_US: Final = 15 * SECOND_US
# Steps of one curve. A year of minutes would be too many; a month of minutes is not.
STEPS_MOST: Final = 50_000
EXPECTED: Final = "a value, or steps such as 0s:10,5m:90"


class Curve(NamedTuple):
    """`steps`: (from, value), sorted, the first at 0. `every_us` 0: it does not repeat."""

    steps: tuple[tuple[int, int], ...]
    ramp: bool = False
    every_us: int = 0

    def at(self, since_us: int) -> int:
        """The value at a time since the load began."""
        if self.every_us:
            since_us %= self.every_us
        number = self._number(since_us)
        from_us, value = self.steps[number]
        if not self.ramp or number + 1 == len(self.steps):
            return value
        to_us, goal = self.steps[number + 1]
        return value + (goal - value) * (since_us - from_us) // (to_us - from_us)

    def total(self, since_us: int) -> int:
        """What it comes to until then, where the value is what a second adds. O(steps)."""
        rounds, rest_us = divmod(since_us, self.every_us) if self.every_us else (0, since_us)
        area = self._area(rest_us) + (rounds * self._area(self.every_us) if rounds else 0)
        return area // (2 * SECOND_US)

    def _area(self, until_us: int) -> int:
        """Twice the area under it."""
        area = 0
        for number, (from_us, value) in enumerate(self.steps):
            if from_us >= until_us:
                break
            is_last = number + 1 == len(self.steps)
            to_us = until_us if is_last else min(self.steps[number + 1][0], until_us)
            end = value
            if self.ramp and not is_last:
                next_us, goal = self.steps[number + 1]
                end = value + (goal - value) * (to_us - from_us) // (next_us - from_us)
            area += (value + end) * (to_us - from_us)
        return area

    def changes_at(self, since_us: int) -> int:
        """When the value is another for the first time after that; NEVER_US if it stays."""
        began_us = since_us // self.every_us * self.every_us if self.every_us else 0
        within_us = since_us - began_us
        number = self._number(within_us)
        steps = self.steps
        if self.ramp and number + 1 < len(steps) and steps[number + 1][1] != steps[number][1]:
            return began_us + min(within_us // GRAIN_US * GRAIN_US + GRAIN_US, steps[number + 1][0])
        if number + 1 < len(steps):
            return began_us + steps[number + 1][0]
        return began_us + self.every_us if self.every_us and len(steps) > 1 else NEVER_US

    def _number(self, since_us: int) -> int:
        low, high = 0, len(self.steps)
        while high - low > 1:
            middle = (low + high) // 2
            if self.steps[middle][0] <= since_us:
                low = middle
            else:
                high = middle
        return low


def constant(milli: int) -> Curve:
    return Curve(((0, milli),))


def parse_curve(text: object, *, ramp: bool = False, every_us: int = 0) -> Curve:
    """Raises: ValueError, saying what was expected."""
    steps: dict[int, int] = {}
    parts = str(text).split(",")
    if len(parts) > STEPS_MOST:
        raise ValueError(f"expected at most {STEPS_MOST} steps")
    for part in parts:
        at, colon, what = part.strip().rpartition(":")
        try:
            steps[parse_duration(at) if colon else 0] = milli_ceil(what)
        except (ValueError, QuantityError):
            raise ValueError(f"expected {EXPECTED}") from None
    if min(steps) > 0:
        steps[0] = 0
    if every_us and max(steps) >= every_us:
        raise ValueError("expected steps within the time after which they repeat")
    return Curve(tuple(sorted(steps.items())), ramp, every_us)
