"""Small rules of autoscaling in a twin: what decides alone, what is passed over, what is written beside."""

from __future__ import annotations

from typing import Any

import pytest
from scalingworld import World, autoscaler, deployment, of_pods

from fairway.autoscaling.kpa.settings import DEFAULT
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.twin.autoscaling.knative import horizontal_of

SO, SJ = "ScaledObject.keda.sh", "ScaledJob.keda.sh"
HPA = "HorizontalPodAutoscaler.autoscaling"


def scaled(triggers: list[Obj], *, name: str = "web", **spec: Any) -> Obj:
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": {"name": "web"}, "triggers": triggers, **spec},
    }


def redis(name: str, length: str = "1") -> Obj:
    return {"type": "redis", "metadata": {"listName": name, "address": "r", "listLength": length}}


def prometheus(name: str, query: str) -> Obj:
    return {
        "type": "prometheus",
        "name": name,
        "metadata": {"serverAddress": "x", "query": query, "threshold": "1"},
    }


@pytest.mark.parametrize(
    ("threshold", "replicas"), [("19", 1), ("20", 0), ("20.5", 0), ("none", 0), ("", 1), (None, 1)]
)
def test_a_formula_is_active_above_its_own_threshold(threshold: str | None, replicas: int) -> None:
    """30 - 10 = 20: above, not at it; above zero where none is said. One that is no number is a fault.
    Source: getScaledObjectState in pkg/scaling/scale_handler.go."""
    load = {"series": [{"name": "a", "value": 30}, {"name": "b", "value": 10}]}
    modifiers = {"formula": "one - two", "target": "100"}
    if threshold is not None:
        modifiers["activationTarget"] = threshold
    triggers = [prometheus("one", "sum(a)"), prometheus("two", "sum(b)")]
    world = World(
        load=load,
        objects=[
            deployment("web", 0),
            scaled(triggers, advanced={"scalingModifiers": modifiers}, maxReplicaCount=3),
        ],
    )
    world.run(60)
    assert world.replicas("web") == replicas
    active = world.conditions("web", SO)["Active"]
    assert active == (("True", "ScalerActive") if replicas else ("False", "ScalerNotActive"))
    told = [m for r, m in world.said("ScaledObject") if r == "KEDAScaleTargetActivated"]
    assert world.conditions("web", SO)["Ready"][0] == ("False" if threshold == "none" else "True")
    assert told == (
        ["Scaled apps/v1.Deployment default/web from 0 to 1, triggered by ModifiersTrigger"]
        if replicas
        else []
    )


def test_resources_alone_are_always_active_and_beside_others_decide_nothing() -> None:
    of_cpu = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
    world = World(objects=[deployment("web", 2), scaled([of_cpu], minReplicaCount=1)])
    world.run(60)
    assert world.conditions("web", SO)["Active"] == ("True", "ScalerActive")
    assert world.conditions("web", SO)["Ready"] == ("True", "ScaledObjectReady")
    mixed = World(
        load={"queues": [{"name": "jobs", "length": 3}]},
        objects=[deployment("web", 0), scaled([of_cpu, redis("jobs")])],
    )
    mixed.run(60)
    assert mixed.replicas("web") >= 1


def test_an_external_scaler_that_a_load_describes_later_is_asked_again() -> None:
    asking = {"type": "external", "metadata": {"scalerAddress": "s:1"}}
    world = World(objects=[deployment("web", 0), scaled([asking])])
    world.run(60)
    assert world.conditions("web", SO)["Ready"][0] == "False"
    text = "series: [{name: depth, scaler: 's:1', target: 10, value: 40}]"
    given = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "load", "labels": {"fairway.dev/load": ""}},
        "data": {"load": text},
    }
    world.apply(given)
    world.run(60)
    assert world.conditions("web", SO)["Ready"] == ("True", "ScaledObjectReady")
    assert world.replicas("web") == 4
    world.twin.store.delete(Key("ConfigMap", "default", "load"))
    world.twin.wake()
    world.run(60)
    assert not world.room.loads.given and not world.room.loads.described("depth")


