"""Who is given quota in a future, and who loses it? Kueue's decisions over its own tree of quotas, without objects.

For queues whose resources have one flavor each, tried best effort, with classical preemption: then a cycle needs
no more than the tree (`queueing.quota`), the search for victims (`queueing.preemption.classical`) and the order of
who waits. `why_not` says where it takes more. Pods that get no node in time lose their quota for a while, and who
exceeds the longest run time that was declared loses it for good, as in Kueue.

Unlike kube: a cycle takes no time.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from fairway.kube.timestamps import SECOND_US
from fairway.queueing.control.backlog import Backlog
from fairway.queueing.control.settings import KueueSettings
from fairway.queueing.facts.objects import ANY, BEST_EFFORT_FIFO, NEVER, FlavorResource, flavor_resource
from fairway.queueing.facts.workloads import PodSetTotal, Usage, Workload
from fairway.queueing.preemption.classical import classical_targets
from fairway.queueing.preemption.targets import Attempt
from fairway.queueing.quota.accounts import Accounts, QueueAccount
from fairway.queueing.quota.quotatree import borrowing_height

_PODS: Final = "pods"
_MOST_CYCLES: Final = 100_000

ADMITTED, EVICTED = 0, 1
Step = tuple[int, int]
"""`ADMITTED` or `EVICTED`, and who."""


class Claim:
    """What objects of a kind ask of a queue. `facts`: of a Workload that stands for all of them."""

    def __init__(self, facts: Workload, queue: QueueAccount) -> None:
        self.facts, self.queue = facts, queue.name
        totals: list[PodSetTotal] = []
        requests: dict[FlavorResource, int] = {}
        self.is_covered = True
        for total in facts.totals:
            asked = dict(total.requests)
            flavors: dict[str, str] = {}
            if queue.spec.group_of(_PODS) is not None:
                asked[_PODS] = total.count
            for resource, value in asked.items():
                group = queue.spec.group_of(resource)
                if group is None:
                    self.is_covered = self.is_covered and not value
                    continue
                flavors[resource] = group.flavors[0]
                fr = flavor_resource(group.flavors[0], resource)
                requests[fr] = requests.get(fr, 0) + value
            totals.append(PodSetTotal(total.name, total.count, asked, flavors))
        self.totals = tuple(totals)
        self.requests = requests
        self.alike: tuple[object, ...] = (
            facts.priority,
            *sorted((fr.flavor, fr.resource, v) for fr, v in requests.items()),
        )

    def workload(self, number: int, order_us: int, reserved_us: int) -> Workload:
        """One of them. `reserved_us`: since when it holds quota; -1: it does not."""
        facts, holds = self.facts, reserved_us >= 0
        # Objects say times in whole seconds.
        order_us -= order_us % SECOND_US
        reserved_us -= reserved_us % SECOND_US if holds else 0
        name = f"{number:09d}"
        return Workload(
            key=f"{facts.namespace}/{name}",
            uid=name,
            obj=facts.obj,
            shape=facts.shape,
            queue=facts.queue,
            priority=facts.priority,
            base_priority=facts.base_priority,
            order_us=order_us,
            totals=self.totals,
            alike=facts.hash,
            cluster_queue=self.queue if holds else "",
            has_quota=holds,
            is_admitted=holds,
            is_evicted=False,
            reserved_us=reserved_us,
            usage=tuple(self.requests.items()) if holds else (),
            topology_usage=(),
        )


Rank = tuple[int, int, int]
"""Priority, negated; when it counts as queued; number."""


class _Line:
    """Who would fare alike in one queue."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.waiting: list[Rank] = []
        self.is_parked = False


class _Queue:
    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[tuple[object, ...], _Line] = {}
        self.sticky = -1
        """Who waits for the room it made."""

    def head(self) -> tuple[_Line, Rank] | None:
        found: tuple[_Line, Rank] | None = None
        for line in self.lines.values():
            if line.waiting and not line.is_parked:
                if line.waiting[0][2] == self.sticky:
                    return line, line.waiting[0]
                if found is None or line.waiting[0] < found[1]:
                    found = line, line.waiting[0]
        return found


class _Entry:
    """A head in one cycle."""

    def __init__(self, queue: _Queue, line: _Line, rank: Rank, account: QueueAccount) -> None:
        self.queue, self.line, self.rank, self.account = queue, line, rank, account
        self.targets: list[int] = []
        self.borrowing = 0
        self.reserves = False
        """Nobody can be preempted for it, and yet it is entitled: it keeps others of this cycle from what is left."""


