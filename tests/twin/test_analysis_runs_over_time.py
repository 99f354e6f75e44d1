"""AnalysisRuns as time goes on: when each metric is measured, what the run comes to, and what is said of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "autoscaling"))
from scalingworld import World

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.twin.analysisruns import AnalysisRuns
from fairway.twin.latency import NONE
from fairway.twin.twin import EPOCH_US, Twin

RUN = "AnalysisRun.argoproj.io"
LOAD = {"series": [{"name": "errors", "value": "0s:1,90s:9,200s:1"}, {"name": "other", "value": 3}]}


def metric(name: str = "errors", query: str = "errors", **more: Any) -> Obj:
    given = {"interval": "60s", "successCondition": "result[0] < 5", **more}
    kept = {k: v for k, v in given.items() if v is not None}
    return {"name": name, "provider": {"prometheus": {"query": query}}, **kept}


def run(*metrics: Obj, name: str = "r", **spec: Any) -> Obj:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AnalysisRun",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"metrics": list(metrics), **spec},
    }


def seconds(text: str) -> int:
    return (parse_rfc3339(text) - EPOCH_US) // SECOND_US


def status(world: World, name: str = "r") -> Obj:
    found: Obj = world.get(RUN, name)["status"]
    return found


def measured(world: World, name: str = "r") -> dict[str, list[tuple[int, str, str]]]:
    return {
        one["name"]: [
            (seconds(m["finishedAt"]), m["phase"], m.get("value") or m["message"])
            for m in one["measurements"]
        ]
        for one in status(world, name)["metricResults"]
    }


def said(world: World) -> list[tuple[str, str, str]]:
    told = world.twin.host.events.told()
    return [(t.type, t.reason, t.message) for t in told if t.component == "rollouts-controller" and t.uid]


def test_a_run_that_is_good() -> None:
    """Three measurements a minute apart, of which one may fail; then it is over and nothing is measured any more."""
    world = World(load=LOAD, objects=[run(metric(count=3, failureLimit=1))], nodes=0)
    world.run(1)
    assert (status(world)["phase"], measured(world)) == ("Running", {"errors": [(0, "Successful", "[1]")]})
    assert seconds(status(world)["startedAt"]) == 0 and "completedAt" not in status(world)
    world.run(600)
    assert measured(world) == {
        "errors": [(0, "Successful", "[1]"), (60, "Successful", "[1]"), (120, "Failed", "[9]")]
    }
    (result,) = status(world)["metricResults"]
    del result["measurements"]
    assert result == {
        "name": "errors",
        "phase": "Successful",
        "count": 3,
        "successful": 2,
        "failed": 1,
        "consecutiveError": 0,
        "consecutiveSuccess": 0,
    }
    assert status(world)["runSummary"] == {
        "count": 1,
        "successful": 1,
        "failed": 0,
        "inconclusive": 0,
        "error": 0,
    }
    assert (status(world)["phase"], seconds(status(world)["completedAt"])) == ("Successful", 120)
    assert said(world) == [("Normal", "AnalysisRunSuccessful", "Analysis Completed. Result: Successful")]


def test_a_metric_that_fails_ends_the_run_and_the_others_as_they_are() -> None:
    late = metric("late", "other", initialDelay="30s", interval="100s", successCondition="result[0] > 0")
    world = World(load=LOAD, objects=[run(metric(failureLimit=0), late)], nodes=0)
    world.run(600)
    assert measured(world) == {
        "errors": [(0, "Successful", "[1]"), (60, "Successful", "[1]"), (120, "Failed", "[9]")],
        "late": [(30, "Successful", "[3]")],
    }
    assert [(r["name"], r["phase"]) for r in status(world)["metricResults"]] == [
        ("errors", "Failed"),
        ("late", "Successful"),
    ]
    assert status(world)["message"] == 'Metric "errors" assessed Failed due to failed (1) > failureLimit (0)'
    assert said(world) == [("Warning", "AnalysisRunFailed", "Analysis Completed. Result: Failed")]


def test_metrics_have_their_own_times() -> None:
    both = [
        metric("fast", "other", interval="40s", count=4),
        metric("slow", "other", interval="70s", count=2),
    ]
    once = metric("once", "other", interval=None)
    world = World(load=LOAD, objects=[run(*both, once)], nodes=0)
    world.run(600)
    times = {name: [at for at, _, _ in found] for name, found in measured(world).items()}
    assert times == {"fast": [0, 40, 80, 120], "slow": [0, 70], "once": [0]}
    assert seconds(status(world)["completedAt"]) == 120


def test_what_cannot_be_measured_is_tried_again_every_ten_seconds() -> None:
    """Four errors in a row are borne (consecutiveErrorLimit); each says why."""
    providers: dict[str, tuple[Obj, str]] = {
        "job": ({"job": {}}, "no provider job answers here; expected prometheus"),
        "none": ({}, "no provider (none) answers here; expected prometheus"),
        "text": ({"prometheus": {"query": '"words"'}}, "Prometheus metric type not supported"),
        "argument": ({"prometheus": {"query": "{{args.service}}"}}, "failed to resolve {{args.service}}"),
    }
    for name, (provider, why) in providers.items():
        world = World(load=LOAD, objects=[run({**metric(name), "provider": provider})], nodes=0)
        world.run(600)
        assert measured(world) == {name: [(at, "Error", why) for at in (0, 10, 20, 30, 40)]}
        assert status(world)["phase"] == "Error"
        assert said(world) == [("Warning", "AnalysisRunError", "Analysis Completed. Result: Error")]
    world = World(load=LOAD, objects=[run(metric(query="sum("))], nodes=0)
    world.run(600)
    assert [(at, phase) for at, phase, _ in measured(world)["errors"]] == [
        (at, "Error") for at in range(0, 50, 10)
    ]


def test_numbers_and_arguments() -> None:
    asks = metric("a", "{{ args.what }} * scalar(other) + 1", successCondition="result == 22", count=1)
    told = run(asks, args=[{"name": "what", "value": "7"}, {"name": "unset"}])
    nothing = run(metric("a", "0 / 0", successCondition="isNaN(result)", count=1), name="nan")
    unclear = metric(
        "a", "other", successCondition="result[0] > 5", failureCondition="result[0] < 1", count=1
    )
    world = World(load=LOAD, objects=[told, nothing, run(unclear, name="unclear")], nodes=0)
    world.run(10)
    assert measured(world) == {"a": [(0, "Successful", "22")]}
    assert measured(world, "nan")["a"][0][1:] == ("Successful", "NaN")
    assert measured(world, "unclear") == {"a": [(0, "Inconclusive", "[3]")]}
    assert sorted(said(world)) == [
        ("Normal", "AnalysisRunInconclusive", "Analysis Completed. Result: Inconclusive"),
        *[("Normal", "AnalysisRunSuccessful", "Analysis Completed. Result: Successful")] * 2,
    ]


def test_a_run_that_is_told_to_end_is_over_at_once() -> None:
    world = World(load=LOAD, objects=[run(metric())], nodes=0)
    world.run(70)
    world.twin.store.patch(Key(RUN, "default", "r"), {"spec": {"terminate": True}})
    world.twin.wake()
    world.run(300)
    assert [at for at, _, _ in measured(world)["errors"]] == [0, 60]
    found = status(world)
    assert (found["phase"], found["message"], seconds(found["completedAt"])) == (
        "Successful",
        "Run Terminated",
        70,
    )


def test_a_run_that_is_to_end_before_it_begins_measures_nothing() -> None:
    world = World(load=LOAD, objects=[run(metric(), terminate=True)], nodes=0)
    world.run(300)
    found = status(world)
    assert (found["phase"], found.get("metricResults") or []) == ("Successful", [])
    assert [reason for _, reason, _ in said(world)] == ["AnalysisRunSuccessful"]


def test_one_that_is_deleted_is_measured_no_more_and_a_copy_goes_on_alone() -> None:
    world = World(load=LOAD, objects=[run(metric())], nodes=0)
    world.run(50)
    fork = world.twin.fork()
    world.twin.store.delete(Key(RUN, "default", "r"))
    world.twin.wake()
    world.run(300)
    assert world.twin.store.get(Key(RUN, "default", "r")) is None and world.twin.loop.next_time() is None
    fork.run_for(60 * SECOND_US)
    found = fork.store.require(Key(RUN, "default", "r"))["status"]["metricResults"]
    assert [seconds(m["finishedAt"]) for m in found[0]["measurements"]] == [0, 60]


def test_a_run_that_is_over_is_not_looked_at() -> None:
    done = run(metric())
    twin = Twin(latency=NONE, components=[AnalysisRuns()])
    twin.apply([done])
    twin.store.set_status(Key(RUN, "default", "r"), {"phase": "Failed"})
    twin.run_for(300 * SECOND_US)
    assert twin.store.require(Key(RUN, "default", "r"))["status"] == {"phase": "Failed"}
