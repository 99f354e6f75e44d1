"""Plans against brute force, and their limits."""

from __future__ import annotations

from itertools import product
from math import inf, isinf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.catalog.catalog import load_catalog
from fairway.errors import UserError
from fairway.metering.planning.commitments import Offers, cheapest_mix
from fairway.metering.planning.rightsizing import Service, rightsize
from fairway.metering.planning.spot import (
    Checkpoints,
    break_even_hazard,
    daly_interval_h,
    slowdown,
    spot_economics,
    young_interval_h,
)


def brute_force(load: list[int], offers: Offers) -> float:
    """The least cost over every number of reserved machines; the rest of an hour on what is cheapest."""
    best = inf
    most = max(load)
    ones = range(most + 1) if offers.one_year_micros is not None else [0]
    threes = range(most + 1) if offers.three_year_micros is not None else [0]
    for one, three in product(ones, threes):
        cost = (one * (offers.one_year_micros or 0) + three * (offers.three_year_micros or 0)) * len(load)
        for need in load:
            rest = max(0, need - one - three)
            on_spot = 0.0
            if offers.spot_micros is not None and offers.spot_micros < offers.on_demand_micros:
                on_spot = min(rest, need * offers.spot_share_most)
            cost += on_spot * (offers.spot_micros or 0) + (rest - on_spot) * offers.on_demand_micros
        best = min(best, cost)
    return best


PRICES = st.one_of(st.none(), st.integers(1, 10**8))


@settings(deadline=None, max_examples=60)
@given(
    load=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    on_demand=st.integers(1, 10**8),
    one=PRICES,
    three=PRICES,
    spot=PRICES,
    share=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_the_mix_is_the_cheapest(
    load: list[int], on_demand: int, one: int | None, three: int | None, spot: int | None, share: float
) -> None:
    offers = Offers(on_demand, one, three, spot, share)
    mix = cheapest_mix(load, offers)
    assert mix.micros == pytest.approx(brute_force(load, offers), rel=1e-6, abs=2)


@given(save=st.floats(0.001, 0.2), hazard=st.floats(0.001, 1.0))
def test_dalys_interval_is_nearly_best(save: float, hazard: float) -> None:
    best = daly_interval_h(hazard, save)
    assert best is not None
    at_best = slowdown(hazard, Checkpoints(best, save))
    others = [slowdown(hazard, Checkpoints(best * factor, save)) for factor in (0.25, 0.5, 2.0, 4.0)]
    # Daly gives the error of his interval's run time as below 0.2 % while saving is short against the mean time.
    assert at_best <= min(others) * 1.002


def test_youngs_interval_is_the_textbooks() -> None:
    # Saving takes 5 minutes, an interruption every day: sqrt(2 · 5 min · 24 h) = 2 h.
    assert young_interval_h(1 / 24, 5 / 60) == pytest.approx(2.0)


def test_at_the_break_even_hazard_both_cost_the_same() -> None:
    checkpoints = Checkpoints(1.0, 0.05, 0.1)
    hazard = break_even_hazard(2.5, checkpoints)
    assert slowdown(hazard, checkpoints) == pytest.approx(2.5)


def test_no_discount_breaks_even_at_once() -> None:
    assert break_even_hazard(1.0, Checkpoints(1.0, 0.1)) == 0.0


def test_no_interruption_hurts_where_next_to_nothing_can_be_lost() -> None:
    assert break_even_hazard(2.5, Checkpoints(1e-309)) == inf


def test_a_gang_is_interrupted_as_often_as_all_its_machines() -> None:
    alone = spot_economics(100, 40, 0.01, Checkpoints(1.0, 0.1))
    gang = spot_economics(100, 40, 0.01, Checkpoints(1.0, 0.1), machines=16)
    assert gang.slowdown > alone.slowdown
    assert gang.break_even_hazard_per_h == pytest.approx(alone.break_even_hazard_per_h / 16)


def test_work_that_is_interrupted_faster_than_saved_never_ends() -> None:
    assert isinf(slowdown(1000.0, Checkpoints(1.0)))


def test_impossible_numbers_are_named() -> None:
    with pytest.raises(UserError, match=r"the checkpoint interval is 0: expected more than 0 hours"):
        spot_economics(1, 1, 0.1, Checkpoints(0.0))


def test_a_negative_load_is_located() -> None:
    with pytest.raises(UserError, match=r"-1 machines in hour 1"):
        cheapest_mix([1, -1], Offers(1))


def test_mixed_profiles_share_gpus_where_their_slices_allow() -> None:
    model = load_catalog().gpu("A100-SXM4-40GB")
    assert model is not None
    services = [
        Service("large", 18 * 2**30, 3 / 7, 2),
        Service("small", 4 * 2**30, 1 / 7, 2),
    ]
    answer = rightsize(services, model, 1)
    # Two 3g.20gb fill all eight memory slices of one GPU; the two 1g.5gb need another.
    assert dict(answer.profiles) == {"large": "3g.20gb", "small": "1g.5gb"}
    assert answer.gpus_cut == 2


def test_a_service_larger_than_the_gpu_is_refused() -> None:
    model = load_catalog().gpu("A100-SXM4-40GB")
    assert model is not None
    with pytest.raises(UserError, match=r"service llm: needs 80\.0 GiB"):
        rightsize([Service("llm", 80 * 2**30)], model, 1)
