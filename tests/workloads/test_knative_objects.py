"""Knative Serving's objects, one decision at a time: what a Service, a Configuration and a Revision make and say.

Source: knative.dev/serving pkg/reconciler/{service,configuration,revision}, pkg/apis/serving/v1/*_lifecycle.go,
revision_defaults.go; knative.dev/pkg apis/condition_set.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.actions import Create, Emit, Patch, perform
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339, rfc3339
from fairway.workloads.knative import names, revisionpods, revisions, services
from fairway.workloads.knative.conditions import Conditions, condition_of, is_ready

NOW = parse_rfc3339("2026-01-05T08:00:00Z")
K, A = "serving.knative.dev/", "autoscaling.knative.dev/"
GKS = {
    "Service": names.SERVICE,
    "Configuration": names.CONFIGURATION,
    "Route": names.ROUTE,
    "Revision": names.REVISION,
    "PodAutoscaler": names.POD_AUTOSCALER,
    "Deployment": names.DEPLOYMENT,
}
RECONCILE = {
    "Service": services.reconcile_service,
    "Configuration": services.reconcile_configuration,
    "Revision": revisions.reconcile,
}


class World:
    def __init__(self) -> None:
        self.store = Store(seed=1, now_us=NOW)

    def make(
        self,
        kind: str,
        name: str,
        spec: Obj | None = None,
        owner: Obj | None = None,
        status: Obj | None = None,
        **meta: Any,
    ) -> Obj:
        api = {
            "PodAutoscaler": names.AUTOSCALER_VERSION,
            "Deployment": "apps/v1",
            "ReplicaSet": "apps/v1",
            "Pod": "v1",
        }
        if owner is not None:
            of = owner["metadata"]
            meta["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": owner["kind"],
                    "name": of["name"],
                    "uid": of["uid"],
                    "controller": True,
                }
            ]
        body = {
            "apiVersion": api.get(kind, names.VERSION),
            "kind": kind,
            "metadata": {"name": name, "namespace": "ns", **meta},
            "spec": spec or {},
        }
        made = self.store.create(body)
        gk = GKS.get(kind) or {"Pod": "Pod", "ReplicaSet": "ReplicaSet.apps"}[kind]
        if status is not None:
            self.store.set_status(Key(gk, "ns", name), status)
        return self.store.require(Key(gk, "ns", name)) if made else made

    def decide(self, kind: str, name: str = "model") -> list[Any]:
        return list(RECONCILE[kind](self.store, Key(GKS[kind], "ns", name), NOW).actions)

    def settle(self, kind: str, name: str = "model") -> list[Any]:
        """Decides and does it; the second look finds nothing left to do."""
        actions = self.decide(kind, name)
        for action in actions:
            if not isinstance(action, Emit):
                perform(self.store, action)
        return actions

    def conditions(self, kind: str, name: str = "model") -> dict[str, tuple[str, str]]:
        of = self.store.require(Key(GKS[kind], "ns", name))
        return {c["type"]: (c["status"], c.get("reason", "")) for c in of["status"]["conditions"]}


def created(actions: list[Any]) -> dict[str, Obj]:
    return {a.obj["kind"]: a.obj for a in actions if isinstance(a, Create)}


def told(actions: list[Any]) -> list[tuple[str, str]]:
    return [(a.reason, a.message) for a in actions if isinstance(a, Emit)]


def now_ready(world: World, kind: str, name: str, status: str = "True", **more: Any) -> None:
    """As its controller would say it, of the latest generation."""
    key = Key(GKS[kind], "ns", name)
    generation = world.store.require(key)["metadata"].get("generation")
    condition = {
        "type": "Ready",
        "status": status,
        **({"reason": "R", "message": "m"} if status != "True" else {}),
    }
    world.store.set_status(key, {"observedGeneration": generation, "conditions": [condition], **more})


# Services


def test_a_service_passes_on_its_marks_and_makes_a_route_once_the_configuration_is_there() -> None:
    world = World()
    notes = {"note": "1", names.LAST_APPLIED: "{}", names.ROLLOUT_DURATION: "9s"}
    service = world.make(
        "Service",
        "model",
        {"template": {"spec": {"containers": [{"image": "i"}]}}},
        labels={"a": "b"},
        annotations=notes,
    )
    first = world.settle("Service")
    made = created(first)
    assert list(made) == ["Configuration"]
    assert told(first) == [("Created", 'Created Configuration "model"')]
    uid = service["metadata"]["uid"]
    assert made["Configuration"]["metadata"]["labels"] == {
        "a": "b",
        K + "service": "model",
        K + "serviceUID": uid,
    }
    assert made["Configuration"]["metadata"]["annotations"] == {"note": "1", K + "routes": "model"}
    assert made["Configuration"]["spec"] == {"template": service["spec"]["template"]}
    second = world.settle("Service")
    route = created(second)["Route"]
    assert told(second) == [("Created", 'Created Route "model"')]
    assert route["metadata"]["labels"] == {"a": "b", K + "service": "model"}
    assert route["metadata"]["annotations"] == {"note": "1", names.ROLLOUT_DURATION: "9s"}
    assert route["spec"]["traffic"] == [
        {"latestRevision": True, "percent": 100, "configurationName": "model"}
    ]
    world.settle("Service")
    assert world.decide("Service") == []
    assert world.conditions("Service") == {
        "ConfigurationsReady": ("Unknown", "OutOfDate"),
        "RoutesReady": ("Unknown", "OutOfDate"),
        "Ready": ("Unknown", "OutOfDate"),
    }


def test_traffic_to_a_named_revision_names_no_configuration() -> None:
    service = {
        "kind": "Service",
        "metadata": {"name": "model", "namespace": "ns", "uid": "u"},
        "spec": {"traffic": [{"revisionName": "r", "percent": 20}, {"percent": 80, "tag": "t"}]},
    }
    assert services.route_for(service)["spec"]["traffic"] == [
        {"revisionName": "r", "percent": 20},
        {"percent": 80, "tag": "t", "configurationName": "model"},
    ]


def test_routes_that_others_send_to_the_configuration_stay_with_it() -> None:
    world = World()
    world.make("Configuration", "model", annotations={K + "routes": "zeta,alpha"})
    service = world.make("Service", "model", {"template": {}})
    made = services.configuration_for(world.store, service)
    assert made["metadata"]["annotations"][K + "routes"] == "alpha,model,zeta"


@pytest.mark.parametrize("kind", ["Configuration", "Route"])
@pytest.mark.parametrize("owner", ["nobody", "another"])
def test_what_somebody_else_has_under_this_name_is_left_alone(kind: str, owner: str) -> None:
    world = World()
    world.make("Service", "model", {"template": {}})
    if kind == "Route":
        world.settle("Service")
    other = world.make("Service", "other") if owner == "another" else None
    world.make(kind, "model", {"mine": 1}, other)
    actions = world.settle("Service")
    assert not created(actions)
    assert not [a for a in actions if isinstance(a, Patch)]
    if kind == "Configuration":
        assert world.conditions("Service")["ConfigurationsReady"] == ("False", "NotOwned")
        assert world.conditions("Service")["Ready"] == ("False", "NotOwned")


@pytest.mark.parametrize("what", ["labels", "annotations", "spec"])
def test_what_was_changed_by_hand_is_set_right_and_the_rest_is_kept(what: str) -> None:
    world = World()
    world.make(
        "Service",
        "model",
        {"template": {"spec": {"containers": []}}},
        labels={"a": "b"},
        annotations={"c": "d"},
    )
    for _ in range(3):
        world.settle("Service")
    key = Key(names.CONFIGURATION, "ns", "model")
    before = world.store.require(key)
    wrong: Obj = (
        {"spec": {"template": {"x": 1}}}
        if what == "spec"
        else {"metadata": {what: {"a": "z", "c": "z", "new": "1"}}}
    )
    world.store.patch(key, wrong)
    (patch,) = [a for a in world.settle("Service") if isinstance(a, Patch)]
    if what == "spec":
        assert patch.patch == {"spec": before["spec"]}
    else:
        fault = {"a": "b", "c": None} if what == "labels" else {"a": None, "c": "d"}
        assert patch.patch == {"metadata": {what: {**fault, "new": None}}}
        after = world.store.require(key)
        assert after["metadata"][what] == before["metadata"][what]


@pytest.mark.parametrize("configuration", ["True", "False", "Unknown"])
@pytest.mark.parametrize("route", ["True", "False", "Unknown"])
@pytest.mark.parametrize("sent", ["model-2", "model-1"])
def test_a_service_is_as_ready_as_its_parts_and_only_when_traffic_has_moved(
    configuration: str, route: str, sent: str
) -> None:
    world = World()
    world.make("Service", "model", {"template": {}})
    for _ in range(3):
        world.settle("Service")
    now_ready(
        world,
        "Configuration",
        "model",
        configuration,
        latestCreatedRevisionName="model-2",
        latestReadyRevisionName="model-2",
    )
    traffic = [{"revisionName": sent, "percent": 100}]
    now_ready(world, "Route", "model", route, url="http://m", address={"url": "http://a"}, traffic=traffic)
    world.settle("Service")
    found = world.conditions("Service")
    assert found["ConfigurationsReady"] == (configuration, "" if configuration == "True" else "R")
    if route == "True" and sent == "model-1":
        assert found["RoutesReady"] == ("Unknown", "TrafficNotMigrated")
    else:
        assert found["RoutesReady"] == (route, "" if route == "True" else "R")
    parts = [configuration, found["RoutesReady"][0]]
    assert found["Ready"][0] == next((s for s in ("False", "Unknown") if s in parts), "True")
    status = world.store.require(Key(names.SERVICE, "ns", "model"))["status"]
    assert (status["url"], status["address"], status["traffic"]) == ("http://m", {"url": "http://a"}, traffic)
    assert (status["latestCreatedRevisionName"], status["latestReadyRevisionName"]) == ("model-2", "model-2")


# Configurations


def configured(world: World, template: Obj | None = None, **meta: Any) -> Obj:
    return world.make(
        "Configuration", "model", {"template": template or {"spec": {"containers": [{"image": "i"}]}}}, **meta
    )


def test_a_configuration_makes_a_revision_that_bears_its_marks() -> None:
    world = World()
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"containers": [{"image": "i"}]},
    }
    labels = {K + "service": "model", K + "serviceUID": "su", "other": "no"}
    made = configured(world, template, labels=labels, annotations={K + "routes": "model"})
    actions = world.settle("Configuration")
    revision = created(actions)["Revision"]
    assert told(actions) == [("Created", 'Created Revision "model-00001"')]
    assert revision["metadata"]["name"] == "model-00001"
    assert revision["metadata"]["labels"] == {
        "a": "b",
        K + "configuration": "model",
        K + "configurationGeneration": "1",
        K + "configurationUID": made["metadata"]["uid"],
        K + "routingState": "active",
        K + "service": "model",
        K + "serviceUID": "su",
    }
    assert revision["metadata"]["annotations"] == {
        "c": "d",
        K + "routingStateModified": rfc3339(NOW),
        K + "routes": "model",
    }
    assert world.conditions("Configuration") == {"Ready": ("Unknown", "")}
    assert world.decide("Configuration") == []


def test_a_revision_no_route_leads_to_is_pending() -> None:
    world = World()
    revision = services.revision_for(configured(world), NOW)
    assert revision["metadata"]["labels"][K + "routingState"] == "pending"
    assert K + "routes" not in revision["metadata"]["annotations"]
    assert K + "service" not in revision["metadata"]["labels"]


@pytest.mark.parametrize("whose", ["ours", "another's", "nobody's"])
@pytest.mark.parametrize("generation", ["1", "7"])
@pytest.mark.parametrize("same", [True, False])
def test_a_revision_of_the_name_asked_for(whose: str, generation: str, same: bool) -> None:
    """It is taken if it is ours, and of this generation or the same in all but that."""
    world = World()
    template = {"metadata": {"name": "mine"}, "spec": {"containers": [{"image": "i"}]}}
    configuration = configured(world, template)
    spec = services.revision_for(configuration, NOW)["spec"] if same else {"containers": []}
    owner = {"ours": configuration, "another's": world.make("Configuration", "other"), "nobody's": None}[
        whose
    ]
    labels = {K + "configuration": "model", K + "configurationGeneration": generation}
    world.make("Revision", "mine", spec, owner, labels=labels)
    actions = world.settle("Configuration")
    assert not created(actions)
    is_fine = whose == "ours" and (same or generation == "1")
    assert world.conditions("Configuration")["Ready"] == (
        ("Unknown", "") if is_fine else ("False", "RevisionFailed")
    )
    status = world.store.require(Key(names.CONFIGURATION, "ns", "model"))["status"]
    assert status.get("latestCreatedRevisionName") == ("mine" if is_fine else None)


@pytest.mark.parametrize("newest", ["True", "False", "Unknown", "stale", None])
@pytest.mark.parametrize("older", ["True", "False", None])
@pytest.mark.parametrize("before", ["", "model-00001", "model-00002"])
def test_which_revision_is_the_latest_that_is_ready(
    newest: str | None, older: str | None, before: str
) -> None:
    world = World()
    configuration = configured(world)
    world.store.patch(
        Key(names.CONFIGURATION, "ns", "model"),
        {"spec": {"template": {"spec": {"containers": [{"image": "j"}]}}}},
    )
    for number, state in ((1, older), (2, newest)):
        name = f"model-0000{number}"
        labels = {K + "configuration": "model", K + "configurationGeneration": str(number)}
        world.make("Revision", name, {}, configuration, labels=labels)
        if state is not None:
            now_ready(world, "Revision", name, "True" if state == "stale" else state)
        if state == "stale":
            world.store.patch(Key(names.REVISION, "ns", name), {"spec": {"x": 1}})
    if before:
        world.store.set_status(Key(names.CONFIGURATION, "ns", "model"), {"latestReadyRevisionName": before})
    actions = world.settle("Configuration")
    status = world.store.require(Key(names.CONFIGURATION, "ns", "model"))["status"]
    assert status["latestCreatedRevisionName"] == "model-00002"
    # The newest if it is ready; else the older one, unless a newer one was ready already.
    if newest == "True":
        latest = "model-00002"
    elif older == "True" and before != "model-00002":
        latest = "model-00001"
    else:
        latest = before
    assert status.get("latestReadyRevisionName", "") == latest
    events = dict(told(actions))
    assert ("LatestReadyUpdate" in events) is (latest != before)
    is_first = newest in ("True", "stale") and not before
    assert ("ConfigurationReady" in events) is is_first
    if newest == "False":
        which = "ready" if before == "model-00002" else "created"
        assert (
            events[f"Latest{which.capitalize()}Failed"] == f'Latest {which} revision "model-00002" has failed'
        )
        assert world.conditions("Configuration")["Ready"] == ("False", "RevisionFailed")
    else:
        want = "True" if newest == "True" else "Unknown"
        assert world.conditions("Configuration")["Ready"][0] == want
    # A fault is told at every look, as upstream does; nothing is written of it.
    world.store.now_us += 5_000_000
    later = services.reconcile_configuration(
        world.store, Key(names.CONFIGURATION, "ns", "model"), world.store.now_us
    ).actions
    assert [a for a in later if not isinstance(a, Emit)] == []
    assert told(list(later)) == [] or newest in ("False", "stale")


@pytest.mark.parametrize("ready_before", ["model-00001", "model-00000", ""])
def test_ready_is_kept_while_the_newest_revision_was_the_last_that_was_ready(ready_before: str) -> None:
    world = World()
    configuration = configured(world)
    labels = {K + "configuration": "model", K + "configurationGeneration": "1"}
    world.make("Revision", "model-00001", {}, configuration, labels=labels)
    now_ready(world, "Revision", "model-00001", "Unknown")
    before = {"conditions": [{"type": "Ready", "status": "True"}], "latestReadyRevisionName": ready_before}
    world.store.set_status(Key(names.CONFIGURATION, "ns", "model"), before)
    world.settle("Configuration")
    assert world.conditions("Configuration")["Ready"][0] == (
        "True" if ready_before == "model-00001" else "Unknown"
    )


# Revisions


def revision(world: World, spec: Obj | None = None, **meta: Any) -> Obj:
    owner = world.make("Configuration", "model")
    return world.make(
        "Revision", "model", spec or {"containers": [{"name": "user-container", "image": "i"}]}, owner, **meta
    )


def brought_up(world: World, replicas: int = 1) -> tuple[Obj, Obj]:
    """A Revision's Deployment and PodAutoscaler, made."""
    world.settle("Revision")
    key = Key(names.DEPLOYMENT, "ns", "model-deployment")
    world.store.patch(key, {"spec": {"replicas": replicas}})
    return world.store.require(key), world.store.require(Key(names.POD_AUTOSCALER, "ns", "model"))


