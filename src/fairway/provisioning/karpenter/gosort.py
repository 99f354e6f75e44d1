"""In which order does Go's `sort.Slice` leave equals?

It is not stable, but it is no chance either: the same slice comes out the same each time. Karpenter sorts the claims
of a batch by their number of pods before every pod, so who is tried first among equals follows from it.

A pattern-defeating quicksort: insertion sort up to 12 items; a slice that looks sorted is mended in place if it has 50
or more; else it is split around the median of three, or of three medians. Heapsort, for slices that split badly again
and again, is left out: with keys that change by one at a time it does not come to that.

Source: Go's sort package, pdqsort (go1.19 and later).
"""

from __future__ import annotations

from typing import Final

SHORT: Final = 12
# From how many items on a slice is mended, and its pivot sought among nine.
LONG: Final = 50
_MOST_MENDED: Final = 5
_ALL_SWAPPED: Final = 12
_WORD: Final = 2**64 - 1


class Slice:
    """Items with their keys, sorted together. `keys`: of each item, by the item."""

    __slots__ = ("items", "keys")

    def __init__(self, items: list[int], keys: list[int]) -> None:
        self.items = items
        self.keys = [keys[item] for item in items]

    def sort(self) -> None:
        self._sort(0, len(self.items))

    def _swap(self, i: int, j: int) -> None:
        items, keys = self.items, self.keys
        items[i], items[j] = items[j], items[i]
        keys[i], keys[j] = keys[j], keys[i]

    def _sort(self, start: int, end: int) -> None:
        is_balanced = is_partitioned = True
        while end - start > SHORT:
            length = end - start
            if not is_balanced:
                self._scatter(start, end)
            pivot, swaps = pivot_of(self.keys, start, end)
            if swaps == _ALL_SWAPPED:
                self._reverse(start, end)
                pivot, swaps = end - 1 - (pivot - start), 0
            if is_balanced and is_partitioned and swaps == 0 and self._mend(start, end):
                return
            if start > 0 and self.keys[start - 1] >= self.keys[pivot]:
                start = self._split_equal(start, end, pivot)
                continue
            middle, is_partitioned = self._split(start, end, pivot)
            left, right = middle - start, end - middle
            is_balanced = min(left, right) >= length // 8
            if left < right:
                self._sort(start, middle)
                start = middle + 1
            else:
                self._sort(middle + 1, end)
                end = middle
        self._insertion(start, end)

    def _insertion(self, start: int, end: int) -> None:
        for i in range(start + 1, end):
            self._shift_left(i, start)

    def _shift_left(self, i: int, start: int) -> None:
        while i > start and self.keys[i] < self.keys[i - 1]:
            self._swap(i, i - 1)
            i -= 1

    def _mend(self, start: int, end: int) -> bool:
        """Put a few items right; whether it is sorted then."""
        i = start + 1
        for _ in range(_MOST_MENDED):
            while i < end and self.keys[i] >= self.keys[i - 1]:
                i += 1
            if i == end:
                return True
            if end - start < LONG:
                return False
            self._swap(i, i - 1)
            if i - start >= 2:
                self._shift_left(i - 1, 0)
            j = i + 1
            while j < end and self.keys[j] < self.keys[j - 1]:
                self._swap(j, j - 1)
                j += 1
        return False

    def _split(self, start: int, end: int, pivot: int) -> tuple[int, bool]:
        """Smaller ones before the pivot, the others after it: where it is then, and whether nothing had to move."""
        self._swap(start, pivot)
        keys, of_pivot = self.keys, self.keys[start]
        i, j, is_first = start + 1, end - 1, True
        while True:
            while i <= j and keys[i] < of_pivot:
                i += 1
            while i <= j and keys[j] >= of_pivot:
                j -= 1
            if i > j:
                self._swap(j, start)
                return j, is_first
            self._swap(i, j)
            i, j, is_first = i + 1, j - 1, False

    def _split_equal(self, start: int, end: int, pivot: int) -> int:
        """Those equal to the pivot, none is smaller, before the others: where these begin."""
        self._swap(start, pivot)
        keys, of_pivot = self.keys, self.keys[start]
        i, j = start + 1, end - 1
        while True:
            while i <= j and keys[i] <= of_pivot:
                i += 1
            while i <= j and keys[j] > of_pivot:
                j -= 1
            if i > j:
                return i
            self._swap(i, j)
            i, j = i + 1, j - 1

    def _scatter(self, start: int, end: int) -> None:
        """Three items in the middle change places with others, drawn from the length alone."""
        length = end - start
        drawn, mask = length, (1 << length.bit_length()) - 1
        first = start + length // 4 * 2 - 1
        for i in range(first, first + 3):
            drawn ^= (drawn << 13) & _WORD
            drawn ^= drawn >> 7
            drawn ^= (drawn << 17) & _WORD
            other = drawn & mask
            self._swap(i, start + (other - length if other >= length else other))

    def _reverse(self, start: int, end: int) -> None:
        i, j = start, end - 1
        while i < j:
            self._swap(i, j)
            i, j = i + 1, j - 1


def pivot_of(keys: list[int], start: int, end: int) -> tuple[int, int]:
    """Where the pivot is, and how many of the pairs compared were out of order: 0 looks sorted."""
    length = end - start
    i, j, k = (start + length // 4 * n for n in (1, 2, 3))
    swaps = 0
    if length >= LONG:
        i, more_i = _median(keys, i - 1, i, i + 1)
        j, more_j = _median(keys, j - 1, j, j + 1)
        k, more_k = _median(keys, k - 1, k, k + 1)
        swaps = more_i + more_j + more_k
    j, more = _median(keys, i, j, k)
    return j, swaps + more


def _median(keys: list[int], a: int, b: int, c: int) -> tuple[int, int]:
    swaps = 0
    if keys[b] < keys[a]:
        a, b, swaps = b, a, swaps + 1
    if keys[c] < keys[b]:
        b, c, swaps = c, b, swaps + 1
    if keys[b] < keys[a]:
        a, b, swaps = b, a, swaps + 1
    return b, swaps
