"""Argo Rollouts part by part, each with its whole outcome: facts, weights, statuses of a run, arguments of analyses."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.actions import Patch
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339, rfc3339
from fairway.workloads.podtemplate import stable_hash
from fairway.workloads.rollouts import analyses, conditions, facts, measuring, status, traffic
from fairway.workloads.rollouts.facts import HASH, Facts

NOW_US = parse_rfc3339("2026-01-05T08:00:00Z")
NOW = rfc3339(NOW_US)


def replica_set(name: str, available: int, replicas: int | None = None) -> Obj:
    count = available if replicas is None else replicas
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": {HASH: name}},
        "spec": {"replicas": count},
        "status": {"replicas": count, "availableReplicas": available, "readyReplicas": available},
    }


def made(
    *steps: Obj,
    new: Obj | None = None,
    stable: Obj | None = None,
    others: tuple[Obj, ...] = (),
    said: Obj | None = None,
    spec: Obj | None = None,
    **canary: Any,
) -> Facts:
    rollout = {
        "apiVersion": "argoproj.io/v1alpha1",
        "metadata": {"name": "web", "namespace": "ns", "uid": "u"},
        "spec": {"replicas": 10, "strategy": {"canary": {"steps": list(steps), **canary}}, **(spec or {})},
    }
    told = {"stableRS": "old", "currentPodHash": "new", "currentStepIndex": 0, **(said or {})}
    return Facts(rollout, told, "new", "steps", new, stable, others)


# Facts


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "want"),
    [
        # In pods, or as a share: maxSurge rounded up, maxUnavailable down; never both nothing; a quarter by default.
        (10, None, None, (3, 2)),
        (10, 2, 3, (2, 3)),
        (10, "11%", "19%", (2, 1)),
        (10, 0, 0, (0, 1)),
        (10, 0, 4, (0, 4)),
        (10, 1, 0, (1, 0)),
        (None, "50%", "50%", (1, 0)),
    ],
)
def test_limits_in_pods(replicas: int | None, surge: Any, unavailable: Any, want: tuple[int, int]) -> None:
    given: Obj = {k: v for k, v in (("maxSurge", surge), ("maxUnavailable", unavailable)) if v is not None}
    found = made(spec={"replicas": replicas, "strategy": {"canary": given}})
    assert (found.limit("maxSurge"), found.limit("maxUnavailable")) == want
    assert found.replicas == (1 if replicas is None else replicas)


STEPS = ({"pause": {}}, {"setWeight": 20}, {"pause": {}}, {"setWeight": 0}, {"setWeight": 60})


@pytest.mark.parametrize(
    ("index", "want"), [(0, 0), (1, 20), (2, 20), (3, 0), (4, 60), (5, 100), (9, 100), (None, 0)]
)
def test_the_weight_is_that_of_the_last_step_that_says_one(index: int | None, want: int) -> None:
    assert made(*STEPS, said={"currentStepIndex": index}).weight_now() == want
    assert made(*STEPS, said={"currentStepIndex": index, "abort": True}).weight_now() == 0
    assert made(said={"currentStepIndex": index}).weight_now() == 100, "without steps all are done"


def test_which_replica_set_is_which() -> None:
    store = Store(seed=1, now_us=NOW_US)
    template = {"metadata": {}, "spec": {"containers": []}}
    body = {"template": template, "strategy": {"canary": {"steps": [{"pause": {}}]}}}
    rollout = store.create(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Rollout",
            "metadata": {"name": "web", "namespace": "ns"},
            "spec": body,
        }
    )
    owner = {"apiVersion": rollout["apiVersion"], "kind": "Rollout", "name": "web", "controller": True}
    owner["uid"] = rollout["metadata"]["uid"]
    wanted = stable_hash(template)
    for name, labels in (("a", {HASH: wanted}), ("b", {HASH: "old"}), ("c", {HASH: "older"}), ("d", {})):
        one = replica_set(name, 1)
        meta = {"name": name, "namespace": "ns", "labels": labels, "ownerReferences": [owner]}
        store.create({**one, "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta})

    def names(stable: str | None, **more: Any) -> tuple[Any, ...]:
        given = {**rollout, "status": {"stableRS": stable}, **more}
        found = facts.facts_of(store, given)
        assert (found.hash, found.step_hash) == (
            stable_hash(given["spec"].get("template") or {}),
            stable_hash([{"pause": {}}]),
        )
        sets = (found.new, found.stable, *found.others)
        every = sorted(one["metadata"]["name"] for one in found.all)
        assert every == ["a", "b", "c", "d"], "each once"
        return tuple(one and one["metadata"]["name"] for one in sets)

    assert names("old") == ("a", "b", "c", "d")
    assert names(wanted) == ("a", "a", "b", "c", "d")
    assert names(None) == ("a", None, "b", "c", "d")
    assert names("none") == ("a", None, "b", "c", "d")
    assert names("old", spec={**body, "template": {"metadata": {"labels": {}}}}) == (None, "b", "a", "c", "d")


def test_counts_of_a_replica_set() -> None:
    assert [f(None) for f in (facts.replicas_of, facts.available_of, facts.count_of)] == [0, 0, 0]
    bare: Obj = {"spec": {}}
    assert [f(bare) for f in (facts.replicas_of, facts.available_of, facts.count_of)] == [1, 0, 0]
    one = {"spec": {"replicas": 3}, "status": {"replicas": 2, "availableReplicas": 1}}
    assert [f(one) for f in (facts.replicas_of, facts.available_of, facts.count_of)] == [3, 1, 2]


# Traffic

ROUTER: dict[str, Any] = {
    "canaryService": "c",
    "stableService": "s",
    "trafficRouting": {"plugins": {traffic.PLUGIN: {"httpRoute": "r"}}},
}
HELD = {"canary": {"weights": {"canary": {"weight": 35}, "stable": {"weight": 65}}}}


@pytest.mark.parametrize(
    ("index", "new", "said", "want"),
    [
        # Of the step once its pods are there, of a step before until then.
        (1, 2, {}, 20),
        (1, 1, {}, 0),
        (2, 2, {}, 20),
        (4, 6, {}, 60),
        (4, 5, {}, 0),
        (2, 1, {}, 20),
        (0, 0, {}, 0),
        (5, 10, {}, 100),
        (5, 9, {}, 60),
        # None where there is nothing to lead to, or no longer: a promotion keeps what is there until the end.
        (4, 0, {}, 0),
        (4, 6, {"abort": True}, 0),
        (4, 6, {"stableRS": "new"}, 0),
        (4, 6, {"promoteFull": True}, 0),
        (4, 6, {"promoteFull": True, **HELD}, 35),
    ],
)
def test_no_more_traffic_than_pods_are_there_for(index: int, new: int, said: Obj, want: int) -> None:
    said = {"currentStepIndex": index, **said}
    found = made(*STEPS, new=replica_set("new", new), stable=replica_set("old", 10), said=said, **ROUTER)
    assert traffic.wanted_weight(found) == want
    alone = made(*STEPS, new=replica_set("new", new), said=said, **ROUTER)
    assert traffic.wanted_weight(alone) == 0


@pytest.mark.parametrize(
    ("plugin", "want"),
    [
        ({"httpRoute": "r"}, [("ns", "r")]),
        ({"httpRoute": "r", "namespace": "edge"}, [("edge", "r")]),
        ({"httpRoutes": [{"name": "a"}, {"name": "b"}, {}]}, [("ns", "a"), ("ns", "b")]),
        ({"httpRoutes": [{"name": "a"}], "httpRoute": "r"}, [("ns", "a")]),
        ({}, []),
        (None, []),
    ],
)
def test_which_routes_have_the_weights(plugin: Obj | None, want: list[tuple[str, str]]) -> None:
    plugins = {traffic.PLUGIN: plugin} if plugin is not None else {}
    found = made(trafficRouting={"plugins": plugins})
    assert traffic.route_names(found) == [Key(traffic.ROUTE, namespace, name) for namespace, name in want]
    assert traffic.route_names(made()) == []


def test_only_what_leads_to_the_two_services_is_weighed() -> None:
    backends = [{"name": "c", "port": 80}, {"name": "s", "port": 81, "weight": 9}, {"name": "x", "weight": 1}]
    rules = [
        {"name": "first", "backendRefs": backends},
        {"name": "other", "backendRefs": [{"name": "x"}]},
        {"name": "none"},
    ]
    store = Store(seed=1, now_us=NOW_US)
    api = "gateway.networking.k8s.io/v1"
    for name in ("q", "r"):
        meta = {"name": name, "namespace": "ns"}
        store.create(
            {
                "apiVersion": api,
                "kind": "HTTPRoute",
                "metadata": meta,
                "spec": {"rules": rules, "hostnames": []},
            }
        )
    routes = [{"name": "gone"}, {"name": "q"}, {"name": "r"}]
    plugins = {traffic.PLUGIN: {"httpRoutes": routes}}
    found = made(**{**ROUTER, "trafficRouting": {"plugins": plugins}})
    weighed = [
        {"name": "c", "port": 80, "weight": 30},
        {"name": "s", "port": 81, "weight": 70},
        {"name": "x", "weight": 1},
    ]
    want = {"spec": {"rules": [{"name": "first", "backendRefs": weighed}, *rules[1:]]}}
    assert traffic.routed(store, found, 30) == [Patch(Key(traffic.ROUTE, "ns", n), want) for n in ("q", "r")]
    store.patch(Key(traffic.ROUTE, "ns", "q"), want)
    assert [a.key.name for a in traffic.routed(store, found, 30) if isinstance(a, Patch)] == ["r"]
    assert traffic.weights_status(found, 30) == {
        "canary": {"weight": 30, "podTemplateHash": "new", "serviceName": "c"},
        "stable": {"weight": 70, "podTemplateHash": "old", "serviceName": "s"},
    }
    assert traffic.weights_status(made(said={"stableRS": ""}), 0) == {
        "canary": {"weight": 0, "podTemplateHash": "new"},
        "stable": {"weight": 100, "podTemplateHash": "new"},
    }


@pytest.mark.parametrize(
    ("new", "stable", "said", "want"),
    [
        (1, 10, {}, {"s": "old", "c": "new"}),
        (0, 10, {}, {"s": "old", "c": "old"}),
        (1, 10, {"abort": True}, {"s": "old", "c": "old"}),
        (1, None, {}, {"s": "new", "c": "new"}),
        (0, None, {}, {"s": "new"}),
    ],
)
def test_where_the_services_lead(new: int, stable: int | None, said: Obj, want: dict[str, str]) -> None:
    store = Store(seed=1, now_us=NOW_US)
    before = None if stable is None else replica_set("old", stable)
    found = made(new=replica_set("new", new), stable=before, said=said, **ROUTER)
    assert traffic.services(store, found) == [], "of Services that are not there nothing is said"
    for names in (("c",), ("s",)):
        for name in names:
            meta = {"name": name, "namespace": "ns"}
            store.create(
                {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": {"a": "b"}}}
            )
        patches = {a.key.name: a.patch for a in traffic.services(store, found) if isinstance(a, Patch)}
        there = {n: h for n, h in want.items() if n == "c" or names == ("s",)}
        assert patches == {n: {"spec": {"selector": {HASH: h}}} for n, h in there.items()}
    for name, hash_ in want.items():
        store.patch(Key("Service", "ns", name), {"spec": {"selector": {HASH: hash_}}})
    assert traffic.services(store, found) == []
    assert traffic.services(store, made(new=replica_set("new", 1), stableService="s")) == []


# Status


def test_counts_are_of_all_versions() -> None:
    found = made(
        new=replica_set("new", 1, 2),
        stable=replica_set("old", 3, 4),
        others=(replica_set("older", 5, 6), {"spec": {}}),
        spec={"selector": {"matchLabels": {"z": "1", "a": "2"}}},
    )
    assert status.with_counts(found, {"kept": "as it is", "replicas": 99}) == {
        "kept": "as it is",
        "replicas": 12,
        "updatedReplicas": 2,
        "readyReplicas": 9,
        "availableReplicas": 9,
        "HPAReplicas": 12,
        "selector": "a=2,z=1",
        "observedGeneration": "1",
    }


PAUSE, UNSURE = {"reason": "CanaryPauseStep"}, {"reason": "InconclusiveAnalysisRun"}


@pytest.mark.parametrize(
    ("fields", "spec", "steps", "message", "want"),
    [
        ({}, {}, 1, "", ("Healthy", None)),
        ({"abort": True}, {}, 1, "why", ("Degraded", "RolloutAborted: why")),
        ({"pauseConditions": [PAUSE]}, {}, 1, "why", ("Paused", "CanaryPauseStep")),
        ({"pauseConditions": [PAUSE, UNSURE]}, {}, 1, "", ("Paused", "InconclusiveAnalysisRun")),
        ({"pauseConditions": []}, {"paused": True}, 1, "why", ("Paused", "manually paused")),
        ({}, {}, 1, "why", ("Degraded", "InvalidSpec: why")),
        ({"updatedReplicas": 9}, {}, 1, "", ("Progressing", "more replicas need to be updated")),
        (
            {"updatedReplicas": 9, "stableRS": "old"},
            {},
            1,
            "",
            ("Progressing", "waiting for all steps to complete"),
        ),
        (
            {"updatedReplicas": 11},
            {},
            1,
            "",
            ("Progressing", "updated replicas are still becoming available"),
        ),
        ({"stableRS": "old"}, {}, 0, "", ("Progressing", "more replicas need to be updated")),
        ({"replicas": 11}, {}, 1, "", ("Progressing", "old replicas are pending termination")),
    ],
)
def test_the_phase_and_why(
    fields: Obj, spec: Obj, steps: int, message: str, want: tuple[str, str | None]
) -> None:
    given = {
        "stableRS": "new",
        "currentPodHash": "new",
        "replicas": 10,
        "updatedReplicas": 10,
        "availableReplicas": 10,
        **fields,
    }
    found = made(*[{"pause": {}}] * steps, new=replica_set("new", 10), spec=spec)
    told = status.with_phase(found, given, message, NOW)
    assert (told["phase"], told.get("message")) == want


def test_conditions_move_only_with_what_they_are_of() -> None:
    then, later = rfc3339(NOW_US - 60_000_000), rfc3339(NOW_US + 60_000_000)
    counts = {"stableRS": "new", "currentPodHash": "new", "replicas": 10, "updatedReplicas": 10}

    def told(available: int, before: Obj, at: str, **fields: Any) -> Obj:
        found = made(new=replica_set("new", available), said=before, maxUnavailable=2, maxSurge=1)
        given = {**before, **counts, "availableReplicas": available, **fields}
        return status.with_phase(found, given, "", at)

    def shown(found: Obj) -> list[tuple[str, ...]]:
        names = ("type", "status", "reason", "message", "lastUpdateTime", "lastTransitionTime")
        return [tuple(c[n] for n in names) for c in found["conditions"]]

    first = told(7, {}, then)
    going = 'ReplicaSet "web-new" is progressing.'
    assert shown(first) == [
        ("Available", "False", "AvailableReason", "Rollout does not have minimum availability", then, then),
        ("Progressing", "True", "ReplicaSetUpdated", going, then, then),
    ], "Healthy is not said before it was"
    second = told(8, first, NOW)
    assert shown(second) == [
        ("Available", "True", "AvailableReason", "Rollout has minimum availability", NOW, NOW),
        ("Progressing", "True", "ReplicaSetUpdated", going, then, then),
    ]
    third = told(10, second, later)
    done = 'ReplicaSet "web-new" has successfully progressed.'
    assert shown(third) == [
        ("Available", "True", "AvailableReason", "Rollout has minimum availability", NOW, NOW),
        ("Progressing", "True", "NewReplicaSetAvailable", done, later, then),
        ("Healthy", "True", "RolloutHealthy", "Rollout is healthy", later, later),
    ]
    paused = told(10, third, later, pauseConditions=[PAUSE])
    assert [c[:4] for c in shown(paused)] == [
        ("Available", "True", "AvailableReason", "Rollout has minimum availability"),
        ("Progressing", "Unknown", "RolloutPaused", "Rollout is paused"),
        ("Healthy", "False", "RolloutHealthy", "Rollout is not healthy"),
        ("Paused", "True", "RolloutPaused", "Rollout is paused"),
    ]
    again = told(10, paused, later, pauseConditions=[])
    assert [c[:2] for c in shown(again)] == [
        ("Available", "True"),
        ("Progressing", "True"),
        ("Healthy", "True"),
    ]


# Measurements

METRIC = {"name": "m", "successCondition": "result < 1", "provider": {}}


def run_of(*names: str, **spec: Any) -> Obj:
    return {"spec": {"metrics": [{**METRIC, "name": n, "interval": "1m", "count": 2} for n in names], **spec}}


def one_result(good: int = 0, bad: int = 0, message: str = "") -> Obj:
    last = {"message": message} if message else {}
    return {"count": good + bad, "successful": good, "failed": bad, "measurements": [{}, last]}


DONE, RUNNING = one_result(good=2), one_result(good=1)
BAD = one_result(good=1, bad=1, message="boom")
WHY = 'Metric "{}" assessed Failed due to failed (1) > failureLimit (0): "Error Message: boom"'
WHY_A, WHY_B = WHY.format("a"), WHY.format("b")


def summary(count: int, successful: int = 0, failed: int = 0, error: int = 0) -> dict[str, int]:
    return {"count": count, "successful": successful, "failed": failed, "inconclusive": 0, "error": error}


@pytest.mark.parametrize(
    ("results", "spec", "phases", "counts", "end"),
    [
        ({}, {}, {}, summary(2), None),
        ({"a": DONE}, {}, {"a": "Successful"}, summary(2, 1), None),
        ({"b": DONE}, {}, {"b": "Successful"}, summary(2, 1), None),
        ({"a": DONE, "b": RUNNING}, {}, {"a": "Successful", "b": "Running"}, summary(2, 1), None),
        ({"a": DONE, "b": DONE}, {}, {"a": "Successful", "b": "Successful"}, summary(2, 2), ("Successful", None)),
        # One that is bad ends the others, whatever they have come to.
        ({"a": RUNNING, "b": BAD}, {}, {"a": "Successful", "b": "Failed"}, summary(2, 1, 1), ("Failed", WHY_B)),
        ({"a": BAD, "b": RUNNING}, {}, {"a": "Failed", "b": "Successful"}, summary(2, 1, 1), ("Failed", WHY_A)),
        ({"a": BAD}, {}, {"a": "Failed"}, summary(2, 0, 1), ("Failed", WHY_A)),
        # Of two alike the first is told; the worse of two is.
        ({"a": BAD, "b": BAD}, {}, {"a": "Failed", "b": "Failed"}, summary(2, 0, 2), ("Failed", WHY_A)),
        (
            {"a": {**DONE, "phase": "Error"}, "b": {**BAD, "phase": "Failed"}},
            {},
            {"a": "Error", "b": "Failed"},
            summary(2, 0, 1, 1),
            ("Failed", WHY_B),
        ),
        # Told to end.
        ({}, {"terminate": True}, {}, summary(2), ("Successful", "Run Terminated")),
        ({"a": RUNNING}, {"terminate": True}, {"a": "Successful"}, summary(2, 1), ("Successful", "Run Terminated")),
        ({"a": BAD}, {"terminate": True}, {"a": "Failed"}, summary(2, 0, 1), ("Failed", WHY_A)),
    ],
)  # fmt: skip
def test_what_a_run_comes_to(
    results: Obj, spec: Obj, phases: dict[str, str], counts: Obj, end: tuple[str, str | None] | None
) -> None:
    run = run_of("a", "b", **spec)
    want: Obj = {
        "startedAt": NOW,
        "metricResults": [{**results[n], "name": n, "phase": p} for n, p in phases.items()],
        "runSummary": counts,
        "phase": "Running",
    }
    if end:
        want |= {"phase": end[0], "completedAt": NOW}
    if end and end[1]:
        want["message"] = end[1]
    assert measuring.status_of_run(run, results, NOW_US) == want
    before = {"status": {"startedAt": "then", "completedAt": "later"}}
    kept = measuring.status_of_run({**run, **before}, results, NOW_US)
    assert kept == want | {"startedAt": "then"} | ({"completedAt": "later"} if end else {})


def test_a_run_without_metrics_goes_on() -> None:
    found = measuring.status_of_run({"spec": {}}, {}, NOW_US)
    assert found == {"startedAt": NOW, "metricResults": [], "runSummary": summary(0), "phase": "Running"}


def test_arguments_and_results_of_a_run() -> None:
    args = [
        {"name": "a", "value": 7},
        {"name": "b", "value": None},
        {"name": "c"},
        {"name": "d", "value": ""},
    ]
    assert measuring.argument_values({"spec": {"args": args}}) == {"a": "7", "d": ""}
    assert measuring.argument_values({"spec": {}}) == {}
    told = [{"name": "a", "phase": "Running"}, {"name": "b"}]
    found = measuring.results_of({"status": {"metricResults": told}})
    assert found == {"a": told[0], "b": told[1]}
    assert found["a"] is not told[0], "a copy: what is written in does not change the run"
    assert measuring.results_of({}) == {} == measuring.results_of({"status": {}})


@pytest.mark.parametrize(
    ("condition", "value", "why", "text"),
    [
        (
            "result[0] < 1",
            [],
            "metric result is nil or empty: no data returned from the metric provider",
            "[]",
        ),
        ("result[1] < 1", [0.5], "reflect: slice index out of range", "[0.5]"),
        ("result < {{args.most}}", 1, "failed to resolve {{args.most}}", "1"),
        ("result + 1", 2.0, "expected bool, but got float", "2"),
    ],
)
@pytest.mark.parametrize("which", ["successCondition", "failureCondition"])
def test_a_condition_that_cannot_be_judged_is_an_error(
    which: str, condition: str, value: Any, why: str, text: str
) -> None:
    found = measuring.measured({"name": "m", which: condition}, value, {}, NOW_US)
    assert found == {
        "startedAt": NOW,
        "finishedAt": NOW,
        "phase": "Error",
        "message": f'could not evaluate {which} "{condition}": {why}',
        "value": text,
    }


def test_numbers_are_written_as_go_prints_them() -> None:
    infinite = float("inf")
    numbers = {
        1e22: "10000000000000000000000",
        1e-7: "0.0000001",
        0.1: "0.1",
        100.0: "100",
        -0.5: "-0.5",
        infinite: "+Inf",
        -infinite: "-Inf",
    }
    assert {v: measuring.text_of(v) for v in numbers} == numbers
    assert [measuring.text_of(v) for v in ("x", [1.0, [0.25]], float("nan"))] == ["x", "[1,[0.25]]", "NaN"]


@pytest.mark.parametrize(
    ("condition", "value", "want"),
    [
        ("result > 1 && result < 3", 2.0, True),
        ("result > 1 && result < 3", 3.0, False),
        ("result < 1 or result > 3", 2.0, False),
        ("result == -2", -2.0, True),
        ("-result == 2", -2.0, True),
        ("result != nil and !isNil(result)", 0.0, True),
        ("isNil(result)", None, True),
        ("isNil(result)", 0.0, False),
        ("isInf(result)", float("inf"), True),
        ("isInf(result)", 1.0, False),
        ("len(result) == 2", [1.0, 2.0], True),
        ("asInt(result) == 2", 2.9, True),
        ("asFloat(result) == 2.5", "2.5", True),
        ("default(result, 7) == 7", None, True),
        ("default(result, 7) == 7", [], True),
        ("default(result, 7) == 7", float("nan"), True),
        ("default(result, 7) == 7", 8.0, False),
        ("default(result, 7) == 8", 8.0, True),
        ("default(result, 7) == 8", "8", False),
        ("all(result, # > 1)", [2.0, 3.0], True),
        ("none(result, {# > 2})", [1.0, 2.0], True),
        ("none(result, {# > 2})", [1.0, 3.0], False),
        ("none(result, {# > 2})", [3.0, 4.0], False),
        ("any(result, # > result[0])", [1.0, 2.0], True),
        ("result[0] * 2 - 1 == 3 && result[1] / 2 == 1.5 && result[1] % 2 + 1 == 2", [2.0, 3.0], True),
        ("result not in [1, 2]", 3.0, None),
        ("result", True, True),
        ("result / 0 > 1", 1.0, None),
        ("asInt(result) > 1", float("inf"), None),
        ("result * 999999999 == 1", "x", None),
        ("'%999999999d' % result == 1", 1.0, None),
        ("any(result)", [1.0], None),
        ("len(result, 1) == 1", [1.0], None),
    ],
)
def test_conditions_of_every_kind(condition: str, value: Any, want: bool | None) -> None:
    if want is None:
        with pytest.raises(conditions.ConditionError):
            conditions.holds(condition, value)
    else:
        assert conditions.holds(condition, value) is want


def test_a_condition_has_a_length() -> None:
    just = "result == 1" + " " * (1000 - 11)
    assert conditions.holds(just, 1.0)
    with pytest.raises(conditions.ConditionError, match="longer than 1000 characters"):
        conditions.holds(just + " ", 1.0)


def test_a_metric_without_an_interval_is_measured_once_or_as_often_as_it_says() -> None:
    once = {"measurements": [{"phase": "Successful", "finishedAt": NOW}], "count": 1}
    assert measuring.assessed({"name": "m"}, once, False) == ("Successful", "")
    assert measuring.assessed({"name": "m", "count": 2}, once, False) == ("Running", "")
    assert measuring.assessed({"name": "m", "interval": "1m"}, once, False) == ("Running", "")
    unsaid = {"measurements": [{"phase": "Successful", "finishedAt": NOW}]}
    assert measuring.assessed({"name": "m", "count": 1}, unsaid, False) == ("Running", "")
    run = {"status": {"metricResults": [{"name": "m", **unsaid}]}}
    assert measuring.due_us(run, {"name": "m", "interval": "1m", "count": 1}, NOW_US) == NOW_US + 60_000_000


# Analyses

TEMPLATE = {"templates": [{"templateName": "t"}]}


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ({"value": 0}, "0"),
        ({"valueFrom": {"podTemplateHashValue": "Latest"}}, "new"),
        ({"valueFrom": {"podTemplateHashValue": "Stable"}}, "old"),
        ({"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, "web"),
        ({"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a.b/c']"}}}, "d"),
        ({"valueFrom": {"fieldRef": {"fieldPath": "spec.replicas"}}}, "10"),
        ({"valueFrom": {"fieldRef": {"fieldPath": "metadata.name.first"}}}, None),
        ({"valueFrom": {"fieldRef": {"fieldPath": "metadata.none"}}}, None),
        ({"valueFrom": {"fieldRef": {"fieldPath": ""}}}, None),
        ({"valueFrom": {}}, None),
        ({}, None),
    ],
)
def test_what_an_argument_is(source: Obj, want: str | None) -> None:
    store = Store(seed=1, now_us=NOW_US)
    meta = {"name": "t", "namespace": "ns"}
    spec = {"metrics": [METRIC]}
    store.create(
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "AnalysisTemplate", "metadata": meta, "spec": spec}
    )
    given = {**TEMPLATE, "args": [{"name": "x", **source}]}
    found = made({"analysis": given}, new=replica_set("new", 1), stable=replica_set("old", 1))
    found.rollout["metadata"]["labels"] = {"a.b/c": "d"}
    if want is None:
        with pytest.raises(ValueError, match=r"args\.x was not resolved"):
            analyses.analyses(store, found)
    else:
        (made_run,) = analyses.analyses(store, found).actions
        assert made_run.obj["spec"] == {"metrics": [METRIC], "args": [{"name": "x", "value": want}]}  # type: ignore[union-attr]


def test_templates_of_the_cluster_have_no_namespace() -> None:
    store = Store(seed=1, now_us=NOW_US)
    api = "argoproj.io/v1alpha1"
    spec = {"metrics": [METRIC]}
    store.create(
        {"apiVersion": api, "kind": "ClusterAnalysisTemplate", "metadata": {"name": "t"}, "spec": spec}
    )
    given = {"templates": [{"templateName": "t", "clusterScope": True}]}
    found = made({"analysis": given}, new=replica_set("new", 1), stable=replica_set("old", 1))
    assert len(analyses.analyses(store, found).actions) == 1
    with pytest.raises(ValueError, match=r'^AnalysisTemplate "t" not found$'):
        analyses.analyses(
            store, made({"analysis": TEMPLATE}, new=replica_set("n", 1), stable=replica_set("o", 1))
        )


def test_a_run_beside_the_update_begins_with_its_step_and_ends_once() -> None:
    store = Store(seed=1, now_us=NOW_US)
    api = "argoproj.io/v1alpha1"
    meta = {"name": "t", "namespace": "ns"}
    store.create(
        {"apiVersion": api, "kind": "AnalysisTemplate", "metadata": meta, "spec": {"metrics": [METRIC]}}
    )

    def asked(index: int, start: int | None, **said: Any) -> list[Any]:
        background = TEMPLATE | ({} if start is None else {"startingStep": start})
        found = made(
            {"pause": {}},
            {"analysis": TEMPLATE},
            new=replica_set("new", 1),
            stable=replica_set("old", 1),
            said={"currentStepIndex": index, **said},
            analysis=background,
        )
        return [
            a.obj["metadata"]["name"] if not isinstance(a, Patch) else (a.key.name, a.patch)  # type: ignore[union-attr]
            for a in analyses.analyses(store, found).actions
        ]

    assert asked(0, None) == ["web-new-0"]
    assert asked(0, 0) == ["web-new-0"]
    assert asked(0, 1) == []
    assert asked(1, 1) == ["web-new-0", "web-new-0-1"]
    assert asked(1, 2) == ["web-new-0-1"]
    assert asked(1, 2, pauseConditions=[PAUSE]) == []
    owner = {"apiVersion": api, "kind": "Rollout", "name": "web", "uid": "u", "controller": True}
    for name in ("web-new-0", "web-new-0-1", "web-old-0"):
        run_meta = {"name": name, "namespace": "ns", "ownerReferences": [owner]}
        store.create({"apiVersion": api, "kind": "AnalysisRun", "metadata": run_meta, "spec": {}})
    stop = {"spec": {"terminate": True}}
    assert asked(1, 1) == [("web-old-0", stop)], "those that are wanted go on"
    assert asked(0, 0) == [("web-new-0-1", stop), ("web-old-0", stop)]
    assert asked(0, 0, abort=True) == [("web-new-0", stop), ("web-new-0-1", stop), ("web-old-0", stop)]
    store.patch(Key(analyses.RUN, "ns", "web-old-0"), stop)
    store.set_status(Key(analyses.RUN, "ns", "web-new-0-1"), {"phase": "Failed"})
    assert asked(0, 0) == [], "what has ended, or was told to, is not told again"
