"""Run times given elapsed time, arrivals, calibration, and futures by either engine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.answers.answerworlds import node, pod

from fairway.answers.forecasting import baselines
from fairway.answers.forecasting.arriving import Arrivals
from fairway.answers.forecasting.backtest import backtest
from fairway.answers.forecasting.calibration import RAW, Case, calibrated
from fairway.answers.forecasting.forecast import Options, base_of, forecast, quantiles
from fairway.answers.forecasting.history import (
    LIMIT_LABEL,
    History,
    PastJob,
    coherent,
    history_of,
    pattern_of,
)
from fairway.answers.forecasting.runtimes import RunTimes
from fairway.answers.forecasting.situation import situation_of
from fairway.answers.forecasting.twins import hopeless_of
from fairway.cli.main import main
from fairway.ground import open_ground
from fairway.kube.timestamps import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from fairway.traces.jobs import TraceJob

NOW_US = 30 * DAY_US
EXAMPLE = Path(__file__).parents[2] / "examples/06-load-130"


def job(
    name: str, run_us: int, *, user: str = "ada", gpus: int = 1, limit_s: int = 0, at_us: int = DAY_US
) -> PastJob:
    labels = ((LIMIT_LABEL, str(limit_s)),) if limit_s else ()
    ask = TraceJob(f"Job/lab/{name}", at_us, gpu_milli=1000 * gpus, user=user, namespace="lab", labels=labels)
    return PastJob(ask.job_id, ask, at_us, at_us + run_us)


def times(*jobs: PastJob) -> RunTimes:
    return RunTimes(History(jobs), NOW_US)


def at(found: RunTimes, one: PastJob, quantile: float, elapsed_us: int = 0) -> float:
    return float(found.of(one.ask, one.limit_us, elapsed_us).at(np.array([quantile]))[0])


def test_a_series_is_a_name_without_numbers_and_hashes() -> None:
    assert pattern_of("Job/lab/train-7f3a-12") == pattern_of("Job/other/train-9b01-3")
    assert pattern_of("train-1") != pattern_of("eval-1")
    for name, pattern in (
        ("a", "a"),
        ("7", "#"),
        ("x-a3", "x-#"),
        ("a-9-b", "a-#-b"),
        ("j٣5", "j#"),
        ("v²", "v²"),
    ):
        assert pattern_of(name) == pattern


def test_the_same_users_jobs_say_most() -> None:
    mine = [job(f"train-{i}", HOUR_US) for i in range(20)]
    others = [job(f"train-{i}x", 10 * MINUTE_US, user="bob") for i in range(40)]
    found = times(*mine, *others)
    assert at(found, job("train-99", 1), 0.5) == pytest.approx(HOUR_US, rel=0.1)
    assert at(found, job("train-99", 1, user="bob"), 0.5) == pytest.approx(10 * MINUTE_US, rel=0.1)


def test_a_job_that_has_run_long_is_not_a_new_one() -> None:
    short = [job(f"a-{i}", (5 + i) * MINUTE_US) for i in range(18)]
    found = times(*short, job("a-20", 8 * HOUR_US), job("a-21", 9 * HOUR_US))
    new, old = at(found, job("a-1", 1), 0.5), at(found, job("a-1", 1), 0.5, 5 * HOUR_US)
    assert new < HOUR_US < 5 * HOUR_US < old
    beyond = at(found, job("a-1", 1), 0.5, 50 * HOUR_US)
    assert 50 * HOUR_US < beyond < 200 * HOUR_US


def test_jobs_that_still_run_count_as_at_least_so_long() -> None:
    ended = [job(f"a-{i}", HOUR_US) for i in range(10)]
    running = [PastJob(j.object, j.ask, NOW_US - 3 * HOUR_US) for j in (job(f"a-{i}b", 1) for i in range(10))]
    assert at(times(*ended, *running), job("a-9", 1), 0.9) > 2 * HOUR_US
    assert at(times(*ended), job("a-9", 1), 0.9) < 2 * HOUR_US


def test_who_was_evicted_and_waits_did_not_go_on_running() -> None:
    ended = [job(f"a-{i}", 10 * MINUTE_US) for i in range(6)]
    base = [job(f"a-{i}b", 1, at_us=DAY_US) for i in range(12)]
    evicted = [PastJob(j.object, j.ask, DAY_US, stopped_us=DAY_US + 12 * MINUTE_US) for j in base]
    found = times(*ended, *evicted)
    assert at(found, job("a-9", 1), 0.5) < HOUR_US
    assert found.at_least_us(evicted[0].object) == 12 * MINUTE_US
    assert found.at_least_us(ended[0].object) == 0


def test_the_bias_of_declared_limits_is_learned() -> None:
    found = times(*[job(f"a-{i}", HOUR_US // 2, limit_s=3600) for i in range(30)])
    of_another_size = job("b-1", 1, limit_s=8 * 3600)
    assert at(found, of_another_size, 0.5) == pytest.approx(4 * HOUR_US, rel=0.1)
    assert at(found, of_another_size, 0.999) <= 8 * HOUR_US


def test_without_history_limits_and_elapsed_time_are_what_there_is() -> None:
    assert at(times(), job("a", 1, limit_s=7200), 0.9) <= 2 * HOUR_US
    assert at(times(), job("a", 1), 0.1, 4 * HOUR_US) > 4 * HOUR_US


def test_histories_that_contradict_themselves_say_so() -> None:
    fine, backwards, ahead = job("a", HOUR_US), job("b", -HOUR_US), job("c", HOUR_US, at_us=NOW_US + DAY_US)
    found = coherent([fine, backwards, ahead], NOW_US)
    assert [j.object for j in found.jobs] == ["Job/lab/a"]
    assert len(found.notes) == 2
    assert "no job of the history has ended" in coherent([], NOW_US).notes[0]


def test_arrivals_keep_the_hours_they_came_in() -> None:
    mornings = [
        job(f"m-{d}-{i}", HOUR_US, at_us=d * DAY_US + 9 * HOUR_US + i) for d in range(2, 29) for i in range(4)
    ]
    arrivals = Arrivals(History(tuple(mornings)), 29 * DAY_US)
    coming = arrivals.draw(3, 2 * DAY_US)
    assert coming == arrivals.draw(3, 2 * DAY_US)
    assert [at_us // HOUR_US for at_us, _ in coming] == [9] * 4 + [33] * 4
    assert len(Arrivals(History(tuple(mornings)), 29 * DAY_US, factor=2).draw(3, 2 * DAY_US)) == 16
    assert Arrivals(History(), NOW_US).draw(1, DAY_US) == []


@pytest.mark.parametrize("count", [5, 16, 40, 200])
def test_eight_of_ten_truths_lie_inside_however_many_futures_were_drawn(count: int) -> None:
    """Truths and futures come from one distribution: nothing but the number of futures differs."""
    chance = np.random.default_rng(count)
    inside = above = 0
    for _ in range(2_000):
        low, middle, high = quantiles(chance.lognormal(9, 1.5, count))
        truth = chance.lognormal(9, 1.5)
        inside, above = inside + (low <= truth <= high), above + (truth > middle)
    # Of five draws the outermost two are as far as one can see: two thirds lie between them.
    assert abs(inside - (1_333 if count == 5 else 1_600)) < 90 and abs(above - 1_000) < 90


def test_what_never_came_is_later_than_all_others() -> None:
    assert quantiles(np.array([np.inf] * 16))[0] == np.inf
    low, middle, high = quantiles(np.array([60.0] * 10 + [np.inf] * 6))
    assert low == middle == pytest.approx(60) and high == np.inf


def test_calibration_widens_what_was_too_narrow_and_moves_what_was_off() -> None:
    chance = np.random.default_rng(1)
    narrow = [
        Case(i, "", 3000.0, 3600.0, 4300.0, float(3600 * np.exp(chance.normal(0.3, 0.8)))) for i in range(400)
    ]
    found = calibrated(narrow)
    inside = [a <= c.truth <= b for c in narrow for a, _, b in [found.apply(c.p10, c.p50, c.p90)]]
    above = [c.truth > found.apply(c.p10, c.p50, c.p90)[1] for c in narrow]
    assert 0.77 < np.mean(inside) < 0.83
    assert 0.45 < np.mean(above) < 0.55
    # What one moment teaches is believed less: all its cases share their luck.
    together = calibrated([replace(c, at_us=0) for c in narrow])
    assert 0 < together.shift < found.shift and 1 < together.above < found.above
    assert calibrated(narrow[:20]) == RAW
    # A P90 beyond the horizon moves the median no further than what is below it does.
    assert found.apply(3000.0, 3600.0, np.inf)[1] == pytest.approx(3600 * np.exp(0.3), rel=0.1)
    assert RAW.apply(1.0, 2.0, float("inf")) == (1.0, 2.0, float("inf"))


def world(folder: Path, *, kueue: bool) -> Path:
    """One node of eight GPUs; three jobs of four, each an hour longer than the one before; then one of eight."""
    folder.mkdir(exist_ok=True)
    spec = [
        "apiVersion: fairway.dev/v1alpha1",
        "kind: Scenario",
        "metadata: {name: small}",
        "spec:",
        "  latency: zero",
        "  duration: 24h",
        "  nodes: [{name: node, count: 1, capacity: {cpu: 64, memory: 1Ti, nvidia.com/gpu: 8}}]",
        "  traces: [{path: jobs.csv}]",
    ]
    if kueue:
        spec.append("  manifests: [queues.yaml]")
        (folder / "queues.yaml").write_text(QUEUES)
    (folder / "scenario.yaml").write_text("\n".join(spec) + "\n")
    queue = "main" if kueue else ""
    rows = [(f"past-{i}", 60 * i, 600, 1) for i in range(12)]
    rows += [("one", 7200, 3600, 4), ("two", 7201, 7200, 4), ("three", 7202, 10800, 4), ("four", 7203, 60, 8)]
    lines = ["job_id,submit_time,run_time,gpus,cpus,memory,queue"]
    lines += [f"{name},{submit},{run},{gpus},{gpus},{gpus}Gi,{queue}" for name, submit, run, gpus in rows]
    (folder / "jobs.csv").write_text("\n".join(lines) + "\n")
    return folder


QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: all}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: main}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu, memory, nvidia.com/gpu]
      flavors:
        - name: all
          resources:
            - {name: cpu, nominalQuota: 64}
            - {name: memory, nominalQuota: 1Ti}
            - {name: nvidia.com/gpu, nominalQuota: 8}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: default}
spec: {clusterQueue: main}
"""