@pytest.mark.parametrize(
    ("notes", "want"),
    [
        ({}, 1),
        ({A + "initial-scale": "3"}, 3),
        ({A + "initialScale": "0"}, 0),
        ({A + "initial-scale": "x"}, 1),
    ],
)
def test_the_deployment_starts_with_the_initial_scale(notes: dict[str, str], want: int) -> None:
    world = World()
    revision(world, annotations=notes)
    made = created(world.settle("Revision"))
    assert made["Deployment"]["spec"]["replicas"] == want
    told = made["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert told["kubectl.kubernetes.io/default-container"] == "user-container"
    assert world.conditions("Revision") == {
        "Active": ("Unknown", "Deploying"),
        "ContainerHealthy": ("Unknown", "Deploying"),
        "ResourcesAvailable": ("Unknown", "Deploying"),
        "Ready": ("Unknown", "Deploying"),
    }
    status = world.store.require(Key(names.REVISION, "ns", "model"))["status"]
    assert status["containerStatuses"] == [{"name": "user-container"}]


@pytest.mark.parametrize("kind", ["Deployment", "PodAutoscaler"])
def test_a_revision_says_whose_name_it_needs(kind: str) -> None:
    world = World()
    revision(world)
    name = "model-deployment" if kind == "Deployment" else "model"
    world.make(kind, name)
    actions = world.settle("Revision")
    assert not created(actions)
    (condition,) = [
        c
        for c in world.store.require(Key(names.REVISION, "ns", "model"))["status"]["conditions"]
        if c["type"] == "ResourcesAvailable"
    ]
    assert (condition["status"], condition["reason"]) == ("False", "NotOwned")
    assert condition["message"] == f'There is an existing {kind} "{name}" that we do not own.'


@pytest.mark.parametrize(
    ("progressing", "failure", "want"),
    [
        (None, None, ("Unknown", "Deploying")),
        ("True", None, ("True", "")),
        ("False", None, ("False", "Late")),
        ("Unknown", None, ("Unknown", "Late")),
        ("True", "True", ("False", "Quota")),
        ("True", "False", ("True", "")),
    ],
)
def test_resources_are_as_the_deployment_gets_on(
    progressing: str | None, failure: str | None, want: tuple[str, str]
) -> None:
    world = World()
    revision(world)
    brought_up(world, 0)
    conditions = [{"type": "Progressing", "status": progressing, "reason": "Late"}] if progressing else []
    conditions += [{"type": "ReplicaFailure", "status": failure, "reason": "Quota"}] if failure else []
    world.store.set_status(Key(names.DEPLOYMENT, "ns", "model-deployment"), {"conditions": conditions})
    now_ready(world, "PodAutoscaler", "model", "Unknown", serviceName="s")
    world.settle("Revision")
    found = world.conditions("Revision")["ResourcesAvailable"]
    # Nothing is available before the scale was reached that it starts with.
    assert found == (("Unknown", "Deploying") if want[0] == "True" else want)


@pytest.mark.parametrize("replicas", [0, 1])
@pytest.mark.parametrize("available", [0, 1])
@pytest.mark.parametrize(
    ("container", "late", "want"),
    [
        (
            {"lastState": {"terminated": {"exitCode": 2, "message": "boom"}}},
            False,
            ("ContainerHealthy", "ExitCode2", "Container failed with: boom"),
        ),
        (
            {"lastState": {"terminated": {"exitCode": 0}}},
            False,
            ("ContainerHealthy", "ExitCode0", "Container failed with: container exited with no error"),
        ),
        (
            {"lastState": {"terminated": {"exitCode": 1}}},
            False,
            ("ContainerHealthy", "ExitCode1", "Container failed with: "),
        ),
        (
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}},
            True,
            ("ResourcesAvailable", "ImagePullBackOff", "no"),
        ),
        ({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}, False, None),
        ({"state": {"running": {}}}, True, None),
        ({"name": "queue-proxy", "lastState": {"terminated": {"exitCode": 2}}}, False, None),
        (None, False, None),
    ],
)
def test_what_ails_the_first_pod_is_told(
    replicas: int, available: int, container: Obj | None, late: bool, want: tuple[str, str, str] | None
) -> None:
    world = World()
    revision(world)
    deployment, _ = brought_up(world, replicas)
    progress = {
        "type": "Progressing",
        "status": "False" if late else "True",
        "reason": "ProgressDeadlineExceeded",
    }
    world.store.set_status(
        Key(names.DEPLOYMENT, "ns", "model-deployment"),
        {"conditions": [progress], "availableReplicas": available},
    )
    if container is not None:
        replica_set = world.make("ReplicaSet", "rs", {}, deployment)
        world.make(
            "Pod",
            "p",
            {"containers": []},
            replica_set,
            {"containerStatuses": [{"name": "user-container", **container}]},
        )
    world.settle("Revision")
    conditions = world.store.require(Key(names.REVISION, "ns", "model"))["status"]["conditions"]
    ailing = [
        (c["type"], c.get("reason"), c.get("message", ""))
        for c in conditions
        if c["status"] == "False" and c["type"] != "Ready"
    ]
    expected = want if want is not None and replicas and not available else None
    if expected is None:
        assert [a for a in ailing if a[1] != "ProgressDeadlineExceeded"] == []
    else:
        assert expected in ailing


