"""The main scheduler: jobs in order of priority; the first of a partition that cannot start closes it. (_schedule.)"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fairway.slurm.cluster import Cluster
from fairway.slurm.model.job import Job
from fairway.slurm.model.partition import Partition
from fairway.slurm.placing.uses import bitmap
from fairway.slurm.queueing import Entry, build_queue, may_start_task, partition_reason
from fairway.slurm.selecting import Looking, Verdict, need_of, select

Start = Callable[[Job, Partition, Verdict, str], Job | None]
"""Carry a start out: (job or array, partition, where, scheduler) → the record that runs."""
Preempt = Callable[[Verdict, Job], None]


@dataclass(slots=True)
class _Pass:
    look: Looking
    closed: int = 0
    failed_parts: set[str] = field(default_factory=set)
    failed_reservations: set[str] = field(default_factory=set)
    depth: dict[str, int] = field(default_factory=dict)


def main_pass(look: Looking, start: Start, preempt: Preempt, *, depth: int, scheduler: str = "Main") -> int:
    """Start what can be started; how many were. `depth`: jobs looked at (default_queue_depth)."""
    cluster, now = look.cluster, look.now
    state = _Pass(look)
    started = tried = 0
    rejected: tuple[int, str] | None = None
    part_depth = cluster.conf.parameter("partition_job_depth", 0)
    queue = build_queue(cluster, look.rules, now, min_time=False)
    look.queued = len(queue)
    for entry in queue:
        job, part = entry.job, entry.part
        if not job.pending:
            continue
        job.last_sched_eval, job.scheduler, job.partition = now, scheduler, _shown(job, part)
        if job.het_job_id:
            _close(state, cluster, part)
            continue
        while True:
            if job.array_job_id and rejected == (job.array_job_id, part.name):
                break
            if job.array_job_id:
                rejected = (job.array_job_id, part.name)
                if not may_start_task(cluster, job):
                    break
            if part_depth and state.depth.get(part.name, 0) >= part_depth:
                job.reason = "Priority" if job.reason == "None" else job.reason
                break
            state.depth[part.name] = state.depth.get(part.name, 0) + 1
            tried += 1
            if tried > depth:
                return started
            look.tried += 1
            if _is_closed(state, entry):
                break
            look.closed = state.closed
            verdict = _try(state, cluster, job, part)
            if verdict is None:
                break
            if verdict.code == "OK":
                start(job, part, verdict, scheduler)
                started += 1
                rejected = None
                if job.state == "PENDING":  # the array, of which a task was split off
                    continue
                break
            _failed(state, cluster, entry, verdict, preempt)
            break
    look.closed = 0
    return started


def _shown(job: Job, part: Partition) -> str:
    return job.partition if len(job.partitions) > 1 else part.name


def _close(state: _Pass, cluster: Cluster, part: Partition) -> None:
    if part.name not in state.failed_parts:
        state.failed_parts.add(part.name)
        state.closed |= cluster.nodes_of(part)


def _is_closed(state: _Pass, entry: Entry) -> bool:
    """A job of a closed partition waits for priority."""
    job = entry.job
    if job.reservation:
        if job.reservation in state.failed_reservations:
            job.reason, job.reason_detail = "Priority", ""
            return True
        return False
    if entry.part.name in state.failed_parts:
        if job.reason in ("None", "Resources"):
            job.reason, job.reason_detail = "Priority", ""
        return True
    return False


def _try(state: _Pass, cluster: Cluster, job: Job, part: Partition) -> Verdict | None:
    """The verdict, or None where the job is passed over without closing anything."""
    look = state.look
    reason = partition_reason(cluster, job, part)
    if reason:
        return None
    usable = cluster.up & ~state.closed
    if job.reason == "ReqNodeNotAvail" and bitmap(job.nodelist) & ~usable:
        return None
    nodes = (cluster.nodes_of(part) & usable).bit_count()
    if job.min_nodes > nodes:
        job.reason = "Resources"
        job.reason_detail = (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
        )
        _close(state, cluster, part)
        return None
    if any(
        cluster.licenses[name].total - cluster.licenses[name].used < n for name, n in job.licenses.items()
    ):
        job.reason, job.reason_detail = "Licenses", ""
        return None
    need_of(cluster, job, part)
    return select(look, job, part)


def _failed(state: _Pass, cluster: Cluster, entry: Entry, verdict: Verdict, preempt: Preempt) -> None:
    job, part = entry.job, entry.part
    job.reason, job.reason_detail = verdict.reason, verdict.detail
    if verdict.victims:
        preempt(verdict, job)
    by_part = verdict.code == "BUSY" or (
        verdict.code == "LIMIT" and cluster.conf.has_option("assoc_limit_stop")
    )
    if verdict.code == "RESERVED" and job.reservation:
        held = cluster.reservations.get(job.reservation)
        state.closed |= bitmap(held.nodes) if held else 0
    if verdict.code == "NEVER" and len(job.partitions) == 1:
        job.priority, job.reason, job.reason_detail = 0, "BadConstraints", ""
    if job.nodelist and len(job.nodelist) >= job.min_nodes:
        by_part = False
        state.closed |= bitmap(job.nodelist)
    if by_part and job.reservation:
        state.failed_reservations.add(job.reservation)
        by_part = False
    age, least = (
        cluster.conf.parameter("bf_min_age_reserve", 0),
        cluster.conf.parameter("bf_min_prio_reserve", 0),
    )
    if by_part and ((age and state.look.now - job.eligible < age) or (least and entry.priority < least)):
        by_part = False
    if by_part:
        _close(state, cluster, part)
