"""A slurmctld that stands at a moment of the records: what ran runs on its nodes, what waited waits, usage is charged.

What cannot be so (a node that is not in slurm.conf, a partition that is gone) is left out and named. Runtimes are the
caller's: whoever only asks lets jobs run to their limits, a forecast draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from fairway.slurm import priority, selecting
from fairway.slurm.administration import Slurmctld
from fairway.slurm.clockwork import SECOND
from fairway.slurm.lifecycle import YEAR_S, Behaviour
from fairway.slurm.model.job import Job
from fairway.slurm.records.record import JobRecord, request_of
from fairway.slurm.sitefolder import SiteFolder, add_user
from fairway.slurm.words import hostlist
from fairway.slurm.words.errors import SlurmError

RunsFor = Callable[[JobRecord, int], int]
"""(job, seconds it has run) → seconds it runs in all."""


@dataclass(slots=True)
class Standing:
    """`jobs`: label → the controller's record; `of`: job id → what was written down."""

    controller: Slurmctld
    now: int
    jobs: dict[str, Job] = field(default_factory=dict)
    of: dict[int, JobRecord] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def to_limit(record: JobRecord, elapsed: int) -> int:
    return max(record.limit * 60, elapsed + 60)


def new_controller(site: SiteFolder, records: Iterable[JobRecord], now: int) -> Slurmctld:
    """Nobody runs. Users and QOS of the records are known; a copy of the site's accounts is its own."""
    from copy import deepcopy

    fresh = SiteFolder(
        site.place, site.conf, deepcopy(site.accounts), site.files, site.accounts_file, site.qos_file
    )
    for account, user in sorted({(r.account, r.user) for r in records if r.account}):
        add_user(fresh.accounts, account, user)
    controller = fresh.controller(now * SECOND, enforce=bool(site.accounts_file))
    controller.behave = _behave
    return controller


def _behave(job: Job, now: int) -> Behaviour:
    left = job.request.extra.get("left_s")
    return Behaviour(left, job.request.extra.get("exit", 0) if left is not None else 0, by_clock=False)


def revive(
    site: SiteFolder, records: Iterable[JobRecord], now: int, runs_for: RunsFor = to_limit
) -> Standing:
    """The moment `now`: `records` are all that are known, those of the future are not looked at."""
    known = [record for record in records if record.submit <= now]
    standing = Standing(new_controller(site, known, now), now)
    _charge(standing, known)
    running = [r for r in known if r.start and r.start <= now and (not r.end or r.end > now)]
    for record in sorted(running, key=lambda r: (r.start, r.label)):
        _run(standing, record, runs_for)
    for record in known:
        if (not record.start or record.start > now) and (not record.end or record.end > now):
            _queue(standing, record, runs_for)
    return standing


def _charge(standing: Standing, records: list[JobRecord]) -> None:
    """Usage of the past, decayed: who has used how much decides fair shares."""
    controller, accounts = standing.controller, standing.controller.cluster.accounts
    if not controller.weights.multifactor:
        return
    half = controller.weights.half_life_s
    sums: dict[int, float] = {}
    for record in records:
        if not record.start or record.start >= standing.now:
            continue
        end = min(record.end or standing.now, standing.now)
        assoc = accounts.find(record.account, record.user)
        if assoc is not None and end > record.start:
            billing = record.alloc.get("billing") or record.alloc.get("cpu", 0)
            used = billing * (end - record.start) * priority.decay_of(half, standing.now - end)
            sums[assoc.id] = sums.get(assoc.id, 0.0) + used
    for assoc_id, used in sums.items():
        for one in accounts.up(accounts.associations[assoc_id]):
            one.usage.raw += used
    priority.fair_tree(accounts)


def _run(standing: Standing, record: JobRecord, runs_for: RunsFor) -> None:
    """Start it where it ran, and set its clock back."""
    controller = standing.controller
    elapsed = standing.now - record.start
    try:
        names = record.host_names()
        request = replace(
            request_of(record), nodelist=names, min_nodes=len(names) or None, max_nodes=len(names) or None
        )
        request.extra["left_s"] = max(runs_for(record, elapsed) - elapsed, 1)
        job = controller.submit(request, record.user)
    except (SlurmError, ValueError) as refused:
        standing.left_out.append(f"job {record.label}: {refused}")
        return
    part = controller.cluster.partitions[job.partitions[0]]
    verdict = selecting.select(controller._look(), job, part)
    if verdict.placement is None or verdict.code != "OK":
        why = verdict.reason or verdict.code
        standing.left_out.append(
            f"job {record.label}: does not fit on {record.nodelist or 'any node'} ({why})"
        )
        controller.cancel(job.job_id, "root")
        return
    job = controller._start(job, part, verdict, "Main")
    job.start, job.submit = record.start, record.submit
    job.end = record.start + min(job.time_limit * 60, YEAR_S)
    job.version += 1
    controller._watch_limit(job)
    left = request.extra["left_s"]
    controller.clock.at((standing.now + left) * SECOND, "end", job.job_id, job.version, record.exit_code, 0)
    standing.jobs[record.label], standing.of[job.job_id] = job, record


def _queue(standing: Standing, record: JobRecord, runs_for: RunsFor) -> None:
    controller = standing.controller
    request = request_of(record)
    request.extra["left_s"] = runs_for(record, 0)
    if record.reason in ("JobHeldUser", "JobHeldAdmin"):
        request.hold = "user" if record.reason == "JobHeldUser" else "admin"
    if record.dependency and record.reason.startswith("Dependency"):
        request.hold = "user"
    if record.eligible > standing.now:
        request.begin = record.eligible
    try:
        request.nodelist = tuple(hostlist.expand(record.wanted))
        request.exclude = tuple(hostlist.expand(record.excluded))
        job = controller.submit(request, record.user)
    except (SlurmError, ValueError) as refused:
        standing.left_out.append(f"job {record.label}: {refused}")
        return
    job.submit, job.eligible = record.submit, max(record.eligible, record.submit)
    if job.priority and controller.weights.multifactor:
        controller._set_priority(job)
    elif job.priority and record.priority:
        job.priority = record.priority
    standing.jobs[record.label], standing.of[job.job_id] = job, record
