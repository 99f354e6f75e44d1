"""The order in which pods try the claims of their batch, against sorting all of them anew before every pod."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any, cast

import pytest

from fairway.provisioning.karpenter.claimline import ClaimLine, Tried
from fairway.provisioning.karpenter.claims import Claim
from fairway.provisioning.karpenter.gosort import LONG, SHORT, Slice, pivot_of
from fairway.provisioning.karpenter.requirements import Requirements, one_of


@cache
def _labels(name: str) -> Requirements:
    return Requirements([one_of("team", (name,))])


def _claim(requirements: Requirements) -> Claim:
    """One with a pod; of which NodePool does not matter."""
    made = Claim.__new__(Claim)
    made.pods, made.requirements, made.rank = [cast(Any, 0)], requirements, (0, 0)
    return made


class _Model:
    """Go's sort over all claims, each time."""

    def __init__(self, claims: list[Claim]) -> None:
        self.claims = claims
        self.order: list[int] = []

    def settle(self) -> None:
        Slice(self.order, [len(c.pods) for c in self.claims]).sort()


@pytest.mark.parametrize("most", [3, SHORT - 1, SHORT + 3, LONG + 20])
@pytest.mark.parametrize("seed", range(5))
def test_the_claim_with_the_fewest_pods_is_tried_first(seed: int, most: int) -> None:
    _played(Random(seed * 100 + most), most, 220 if most > SHORT else 90, takes=0.3, gives_up=0.5)


@pytest.mark.parametrize("seed", range(4))
def test_a_shape_that_many_claims_cannot_hold_keeps_the_order(seed: int) -> None:
    """It has heaps of its own then, which follow what changes."""
    tried = _played(Random(seed), 160, 700, takes=0.02, gives_up=0.01)
    assert any(shape.heaps is not None for shape in tried)


def _played(draw: Random, most: int, steps: int, *, takes: float, gives_up: float) -> list[Tried]:
    line, levels = ClaimLine(), list[int]()
    model = _Model(line.claims)
    shapes = [Tried() for _ in range(3)]
    for _ in range(steps):
        line.settle()
        model.settle()
        tried = draw.choice(shapes)
        if draw.random() < gives_up / 10:
            tried.closed.add(draw.choice(line.classes() or [_labels("z")]))
        classes = [labels for labels in line.classes() if labels not in tried.closed]
        want = [i for i in model.order if line.claims[i].requirements in classes and i not in tried.never]
        taken = -1
        seen: list[int] = []
        walk = line.walk(classes, tried)
        for index in walk:
            seen.append(index)
            if draw.random() < takes:
                taken = index
                break
            if draw.random() < gives_up:
                tried.never.add(index)
        walk.close()  # type: ignore[attr-defined]
        assert seen == want[: len(seen)]
        if taken < 0:
            assert len(seen) == len(want)
        if taken < 0 or (len(line.claims) < most and draw.random() < 0.5):
            if len(line.claims) >= most:
                continue
            levels.append(draw.choice((0, 1)))
            assert line.append(_claim(_labels("ab"[levels[-1]]))) == len(line.claims) - 1
            model.order.append(len(line.claims) - 1)
        else:
            claim = line.claims[taken]
            was = claim.requirements
            claim.pods.append(cast(Any, 0))
            if draw.random() < 0.2:  # pods ask for more and more: what it was it will not be again
                level = draw.randint(levels[taken], 9)
                claim.requirements, levels[taken] = _labels("abcdefghij"[level]), level
            line.moved(taken, was)
    return shapes


@pytest.mark.parametrize("size", [LONG, LONG + 1, 63, 64, 121])
def test_what_looks_sorted_is_what_go_looks_at(size: int) -> None:
    """Sorted but for one claim, wherever it stands; all claims that Go does not look at say nothing."""
    draw = Random(size)
    line = ClaimLine()
    for count in sorted(draw.choice((1, 1, 2, 3)) for _ in range(size)):
        line.append(_claim(_labels("a")))
        line.claims[-1].pods.extend([cast(Any, 0)] * (count - 1))
    sorted_order = list(line._order)
    verdicts = set()
    for _ in range(60):
        order = list(sorted_order)
        order.insert(draw.randrange(size), order.pop(draw.randrange(size)))
        line._order = order
        keys = [len(line.claims[index].pods) for index in order]
        assert line._looks_sorted() is (pivot_of(keys, 0, size)[1] == 0)
        verdicts.add(line._looks_sorted())
        if keys == sorted(keys):
            for count in range(5):
                assert line._first_with(count) == sum(key < count for key in keys)
    assert verdicts == {True, False}


def test_claims_that_were_sorted_anew_are_walked_anew() -> None:
    """Sixty-four steps in vain make heaps; a sort of all claims makes them worthless."""
    line, tried = ClaimLine(), Tried()
    for index in range(70):
        line.settle()
        assert line.append(_claim(_labels("a"))) == index
    assert line.classes() == [_labels("a")]
    for steps, is_kept in ((64, False), (65, True)):
        walk = line.walk(line.classes(), tried)
        assert [next(walk) for _ in range(steps)] == list(range(steps))
        walk.close()  # type: ignore[attr-defined]
        assert (tried.heaps is not None) is is_kept
    assert (tried.seen, tried.sorts) == (70, 0)
    tried.never |= {0, 2}
    assert list(line.walk(line.classes(), tried)) == [1, *range(3, 70)]
    assert list(line.walk([], tried)) == list(line.walk([], Tried())) == []
    for moved, sorts in ((40, 0), (34, 1)):  # Go looks at the 34th for its pivot, not at the 40th
        line.claims[moved].pods.append(cast(Any, 0))
        line.moved(moved, _labels("a"))
        line.settle()
        want = [i for i in line._order if i not in tried.never]
        assert list(line.walk(line.classes(), tried)) == want
        assert sorted(want) == [i for i in range(70) if i not in (0, 2)]
        assert ([len(line.claims[i].pods) for i in want[-2:]], line._sorts) == ([1 + sorts, 2], sorts)