@pytest.mark.parametrize("scheduled", ["False", "True"])
def test_a_pod_without_a_place_says_why(scheduled: str) -> None:
    world = World()
    revision(world)
    deployment, _ = brought_up(world)
    world.store.set_status(
        Key(names.DEPLOYMENT, "ns", "model-deployment"),
        {"conditions": [{"type": "Progressing", "status": "True"}]},
    )
    replica_set = world.make("ReplicaSet", "rs", {}, deployment)
    condition = {
        "type": "PodScheduled",
        "status": scheduled,
        "reason": "Unschedulable",
        "message": "0/3 nodes",
    }
    world.make("Pod", "p", {"containers": []}, replica_set, {"conditions": [condition]})
    world.settle("Revision")
    want = ("False", "Unschedulable") if scheduled == "False" else ("Unknown", "Deploying")
    assert world.conditions("Revision")["ResourcesAvailable"] == want


@pytest.mark.parametrize("ready", ["True", "False", "Unknown"])
@pytest.mark.parametrize("initialized", ["True", "False", None])
@pytest.mark.parametrize("service", ["s", ""])
def test_a_revision_follows_its_autoscaler(ready: str, initialized: str | None, service: str) -> None:
    world = World()
    revision(world)
    brought_up(world)
    healthy = {
        "conditions": [{"type": "Progressing", "status": "True"}],
        "availableReplicas": 1,
        "readyReplicas": 1,
    }
    world.store.set_status(Key(names.DEPLOYMENT, "ns", "model-deployment"), healthy)
    now_ready(world, "PodAutoscaler", "model", ready, serviceName=service, actualScale=0, desiredScale=2)
    if initialized is not None:
        key = Key(names.POD_AUTOSCALER, "ns", "model")
        status = world.store.require(key)["status"]
        more = {"type": "ScaleTargetInitialized", "status": initialized}
        world.store.set_status(key, {**status, "conditions": [*status["conditions"], more]})
    world.settle("Revision")
    found = world.conditions("Revision")
    assert found["Active"] == (ready, "" if ready == "True" else "R")
    if initialized == "True" and service:
        want = ("True", "")
    elif ready == "False" and initialized != "True" and service:
        want = ("False", "ProgressDeadlineExceeded")
    else:
        want = ("Unknown", "Deploying")
    assert found["ResourcesAvailable"] == want
    assert found["ContainerHealthy"] == ("True", "")
    status = world.store.require(Key(names.REVISION, "ns", "model"))["status"]
    assert (status["actualReplicas"], status["desiredReplicas"]) == (0, 2)
    world.store.set_status(Key(names.POD_AUTOSCALER, "ns", "model"), {})
    world.settle("Revision")
    status = world.store.require(Key(names.REVISION, "ns", "model"))["status"]
    assert "actualReplicas" not in status
    assert "desiredReplicas" not in status
    assert world.conditions("Revision")["Active"] == ("Unknown", "Deploying")


