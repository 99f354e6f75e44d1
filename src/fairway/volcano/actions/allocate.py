"""Gangs onto nodes: queue by queue, job by job, all that `minMember` needs or nothing.

Source: volcano-sh/volcano pkg/scheduler/actions/allocate/allocate.go, without network topologies and subgroups.
"""

from __future__ import annotations

from fairway.volcano.actions.choosing import best_node, find_nodes
from fairway.volcano.facts import Phase, QueueFacts, TaskStatus
from fairway.volcano.session import Heap, Session
from fairway.volcano.state import FitErrors, Job, Task
from fairway.volcano.statement import Statement
from fairway.volcano.vectors import fits


def allocate(session: Session) -> None:
    """Place what can be placed. O(tasks × nodes)."""
    queues: Heap[QueueFacts] = Heap(session.queue_before)
    waiting: dict[str, Heap[Job]] = {}
    tasks: dict[str, Heap[Task]] = {}
    for job in session.world.jobs.values():
        if not _may_allocate(session, job):
            continue
        found = _pending_tasks(session, job)
        if not found:
            continue
        if job.queue.name not in waiting:
            waiting[job.queue.name] = Heap(session.job_before)
            queues.push(job.queue)
        waiting[job.queue.name].push(job)
        tasks[job.id] = found
    while queues:
        queue = queues.pop()
        if session.is_overused(queue) or not waiting[queue.name]:
            continue
        job = waiting[queue.name].pop()
        statement = _place(session, job, tasks[job.id])
        # A gang that only waits for others to leave keeps its claim in this session, and is not bound.
        if statement is not None and session.is_ready(job):
            statement.commit()
            if tasks[job.id]:
                waiting[queue.name].push(job)
        queues.push(queue)


def _may_allocate(session: Session, job: Job) -> bool:
    if job.is_pending:
        if "enqueue" in session.configuration.actions:
            return False
        job.phase = Phase.INQUEUE
    return session.why_invalid(job) is None


def _pending_tasks(session: Session, job: Job) -> Heap[Task]:
    tasks: Heap[Task] = Heap(session.task_before)
    for task in job.of(TaskStatus.PENDING):
        if not task.facts.is_gated and not task.is_best_effort:
            tasks.push(task)
    return tasks


def _place(session: Session, job: Job, tasks: Heap[Task]) -> Statement | None:
    """Put tasks until the gang is ready; None where it cannot be: everything is taken back."""
    if not session.world.node_names:
        return None
    statement = session.statement()
    while tasks:
        task = tasks.pop()
        if not session.is_allocatable(job.queue, task):
            continue
        if task.role and task.role in job.failed_roles():
            said = f"Task {task.facts.name} with role spec {task.role} has already predicated failed, skip"
            job.fit_errors[task.id] = FitErrors(said=said)
            continue
        node = _node_for(session, task)
        if node is None:
            if job.is_worth_going_on():
                continue
            break
        if fits(task.asked, session.world.idle[node]):
            statement.allocate(task, node)
        else:
            statement.pipeline(task, node, evicted=False)
        if job.is_ready:
            break
    if job.is_ready or job.is_pipelined:
        return statement
    statement.discard()
    return None


def _node_for(session: Session, task: Task) -> int | None:
    """Where preemption made room for it, else the best of all."""
    world = session.world
    nominated = world.node_at.get(task.facts.nominated)
    if nominated is not None and fits(task.asked, world.future_idle[nominated]):
        nodes, _ = find_nodes(session, task, only=nominated)
        if len(nodes):
            return best_node(session, task, nodes)
    nodes, errors = find_nodes(session, task)
    if not len(nodes):
        task.owner.fit_errors[task.id] = errors
        return None
    return best_node(session, task, nodes)
