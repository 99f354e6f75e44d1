"""KEDA in a twin: activation, scale to zero, autoscalers made and removed, fallback, jobs, and faults told."""

from __future__ import annotations

from typing import Any

from scalingworld import World, deployment

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US

HPA = "HorizontalPodAutoscaler.autoscaling"
SO = "ScaledObject.keda.sh"


def scaled(name: str = "web", *, annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    triggers = spec.pop("triggers", None) or [
        {"type": "redis", "metadata": {"listName": "jobs", "address": "redis:6379", "listLength": "10"}}
    ]
    meta: dict[str, Any] = {"name": name}
    if annotations:
        meta["annotations"] = annotations
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": meta,
        "spec": {"scaleTargetRef": {"name": "web"}, "triggers": triggers, **spec},
    }


def queue(arrivals: str, **more: Any) -> dict[str, Any]:
    consumers = {"kind": "Deployment", "name": "web", "rate": 1}
    return {"queues": [{"name": "jobs", "arrivals": arrivals, "consumers": consumers, **more}]}


def test_a_queue_wakes_a_target_feeds_it_and_lets_it_sleep() -> None:
    world = World(load=queue("0s:0,10m:4,30m:0"), objects=[deployment("web"), scaled()])
    world.run(60)
    assert world.replicas("web") == 0
    assert world.conditions("web", SO)["Active"] == ("False", "ScalerNotActive")
    world.run(900)
    assert world.replicas("web") >= 4
    assert world.conditions("web", SO)["HPAActive"] == ("True", "HPAActive")
    world.run(3600)
    assert world.replicas("web") == 0
    reasons = [reason for reason, _ in world.said("ScaledObject")]
    assert "KEDAScaleTargetActivated" in reasons
    assert reasons[-1] == "KEDAScaleTargetDeactivated"


def test_working_hours() -> None:
    """From 09:00 to 18:00 in New York; a twin begins at 00:00 UTC."""
    metadata = {
        "timezone": "America/New_York",
        "start": "0 9 * * *",
        "end": "0 18 * * *",
        "desiredReplicas": "8",
    }
    hours = [{"type": "cron", "metadata": metadata}]
    world = World(objects=[deployment("web"), scaled(triggers=hours, minReplicaCount=2, maxReplicaCount=8)])
    world.run(13 * 3600)
    assert world.replicas("web") == 2
    world.run(3600 + 120)
    assert world.replicas("web") == 8
    world.run(9 * 3600 + 600)
    assert world.replicas("web") == 2