@pytest.mark.parametrize(
    ("notes", "kind", "metric"),
    [
        ({}, "kpa." + A[:-1], "concurrency"),
        ({A + "class": "hpa." + A[:-1]}, "hpa." + A[:-1], "cpu"),
        ({A + "metric": "rps"}, "kpa." + A[:-1], "rps"),
    ],
)
def test_the_autoscaler_has_a_class_and_a_metric(notes: dict[str, str], kind: str, metric: str) -> None:
    world = World()
    revision(
        world,
        {"containers": [{"name": "c", "ports": [{"name": "h2c"}]}], "containerConcurrency": 5},
        annotations={**notes, "mine": "1"},
        labels={K + "routingState": "reserve"},
    )
    made = created(world.settle("Revision"))["PodAutoscaler"]
    assert made["metadata"]["annotations"] == {A + "class": kind, A + "metric": metric, "mine": "1", **notes}
    assert made["spec"] == {
        "containerConcurrency": 5,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "model-deployment"},
        "protocolType": "h2c",
        "reachability": "Unreachable",
    }


def test_the_autoscaler_follows_annotations_and_routing_and_keeps_what_is_not_ours() -> None:
    world = World()
    revision(world, annotations={A + "target": "5", A + "window": "9s"})
    brought_up(world)
    key, about = Key(names.POD_AUTOSCALER, "ns", "model"), Key(names.REVISION, "ns", "model")
    world.store.patch(key, {"metadata": {"annotations": {"theirs": "1"}}})
    world.store.patch(
        about,
        {
            "metadata": {
                "annotations": {A + "target": "6", A + "window": None},
                "labels": {K + "routingState": "active"},
            }
        },
    )
    (patch,) = [a for a in world.settle("Revision") if isinstance(a, Patch)]
    assert patch.patch["metadata"]["annotations"] == {A + "window": None, A + "target": "6"}
    assert patch.patch["spec"]["reachability"] == "Reachable"
    there = world.store.require(key)["metadata"]["annotations"]
    assert (there["theirs"], there[A + "class"]) == ("1", "kpa." + A[:-1])
    assert not [a for a in world.decide("Revision") if isinstance(a, Patch)]


