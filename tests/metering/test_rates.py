"""What machines cost hour by hour: by the price book, its changes, and the terms they were bought under."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairway.catalog.catalog import catalog_of
from fairway.catalog.prices import Price
from fairway.kube.manifest import read_text
from fairway.kube.timestamps import HOUR_US, parse_rfc3339
from fairway.metering.ground import Machines
from fairway.metering.rates import UNPRICED, Terms, rates_of

MAY = parse_rfc3339("2026-05-01T00:00:00Z")
NOON = MAY + 12 * HOUR_US
BOOK = catalog_of(
    read_text(
        """apiVersion: fairway.dev/v1alpha1
kind: PriceBook
metadata: {name: ours}
spec:
  currency: USD
  unit: instance-hour
  prices:
  - {instanceType: g5.xlarge, onDemand: 1.0, oneYear: 0.7, spot: 0.5, until: "2026-05-01T12:00:00Z"}
  - {instanceType: g5.xlarge, onDemand: 2.0, from: "2026-05-01T12:00:00Z"}
""",
        "book.yaml",
    )
)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def machine(start: int, ready: int, end: int, capacity_type: str = "", kind: str = "g5.xlarge") -> Machines:
    return Machines(
        names=("n",),
        instance_types=(kind,),
        zones=("",),
        capacity_types=(capacity_type,),
        gpu_models=("A10G",),
        start_us=ints(start),
        ready_us=ints(ready),
        end_us=ints(end),
        gpus=np.ones(1),
        cpu_milli=ints(4000),
        memory_bytes=ints(16 << 30),
        system_cpu_milli=ints(0),
        system_memory_bytes=ints(0),
    )


def stretches(found: Machines, terms: Terms | None = None, origin: int = MAY) -> list[tuple[int, int, int]]:
    rates = rates_of(found, BOOK, origin, terms)
    return list(
        zip(rates.start_us.tolist(), rates.end_us.tolist(), rates.micros_per_hour.tolist(), strict=True)
    )


def test_a_change_of_price_and_the_moment_of_being_ready_cut_a_life() -> None:
    hour = HOUR_US
    assert stretches(machine(10 * hour, 11 * hour, 14 * hour)) == [
        (10 * hour, 11 * hour, 1_000_000),
        (11 * hour, 12 * hour, 1_000_000),
        (12 * hour, 14 * hour, 2_000_000),
    ]
    # The same day as times since 1970.
    assert stretches(machine(NOON - hour, NOON - hour, NOON + hour), origin=0) == [
        (NOON - hour, NOON, 1_000_000),
        (NOON, NOON + hour, 2_000_000),
    ]


def test_a_commitment_is_for_machines_on_demand_and_never_for_spot() -> None:
    terms = Terms("1y")
    assert [price for *_, price in stretches(machine(0, 0, HOUR_US, "on-demand"), terms)] == [700_000]
    assert [price for *_, price in stretches(machine(0, 0, HOUR_US, "spot"), terms)] == [500_000]
    assert [price for *_, price in stretches(machine(0, 0, HOUR_US, "spot"))] == [500_000]


def test_what_nobody_prices_says_why_by_stretch() -> None:
    known, unknown = machine(0, 0, HOUR_US), machine(0, 0, HOUR_US, kind="x9.huge")
    both = Machines(
        *(
            (*a, *b) if isinstance(a, tuple) else np.concatenate([a, b])
            for a, b in zip(
                *([getattr(m, f) for f in Machines.__dataclass_fields__] for m in (known, unknown)),
                strict=True,
            )
        )
    )
    rates = rates_of(both, BOOK, MAY)
    assert rates.micros_per_hour.tolist() == [1_000_000, -1] and UNPRICED == -1
    assert list(rates.reasons) == [1]


TIMES = st.integers(0, 24).map(lambda hours: hours * HOUR_US)


@given(st.lists(TIMES, min_size=3, max_size=3).map(sorted))
def test_stretches_cover_a_life_without_gaps_each_at_the_price_of_its_time(times: list[int]) -> None:
    start, ready, end = times
    found = stretches(machine(start, ready, end))
    assert [a for a, *_ in found][1:] == [b for _, b, _ in found][:-1]
    assert (found[0][0], found[-1][1]) == (start, end)
    for since, until, micros in found:
        for at in {since, max(since, until - 1)}:
            price = BOOK.price("g5.xlarge", "on-demand", at_us=MAY + at)
            assert isinstance(price, Price)
            assert price.micros_per_hour == micros
    assert ready in {a for a, *_ in found} | {end}


def test_times_are_since_1970_where_no_origin_is_said() -> None:
    found = rates_of(machine(NOON - HOUR_US, NOON - HOUR_US, NOON + HOUR_US), BOOK)
    assert found.start_us.tolist() == [NOON - HOUR_US, NOON]
    assert found.end_us.tolist() == [NOON, NOON + HOUR_US]


def test_a_change_at_the_first_or_the_last_moment_cuts_nothing() -> None:
    """Of price, and of being ready: a stretch has a length."""
    hour, noon = HOUR_US, 12 * HOUR_US
    assert stretches(machine(11 * hour, 11 * hour, noon)) == [(11 * hour, noon, 1_000_000)]
    assert stretches(machine(noon, noon, 13 * hour)) == [(noon, 13 * hour, 2_000_000)]
    assert stretches(machine(noon, 13 * hour, 13 * hour)) == [(noon, 13 * hour, 2_000_000)]
    # Not a node while it was there, or one before it.
    assert stretches(machine(noon, 14 * hour, 13 * hour)) == [(noon, 13 * hour, 2_000_000)]
    assert stretches(machine(noon, 11 * hour, 13 * hour)) == [(noon, 13 * hour, 2_000_000)]
    # A microsecond on either side of the change is a stretch.
    assert stretches(machine(noon - 1, 0, noon + 1)) == [
        (noon - 1, noon, 1_000_000),
        (noon, noon + 1, 2_000_000),
    ]
