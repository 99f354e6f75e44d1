"""CronJobs: cron expressions, starts made and missed, and what is kept afterwards."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tinyworld import START_US, World, is_over, names, template

from fairway.kube.cron import Schedule, ScheduleError, parse
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339

CJ = Key("CronJob.batch", "default", "nightly")


def cron_job(schedule: str = "*/10 * * * *", **spec: Any) -> Obj:
    job_template = {"spec": {"template": template(restartPolicy="Never")}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": job_template, **spec},
    }


def jobs(world: World) -> list[str]:
    return names(world.store.objects("Job.batch"))


def end_all(world: World, exit_code: int = 0) -> None:
    for pod in world.pods():
        if not is_over(pod):
            world.finish(pod, exit_code)


@pytest.mark.parametrize(
    ("expression", "after", "want"),
    [
        ("0 2 * * *", "2026-01-05T08:00:00Z", "2026-01-06T02:00:00Z"),
        ("* * * * *", "2026-01-05T08:00:30Z", "2026-01-05T08:01:00Z"),
        ("*/15 * * * *", "2026-01-05T08:01:00Z", "2026-01-05T08:15:00Z"),
        ("5/20 * * * *", "2026-01-05T08:26:00Z", "2026-01-05T08:45:00Z"),
        ("10-20/5 * * * *", "2026-01-05T08:16:00Z", "2026-01-05T08:20:00Z"),
        ("0,30 9-17 * * *", "2026-01-05T17:30:00Z", "2026-01-06T09:00:00Z"),
        ("0 0 1 * *", "2026-01-05T08:00:00Z", "2026-02-01T00:00:00Z"),
        ("0 0 29 2 *", "2026-01-05T08:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 12 * * mon-fri", "2026-01-09T12:00:00Z", "2026-01-12T12:00:00Z"),
        ("0 12 * * SUN", "2026-01-05T08:00:00Z", "2026-01-11T12:00:00Z"),
        ("0 0 * jan,jul *", "2026-01-31T08:00:00Z", "2026-07-01T00:00:00Z"),
        ("0 0 13 * 5", "2026-01-05T08:00:00Z", "2026-01-09T00:00:00Z"),
        ("0 0 */2 * 1", "2026-01-05T08:00:00Z", "2026-01-07T00:00:00Z"),
        ("0 0 ? * 1", "2026-01-05T08:00:00Z", "2026-01-12T00:00:00Z"),
        ("@hourly", "2026-01-05T08:00:00Z", "2026-01-05T09:00:00Z"),
        ("@daily", "2026-01-05T08:00:00Z", "2026-01-06T00:00:00Z"),
        ("@weekly", "2026-01-05T08:00:00Z", "2026-01-11T00:00:00Z"),
        ("@monthly", "2026-01-05T08:00:00Z", "2026-02-01T00:00:00Z"),
        ("@yearly", "2026-01-05T08:00:00Z", "2027-01-01T00:00:00Z"),
        ("@every 1h30m", "2026-01-05T08:00:00Z", "2026-01-05T09:30:00Z"),
    ],
)
def test_next_start(expression: str, after: str, want: str) -> None:
    found = parse(expression).next_us(parse_rfc3339(after))
    assert found is not None
    assert rfc3339(found) == want


def test_a_day_that_never_comes() -> None:
    assert parse("0 0 30 2 *").next_us(START_US) is None


@pytest.mark.parametrize(
    ("case", "expression", "after", "want"),
    [
        ("in winter", "0 9 * * *", "2026-01-05T00:00:00Z", "2026-01-05T14:00:00Z"),
        ("in summer", "0 9 * * *", "2026-07-05T00:00:00Z", "2026-07-05T13:00:00Z"),
        (
            "the hour that is skipped has no start",
            "30 2 * * *",
            "2026-03-08T00:00:00Z",
            "2026-03-09T06:30:00Z",
        ),
        ("the hour that is repeated has one", "30 1 * * *", "2026-11-01T00:00:00Z", "2026-11-01T05:30:00Z"),
        ("and another", "30 1 * * *", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"),
    ],
)
def test_time_zones_and_summer_time(case: str, expression: str, after: str, want: str) -> None:
    schedule = parse(expression, ZoneInfo("America/New_York"))
    found = schedule.next_us(parse_rfc3339(after))
    assert found is not None
    assert rfc3339(found) == want, case


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("@fortnightly", "unrecognized descriptor: @fortnightly"),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
    ],
)
def test_not_a_schedule(expression: str, want: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse(expression)
    assert str(caught.value) == want


fields = st.sampled_from(["*", "*/7", "3", "1-4", "2,5"])


@settings(max_examples=60, deadline=None)
@given(
    minute=fields,
    hour=fields,
    day=fields,
    month=fields,
    week=st.sampled_from(["*", "1", "2-4"]),
    at=st.integers(0, 400),
)
def test_next_is_the_first_minute_that_matches(
    minute: str, hour: str, day: str, month: str, week: str, at: int
) -> None:
    schedule = parse(f"{minute} {hour} {day} {month} {week}")
    assert isinstance(schedule, Schedule)
    after = START_US + at * 86_400 * SECOND_US
    found = schedule.next_us(after)
    if found is None:
        return
    moment = datetime.fromtimestamp(found // SECOND_US, UTC)
    assert found > after
    assert moment.second == 0
    assert schedule.minute.allows(moment.minute)
    assert schedule.hour.allows(moment.hour)
    assert schedule.month.allows(moment.month)
    # Nothing earlier matches: minute by minute over the last hours before it.
    for back in range(1, 300):
        earlier = found - back * 60 * SECOND_US
        if earlier <= after:
            break
        assert schedule.next_us(earlier) == found


# The controller


def test_a_job_a_start_named_after_the_minute() -> None:
    world = World()
    world.apply(cron_job())
    assert jobs(world) == []
    world.advance(601)
    assert jobs(world) == [f"nightly-{(START_US // SECOND_US + 600) // 60}"]
    (one,) = world.store.objects("Job.batch")
    stamp = one["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert stamp == "2026-01-05T08:10:00Z"
    status = world.status(CJ)
    assert status["lastScheduleTime"] == "2026-01-05T08:10:00Z"
    assert [r["name"] for r in status["active"]] == jobs(world)
    assert world.told("SuccessfulCreate")[0] == f"Created job {jobs(world)[0]}"
    assert len(world.pods()) == 1


def test_a_finished_job_leaves_the_active_list() -> None:
    world = World()
    world.apply(cron_job())
    world.advance(601)
    world.advance(30)
    end_all(world)
    status = world.status(CJ)
    assert "active" not in status
    assert status["lastSuccessfulTime"] == "2026-01-05T08:10:31Z"
    assert world.told("SawCompletedJob") == [f"Saw completed job: {jobs(world)[0]}, condition: Complete"]


@pytest.mark.parametrize(
    ("policy", "want_jobs", "want_active"), [("Allow", 3, 3), ("Forbid", 1, 1), ("Replace", 1, 1)]
)
def test_concurrency_policy(policy: str, want_jobs: int, want_active: int) -> None:
    world = World()
    world.apply(cron_job(concurrencyPolicy=policy))
    world.advance(1801)
    assert len(jobs(world)) == want_jobs
    assert len(world.status(CJ)["active"]) == want_active
    if policy == "Forbid":
        want = "Not starting job because prior execution is running and concurrency policy is Forbid"
        assert set(world.told("JobAlreadyActive")) == {want}
        assert jobs(world)[0].endswith(str((START_US // SECOND_US + 600) // 60))
    if policy == "Replace":
        assert jobs(world)[0].endswith(str((START_US // SECOND_US + 1800) // 60))
        assert len(world.told("SuccessfulDelete")) >= 2


def test_forbid_starts_what_is_due_when_the_last_one_ends() -> None:
    world = World()
    world.apply(cron_job(concurrencyPolicy="Forbid"))
    world.advance(1250)
    end_all(world)
    assert len(jobs(world)) == 2
    assert world.status(CJ)["lastScheduleTime"] == "2026-01-05T08:20:00Z"


def test_forbid_with_a_deadline_gives_a_late_start_up() -> None:
    world = World()
    world.apply(cron_job(concurrencyPolicy="Forbid", startingDeadlineSeconds=30))
    world.advance(1250)
    end_all(world)
    assert len(jobs(world)) == 1


def test_a_suspended_cron_job_starts_nothing_and_catches_up_with_the_latest() -> None:
    world = World()
    world.apply(cron_job(suspend=True))
    world.advance(3700)
    assert jobs(world) == []
    world.patch(CJ, {"spec": {"suspend": False}})
    assert len(jobs(world)) == 1
    assert world.status(CJ)["lastScheduleTime"] == "2026-01-05T09:00:00Z"


def test_a_start_missed_by_more_than_the_deadline_is_not_made_up_for() -> None:
    world = World()
    world.apply(cron_job("0 * * * *", suspend=True, startingDeadlineSeconds=60))
    world.advance(3900)
    world.patch(CJ, {"spec": {"suspend": False}})
    assert jobs(world) == []


def test_more_than_a_hundred_missed_starts_are_warned_of() -> None:
    world = World()
    world.apply(cron_job("* * * * *", suspend=True))
    world.advance(101 * 60 + 5)
    world.patch(CJ, {"spec": {"suspend": False}})
    want = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
    assert world.told("TooManyMissedTimes") == [want]
    assert len(jobs(world)) == 1


def test_a_time_zone() -> None:
    world = World()
    world.apply(cron_job("30 10 * * *", timeZone="Europe/Berlin"))
    world.advance(5401)
    (one,) = world.store.objects("Job.batch")
    stamp = one["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert stamp == "2026-01-05T10:30:00+01:00"
    assert world.status(CJ)["lastScheduleTime"] == "2026-01-05T09:30:00Z"


@pytest.mark.parametrize(
    ("spec", "reason", "want"),
    [
        (
            {"timeZone": "Mars/Olympus"},
            "UnknownTimeZone",
            'invalid timeZone: "Mars/Olympus": unknown time zone Mars/Olympus',
        ),
        (
            {"schedule": "61 * * * *"},
            "UnparseableSchedule",
            'unparseable schedule: "61 * * * *" : end of range (61) above maximum (59): 61',
        ),
    ],
)
def test_what_cannot_be_read(spec: dict[str, Any], reason: str, want: str) -> None:
    world = World()
    world.apply(cron_job(**spec))
    assert world.told(reason) == [want]
    world.advance(3600)
    assert jobs(world) == []


@pytest.mark.parametrize(
    ("exit_code", "limits", "want"),
    [
        (0, {}, 3),
        (1, {}, 1),
        (0, {"successfulJobsHistoryLimit": 1}, 1),
        (0, {"successfulJobsHistoryLimit": 0}, 0),
        (1, {"failedJobsHistoryLimit": 2}, 2),
    ],
)
def test_how_many_finished_jobs_are_kept(exit_code: int, limits: dict[str, int], want: int) -> None:
    world = World()
    spec = {"template": template(restartPolicy="Never"), "backoffLimit": 0}
    world.apply(cron_job(jobTemplate={"spec": spec}, **limits))
    for _ in range(5):
        world.advance(600)
        world.advance(1)
        end_all(world, exit_code)
    assert len(jobs(world)) == want


def test_a_stranger_among_its_jobs_is_pointed_out() -> None:
    world = World()
    world.apply(cron_job())
    uid = world.get(CJ)["metadata"]["uid"]
    ref = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": uid, "controller": True}
    stranger = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "stranger", "namespace": "default", "ownerReferences": [ref]},
        "spec": {"template": template(restartPolicy="Never")},
    }
    world.apply(stranger)
    want = "Saw a job that the controller did not create or forgot: stranger"
    assert want in world.told("UnexpectedJob")


def test_an_active_job_that_vanished_is_missed() -> None:
    world = World()
    world.apply(cron_job())
    world.advance(601)
    name = jobs(world)[0]
    world.delete(Key("Job.batch", "default", name))
    assert world.told("MissingJob") == [f"Active job went missing: {name}"]
    assert "active" not in world.status(CJ)


def test_deleting_it_deletes_its_jobs_and_their_pods() -> None:
    world = World()
    world.apply(cron_job())
    world.advance(601)
    world.delete(CJ)
    assert jobs(world) == []
    assert world.pods() == []