def test_names_and_probes_of_containers_are_filled_in() -> None:
    (one,) = revisionpods.defaulted({"containers": [{"image": "i"}]})["containers"]
    assert one["name"] == "user-container"
    assert one["readinessProbe"] == {"successThreshold": 1, "tcpSocket": {"port": 0}}
    spec = revisionpods.defaulted(
        {
            "containers": [
                {"ports": [{}], "readinessProbe": {"httpGet": {"path": "/"}}},
                {"name": "user-container-2"},
                {},
            ],
            "timeoutSeconds": 7,
            "containerConcurrency": 3,
        }
    )
    assert [c["name"] for c in spec["containers"]] == [
        "user-container-0",
        "user-container-2",
        "user-container-2-0",
    ]
    assert spec["containers"][0]["readinessProbe"] == {"successThreshold": 1, "httpGet": {"path": "/"}}
    assert "readinessProbe" not in spec["containers"][1]
    assert (spec["timeoutSeconds"], spec["containerConcurrency"], spec["enableServiceLinks"]) == (7, 3, False)
    bare = revisionpods.defaulted({})
    assert (bare["timeoutSeconds"], bare["containerConcurrency"], bare["containers"]) == (300, 0, [])


@pytest.mark.parametrize(("said", "want"), [(None, 600), ("30s", 30), ("2m", 120), ("often", 600)])
def test_how_long_a_deployment_may_take(said: str | None, want: int) -> None:
    notes = {} if said is None else {K + "progress-deadline": said}
    assert revisionpods.progress_deadline_s({"metadata": {"annotations": notes}}) == want


