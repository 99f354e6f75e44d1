"""How Go sorts, and who is therefore tried first. The orders are those of a Go program (go1.27, sort.Slice)."""

from __future__ import annotations

from random import Random

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


# Against Go's steps, said with `less` and `swap` alone


class _Go:
    """Items of a list, compared and exchanged as sort.Slice does it."""

    def __init__(self, keys: list[int]) -> None:
        self.keys, self.items = list(keys), list(range(len(keys)))

    def less(self, i: int, j: int) -> bool:
        return self.keys[i] < self.keys[j]

    def swap(self, i: int, j: int) -> None:
        for each in (self.keys, self.items):
            each[i], each[j] = each[j], each[i]

    def sort(self, a: int, b: int, limit: int) -> None:
        balanced = partitioned = True
        while True:
            length = b - a
            if length <= 12:
                for end in range(a + 1, b):
                    self.sink(end, a)
                return
            if limit == 0:
                raise RecursionError  # heapsort
            if not balanced:
                self.break_patterns(a, b)
                limit -= 1
            pivot, swaps = self.choose(a, b)
            if swaps == 12:
                for n in range(length // 2):
                    self.swap(a + n, b - 1 - n)
                pivot, swaps = b - 1 - (pivot - a), 0
            if balanced and partitioned and swaps == 0 and self.mended(a, b):
                return
            if a > 0 and not self.less(a - 1, pivot):
                a = self.parted(a, b, pivot, equals=True)[0]
                continue
            middle, partitioned = self.parted(a, b, pivot, equals=False)
            if middle - a < b - middle:
                balanced = middle - a >= length // 8
                self.sort(a, middle, limit)
                a = middle + 1
            else:
                balanced = b - middle >= length // 8
                self.sort(middle + 1, b, limit)
                b = middle

    def sink(self, at: int, low: int) -> None:
        while at > low and self.less(at, at - 1):
            self.swap(at, at - 1)
            at -= 1

    def mended(self, a: int, b: int) -> bool:
        i = a + 1
        for _ in range(5):
            while i < b and not self.less(i, i - 1):
                i += 1
            if i == b:
                return True
            if b - a < 50:
                return False
            self.swap(i, i - 1)
            if i - a >= 2:
                self.sink(i - 1, 0)
            for j in range(i + 1, b):
                if not self.less(j, j - 1):
                    break
                self.swap(j, j - 1)
        return False

    def parted(self, a: int, b: int, pivot: int, *, equals: bool) -> tuple[int, bool]:
        """The place of the pivot; or, of a slice whose least is the pivot, where what is larger begins."""
        self.swap(a, pivot)
        i, j, moved = a + 1, b - 1, False
        while True:
            while i <= j and (not self.less(a, i) if equals else self.less(i, a)):
                i += 1
            while i <= j and (self.less(a, j) if equals else not self.less(j, a)):
                j -= 1
            if i > j:
                break
            self.swap(i, j)
            i, j, moved = i + 1, j - 1, True
        if equals:
            return i, False
        self.swap(j, a)
        return j, not moved

    def break_patterns(self, a: int, b: int) -> None:
        length = b - a
        drawn, modulus = length, 1
        while modulus <= length:
            modulus *= 2
        for at in range(a + length // 4 * 2 - 1, a + length // 4 * 2 + 2):
            drawn = (drawn ^ drawn << 13) % 2**64
            drawn = drawn ^ drawn >> 7
            drawn = (drawn ^ drawn << 17) % 2**64
            other = drawn % modulus
            self.swap(at, a + (other - length if other >= length else other))

    def choose(self, a: int, b: int) -> tuple[int, int]:
        swaps = 0

        def median(x: int, y: int, z: int) -> int:
            nonlocal swaps
            for first in (True, False, True):
                low, high = (x, y) if first else (y, z)
                if self.less(high, low):
                    low, high = high, low
                    swaps += 1
                x, y, z = (low, high, z) if first else (x, low, high)
            return y

        quarter = (b - a) // 4
        i, j, k = a + quarter, a + 2 * quarter, a + 3 * quarter
        if b - a >= 50:
            i, j, k = (median(n - 1, n, n + 1) for n in (i, j, k))
        return median(i, j, k), swaps


def _keys(draw: Random) -> list[int]:
    size = draw.choice((13, 14, 20, 33, 49, 50, 51, 64, 100, 180))
    shape = draw.choice(
        ("few", "many", "rising", "falling", "nearly", "saw", "pipe", "blocks", "rotated", "strict")
    )
    if shape == "few":
        return [draw.randrange(3) for _ in range(size)]
    if shape == "many":
        return [draw.randrange(size) for _ in range(size)]
    if shape == "strict":
        return [*range(size, 1, -1), draw.randrange(size)]
    keys = [i // draw.choice((1, 1, 2, 5)) for i in range(size)]
    keys.sort(reverse=shape == "falling")
    if shape in ("nearly", "falling"):
        for _ in range(draw.randint(0, 6)):
            i = draw.randrange(size - 1)
            j = draw.choice((i + 1, draw.randrange(size)))
            keys[i], keys[j] = keys[j], keys[i]
    if shape == "saw":
        keys = [i % draw.choice((3, 7, 7)) for i in range(size)]
    if shape == "pipe":
        keys = [min(i, size - i) for i in range(size)]
    if shape == "blocks":
        keys = [(i // 9) * 31 % 7 for i in range(size)]
    if shape == "rotated":
        at = draw.randrange(size)
        keys = keys[at:] + keys[:at]
    return keys


@pytest.mark.parametrize("seed", range(60))
def test_slices_are_sorted_step_by_step_as_go_does_it(seed: int) -> None:
    draw = Random(seed)
    for _ in range(12):
        keys = _keys(draw)
        go = _Go(keys)
        try:
            go.sort(0, len(keys), len(keys).bit_length())
        except RecursionError:
            continue
        items = list(range(len(keys)))
        Slice(items, keys).sort()
        assert items == go.items, keys
