"""Who may be preempted at all, in which order, and when is it enough?

Source: pkg/scheduler/preemption/preemption.go, common/ordering.go, common/preemption_policy.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Final

from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.objects import ANY, LOWER_OR_NEWER_EQUAL_PRIORITY, LOWER_PRIORITY, FlavorResource
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.quota.accounts import Accounts, QueueAccount
from fairway.queueing.quota.quotatree import Amounts
from fairway.queueing.tas.requests import DEFAULT_SEARCH, RequestsByFlavor, failure_of

# LocalQueue → what it used lately, weighted (admission fair sharing).
QueueUsage = Callable[[str], float]

PREEMPTION_TEXT: Final[Mapping[str, str]] = {
    conds.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    conds.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    conds.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    conds.IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
    "": "UNKNOWN",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A workload to be preempted. `reason` empty: not preempted but replaced by the next slice of its job."""

    workload: Workload
    reason: str


class Attempt:
    """What the preemptor wants: `requests` of quota, domains for `topology`; `frs` are those in short supply."""

    def __init__(
        self,
        accounts: Accounts,
        queue: QueueAccount,
        workload: Workload,
        requests: Amounts,
        frs: Sequence[FlavorResource],
        topology: RequestsByFlavor,
        now_us: int,
        queue_usage: QueueUsage | None = None,
    ) -> None:
        self.accounts = accounts
        self.queue = queue
        self.workload = workload
        self.requests = requests
        self.frs = frs
        self.topology = topology
        self.now_us = now_us
        self.queue_usage = queue_usage


def satisfies_policy(preemptor: Workload, candidate: Workload, policy: str) -> bool:
    lower = preemptor.priority > candidate.priority
    if policy == LOWER_PRIORITY:
        return lower
    if policy == LOWER_OR_NEWER_EQUAL_PRIORITY:
        newer = preemptor.priority == candidate.priority and preemptor.order_us < candidate.order_us
        return lower or newer
    return policy == ANY


def uses_any_of(workload: Workload, frs: Iterable[FlavorResource]) -> bool:
    wanted = tuple(frs)
    for total in workload.totals:
        flavors = total.flavors
        for fr in wanted:
            if flavors.get(fr.resource) == fr.flavor:
                return True
    return False


def rank(candidate: Workload, queue: str, now_us: int) -> tuple[bool, bool, int, int, str, str]:
    """Those to go first: evicted already, of other queues, of low priority, with the newest reservation."""
    reserved = candidate.reserved_us if candidate.reserved_us >= 0 else now_us
    return (
        not candidate.is_evicted,
        candidate.cluster_queue == queue,
        candidate.priority,
        -reserved,
        candidate.uid,
        candidate.key,
    )


def in_order(candidates: list[Workload], attempt: Attempt) -> list[Workload]:
    """Candidates in the order they are to go."""
    queue, now, usage = attempt.queue.name, attempt.now_us, attempt.queue_usage
    if usage is None:
        return sorted(candidates, key=lambda w: rank(w, queue, now))
    accounts, used = attempt.accounts, usage

    def compare(a: Workload, b: Workload) -> int:
        of_a, of_b = rank(a, queue, now), rank(b, queue, now)
        if of_a[:2] == of_b[:2] and _by_usage(accounts, a, b):
            by_use_a, by_use_b = (-used(a.queue), of_a), (-used(b.queue), of_b)
            return (by_use_a > by_use_b) - (by_use_a < by_use_b)
        return (of_a > of_b) - (of_a < of_b)

    return sorted(candidates, key=cmp_to_key(compare))


def _by_usage(accounts: Accounts, a: Workload, b: Workload) -> bool:
    """Within one ClusterQueue with usage-based admission the LocalQueue that used most gives first."""
    if a.cluster_queue != b.cluster_queue or a.queue == b.queue:
        return False
    return accounts.queues[a.cluster_queue].spec.uses_usage_ordering


def fits(attempt: Attempt, *, may_borrow: bool) -> bool:
    """Whether the preemptor fits as the accounts stand now."""
    queue = attempt.queue
    for fr, value in attempt.requests.items():
        if not may_borrow and queue.borrows_with(fr, value):
            return False
        if value > queue.free(fr):
            return False
    return failure_of(queue.find_domains(attempt.topology, attempt.workload, DEFAULT_SEARCH)) is None


def fill_back(attempt: Attempt, targets: list[Target], *, may_borrow: bool) -> list[Target]:
    """Put back, last but one first, whoever need not go after all."""
    for index in reversed(range(len(targets) - 1)):
        attempt.accounts.put_back(targets[index].workload)
        if fits(attempt, may_borrow=may_borrow):
            targets[index] = targets[-1]
            targets.pop()
        else:
            attempt.accounts.take_out(targets[index].workload)
    return targets


def restore(accounts: Accounts, targets: Sequence[Target]) -> None:
    for target in targets:
        accounts.put_back(target.workload)
