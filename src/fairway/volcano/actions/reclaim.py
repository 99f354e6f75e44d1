"""Between queues: who has less than it deserves takes back from those who have more.

Source: volcano-sh/volcano pkg/scheduler/actions/reclaim/reclaim.go.
"""

from __future__ import annotations

from fairway.volcano.actions.choosing import find_nodes_to_empty, has_enough
from fairway.volcano.actions.preempt import pending_tasks
from fairway.volcano.facts import QueueFacts, TaskStatus
from fairway.volcano.session import Heap, Session
from fairway.volcano.state import Job, Task
from fairway.volcano.statement import Statement
from fairway.volcano.vectors import fits

REASON = "reclaim"


def reclaim(session: Session) -> None:
    queues: Heap[QueueFacts] = Heap(session.queue_before)
    starving: dict[str, Heap[Job]] = {}
    for job in session.world.jobs.values():
        if job.is_pending or session.why_invalid(job) is not None:
            continue
        if job.queue.name not in starving:
            starving[job.queue.name] = Heap(session.job_before)
            queues.push(job.queue)
        if session.is_starving(job):
            starving[job.queue.name].push(job)
    while queues:
        queue = queues.pop()
        if session.is_overused(queue):
            continue
        while starving[queue.name]:
            _reclaim_for(session, starving[queue.name].pop())


def _reclaim_for(session: Session, job: Job) -> None:
    statement = session.statement()
    tasks = pending_tasks(session, job)
    while tasks and session.is_starving(job):
        task = tasks.pop()
        if not task.facts.never_preempts and session.may_reclaim(job.queue, task):
            _make_room(session, statement, task)
    if session.is_pipelined(job):
        statement.commit()
    else:
        statement.discard()


def _make_room(session: Session, statement: Statement, task: Task) -> None:
    """The first node on which what others must give back is enough."""
    world = session.world
    for node in find_nodes_to_empty(session, task).tolist():
        others = [t for t in world.on_node[node].values() if _is_others(task, t)]
        if not others:
            continue
        victims = session.reclaimable(task, others)
        if not has_enough(session, task, node, victims):
            continue
        trial = session.statement()
        order = session.victims_first(victims, task)
        evicted = False
        while order and not fits(task.asked, world.future_idle[node]):
            trial.evict(order.pop(), REASON)
            evicted = True
        if fits(task.asked, world.future_idle[node]):
            trial.pipeline(task, node, evicted=evicted)
            statement.merge(trial)
            return
        trial.discard()


def _is_others(task: Task, other: Task) -> bool:
    """Running, of a queue that gives back, and not asked to be spared."""
    return (
        other.job is not None
        and other.status is TaskStatus.RUNNING
        and other.facts.is_preemptable
        and other.job.queue is not task.owner.queue
        and other.job.queue.is_reclaimable
    )