@pytest.mark.parametrize("kueue", [False, True])
def test_what_waits_is_forecast_in_the_order_of_the_engines(tmp_path: Path, kueue: bool) -> None:
    options = Options(futures=4, processes=1, horizon_us=8 * HOUR_US)
    found = forecast(open_ground(world(tmp_path, kueue=kueue)), "130m", options)
    assert [one.object for one in found.objects] == ["Job/default/three", "Job/default/four"]
    assert found.engine == ("placement and quota alone" if kueue else "kube-scheduler's placement alone")
    three, four = found.objects
    assert three.queue == ("main" if kueue else "")
    assert three.start.p50 is not None and four.start.p50 is not None
    assert 0 < three.start.p50 <= four.start.p50
    assert "jobs" in three.basis


@pytest.mark.parametrize("kueue", [False, True])
def test_both_engines_play_the_same_future(tmp_path: Path, kueue: bool) -> None:
    ground = open_ground(world(tmp_path, kueue=kueue))
    quick, twin = (
        forecast(
            ground, "130m", Options(futures=4, processes=1, engine=engine, seed=4, horizon_us=12 * HOUR_US)
        )
        for engine in ("quick", "twin")
    )
    for one, other in zip(quick.objects, twin.objects, strict=True):
        assert one.object == other.object
        for a, b in ((one.start, other.start), (one.finish, other.finish)):
            # The twin's stamps are whole seconds where the quick way's are not.
            assert (a.p10, a.p50, a.p90) == pytest.approx((b.p10, b.p50, b.p90), abs=4)


