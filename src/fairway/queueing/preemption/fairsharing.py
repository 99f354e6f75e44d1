"""Preemption by fair share: those who use more of the cohort than the preemptor would give way.

Queues are looked at from the root down, always into the child with the largest share; shares are compared
just below the lowest cohort both sides have in common, with the preemptor counted in.

Source: pkg/scheduler/preemption/fairsharing, preemption.go fairPreemptions; KEP-1714.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.objects import NEVER, FlavorResource
from fairway.queueing.facts.workloads import Usage, Workload
from fairway.queueing.preemption.targets import (
    Attempt,
    Target,
    fill_back,
    fits,
    in_order,
    rank,
    restore,
    satisfies_policy,
    uses_any_of,
)
from fairway.queueing.quota.accounts import QueueAccount
from fairway.queueing.quota.quotatree import QuotaNode
from fairway.queueing.quota.shares import BELOW_ALL, Share, share_of

LESS_THAN_OR_EQUAL_TO_FINAL_SHARE: Final = "LessThanOrEqualToFinalShare"
LESS_THAN_INITIAL_SHARE: Final = "LessThanInitialShare"
DEFAULT_STRATEGIES: Final = (LESS_THAN_OR_EQUAL_TO_FINAL_SHARE, LESS_THAN_INITIAL_SHARE)

_INFINITE: Final = float("inf")

# (the preemptor's new share, the target's old, the target's new) → whether the target gives way.
Rule = Callable[[Share, Share, Share], bool]


def _not_above_final(preemptor: Share, _old: Share, new: Share) -> bool:
    return preemptor.order() <= new.order()


def _below_initial(preemptor: Share, old: Share, _new: Share) -> bool:
    return preemptor.order() < old.order()


_RULES: Final[dict[str, Rule]] = {
    LESS_THAN_OR_EQUAL_TO_FINAL_SHARE: _not_above_final,
    LESS_THAN_INITIAL_SHARE: _below_initial,
}


def fair_targets(attempt: Attempt, strategies: Sequence[str]) -> list[Target]:
    """Whom to preempt; empty where preemption does not help. The accounts are as before in the end."""
    candidates = in_order(_candidates(attempt), attempt)
    if not candidates:
        return []
    usage = tuple(attempt.requests.items())
    topology = attempt.workload.topology_usage
    strategies = strategies or DEFAULT_STRATEGIES
    attempt.queue.add_usage(usage, topology)
    done, targets, retry = _first_round(attempt, candidates, _RULES[strategies[0]], usage)
    if not done and len(strategies) > 1:
        done = _second_round(attempt, retry, targets, usage)
    attempt.queue.remove_usage(usage, topology)
    if not done:
        restore(attempt.accounts, targets)
        return []
    targets = fill_back(attempt, targets, may_borrow=True)
    restore(attempt.accounts, targets)
    return targets


def _candidates(attempt: Attempt) -> list[Workload]:
    queue = attempt.queue
    policy = queue.spec.preemption
    found: list[Workload] = []
    if policy.within_cluster_queue != NEVER:
        found.extend(_of_queue(attempt, queue, policy.within_cluster_queue))
    if queue.parent is not None and policy.reclaim_within_cohort != NEVER:
        for other in _borrowing_queues(queue.root(), attempt.frs):
            if other is not queue:
                found.extend(_of_queue(attempt, other, policy.reclaim_within_cohort))
    return found


def _borrowing_queues(cohort: QuotaNode, frs: Sequence[FlavorResource]) -> Iterator[QueueAccount]:
    for child in cohort.children_over(frs):
        if isinstance(child, QueueAccount):
            yield child
    for below in cohort.cohorts:
        yield from _borrowing_queues(below, frs)


def _of_queue(attempt: Attempt, queue: QueueAccount, policy: str) -> list[Workload]:
    return [
        w
        for w in queue.workloads.values()
        if satisfies_policy(attempt.workload, w, policy) and uses_any_of(w, attempt.frs)
    ]


def _fits_without_itself(attempt: Attempt, usage: Usage) -> bool:
    """The preemptor's usage is counted in while shares are compared, and out to see whether it fits."""
    topology = attempt.workload.topology_usage
    attempt.queue.remove_usage(usage, topology)
    result = fits(attempt, may_borrow=True)
    attempt.queue.add_usage(usage, topology)
    return result


def _first_round(
    attempt: Attempt, candidates: list[Workload], rule: Rule, usage: Usage
) -> tuple[bool, list[Target], list[Workload]]:
    """Whether it fits now, whom to preempt for that, and who was spared but could be asked again."""
    order = _Tournament(attempt, candidates)
    targets: list[Target] = []
    spared: list[Workload] = []

    def evict(workload: Workload, reason: str) -> bool:
        attempt.accounts.take_out(workload)
        targets.append(Target(workload, reason))
        return _fits_without_itself(attempt, usage)

    gates = attempt.accounts.gates
    is_within_nominal = gates.fair_sharing_preempt_within_nominal and not any(
        attempt.queue.borrows_with(fr) for fr in attempt.frs
    )
    for queue in order.queues():
        if queue is attempt.queue or is_within_nominal:
            reason = conds.IN_CLUSTER_QUEUE if queue is attempt.queue else conds.IN_COHORT_RECLAMATION
            if evict(order.pop(queue), reason):
                return True, targets, []
            continue
        preemptor_new, target_old = order.shares(queue)
        if preemptor_new.weighted == _INFINITE and target_old.weighted != _INFINITE:
            while order.has_workload(queue):
                spared.append(order.pop(queue))
            continue
        while order.has_workload(queue):
            workload = order.pop(queue)
            if not rule(preemptor_new, target_old, order.share_without(queue, workload)):
                spared.append(workload)
                continue
            if evict(workload, conds.IN_COHORT_FAIR_SHARING):
                return True, targets, []
            break
    return False, targets, spared


