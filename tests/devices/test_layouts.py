"""Which layout: shared cards obey their model, plans hold every limit, small mixes are exact, phases pay or do not."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.catalog.gpus import GpuModel
from fairway.devices.interference import Demand, alone, in_turns, on_instance, under_mps
from fairway.devices.layouts import (
    MIG,
    MPS,
    TIME_SLICING,
    Phase,
    Service,
    _group_paces,
    online,
    plans,
    smallest,
)
from fairway.devices.mixreading import read_mix
from fairway.errors import InvalidInput, UserError

FIFTY = Path(__file__).parents[2] / "examples" / "15-fifty-services" / "mix.yaml"
GIB = 2**30


def h100() -> GpuModel:
    found = load_catalog().gpu("H100")
    assert found is not None
    return found


def demand(name: str = "a", gib: float = 4, ms: float = 50, rate: float = 2, **more: float) -> Demand:
    said = {"width": 0.3, "bandwidth": 0.2, **more}
    return Demand(name, round(gib * GIB), ms / 1000, rate, **said)


def test_alone_a_request_takes_its_time_and_waits_by_the_load() -> None:
    pace = alone(demand(ms=100, rate=5))
    assert pace.stretch == 1 and pace.load == pytest.approx(0.5)
    # M/D/1: half of rho/(1-rho) of its own time.
    assert pace.mean_s == pytest.approx(0.1 * (1 + 0.5))
    assert alone(demand(ms=100, rate=10)).p95_s == float("inf")


def test_an_instance_is_slower_by_what_it_lacks_and_deaf_to_neighbours() -> None:
    card, wide = h100(), demand(width=1.0, bandwidth=0.1)
    small = card.profile("1g.10gb")
    assert small is not None
    assert on_instance(wide, card, small).stretch == pytest.approx(132 / 16)
    moving = demand(width=0.05, bandwidth=1.0)
    assert on_instance(moving, card, small).stretch == pytest.approx(8)
    narrow = demand(width=0.1, bandwidth=0.1)
    assert on_instance(narrow, card, small).stretch == 1


def test_neighbours_cost_by_what_they_use() -> None:
    quiet, busy = demand("q", rate=0.0), demand("b", rate=10, bandwidth=0.9)
    me = demand("me")
    assert under_mps([me, quiet], 0, 0.5).stretch == 1
    assert under_mps([me, busy, busy], 0, 1 / 3).stretch > 1
    assert in_turns([me], 0) == alone(me)
    paces = [in_turns([me, *[busy] * n], 0).p95_s for n in (0, 1)]
    assert paces == sorted(paces) and paces[0] < paces[1]
    # Two that each want half of the card's time leave none: no answer in time.
    half = demand(ms=100, rate=5)
    assert in_turns([half, half], 0).p95_s == float("inf")


def test_fifty_services_side_by_side() -> None:
    mix = read_mix(FIFTY, load_catalog())
    found = {p.way: p for p in plans(mix.services, mix.model)}
    assert {way: p.count for way, p in found.items()} == {
        "whole": 50,
        "mig": 9,
        "mps": 9,
        "time-slicing": 13,
        "mixed": 9,
    }
    limits = {s.demand.name: s.demand.p95_most_s for s in mix.services}
    for plan in found.values():
        assert not plan.lacking and plan.gap >= 0
        assert all(pace.p95_s <= limits[name] for name, pace in plan.paces)
    for way in (MPS, TIME_SLICING):
        held = {s.demand.name: 0 for s in mix.services}
        for card in found[way].cards:
            for name, n in card.holds:
                held[name] += n * card.count
        assert held == {s.demand.name: s.replicas for s in mix.services}
    assert found[MIG].gap == 0


def test_few_replicas_are_packed_on_the_fewest_cards() -> None:
    """Compared with every way of putting six replicas into groups."""
    card, rng = h100(), random.Random(3)
    for _ in range(6):
        demands = [
            demand(
                f"s{i}",
                gib=rng.choice([6, 20, 35]),
                ms=rng.choice([20, 80]),
                rate=rng.choice([1, 4]),
                p95_most_s=1.0,
            )
            for i in range(6)
        ]
        found = {p.way: p for p in plans([Service(d, 1) for d in demands], card)}
        ways = [
            to
            for to in itertools.product(range(6), repeat=6)
            if list(to) == [sorted(set(to), key=to.index).index(x) for x in to]
        ]
        for way in (MPS, TIME_SLICING):
            fits: dict[tuple[int, ...], bool] = {
                group: _group_paces(way, [demands[i] for i in group], card) is not None
                for size in range(1, 7)
                for group in itertools.combinations(range(6), size)
            }
            fewest = min(
                len(set(to))
                for to in ways
                if all(fits[tuple(i for i in range(6) if to[i] == group)] for group in set(to))
            )
            assert found[way].count == fewest == found[way].bound


def test_the_smallest_instance_that_serves_it_well() -> None:
    card = h100()
    picked = {gib: smallest(demand(gib=gib), card) for gib in (4, 15, 30, 78)}
    assert [p.name if p else None for p in picked.values()] == ["1g.10gb", "1g.20gb", "3g.40gb", "7g.80gb"]
    assert (p := smallest(demand(width=1.0, slowdown_most=2.5), card)) is not None and p.name == "3g.40gb"
    assert smallest(demand(width=1.0, bandwidth=1.0, rate=19.99, p95_most_s=0.001), card) is None


def test_memory_is_not_shared_out_twice() -> None:
    """Twenty services of 9 GiB are 180 GiB and their contexts: three cards, not one."""
    found = {p.way: p for p in plans([Service(demand(gib=9, rate=0.1), 20)], h100())}
    assert found[MPS].count == 3 and found[TIME_SLICING].count == 3


def test_layouts_that_follow_the_day() -> None:
    mix = read_mix(FIFTY, load_catalog())
    follow = online(mix.phases, mix.model, 4_100_000, 120)
    assert follow.cards == (("day", 9), ("night", 5)) and follow.online_micros < follow.static_micros
    # Phases of a minute: cutting costs more than it saves.
    short = [replace(p, hours=1 / 60) for p in mix.phases]
    follow = online(short, mix.model, 4_100_000, 120)
    assert follow.online_micros > follow.static_micros


def test_what_no_card_serves_is_said() -> None:
    with pytest.raises(UserError, match="a replica is too much for a whole H100-SXM5-80GB"):
        plans([Service(demand(gib=100), 1)], h100())
    with pytest.raises(UserError, match="add replicas or relax its limits"):
        plans([Service(demand(ms=1000, rate=1), 1)], h100())
    with pytest.raises(UserError, match="1,000,000 replicas: expected at most 100,000"):
        plans([Service(demand(), 1_000_000)], h100())
    with pytest.raises(UserError, match="no MIG profile"):
        online([Phase("p", 1, (Service(demand(gib=80), 1),))], h100(), 1, 1)


def test_a_million_replicas_of_little_are_refused_and_many_are_planned(tmp_path: Path) -> None:
    found = plans([Service(demand(rate=0.5), 3000), Service(demand("b", gib=8), 2000)], h100())
    assert all(p.count > 0 for p in found)


WRONG = """
apiVersion: fairway.dev/v1alpha1
kind: ServiceMix
metadata: {name: x}
spec:
  gpu: H1000
  phases: {day: long}
  services:
  - {name: a, memory: lots, latency: -5ms, rate: {night: 3}, replicas: 1000000, width: 140%, speed: 3}
  - {name: a, memory: 1Gi, latency: 5ms, rate: many}
"""


def test_a_wrong_mix_names_every_field(tmp_path: Path) -> None:
    (tmp_path / "mix.yaml").write_text(WRONG)
    with pytest.raises(InvalidInput) as raised:
        read_mix(tmp_path / "mix.yaml", load_catalog())
    said = str(raised.value)
    for words in (
        "mix.yaml:6: spec.gpu",
        "spec.phases[day]",
        "spec.services[0].memory",
        "expected a time above 0, such as 80ms or 1.5s",
        "spec.services[0].rate.night",
        "spec.services[0].replicas",
        "expected a share such as 60%",
        "spec.services[0].speed",
        "spec.services[1].rate",
        "a is there 2 times",
    ):
        assert words in said, words
    (tmp_path / "none.yaml").write_text("kind: ServiceMi\n")
    with pytest.raises(UserError):
        read_mix(tmp_path / "none.yaml", load_catalog())
