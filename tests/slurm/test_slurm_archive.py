"""Runs packed away in the archive are told as they were."""

from __future__ import annotations

from copy import copy
from dataclasses import fields
from random import Random

from tests.slurm.slurmworld import world
from tests.slurm.test_properties import some_job

from fairway.slurm.model.archive import BLOCK, KEPT, Archive
from fairway.slurm.model.job import Dependency, Job


def some_ended_jobs() -> list[Job]:
    random, w = Random(3), world()
    for _ in range(60):
        w.submit(**some_job(random) | {"qos": None})
        w.run(random.choice([0.5, 2, 9]))
    w.run(4000)
    jobs = list(w.ctl.cluster.archive)
    jobs[0].dependencies.append(Dependency("afterok", 7, 3))
    jobs[1].request.extra["comment"] = {"a": ["words", 1, None]}
    return jobs


def told(job: Job) -> list[object]:
    return [getattr(job, one.name) for one in fields(Job) if one.name != "needs"]


def test_packed_runs_are_told_as_they_were() -> None:
    jobs, archive = some_ended_jobs(), Archive()
    for at in range(KEPT + BLOCK + 7):
        job = copy(jobs[at % len(jobs)])
        job.job_id = at + 1
        archive.append(job)
        archive.pack({})
    assert len(archive.blocks) == 1 and len(archive.recent) < KEPT + BLOCK
    assert len(archive) == KEPT + BLOCK + 7 == len(list(archive))
    for at, job in enumerate(archive):
        was = jobs[at % len(jobs)]
        assert [at + 1, *told(job)[1:]] == [job.job_id, *told(was)[1:]]


def test_what_slurmctld_still_knows_is_not_packed() -> None:
    job, archive = some_ended_jobs()[0], Archive()
    for _ in range(KEPT + BLOCK + 1):
        archive.append(job)
        archive.pack({job.job_id: job})
    assert not archive.blocks
    archive.pack({})
    assert not archive.blocks  # it looks again once there are as many more
