"""Argo Rollouts' arithmetic: how many pods of which version, against the examples in its own source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairway.kube.objects import Obj
from fairway.workloads.rollouts.conditions import ConditionError, holds
from fairway.workloads.rollouts.counts import wanted_counts
from fairway.workloads.rollouts.facts import Facts
from fairway.workloads.rollouts.measuring import measured, status_of_run, with_measurement

NAN = float("nan")


def replica_set(replicas: int, available: int | None = None) -> Obj:
    count = replicas if available is None else available
    return {"spec": {"replicas": replicas}, "status": {"replicas": replicas, "availableReplicas": count}}


def facts(replicas: int, weight: int, new: int, stable: int, **canary: Any) -> Facts:
    rollout = {"metadata": {"name": "r"}, "spec": {"replicas": replicas, "strategy": {"canary": canary}}}
    canary["steps"] = [{"setWeight": weight}, {"pause": {}}]
    status = {"stableRS": "old", "currentPodHash": "new", "currentStepIndex": 0}
    return Facts(rollout, status, "new", "steps", replica_set(new), replica_set(stable), ())


# replicas, weight, maxSurge, maxUnavailable, pods and available pods of the canary and of the stable version; and what
# the controller wants of both. Source: TestCalculateReplicaCountsForCanary (utils/replicaset/canary_test.go).
TABLE = [
    (10, 100, 3, 0, (6, 3), (7, 8), (6, 7)),
    (10, 20, 2, 0, (0, 0), (10, 10), (2, 10)),
    (10, 20, "20%", 0, (0, 0), (10, 10), (2, 10)),
    (10, 20, "20%", 0, (2, 2), (10, 10), (2, 8)),
    (10, 30, 2, 0, (0, 0), (10, 10), (2, 10)),
    (10, 20, 0, 2, (0, 0), (10, 10), (0, 8)),
    (10, 20, 0, "20%", (0, 0), (10, 10), (0, 8)),
    (10, 30, 0, 2, (0, 0), (10, 10), (0, 8)),
    (10, 50, 2, 1, (0, 0), (10, 10), (2, 9)),
    (10, 0, 1, 1, (1, 1), (10, 10), (0, 10)),
    (10, 100, 1, 1, (10, 10), (1, 1), (10, 0)),
    (1, 20, 1, 0, (0, 0), (1, 1), (1, 1)),
    (1, 90, 1, 0, (0, 0), (1, 1), (1, 1)),
    (1, 49, 0, 1, (0, 0), (1, 1), (0, 1)),
    (1, 51, 0, 1, (0, 0), (1, 1), (0, 0)),
    (1, 51, 0, 1, (0, 0), (0, 0), (1, 0)),
    (10, 30, 0, 3, (4, 4), (8, 5), (3, 7)),
    (10, 100, 1, 0, (10, 8), (10, 2), (9, 2)),
    (10, 5, 0, 1, (0, 0), (10, 10), (0, 9)),
    (10, 5, 0, 1, (0, 0), (9, 9), (1, 9)),
    (10, 10, "0%", "0%", (0, 0), (10, 10), (0, 9)),
    (3, 99, 0, 2, (0, 0), (3, 3), (0, 1)),
    (3, 99, 0, 2, (0, 0), (1, 1), (2, 1)),
]


@pytest.mark.parametrize(("replicas", "weight", "surge", "unavailable", "new", "stable", "want"), TABLE)
def test_without_a_router_pods_are_shared_as_traffic(
    replicas: int,
    weight: int,
    surge: int | str,
    unavailable: int | str,
    new: tuple[int, int],
    stable: tuple[int, int],
    want: tuple[int, int],
) -> None:
    found = facts(replicas, weight, 0, 0, maxUnavailable=unavailable, maxSurge=surge)
    assert wanted_counts(replace(found, new=replica_set(*new), stable=replica_set(*stable))) == want


@pytest.mark.parametrize(("weight", "want"), [(1, (1, 10)), (25, (3, 10)), (100, (10, 10))])
def test_with_a_router_the_stable_version_keeps_its_pods(weight: int, want: tuple[int, int]) -> None:
    assert wanted_counts(facts(10, weight, 0, 10, trafficRouting={"plugins": {}})) == want
    moving = facts(10, weight, 0, 10, trafficRouting={"plugins": {}}, dynamicStableScale=True)
    assert wanted_counts(moving) == (want[0], -(-10 * (100 - weight) // 100))


@pytest.mark.parametrize(
    ("condition", "result", "want"),
    [
        ("result[0] <= 0.95", [0.9], True),
        ("result < 0.5 || result > 2", 1.0, False),
        ("len(result) == 0 || isNaN(result[0])", [NAN], True),
        ("!isNaN(result[0]) && result[0] < 1", [NAN], False),
        ("all(result, {# < 5})", [1.0, 7.0], False),
        ("any(result, # > 5)", [1.0, 7.0], True),
        ("default(result, 0) < 0.05", [], True),
        ("asInt(result) in [1, 2]", "2", None),
        ("not (result[0] > 3) and true", [1.0], True),
        ("result[1] > 0", [1.0], None),
        ("__import__('os')", [1.0], None),
        ("result.__class__ == 1", [1.0], None),
        ("result + 1", 1.0, None),
    ],
)
def test_conditions_are_judged_as_expressions_and_nothing_more(
    condition: str, result: Any, want: bool | None
) -> None:
    if want is None:
        with pytest.raises(ConditionError):
            holds(condition, result)
    else:
        assert holds(condition, result) is want


def run_of(*values: Any, **metric: Any) -> dict[str, Any]:
    one = {"name": "errors", "successCondition": "result[0] < 1", "interval": "1m", **metric}
    run: Obj = {"metadata": {}, "spec": {"metrics": [one]}}
    result: dict[str, Any] = {"name": "errors"}
    status: dict[str, Any] = {}
    for i, value in enumerate(values):
        result = with_measurement(result, measured(one, value, {}, i * 60_000_000))
        run["status"] = status
        status = status_of_run(run, {"errors": result}, i * 60_000_000)
        result = status["metricResults"][0]
    return status


def test_a_run_fails_beyond_its_limits_and_says_why() -> None:
    assert run_of([0.5], [0.5])["phase"] == "Running"
    failed = run_of([2.0], [2.0], failureLimit=1)
    assert failed["phase"] == "Failed"
    assert failed["message"] == 'Metric "errors" assessed Failed due to failed (2) > failureLimit (1)'
    assert run_of([2.0], [0.0], failureLimit=1)["phase"] == "Running"
    assert run_of([0.1], [0.1], count=2)["phase"] == "Successful"
    unsure = run_of([1.5], failureCondition="result[0] > 2", count=1)
    assert unsure["phase"] == "Inconclusive"


def test_nothing_measured_is_an_error_and_five_in_a_row_end_it() -> None:
    assert run_of([], [], [], [])["phase"] == "Running"
    status = run_of([], [], [], [], [])
    assert status["phase"] == "Error"
    assert "consecutiveErrors (5) > consecutiveErrorLimit (4)" in status["message"]
    assert "no data returned from the metric provider" in status["message"]