def _second_round(attempt: Attempt, spared: list[Workload], targets: list[Target], usage: Usage) -> bool:
    """One more workload of each queue whose share is above what the preemptor's would be."""
    order = _Tournament(attempt, spared)
    for queue in order.queues():
        preemptor_new, target_old = order.shares(queue)
        workload = order.pop(queue)
        if _below_initial(preemptor_new, target_old, BELOW_ALL):
            attempt.accounts.take_out(workload)
            targets.append(Target(workload, conds.IN_COHORT_FAIR_SHARING))
            if _fits_without_itself(attempt, usage):
                return True
        order.drop(queue)
    return False


class _Tournament:
    """Yields the queue that should give next, as long as some queue has candidates. Shares change meanwhile."""

    def __init__(self, attempt: Attempt, candidates: Sequence[Workload]) -> None:
        self._attempt = attempt
        self._ancestors = list(attempt.queue.ancestors())
        self._left: dict[str, list[Workload]] = {}
        for workload in reversed(candidates):
            self._left.setdefault(workload.cluster_queue, []).append(workload)
        self._pruned: dict[int, QuotaNode] = {}

    def queues(self) -> Iterator[QueueAccount]:
        queue = self._attempt.queue
        if queue.parent is None:
            while not self._is_pruned(queue) and self.has_workload(queue):
                yield queue
            return
        root = queue.root()
        while not self._is_pruned(root):
            found = self._next(root)
            if found is not None:
                yield found

    def has_workload(self, queue: QuotaNode) -> bool:
        return bool(self._left.get(queue.name))

    def pop(self, queue: QueueAccount) -> Workload:
        return self._left[queue.name].pop()

    def drop(self, queue: QuotaNode) -> None:
        self._pruned[id(queue)] = queue

    def shares(self, queue: QueueAccount) -> tuple[Share, Share]:
        """Of the preemptor and of the target, each just below the cohort they have in common."""
        common = next(a for a in queue.ancestors() if a in self._ancestors)
        return share_of(_below(self._attempt.queue, common)), share_of(_below(queue, common))

    def share_without(self, queue: QueueAccount, workload: Workload) -> Share:
        """The target's share once this workload is gone."""
        queue.remove_usage(workload.usage, workload.topology_usage)
        _, share = self.shares(queue)
        queue.add_usage(workload.usage, workload.topology_usage)
        return share

    def _is_pruned(self, node: QuotaNode) -> bool:
        return id(node) in self._pruned

    def _next(self, cohort: QuotaNode) -> QueueAccount | None:
        """The queue with the largest share below a cohort; prunes what can give nothing."""
        best_queue, queue_share = self._best_queue(cohort)
        best_cohort: QuotaNode | None = None
        cohort_share = BELOW_ALL
        for child in cohort.cohorts:
            if self._is_pruned(child):
                continue
            share = share_of(child)
            if not share.is_borrowing and child not in self._ancestors:
                self.drop(child)
            elif share.order() >= cohort_share.order():
                best_cohort, cohort_share = child, share
        if best_cohort is None and best_queue is None:
            self.drop(cohort)
            return None
        if best_cohort is not None and cohort_share.order() >= queue_share.order():
            return self._next(best_cohort)
        return best_queue

    def _best_queue(self, cohort: QuotaNode) -> tuple[QueueAccount | None, Share]:
        best: QueueAccount | None = None
        best_share = BELOW_ALL
        for queue in cohort.queues:
            assert isinstance(queue, QueueAccount)
            if self._is_pruned(queue):
                continue
            share = share_of(queue)
            if (not share.is_borrowing and queue is not self._attempt.queue) or not self.has_workload(queue):
                self.drop(queue)
            elif best is None or share.order() > best_share.order():
                best, best_share = queue, share
            elif share.order() == best_share.order() and self._goes_before(queue, best):
                best = queue
        return best, best_share

    def _goes_before(self, a: QueueAccount, b: QueueAccount) -> bool:
        """Whether the next candidate of `a` is to go before that of `b`."""
        name, now = self._attempt.queue.name, self._attempt.now_us
        return rank(self._left[a.name][-1], name, now) < rank(self._left[b.name][-1], name, now)


def _below(queue: QuotaNode, ancestor: QuotaNode) -> QuotaNode:
    """The node on the way up that is a child of `ancestor`."""
    node = queue
    while node.parent is not None and node.parent is not ancestor:
        node = node.parent
    return node
