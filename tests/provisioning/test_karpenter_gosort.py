"""How Go sorts, and who is therefore tried first. The orders are those of a Go program (go1.27, sort.Slice)."""

from __future__ import annotations

import pytest
from karpenterworlds import kind, names, pod, solve, world

from fairway.provisioning.karpenter.gosort import Slice

CASES = {
    "up to twelve: stable": (
        [1, 1, 2, 2, 1, 3, 3, 1, 2, 1, 1, 2],
        [0, 1, 4, 7, 9, 10, 2, 3, 8, 11, 5, 6],
    ),
    "from thirteen on: not": (
        [1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2],
        [9, 10, 2, 7, 4, 5, 8, 11, 1, 0, 6, 12, 3, 13],
    ),
    "a new one at the end": ([2] * 12 + [1], [12, 6, 2, 3, 4, 5, 0, 7, 8, 9, 10, 11, 1]),
    "in disorder": (
        [3, 1, 2, 3, 1, 2, 2, 2, 1, 1, 3, 3, 2, 1, 2, 3, 1, 1, 2, 3],
        [8, 1, 13, 16, 4, 17, 9, 18, 7, 6, 5, 14, 12, 2, 10, 15, 11, 0, 3, 19],
    ),
    "falling: turned round": (list(range(15, 0, -1)), list(range(14, -1, -1))),
    "from fifty on: mended, where it looks sorted": (
        [1] * 9 + [2] + [1] * 20 + [2] * 22,
        [*range(9), *range(10, 30), 9, *range(30, 52)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_are_left_as_go_leaves_them(case: str) -> None:
    keys, expected = CASES[case]
    items = list(range(len(keys)))
    Slice(items, keys).sort()
    assert items == expected


def test_what_is_sorted_stays() -> None:
    for size in (3, 13, 49, 50, 200):
        items = list(range(size))
        Slice(items, [i // 3 for i in items]).sort()
        assert items == list(range(size))


def test_many_claims_are_tried_in_the_order_go_leaves_them() -> None:
    """Fourteen claims of one pod each, six small pods after them: as the compiled engine places them."""
    pods = [pod(f"l{i:02d}", "3") for i in range(14)] + [pod(f"s{i:02d}", "500m") for i in range(6)]
    found = sorted(names(solve(world([kind("s.small", 4, 16)]), pods)))
    shared = {claim[0]: claim[1] for claim in found if len(claim) > 1}
    assert shared == {"l00": "s00", "l06": "s01", "l08": "s02", "l01": "s03", "l12": "s04", "l07": "s05"}
