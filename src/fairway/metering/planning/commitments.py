"""How much of a load should be reserved, for one year or three, and what bought by the hour?

A mixed-integer programme: whole machines are reserved for the span and paid whether they are needed or not; every
hour's remaining need is met on demand, or on spot up to a share of the load that bears interruption, at its
effective price (see `spot`). Hours of equal load are one row, so a year has as many rows as distinct loads.

Solved with HiGHS. Source: Huangfu and Hall, Math. Prog. Comp. 10, 2018.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairway.errors import UserError, WorldError


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

    Raises: UserError for an empty or negative load; WorldError if the solver finds no answer.
    """
    _check(load, offers)
    levels = sorted(Counter(load).items())
    answer = _solve(levels, offers)
    one, three = round(answer[0]), round(answer[1])
    on_demand = spot = idle = 0.0
    for row, (need, hours) in enumerate(levels):
        on_demand += answer[2 + 2 * row] * hours
        spot += answer[3 + 2 * row] * hours
        idle += max(0.0, one + three - need) * hours
    span = len(load)
    micros = (
        one * (offers.one_year_micros or 0) * span
        + three * (offers.three_year_micros or 0) * span
        + on_demand * offers.on_demand_micros
        + spot * (offers.spot_micros or 0)
    )
    return Mix(one, three, on_demand, spot, idle, round(micros), round(sum(load) * offers.on_demand_micros))


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


def _solve(levels: Sequence[tuple[float, int]], offers: Offers) -> list[float]:
    """Values of the columns: reserved for one year, for three, then on-demand and spot by level."""
    import highspy

    inf = highspy.kHighsInf
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    # One thread and no heuristics by time: the same answer every time.
    solver.setOptionValue("threads", 1)
    span = sum(hours for _, hours in levels)
    for price in (offers.one_year_micros, offers.three_year_micros):
        solver.addCol((price or 0) * span / 1e6, 0.0, 0.0 if price is None else inf, 0, [], [])
    solver.changeColsIntegrality(2, [0, 1], [highspy.HighsVarType.kInteger] * 2)
    for need, hours in levels:
        most = need * offers.spot_share_most if offers.spot_micros is not None else 0.0
        solver.addCol(offers.on_demand_micros * hours / 1e6, 0.0, inf, 0, [], [])
        solver.addCol((offers.spot_micros or 0) * hours / 1e6, 0.0, most, 0, [], [])
    for row, (need, _) in enumerate(levels):
        solver.addRow(need, inf, 4, [0, 1, 2 + 2 * row, 3 + 2 * row], [1.0] * 4)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise WorldError(f"HiGHS found no mix: {solver.modelStatusToString(solver.getModelStatus())}")
    return [float(v) for v in solver.getSolution().col_value]