class Quotas:
    """Of one future. Times are µs since 1970."""

    def __init__(self, accounts: Accounts, settings: KueueSettings) -> None:
        """`accounts`: its own, without workloads of those it is to decide about."""
        self.accounts, self.settings = accounts, settings
        accounts.settle()
        self.queues = {
            name: _Queue(name) for name, account in accounts.queues.items() if account.inactivity is None
        }
        self.holders: dict[int, tuple[Claim, Workload]] = {}
        self.stirred: dict[str, None] = {}
        """Queues that gave quota back since the last `wake`."""

    def hold(self, number: int, claim: Claim, order_us: int, reserved_us: int) -> None:
        workload = claim.workload(number, order_us, reserved_us)
        self.accounts.hold(workload)
        self.holders[number] = claim, workload

    def wait(self, number: int, claim: Claim, order_us: int) -> None:
        queue = self.queues.get(claim.queue)
        if queue is None or not claim.is_covered:
            return
        line = queue.lines.get(claim.alike)
        if line is None:
            line = queue.lines[claim.alike] = _Line(claim)
        heappush(line.waiting, (-claim.facts.priority, order_us - order_us % SECOND_US, number))

    def release(self, number: int) -> None:
        """It holds quota no longer: whoever was set aside for want of it is tried again after the next `wake`."""
        claim, workload = self.holders.pop(number)
        self.accounts.release(workload.key)
        self.stirred[claim.queue] = None

    def wake(self) -> None:
        """Kueue's batch of events: queues that share quota with one that gave some back try everybody."""
        for name in self.stirred:
            self._wake_around(name)
        self.stirred = {}

    def _wake_around(self, name: str) -> None:
        root = self.accounts.queues[name].root()
        for account in root.subtree_queues() if not root.is_queue else (root,):
            queue = self.queues.get(account.name)
            if queue is not None:
                for line in queue.lines.values():
                    line.is_parked = False

    def decide(self, now_us: int) -> list[Step]:
        """Cycles until nobody gets anywhere: who is admitted and who loses quota, in that order."""
        steps: list[Step] = []
        for _ in range(_MOST_CYCLES):
            entries = []
            for queue in self.queues.values():
                head = queue.head()
                if head is not None:
                    entries.append(_Entry(queue, *head, self.accounts.queues[queue.name]))
            if not entries:
                return steps
            self._cycle(entries, now_us, steps)
        return steps

    def _cycle(self, entries: list[_Entry], now_us: int, steps: list[Step]) -> None:
        """Nominate, order, process; victims go when all have been looked at."""
        may = [entry for entry in entries if self._nominate(entry, now_us)]
        may.sort(key=lambda e: (e.borrowing, e.rank))
        gone: dict[int, None] = {}
        taken: list[tuple[QueueAccount, Usage]] = []
        for entry in may:
            claim = entry.line.claim
            asked = tuple(claim.requests.items())
            if any(victim in gone for victim in entry.targets):
                # Whom it would preempt goes for somebody else: it looks again, as if they had gone.
                entry.targets, entry.borrowing = [], 0
                if self._nominate(entry, now_us) and not entry.reserves and not entry.targets:
                    entry.account.add_usage(asked, ())
                    taken.append((entry.account, asked))
                    entry.queue.sticky = entry.rank[2]
                    continue
                if not entry.reserves and not entry.targets:
                    continue
            if entry.reserves:
                self._reserve(entry, gone, taken)
                continue
            for victim in entry.targets:
                self._out(victim)
            if not _fits(entry.account, claim):
                for victim in entry.targets:
                    self._back(victim)
                continue
            if entry.targets:
                gone.update(dict.fromkeys(entry.targets))
                entry.account.add_usage(asked, ())
                taken.append((entry.account, asked))
                entry.queue.sticky = entry.rank[2]
                continue
            self._admit(entry, now_us, steps)
        for account, usage in reversed(taken):
            account.remove_usage(usage, ())
        for victim in gone:
            self._back(victim)
        for victim in gone:
            claim, workload = self.holders[victim]
            steps.append((EVICTED, victim))
            self.release(victim)
            self.wait(victim, claim, workload.order_us)

    def _reserve(self, entry: _Entry, gone: Iterable[int], taken: list[tuple[QueueAccount, Usage]]) -> None:
        """Those that go still hold what they hold."""
        for victim in gone:
            self._back(victim)
        kept = _reserved(entry)
        for victim in gone:
            self._out(victim)
        entry.account.add_usage(kept, ())
        taken.append((entry.account, kept))

    def _out(self, number: int) -> None:
        self.accounts.take_out(self.holders[number][1])

    def _back(self, number: int) -> None:
        self.accounts.put_back(self.holders[number][1])

    def _admit(self, entry: _Entry, now_us: int, steps: list[Step]) -> None:
        _, order_us, number = heappop(entry.line.waiting)
        if entry.queue.sticky == number:
            entry.queue.sticky = -1
        self.hold(number, entry.line.claim, order_us, now_us)
        steps.append((ADMITTED, number))

    def _nominate(self, entry: _Entry, now_us: int) -> bool:
        """Whether it fits, or would with others gone; who waits like it is set aside where not."""
        account, claim = entry.account, entry.line.claim
        short: list[FlavorResource] = []
        for fr, value in claim.requests.items():
            if value > account.potential(fr):
                return self._park(entry)
            height, may_reclaim = borrowing_height(account, fr, value)
            entry.borrowing = max(entry.borrowing, height)
            if value <= account.free(fr):
                continue
            may_take = account.subtree.get(fr, 0) >= value or may_reclaim
            if not may_take and not account.spec.preemption.borrow_while_reclaiming:
                return self._park(entry)
            short.append(fr)
        if not short:
            return True
        if not _has_victims(account, claim, short):
            return self._park(entry, reserves=account.spec.preemption.reclaim_within_cohort != ANY)
        workload = claim.workload(entry.rank[2], entry.rank[1], -1)
        found = classical_targets(
            Attempt(self.accounts, account, workload, claim.requests, short, {}, now_us)
        )
        entry.targets = [int(target.workload.uid) for target in found]
        if found:
            return True
        return self._park(entry, reserves=account.spec.preemption.reclaim_within_cohort != ANY)

    def _park(self, entry: _Entry, *, reserves: bool = False) -> bool:
        """Set aside all that fare alike; whether the head still has a say in this cycle."""
        entry.line.is_parked = True
        if entry.queue.sticky == entry.rank[2]:
            entry.queue.sticky = -1
        entry.reserves = reserves
        return reserves


