"""What an InferenceService says of its parts, and a Rollout of its traffic and its measurements: small tables.

Source: kserve pkg/apis/serving/v1beta1/inference_service_status.go; argo-rollouts utils/{evaluate,conditions},
rollout/trafficrouting.go; expr-lang builtins.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339, rfc3339
from fairway.workloads.kserve.status import Component, status_of_service
from fairway.workloads.rollouts.conditions import ConditionError, holds
from fairway.workloads.rollouts.counts import is_at_wanted
from fairway.workloads.rollouts.facts import Facts
from fairway.workloads.rollouts.traffic import wanted_weight, weights_status

NOW = parse_rfc3339("2026-01-05T08:00:00Z")


def said_by(type_: str, status: str, **more: Any) -> Obj:
    return {
        "type": type_,
        "status": status,
        "reason": f"{type_}{status}",
        "message": f"{type_} is {status}",
        **more,
    }


class World:
    def __init__(self) -> None:
        self.store = Store(seed=1, now_us=NOW)

    def make(self, api: str, kind: str, name: str, status: Obj, **meta: Any) -> None:
        self.store.create(
            {
                "apiVersion": api,
                "kind": kind,
                "metadata": {"name": name, "namespace": "ns", **meta},
                "spec": {"containers": []},
            }
        )
        group = api.rpartition("/")[0]
        self.store.set_status(Key(f"{kind}.{group}" if group else kind, "ns", name), status)

    def status(self, mode: str, before: Obj | None = None, parts: tuple[str, ...] = ("predictor",)) -> Obj:
        isvc = {"metadata": {"name": "m", "namespace": "ns"}, "status": before or {}}
        components = [Component(name, f"m-{name}") for name in parts]
        return status_of_service(self.store, isvc, mode, components, None, None, rfc3339(NOW))


def condition(status: Obj, type_: str) -> tuple[str, str]:
    found = next(c for c in status["conditions"] if c["type"] == type_)
    return found["status"], found.get("reason", "")


STATES = (None, "True", "False")


@pytest.mark.parametrize(("available", "progressing"), list(product(STATES, STATES)))
@pytest.mark.parametrize("why", ["NewReplicaSetAvailable", "ReplicaSetUpdated"])
@pytest.mark.parametrize("refused", STATES)
def test_a_deployment_says_whether_its_component_is_ready(
    available: str | None, progressing: str | None, why: str, refused: str | None
) -> None:
    world = World()
    conditions = [said_by("Available", available)] if available else []
    conditions += [said_by("Progressing", progressing, reason=why)] if progressing else []
    conditions += [said_by("ReplicaFailure", refused)] if refused else []
    world.make("apps/v1", "Deployment", "m-predictor", {"conditions": conditions, "observedGeneration": 4})
    status = world.status("Standard")
    if refused == "True":
        want = ("False", "ReplicaFailureTrue")
    elif available == "False":
        want = ("False", "AvailableFalse")
    elif progressing == "False":
        want = ("False", why)
    elif progressing == "True" and why == "NewReplicaSetAvailable":
        want = ("True", why)
    elif available == "True":
        want = ("True", "AvailableTrue")
    elif progressing == "True":
        want = ("Unknown", why)
    else:
        want = ("False", "")
    assert condition(status, "PredictorReady") == want
    is_ready = want[0] == "True"
    assert condition(status, "IngressReady") == (
        ("True", "") if is_ready else ("False", "Predictor ingress not created")
    )
    assert condition(status, "Stopped") == ("False", "")
    assert status["observedGeneration"] == 4
    assert status["deploymentMode"] == "Standard"
    assert ("url" in status) is is_ready
    if is_ready:
        assert status["url"] == "http://m-ns.example.com"
        assert status["address"] == {"url": "http://m-predictor.ns.svc.cluster.local"}
        assert status["components"]["predictor"] == {"url": "http://m-predictor-ns.example.com"}


@pytest.mark.parametrize(("predictor", "transformer"), list(product(("True", "False"), repeat=2)))
def test_with_a_transformer_both_have_to_be_ready_and_it_is_the_way_in(
    predictor: str, transformer: str
) -> None:
    world = World()
    for name, state in (("m-predictor", predictor), ("m-transformer", transformer)):
        world.make("apps/v1", "Deployment", name, {"conditions": [said_by("Available", state)]})
    status = world.status("Standard", parts=("predictor", "transformer"))
    assert condition(status, "PredictorReady")[0] == predictor
    assert condition(status, "TransformerReady")[0] == transformer
    late = "Predictor" if predictor == "False" else "Transformer"
    is_ready = (predictor, transformer) == ("True", "True")
    assert condition(status, "IngressReady") == (
        ("True", "") if is_ready else ("False", f"{late} ingress not created")
    )
    if is_ready:
        assert status["address"]["url"] == "http://m-transformer.ns.svc.cluster.local"


def targets(*given: tuple[str, int | None, bool]) -> list[Obj]:
    found = []
    for name, percent, is_latest in given:
        one: Obj = {"revisionName": name, "latestRevision": is_latest}
        found.append(one if percent is None else {**one, "percent": percent})
    return found


@pytest.mark.parametrize(
    ("was", "traffic", "want"),
    [
        ({}, targets(("new", 100, True)), ("new", None)),
        ({"latestRolledoutRevision": "old"}, targets(("new", 100, True)), ("new", "old")),
        ({"latestRolledoutRevision": "old"}, targets(("new", 10, True), ("old", 90, False)), ("old", None)),
        ({"latestRolledoutRevision": "new"}, targets(("new", 100, True)), ("new", None)),
        (
            {"latestRolledoutRevision": "new", "previousRolledoutRevision": "old"},
            targets(("new", 10, True), ("new", 90, False)),
            ("old", "old"),
        ),
        ({"latestRolledoutRevision": "new"}, targets(("new", 10, True), ("new", 90, False)), ("new", None)),
        (
            {"latestRolledoutRevision": "new", "previousRolledoutRevision": "old"},
            targets(("new", 10, True), ("old", 90, False)),
            ("new", "old"),
        ),
        (
            {"latestRolledoutRevision": "new", "previousRolledoutRevision": "old"},
            targets(("new", None, True), ("new", 100, False)),
            ("new", "old"),
        ),
        ({"latestRolledoutRevision": "old"}, targets(("other", 100, True)), ("old", None)),
        ({"latestRolledoutRevision": "old"}, targets(("new", 100, False)), ("old", None)),
        ({"latestRolledoutRevision": "old"}, [], ("old", None)),
    ],
)
@pytest.mark.parametrize("ready", ["True", "False"])
def test_which_revision_was_rolled_out_last(
    was: Obj, traffic: list[Obj], want: tuple[str, str | None], ready: str
) -> None:
    world = World()
    status = {
        "conditions": [said_by("Ready", ready), said_by("RoutesReady", "True")],
        "latestReadyRevisionName": "new",
        "latestCreatedRevisionName": "new",
        "traffic": traffic,
        "url": "http://u",
        "address": {"url": "http://a"},
    }
    world.make("serving.knative.dev/v1", "Service", "m-predictor", status)
    found = world.status("Knative", {"components": {"predictor": was}})
    part = found["components"]["predictor"]
    assert (part.get("latestRolledoutRevision"), part.get("previousRolledoutRevision")) == want
    assert (part["latestReadyRevision"], part["latestCreatedRevision"]) == ("new", "new")
    assert part.get("traffic", []) == traffic
    assert ("url" in part, "address" in part) == (ready == "True", ready == "True")
    assert condition(found, "PredictorReady")[0] == ready
    assert condition(found, "PredictorRouteReady")[0] == "True"
    assert condition(found, "PredictorConfigurationReady") == ("Unknown", "")


CRASH = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 7}}}
BROKEN = {"state": {"terminated": {"reason": "Error", "exitCode": 3}}}
RUNNING: Obj = {"state": {"running": {}}}
DONE = {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}


@pytest.mark.parametrize(
    ("fetching", "serving", "name", "want", "exit_code"),
    [
        (None, None, "kserve-container", "Pending", None),
        (RUNNING, None, "kserve-container", "Loading", None),
        (DONE, RUNNING, "kserve-container", "Pending", None),
        (BROKEN, None, "kserve-container", "FailedToLoad", 3),
        (CRASH, None, "kserve-container", "FailedToLoad", 7),
        (DONE, {"state": CRASH["state"]}, "kserve-container", "FailedToLoad", 1),
        (DONE, {"state": {"waiting": {"reason": "ContainerCreating"}}}, "kserve-container", "Pending", None),
        (DONE, BROKEN, "kserve-container", "FailedToLoad", 3),
        (DONE, CRASH, "kserve-container", "FailedToLoad", 7),
        (DONE, BROKEN, "queue-proxy", "Pending", None),
    ],
)
def test_how_far_a_model_is_loaded(
    fetching: Obj | None, serving: Obj | None, name: str, want: str, exit_code: int | None
) -> None:
    world = World()
    labels = {"serving.kserve.io/inferenceservice": "m", "component": "predictor"}
    pod: Obj = {"phase": "Running"}
    if fetching is not None:
        pod["initContainerStatuses"] = [{"name": "storage-initializer", **fetching}]
    if serving is not None:
        pod["containerStatuses"] = [{"name": name, **serving}]
    world.make("v1", "Pod", "p", pod, labels=labels)
    world.make(
        "v1",
        "Pod",
        "of-another",
        {"phase": "Running", "initContainerStatuses": [{"name": "storage-initializer", **BROKEN}]},
        labels={**labels, "component": "transformer"},
    )
    failure = {"reason": "ModelLoadFailed", "exitCode": 1}
    for before in (
        {},
        {"modelStatus": {"states": {"activeModelState": "Loaded"}, "lastFailureInfo": failure}},
    ):
        model = world.status("Standard", before)["modelStatus"]
        assert model["states"]["targetModelState"] == want
        assert model["states"]["activeModelState"] == ("Loaded" if before else "")
        assert model["transitionStatus"] == (
            "BlockedByFailedLoad" if want == "FailedToLoad" else "InProgress"
        )
        assert model["copies"] == {"failedCopies": 0, "totalCopies": 0}
        if exit_code is not None:
            assert model["lastFailureInfo"] == {"reason": "ModelLoadFailed", "exitCode": exit_code}
        else:
            assert model.get("lastFailureInfo") == (failure if before else None)
    world.make("apps/v1", "Deployment", "m-predictor", {"conditions": [said_by("Available", "True")]})
    if fetching is not BROKEN and fetching is not CRASH and fetching is not RUNNING:
        assert world.status("Standard")["modelStatus"]["states"]["targetModelState"] == "Loaded"


# Rollouts


def replica_set(replicas: int, available: int | None = None) -> Obj:
    count = replicas if available is None else available
    return {"spec": {"replicas": replicas}, "status": {"replicas": count, "availableReplicas": count}}


def facts(
    new: Obj | None,
    stable: Obj | None,
    steps: list[Obj],
    status: Obj,
    others: tuple[Obj, ...] = (),
    **canary: Any,
) -> Facts:
    rollout = {
        "metadata": {"name": "r"},
        "spec": {"replicas": 4, "strategy": {"canary": {"steps": steps, **canary}}},
    }
    return Facts(
        rollout, {"stableRS": "old", "currentPodHash": "new", **status}, "new", "s", new, stable, others
    )


ROUTED: Obj = {"trafficRouting": {"plugins": {}}}
STEPS: list[Obj] = [{"setWeight": 25}, {"pause": {}}, {"setWeight": 50}]


@pytest.mark.parametrize(("index", "want"), [(0, 25), (1, 25), (2, 50), (3, 100), (9, 100)])
def test_the_weight_is_the_last_steps_and_waits_for_its_pods(index: int, want: int) -> None:
    count = -(-4 * want // 100)
    at = {"currentStepIndex": index}
    there = facts(replica_set(count), replica_set(4), STEPS, at, **ROUTED)
    assert is_at_wanted(there)
    assert wanted_weight(there) == want
    late = facts(
        replica_set(count, count - 1) if count > 1 else replica_set(2), replica_set(4), STEPS, at, **ROUTED
    )
    assert not is_at_wanted(late)
    assert wanted_weight(late) == {0: 0, 1: 25, 2: 25, 3: 50, 9: 50}[index]
    for nothing in ({"abort": True}, {"stableRS": "new"}):
        assert (
            wanted_weight(facts(replica_set(count), replica_set(4), STEPS, {**at, **nothing}, **ROUTED)) == 0
        )
    assert wanted_weight(facts(replica_set(count, 0), replica_set(4), STEPS, at, **ROUTED)) == 0
    assert wanted_weight(facts(None, replica_set(4), STEPS, at, **ROUTED)) == 0
    assert wanted_weight(facts(replica_set(count), None, STEPS, at, **ROUTED)) == 0
    full = {**at, "promoteFull": True, "canary": {"weights": {"canary": {"weight": 7}}}}
    assert wanted_weight(facts(replica_set(count), replica_set(4), STEPS, full, **ROUTED)) == 7
    assert (
        wanted_weight(facts(replica_set(count), replica_set(4), STEPS, {**at, "promoteFull": True}, **ROUTED))
        == 0
    )


def test_a_step_is_there_once_the_stable_pods_and_no_older_ones_are() -> None:
    at = {"currentStepIndex": 0}
    assert not is_at_wanted(facts(replica_set(1), replica_set(4, 3), STEPS, at, **ROUTED))
    assert not is_at_wanted(facts(replica_set(1), replica_set(3), STEPS, at, **ROUTED))
    assert not is_at_wanted(facts(replica_set(1), None, STEPS, at, **ROUTED))
    assert is_at_wanted(facts(replica_set(1), replica_set(3), STEPS, at, **ROUTED, dynamicStableScale=True))
    older = (replica_set(1),)
    assert is_at_wanted(facts(replica_set(1), replica_set(4), STEPS, at, older, **ROUTED))
    assert is_at_wanted(facts(replica_set(1), replica_set(3), STEPS, at))
    assert not is_at_wanted(facts(replica_set(1), replica_set(3), STEPS, at, older))


@pytest.mark.parametrize(
    ("scale", "want"),
    [
        ({"replicas": 3}, 3),
        ({"weight": 50}, 2),
        ({"weight": 51}, 3),
        ({"matchTrafficWeight": True}, 1),
        ({"replicas": 0}, 0),
    ],
)
def test_a_canary_may_have_other_pods_than_traffic(scale: Obj, want: int) -> None:
    steps = [{"setWeight": 25}, {"setCanaryScale": scale}]
    status = {"currentStepIndex": 1}
    for count in range(5):
        assert is_at_wanted(facts(replica_set(count), replica_set(4), steps, status, **ROUTED)) is (
            count == want
        )
    earlier = {"currentStepIndex": 0}
    assert is_at_wanted(facts(replica_set(1), replica_set(4), steps, earlier, **ROUTED))


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("stable", ["old", ""])
def test_weights_as_the_status_tells_them(named: bool, stable: str) -> None:
    services = {"canaryService": "c", "stableService": "s"} if named else {}
    given = facts(replica_set(1), replica_set(4), STEPS, {"stableRS": stable}, **services)
    canary, base = (
        {"weight": 30, "podTemplateHash": "new"},
        {"weight": 70, "podTemplateHash": stable or "new"},
    )
    more = ({"serviceName": "c"}, {"serviceName": "s"}) if named else ({}, {})
    assert weights_status(given, 30) == {"canary": canary | more[0], "stable": base | more[1]}


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("condition", "result", "want"),
    [
        ("result[0] > 1", [1.0], False),
        ("result[0] >= 1", [1.0], True),
        ("result[0] < 1", [1.0], False),
        ("result[0] <= 1", [1.0], True),
        ("result != 2 && result == 1", 1, True),
        ("result == 2 || result == 1", 1, True),
        ("!(result == 1)", 1, False),
        ("-result == -1", 1, True),
        ("result + 1 == 3", 2, True),
        ("result - 1 == 1", 2, True),
        ("result * 3 == 6", 2, True),
        ("result / 2 == 1.5", 3, True),
        ("result % 2 == 1", 3, True),
        ("len(result) == 2", [1, 2], True),
        ("len(result) == 2", [1], False),
        ("isNaN(result)", NAN, True),
        ("isNaN(result)", 1.0, False),
        ("isInf(result)", INF, True),
        ("isInf(result)", 1.0, False),
        ("isNil(result)", None, True),
        ("isNil(result)", 0, False),
        ("asInt(result) == 3", "3", True),
        ("asFloat(result) == 3.5", "3.5", True),
        ("default(result, 7) == 7", None, True),
        ("default(result, 7) == 7", [], True),
        ("default(result, 7) == 7", NAN, True),
        ("default(result, 7) == 7", 1.0, False),
        ("default(result, 7) == 7", [1], False),
        ("all(result, # > 1)", [2, 3], True),
        ("all(result, # > 1)", [2, 1], False),
        ("any(result, # > 1)", [1, 2], True),
        ("any(result, # > 1)", [1, 1], False),
        ("none(result, # > 1)", [1, 1], True),
        ("none(result, # > 1)", [1, 2], False),
        ("all(result, {# > 1})", [2, 3], True),
        ("result == true", True, True),
        ("result == false", True, False),
        ('result == "a"', "a", True),
    ],
)
def test_conditions_of_analyses(condition: str, result: Any, want: bool) -> None:
    assert holds(condition, result) is want


@pytest.mark.parametrize(
    ("condition", "result", "says"),
    [
        ("result[1] > 1", [1], "reflect: slice index out of range"),
        ("result + 1", 1, "expected bool, but got int"),
        ("unknown(result)", 1, "unknown name unknown"),
        ("all(result)", [1], "unknown name all"),
        ("other > 1", 1, "unknown: other"),
        ("result >", 1, "cannot be read"),
        ("result / 0 == 1", 1, "division by zero"),
        ("1 < result < 3", 2, "unknown"),
    ],
)
def test_conditions_that_say_nothing(condition: str, result: Any, says: str) -> None:
    with pytest.raises(ConditionError, match=says.replace("[", r"\[")):
        holds(condition, result)
