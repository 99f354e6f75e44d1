"""Pods that ask for nothing go wherever the predicates let them.

Source: volcano-sh/volcano pkg/scheduler/actions/backfill/backfill.go.
"""

from __future__ import annotations

from fairway.volcano.actions.choosing import best_of, find_nodes
from fairway.volcano.facts import QueueFacts, TaskStatus
from fairway.volcano.session import Heap, Session
from fairway.volcano.state import Job, Task
from fairway.volcano.statement import Statement


def backfill(session: Session) -> None:
    held: dict[str, Statement] = {}
    for task in _pending(session):
        nodes, errors = find_nodes(session, task)
        if not len(nodes):
            task.owner.fit_errors[task.id] = errors
            continue
        statement = held.setdefault(task.owner.id, session.statement())
        statement.allocate(task, int(nodes[0]) if len(nodes) == 1 else best_of(session, task, nodes))
        # What is allocated of a job is bound as soon as the job is ready (Session.Allocate, dispatch).
        if session.is_ready(task.owner):
            statement.commit()


def _pending(session: Session) -> list[Task]:
    queues: Heap[QueueFacts] = Heap(session.queue_before)
    jobs: dict[str, Heap[Job]] = {}
    tasks: dict[str, Heap[Task]] = {}
    for job in session.world.jobs.values():
        if job.is_pending or session.why_invalid(job) is not None:
            continue
        found: Heap[Task] = Heap(session.task_before)
        for task in job.of(TaskStatus.PENDING):
            if task.is_best_effort and not task.facts.is_gated:
                found.push(task)
        if not found:
            continue
        tasks[job.id] = found
        if job.queue.name not in jobs:
            jobs[job.queue.name] = Heap(session.job_before)
            queues.push(job.queue)
        jobs[job.queue.name].push(job)
    order: list[Task] = []
    while queues:
        waiting = jobs[queues.pop().name]
        while waiting:
            mine = tasks[waiting.pop().id]
            while mine:
                order.append(mine.pop())
    return order
