"""In which order does a pod try the claims of its batch?

Those with the fewest pods first; among equals as Go's sort leaves them, which upstream runs before every pod. Since
the pod before one claim got a pod, or is new. Mostly that claim goes to its place as it would in a stable sort (to the
front of its new equals; a new one to their end) and the others stay; else all are sorted as Go does it (`gosort`).

Claims that ask the same of a node's labels form a class, kept in order. A pod of a shape seen before skips the claims
that can never hold it; where those pile up, the shape gets heaps of its own that follow the changes since, so that a
thousand nodes filled by a thousand equal pods cost a thousand steps, not a million.

Source: pkg/controllers/provisioning/scheduling/scheduler.go add.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, merge
from typing import Final

from fairway.provisioning.karpenter.claims import Claim
from fairway.provisioning.karpenter.gosort import LONG, SHORT, Slice, pivot_of
from fairway.provisioning.karpenter.requirements import Requirements

Rank = tuple[int, int]
Entry = tuple[Rank, int]
# How many claims in vain make a shape worth heaps of its own, and how many changes make them not worth following.
_VAIN_STEPS: Final = 64
_MOST_CHANGES: Final = 512


class Tried:
    """What a shape knows of the claims: which can never hold it, and which classes never will.

    `sorts`: how often all claims were sorted when its heaps were made.
    """

    __slots__ = ("closed", "heaps", "never", "seen", "sorts")

    def __init__(self) -> None:
        self.never: set[int] = set()
        self.closed: set[Requirements] = set()
        self.heaps: dict[Requirements, list[Entry]] | None = None
        self.seen = 0
        self.sorts = 0


class ClaimLine:
    """The claims of a batch, by class and rank."""

    __slots__ = ("_changed", "_classes", "_log", "_order", "_sequence", "_sorts", "claims")

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self._classes: dict[Requirements, list[Entry]] = {}
        self._log: list[int] = []
        self._sequence = 0
        self._order: list[int] = []
        """The claims as they were sorted last, a new one at the end."""
        self._changed: int | None = None
        """The claim that is new or got a pod since."""
        self._sorts = 0

    def classes(self) -> list[Requirements]:
        return [labels for labels, line in self._classes.items() if line]

    def append(self, claim: Claim) -> int:
        """A new claim, with its first pod; its index."""
        self.claims.append(claim)
        index = len(self.claims) - 1
        self._sequence += 1
        claim.rank = (1, self._sequence)
        self._enter(claim, index)
        self._order.append(index)
        self._changed = index
        return index

    def moved(self, index: int, was: Requirements) -> None:
        """A claim took another pod, and asks something else of labels maybe."""
        claim = self.claims[index]
        line = self._classes[was]
        del line[bisect_left(line, (claim.rank, index))]
        self._sequence += 1
        claim.rank = (len(claim.pods), -self._sequence)
        if claim.requirements is was:
            insort(line, (claim.rank, index))
        else:
            self._enter(claim, index)
        self._changed = index

    def settle(self) -> None:
        """Sort them, as is done before a pod tries them."""
        index, self._changed = self._changed, None
        if index is None:
            return
        order, count = self._order, len(self.claims[index].pods)
        last = len(order) - 1
        at = last if count == 1 else order.index(index)
        if count == 1:
            is_sorted = at == 0 or self._pods_of(at - 1) <= 1
        else:
            is_sorted = at == last or self._pods_of(at + 1) >= count
        if is_sorted:
            return
        if last >= SHORT and (last + 1 < LONG or not self._looks_sorted()):
            self._sort_all()
            return
        del order[at]
        order.insert(self._first_with(count + 1 if count == 1 else count), index)

    def _pods_of(self, at: int) -> int:
        return len(self.claims[self._order[at]].pods)

    def _first_with(self, count: int) -> int:
        """Where the claims of so many pods or more begin."""
        low, high = 0, len(self._order)
        while low < high:
            middle = (low + high) // 2
            if self._pods_of(middle) < count:
                low = middle + 1
            else:
                high = middle
        return low

    def _looks_sorted(self) -> bool:
        """Only what Go looks at for its pivot: the quarters, with their neighbours."""
        size = len(self._order)
        keys = [0] * size
        for quarter in (1, 2, 3):
            middle = size // 4 * quarter
            for at in range(middle - 1, middle + 2):
                keys[at] = self._pods_of(at)
        return pivot_of(keys, 0, size)[1] == 0

    def _sort_all(self) -> None:
        made = Slice(self._order, [len(c.pods) for c in self.claims])
        made.sort()
        for line in self._classes.values():
            line.clear()
        for at, index in enumerate(self._order):
            claim = self.claims[index]
            claim.rank = (len(claim.pods), at)
            self._classes.setdefault(claim.requirements, []).append((claim.rank, index))
        self._sorts += 1

    def _enter(self, claim: Claim, index: int) -> None:
        insort(self._classes.setdefault(claim.requirements, []), (claim.rank, index))
        self._log.append(index)

    def walk(self, classes: Iterable[Requirements], tried: Tried) -> Iterator[int]:
        """The claims of these classes in order, without those in `tried.never`. Close it when done."""
        stale = tried.sorts != self._sorts or len(self._log) - tried.seen > _MOST_CHANGES
        if tried.heaps is None or stale:
            return self._walk_all(classes, tried)
        return self._walk_own(classes, tried)

    def _walk_all(self, classes: Iterable[Requirements], tried: Tried) -> Iterator[int]:
        lines = [self._classes[labels] for labels in classes]
        steps = 0
        try:
            for _, index in merge(*lines):
                steps += 1
                if index not in tried.never:
                    yield index
        finally:
            if steps > _VAIN_STEPS:
                self._give_heaps(tried)

    def _give_heaps(self, tried: Tried) -> None:
        never = tried.never
        tried.heaps = {
            labels: [entry for entry in line if entry[1] not in never]
            for labels, line in self._classes.items()
            if labels not in tried.closed
        }
        tried.seen = len(self._log)
        tried.sorts = self._sorts

    def _walk_own(self, classes: Iterable[Requirements], tried: Tried) -> Iterator[int]:
        heaps = self._caught_up(tried)
        heads = [(heap[0], i, labels) for i, labels in enumerate(classes) if (heap := heaps.get(labels))]
        heapify(heads)
        aside: list[tuple[Requirements, Entry]] = []
        try:
            while heads:
                _, tie, labels = heappop(heads)
                heap = heaps[labels]
                entry = heappop(heap)
                claim = self.claims[entry[1]]
                if claim.requirements is labels and entry[1] not in tried.never:
                    if claim.rank != entry[0]:
                        heappush(heap, (claim.rank, entry[1]))
                    else:
                        aside.append((labels, entry))
                        yield entry[1]
                if heap:
                    heappush(heads, (heap[0], tie, labels))
        finally:
            for labels, (_, index) in aside:
                claim = self.claims[index]
                if index not in tried.never and claim.requirements is labels:
                    heappush(heaps[labels], (claim.rank, index))

    def _caught_up(self, tried: Tried) -> dict[Requirements, list[Entry]]:
        heaps = tried.heaps or {}
        # One that changed twice since is there once.
        for index in dict.fromkeys(self._log[tried.seen :]):
            claim = self.claims[index]
            if index not in tried.never and claim.requirements not in tried.closed:
                heappush(heaps.setdefault(claim.requirements, []), (claim.rank, index))
        tried.seen = len(self._log)
        tried.heaps = heaps
        return heaps