def test_a_count_is_restored_for_those_alone_that_ask_for_it() -> None:
    for advanced, want in (({}, 3), ({"restoreToOriginalReplicaCount": True}, 2)):
        world = World(
            load={"queues": [{"name": "jobs", "length": 3}]},
            objects=[deployment("web", 2), scaled([redis("jobs")], advanced=advanced)],
        )
        world.run(120)
        assert world.replicas("web") == 3
        world.twin.store.delete(Key(SO, "default", "web"))
        world.twin.wake()
        world.run(30)
        assert world.replicas("web") == want


def scaled_job(triggers: list[Obj], annotations: dict[str, str] | None = None) -> Obj:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    template = {"metadata": {"annotations": {"fairway.dev/run-time": "1h"}}, "spec": pod}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledJob",
        "metadata": {"name": "batch", "annotations": annotations or {}},
        "spec": {"jobTargetRef": {"template": template}, "maxReplicaCount": 5, "triggers": triggers},
    }


def test_of_several_triggers_one_that_fails_leaves_the_others() -> None:
    of_cpu = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
    load = {"queues": [{"name": "jobs", "length": 3}]}
    world = World(load=load, objects=[scaled_job([of_cpu, redis("lost"), redis("jobs")])])
    world.run(40)
    assert len(world.twin.store.objects("Job.batch")) == 3
    assert world.conditions("batch", SJ)["Ready"] == ("Unknown", "PartialTriggerError")
    assert ("KEDAScalerFailed", "redis: no load describes a queue lost") in world.said("ScaledJob")
    alone = World(load=load, objects=[scaled_job([redis("lost")])])
    alone.run(40)
    assert alone.conditions("batch", SJ)["Ready"] == ("False", "TriggerError")
    assert alone.twin.store.objects("Job.batch") == []


def test_a_paused_scaled_job_makes_nothing_and_keeps_its_conditions() -> None:
    load = {"queues": [{"name": "jobs", "length": 3}]}
    held = {"autoscaling.keda.sh/paused": "true"}
    world = World(load=load, objects=[scaled_job([redis("jobs")], held)])
    world.run(40)
    assert world.twin.store.objects("Job.batch") == []
    assert world.conditions("batch", SJ)["Paused"] == ("True", "ScaledJobPaused")
    world.apply(scaled_job([redis("jobs")]))
    world.run(40)
    assert len(world.twin.store.objects("Job.batch")) == 3
    since = world.status("batch", SJ)["lastActiveTime"]
    world.apply(scaled_job([redis("jobs")], held))
    world.run(40)
    told = world.status("batch", SJ)
    assert world.conditions("batch", SJ)["Paused"] == ("True", "ScaledJobPaused")
    assert world.conditions("batch", SJ)["Active"] == ("True", "ScalerActive")
    assert since <= told["lastActiveTime"], "what it said beside its conditions stays"


# What metrics there are


def test_a_queue_is_an_external_metric_of_its_own_name_or_the_given_one() -> None:
    queues = [
        {"name": "near", "length": 3},
        {"name": "renamed", "metric": "depth", "length": 5},
        {"name": "far", "namespace": "other", "length": 7},
    ]
    world = World(load={"queues": queues})
    measured = world.room.measured
    measured.begin()
    assert measured.external_series("default", "near", None) == [((("queue", "near"),), 3000)]
    assert measured.external_series("default", "depth", None) == [((("queue", "renamed"),), 5000)]
    assert measured.external_series("other", "far", None) == [((("queue", "far"),), 7000)]
    assert measured.external_series("default", "far", None) == []
    assert measured.external_series("default", "renamed", None) == []


def test_a_queue_that_grows_is_looked_at_when_it_may_be_another() -> None:
    world = World(load={"queues": [{"name": "jobs", "arrivals": "0s:1,5m:0"}]})
    measured = world.room.measured
    measured.begin()
    measured.external("default", "jobs", None)
    assert 0 < measured.until_us - world.twin.host.loop.now_us <= 60 * SECOND_US


