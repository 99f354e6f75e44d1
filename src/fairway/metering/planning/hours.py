"""Machines that are not always on: what do the hours cost that nobody needs?"""

from __future__ import annotations

from dataclasses import dataclass

HOURS_PER_MONTH = 730
"""365 × 24 / 12, as the clouds' calculators reckon."""
HOURS_PER_YEAR = 8760


@dataclass(frozen=True, slots=True)
class AlwaysOn:
    """µ$ over a span: always on, and only while needed."""

    always_micros: int
    needed_micros: int

    @property
    def saving_micros(self) -> int:
        return self.always_micros - self.needed_micros


def cost_of(machines: int, micros_per_hour: int, hours: int) -> int:
    """µ$ of so many machines for so many hours."""
    return machines * micros_per_hour * hours


def scale_to_zero(
    machines: int, micros_per_hour: int, needed_h: int, span_h: int, start_h: float = 0.0, starts: int = 0
) -> AlwaysOn:
    """What turning machines off while nobody needs them saves; every start is paid for `start_h` hours, rounded up."""
    warmup = -int(-machines * micros_per_hour * start_h * starts // 1)
    return AlwaysOn(
        cost_of(machines, micros_per_hour, span_h), cost_of(machines, micros_per_hour, needed_h) + warmup
    )
