"""Need the consolidation methods look again, or did nothing change since they found nothing?

A method that tried every node the budgets let go, in vain, is done with the cluster as it is. It is another cluster
once a pod is bound or deleted, a node or a claim comes, is initialized, is marked for deletion or goes, or a NodePool
changes; and after five minutes in any case. That a node became Consolidatable changes nothing: where other nodes
were tried in vain meanwhile, it waits for one of these.

Source: state.Cluster ConsolidationState, MarkUnconsolidated, triggerConsolidationOnChange; consolidation
IsConsolidated, markConsolidated. Emptiness never marks: where it has a node and a budget for it, it acts.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.kube.timestamps import MINUTE_US

LOOK_AGAIN_US = 5 * MINUTE_US


class Settled:
    """Since when the cluster is as it is, and which methods are done with it."""

    __slots__ = ("_done", "since_us")

    def __init__(self) -> None:
        self.since_us = 0
        self._done: frozenset[str] = frozenset()

    def changed(self, now_us: int) -> None:
        self.since_us, self._done = now_us, frozenset()

    def done(self, now_us: int) -> frozenset[str]:
        """The methods that need not look now."""
        if now_us - self.since_us >= LOOK_AGAIN_US:
            self.changed(now_us)
        return self._done

    def mark(self, methods: Iterable[str]) -> None:
        """These looked in vain."""
        self._done = self._done.union(methods)

    def copy(self) -> Settled:
        twin = Settled()
        twin.since_us, twin._done = self.since_us, self._done
        return twin