def test_gpu_utilization_rises_by_the_steps_of_the_pod() -> None:
    steps = {"fairway.dev/gpu-utilization": "0s:20,2m:80,4m:50"}
    one = deployment("web", 1, annotations=steps)
    one["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    scaler = autoscaler("web", of_pods("DCGM_FI_DEV_GPU_UTIL", "1k"))
    world = World(objects=[one, scaler])
    seen = []
    for _ in range(3):
        world.run(110)
        metric = world.status("web")["currentMetrics"][0]["pods"]
        seen.append(metric["current"]["averageValue"])
    assert seen == ["20", "80", "50"], seen


# Knative's other class


def pod_autoscaler(**told: str) -> Obj:
    annotations = {f"autoscaling.knative.dev/{k.replace('_', '-')}": v for k, v in told.items()}
    return {
        "apiVersion": "autoscaling.internal.knative.dev/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": {"name": "m", "namespace": "d", "uid": "u", "annotations": annotations},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "m-deployment"}},
    }


def resource(name: str, **target: Any) -> Obj:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


HORIZONTAL: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "nothing asked": ({}, {"maxReplicas": 2**31 - 1}),
    "bounds": ({"min_scale": "2", "max_scale": "5"}, {"minReplicas": 2, "maxReplicas": 5}),
    "cpu is rounded up": (
        {"target": "60.5"},
        {"maxReplicas": 2**31 - 1, "metrics": [resource("cpu", type="Utilization", averageUtilization=61)]},
    ),
    "memory is in MiB": (
        {"target": "100.5", "metric": "memory"},
        {
            "maxReplicas": 2**31 - 1,
            "metrics": [resource("memory", type="AverageValue", averageValue="100Mi")],
        },
    ),
    "any other metric is of pods": (
        {"target": "7.5", "metric": "queue"},
        {
            "maxReplicas": 2**31 - 1,
            "metrics": [
                {
                    "type": "Pods",
                    "pods": {
                        "metric": {"name": "queue"},
                        "target": {"type": "AverageValue", "averageValue": "7"},
                    },
                }
            ],
        },
    ),
    "a window holds both ways": (
        {"window": "90s"},
        {
            "maxReplicas": 2**31 - 1,
            "behavior": {
                "scaleDown": {"stabilizationWindowSeconds": 90},
                "scaleUp": {"stabilizationWindowSeconds": 90},
            },
        },
    ),
}


@pytest.mark.parametrize("name", HORIZONTAL)
def test_what_a_pod_autoscaler_of_the_other_class_becomes(name: str) -> None:
    """Source: hpa/resources/hpa.go."""
    told, want = HORIZONTAL[name]
    pa = pod_autoscaler(**told)
    found = horizontal_of(pa, DEFAULT)
    assert found["spec"] == {"scaleTargetRef": pa["spec"]["scaleTargetRef"], **want}
    assert found["metadata"]["annotations"] == pa["metadata"]["annotations"]


# Vertical


def test_a_container_killed_for_memory_is_told_once_with_what_it_asked_for() -> None:
    from test_vertical import VPA, vertical

    world = World(objects=[deployment("web", 1), vertical("Off")])
    world.run(90)
    (pod,) = world.twin.store.objects("Pod")
    at = rfc3339(world.twin.host.loop.now_us)
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at}}
    told = [{**c, "lastState": ended} for c in pod["status"]["containerStatuses"]]
    world.twin.store.set_status(
        Key("Pod", "default", pod["metadata"]["name"]), {**pod["status"], "containerStatuses": told}
    )
    world.run(120)
    entry = next(iter(world.room.vertical.entries.values()))
    assert entry.ooms == {f"{pod['metadata']['uid']}/c": at}
    (found,) = world.status("web", VPA)["recommendation"]["containerRecommendations"]
    # 1Gi was asked for: 1.2 times that, in the next bucket, and 15 % of margin.
    assert found["target"]["memory"] == "1555165137"


def test_a_scaled_job_alone_sees_pods_come_and_go() -> None:
    """Without any HorizontalPodAutoscaler: jobs for the pods that are there at each look."""
    counts = {"type": "kubernetes-workload", "metadata": {"podSelector": "app=web", "value": "1"}}
    world = World(objects=[deployment("web", 0), scaled_job([counts])])
    world.run(65)
    assert world.twin.store.count("Job.batch") == 0
    world.twin.store.patch(Key("Deployment.apps", "default", "web"), {"spec": {"replicas": 3}})
    world.twin.wake()
    world.run(65)
    assert world.twin.store.count("Job.batch") == 3