def test_no_future_is_run_on_for_what_never_starts(tmp_path: Path) -> None:
    """`nowhere` fits no node; `wide` does once what runs has ended."""
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
        },
    }
    jobs = [
        pod("held", 6, nodeName="only"),
        pod("nowhere", 1, nodeSelector={"zone": "moon"}),
        pod("wide", 8),
        scaler,
    ]
    dump = tmp_path / "dump.json"
    for one in jobs:
        one["metadata"]["creationTimestamp"] = "2026-01-05T09:00:00Z"
    jobs[0]["status"] = {"phase": "Running", "startTime": "2026-01-05T09:00:00Z"}
    items = [node("only"), *jobs]
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    moment = open_ground(dump).at()
    situation = situation_of(moment.store, moment.now_us)
    twin = base_of(moment, situation)
    names = [item.object for item in situation.items]
    assert [names[n] for n in hopeless_of(twin, situation.items)] == ["Pod/default/nowhere"]
    found = forecast(open_ground(dump), options=Options(engine="twin", processes=1, horizon_us=30 * HOUR_US))
    starts = {one.object: one.start.p90 for one in found.objects}
    assert starts["Pod/default/nowhere"] is None and starts["Pod/default/wide"] is not None
    assert found.futures == 20 and any("autoscalers hold still" in note for note in found.notes)


def test_the_answer_does_not_depend_on_how_many_processes_there_are() -> None:
    ground = open_ground(EXAMPLE)
    one, two = (
        forecast(ground, "30h", Options(futures=4, processes=n, horizon_us=4 * HOUR_US)) for n in (1, 2)
    )
    assert one == two
    assert one.objects
    assert forecast(ground, "30h", Options(futures=4, processes=1, seed=5, horizon_us=4 * HOUR_US)) != one


