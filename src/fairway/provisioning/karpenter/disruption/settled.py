"""Need the consolidation methods look again, or did nothing change since they found nothing?

A method that tried every node the budgets let go, in vain, is done with the cluster as it is. It is another cluster
once a pod is bound or deleted, a node or a claim comes, is initialized, is marked for deletion or goes, or a NodePool
changes; and every five minutes in any case. That a node became Consolidatable changes nothing: where other nodes were
tried in vain meanwhile, it waits for the end of these five minutes.

Unlike kube: a look at the end of five minutes in which nothing happened at all is not taken, only counted.

Source: state.Cluster ConsolidationState, MarkUnconsolidated, triggerConsolidationOnChange; consolidation
IsConsolidated, markConsolidated. Emptiness never marks: where it has a node and a budget for it, it acts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairway.kube.timestamps import MINUTE_US

LOOK_AGAIN_US: Final = 5 * MINUTE_US


class Settled:
    """Since when the cluster is as it is, which methods are done with it, and whether they were asked since."""

    __slots__ = ("_done", "_is_asked", "since_us")

    def __init__(self) -> None:
        self.since_us = 0
        self._done: frozenset[str] = frozenset()
        self._is_asked = False

    def changed(self, now_us: int) -> None:
        self.since_us, self._done, self._is_asked = now_us, frozenset(), False

    def done(self, now_us: int) -> frozenset[str]:
        """The methods that need not look now."""
        over = (now_us - self.since_us) // LOOK_AGAIN_US
        if over and self._is_asked:
            self.changed(now_us)
        elif over and self._done:
            self.since_us += over * LOOK_AGAIN_US
        return self._done

    def mark(self, methods: Iterable[str], now_us: int) -> None:
        """These looked in vain."""
        found = frozenset(methods)
        if found and now_us - self.since_us >= LOOK_AGAIN_US:
            self.changed(now_us)
        self._done |= found

    def ask_again_us(self) -> int:
        """A method that is done was asked: when it will look."""
        self._is_asked = True
        return self.since_us + LOOK_AGAIN_US

    def copy(self) -> Settled:
        twin = Settled()
        twin.since_us, twin._done, twin._is_asked = self.since_us, self._done, self._is_asked
        return twin
