"""All jobs of an accounting, submitted again when they were, and decided about by Slurm's own rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fairway.kube.collectorpause import collector_resting
from fairway.slurm.administration import Slurmctld
from fairway.slurm.clockwork import SECOND
from fairway.slurm.model.job import Job
from fairway.slurm.records.record import JobRecord, request_of
from fairway.slurm.records.reviving import new_controller
from fairway.slurm.sitefolder import SiteFolder
from fairway.slurm.words.errors import SlurmError

MOST_SHOWN = 20
ATTEMPT_S = 86_400
"""What is left after the last submission is played to its end, at most so many days' worth at a time."""
MOST_DAYS = 400


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job in the replay: of a year's million the records themselves are too large to keep."""

    submit: int
    eligible: int
    start: int
    end: int
    pending: bool
    finished: bool
    gpus: int
    cpus: int


@dataclass(slots=True)
class Played:
    """`jobs`: (what was written down, what became of it); `refused`: what Slurm would not take."""

    controller: Slurmctld
    jobs: list[tuple[JobRecord, Outcome]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    ids: list[tuple[JobRecord, int]] = field(default_factory=list)
    """Jobs submitted, by the replay's numbers."""


def replay(
    site: SiteFolder,
    records: Sequence[JobRecord],
    *,
    until: int | None = None,
    exclusive: bool = False,
    prepare: Callable[[Slurmctld], None] | None = None,
    on_day: Callable[[int], None] | None = None,
) -> Played:
    """From the first submission to the end of the last job, or to `until` (seconds since 1970). `exclusive`: every job
    has its nodes to itself."""
    records = [r for r in records if r.ran_s > 0 or not r.end]
    first = records[0].submit if records else 0
    controller = new_controller(site, records, first)
    if prepare is not None:
        prepare(controller)
    with collector_resting():
        return _play(Played(controller), records, until, exclusive, on_day)


def _play(
    played: Played,
    records: Sequence[JobRecord],
    until: int | None,
    exclusive: bool,
    on_day: Callable[[int], None] | None,
) -> Played:
    controller = played.controller
    day = records[0].submit if records else 0
    for record in records:
        if until is not None and record.submit > until:
            break
        controller.advance(record.submit * SECOND)
        if on_day is not None and record.submit >= day:
            on_day(record.submit)
            day = record.submit + ATTEMPT_S
        _submit(played, record, exclusive)
    if until is not None:
        controller.advance(until * SECOND)
        return _ended(played)
    limit = controller.now + MOST_DAYS * ATTEMPT_S
    cluster = controller.cluster
    while (cluster.running or _can_start(cluster.pending.values())) and controller.now < limit:
        due = controller.next_event_us()
        if due is None:
            break
        controller.advance(due)
    return _ended(played)


def _ended(played: Played) -> Played:
    """A job's last run is what became of it, unless it goes on."""
    cluster = played.controller.cluster
    found = {job.job_id: _outcome(job) for job in cluster.archive}
    found |= {job.job_id: _outcome(job) for job in cluster.jobs.values()}
    played.jobs = [(record, found[job_id]) for record, job_id in played.ids]
    played.ids.clear()
    return played


def _outcome(job: Job) -> Outcome:
    gpus = sum(share.gres.get("gpu", 0).bit_count() for share in job.shares)
    cpus = job.alloc_tres.get("cpu", 0)
    return Outcome(job.submit, job.eligible, job.start, job.end, job.pending, job.finished, gpus, cpus)


def _can_start(pending: Iterable[Job]) -> bool:
    return any(job.priority and job.reason != "BadConstraints" for job in pending)


def _submit(played: Played, record: JobRecord, exclusive: bool) -> None:
    request = request_of(record)
    request.exclusive = "node" if exclusive else None
    request.extra["left_s"] = record.ran_s or max(record.limit * 60, 60)
    try:
        played.ids.append((record, played.controller.submit(request, record.user).job_id))
    except (SlurmError, ValueError) as refused:
        played.refused.append(f"job {record.label}: {refused}")
