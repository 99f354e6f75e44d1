"""A canary step by step: what is scaled, weighed, told and waited for, on a store whose pods come as they are told."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.actions import Emit, Patch, perform
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, labels_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads.podtemplate import stable_hash
from fairway.workloads.rollouts import decide, measuring
from fairway.workloads.rollouts.facts import HASH, REVISION

START_US = parse_rfc3339("2026-01-05T08:00:00Z")
KEY = Key("Rollout.argoproj.io", "default", "web")
ROUTE = Key("HTTPRoute.gateway.networking.k8s.io", "default", "route")
RUN = "AnalysisRun.argoproj.io"
ROUTED = {
    "canaryService": "canary",
    "stableService": "stable",
    "trafficRouting": {
        "plugins": {"argoproj-labs/gatewayAPI": {"httpRoute": "route", "namespace": "default"}}
    },
}
STEPS = [{"setWeight": 20}, {"pause": {"duration": "10m"}}, {"setWeight": 50}, {"pause": {}}]


def template(image: str) -> Obj:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def named(kind: str, api: str, name: str, **fields: Any) -> Obj:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default"}, **fields}


class World:
    """A Rollout of ten pods that is there since its creation. `hold`: images whose pods never become available."""

    def __init__(self, steps: list[Obj] | None = None, replicas: int = 10, **canary: Any) -> None:
        self.store = Store(now_us=START_US)
        self.told: list[str] = []
        self.hold: set[str] = set()
        for name in ("canary", "stable"):
            self.store.create(named("Service", "v1", name, spec={"selector": {"app": "web"}}))
        rules = [{"backendRefs": [{"name": n, "port": 80} for n in ("canary", "stable", "other")]}, {}]
        self.store.create(named("HTTPRoute", "gateway.networking.k8s.io/v1", "route", spec={"rules": rules}))
        body = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("v1"),
            "strategy": {"canary": {"steps": STEPS if steps is None else steps, **canary}},
        }
        self.store.create(named("Rollout", "argoproj.io/v1alpha1", "web", spec=body))
        self.again_us: int | None = None
        self.settle()
        self.first_told, self.told = self.told, []

    def settle(self) -> World:
        for _ in range(200):
            before = self.store.version
            look = decide.reconcile(self.store, KEY, self.store.now_us)
            for action in look.actions:
                if isinstance(action, Emit):
                    self.told.append(f"{action.reason}: {action.message}")
                else:
                    perform(self.store, action)
            self.again_us = look.again_at_us
            for one in self.store.objects("ReplicaSet.apps", "default"):
                there = one["spec"]["replicas"]
                image = one["spec"]["template"]["spec"]["containers"][0]["image"]
                up = 0 if image in self.hold else there
                status = {"replicas": there, "readyReplicas": up, "availableReplicas": up}
                if one.get("status") != status:
                    self.store.set_status(Key("ReplicaSet.apps", "default", one["metadata"]["name"]), status)
            if self.store.version == before:
                return self
        raise AssertionError(f"does not settle: {self.told[-5:]}")

    def after(self, seconds: int) -> World:
        self.store.now_us += seconds * SECOND_US
        return self.settle()

    def image(self, image: str) -> World:
        self.store.patch(KEY, {"spec": {"template": template(image)}})
        return self.settle()

    def write(self, **status: Any) -> World:
        self.store.set_status(KEY, {**self.status, **status})
        return self.settle()

    @property
    def status(self) -> Obj:
        found: Obj = self.store.require(KEY)["status"]
        return found

    def sizes(self) -> dict[str, int]:
        sets = self.store.objects("ReplicaSet.apps", "default")
        return {s["spec"]["template"]["spec"]["containers"][0]["image"]: s["spec"]["replicas"] for s in sets}

    def hash(self, image: str) -> str:
        return stable_hash(template(image))

    def weights(self) -> list[Any]:
        (rule, empty) = self.store.require(ROUTE)["spec"]["rules"]
        assert empty == {}
        return [b.get("weight") for b in rule["backendRefs"]]

    def leads_to(self) -> list[str | None]:
        services = (self.store.require(Key("Service", "default", n)) for n in ("canary", "stable"))
        return [s["spec"]["selector"].get(HASH) for s in services]

    def take(self) -> list[str]:
        told, self.told = self.told, []
        return told

    def conditions(self) -> dict[str, tuple[str, str]]:
        return {c["type"]: (c["status"], c["reason"]) for c in self.status["conditions"]}


def test_the_first_version_meets_no_steps() -> None:
    world = World()
    v1 = world.hash("v1")
    assert world.first_told == [
        "RolloutUpdated: Rollout updated to revision 1",
        f"NewReplicaSetCreated: Created ReplicaSet web-{v1} (revision 1)",
        f"ScalingReplicaSet: Scaled up ReplicaSet web-{v1} (revision 1) from 0 to 10",
        f"RolloutCompleted: Rollout completed update to revision 1 ({v1}): Initial deploy",
    ]
    status = {k: v for k, v in world.status.items() if k != "conditions"}
    assert status == {
        "currentPodHash": v1,
        "currentStepHash": stable_hash(STEPS),
        "currentStepIndex": 4,
        "stableRS": v1,
        "phase": "Healthy",
        "replicas": 10,
        "updatedReplicas": 10,
        "readyReplicas": 10,
        "availableReplicas": 10,
        "HPAReplicas": 10,
        "selector": "app=web",
        "observedGeneration": str(world.store.require(KEY)["metadata"]["generation"]),
    }
    assert world.conditions() == {
        "Available": ("True", "AvailableReason"),
        "Healthy": ("True", "RolloutHealthy"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    made = world.store.objects("ReplicaSet.apps", "default")[0]
    assert made["metadata"]["annotations"] == {REVISION: "1"}
    assert labels_of(made) == {"app": "web", HASH: v1}
    assert made["spec"]["selector"] == {"matchLabels": {"app": "web", HASH: v1}}
    assert made["metadata"]["ownerReferences"][0]["name"] == "web"


def test_a_canary_without_a_router_goes_by_its_pods() -> None:
    world = World(maxSurge=1, maxUnavailable=0).image("v2")
    v1, v2 = world.hash("v1"), world.hash("v2")
    assert world.sizes() == {"v1": 8, "v2": 2}
    told = world.take()
    assert told[:2] == [
        "RolloutUpdated: Rollout updated to revision 2",
        f"NewReplicaSetCreated: Created ReplicaSet web-{v2} (revision 2)",
    ]
    assert told[-1] == "RolloutStepCompleted: Rollout step 1/4 completed (setWeight: 20)"
    assert f"ScalingReplicaSet: Scaled down ReplicaSet web-{v1} (revision 1) from 10 to 9" in told
    assert (world.status["phase"], world.status["currentStepIndex"]) == ("Paused", 1)
    assert world.status["message"] == "CanaryPauseStep"
    assert world.status["pauseConditions"] == [{"reason": "CanaryPauseStep", "startTime": rfc3339(START_US)}]
    assert world.status["controllerPause"] is True
    assert world.conditions() == {
        "Available": ("True", "AvailableReason"),
        "Healthy": ("False", "RolloutHealthy"),
        "Progressing": ("Unknown", "RolloutPaused"),
        "Paused": ("True", "RolloutPaused"),
    }
    assert world.again_us == START_US + 600 * SECOND_US
    world.after(599)
    assert world.take() == []
    world.after(1)
    told = world.take()
    assert told[0] == "RolloutStepCompleted: Rollout step 2/4 completed (pause: 10m)"
    assert told[-1] == "RolloutStepCompleted: Rollout step 3/4 completed (setWeight: 50)"
    assert world.sizes() == {"v1": 5, "v2": 5}
    assert (world.status["currentStepIndex"], world.again_us) == (3, None)
    world.after(100_000)
    assert world.take() == [], "a pause without a duration waits for people"
    world.write(pauseConditions=[])
    told = world.take()
    assert told[0] == "RolloutStepCompleted: Rollout step 4/4 completed (pause)"
    assert (
        told[-1]
        == f"RolloutCompleted: Rollout completed update to revision 2 ({v2}): Completed all canary steps"
    )
    assert world.sizes() == {"v1": 0, "v2": 10}
    assert (world.status["phase"], world.status["stableRS"], world.status["controllerPause"]) == (
        "Healthy",
        v2,
        False,
    )
    assert "pauseConditions" not in world.status
    assert "message" not in world.status


@pytest.mark.parametrize("duration", ["30", 30, "30s"])
def test_a_pause_is_in_seconds_unless_it_says(duration: Any) -> None:
    world = World([{"setWeight": 50}, {"pause": {"duration": duration}}], maxSurge=1).image("v2")
    assert world.again_us == START_US + 30 * SECOND_US
    assert world.after(29).status["phase"] == "Paused"
    assert world.after(1).status["phase"] == "Healthy"


def test_with_a_router_weights_move_with_the_steps() -> None:
    world = World(**ROUTED)
    v1, v2 = world.hash("v1"), world.hash("v2")
    assert world.leads_to() == [v1, v1]
    assert world.weights() == [0, 100, None]
    world.image("v2")
    assert world.sizes() == {"v1": 10, "v2": 2}
    assert world.weights() == [20, 80, None]
    assert world.leads_to() == [v2, v1]
    assert world.status["canary"]["weights"] == {
        "canary": {"weight": 20, "podTemplateHash": v2, "serviceName": "canary"},
        "stable": {"weight": 80, "podTemplateHash": v1, "serviceName": "stable"},
    }
    world.after(600)
    assert (world.sizes(), world.weights()) == ({"v1": 10, "v2": 5}, [50, 50, None])
    world.write(pauseConditions=[])
    assert world.status["stableRS"] == v2
    assert world.weights() == [0, 100, None]
    assert world.leads_to() == [v2, v2]
    assert world.sizes() == {"v1": 10, "v2": 10}, "the former version stays for a while"
    assert world.again_us == START_US + (600 + 30) * SECOND_US
    assert world.after(29).sizes()["v1"] == 10
    assert world.after(1).sizes() == {"v1": 0, "v2": 10}


@pytest.mark.parametrize(("delay", "stays"), [(0, 0), (None, 30), (7, 7)])
def test_how_long_the_former_version_stays(delay: int | None, stays: int) -> None:
    more = {} if delay is None else {"scaleDownDelaySeconds": delay}
    world = World([], **ROUTED, **more).image("v2")
    if stays:
        assert world.sizes() == {"v1": 10, "v2": 10}
        assert world.after(stays - 1).sizes()["v1"] == 10
        world.after(1)
    assert world.sizes() == {"v1": 0, "v2": 10}


def test_a_canary_whose_pods_do_not_come_gets_no_traffic() -> None:
    world = World(**ROUTED)
    world.hold.add("v2")
    world.image("v2")
    assert (world.sizes(), world.weights()) == ({"v1": 10, "v2": 2}, [0, 100, None])
    assert world.leads_to() == [world.hash("v1")] * 2
    assert (world.status["phase"], world.status["message"]) == (
        "Progressing",
        "updated replicas are still becoming available",
    )
    world.hold.clear()
    world.settle()
    assert world.weights() == [20, 80, None]


def test_an_abort_takes_everything_back_and_a_retry_starts_over() -> None:
    for routing in ({}, ROUTED):
        world = World(maxSurge=1, maxUnavailable=0, **routing).image("v2")
        world.take()
        at = rfc3339(world.store.now_us)
        world.write(abort=True, abortedAt=at)
        assert (world.status["currentStepIndex"], world.status["phase"]) == (0, "Degraded")
        assert world.status["message"] == "RolloutAborted: Rollout aborted update to revision 2"
        assert world.conditions()["Progressing"] == ("False", "RolloutAborted")
        assert world.status["controllerPause"] is False
        assert "pauseConditions" not in world.status
        if routing:
            assert world.weights() == [0, 100, None]
            assert world.leads_to() == [world.hash("v1")] * 2
            assert world.sizes() == {"v1": 10, "v2": 2}
            assert world.again_us == START_US + 30 * SECOND_US
            world.after(29)
            assert world.sizes()["v2"] == 2
            world.after(1)
        assert world.sizes() == {"v1": 10, "v2": 0}
        world.write(abort=False)
        assert world.sizes()["v2"] == 2


def test_who_aborts_by_hand_writes_no_time_and_may_abort_again() -> None:
    world = World(**ROUTED, abortScaleDownDelaySeconds=5).image("v2")
    for _ in range(2):
        world.write(abort=True)
        assert world.status["abortedAt"] == rfc3339(world.store.now_us)
        assert (world.after(4).sizes()["v2"], world.after(1).sizes()["v2"]) == (2, 0)
        world.write(abort=False)
        assert "abortedAt" not in world.status
        assert world.sizes()["v2"] == 2


@pytest.mark.parametrize(("delay", "stays"), [(0, None), (5, 5)])
def test_how_long_an_aborted_canary_stays(delay: int, stays: int | None) -> None:
    world = World(**ROUTED, abortScaleDownDelaySeconds=delay).image("v2")
    world.write(abort=True, abortedAt=rfc3339(world.store.now_us))
    world.after(4)
    assert world.sizes()["v2"] == 2
    world.after(1)
    assert world.sizes()["v2"] == (0 if stays else 2), "0 means for ever"
    assert world.after(10_000).sizes()["v2"] == (0 if stays else 2)


def test_another_version_in_between_starts_over_and_the_one_before_goes() -> None:
    world = World(maxSurge=1, maxUnavailable=0).image("v2")
    world.image("v3")
    assert world.sizes() == {"v1": 8, "v2": 0, "v3": 2}
    assert world.status["currentStepIndex"] == 1
    assert world.store.require(KEY)["metadata"]["annotations"][REVISION] == "3"
    world.take()
    world.image("v1")
    told = world.take()
    assert "SkipSteps: Rollback to stable ReplicaSets" in told
    assert world.sizes() == {"v1": 10, "v2": 0, "v3": 0}
    assert (world.status["phase"], world.status["currentStepIndex"]) == ("Healthy", 4)
    again = next(s for s in world.store.objects("ReplicaSet.apps", "default") if s["spec"]["replicas"])
    assert again["metadata"]["annotations"][REVISION] == "4", "a version gone back to is the latest"


def test_changed_steps_start_over_with_the_same_version() -> None:
    world = World()
    world.store.patch(KEY, {"spec": {"strategy": {"canary": {"steps": [{"setWeight": 1}]}}}})
    world.settle()
    assert (world.status["currentStepIndex"], world.status["phase"]) == (1, "Healthy")
    assert world.store.require(KEY)["metadata"]["annotations"][REVISION] == "1"


def test_promoting_fully_skips_what_is_left() -> None:
    world = World(maxSurge=1, maxUnavailable=0).image("v2")
    world.write(promoteFull=True, pauseConditions=None, controllerPause=False)
    assert world.sizes() == {"v1": 0, "v2": 10}
    assert "promoteFull" not in world.status
    assert world.status["stableRS"] == world.hash("v2")


def test_a_rollout_that_people_paused_goes_no_further() -> None:
    world = World(maxSurge=1, maxUnavailable=0)
    world.store.patch(KEY, {"spec": {"paused": True}})
    world.settle()
    assert (world.status["phase"], world.status["message"]) == ("Paused", "manually paused")
    world.image("v2")
    assert world.status["currentStepIndex"] == 0
    world.store.patch(KEY, {"spec": {"paused": False}})
    world.settle()
    assert world.status["currentStepIndex"] == 1


def test_who_is_looked_at() -> None:
    world = World(**ROUTED)
    rollout = world.store.require(KEY)
    from fairway.cluster.changes import MODIFIED, Change

    def keys(gk: str, obj: Obj, old: Obj | None = None) -> list[Key]:
        key = Key(gk, "default", obj["metadata"]["name"])
        return list(decide.map_change(world.store, Change(1, MODIFIED, key, obj, old)))

    other = {**rollout, "metadata": {**rollout["metadata"], "name": "x"}}
    assert keys("Service", {"metadata": {"name": "canary"}}) == [KEY]
    assert keys("Service", {"metadata": {"name": "else"}}) == []
    assert keys(ROUTE.gk, {"metadata": {"name": "any"}}) == [KEY]
    assert keys(KEY.gk, rollout, rollout) == []
    for field in (
        "abort",
        "promoteFull",
        "pauseConditions",
        "currentStepIndex",
        "currentPodHash",
        "stableRS",
    ):
        assert keys(KEY.gk, rollout, {**rollout, "status": {**rollout["status"], field: "?"}}) == [KEY], field
    assert keys(KEY.gk, rollout, {**rollout, "status": {**rollout["status"], "replicas": 3}}) == []
    made = world.store.objects("ReplicaSet.apps", "default")[0]
    assert keys("ReplicaSet.apps", made, made) == [KEY]
    assert keys("ReplicaSet.apps", other) == []
    for spec in ({"strategy": {"blueGreen": {}}, "template": {}}, {"strategy": {"canary": {}}}):
        bare = Store()
        bare.create(named("Rollout", "argoproj.io/v1alpha1", "web", spec=spec))
        assert decide.reconcile(bare, KEY, 0).actions == ()
    assert decide.reconcile(Store(), KEY, 0).actions == ()


# Analyses.

METRIC = {"name": "errors", "interval": "1m", "successCondition": "result < 1", "provider": {}}


def analysis(name: str, args: list[Obj] | None = None) -> Obj:
    spec = {"metrics": [{**METRIC, "name": name}], "args": args or []}
    return named("AnalysisTemplate", "argoproj.io/v1alpha1", name, spec=spec)


def with_analyses(steps: list[Obj], background: Obj | None = None, *templates: Obj) -> World:
    world = World(steps, maxSurge=1, maxUnavailable=0, **({"analysis": background} if background else {}))
    for one in templates or (analysis("errors"),):
        world.store.create(one)
    return world.image("v2")


def runs(world: World) -> dict[str, Obj]:
    return {r["metadata"]["name"]: r for r in world.store.objects(RUN, "default")}


def end(world: World, name: str, phase: str, message: str = "") -> None:
    said = {"phase": phase, **({"message": message} if message else {})}
    world.store.set_status(Key(RUN, "default", name), said)
    world.settle()


TEMPLATES = {"templates": [{"templateName": "errors"}]}


def test_a_step_waits_for_its_analysis() -> None:
    for phase, index, overall in (("Running", 1, "Progressing"), ("Successful", 2, "Healthy")):
        world = with_analyses([{"setWeight": 50}, {"analysis": TEMPLATES}])
        v2 = world.hash("v2")
        name = f"web-{v2}-2-1"
        run = runs(world)[name]
        assert labels_of(run) == {"app": "web", HASH: v2, "rollout-type": "Step", "step-index": "1"}
        assert run["metadata"]["annotations"] == {REVISION: "2"}
        assert run["spec"] == {"metrics": [METRIC], "args": []}
        world.take()
        end(world, name, phase)
        assert (world.status["currentStepIndex"], world.status["phase"]) == (index, overall)
        if phase == "Running":
            assert world.status["canary"] == {
                "currentStepAnalysisRunStatus": {"name": name, "status": "Running"}
            }
        else:
            assert world.take()[0] == "RolloutStepCompleted: Rollout step 2/2 completed (analysis)"


@pytest.mark.parametrize("message", ["", "too many errors"])
@pytest.mark.parametrize("phase", ["Failed", "Error"])
def test_a_bad_analysis_aborts(phase: str, message: str) -> None:
    world = with_analyses([{"setWeight": 50}, {"analysis": TEMPLATES}])
    world.take()
    end(world, f"web-{world.hash('v2')}-2-1", phase, message)
    why = "Rollout aborted update to revision 2: Step-based analysis phase error/failed"
    why += f": {message}" if message else ""
    assert world.take()[0] == f"RolloutAborted: {why}"
    assert world.status["abort"] is True
    assert world.status["abortedAt"] == rfc3339(START_US)
    assert (world.status["phase"], world.status["message"]) == ("Degraded", f"RolloutAborted: {why}")
    assert world.sizes() == {"v1": 10, "v2": 0}


def test_an_unsure_analysis_waits_for_people() -> None:
    world = with_analyses([{"setWeight": 50}, {"analysis": TEMPLATES}])
    end(world, f"web-{world.hash('v2')}-2-1", "Inconclusive", "who knows")
    assert (world.status["phase"], world.status["message"]) == ("Paused", "InconclusiveAnalysisRun")
    assert [p["reason"] for p in world.status["pauseConditions"]] == ["InconclusiveAnalysisRun"]
    assert world.status["canary"]["currentStepAnalysisRunStatus"]["message"] == "who knows"


def test_a_background_analysis_runs_from_its_step_to_the_end() -> None:
    world = with_analyses(STEPS, {**TEMPLATES, "startingStep": 2})
    assert runs(world) == {}
    world.after(600)
    name = f"web-{world.hash('v2')}-2"
    assert list(runs(world)) == [name]
    assert labels_of(runs(world)[name])["rollout-type"] == "Background"
    assert "step-index" not in labels_of(runs(world)[name])
    assert world.status["canary"]["currentBackgroundAnalysisRunStatus"] == {"name": name, "status": ""}
    world.write(pauseConditions=[])
    assert runs(world)[name]["spec"]["terminate"] is True, "what is not needed any more is ended"
    failed = with_analyses(STEPS, TEMPLATES)
    failed.take()
    end(failed, name, "Failed")
    assert failed.take()[0].endswith("Background analysis phase error/failed")


def test_arguments_come_from_values_hashes_and_fields() -> None:
    args = [
        {"name": "a"},
        {"name": "b", "value": "of the template"},
        {"name": "c"},
        {"name": "d"},
        {"name": "e"},
    ]
    given = {
        **TEMPLATES,
        "args": [
            {"name": "a", "value": 7},
            {"name": "c", "valueFrom": {"podTemplateHashValue": "Latest"}},
            {"name": "d", "valueFrom": {"podTemplateHashValue": "Stable"}},
            {"name": "e", "valueFrom": {"fieldRef": {"fieldPath": "spec.selector.matchLabels['app']"}}},
        ],
    }
    world = with_analyses([{"setWeight": 50}, {"analysis": given}], None, analysis("errors", args))
    run = runs(world)[f"web-{world.hash('v2')}-2-1"]
    assert {a["name"]: a["value"] for a in run["spec"]["args"]} == {
        "a": "7",
        "b": "of the template",
        "c": world.hash("v2"),
        "d": world.hash("v1"),
        "e": "web",
    }
    missing = with_analyses([{"setWeight": 50}, {"analysis": TEMPLATES}], None, analysis("errors", args))
    assert (missing.status["phase"], missing.status["message"]) == (
        "Degraded",
        "InvalidSpec: args.a was not resolved",
    )
    nowhere = with_analyses([{"setWeight": 50}, {"analysis": {"templates": [{"templateName": "x"}]}}])
    assert nowhere.status["message"] == 'InvalidSpec: AnalysisTemplate "x" not found'
    cluster = {"templates": [{"templateName": "x", "clusterScope": True}]}
    elsewhere = with_analyses([{"setWeight": 50}, {"analysis": cluster}])
    assert elsewhere.status["message"] == 'InvalidSpec: ClusterAnalysisTemplate "x" not found'


def a_run(result: Obj | None = None, **status: Any) -> Obj:
    results = [] if result is None else [{"name": "errors", **result}]
    return {"spec": {"metrics": [METRIC]}, "status": {**status, "metricResults": results}}


def at(seconds: int) -> int:
    return START_US + seconds * SECOND_US


def measured(seconds: int, phase: str = "Successful") -> Obj:
    return {"phase": phase, "finishedAt": rfc3339(at(seconds))}


@pytest.mark.parametrize(
    ("metric", "result", "want"),
    [
        ({}, None, 0),
        ({"initialDelay": "30s"}, None, 30),
        ({}, {"phase": "Failed"}, None),
        ({}, {"phase": "Successful", "measurements": [measured(5)]}, None),
        ({"interval": None}, {"measurements": [measured(5)]}, None),
        ({"interval": None, "count": 2}, {"count": 1, "measurements": [measured(5)]}, None),
        ({}, {"count": 1, "measurements": [measured(5)]}, 65),
        ({"count": 2}, {"count": 1, "measurements": [measured(0), measured(5)]}, 65),
        ({"count": 2}, {"count": 2, "measurements": [measured(5)]}, None),
        ({"count": 2}, {"count": 2, "measurements": [measured(5, "Error")]}, 15),
    ],
)
def test_when_a_metric_is_due(metric: Obj, result: Obj | None, want: int | None) -> None:
    run = a_run(result, startedAt=rfc3339(START_US))
    found = measuring.due_us(run, {**METRIC, **metric}, at(99))
    assert found == (None if want is None else at(want))
    if result is None:
        assert measuring.due_us({"spec": {}}, METRIC, at(99)) == at(99)


@pytest.mark.parametrize(
    ("conditions", "value", "phase"),
    [
        ({}, 5, "Successful"),
        ({"successCondition": "result < 1"}, 0, "Successful"),
        ({"successCondition": "result < 1"}, 1, "Failed"),
        ({"failureCondition": "result > 1"}, 2, "Failed"),
        ({"failureCondition": "result > 1"}, 1, "Successful"),
        ({"successCondition": "result < 1", "failureCondition": "result > 2"}, 1, "Inconclusive"),
        ({"successCondition": "result < 1", "failureCondition": "result > 2"}, 3, "Failed"),
        ({"successCondition": "result < 5", "failureCondition": "result > 2"}, 3, "Failed"),
        ({"successCondition": "result < {{args.most}}"}, 6, "Successful"),
        ({"successCondition": "result < {{ args.none }}"}, 6, "Error"),
        ({}, ValueError("no"), "Error"),
    ],
)
def test_what_a_measurement_is(conditions: Obj, value: Any, phase: str) -> None:
    found = measuring.measured({"name": "m", **conditions}, value, {"most": "7"}, START_US)
    assert found["phase"] == phase
    assert found["startedAt"] == found["finishedAt"] == rfc3339(START_US)
    if phase != "Error":
        assert found["value"] == str(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [([0.5, 2.0], "[0.5,2]"), (float("nan"), "NaN"), (3, "3"), (0.1, "0.1")],
)
def test_values_as_they_are_written(value: Any, text: str) -> None:
    assert measuring.text_of(value) == text


def test_counts_of_measurements() -> None:
    found: Obj = {"name": "m"}
    for i, phase in enumerate(
        ["Successful", "Successful", "Error", "Error", "Failed", "Inconclusive", *["Successful"] * 6]
    ):
        found = measuring.with_measurement(found, {"phase": phase, "n": i})
    assert {k: v for k, v in found.items() if k not in ("name", "measurements")} == {
        "successful": 8,
        "failed": 1,
        "inconclusive": 1,
        "error": 2,
        "count": 10,
        "consecutiveError": 0,
        "consecutiveSuccess": 6,
    }
    assert [m["n"] for m in found["measurements"]] == list(range(2, 12)), "the last ten are kept"


@pytest.mark.parametrize(
    ("metric", "result", "is_ending", "want"),
    [
        ({}, {}, False, ("Pending", "")),
        ({}, {}, True, ("Successful", "")),
        ({}, {"count": 1}, False, ("Running", "")),
        ({}, {"count": 1}, True, ("Successful", "")),
        ({"count": 1}, {"count": 1}, False, ("Successful", "")),
        ({"count": 2}, {"count": 1}, False, ("Running", "")),
        ({}, {"failed": 1}, False, ("Failed", "failed (1) > failureLimit (0)")),
        ({"failureLimit": 1}, {"failed": 1}, False, ("Running", "")),
        ({"failureLimit": -1}, {"failed": 9}, False, ("Running", "")),
        ({}, {"inconclusive": 1}, False, ("Inconclusive", "inconclusive (1) > inconclusiveLimit (0)")),
        ({"inconclusiveLimit": 1}, {"inconclusive": 1}, False, ("Running", "")),
        ({}, {"consecutiveError": 4}, False, ("Running", "")),
        ({}, {"consecutiveError": 5}, False, ("Error", "consecutiveErrors (5) > consecutiveErrorLimit (4)")),
        (
            {"consecutiveErrorLimit": 0},
            {"consecutiveError": 1},
            False,
            ("Error", "consecutiveErrors (1) > consecutiveErrorLimit (0)"),
        ),
        ({}, {"phase": "Failed", "failed": 1}, False, ("Failed", "failed (1) > failureLimit (0)")),
    ],
)
def test_what_a_metric_comes_to(metric: Obj, result: Obj, is_ending: bool, want: tuple[str, str]) -> None:
    given = {**METRIC, **metric}
    measured_ = [{"phase": "Successful"}] if result else []
    assert measuring.assessed(given, {"measurements": measured_, **result}, is_ending) == want


def test_the_worst_metric_decides_and_the_others_end() -> None:
    names = ("a", "b", "c")
    run = {"spec": {"metrics": [{**METRIC, "name": n, "count": 2} for n in names]}}
    done, running = {"count": 2, "measurements": [{}]}, {"count": 1, "measurements": [{}]}
    bad = {"failed": 1, "measurements": [{"message": "boom"}]}
    status = measuring.status_of_run(run, {"a": done, "b": running}, START_US)
    assert (status["phase"], "completedAt" in status) == ("Running", False)
    assert status["runSummary"] == {"count": 3, "successful": 1, "failed": 0, "inconclusive": 0, "error": 0}
    complete = measuring.status_of_run(run, dict.fromkeys(names, done), START_US)
    assert (complete["phase"], complete["completedAt"]) == ("Successful", rfc3339(START_US))
    assert "message" not in complete
    failed = measuring.status_of_run(run, {"a": done, "b": bad, "c": running}, START_US)
    assert failed["phase"] == "Failed"
    assert failed["message"] == (
        'Metric "b" assessed Failed due to failed (1) > failureLimit (0): "Error Message: boom"'
    )
    again = {**run, "status": {"startedAt": "then", "completedAt": "later"}}
    kept = measuring.status_of_run(again, dict.fromkeys(names, done), START_US)
    assert (kept["startedAt"], kept["completedAt"]) == ("then", "later")
    told = {**run, "spec": {**run["spec"], "terminate": True}}
    ended = measuring.status_of_run(told, {"a": running}, START_US)
    assert (ended["phase"], ended["message"]) == ("Successful", "Run Terminated")


def test_patches_touch_only_what_changes() -> None:
    """Nothing is written twice: a settled Rollout has nothing to do."""
    for canary in ({}, ROUTED):
        world = World(**canary)
        look = decide.reconcile(world.store, KEY, world.store.now_us)
        assert [a for a in look.actions if isinstance(a, Patch)] == []
        assert look.actions == ()
