"""What guides to GPU costs reckon, reproduced from the catalogue and the engines."""

from __future__ import annotations

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.catalog.prices import Price
from fairway.metering.planning.commitments import Offers, cheapest_mix
from fairway.metering.planning.hours import HOURS_PER_MONTH, HOURS_PER_YEAR, cost_of, scale_to_zero
from fairway.metering.planning.rightsizing import Service, rightsize
from fairway.metering.planning.spot import Checkpoints, spot_economics

DOLLAR = 1_000_000
CATALOG = load_catalog()


def price(instance_type: str, capacity_type: str = "on-demand", commitment: str = "") -> int:
    found = CATALOG.price(instance_type, capacity_type, commitment=commitment)
    assert isinstance(found, Price), found
    return found.micros_per_hour


def test_eight_p4d_always_on_for_a_month() -> None:
    # The guide drops the cents.
    assert cost_of(8, price("p4d.24xlarge"), HOURS_PER_MONTH) // DOLLAR == 191_376


def test_only_ten_hours_a_day_and_then_on_spot() -> None:
    month = scale_to_zero(8, price("p4d.24xlarge"), needed_h=10 * 30, span_h=HOURS_PER_MONTH)
    assert month.needed_micros == 78_648 * DOLLAR
    assert month.saving_micros == month.always_micros - month.needed_micros
    assert cost_of(8, price("p4d.24xlarge", "spot"), 10 * 30) == 30_000 * DOLLAR


def test_a_node_year_of_p5() -> None:
    assert cost_of(1, price("p5.48xlarge"), HOURS_PER_YEAR) // DOLLAR == 861_283


def test_half_hour_checkpoints_keep_96_percent_of_the_spot_saving() -> None:
    on_demand, spot = price("p4d.24xlarge"), price("p4d.24xlarge", "spot")
    answer = spot_economics(on_demand, spot, hazard_per_h=1 / 4, checkpoints=Checkpoints(interval_h=0.5))
    assert answer.kept_saving == pytest.approx(0.96, abs=0.005)
    # A guide says 99.5 %. Its mistake: it sets the lost work of one node (a quarter of an hour every four, at the
    # spot price) against the saving times the node's eight GPUs, although the price is the whole node's already.
    lost = 0.25 * 0.25 * spot
    assert 1 - lost / (8 * (on_demand - spot)) == pytest.approx(0.995, abs=0.0005)
    assert 1 - lost / (on_demand - spot) == pytest.approx(0.96, abs=0.005)


def test_fifty_inference_services_on_sevenths() -> None:
    model = CATALOG.gpu("H100-80GB") or CATALOG.gpu("H100-SXM5-80GB")
    assert model is not None
    small = Service("svc", memory_bytes=9 * 2**30, compute_share=1 / 7, replicas=50)
    answer = rightsize([small], model, gpu_micros_per_hour=40 * DOLLAR)
    assert (answer.gpus_whole, answer.gpus_cut) == (50, 8)
    assert (answer.micros_whole, answer.micros_cut) == (2_000 * DOLLAR, 320 * DOLLAR)


def test_ten_p5_for_a_year_on_demand_against_a_one_year_plan() -> None:
    offers = Offers(price("p5.48xlarge"), price("p5.48xlarge", commitment="1y"))
    mix = cheapest_mix([10] * HOURS_PER_YEAR, offers)
    assert (mix.one_year, mix.on_demand_hours) == (10, 0)
    assert round(mix.on_demand_only_micros / DOLLAR / 1e5) == 86
    assert round(mix.micros / DOLLAR / 1e5) == 58