def test_requests_go_to_the_container_with_a_port_which_is_probed_there() -> None:
    world = World()
    probe = {"tcpSocket": {"port": 0}, "periodSeconds": 0}
    containers = [
        {"name": "a", "env": [{"name": "MINE", "value": "1"}]},
        {"name": "b", "ports": [{"containerPort": 9000}], "readinessProbe": probe},
    ]
    made = revision(
        world,
        {"containers": containers, "containerConcurrency": 4, "nodeSelector": {"x": "y"}},
        labels={K + "service": "svc"},
    )
    deployment = revisionpods.deployment_of(made, 2)
    template = deployment["spec"]["template"]
    assert template["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] == "b"
    assert "containerConcurrency" not in template["spec"]
    assert template["spec"]["nodeSelector"] == {"x": "y"}
    assert template["spec"]["terminationGracePeriodSeconds"] == 300
    a, b, proxy = template["spec"]["containers"]
    of_all = [("K_REVISION", "model"), ("K_CONFIGURATION", "model"), ("K_SERVICE", "svc")]
    assert [(e["name"], e["value"]) for e in a["env"]] == [("MINE", "1"), *of_all]
    assert [(e["name"], e["value"]) for e in b["env"]] == [("PORT", "9000"), *of_all]
    assert "ports" not in a
    assert b["ports"] == [{"name": "user-port", "containerPort": 9000}]
    assert b["readinessProbe"] == {"tcpSocket": {"port": 9000}, "periodSeconds": 1}
    environment = {e["name"]: e["value"] for e in proxy["env"]}
    assert (
        environment["USER_PORT"],
        environment["CONTAINER_CONCURRENCY"],
        environment["REVISION_TIMEOUT_SECONDS"],
    ) == ("9000", "4", "300")
    assert proxy["resources"] == {"requests": {"cpu": "25m"}}


# Conditions


@pytest.mark.parametrize("first", ["True", "False", "Unknown"])
@pytest.mark.parametrize("second", ["True", "False", "Unknown"])
def test_ready_follows_from_what_it_depends_on(first: str, second: str) -> None:
    found = Conditions({}, ("A", "B"), NOW)
    found.mark("A", first, "a")
    found.mark("B", second, "b")
    found.mark("Other", "False", "o")
    ready = found.get("Ready")
    assert ready is not None
    if "False" in (first, second):
        # A fault that was there first stays what Ready says, until something else turns False or True.
        want = ("False", "b" if second == "False" else "a")
    elif "Unknown" in (first, second):
        want = ("Unknown", "b" if second == "Unknown" else "a")
    else:
        want = ("True", None)
    assert (ready["status"], ready.get("reason")) == want
    assert {c["type"]: c.get("severity") for c in found.listed()} == {
        "A": None,
        "B": None,
        "Ready": None,
        "Other": "Info",
    }
    found.clear("Other")
    assert found.get("Other") is None


def test_a_moment_changes_only_with_what_is_said() -> None:
    old = {"type": "A", "status": "True", "lastTransitionTime": "before"}
    found = Conditions({"conditions": [old]}, ("A",), NOW)
    found.mark("A", "True")
    assert found.get("A") == old
    found.mark("A", "True", "new")
    assert (found.get("A") or {})["lastTransitionTime"] == rfc3339(NOW)


@pytest.mark.parametrize("observed", [1, 2, None])
@pytest.mark.parametrize("status", ["True", "False", None])
def test_ready_is_said_of_the_latest_generation(observed: int | None, status: str | None) -> None:
    conditions = [
        {"type": "Other", "status": "True"},
        *([{"type": "Ready", "status": status}] if status else []),
    ]
    obj = {
        "metadata": {"generation": 2},
        "status": {"observedGeneration": observed, "conditions": conditions},
    }
    assert is_ready(obj) is (observed == 2 and status == "True")
    assert (condition_of(obj) or {}).get("status") == status
    assert not is_ready({"metadata": {"generation": 2}})
