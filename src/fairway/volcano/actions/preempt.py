"""Within a queue: jobs that want more take from those of lower priority, and a job's tasks from each other.

Source: volcano-sh/volcano pkg/scheduler/actions/preempt/preempt.go (normalPreempt).
"""

from __future__ import annotations

from collections.abc import Callable

from fairway.volcano.actions.choosing import by_score, find_nodes_to_empty, has_enough, is_refused
from fairway.volcano.facts import QueueFacts, TaskStatus
from fairway.volcano.session import Heap, Session
from fairway.volcano.state import Job, Task
from fairway.volcano.statement import Statement
from fairway.volcano.vectors import fits

_PREEMPTABLE = (TaskStatus.BOUND, TaskStatus.RUNNING)
REASON = "preempt"


def preempt(session: Session) -> None:
    starving: dict[str, list[Job]] = {}
    for job in session.world.jobs.values():
        if not job.is_pending and session.why_invalid(job) is None and session.is_starving(job):
            starving.setdefault(job.queue.name, []).append(job)
    queues: Heap[QueueFacts] = Heap(session.queue_before)
    for name in starving:
        queues.push(session.world.queues[name])
    while queues:
        jobs = starving[queues.pop().name]
        _between_jobs(session, jobs)
        for job in jobs:
            _within(session, job)


def pending_tasks(session: Session, job: Job) -> Heap[Task]:
    tasks: Heap[Task] = Heap(session.task_before)
    for task in job.of(TaskStatus.PENDING):
        if not task.facts.is_gated:
            tasks.push(task)
    return tasks


def _between_jobs(session: Session, jobs: list[Job]) -> None:
    order: Heap[Job] = Heap(session.job_before)
    for job in jobs:
        order.push(job)
    while order:
        job = order.pop()
        statement = session.statement()
        tasks = pending_tasks(session, job)
        while tasks and session.is_starving(job):
            _make_room(session, statement, tasks.pop(), _is_neighbour)
        if session.is_pipelined(job):
            statement.commit()
        else:
            statement.discard()


def _within(session: Session, job: Job) -> None:
    tasks = pending_tasks(session, job)
    while tasks:
        statement = session.statement()
        if not _make_room(session, statement, tasks.pop(), _is_sibling):
            statement.discard()
            return
        statement.commit()


def _is_neighbour(task: Task, victim: Task) -> bool:
    """Of another job in the same queue."""
    return victim.owner.queue is task.owner.queue and victim.owner is not task.owner


def _is_sibling(task: Task, victim: Task) -> bool:
    return victim.owner is task.owner


def _make_room(
    session: Session, statement: Statement, task: Task, is_candidate: Callable[[Task, Task], bool]
) -> bool:
    """Find a node on which evictions let the task in, best first; they join the statement."""
    if not _may_preempt(session, task):
        return False
    nodes = find_nodes_to_empty(session, task)
    if not len(nodes):
        return False
    for node in by_score(session, task, nodes):
        on_node = [
            victim
            for victim in session.world.on_node[node].values()
            if victim.job is not None
            and victim.status in _PREEMPTABLE
            and victim.facts.is_preemptable
            and not (task.is_best_effort and not victim.is_best_effort)
            and is_candidate(task, victim)
        ]
        victims = session.preemptable(task, on_node)
        if not has_enough(session, task, node, victims):
            continue
        trial = session.statement()
        order = session.victims_first(victims, task)
        evicted = False
        while order and not _fits(session, task, node):
            trial.evict(order.pop(), REASON)
            evicted = True
        if _fits(session, task, node):
            trial.pipeline(task, node, evicted=evicted)
            statement.merge(trial)
            return True
        trial.discard()
    return False


def _fits(session: Session, task: Task, node: int) -> bool:
    return (
        session.is_allocatable(task.owner.queue, task)
        and fits(task.asked, session.world.future_idle[node])
        and not is_refused(session, task, node)
    )


def _may_preempt(session: Session, task: Task) -> bool:
    """Not where its policy forbids it, nor while the node it made room on is still good for it."""
    if task.facts.never_preempts:
        return False
    if not task.facts.nominated:
        return True
    node = session.world.node_at.get(task.facts.nominated)
    if node is None or not is_refused(session, task, node):
        return False
    return not any(
        other.status is TaskStatus.RELEASING and other.facts.priority < task.facts.priority
        for other in session.world.on_node[node].values()
    )
