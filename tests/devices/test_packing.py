"""Packings are the fewest cards: compared with brute force on small demands, with the bound on large ones."""

from __future__ import annotations

import itertools
import random
from functools import lru_cache

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.catalog.placements import layouts
from fairway.devices.packing import Packing, pack
from fairway.errors import UserError

CATALOG = load_catalog()


def held(packing: Packing) -> dict[str, int]:
    return {p.name: sum(cut[i] * n for cut, n in packing.cuts) for i, p in enumerate(packing.profiles)}


@lru_cache(maxsize=4)
def vectors(name: str, profiles: tuple[str, ...]) -> frozenset[tuple[int, ...]]:
    card = CATALOG.gpu(name)
    assert card is not None
    found = {tuple(sum(at.profile.name == p for at in x) for p in profiles) for x in layouts(card)}
    # A card that holds less than another one does is never needed.
    return frozenset(
        one for one in found if not any(o != one and all(map(int.__ge__, o, one)) for o in found)
    )


@pytest.mark.parametrize("name", ["A30", "A100-40GB", "H100"])
def test_no_fewer_cards_would_do(name: str) -> None:
    card = CATALOG.gpu(name)
    assert card is not None
    names = tuple(p.name for p in card.mig if not p.has_media)
    rng = random.Random(7)
    for _ in range(25):
        wanted = tuple(rng.randint(0, 3) for _ in names)
        # Brute force: what so many cards can hold, card after card.
        reached, cards = {tuple(0 for _ in names)}, 0
        while wanted not in reached:
            cards += 1
            reached = {
                tuple(min(a + b, w) for a, b, w in zip(one, cut, wanted, strict=True))
                for one, cut in itertools.product(reached, vectors(name, names))
            }
        packing = pack(card, dict(zip(names, wanted, strict=True)))
        assert packing.cards == cards, (wanted, packing)
        assert packing.bound <= cards
        assert all(held(packing).get(n, 0) >= w for n, w in zip(names, wanted, strict=True))


def test_a_fleet_is_packed_to_its_bound() -> None:
    card = CATALOG.gpu("H100")
    assert card is not None
    wanted = {"1g.10gb": 310_000, "2g.20gb": 120_001, "3g.40gb": 70_003, "1g.20gb": 50_001, "4g.40gb": 30_011}
    packing = pack(card, wanted)
    assert packing.gap == 0 and packing.cards == 132_866
    assert all(held(packing)[n] >= w for n, w in wanted.items())
    assert pack(card, {"1g.10gb": 50}).cards == 8
    assert pack(card, {}).cards == 0
    assert pack(card, {"1g.10gb+me": 3, "1g.10gb": 4}).cards == 3


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"1g.5gb": 1}, "H100-SXM5-80GB has no MIG profile 1g.5gb; its profiles: 1g.10gb, 1g.10gb+me,"),
        ({"1g.10gb": -1}, "-1 instances of 1g.10gb: expected 0 to 1,000,000"),
        ({"1g.10gb": 10**9}, "1000000000 instances of 1g.10gb: expected 0 to 1,000,000"),
    ],
)
def test_what_cannot_be_packed_is_said(wanted: dict[str, int], said: str) -> None:
    card = CATALOG.gpu("H100")
    assert card is not None
    with pytest.raises(UserError) as raised:
        pack(card, wanted)
    assert str(raised.value).startswith(said)
