"""What would slurmctld do next? One pass of the main scheduler and one of backfill, on a copy of the site."""

from __future__ import annotations

from dataclasses import dataclass

from fairway.ground.slurmground import SlurmMoment
from fairway.slurm.model.job import Job
from fairway.slurm.records.record import JobRecord
from fairway.slurm.records.reviving import Standing


@dataclass(frozen=True, slots=True)
class Planned:
    """`start`: seconds since 1970, 0 for none within backfill's window; `runs`: it starts in this pass."""

    start: int
    nodes: tuple[str, ...]
    reason: str
    detail: str
    priority: int
    runs: bool


def looked(moment: SlurmMoment, records: tuple[JobRecord, ...] | None = None) -> Standing:
    """The site after one look of both schedulers."""
    standing = moment.standing(records=records)
    controller = standing.controller
    controller._pass(full=True)
    if controller.backfills:
        controller._on_backfill()
    return standing


def plan_of(standing: Standing, label: str) -> Planned | None:
    job = standing.jobs.get(label)
    return None if job is None else planned(standing, job)


def planned(standing: Standing, job: Job) -> Planned:
    runs = not job.pending
    return Planned(
        job.start, job.nodes or job.scheduled_nodes, job.reason, job.reason_detail, job.priority, runs
    )
