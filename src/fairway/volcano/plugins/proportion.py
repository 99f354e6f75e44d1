"""What does each queue deserve, by its weight, and who is over or under it?

The cluster is poured over the queues by weight; no queue gets more than it asks for or may have (`capability`),
none less than its `guarantee`; what is left is poured again until nothing moves.

Source: volcano-sh/volcano pkg/scheduler/plugins/proportion/proportion.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairway.kube.resources import CPU, MEMORY
from fairway.volcano.facts import OPEN, Ints, Phase, QueueFacts, TaskStatus
from fairway.volcano.session import PERMIT, REJECT, Plugin, Session
from fairway.volcano.state import ALLOCATED_STATUSES, Job, Listener, Task, World
from fairway.volcano.vectors import NO_LIMIT, Columns, fits, share


class QueueShare:
    """One queue's books. `capability` is what it may really have: the cluster less what others are guaranteed."""

    def __init__(self, queue: QueueFacts, columns: Columns, unguaranteed: Ints) -> None:
        self.queue = queue
        self.deserved = columns.zeros()
        self.allocated = columns.zeros()
        self.request = columns.zeros()
        self.elastic = columns.zeros()
        self.inqueue = columns.zeros()
        self.guarantee = columns.read(queue.guarantee)
        self.capability = np.minimum(unguaranteed + self.guarantee, _limit_of(queue, columns))
        self.share = 0.0

    def restate(self) -> None:
        self.share = share(self.allocated, self.deserved)


def _limit_of(queue: QueueFacts, columns: Columns) -> Ints:
    if not queue.capability:
        return np.full(len(columns.names), NO_LIMIT, np.int64)
    # A cpu or memory capability of nothing means no limit.
    limits = {n: v for n, v in queue.capability.items() if v > 0 or n not in (CPU, MEMORY)}
    return columns.read(limits, NO_LIMIT)


class Proportion(Plugin, Listener):
    name = "proportion"

    def __init__(self, session: Session) -> None:
        self._session = session
        world = session.world
        self._columns = world.columns
        guaranteed = sum(
            (world.columns.read(q.guarantee) for q in world.queues.values()), world.columns.zeros()
        )
        unguaranteed = np.maximum(world.total - guaranteed, 0)
        self.shares: dict[str, QueueShare] = {}
        for job in world.jobs.values():
            books = self.shares.get(job.queue.name)
            if books is None:
                books = self.shares[job.queue.name] = QueueShare(job.queue, world.columns, unguaranteed)
            _count(books, job)
        _pour(list(self.shares.values()), world)
        world.listeners.append(self)

    def hooks(self) -> dict[str, Callable[..., Any]]:
        return {
            "enableQueueOrder": self._order,
            "enableReclaimable": self._over_deserved,
            "enabledOverused": self._is_overused,
            "enabledAllocatable": self._has_room,
            "enablePreemptive": self._has_room,
            "enableJobEnqueued": self._may_enqueue,
            "enableJobEnqueued:done": self._enqueued,
        }

    def came(self, task: Task) -> None:
        books = self.shares[task.owner.queue.name]
        books.allocated += task.asked
        books.restate()

    def left(self, task: Task) -> None:
        books = self.shares[task.owner.queue.name]
        books.allocated -= task.asked
        books.restate()

    def _order(self, left: QueueFacts, right: QueueFacts) -> int:
        if left.priority != right.priority:
            return right.priority - left.priority
        a, b = self._share_of(left), self._share_of(right)
        return (a > b) - (a < b)

    def _share_of(self, queue: QueueFacts) -> float:
        books = self.shares.get(queue.name)
        return 0.0 if books is None else books.share

    def _is_overused(self, queue: QueueFacts) -> bool:
        books = self.shares[queue.name]
        return fits(books.deserved, books.allocated)

    def _has_room(self, queue: QueueFacts, task: Task) -> bool:
        books = self.shares[queue.name]
        if queue.state != OPEN:
            return False
        return not self._columns.short(books.allocated + task.asked, books.deserved, task.asked)

    def _over_deserved(self, _for: Task, candidates: list[Task]) -> list[Task]:
        """Tasks of queues that have more than they deserve, until they have not."""
        left: dict[str, Ints] = {}
        victims = []
        for task in candidates:
            name = task.owner.queue.name
            books = self.shares[name]
            allocated = left.setdefault(name, books.allocated.copy())
            if not fits(allocated, books.deserved):
                allocated -= task.asked
                victims.append(task)
        return victims

    def _may_enqueue(self, job: Job) -> int:
        books = self.shares[job.queue.name]
        if job.queue.state != OPEN:
            return REJECT
        if not job.has_min_resources:
            return PERMIT
        wanted = job.min_resources + books.allocated + books.inqueue - books.elastic
        short = self._columns.short(wanted, books.capability, job.min_resources)
        if not short:
            return PERMIT
        self._session.notes.append(
            (job.id, insufficient("queue resource quota insufficient", "insufficient", short))
        )
        return REJECT

    def _enqueued(self, job: Job) -> None:
        if job.has_min_resources:
            self.shares[job.queue.name].inqueue += without_gated(job, job.min_resources)


def insufficient(prefix: str, verb: str, names: list[str]) -> str:
    """Source: plugins/util FormatResourceNames."""
    return f"{prefix}: {', '.join(f'{verb} {name}' for name in names)}" if names else prefix


def without_gated(job: Job, amounts: Ints) -> Ints:
    """Less what pods ask for that are held by scheduling gates: they block nobody."""
    gated = [task.asked for task in job.tasks.values() if task.facts.is_gated]
    if not gated:
        return amounts
    left: Ints = np.maximum(amounts - sum(gated, np.zeros_like(amounts)), 0)
    return left


def still_wanted(job: Job) -> Ints:
    """Of its `minResources`, what it does not have yet."""
    left: Ints = np.maximum(job.min_resources - job.allocated, 0)
    return left


def is_reserving(job: Job) -> bool:
    """A running gang keeps what the rest of its `minResources` needs, once `minMember` pods hold something."""
    allocated = job.count(ALLOCATED_STATUSES)
    return job.phase is Phase.RUNNING and job.has_min_resources and allocated >= job.min_available


def _count(books: QueueShare, job: Job) -> None:
    books.allocated += job.allocated
    books.request += job.allocated
    for task in job.of(TaskStatus.PENDING):
        books.request += task.asked
    if (job.phase is Phase.INQUEUE and job.has_min_resources) or is_reserving(job):
        books.inqueue += without_gated(job, still_wanted(job))
    books.elastic += np.maximum(job.allocated - job.min_resources, 0)


def _pour(queues: list[QueueShare], world: World) -> None:
    """Fill in `deserved`. O(queues² ) at worst: every round satisfies a queue or ends."""
    remaining = world.total.copy()
    met: dict[str, None] = {}
    while True:
        open_queues = [b for b in queues if b.queue.name not in met]
        weights = sum(b.queue.weight for b in open_queues)
        if weights == 0:
            return
        before = remaining.copy()
        given = world.columns.zeros()
        for books in open_queues:
            old = books.deserved
            books.deserved = np.maximum(
                np.minimum(
                    np.minimum(old + remaining * books.queue.weight // weights, books.capability),
                    books.request,
                ),
                books.guarantee,
            )
            books.restate()
            if fits(books.request, books.deserved) or bool((books.deserved == old).all()):
                met[books.queue.name] = None
            given += books.deserved - old
        remaining = np.maximum(remaining - given, 0)
        if world.columns.is_empty(remaining) or bool((remaining == before).all()):
            return
