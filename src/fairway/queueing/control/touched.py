"""What did changes touch that somebody has to follow up on: trees to wake, statuses to write, Workloads to look at?

Collected by the books as they follow changes, and taken by whoever drives them.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.queueing.control import trees
from fairway.queueing.control.kinds import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE
from fairway.queueing.facts.objects import NO_STOP, LocalQueue
from fairway.queueing.quota.accounts import Accounts


class Touched:
    """`version` grows when a cycle may decide differently than the last one."""

    def __init__(self) -> None:
        self.version = 0
        self.has_news = False
        """Something was touched since `drain` last looked: most looks find nothing."""
        self._wake_queues: dict[str, None] = {}
        self._wake_cohorts: dict[str, None] = {}
        self._is_reconfigured = False
        self._statuses: dict[tuple[str, str], None] = {}
        self._questions: dict[str, None] = {}
        self._unqueued: dict[str, None] = {}
        self._second_pass: dict[str, None] = {}

    def copy(self) -> Touched:
        twin = Touched()
        twin.version, twin.has_news = self.version, self.has_news
        twin._wake_queues, twin._wake_cohorts = dict(self._wake_queues), dict(self._wake_cohorts)
        twin._is_reconfigured = self._is_reconfigured
        twin._statuses, twin._questions = dict(self._statuses), dict(self._questions)
        twin._unqueued, twin._second_pass = dict(self._unqueued), dict(self._second_pass)
        return twin

    # What a change touches

    def decide_anew(self) -> None:
        """A cycle may decide differently now."""
        self.has_news = True
        self.version += 1

    def reconfigure(self) -> None:
        """Quotas, or who shares them, changed: the shares and the activity of all queues may have."""
        self.has_news = True
        self.version += 1
        self._is_reconfigured = True

    def wake_queue(self, name: str) -> None:
        """What waits in the tree of this ClusterQueue may fit now."""
        self.has_news = True
        self._wake_queues[name] = None

    def wake_cohort(self, name: str) -> None:
        self.has_news = True
        self._wake_cohorts[name] = None

    def wake_of(self, queue: LocalQueue | None) -> None:
        """A workload of it gave something back. Of one that is stopped nobody hears it, as in Kueue."""
        if queue is not None and queue.stop_policy == NO_STOP:
            self.has_news = True
            self._wake_queues[queue.cluster_queue] = None

    def tell(self, gk: str, name: str) -> None:
        """What a queue or a cohort says of itself may have changed."""
        self.has_news = True
        self._statuses[gk, name] = None

    def tell_of(self, key: str, queue: LocalQueue | None) -> None:
        """A workload of this LocalQueue changed. One that is stopped leads to no ClusterQueue."""
        self.has_news = True
        self._statuses[LOCAL_QUEUE, key] = None
        if queue is not None and queue.stop_policy == NO_STOP:
            self._statuses[CLUSTER_QUEUE, queue.cluster_queue] = None

    def ask(self, workloads: Iterable[str]) -> None:
        """They should be looked at, though they did not change."""
        self.has_news = True
        self._questions.update(dict.fromkeys(workloads))

    def fill(self, workloads: Iterable[str]) -> None:
        """They should be queued."""
        self.has_news = True
        self._unqueued.update(dict.fromkeys(workloads))

    def pass_again(self, workload: str) -> None:
        """It holds quota and should be scheduled again, for its nodes."""
        self.has_news = True
        self._second_pass[workload] = None

    # Taken, once

    def take_wakes(self, accounts: Accounts) -> tuple[trees.Root, ...]:
        """Roots of the trees to wake."""
        if not self._wake_queues and not self._wake_cohorts:
            return ()
        roots: dict[trees.Root, None] = {}
        for name in self._wake_queues:
            root = trees.root_of(accounts, name)
            if root is not None:
                roots[root] = None
        for name in self._wake_cohorts:
            root = trees.root_of_cohort(accounts, name)
            if root is not None:
                roots[root] = None
        self._wake_queues, self._wake_cohorts = {}, {}
        return tuple(roots)

    def take_statuses(self, accounts: Accounts, *, fair_sharing: bool) -> tuple[tuple[str, str], ...]:
        """(kind, name or key) of queues, and of cohorts where they have shares."""
        if not self._statuses and not self._is_reconfigured:
            return ()
        if self._is_reconfigured:
            self._is_reconfigured = False
            self._statuses.update(dict.fromkeys((CLUSTER_QUEUE, n) for n in sorted(accounts.queue_specs())))
            if fair_sharing:
                self._statuses.update(dict.fromkeys((COHORT, n) for n in sorted(accounts.cohort_names())))
        taken, self._statuses = tuple(self._statuses), {}
        return taken

    def take_questions(self) -> tuple[str, ...]:
        if not self._questions:
            return ()
        taken, self._questions = tuple(self._questions), {}
        return taken

    def take_unqueued(self) -> tuple[str, ...]:
        if not self._unqueued:
            return ()
        taken, self._unqueued = tuple(self._unqueued), {}
        return taken

    def take_second_pass(self) -> tuple[str, ...]:
        if not self._second_pass:
            return ()
        taken, self._second_pass = tuple(self._second_pass), {}
        return taken
