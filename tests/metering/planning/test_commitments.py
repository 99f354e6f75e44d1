"""How much to reserve: against every possibility, tried one after another."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.errors import UserError
from fairway.metering.planning.commitments import Mix, Offers, cheapest_mix

PRICE = st.integers(0, 100)
OFFERS = st.builds(
    Offers,
    on_demand_micros=PRICE,
    one_year_micros=st.none() | PRICE,
    three_year_micros=st.none() | PRICE,
    spot_micros=st.none() | PRICE,
    spot_share_most=st.sampled_from([0.0, 0.5, 1.0]),
)
LOAD = st.lists(st.integers(0, 5), min_size=1, max_size=6)


def least_cost(load: list[int], offers: Offers) -> float:
    """Every number of machines reserved for one year and for three, each hour met as cheaply as it can be."""
    costs = []
    most = max(load) + 1
    one_most = 0 if offers.one_year_micros is None else most
    three_most = 0 if offers.three_year_micros is None else most
    for one, three in product(range(one_most + 1), range(three_most + 1)):
        cost = float(
            len(load) * (one * (offers.one_year_micros or 0) + three * (offers.three_year_micros or 0))
        )
        for need in load:
            rest = max(0, need - one - three)
            bearing = need * offers.spot_share_most if offers.spot_micros is not None else 0.0
            halves = range(int(2 * min(rest, bearing)) + 1)
            cost += min(
                h / 2 * (offers.spot_micros or 0) + (rest - h / 2) * offers.on_demand_micros for h in halves
            )
        costs.append(cost)
    return min(costs)


@given(LOAD, OFFERS)
def test_no_mix_is_cheaper(load: list[int], offers: Offers) -> None:
    assert cheapest_mix(load, offers).micros == round(least_cost(load, offers))


@given(LOAD, OFFERS)
def test_every_hour_is_met_and_what_it_costs_is_what_is_bought(load: list[int], offers: Offers) -> None:
    mix = cheapest_mix(load, offers)
    reserved = mix.one_year + mix.three_year
    assert mix.on_demand_hours + mix.spot_hours + reserved * len(load) - mix.reserved_idle_hours == sum(load)
    paid = (
        len(load)
        * (mix.one_year * (offers.one_year_micros or 0) + mix.three_year * (offers.three_year_micros or 0))
        + mix.on_demand_hours * offers.on_demand_micros
        + mix.spot_hours * (offers.spot_micros or 0)
    )
    assert mix.micros == round(paid)


def test_of_equal_mixes_the_one_that_reserves_least() -> None:
    assert cheapest_mix([2, 2], Offers(10, one_year_micros=10)) == Mix(0, 0, 4.0, 0.0, 0.0, 40, 40)


@pytest.mark.parametrize(
    ("load", "share", "says"),
    [
        ([], 0.5, "the load curve is empty"),
        ([1, -0.5, 2], 0.5, "says -0.5 machines in hour 1: expected 0 or more"),
        ([1], 1.01, "the share of load on spot is 1.01: expected 0 to 1"),
        ([1], -0.01, "the share of load on spot is -0.01: expected 0 to 1"),
    ],
)
def test_impossible_loads_and_shares_are_refused(load: list[float], share: float, says: str) -> None:
    offers = Offers(10, one_year_micros=7, three_year_micros=5, spot_micros=3, spot_share_most=share)
    with pytest.raises(UserError, match=says):
        cheapest_mix(load, offers)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_hours_without_any_machine_cost_nothing(share: float) -> None:
    offers = Offers(10, one_year_micros=7, three_year_micros=5, spot_micros=3, spot_share_most=share)
    assert cheapest_mix([0, 0, 0], offers).micros == 0


@pytest.mark.parametrize(
    ("one", "three", "want"),
    [
        (6, None, (2, 0)),
        (None, 6, (0, 2)),
        (6, 5, (0, 2)),
        (5, 6, (2, 0)),
        (5, 5, (0, 2)),
        (None, None, (0, 0)),
    ],
)
def test_the_cheaper_commitment_is_the_one_reserved(
    one: int | None, three: int | None, want: tuple[int, int]
) -> None:
    mix = cheapest_mix([2, 2, 3], Offers(10, one, three))
    assert (mix.one_year, mix.three_year) == want
    assert mix.on_demand_hours == (1 if sum(want) else 7)
    assert mix.on_demand_only_micros == 70
    assert mix.saving_share == pytest.approx(1 - mix.micros / 70)


_PRICES: tuple[int | None, ...] = (None, 0, 3, 4, 10, 12)


@pytest.mark.parametrize("load", [[0, 0, 2], [1, 1, 1], [3, 0, 1, 2], [4, 4, 1], [0.5, 2.5]])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_every_price_against_every_other(load: list[float], share: float) -> None:
    """How many are reserved, by which commitment, and what the hours left over run on."""
    for one, three, spot in product(_PRICES, _PRICES, _PRICES):
        offers = Offers(10, one, three, spot, share)
        mix = cheapest_mix(load, offers)
        cheapest = min((p for p in (one, three) if p is not None), default=None)
        costs = []
        for reserved in range(6 if cheapest is not None else 1):
            rest = [max(0, need - reserved) for need in load]
            on_spot = [min(r, need * share) for r, need in zip(rest, load, strict=True)]
            if spot is None or spot >= 10:
                on_spot = [0.0] * len(load)
            hours = sum(rest) - sum(on_spot)
            costs.append(
                (
                    len(load) * reserved * (cheapest or 0) + hours * 10 + sum(on_spot) * (spot or 0),
                    reserved,
                    hours,
                    sum(on_spot),
                    sum(max(0, reserved - need) for need in load),
                )
            )
        cost, reserved, on_demand, spotted, idle = min(costs)
        by_three = three is not None and three == cheapest
        want = Mix(
            one_year=0 if by_three else reserved,
            three_year=reserved if by_three else 0,
            on_demand_hours=on_demand,
            spot_hours=spotted,
            reserved_idle_hours=idle,
            micros=round(cost),
            on_demand_only_micros=round(10 * sum(load)),
        )
        assert mix == want, (one, three, spot)


def test_nothing_is_saved_of_nothing() -> None:
    assert cheapest_mix([0], Offers(10)).saving_share == 0.0
    assert cheapest_mix([3], Offers(0)).saving_share == 0.0
    assert Offers(1) == Offers(1, None, None, None, 0.0)
