"""Preemption by priority, and by who borrows.

Queues that borrow give back first: to a preemptor whose subtree has the quota (hierarchical advantage), then
to one that itself borrows, then workloads of the preemptor's own queue. With borrowWithinCohort the preemptor
may end up borrowing too, at the cost of workloads of low priority only.

Source: pkg/scheduler/preemption/classical, preemption.go classicalPreemptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.objects import NEVER
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.preemption.targets import (
    Attempt,
    Target,
    fill_back,
    fits,
    in_order,
    restore,
    satisfies_policy,
    uses_any_of,
)
from fairway.queueing.quota.accounts import QueueAccount
from fairway.queueing.quota.quotatree import QuotaNode

_WITHIN_QUEUE: Final = 0
_HIERARCHICAL: Final = 1
_WITHOUT_BORROWING: Final = 2
_WHILE_BORROWING: Final = 3
_REASONS: Final = {
    _WITHIN_QUEUE: conds.IN_CLUSTER_QUEUE,
    _HIERARCHICAL: conds.IN_COHORT_RECLAMATION,
    _WITHOUT_BORROWING: conds.IN_COHORT_RECLAMATION,
    _WHILE_BORROWING: conds.IN_COHORT_RECLAIM_WHILE_BORROWING,
}


class _Candidate(NamedTuple):
    """`ancestor`: the lowest cohort it shares with the preemptor; None within the same queue."""

    workload: Workload
    variant: int
    ancestor: QuotaNode | None


def classical_targets(attempt: Attempt) -> list[Target]:
    """Whom to preempt; empty where preemption does not help. The accounts are as before in the end."""
    own = _from_own_queue(attempt)
    hierarchical, others = _from_cohort(attempt)
    if not own and not hierarchical and not others:
        return []
    candidates = _in_order(attempt, hierarchical, others, own)
    for may_borrow in _borrowing_attempts(attempt, bool(hierarchical), bool(others)):
        targets: list[Target] = []
        for candidate in _valid(attempt, candidates, may_borrow):
            attempt.accounts.take_out(candidate.workload)
            targets.append(Target(candidate.workload, _REASONS[candidate.variant]))
            if fits(attempt, may_borrow=may_borrow):
                targets = fill_back(attempt, targets, may_borrow=may_borrow)
                restore(attempt.accounts, targets)
                return targets
        restore(attempt.accounts, targets)
    return []


def _borrowing_attempts(attempt: Attempt, has_hierarchical: bool, has_others: bool) -> tuple[bool, ...]:
    """Whether to try with borrowing, without, or both, and in which order."""
    forbidden = not attempt.queue.spec.preemption.borrow_while_reclaiming
    if not has_hierarchical and not has_others:
        return (True,)
    if forbidden and not _is_under_nominal(attempt):
        return (True,)
    if forbidden and not has_hierarchical:
        return (False, True)
    return (True, False)


def _is_under_nominal(attempt: Attempt) -> bool:
    queue = attempt.queue
    return all(queue.subtree.get(fr, 0) > queue.usage.get(fr, 0) for fr in attempt.frs)


def _from_own_queue(attempt: Attempt) -> list[_Candidate]:
    if attempt.queue.spec.preemption.within_cluster_queue == NEVER:
        return []
    return _from_queue(attempt, attempt.queue, None, has_advantage=False)


def _from_cohort(attempt: Attempt) -> tuple[list[_Candidate], list[_Candidate]]:
    """Candidates the preemptor has a hierarchical advantage over, and the others."""
    hierarchical: list[_Candidate] = []
    others: list[_Candidate] = []
    queue = attempt.queue
    if queue.parent is None or queue.spec.preemption.reclaim_within_cohort == NEVER:
        return hierarchical, others
    has_advantage, left = queue.fits_in_quota(attempt.requests)
    came_from: QuotaNode = queue
    for cohort in queue.ancestors():
        found = hierarchical if has_advantage else others
        _collect(attempt, cohort, cohort, came_from, has_advantage, found)
        fits_here, left = cohort.fits_in_quota(left)
        has_advantage = has_advantage or fits_here
        came_from = cohort
    return hierarchical, others


def _collect(
    attempt: Attempt,
    cohort: QuotaNode,
    ancestor: QuotaNode,
    skip: QuotaNode,
    has_advantage: bool,
    found: list[_Candidate],
) -> None:
    """Below a cohort, wherever more than the own quota is used."""
    for child in cohort.children_over(attempt.frs):
        if not child.is_queue:
            if child is not skip:
                _collect(attempt, child, ancestor, skip, has_advantage, found)
        elif child is not attempt.queue:
            assert isinstance(child, QueueAccount)
            found.extend(_from_queue(attempt, child, ancestor, has_advantage=has_advantage))


def _from_queue(
    attempt: Attempt, queue: QueueAccount, ancestor: QuotaNode | None, *, has_advantage: bool
) -> list[_Candidate]:
    preemption = attempt.queue.spec.preemption
    is_own = queue is attempt.queue
    policy = preemption.within_cluster_queue if is_own else preemption.reclaim_within_cohort
    found = []
    for workload in queue.workloads.values():
        if satisfies_policy(attempt.workload, workload, policy) and uses_any_of(workload, attempt.frs):
            variant = _WITHIN_QUEUE if is_own else _variant(attempt, workload, has_advantage)
            found.append(_Candidate(workload, variant, ancestor))
    return found


def _variant(attempt: Attempt, candidate: Workload, has_advantage: bool) -> int:
    if has_advantage:
        return _HIERARCHICAL
    preemption = attempt.queue.spec.preemption
    if not preemption.borrow_while_reclaiming:
        return _WITHOUT_BORROWING
    threshold = preemption.max_priority_threshold
    if candidate.priority >= attempt.workload.priority:
        return _WITHOUT_BORROWING
    if threshold is not None and candidate.priority > threshold:
        return _WITHOUT_BORROWING
    return _WHILE_BORROWING


def _in_order(attempt: Attempt, *groups: list[_Candidate]) -> list[_Candidate]:
    """Group by group; those evicted already come before all others."""
    evicted: list[_Candidate] = []
    rest: list[_Candidate] = []
    for group in groups:
        by_key = {c.workload.key: c for c in group}
        for workload in in_order([c.workload for c in group], attempt):
            (evicted if workload.is_evicted else rest).append(by_key[workload.key])
    return evicted + rest


def _valid(attempt: Attempt, candidates: list[_Candidate], may_borrow: bool) -> Iterator[_Candidate]:
    """Candidates that still help when it is their turn: their queue, and what is above it, still borrows."""
    for candidate in candidates:
        if candidate.ancestor is not None:
            if may_borrow and candidate.variant == _WITHOUT_BORROWING:
                continue
            node: QuotaNode | None = attempt.accounts.queues[candidate.workload.cluster_queue]
            within = False
            while node is not None and node is not candidate.ancestor:
                if node.is_within_nominal(attempt.frs):
                    within = True
                    break
                node = node.parent
            if within:
                continue
        yield candidate
