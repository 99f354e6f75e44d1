"""Whose pods may be made: pending PodGroups become Inqueue while their resources may still be had.

Source: volcano-sh/volcano pkg/scheduler/actions/enqueue/enqueue.go.
"""

from __future__ import annotations

from fairway.volcano.facts import Phase, QueueFacts
from fairway.volcano.session import Heap, Session
from fairway.volcano.state import Job


def enqueue(session: Session) -> None:
    """O(pending jobs × log): queues take turns, each with its first job."""
    queues: Heap[QueueFacts] = Heap(session.queue_before)
    waiting: dict[str, Heap[Job]] = {}
    for job in session.world.jobs.values():
        if not job.is_pending:
            continue
        if job.queue.name not in waiting:
            waiting[job.queue.name] = Heap(session.job_before)
            queues.push(job.queue)
        waiting[job.queue.name].push(job)
    while queues:
        queue = queues.pop()
        jobs = waiting[queue.name]
        if not jobs:
            continue
        job = jobs.pop()
        if not job.has_min_resources or session.is_enqueueable(job):
            session.enqueued(job)
            job.phase = Phase.INQUEUE
        queues.push(queue)
