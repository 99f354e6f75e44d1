"""Generators' statistics, scaling, dumps of clusters, the openb list, and rows as Kubernetes objects."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairway.errors import InvalidInput
from fairway.kube.timestamps import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from fairway.kube.validation.validating import validate
from fairway.traces.arrival import Arrivals, object_name, objects_for
from fairway.traces.clusterdump import read_dump
from fairway.traces.describe import describe, quantile
from fairway.traces.generate import DIURNAL, Recipe, generate, rate_at, zipf
from fairway.traces.jobs import JobTrace, TraceJob
from fairway.traces.scaling import faster, parse_window, window, with_load
from fairway.traces.sources import TraceUse, guess_format, jobs_of, read_trace
from fairway.twin.distributions import Distribution

# Generators


def test_poisson_arrivals() -> None:
    """60 days at 20/h: mean gap 3 min, its deviation equals its mean, counts per hour have variance = mean."""
    trace = generate(Recipe(duration_us=60 * DAY_US, rate_per_hour=20), seed=1)
    times = [j.submit_us for j in trace.jobs]
    gaps = [b - a for a, b in pairwise(times)]
    assert math.isclose(statistics.fmean(gaps), 3 * MINUTE_US, rel_tol=0.02)
    assert math.isclose(statistics.pstdev(gaps), 3 * MINUTE_US, rel_tol=0.02)
    per_hour = [0] * (60 * 24)
    for t in times:
        per_hour[t // HOUR_US] += 1
    assert math.isclose(statistics.pvariance(per_hour), 20, rel_tol=0.1)


def test_diurnal_arrivals() -> None:
    """The stated rate on working days, the stated ratio of peak to trough, the stated share on weekends."""
    recipe = Recipe(
        duration_us=70 * DAY_US,
        rate_per_hour=20,
        pattern=DIURNAL,
        peak_hour=15,
        peak_to_trough=4,
        weekend=0.4,
    )
    trace = generate(recipe, seed=2)
    by_hour, working, weekend = [0] * 24, 0, 0
    for job in trace.jobs:
        day, of_day = divmod(job.submit_us, DAY_US)
        if day % 7 < 5:
            working += 1
            by_hour[of_day // HOUR_US] += 1
        else:
            weekend += 1
    assert math.isclose(working / (50 * 24), 20, rel_tol=0.02)
    assert math.isclose(weekend / (20 * 24), 8, rel_tol=0.05)
    peak, trough = by_hour[14] + by_hour[15], by_hour[2] + by_hour[3]
    # Two hours around peak and trough: their means are 0.9886 of the swing.
    assert math.isclose(peak / trough, (1 + 0.6 * 0.9886) / (1 - 0.6 * 0.9886), rel_tol=0.1)
    assert rate_at(recipe, 15 * HOUR_US) / rate_at(recipe, 3 * HOUR_US) == pytest.approx(4)


def test_run_times_are_log_normal() -> None:
    recipe = Recipe(jobs=8_000, run_time=Distribution("lognormal", 30 * MINUTE_US, 1.2))
    logs = [math.log(j.run_us or 1) for j in generate(recipe, seed=3).jobs]
    assert math.isclose(math.exp(statistics.median(logs)), 30 * MINUTE_US, rel_tol=0.05)
    assert math.isclose(statistics.pstdev(logs), 1.2, rel_tol=0.02)


def test_mixes() -> None:
    recipe = Recipe(
        jobs=8_000,
        gpus=(("0.5", 1), ("1", 6), ("8", 3)),
        users=zipf(4, 1.0),
        exit_codes=(("0", 9), ("1", 1)),
        replicas=(("1", 3), ("4", 1)),
    )
    jobs = generate(recipe, seed=4).jobs
    assert len(jobs) == 8_000

    def share(of: Any) -> float:
        return sum(1 for j in jobs if of(j)) / len(jobs)

    assert share(lambda j: j.gpu_milli == 500) == pytest.approx(0.1, abs=0.02)
    assert share(lambda j: j.gpu_milli == 8000) == pytest.approx(0.3, abs=0.02)
    assert share(lambda j: j.user == "user-1") == pytest.approx(12 / 25, abs=0.02)
    assert share(lambda j: j.user == "user-4") == pytest.approx(3 / 25, abs=0.02)
    assert share(lambda j: j.exit_code == 1) == pytest.approx(0.1, abs=0.02)
    assert share(lambda j: j.replicas == 4) == pytest.approx(0.25, abs=0.02)


def test_one_ingredient_leaves_the_others_alone() -> None:
    plain = generate(Recipe(jobs=100), seed=5).jobs
    other = generate(Recipe(jobs=100, users=zipf(3, 1.0)), seed=5).jobs
    assert [replace(j, user="") for j in other] == list(plain)
    assert generate(Recipe(jobs=100), seed=6).jobs != plain


# Scaling


def trace_of(*submit_s: int) -> JobTrace:
    return JobTrace("t", tuple(TraceJob(f"j{i}", s * SECOND_US, SECOND_US) for i, s in enumerate(submit_s)))


def test_window_begins_time_anew() -> None:
    assert [j.submit_us for j in window(trace_of(0, 10, 20, 30), 10 * SECOND_US, 30 * SECOND_US).jobs] == [
        0,
        10 * SECOND_US,
    ]
    assert parse_window("2d..9d") == (2 * DAY_US, 9 * DAY_US)
    assert parse_window("12h..")[0] == 12 * HOUR_US and parse_window("..3d") == (0, 3 * DAY_US)


@pytest.mark.parametrize("text", ["", "..", "2d", "9d..2d", "a..b", "1d..1d"])
def test_bad_windows(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_window(text)


def test_faster_keeps_run_times() -> None:
    jobs = faster(trace_of(0, 10), 2).jobs
    assert [(j.submit_us, j.run_us) for j in jobs] == [(0, SECOND_US), (5 * SECOND_US, SECOND_US)]


@pytest.mark.parametrize("load", [0.3, 0.9, 1.0, 1.3, 2.5])
def test_load_scales_the_number_of_jobs(load: float) -> None:
    trace = generate(Recipe(jobs=4000), seed=7)
    jobs = with_load(trace, load, seed=1).jobs
    assert len(jobs) == pytest.approx(4000 * load, abs=4 * math.sqrt(4000 / 4))
    assert len({j.job_id for j in jobs}) == len(jobs)
    assert list(jobs) == sorted(jobs, key=lambda j: (j.submit_us, j.job_id))
    assert all(0 <= j.submit_us <= trace.last_us for j in jobs)


def test_more_load_has_every_job_of_less() -> None:
    trace = generate(Recipe(jobs=500), seed=8)
    ids = [{j.job_id for j in with_load(trace, load, seed=2).jobs} for load in (0.5, 0.8, 1.2, 1.3, 2.0)]
    assert all(less <= more for less, more in pairwise(ids))


def test_uses_apply_in_order() -> None:
    use = TraceUse(
        trace_of(0, 10, 20, 30), "here:1", window_us=(10 * SECOND_US, 2**62), speed=2, limit=2, prefix="a-"
    )
    assert [(j.job_id, j.submit_us) for j in jobs_of(use, 0).jobs] == [("a-j1", 0), ("a-j2", 5 * SECOND_US)]


# Objects


def test_a_job_is_what_a_user_would_submit() -> None:
    job = TraceJob(
        job_id="train",
        submit_us=0,
        run_us=90 * SECOND_US,
        gpu_milli=8000,
        cpu_milli=1500,
        memory_bytes=2**30,
        replicas=2,
        user="Ann Lee",
        priority_class="prod",
        queue="main",
        gpu_model="H100",
        exit_code=3,
        labels=(("team", "x"),),
    )
    (obj,) = objects_for(Arrivals(JobTrace("t", (job,)), "f:1"), job)
    assert validate(obj) == []
    template = obj["spec"]["template"]
    assert obj["spec"]["completionMode"] == "Indexed" and obj["spec"]["parallelism"] == 2
    assert obj["spec"]["backoffLimit"] == 0
    assert template["metadata"]["annotations"] == {
        "fairway.dev/run-time": "90s",
        "fairway.dev/exit-code": "3",
    }
    assert obj["metadata"]["labels"]["fairway.dev/user"] == "Ann-Lee"
    assert template["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "8"},
        "limits": {"nvidia.com/gpu": "8"},
    }
    assert template["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "H100"}


def test_jobs_as_pods_and_shares_of_a_gpu() -> None:
    job = TraceJob("p", 0, SECOND_US, 250, replicas=2, gpu_model="A|B")
    pods = objects_for(Arrivals(JobTrace("t", (job,)), "f:1", kind="Pod", namespace="x"), job)
    assert [(p["kind"], p["metadata"]["name"], p["metadata"]["namespace"]) for p in pods] == [
        ("Pod", "p-0", "x"),
        ("Pod", "p-1", "x"),
    ]
    assert all(validate(p) == [] for p in pods)
    assert pods[0]["spec"] is pods[1]["spec"], "one shape, one spec"
    assert pods[0]["spec"]["containers"][0]["resources"]["limits"] == {"fairway.dev/gpu-milli": "250"}


@pytest.mark.parametrize("job_id", ["Train_1", "a" * 80, "..", "Ünïcode", "a.b", "-x-"])
def test_names_are_made_legal_and_stay_apart(job_id: str) -> None:
    name = object_name(job_id)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "x"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    assert validate(pod) == [] and len(name) <= 52
    assert object_name(job_id + "x") != name


def test_legal_names_stay() -> None:
    assert object_name("openb-pod-0001") == "openb-pod-0001"


# Dumps


def _time(minute: int) -> str:
    return f"2026-01-05T{8 + minute // 60:02}:{minute % 60:02}:00Z"


def _pod(name: str, state: dict[str, Any], created: int, owner: str = "", **spec: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "ml", "uid": name, "creationTimestamp": _time(created)}
    if owner:
        meta["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}
        ]
    phase = "Succeeded" if "terminated" in state else "Running" if state else "Pending"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "restartPolicy": "Never",
            "nodeName": "n1",
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "resources": {
                        "limits": {"nvidia.com/gpu": "2"},
                        "requests": {"cpu": "4", "memory": "1Gi"},
                    },
                }
            ],
            **spec,
        },
        "status": {"phase": phase, "containerStatuses": [{"name": "c", "state": state}] if state else []},
    }


def _ran(start: int, end: int, code: int = 0) -> dict[str, Any]:
    return {"terminated": {"startedAt": _time(start), "finishedAt": _time(end), "exitCode": code}}


def _job(name: str, created: int, parallelism: int, condition: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"conditions": [{"type": condition, "status": "True"}]} if condition else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "creationTimestamp": _time(created),
            "labels": {"kueue.x-k8s.io/queue-name": "main", "team": "x"},
        },
        "spec": {
            "parallelism": parallelism,
            "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
        "status": status,
    }


def dump(items: list[dict[str, Any]], tmp_path: Path) -> Path:
    path = tmp_path / "dump.json"
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1), encoding="utf-8"
    )
    return path


def test_a_dump_becomes_jobs(tmp_path: Path) -> None:
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "A"}},
        },
        _job("train", 0, 2, "Complete"),
        _pod("train-0", _ran(5, 65), 1, "train"),
        _pod("train-1", _ran(6, 60), 1, "train"),
        _job("live", 30, 1),
        _pod("live-0", {"running": {"startedAt": _time(40)}}, 30, "live"),
        _job("broken", 31, 1, "Failed"),
        _pod("broken-0", _ran(32, 33, 137), 31, "broken"),
        _job("waiting", 50, 1),
        _pod("waiting-0", {}, 50, "waiting"),
        _pod("solo", _ran(70, 100, 1), 70, priorityClassName="prod"),
        _pod("web", {"running": {"startedAt": _time(1)}}, 0, restartPolicy="Always"),
    ]
    trace = read_trace(dump(items, tmp_path))
    jobs = {j.job_id: j for j in trace.jobs}
    assert list(jobs) == ["ml-train", "ml-live", "ml-broken", "ml-waiting", "ml-solo"]
    train = jobs["ml-train"]
    assert (train.submit_us, train.run_us, train.replicas) == (0, 60 * MINUTE_US, 2)
    assert (train.gpu_milli, train.cpu_milli, train.memory_bytes) == (2000, 4000, 2**30)
    assert (train.queue, train.labels, train.namespace) == ("main", (("team", "x"),), "ml")
    # The dump's latest word is at minute 100: `live` ran for an hour at least.
    assert (jobs["ml-live"].run_us, jobs["ml-live"].is_censored) == (60 * MINUTE_US, True)
    assert jobs["ml-broken"].exit_code == 137
    assert jobs["ml-waiting"].run_us is None
    assert (jobs["ml-solo"].priority_class, jobs["ml-solo"].exit_code) == ("prod", 1)
    assert trace.notes == (
        "1 pods of services (restartPolicy Always) are left out",
        "1 jobs were still running: their run times are lower bounds (is_censored)",
        "1 jobs never started: they have no run time",
    )


def test_a_bad_time_in_a_dump_is_located(tmp_path: Path) -> None:
    bad = _pod("solo", _ran(1, 2), 0)
    bad["metadata"]["creationTimestamp"] = "yesterday"
    path = dump([bad, _pod("fine", _ran(1, 2), 0)], tmp_path)
    with pytest.raises(InvalidInput) as caught:
        read_dump(path)
    (problem,) = caught.value.problems
    assert problem.line > 1 and problem.subject == "Pod ml/solo"
    trace = read_dump(path, lenient=True)
    assert len(trace.jobs) == 1 and len(trace.skipped) == 1


def test_a_dump_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="expected pods or jobs"):
        read_dump(dump([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}], tmp_path))


# openb


OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)


def test_openb_pods_become_jobs(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(
        OPENB
        + "p1,12000,16384,1,460,G2|P100,LS,Running,100,160,100\np2,6000,1024,2,1000,,LS,Running,130,,130\n",
        encoding="utf-8",
    )
    assert guess_format(path) == "openb"
    trace = read_trace(path)
    one, two = trace.jobs
    assert (one.submit_us, one.run_us, one.gpu_milli, one.gpu_model) == (0, 60 * SECOND_US, 460, "G2|P100")
    assert (two.submit_us, two.run_us, two.gpu_milli) == (30 * SECOND_US, None, 2000)
    assert trace.notes == ("1 pods have no deletion time: their run time is unknown",)


def test_formats_are_guessed(tmp_path: Path) -> None:
    (tmp_path / "j.csv").write_text("job_id,submit_time\n", encoding="utf-8")
    assert guess_format(tmp_path / "j.csv") == "generic"
    for name, want in (
        ("a.jsonl", "generic"),
        ("a.json", "kubectl"),
        ("a.yaml", "kubectl"),
        ("a.parquet", "generic"),
    ):
        (tmp_path / name).write_text("", encoding="utf-8")
        assert guess_format(tmp_path / name) == want
    (tmp_path / "a.txt").write_text("", encoding="utf-8")
    with pytest.raises(InvalidInput, match="expected a trace"):
        guess_format(tmp_path / "a.txt")


# Describing


def test_describe() -> None:
    jobs = (
        TraceJob("a", 0, HOUR_US, 2000, user="x"),
        TraceJob("b", HOUR_US, 2 * HOUR_US, 1000, user="x", exit_code=1),
        TraceJob("c", 2 * HOUR_US, None, 500, user="y"),
    )
    found = describe(JobTrace("t", jobs))
    assert (found.jobs, found.span_us, found.rate_per_hour) == (3, 2 * HOUR_US, 1.5)
    assert (found.gpu_hours, found.gpus_needed) == (4.0, 2.0)
    assert found.gpus == (("0.5", 1), ("1", 1), ("2", 1))
    assert found.users == (("x", 2), ("y", 1))
    assert (found.failing, found.without_run_time) == (1, 1)
    assert found.run_time_us["p50"] == HOUR_US


def test_quantiles_are_nearest_ranks() -> None:
    assert [quantile([1, 2, 3, 4], q) for q in (1, 25, 50, 75, 99, 100)] == [1, 1, 2, 3, 4, 4]
