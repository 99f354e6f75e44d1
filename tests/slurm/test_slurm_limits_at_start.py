"""How long a job may run that asked for no limit, a least one or a deadline: by which scheduler starts it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.slurm.slurmworld import NODES, World, world

from fairway.slurm.model.job import Job
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.errors import SlurmError

PARTS = "".join(line + "\n" for line in NODES.splitlines() if line.startswith("NodeName")) + (
    "PartitionName=open Nodes=n[1-4] Default=YES MaxTime=INFINITE\n"
    "PartitionName=short Nodes=n[1-4] MaxTime=90\n"
    "PartitionName=given Nodes=n[1-4] MaxTime=INFINITE DefaultTime=45\n"
)
YEAR = 365 * 24 * 60


def started(by: str, **asked: Any) -> tuple[Job, World]:
    """A job that one of the schedulers started: backfill looks 0.1 s after the submission, or 1 s later."""
    w = world("", PARTS)
    w.ctl.backfill_phase_us = 100_000 if by == "Backfill" else 1_900_000
    w.ctl.pass_phase_us = 500_000
    job = w.submit(1000, **{"time_limit": None} | asked)
    w.run(0.7)
    assert (job.state, job.scheduler) == ("RUNNING", by)
    return job, w


@pytest.mark.parametrize(
    ("by", "partition", "asked", "limit"),
    [
        ("Main", "open", {}, INFINITE),
        ("Backfill", "open", {}, YEAR),
        ("Main", "short", {}, 90),
        ("Backfill", "short", {}, 90),
        ("Main", "given", {}, 45),
        ("Backfill", "given", {}, 45),
        ("Main", "open", {"time_limit": INFINITE}, INFINITE),
        ("Backfill", "open", {"time_limit": INFINITE}, INFINITE),
        ("Main", "open", {"time_limit": 60, "time_min": 10}, 60),
        ("Backfill", "open", {"time_limit": 60, "time_min": 10}, 10),
        ("Backfill", "open", {"time_limit": 60, "time_min": 60}, 60),
        ("Backfill", "open", {"time_min": 10}, 10),
    ],
)
def test_the_limit_of_a_started_job(by: str, partition: str, asked: dict[str, Any], limit: int) -> None:
    job, w = started(by, partition=partition, **asked)
    assert job.time_limit == limit
    assert job.end == job.start + min(limit, YEAR) * 60
    assert w.ctl.cluster.jobs[job.job_id] is job


@pytest.mark.parametrize("by", ["Main", "Backfill"])
@pytest.mark.parametrize(
    ("asked", "limit"), [({}, 20), ({"time_limit": 30, "time_min": 5}, 20), ({"time_limit": 15}, 15)]
)
def test_a_deadline_bounds_the_limit(by: str, asked: dict[str, Any], limit: int) -> None:
    soon = world("", PARTS).ctl.now + 20 * 60 + 59
    assert started(by, deadline=soon, **asked)[0].time_limit == limit


@pytest.mark.parametrize(
    ("asked", "ahead_s", "error"),
    [
        ({"time_limit": 10}, 600, ""),
        ({"time_limit": 10}, 0, ""),
        ({"time_limit": INFINITE}, 0, ""),
        ({"time_limit": None}, 1, ""),
        ({"time_limit": 10, "time_min": 2}, 120, ""),
        ({"time_limit": 10, "time_min": 2}, 119, "INVALID_TIME_MIN_LIMIT"),
        ({"time_limit": 10}, -1, "INVALID_TIME_LIMIT"),
    ],
)
def test_a_deadline_that_cannot_be_met_is_refused(asked: dict[str, Any], ahead_s: int, error: str) -> None:
    w = world("", PARTS)
    try:
        w.submit(deadline=w.ctl.now + ahead_s, **asked)
        said = ""
    except SlurmError as refused:
        said = refused.name
    assert said == error


def test_a_limit_beyond_the_deadline_is_accepted_and_the_job_is_over() -> None:
    w = world("", PARTS)
    job = w.submit(time_limit=30, deadline=w.ctl.now + 60)
    w.run(1)
    assert (job.job_id, job.state, job.start == job.end) == (1, "DEADLINE", True)


def waiting(**asked: Any) -> tuple[World, Job]:
    """A job with 15 minutes to its deadline, whose nodes are taken for an hour."""
    w = world("", PARTS)
    w.submit(3600, time_limit=60, min_nodes=4, exclusive="node")
    w.run(3)
    job = w.submit(10, deadline=w.ctl.now + 900, **asked)
    w.run(3)
    return w, job


@pytest.mark.parametrize(
    ("asked", "least_s"), [({"time_limit": 10}, 600), ({"time_limit": 10, "time_min": 4}, 240)]
)
def test_a_job_that_can_no_longer_end_in_time_is_over(asked: dict[str, Any], least_s: int) -> None:
    w, job = waiting(**asked)
    last = 900 - least_s
    w.run(last - 3)
    assert job.pending
    w.run(1.5)
    assert (job.state, job.reason, job.exit_code, job.signal) == ("DEADLINE", "DeadLine", 0, 1)
    assert job.start == job.end == w.ctl.now
    assert job.job_id not in w.ctl.cluster.pending


def test_what_is_held_or_has_no_limit_outlives_its_deadline_until_it_could_start() -> None:
    w, job = waiting(time_limit=10, hold="user")
    endless = w.submit(10, time_limit=None, deadline=w.ctl.now + 60)
    w.run(1000)
    assert job.pending and endless.pending
    w.ctl.release(job.job_id, "root")
    w.run(3)
    assert job.state == "DEADLINE" and endless.pending


def test_a_deadline_may_be_moved() -> None:
    w, job = waiting(time_limit=10)
    w.ctl.update_job(job.job_id, {"deadline": w.ctl.now + 2000}, "root")
    w.run(1000)
    assert job.pending
    w.run(450)
    assert job.state == "DEADLINE"