def test_a_backtest_compares_what_was_said_with_what_came() -> None:
    found = backtest(
        open_ground(EXAMPLE),
        [f"{h}h" for h in range(24, 54, 6)],
        options=Options(futures=8, processes=1, horizon_us=DAY_US),
    )
    start = found.scores["start"]
    assert start.cases > 10
    assert start.coverage is not None and start.median_error_s is not None
    assert start.rules[baselines.LIMITS] is None
    assert start.best_rule is not None
    assert sum(s.cases for s in found.horizons.values()) == start.cases


def test_limits_with_perfect_backfill_count_one_pool() -> None:
    from fairway.answers.forecasting.situation import Item, Situation
    from fairway.kube.objects import Key

    def item(name: str, gpus: int, limit_s: int, since_us: int | None) -> Item:
        one = job(name, 1, gpus=gpus, limit_s=limit_s)
        return Item(name, Key("Job.batch", "lab", name), name, one.ask, limit_s * SECOND_US, since_us)

    running = item("r", 8, 3600, NOW_US - 10 * MINUTE_US)
    situation = Situation(
        NOW_US, (running, item("a", 4, 600, None), item("b", 8, 600, None), item("c", 4, 600, None))
    )
    assert baselines.by_limits(situation, 8000) == [3000.0, 3600.0, 3000.0]


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    on = ["--on", str(EXAMPLE), "--futures", "3", "--processes", "1", "--horizon", "4h"]
    assert main(["forecast", *on, "--at", "30h", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"object", "start", "finish", "basis", "calibration"} <= set(found["objects"][0])
    kept = tmp_path / "kept.json"
    times_asked = ["--from", "24h", "--to", "54h", "--every", "2h", "--calibration", str(kept)]
    assert main(["forecast", *on, "--backtest", *times_asked]) == 0
    assert "best plain rule" in capsys.readouterr().out
    assert main(["forecast", *on, "--at", "30h", "--calibration", str(kept)]) == 0
    assert "earlier forecasts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--horizon", "-3h"], "--horizon"),
        (["--engine", "fast"], "expected auto, quick or twin"),
        (["--load", "1000"], "--load"),
        (["--calibration", "/nowhere/at/all"], "expected what"),
        (["--backtest", "--from", "9h", "--to", "3h"], "moments in order"),
        (["--backtest", "--every", "1s", "--to", "300h"], "moments in order"),
    ],
)
def test_wrong_input_is_told(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert main(["forecast", "--on", str(EXAMPLE), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_quota_alone_is_no_run(tmp_path: Path) -> None:
    folder = world(tmp_path, kueue=True)
    (folder / "scenario.yaml").write_text(
        (folder / "scenario.yaml").read_text().replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 4")
    )
    found = {j.object: j for j in history_of(open_ground(folder).history().outcome).jobs}
    one, two = found["Job/default/one"], found["Job/default/two"]
    assert one.ended_us is not None and two.started_us is not None
    # Both were admitted at once; the second one's pod had to wait for the first one's.
    assert two.started_us >= one.ended_us
    assert two.run_us == pytest.approx(7200 * SECOND_US, abs=5 * SECOND_US)
    assert two.next_start_us(one.ended_us - HOUR_US // 2) == two.started_us


def test_a_recorded_history_knows_who_was_evicted_and_when_it_ran_last(tmp_path: Path) -> None:
    found = history_of(open_ground(world(tmp_path, kueue=True)).history().outcome)
    by_name = {j.object: j for j in found.jobs}
    assert by_name["Job/default/three"].run_us == pytest.approx(10800 * SECOND_US, abs=5 * SECOND_US)
    assert all(j.is_whole for j in found.jobs)


def test_openb_is_asked_on_its_own_time(tmp_path: Path) -> None:
    """Pods of parts of a GPU, by their creation and deletion stamps, on a node that they outgrow."""
    rows = [
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    ]
    for n in range(80):
        at_s = 86_400 + 600 * n
        rows.append(
            f"openb-pod-{n:04d},1000,1024,1,700,,LS,Succeeded,{at_s},{at_s + 900 + 60 * (n % 7)},{at_s}"
        )
    (tmp_path / "pods.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "scenario.yaml").write_text(
        "apiVersion: fairway.dev/v1alpha1\nkind: Scenario\nmetadata: {name: openb}\nspec:\n  latency: zero\n"
        "  nodes: [{name: one, count: 1, sharesGpus: true, capacity: {cpu: 16, memory: 64Gi, nvidia.com/gpu: 1}}]\n"
        "  traces: [{path: pods.csv, format: openb}]\n"
    )
    found = backtest(
        open_ground(tmp_path), ["4h", "8h"], options=Options(4, processes=1, horizon_us=8 * HOUR_US)
    )
    start = found.scores["start"]
    assert start.cases >= 10 and start.median_error_s is not None and len(found.moments) == 2
