"""In which order are nominated workloads processed?

Without fair sharing: those that need no borrowing first, then by priority, then by age. With it: a tournament
from the leaves of the cohort tree to its root, won by who would have the smallest share with the workload in.

Source: pkg/scheduler/scheduler.go makeClassicalIterator; fair_sharing_iterator.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fairway.queueing.cycle.entries import Entry
from fairway.queueing.facts.gates import FeatureGates
from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.quota.quotatree import QuotaNode
from fairway.queueing.quota.shares import Share, share_of


def classical_order(entries: Sequence[Entry], gates: FeatureGates) -> Sequence[Entry]:
    if len(entries) < 2:
        return entries

    def rank(entry: Entry) -> tuple[Any, ...]:
        workload = entry.workload
        return (
            not workload.has_quota,
            gates.prioritize_preemptor_workloads and not entry.head.is_preemptor,
            entry.assignment.borrowing,
            -workload.priority * gates.priority_sorting_within_cohort,
            workload.order_us,
            workload.key,
        )

    return sorted(entries, key=rank)


class _Standing(NamedTuple):
    """Shares of the nodes above an entry, from its queue up, with the entry's usage counted in."""

    shares: tuple[Share, ...]
    requests: dict[FlavorResource, int]


def fair_order(entries: Sequence[Entry], gates: FeatureGates) -> Iterator[Entry]:
    """Each tournament sees what was processed before it. O(entries² / roots) shares."""
    left: dict[str, Entry] = {}
    for entry in entries:
        assert entry.queue is not None
        left[entry.queue.name] = entry
    while left:
        queue = next(iter(left.values())).queue
        assert queue is not None
        if queue.parent is None:
            yield left.pop(queue.name)
            continue
        root = queue.root()
        standings = {q.name: _standing(left[q.name]) for q in root.subtree_queues() if q.name in left}
        winner = _Tournament(left, standings, gates).winner(root, 0)
        assert winner is not None and winner.queue is not None
        yield left.pop(winner.queue.name)


def _standing(entry: Entry) -> _Standing:
    queue = entry.queue
    assert queue is not None
    usage, topology = entry.usage()
    queue.add_usage(usage, topology)
    shares = [share_of(queue)]
    shares.extend(share_of(cohort) for cohort in queue.ancestors())
    queue.remove_usage(usage, topology)
    # Shares belong to the child that competes below a cohort; from the root down they are read from the end.
    return _Standing(tuple(reversed(shares[:-1])), dict(usage))


class _Tournament:
    def __init__(self, left: dict[str, Entry], standings: dict[str, _Standing], gates: FeatureGates) -> None:
        self._left = left
        self._standings = standings
        self._gates = gates

    def winner(self, cohort: QuotaNode, depth: int) -> Entry | None:
        """The best entry below a cohort at this depth."""
        candidates = [self.winner(child, depth + 1) for child in cohort.cohorts]
        candidates.extend(self._left.get(queue.name) for queue in cohort.queues)
        best: Entry | None = None
        best_rank: tuple[Any, ...] = ()
        for entry in candidates:
            if entry is None:
                continue
            rank = self._rank(entry, depth)
            if best is None or rank < best_rank:
                best, best_rank = entry, rank
        return best

    def _rank(self, entry: Entry, depth: int) -> tuple[Any, ...]:
        workload = entry.workload
        assert entry.queue is not None
        standing = self._standings[entry.queue.name]
        share = standing.shares[depth]
        gates = self._gates
        return (
            gates.prioritize_preemptor_workloads and not entry.head.is_preemptor,
            gates.fair_sharing_prioritize_non_borrowing and share.is_borrowing_any_of(standing.requests),
            share.order(),
            -workload.priority * gates.priority_sorting_within_cohort,
            workload.order_us,
        )
