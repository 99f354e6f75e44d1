"""MIG instances are where NVIDIA's tables put them and nowhere else, and the driver's choice is made as it makes it."""

from __future__ import annotations

import itertools
import re

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.catalog.gpus import GpuModel, MigProfile
from fairway.catalog.placements import (
    Instance,
    fits,
    laid_out,
    layout_of,
    layout_text,
    layouts,
    placed,
    placements,
)

CATALOG = load_catalog()
CUT = [m for m in CATALOG.gpus() if m.mig]
# What `nvidia-smi mig -lgipp` prints: profile ID, starts, memory slices.
SEVEN = """
Profile ID 19 Placements: {0,1,2,3,4,5,6}:1
Profile ID 20 Placements: {0,1,2,3,4,5,6}:1
Profile ID 15 Placements: {0,2,4,6}:2
Profile ID 14 Placements: {0,2,4}:2
Profile ID  9 Placements: {0,4}:4
Profile ID  5 Placement : {0}:4
Profile ID  0 Placement : {0}:8
"""
FOUR = """
Profile ID 14 Placements: {0,1,2,3}:1
Profile ID 21 Placements: {0,1,2,3}:1
Profile ID  5 Placements: {0,2}:2
Profile ID  6 Placements: {0,2}:2
Profile ID  0 Placement : {0}:4
"""


def model(name: str) -> GpuModel:
    found = CATALOG.gpu(name)
    assert found is not None
    return found


def profile(of: GpuModel, name: str) -> MigProfile:
    found = of.profile(name)
    assert found is not None, name
    return found


@pytest.mark.parametrize("card", CUT, ids=lambda m: m.name)
def test_every_placement_of_the_tables_and_no_other(card: GpuModel) -> None:
    table = FOUR if card.name == "A30" else SEVEN
    want = set()
    for number, starts, width in re.findall(r"ID +(\d+) Placements? ?: \{([\d,]+)\}:(\d)", table):
        want |= {(int(number), int(s), int(width)) for s in starts.split(",")}
    assert {(i.profile.id, i.start, i.profile.memory_slices) for i in placements(card)} == want


@pytest.mark.parametrize("name", ["A30", "A100-40GB", "H100"])
def test_layouts_are_those_that_brute_force_finds(name: str) -> None:
    """Every subset of placements without overlap, with the card's compute slices, with one media instance."""
    card = model(name)
    places = placements(card)
    want = set()
    most = card.compute_slices
    for size in range(most + 1):
        for chosen in itertools.combinations(places, size) if name == "A30" or size <= 3 else ():
            covered = [s for at in chosen for s in range(at.start, at.end)]
            media = sum(at.profile.has_media for at in chosen)
            compute = sum(at.profile.compute_slices for at in chosen)
            if len(covered) == len(set(covered)) and media <= 1 and compute <= most:
                want.add(frozenset(chosen))
    found = [frozenset(x) for x in layouts(card)]
    assert len(found) == len(set(found))
    assert {x for x in found if name == "A30" or len(x) <= 3} == want


def test_the_driver_takes_the_place_that_bars_the_fewest_others() -> None:
    """`nvidia-smi mig -cgi 19,19,19,19,19,19,19` creates the GPU instances 13, 11, 12, 7, 8, 9, 10."""
    card = model("A100-40GB")
    layout: tuple[Instance, ...] = ()
    ids = []
    while (at := placed(card, layout, profile(card, "1g.5gb"))) is not None:
        layout = (*layout, at)
        ids.append(at.id_on(card))
    assert ids == [13, 11, 12, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("counts", "want"),
    [
        ({"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}, "2g.20gb@0,1g.10gb@2,1g.10gb@3,3g.40gb@4"),
        ({"4g.40gb": 1, "3g.40gb": 1}, "4g.40gb@0,3g.40gb@4"),
        ({"2g.20gb": 3, "1g.10gb": 1}, "2g.20gb@0,2g.20gb@2,2g.20gb@4,1g.10gb@6"),
        ({"1g.10gb": 4, "3g.40gb": 1}, "1g.10gb@0,1g.10gb@1,1g.10gb@2,1g.10gb@3,3g.40gb@4"),
        ({"1g.20gb": 4}, "1g.20gb@0,1g.20gb@2,1g.20gb@4,1g.20gb@6"),
        ({"2g.20gb": 4}, None),
        ({"4g.40gb": 2}, None),
        ({"1g.10gb+me": 2}, None),
        ({"1g.10gb": 1_000_000}, None),
        ({}, ""),
    ],
)
def test_mig_parted_finds_an_order_where_there_is_one(counts: dict[str, int], want: str | None) -> None:
    card = model("H100")
    found = laid_out(card, {profile(card, name): n for name, n in counts.items()})
    assert (None if found is None else layout_text(found)) == want


def test_counts_have_a_layout_where_some_layout_has_those_counts() -> None:
    card = model("H200")
    possible = {tuple(sorted(at.profile.name for at in x)) for x in layouts(card)}
    for names in itertools.chain.from_iterable(
        itertools.combinations_with_replacement([p.name for p in card.mig], n) for n in (2, 3)
    ):
        counts = {profile(card, n): names.count(n) for n in names}
        assert (laid_out(card, counts) is not None) == (names in possible or tuple(sorted(names)) in possible)


def test_a_layout_in_writing_is_the_layout() -> None:
    card = model("B200")
    for layout in layouts(card):
        ordered = tuple(sorted(layout, key=lambda x: x.start))
        assert layout_of(card, layout_text(ordered)) == ordered
    for wrong in (
        "9g.1gb@0",
        "1g.23gb@7",
        "1g.23gb",
        "1g.23gb@x",
        "3g.90gb@0,4g.90gb@0",
        "1g.23gb@99999999999",
    ):
        assert layout_of(card, wrong) is None
    assert not fits(card, (), Instance(profile(card, "2g.45gb"), 1))
