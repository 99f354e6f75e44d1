"""Argo Rollouts' arithmetic: how many pods of which version, against the examples in its own source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairway.kube.objects import Obj
from fairway.workloads.rollouts.conditions import ConditionError, holds
from fairway.workloads.rollouts.counts import is_at_wanted, wanted_counts
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
    (4, 100, 1, 0, (0, 0), (4, 1), (1, 4)),
    (4, 100, 1, 0, (1, 1), (4, 1), (1, 3)),
    (4, 0, 1, 0, (4, 4), (0, 0), (4, 1)),
    (4, 0, 1, 0, (4, 4), (1, 0), (4, 1)),
    (4, 0, 1, 0, (4, 4), (1, 1), (3, 1)),
    # Worked out by the rules of canary.go: weights between whole pods, pods that do not come, nothing wanted at all.
    (5, 50, 1, 2, (1, 2), (6, 6), (1, 3)),
    (10, 99, 0, 1, (10, 1), (8, 2), (8, 2)),
    (2, 75, 0, 2, (2, 1), (0, 0), (0, 0)),
    (1, 10, 1, 0, (0, 0), (1, 1), (1, 1)),
    (4, 75, 0, 2, (3, 0), (5, 0), (2, 2)),
    (10, 5, 2, 0, (8, 8), None, (10, 0)),
    (0, 33, 2, 1, (1, 0), (0, 0), (0, 0)),
    (3, 75, 1, 1, (4, 0), (3, 3), (2, 2)),
    (1, 51, 0, 1, (1, 0), (0, 0), (1, 0)),
    (1, 0, 1, 0, (1, 1), (2, 0), (1, 2)),
]


@pytest.mark.parametrize(("replicas", "weight", "surge", "unavailable", "new", "stable", "want"), TABLE)
def test_without_a_router_pods_are_shared_as_traffic(
    replicas: int,
    weight: int,
    surge: int | str,
    unavailable: int | str,
    new: tuple[int, int],
    stable: tuple[int, int] | None,
    want: tuple[int, int],
) -> None:
    found = facts(replicas, weight, 0, 0, maxUnavailable=unavailable, maxSurge=surge)
    before = replica_set(*stable) if stable else None
    assert wanted_counts(replace(found, new=replica_set(*new), stable=before)) == want
    unrouted = {"setCanaryScale": {"replicas": 9, "weight": 77}}
    found.steps.insert(0, unrouted)
    later = {**found.status, "currentStepIndex": 1}
    assert wanted_counts(replace(found, new=replica_set(*new), stable=before, status=later)) == want


# With pods of versions before: the first two are the source's.
OLDER = [
    (10, 30, 1, 0, (0, 0), (1, 1), (3, 3), (1, 7)),
    (10, 30, 0, 1, (4, 2), (8, 6), (3, 3), (4, 8)),
    (3, 75, 1, 0, (1, 0), (0, 0), (2, 1), (1, 1)),
    (0, 51, 1, 0, (0, 0), (1, 1), (1, 0), (0, 1)),
]


@pytest.mark.parametrize(
    ("replicas", "weight", "surge", "unavailable", "new", "stable", "older", "want"), OLDER
)
def test_older_versions_go_first(
    replicas: int,
    weight: int,
    surge: int,
    unavailable: int,
    new: tuple[int, int],
    stable: tuple[int, int],
    older: tuple[int, int],
    want: tuple[int, int],
) -> None:
    found = facts(replicas, weight, 0, 0, maxUnavailable=unavailable, maxSurge=surge)
    found = replace(found, new=replica_set(*new), stable=replica_set(*stable), others=(replica_set(*older),))
    assert wanted_counts(found) == want


def test_a_version_that_is_stable_has_all_pods() -> None:
    found = facts(10, 10, 0, 0, maxUnavailable=1, maxSurge=0)
    for there in (replica_set(9), replica_set(10, 0), replica_set(11)):
        assert wanted_counts(replace(found, new=there, stable=there)) == (10, 0)
        assert wanted_counts(replace(found, new=there, stable=None)) == (10, 0)


SCALE_9 = {"setCanaryScale": {"replicas": 9}}
SCALE_77 = {"setCanaryScale": {"weight": 77}}
MATCHING = {"setCanaryScale": {"replicas": 9, "weight": 77, "matchTrafficWeight": True}}
HELD = {"canary": {"weights": {"canary": {"weight": 60}, "stable": {"weight": 40}}}}


@pytest.mark.parametrize(
    ("steps", "index", "canary", "status", "want"),
    [
        # setCanaryScale: the last one up to the step counts, in pods or as a weight; it may match the traffic again.
        ([{"setWeight": 20}, SCALE_9], 0, {}, {}, (2, 10)),
        ([{"setWeight": 20}, SCALE_9], 1, {}, {}, (9, 10)),
        ([SCALE_9, SCALE_77, {"setWeight": 20}], 0, {}, {}, (9, 10)),
        ([SCALE_9, SCALE_77, {"setWeight": 20}], 2, {}, {}, (8, 10)),
        ([SCALE_9, MATCHING, {"setWeight": 20}], 2, {}, {}, (2, 10)),
        ([SCALE_9, {"setCanaryScale": {}}, {"setWeight": 20}], 2, {}, {}, (2, 10)),
        ([SCALE_9], 1, {}, {}, (10, 10)),
        ([SCALE_9], 0, {}, {"abort": True}, (0, 10)),
        ([SCALE_9], 0, {}, {"promoteFull": True}, (10, 10)),
        ([SCALE_9], 0, {}, {"stableRS": ""}, (10, 10)),
        ([SCALE_9], 0, {}, {"stableRS": "new"}, (10, 10)),
        # dynamicStableScale: both have what their traffic needs, now or by the step; in pods given, all stay.
        ([{"setWeight": 25}], 0, {"dynamicStableScale": True}, {}, (3, 8)),
        ([SCALE_9], 0, {"dynamicStableScale": True}, {}, (9, 10)),
        ([SCALE_77], 0, {"dynamicStableScale": True}, {}, (8, 3)),
        ([{"setWeight": 20}], 0, {"dynamicStableScale": True}, HELD, (2, 8)),
        ([{"setWeight": 80}], 0, {"dynamicStableScale": True}, HELD, (8, 4)),
        ([{"setWeight": 20}], 0, {"dynamicStableScale": True}, {**HELD, "abort": True}, (6, 10)),
        # minPodsPerReplicaSet: where there are pods at all, and never more than all; not what was given in pods.
        ([{"setWeight": 5}], 0, {"minPodsPerReplicaSet": 2}, {}, (2, 10)),
        ([{"setWeight": 5}], 0, {"minPodsPerReplicaSet": 20}, {}, (10, 10)),
        ([{"setWeight": 50}], 0, {"minPodsPerReplicaSet": 2}, {}, (5, 10)),
        ([{"setWeight": 0}], 0, {"minPodsPerReplicaSet": 2}, {}, (0, 10)),
        ([{"setCanaryScale": {"replicas": 1}}], 0, {"minPodsPerReplicaSet": 2}, {}, (1, 10)),
        ([{"setWeight": 5}], 0, {"minPodsPerReplicaSet": 2, "dynamicStableScale": True}, {}, (2, 10)),
        ([{"setWeight": 95}], 0, {"minPodsPerReplicaSet": 2, "dynamicStableScale": True}, {}, (10, 2)),
        ([{"setWeight": 100}], 0, {"minPodsPerReplicaSet": 2, "dynamicStableScale": True}, {}, (10, 0)),
        (
            [{"setCanaryScale": {"replicas": 1}}],
            0,
            {"minPodsPerReplicaSet": 2, "dynamicStableScale": True},
            {},
            (2, 10),
        ),
    ],
)
def test_with_a_router_pods_are_scaled_apart_from_traffic(
    steps: list[Obj], index: int, canary: Obj, status: Obj, want: tuple[int, int]
) -> None:
    found = facts(10, 0, 0, 10, trafficRouting={"plugins": {}}, **canary)
    found.canary["steps"] = steps
    assert wanted_counts(replace(found, status={**found.status, "currentStepIndex": index, **status})) == want


ROUTER = {"trafficRouting": {"plugins": {}}}
DYNAMIC = {**ROUTER, "dynamicStableScale": True}


@pytest.mark.parametrize(
    ("canary", "new", "stable", "others", "want"),
    [
        # Of ten pods half: five available of the canary; five made of the stable version, available or not.
        ({}, (5, 5, 5), (5, 5, 5), [], True),
        ({}, (5, 5, 4), (5, 5, 5), [], False),
        ({}, (4, 4, 4), (6, 6, 6), [], False),
        ({}, (5, 0, 5), (5, 5, 0), [], True),
        ({}, (5, 5, 5), (5, 6, 5), [], False),
        ({}, (5, 5, 5), (6, 6, 6), [], False),
        ({}, None, (5, 5, 5), [], False),
        ({}, (5, 5, 5), None, [], False),
        # Older versions' pods get traffic as well, but for a router's.
        ({}, (5, 5, 5), (5, 5, 5), [(0, 1, 1), (0, 0, 0)], False),
        ({}, (5, 5, 5), (5, 5, 5), [(0, 1, 0)], True),
        (ROUTER, (5, 5, 5), (10, 10, 10), [(1, 1, 1)], True),
        (ROUTER, (5, 5, 5), (10, 9, 9), [], False),
        (ROUTER, (5, 5, 5), (5, 5, 5), [], False),
        (DYNAMIC, (5, 5, 5), (7, 8, 9), [(1, 1, 1)], True),
        (DYNAMIC, (5, 5, 4), (5, 5, 5), [], False),
    ],
)
def test_when_a_step_has_its_pods(
    canary: Obj, new: Any, stable: Any, others: list[tuple[int, int, int]], want: bool
) -> None:
    def made(counts: tuple[int, int, int] | None) -> Obj | None:
        if counts is None:
            return None
        asked, there, available = counts
        status = {"replicas": there, "availableReplicas": available}
        return {"spec": {"replicas": asked}, "status": status}

    found = facts(10, 50, 0, 0, maxSurge=0, maxUnavailable=1, **canary)
    older = tuple(obj for one in others if (obj := made(one)) is not None)
    assert is_at_wanted(replace(found, new=made(new), stable=made(stable), others=older)) is want


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