def _reserved(entry: _Entry) -> Usage:
    """No more than its queue may use. Source: scheduler.go quotaResourcesToReserve."""
    account = entry.account
    found = []
    for fr, value in entry.line.claim.requests.items():
        left = account.subtree.get(fr, 0) - account.usage.get(fr, 0)
        if entry.borrowing > 0:
            limit = account.borrowing_limits.get(fr)
            found.append((fr, value if limit is None else min(value, left + limit)))
        else:
            found.append((fr, max(0, min(value, left))))
    return tuple(found)


def _fits(account: QueueAccount, claim: Claim) -> bool:
    return all(value <= account.free(fr) for fr, value in claim.requests.items())


def _has_victims(account: QueueAccount, claim: Claim, short: Iterable[FlavorResource]) -> bool:
    """Whether there can be any: a look before the search."""
    policy = account.spec.preemption
    if policy.within_cluster_queue != NEVER:
        priority = claim.facts.priority
        if any(workload.priority <= priority for workload in account.workloads.values()):
            return True
    if policy.reclaim_within_cohort == NEVER:
        return False
    return any(
        child is not account
        for node in account.ancestors()
        for fr in short
        for child in node.over.get(fr, ())
    )


def why_not(backlog: Backlog) -> str:
    """Why `Quotas` would not do, as a phrase; empty where it does."""
    settings, accounts = backlog.settings, backlog.accounts
    if settings.uses_fair_sharing or settings.usage is not None:
        return "Kueue shares fairly"
    if settings.pods_ready is not None and settings.pods_ready.blocks_admission:
        return "Kueue waits for pods before it admits others"
    if backlog.has_topologies:
        return "Kueue looks at topologies"
    for queue in accounts.queues.values():
        spec = queue.spec
        if spec.queueing_strategy != BEST_EFFORT_FIFO or spec.admission_checks:
            return "Kueue's queues are strict or have admission checks"
        if any(len(group.flavors) > 1 for group in spec.groups):
            return "Kueue chooses between flavors"
    for flavor in accounts.flavors.values():
        if flavor.node_labels or flavor.taints or flavor.tolerations or flavor.topology:
            return "Kueue's flavors are nodes"
    return ""
