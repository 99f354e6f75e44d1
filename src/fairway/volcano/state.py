"""Tasks, jobs, queues and nodes while a session runs, and the one way to move a task.

A job is a PodGroup with its pods; a task is a pod. What a node has left is arrays over nodes:
`idle` (nobody is there), `releasing` (somebody is leaving), `pipelined` (promised of what is being released).

    future idle = idle + releasing - pipelined

Source: volcano-sh/volcano pkg/scheduler/api/job_info.go, node_info.go (AddTask, RemoveTask), queue_info.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fairway.kube.resources import PODS
from fairway.volcano.facts import (
    Bools,
    ClusterFacts,
    Feasibility,
    GroupFacts,
    Ints,
    Phase,
    PodFacts,
    QueueFacts,
    TaskStatus,
)
from fairway.volcano.vectors import Columns

NOWHERE = -1
ALLOCATED_STATUSES = (TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.ALLOCATED)
READY_STATUSES = (*ALLOCATED_STATUSES, TaskStatus.SUCCEEDED)
SCHEDULED_STATUSES = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.FAILED, TaskStatus.SUCCEEDED)
VALID_STATUSES = (*READY_STATUSES, TaskStatus.PIPELINED, TaskStatus.PENDING)
ON_NODE_STATUSES = (*ALLOCATED_STATUSES, TaskStatus.RELEASING, TaskStatus.PIPELINED)


class Task:
    """A pod in the session. `last` is where a statement that was taken back had put it."""

    __slots__ = ("asked", "evicted_for", "facts", "is_best_effort", "job", "last", "node", "status")

    def __init__(self, facts: PodFacts, asked: Ints, is_best_effort: bool) -> None:
        self.facts = facts
        self.asked = asked
        self.is_best_effort = is_best_effort
        self.status = facts.status
        self.node = NOWHERE
        self.job: Job | None = None
        self.evicted_for = False
        """Whether somebody was evicted to make room for it (while pipelined)."""
        self.last: tuple[TaskStatus, int, bool] | None = None

    @property
    def id(self) -> str:
        return self.facts.id

    @property
    def role(self) -> str:
        return self.facts.role

    @property
    def owner(self) -> Job:
        """Its job. Only tasks of a PodGroup are ever placed or evicted."""
        assert self.job is not None
        return self.job


@dataclass(frozen=True, slots=True)
class FitErrors:
    """Why no node would do for one task: reasons with the number of nodes that give them, or what was said instead.

    `is_final[node]`: no eviction can help there; None: of no node known.
    """

    nodes: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    said: str = ""
    is_final: Bools | None = None


class Job:
    """A PodGroup and its tasks."""

    def __init__(self, group: GroupFacts, columns: Columns, queue: QueueFacts) -> None:
        self.group = group
        self.queue = queue
        self.priority = group.priority
        self.min_available = group.min_member
        self.phase = group.phase
        self.tasks: dict[str, Task] = {}
        self.by_status: dict[TaskStatus, dict[str, Task]] = {}
        self.allocated = columns.zeros()
        self.promised = columns.zeros()
        self.min_resources = columns.read(group.min_resources)
        self.fit_errors: dict[str, FitErrors] = {}

    @property
    def id(self) -> str:
        return self.group.id

    @property
    def has_min_resources(self) -> bool:
        return self.group.min_resources is not None

    @property
    def is_pending(self) -> bool:
        return self.phase in (Phase.PENDING, Phase.NONE)

    @property
    def min_of_roles(self) -> int:
        return sum(self.group.min_task_member.values())

    @property
    def allocated_or_promised(self) -> Ints:
        return self.allocated + self.promised

    def add(self, task: Task) -> None:
        self.tasks[task.id] = task
        self.by_status.setdefault(task.status, {})[task.id] = task
        self._count(task, 1)

    def _count(self, task: Task, sign: int) -> None:
        if task.status in ALLOCATED_STATUSES:
            self.allocated += sign * task.asked
        elif task.status is TaskStatus.PIPELINED:
            self.promised += sign * task.asked

    def move(self, task: Task, status: TaskStatus) -> None:
        self._count(task, -1)
        there = self.by_status[task.status]
        del there[task.id]
        if not there:
            del self.by_status[task.status]
        task.status = status
        self.by_status.setdefault(status, {})[task.id] = task
        self._count(task, 1)

    # Counting

    def of(self, status: TaskStatus) -> list[Task]:
        return list(self.by_status.get(status, {}).values())

    def count(self, statuses: Iterable[TaskStatus]) -> int:
        return sum(len(self.by_status.get(s, ())) for s in statuses)

    @property
    def ready(self) -> int:
        return self.count(READY_STATUSES)

    @property
    def waiting(self) -> int:
        return self.count((TaskStatus.PIPELINED,))

    @property
    def pending_best_effort(self) -> int:
        return sum(t.is_best_effort for t in self.by_status.get(TaskStatus.PENDING, {}).values())

    @property
    def is_ready(self) -> bool:
        return self.ready + self.pending_best_effort >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        return self.waiting + self.ready + self.pending_best_effort >= self.min_available

    @property
    def is_starving(self) -> bool:
        return self.waiting + self.ready < self.min_available

    @property
    def releasing_scheduled(self) -> int:
        """Pods on their way out that still hold their places."""
        return sum(t.node != NOWHERE for t in self.by_status.get(TaskStatus.RELEASING, {}).values())

    def by_role(self, statuses: Iterable[TaskStatus], *, with_best_effort: bool = False) -> dict[str, int]:
        counts: dict[str, int] = {}
        for status in statuses:
            for task in self.by_status.get(status, {}).values():
                counts[task.role] = counts.get(task.role, 0) + 1
        if with_best_effort:
            for task in self.by_status.get(TaskStatus.PENDING, {}).values():
                if task.is_best_effort:
                    counts[task.role] = counts.get(task.role, 0) + 1
        return counts

    def roles_have(self, statuses: Iterable[TaskStatus], *, with_best_effort: bool = False) -> bool:
        """Whether every role has its `minTaskMember`; where `minMember` is less than their sum, only that counts."""
        if not self.group.min_task_member or self.min_available < self.min_of_roles:
            return True
        counts = self.by_role(statuses, with_best_effort=with_best_effort)
        return all(counts.get(role, 0) >= least for role, least in self.group.min_task_member.items())

    def failed_roles(self) -> dict[str, None]:
        return {self.tasks[i].role: None for i in self.fit_errors if i in self.tasks}

    def is_worth_going_on(self) -> bool:
        """After a task fitted nowhere: whether the others may still complete the gang (NeedContinueAllocating)."""
        if self.min_available >= len(self.tasks):
            return False
        failed = self.failed_roles()
        if self.min_available < self.min_of_roles:
            left = sum(t.role not in failed for t in self.by_status.get(TaskStatus.PENDING, {}).values())
            return self.ready + left >= self.min_available
        placed = self.by_role(READY_STATUSES, with_best_effort=True)
        least = self.group.min_task_member
        return all(placed.get(role, 0) >= least.get(role, 0) for role in failed)


class World:
    """All of it. Every move of a task goes through `move`, so nodes, jobs, plugins and predicates agree."""

    def __init__(self, facts: ClusterFacts, feasibility: Feasibility) -> None:
        self.facts = facts
        self.feasibility = feasibility
        self.columns = Columns(
            [
                {PODS: 0},
                *(n.allocatable for n in facts.nodes),
                *(p.requests for p in facts.pods),
                *(g.min_resources or {} for g in facts.groups),
                *(q.capability or {} for q in facts.queues),
                *(q.guarantee or {} for q in facts.queues),
            ]
        )
        columns, count = self.columns, len(facts.nodes)
        self.node_names = tuple(n.name for n in facts.nodes)
        self.node_at = {name: i for i, name in enumerate(self.node_names)}
        self.allocatable = np.array([columns.read(n.allocatable) for n in facts.nodes], np.int64).reshape(
            count, len(columns.names)
        )
        self.idle = self.allocatable.copy()
        self.releasing = np.zeros_like(self.idle)
        self.pipelined = np.zeros_like(self.idle)
        self.on_node: list[dict[str, Task]] = [{} for _ in facts.nodes]
        self.total = self.allocatable.sum(axis=0)
        self.queues = {q.name: q for q in facts.queues}
        self.jobs: dict[str, Job] = {
            g.id: Job(g, columns, self.queues[g.queue]) for g in facts.groups if g.queue in self.queues
        }
        self.listeners: list[Listener] = []
        for pod in facts.pods:
            self._add(pod)

    def _add(self, pod: PodFacts) -> None:
        asked = self.columns.read(pod.requests)
        task = Task(pod, asked, self.columns.is_empty(asked))
        task.job = self.jobs.get(pod.group)
        if task.status in ON_NODE_STATUSES:
            task.node = self.node_at.get(pod.node, NOWHERE)
        if task.job is not None:
            task.job.add(task)
        self._enter(task)

    @property
    def future_idle(self) -> Ints:
        return self.idle + self.releasing - self.pipelined

    @property
    def used(self) -> Ints:
        return self.allocatable - self.idle

    # Moving

    def _enter(self, task: Task) -> None:
        if task.node == NOWHERE or task.status not in ON_NODE_STATUSES:
            return
        self.on_node[task.node][task.id] = task
        if task.status is TaskStatus.PIPELINED:
            self.pipelined[task.node] += task.asked
            return
        self.idle[task.node] -= task.asked
        if task.status is TaskStatus.RELEASING:
            self.releasing[task.node] += task.asked

    def _leave(self, task: Task) -> None:
        if task.node == NOWHERE or self.on_node[task.node].pop(task.id, None) is None:
            return
        if task.status is TaskStatus.PIPELINED:
            self.pipelined[task.node] -= task.asked
            return
        self.idle[task.node] += task.asked
        if task.status is TaskStatus.RELEASING:
            self.releasing[task.node] -= task.asked

    def _restate(self, task: Task, status: TaskStatus, node: int) -> None:
        self._leave(task)
        task.owner.move(task, status)
        task.node = node
        self._enter(task)

    def put(self, task: Task, status: TaskStatus, node: int) -> None:
        """The task comes to a node: allocated, or pipelined behind somebody who is leaving."""
        self._restate(task, status, node)
        self.feasibility.came(task.id, node)
        for listener in self.listeners:
            listener.came(task)

    def take_back(self, task: Task) -> None:
        """As if it had never been put."""
        node = task.node
        self._restate(task, TaskStatus.PENDING, NOWHERE)
        task.evicted_for = False
        self.feasibility.left(task.id, node)
        for listener in self.listeners:
            listener.left(task)

    def release(self, task: Task) -> None:
        """It is asked to leave: what it holds counts as future idle, and its job has lost it."""
        self._restate(task, TaskStatus.RELEASING, task.node)
        self.feasibility.left(task.id, task.node)
        for listener in self.listeners:
            listener.left(task)

    def keep(self, task: Task, status: TaskStatus) -> None:
        """It may stay after all."""
        self._restate(task, status, task.node)
        self.feasibility.came(task.id, task.node)
        for listener in self.listeners:
            listener.came(task)

    def bind(self, task: Task) -> None:
        """Committed: from allocated to binding, which no account tells apart."""
        task.owner.move(task, TaskStatus.BINDING)


class Listener:
    """A plugin's books: told of every task that comes or leaves."""

    def came(self, task: Task) -> None: ...
    def left(self, task: Task) -> None: ...