def test_pausing_removes_the_autoscaler_and_holds_a_count() -> None:
    world = World(load=queue("4"), objects=[deployment("web"), scaled(minReplicaCount=1)])
    world.run(300)
    held = {"autoscaling.keda.sh/paused-replicas": "3"}
    world.apply(scaled(minReplicaCount=1, annotations=held))
    world.run(60)
    assert world.replicas("web") == 3
    assert world.twin.store.get(Key(HPA, "default", "keda-hpa-web")) is None
    assert world.conditions("web", SO)["Paused"] == ("True", "ScaledObjectPaused")
    ready = next(c for c in world.status("web", SO)["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["message"]) == ("True", "ScaledObject is paused")
    there = world.get(SO, "web")
    meta = {k: v for k, v in there["metadata"].items() if k != "annotations"}
    world.twin.store.replace({**there, "metadata": meta})
    world.twin.wake()
    world.run(60)
    assert world.conditions("web", SO)["Paused"] == ("False", "ScaledObjectUnpaused")
    ready = next(c for c in world.status("web", SO)["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["message"]) == (
        "True",
        "ScaledObject is defined correctly and is ready for scaling",
    )
    assert world.twin.store.get(Key(HPA, "default", "keda-hpa-web")) is not None


def test_a_deleted_scaled_object_takes_its_autoscaler_along() -> None:
    restoring = {"restoreToOriginalReplicaCount": True}
    world = World(load=queue("4"), objects=[deployment("web"), scaled(advanced=restoring)])
    world.run(300)
    world.twin.store.delete(Key(SO, "default", "web"))
    world.twin.wake()
    world.run(60)
    assert world.twin.store.get(Key(HPA, "default", "keda-hpa-web")) is None
    assert world.replicas("web") == 2


def test_a_queue_that_nobody_describes_fails_and_falls_back() -> None:
    fallback = {"failureThreshold": 2, "replicas": 5}
    world = World(objects=[deployment("web"), scaled(minReplicaCount=1, fallback=fallback)])
    world.run(300)
    assert world.replicas("web") == 5
    assert world.conditions("web", SO)["Fallback"] == ("True", "FallbackExists")
    said = world.said("ScaledObject")
    assert ("KEDAScalerFailed", "redis: no load describes a queue jobs") in said
    # One that falls back is active; two failures are said, later ones are not.
    assert world.conditions("web", SO)["Active"] == ("True", "ScalerActive")
    assert ("ScaledObjectFallbackActivated", "ScaledObject fallback is active") in said
    assert ("KEDAScalersStarted", "Scaler redis is built") in said
    assert ("KEDAScalersStarted", "Started scalers watch") in said
    (health,) = world.status("web", SO)["health"].values()
    assert health["status"] == "Failing" and health["numberOfFailures"] > 2
    world.twin.store.delete(Key(SO, "default", "web"))
    world.twin.wake()
    world.run(1)
    assert ("KEDAScalersStopped", "Stopped scalers watch") in world.said("ScaledObject")


def test_what_is_wrong_is_said_in_kedas_words() -> None:
    world = World(objects=[deployment("web"), scaled("lost")])
    lost = scaled("gone")
    lost["spec"]["scaleTargetRef"]["name"] = "nobody"
    world.apply(lost)
    secret = {"name": "creds"}
    rabbit = {"type": "rabbitmq", "metadata": {"queueName": "q"}, "authenticationRef": secret}
    world.apply(scaled("secretless", triggers=[rabbit]))
    world.run(5)
    said = {message for _, message in world.said("ScaledObject")}
    assert "Target resource doesn't exist" in said
    fault = (
        "failed to ensure HPA is correctly created for ScaledObject: error getting scaler for trigger #0: "
        'triggerauthentications.keda.sh "creds" not found'
    )
    assert fault in said
    auth = {"secretTargetRef": [{"parameter": "host", "name": "rabbit", "key": "host"}]}
    world.apply(
        {"apiVersion": "keda.sh/v1alpha1", "kind": "TriggerAuthentication", "metadata": secret, "spec": auth}
    )
    world.run(5)
    missing = 'missing required parameter "host" in [triggerMetadata authParams resolvedEnv]'
    assert any(missing in message for _, message in world.said("ScaledObject"))


def test_modifiers_make_one_metric() -> None:
    load = {"series": [{"name": "a", "value": 30}, {"name": "b", "value": 10}]}
    triggers = [
        {"type": "prometheus", "name": n, "metadata": {"serverAddress": "x", "query": q, "threshold": "1"}}
        for n, q in (("one", "sum(a)"), ("two", 'b{job=~"x.*"} or b'))
    ]
    advanced = {"scalingModifiers": {"formula": "one - two", "target": "5"}}
    world = World(
        load=load,
        objects=[deployment("web"), scaled(triggers=triggers, advanced=advanced, minReplicaCount=1)],
    )
    world.run(120)
    assert world.replicas("web") == 4
    metric = world.status("keda-hpa-web")["currentMetrics"][0]["external"]
    assert (metric["metric"]["name"], metric["current"]) == ("composite-metric", {"averageValue": "5"})


def test_jobs_are_made_for_messages() -> None:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    template = {"metadata": {"annotations": {"fairway.dev/run-time": "60s"}}, "spec": pod}
    job = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledJob",
        "metadata": {"name": "batch"},
        "spec": {
            "jobTargetRef": {"template": template, "backoffLimit": 0},
            "maxReplicaCount": 5,
            "triggers": [
                {"type": "redis", "metadata": {"listName": "jobs", "address": "r", "listLength": "1"}}
            ],
        },
    }
    world = World(load={"queues": [{"name": "jobs", "length": 3}]}, objects=[job])
    world.run(40)
    assert len(world.twin.store.objects("Job.batch")) == 3
    assert world.conditions("batch", "ScaledJob.keda.sh")["Active"] == ("True", "ScalerActive")
    assert ("KEDAJobsCreated", "Created 3 jobs") in world.said("ScaledJob")


def external(**metadata: str) -> list[Obj]:
    return [{"type": "external", "metadata": {"scalerAddress": "scaler.shop:6000", **metadata}}]


def test_an_external_scaler_that_a_load_describes() -> None:
    """Its own metric, its own target, and only for triggers it is about."""
    depth = {"name": "depth", "scaler": "scaler.shop:6000", "labels": {"queue": "a"}, "target": 10}
    world = World(
        load={"series": [{**depth, "value": "0s:0,10m:40,30m:0"}]},
        objects=[deployment("web"), scaled(triggers=external(queue="a"))],
    )
    world.run(300)
    assert world.replicas("web") == 0
    assert world.status("web", SO)["externalMetricNames"] == ["s0-depth"]
    (metric,) = world.get(HPA, "keda-hpa-web")["spec"]["metrics"]
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "10"}
    world.run(900)
    assert world.replicas("web") == 4
    world.run(3600)
    assert world.replicas("web") == 0


def test_an_external_scaler_that_nobody_describes() -> None:
    world = World(objects=[deployment("web"), scaled(triggers=external())])
    world.run(60)
    said = "no metric specs returned from scalers for ScaledObject default/web"
    (ready,) = [c for c in world.status("web", SO)["conditions"] if c["type"] == "Ready"]
    assert (ready["status"], ready["message"].endswith(said)) == ("False", True)
    assert ("KEDAScalerFailed", "external: no load describes a scaler at scaler.shop:6000") in world.said(
        "ScaledObject"
    )


def test_an_external_scaler_without_an_address() -> None:
    world = World(objects=[deployment("web"), scaled(triggers=[{"type": "external", "metadata": {}}])])
    world.run(60)
    (ready,) = [c for c in world.status("web", SO)["conditions"] if c["type"] == "Ready"]
    assert 'missing required parameter "scalerAddress" in [triggerMetadata]' in ready["message"]


def test_a_target_that_goes_leaves_what_was_said_of_it() -> None:
    """The conditions of the scaled object but `Ready`, and all beside them, stay."""
    world = World(load=queue("4"), objects=[deployment("web"), scaled(minReplicaCount=1)])
    world.run(300)
    before = world.status("web", SO)
    assert before["lastActiveTime"] and before["scaleTargetKind"] == "apps/v1.Deployment"
    world.twin.store.delete(Key("Deployment.apps", "default", "web"))
    world.twin.wake()
    world.run(60)
    after = world.status("web", SO)
    why = 'Error getting current replicas count for ScaleTarget: deployments.apps "web" not found'
    ready = next(c for c in after["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "False",
        "ErrorGettingCurrentReplicas",
        why,
    )

    def others(status: Obj) -> Obj:
        kept = [c for c in status["conditions"] if c["type"] != "Ready"]
        return {**status, "conditions": kept}

    assert others(after) == others(before)


def test_one_trigger_of_two_that_fails_falls_back_alone() -> None:
    fallback = {"failureThreshold": 2, "replicas": 5}
    well = {"type": "redis", "metadata": {"listName": "jobs", "address": "redis:6379", "listLength": "10"}}
    lost = {"type": "redis", "metadata": {"listName": "nobody", "address": "redis:6379", "listLength": "10"}}
    both = scaled(minReplicaCount=1, fallback=fallback, triggers=[well, lost])
    world = World(load=queue("1"), objects=[deployment("web"), both])
    world.run(300)
    assert world.conditions("web", SO)["Fallback"] == ("True", "FallbackExists")
    health = world.status("web", SO)["health"]
    assert [(name, one["status"]) for name, one in health.items()] == [
        ("s0-redis-jobs", "Happy"),
        ("s1-redis-nobody", "Failing"),
    ]
    # A copy counts failures by itself.
    copy, failures = world.twin.fork(), health["s1-redis-nobody"]["numberOfFailures"]
    world.run(60)
    assert world.status("web", SO)["health"]["s1-redis-nobody"]["numberOfFailures"] > failures
    copy.run_for(60 * SECOND_US)
    assert copy.store.require(Key(SO, "default", "web"))["status"] == world.status("web", SO)


def test_a_copy_polls_as_the_original() -> None:
    world = World(load=queue("0s:0,10m:4,30m:0"), objects=[deployment("web"), scaled()])
    world.run(700)
    copy = world.twin.fork()
    world.run(4000)
    copy.run_for(4000 * SECOND_US)
    assert copy.digest() == world.twin.digest()
    assert copy.store.require(Key(SO, "default", "web"))["status"] == world.status("web", SO)


def test_what_its_autoscaler_says_is_mirrored() -> None:
    """Without a fallback a trigger that fails is the autoscaler's fault, too."""
    world = World(objects=[deployment("web"), scaled(minReplicaCount=1)])
    world.run(120)
    conditions = {c["type"]: c for c in world.status("web", SO)["conditions"]}
    of_autoscaler = {c["type"]: c for c in world.status("keda-hpa-web")["conditions"]}
    mirrored, said = conditions["HPAActive"], of_autoscaler["ScalingActive"]
    assert (said["status"], said["reason"]) == ("False", "FailedGetExternalMetric")
    assert (mirrored["status"], mirrored["reason"]) == ("False", "FailedGetExternalMetric")
    assert mirrored["message"] == f"HPA is not actively scaling: {said['message']}"
    assert of_autoscaler["AbleToScale"]["status"] == "True"
