"""How much of a load should be reserved, for one year or three, and what bought by the hour?

Whole machines are reserved for the span and paid whether they are needed or not; every hour's remaining need is met on
demand, or on spot up to a share of the load that bears interruption, at its effective price (see `spot`).

Exact: of the two commitments the cheaper serves every reserved machine, what a number of reserved machines costs in
all is convex in that number, and the first number after which one more saves nothing is found by bisection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from fairway.errors import UserError


@dataclass(frozen=True, slots=True)
class Offers:
    """µ$ an hour and machine; None: not to be had. `spot_micros` is effective: lost work reckoned in."""

    on_demand_micros: int
    one_year_micros: int | None = None
    three_year_micros: int | None = None
    spot_micros: int | None = None
    spot_share_most: float = 0.0
    """Of every hour's load, the part that may run on spot."""


@dataclass(frozen=True, slots=True)
class Mix:
    """The cheapest way to meet the load. Hours are machine-hours; µ$ over the whole load curve."""

    one_year: int
    three_year: int
    on_demand_hours: float
    spot_hours: float
    reserved_idle_hours: float
    micros: int
    on_demand_only_micros: int

    @property
    def saving_share(self) -> float:
        return 1 - self.micros / self.on_demand_only_micros if self.on_demand_only_micros else 0.0


def cheapest_mix(load: Sequence[float], offers: Offers) -> Mix:
    """The mix for machines needed in each hour.

    Of equal mixes the one that reserves least. Raises: UserError for an empty or negative load.
    """
    _check(load, offers)
    levels = sorted(Counter(load).items())
    reserved = _reserved_best(levels, offers, len(load))
    by_three = _commitment(offers) is not None and offers.three_year_micros == _commitment(offers)
    on_demand = spot = idle = 0.0
    for need, hours in levels:
        spotted = _on_spot(need, reserved, offers)
        spot += spotted * hours
        on_demand += (max(0.0, need - reserved) - spotted) * hours
        idle += max(0.0, reserved - need) * hours
    return Mix(
        one_year=0 if by_three else reserved,
        three_year=reserved if by_three else 0,
        on_demand_hours=on_demand,
        spot_hours=spot,
        reserved_idle_hours=idle,
        micros=round(_cost(levels, offers, reserved, len(load))),
        on_demand_only_micros=round(sum(load) * offers.on_demand_micros),
    )


def _reserved_best(levels: Sequence[tuple[float, int]], offers: Offers, span: int) -> int:
    """The fewest reserved machines of least cost."""
    if _commitment(offers) is None:
        return 0
    low, high = 0, ceil(levels[-1][0])
    while low < high:
        middle = (low + high) // 2
        if _cost(levels, offers, middle + 1, span) < _cost(levels, offers, middle, span):
            low = middle + 1
        else:
            high = middle
    return low


def _cost(levels: Sequence[tuple[float, int]], offers: Offers, reserved: int, span: int) -> float:
    """µ$ over the whole load with so many machines reserved."""
    bought = 0.0
    for need, hours in levels:
        spotted = _on_spot(need, reserved, offers)
        on_demand = max(0.0, need - reserved) - spotted
        bought += hours * (on_demand * offers.on_demand_micros + spotted * (offers.spot_micros or 0))
    return reserved * (_commitment(offers) or 0) * span + bought


def _on_spot(need: float, reserved: int, offers: Offers) -> float:
    """Machines of one hour that run on spot."""
    if offers.spot_micros is None or offers.spot_micros >= offers.on_demand_micros:
        return 0.0
    return min(max(0.0, need - reserved), need * offers.spot_share_most)


def _commitment(offers: Offers) -> int | None:
    """The cheaper of the two, µ$ an hour; None: neither is to be had."""
    return min((p for p in (offers.one_year_micros, offers.three_year_micros) if p is not None), default=None)


def _check(load: Sequence[float], offers: Offers) -> None:
    if not load:
        raise UserError("the load curve is empty: expected the machines needed in each hour")
    worst = min(load)
    if worst < 0:
        raise UserError(
            f"the load curve says {worst:g} machines in hour {list(load).index(worst)}: expected 0 or more"
        )
    if not 0 <= offers.spot_share_most <= 1:
        raise UserError(f"the share of load on spot is {offers.spot_share_most:g}: expected 0 to 1")
