"""Whom would a workload preempt, and what could preemption do for one resource?

Source: pkg/scheduler/preemption/preemption.go GetTargets, preemption_oracle.go.
"""

from __future__ import annotations

from fairway.queueing.facts.objects import NEVER, FlavorResource
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.flavors.assignment import Assignment, Possibility
from fairway.queueing.flavors.topologyrequests import topology_requests
from fairway.queueing.preemption.classical import classical_targets
from fairway.queueing.preemption.fairsharing import DEFAULT_STRATEGIES, fair_targets
from fairway.queueing.preemption.targets import Attempt, QueueUsage, Target
from fairway.queueing.quota.accounts import Accounts, QueueAccount
from fairway.queueing.quota.quotatree import borrowing_height


class Preemptor:
    """`strategies` apply under fair sharing. `now_us` stands in for a reservation without a time."""

    def __init__(
        self,
        accounts: Accounts,
        now_us: int,
        uses_fair_sharing: bool = False,
        strategies: tuple[str, ...] = DEFAULT_STRATEGIES,
        queue_usage: QueueUsage | None = None,
    ) -> None:
        self.accounts = accounts
        self.now_us = now_us
        self.uses_fair_sharing = uses_fair_sharing
        self.strategies = strategies
        self.queue_usage = queue_usage

    def targets(self, queue: QueueAccount, workload: Workload, assignment: Assignment) -> list[Target]:
        """Whom to preempt so that this assignment fits; empty: nobody, or it would not help."""
        if _never_preempts(queue):
            return []
        return self._search(
            Attempt(
                accounts=self.accounts,
                queue=queue,
                workload=workload,
                requests=assignment.total_requests(workload),
                frs=assignment.frs_needing_preemption(),
                topology=topology_requests(assignment, workload, queue, self.accounts),
                now_us=self.now_us,
                queue_usage=self.queue_usage,
            )
        )

    def simulate(
        self, queue: QueueAccount, workload: Workload, fr: FlavorResource, value: int
    ) -> tuple[Possibility, int]:
        """What preemption could do for one resource in one flavor, and how far it would borrow after."""
        if _never_preempts(queue):
            return Possibility.NO_CANDIDATES, borrowing_height(queue, fr, value)[0]
        targets = self._search(
            Attempt(
                accounts=self.accounts,
                queue=queue,
                workload=workload,
                requests={fr: value},
                frs=(fr,),
                topology={},
                now_us=self.now_us,
                queue_usage=self.queue_usage,
            )
        )
        if not targets:
            return Possibility.NO_CANDIDATES, borrowing_height(queue, fr, value)[0]
        victims = [t.workload for t in targets]
        self.accounts.remove_usage_of(victims)
        borrow, _ = borrowing_height(queue, fr, value)
        self.accounts.add_usage_of(victims)
        if any(w.cluster_queue == queue.name for w in victims):
            return Possibility.PREEMPT, borrow
        return Possibility.RECLAIM, borrow

    def _search(self, attempt: Attempt) -> list[Target]:
        if self.uses_fair_sharing:
            return fair_targets(attempt, self.strategies)
        return classical_targets(attempt)


def _never_preempts(queue: QueueAccount) -> bool:
    policy = queue.spec.preemption
    return policy.within_cluster_queue == NEVER and policy.reclaim_within_cohort == NEVER
