"""Stories of KEDA, told whole: each autoscaler and count it writes, its conditions, each word, and when it polls.

What is told is compared with `stories/`; FAIRWAY_UPDATE_GOLDENS=1 writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scalingstory import World, deployment, pod
from tests.histories import check_history

from fairway.kube.objects import Obj

HERE = Path(__file__).parent / "stories"
HELD = "autoscaling.keda.sh/paused"
CPU: Obj = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}


def redis(name: str = "jobs", length: str = "10", **more: Any) -> Obj:
    return {"type": "redis", "metadata": {"listName": name, "address": "r:1", "listLength": length}, **more}


def asks(name: str, query: str, threshold: str = "1") -> Obj:
    metadata = {"serverAddress": "x", "query": query, "threshold": threshold}
    return {"type": "prometheus", "name": name, "metadata": metadata}


def scaled(*triggers: Obj, name: str = "web", target: Obj | None = None, **spec: Any) -> Obj:
    meta = {"name": name, "namespace": "default", "annotations": spec.pop("annotations", {})}
    spec = {"scaleTargetRef": target or {"name": name}, "triggers": list(triggers), **spec}
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": meta, "spec": spec}


def scaled_job(*triggers: Obj, name: str = "batch", **spec: Any) -> Obj:
    inner = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    meta = {"name": name, "namespace": "default", "annotations": spec.pop("annotations", {})}
    spec = {"jobTargetRef": {"template": {"spec": inner}}, "triggers": list(triggers), **spec}
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob", "metadata": meta, "spec": spec}


def queue(length: str, name: str = "depth") -> dict[str, Any]:
    return {"series": [{"name": name, "value": length}]}


def depth(threshold: str = "10", name: str = "jobs", **more: Any) -> Obj:
    return {**asks(name, "depth", threshold), **more}


def sleeps_and_wakes() -> Iterator[str]:
    """Down to none once it has cooled down, up to one at the next poll, or at once where it is deployed anew."""
    world = World(queue("0s:0,100s:25,200s:0,900s:5"), deployment(), scaled(depth(), cooldownPeriod=60))
    yield from world.until(95)
    # Nobody asks for it; what comes by itself sleeps again.
    yield from world.patch("Deployment", "web", {"spec": {"replicas": 3}}).until(1000)
    yield from world.rest()


def idle() -> Iterator[str]:
    """One replica while idle, three at least while active; a first cooldown of its own; polls every twenty seconds."""
    spec: Obj = {
        "idleReplicaCount": 1,
        "minReplicaCount": 3,
        "maxReplicaCount": 4,
        "cooldownPeriod": 45,
        "initialCooldownPeriod": 70,
        "pollingInterval": 20,
    }
    world = World(queue("0s:0,200s:5,290s:0"), deployment(), scaled(depth(), **spec))
    yield from world.until(150)
    # By hand, below what it is while active.
    yield from world.patch("Deployment", "web", {"spec": {"replicas": 2}}).until(250)
    yield from world.patch("Deployment", "web", {"spec": {"replicas": 2}}).until(500)
    yield from world.rest()


def least() -> Iterator[str]:
    """Two at least, and nobody there: up to the least without a word."""
    world = World(queue("0"), deployment(replicas=0), scaled(depth(), minReplicaCount=2, maxReplicaCount=2))
    yield from world.until(70)
    yield from world.patch("Deployment", "web", {"spec": {"replicas": 1}}).until(130)
    yield from world.rest()


def held() -> Iterator[str]:
    """Paused as it is, at a count, inwards or outwards; forced while nobody asks; and let go again."""
    world = World(queue("0s:15,600s:0"), deployment(), scaled(depth(), cooldownPeriod=30))
    yield from world.until(40)
    for at_s, name, value in (
        (100, HELD, "true"),
        (150, f"{HELD}-replicas", "5"),
        (200, f"{HELD}-replicas", "2"),
        (250, HELD, "false"),
        (300, f"{HELD}-scale-in", "true"),
        (350, f"{HELD}-scale-out", "yes"),
        (700, f"{HELD}-scale-in", "true"),
        (760, "autoscaling.keda.sh/force-activation", "true"),
        (820, f"{HELD}-scale-out", "true"),
        (900, "other", "true"),
    ):
        there = world.twin.store.require(next(iter(world.part.keda.entries)))["metadata"]["annotations"]
        change = {**dict.fromkeys(there), name: value}
        yield from world.patch("SO", "web", {"metadata": {"annotations": change}}).until(at_s)
    # Out of sleep it is woken, but not while that is held back.
    change = {"other": None, f"{HELD}-scale-out": "true"}
    world.patch("SO", "web", {"metadata": {"annotations": change}})
    yield from world.patch("Deployment", "web", {"spec": {"replicas": 0}}).until(960)
    yield from world.rest()


def falls_back() -> Iterator[str]:
    """A trigger that fails: at its third failure six replicas are taken for asked, until it is well; health is told."""
    spec: Obj = {"minReplicaCount": 1, "fallback": {"failureThreshold": 2, "replicas": 6}}
    world = World(None, deployment(), scaled(redis(), depth(name="x"), **spec))
    yield from world.until(130)
    yield from world.apply(_load("load", "{queues: [{name: jobs, length: 3}]}")).until(200)
    yield from world.apply(_load("more", "{series: [{name: depth, value: 7}]}")).until(280)
    yield from world.delete("ConfigMap", "load").until(420)
    yield from world.rest()


def falls_back_to_what_there_is() -> Iterator[str]:
    """The replicas that there are, and more or fewer of them, while the trigger fails."""
    behaviors = ("currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower", "scalingModifiers")
    objects = []
    for behavior in behaviors:
        name = behavior.lower().removeprefix("currentreplicas") or "plain"
        fallback = {"failureThreshold": 1, "replicas": 4, "behavior": behavior}
        spec: Obj = {"minReplicaCount": 1, "fallback": fallback}
        if behavior == "scalingModifiers":
            modifiers = {"formula": "jobs ?? 7", "target": "2", "activationTarget": "6"}
            spec["advanced"] = {"scalingModifiers": modifiers}
        objects += [deployment(name, 3), scaled({**redis(), "name": "jobs"}, name=name, **spec)]
    world = World(None, *objects)
    yield from world.until(100)
    yield from world.rest()


def without_fallback() -> Iterator[str]:
    """Triggers that fail: all of them, or one beside one that asks, or one beside one that does not."""
    world = World(
        queue("0s:0,130s:5"),
        *(deployment("lost", 0), scaled(redis(), name="lost", minReplicaCount=1)),
        *(deployment("partly"), scaled(redis(), depth(), name="partly")),
        *(deployment("kept", 3), scaled(redis("other"), name="kept", fallback={"replicas": 0})),
    )
    yield from world.until(200)
    yield from world.rest()


def formulas() -> Iterator[str]:
    """One number of two: active above its own threshold; a word it does not know; a part that fails."""
    both = (asks("one", "depth", "1"), asks("two", "width", "1"))

    def by(formula: str, **more: str) -> dict[str, Any]:
        modifiers = {"formula": formula, "target": "5", **more}
        return {"advanced": {"scalingModifiers": modifiers}, "cooldownPeriod": 20}

    load = {"series": [{"name": "depth", "value": "0s:30,100s:12"}, {"name": "width", "value": "10"}]}
    world = World(
        load,
        *(deployment("plain", 0), scaled(*both, name="plain", **by("one - two", activationTarget="5"))),
        *(deployment("value", 0), scaled(*both, CPU, name="value", **by("one - two", metricType="Value"))),
        *(deployment("odd"), scaled(*both, name="odd", **by("one - three"))),
        *(deployment("lost"), scaled(both[0], redis(name="two"), name="lost", **by("one + two"))),
    )
    yield from world.until(200)
    yield from world.rest()


def wrong() -> Iterator[str]:
    """What cannot be: a target that is not there or has no scale, bounds, triggers, names twice; and what mends it."""
    secret = redis(authenticationRef={"name": "creds"})
    world = World(
        queue("5"),
        *(deployment("bounds"), scaled(depth(), name="bounds", minReplicaCount=3, maxReplicaCount=2)),
        *(deployment("idle"), scaled(depth(), name="idle", minReplicaCount=1, idleReplicaCount=1)),
        *(deployment("twice"), scaled(depth(), depth(), name="twice")),
        *(deployment("secret"), scaled(secret, name="secret")),
        scaled(depth(), name="scaleless", target={"apiVersion": "v1", "kind": "Service", "name": "s"}),
        scaled(depth(), name="nobody"),
        *(deployment("odd"), scaled({"type": "odd", "metadata": {}}, name="odd")),
        *(deployment("hours"), scaled(_hours(start="x"), name="hours")),
        *(deployment("others"), scaled(_counts("a=b=c"), name="others")),
        *(deployment("empty"), scaled(name="empty")),
    )
    yield from world.until(5)
    yield from world.apply(deployment("nobody")).until(10)
    auth = {"kind": "TriggerAuthentication", "metadata": {"name": "creds", "namespace": "default"}}
    yield from world.apply({"apiVersion": "keda.sh/v1alpha1", **auth, "spec": {}}).until(15)
    yield from world.patch("SO", "bounds", {"spec": {"maxReplicaCount": 3}}).until(60)
    yield from world.delete("Deployment", "bounds").until(100)
    yield from world.apply(deployment("bounds")).until(140)
    yield from world.rest()


def comes_and_goes() -> Iterator[str]:
    """Its autoscaler is changed and set again; the name it has is another; it goes, and leaves what it found."""
    config = {"name": "own", "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}
    advanced = {"horizontalPodAutoscalerConfig": config, "restoreToOriginalReplicaCount": True}
    world = World(
        queue("0s:35,300s:5"), deployment(), scaled(depth(), CPU, minReplicaCount=1, advanced=advanced)
    )
    yield from world.until(50)
    world.patch("HPA", "own", {"spec": {"maxReplicas": 7}, "metadata": {"labels": {"x": "y"}}})
    yield from world.patch("SO", "web", {"spec": {"maxReplicaCount": 50}}).until(90)
    yield from world.patch("SO", "web", {"spec": {"triggers": [depth("5")]}}).until(350)
    yield from world.patch("SO", "web", {"metadata": {"labels": {"a": "b"}}}).until(380)
    yield from world.delete("SO", "web").until(400)
    yield from world.apply(scaled(depth(), CPU)).until(440)
    yield from world.delete("Deployment", "web").delete("SO", "web").until(460)
    yield from world.rest()


def counted_pods() -> Iterator[str]:
    """Pods of a selector, or their nodes; those that are over do not count."""
    world = World(
        None,
        *(deployment("pods", 0), scaled(_counts("app=x", value="2"), name="pods", cooldownPeriod=10)),
        *(
            deployment("nodes", 0),
            scaled(_counts("app=x", groupByNode="true"), name="nodes", cooldownPeriod=10),
        ),
        *(deployment("hours", 0), scaled(_hours(), name="hours")),
    )
    yield from world.until(50)
    yield from world.apply(*(pod(f"p{i}", "x", nodeName="n") for i in range(3)), pod("q", "x")).until(100)
    yield from world.status("Pod", "p0", phase="Succeeded").delete("Pod", "p1").until(140)
    yield from world.delete("Pod", "p2").delete("Pod", "q").until(400)
    yield from world.rest()


def by_nodes_alone() -> Iterator[str]:
    """Resources alone ask for nobody; beside others they decide nothing about the first replica."""
    world = World(
        queue("0s:0,100s:5"),
        *(deployment("alone", 0), scaled(CPU, name="alone", minReplicaCount=1)),
        *(deployment("beside", 0), scaled(CPU, depth(), name="beside", minReplicaCount=0)),
    )
    yield from world.until(200)
    yield from world.rest()


def outside() -> Iterator[str]:
    """A scaler outside that a load describes, later, otherwise, and no more."""
    asking = {"type": "external", "metadata": {"scalerAddress": "s:1"}}
    world = World(None, deployment(replicas=0), scaled(asking, cooldownPeriod=10))
    yield from world.until(40)
    one = "{name: depth, scaler: 's:1', target: 10, value: 40}"
    yield from world.apply(_load("load", f"{{series: [{one}]}}")).until(90)
    other = "{name: width, scaler: 's:1', target: 4, value: '0s:0,60s:9'}"
    yield from world.patch("ConfigMap", "load", {"data": {"load": f"{{series: [{one}, {other}]}}"}}).until(
        180
    )
    yield from world.delete("ConfigMap", "load").until(230)
    yield from world.rest()


def jobs() -> Iterator[str]:
    """Jobs for what waits, less those at work; ended ones do not count; paused, wrong, and put right."""
    load = {"series": [{"name": "depth", "value": "0s:0,70s:35,200s:0,300s:10"}]}
    world = World(load, scaled_job(depth(), CPU, maxReplicaCount=3, jobTargetRef=_job()))
    yield from world.until(95)
    yield from world.apply(pod("a", "x", labels={"job-name": "batch-00001"})).ready("a").until(125)
    done = [{"type": "Complete", "status": "True"}]
    world.status("Job", "batch-00001", conditions=done)
    world.status("Job", "batch-00002", conditions=[{"type": "Failed", "status": "True"}])
    yield from world.status("Job", "batch-00003", conditions=[{"type": "Complete", "status": "False"}]).until(
        250
    )
    yield from world.patch("SJ", "batch", {"metadata": {"annotations": {HELD: "true"}}}).until(340)
    yield from world.patch("SJ", "batch", {"metadata": {"annotations": {HELD: None}}}).until(400)
    yield from world.patch("SJ", "batch", {"spec": {"triggers": [redis("lost"), depth()]}}).until(440)
    yield from world.patch("SJ", "batch", {"spec": {"triggers": [redis("lost")]}}).until(480)
    yield from world.patch("SJ", "batch", {"spec": {"triggers": [{"type": "odd", "metadata": {}}]}}).until(
        520
    )
    yield from world.rest()
    yield from world.delete("SJ", "batch").until(560)
    yield from world.rest()


def jobs_refused() -> Iterator[str]:
    """A quota that lets one job be: the others are refused at each poll, and said so. Others' jobs do not count."""
    meta = {"name": "few", "namespace": "default"}
    hard = {"hard": {"count/jobs.batch": "2"}}
    world = World(
        queue("20"),
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": hard, "status": hard},
        {
            **_job(),
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "own", "namespace": "default"},
        },
        scaled_job(depth(), minReplicaCount=1, scalingStrategy={"strategy": "accurate"}),
    )
    yield from world.until(70)
    yield from world.rest()


def _job() -> Obj:
    spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    return {"template": {"spec": spec}, "backoffLimit": 0}


def _load(name: str, text: str) -> Obj:
    meta = {"name": name, "namespace": "default", "labels": {"fairway.dev/load": "true"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"load": text}}


def _hours(**other: str) -> Obj:
    metadata = {"timezone": "UTC", "start": "1 0 * * *", "end": "4 0 * * *", "desiredReplicas": "3", **other}
    return {"type": "cron", "metadata": metadata}


def _counts(selector: str, value: str = "1", **more: str) -> Obj:
    return {"type": "kubernetes-workload", "metadata": {"podSelector": selector, "value": value, **more}}


STORIES: tuple[Callable[[], Iterator[str]], ...] = (
    *(
        sleeps_and_wakes,
        idle,
        least,
        held,
        falls_back,
        falls_back_to_what_there_is,
        without_fallback,
        formulas,
    ),
    *(wrong, comes_and_goes, counted_pods, by_nodes_alone, outside, jobs, jobs_refused),
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_nothing_else_happens(story: Callable[[], Iterator[str]]) -> None:
    check_history(HERE / f"keda_{story.__name__}.txt", story())


@pytest.mark.parametrize("at_s", [10, 65, 95, 131, 260])
def test_a_copy_goes_on_alike(at_s: int) -> None:
    """Whatever is remembered: who was active, failures, jobs, what was found."""
    fallback = {"failureThreshold": 2, "replicas": 6}
    world = World(
        queue("0s:0,70s:15,200s:0"),
        *(deployment("sleeps"), scaled(depth(), name="sleeps", cooldownPeriod=60)),
        *(deployment("falls"), scaled(redis(), name="falls", minReplicaCount=1, fallback=fallback)),
        *(deployment("pods"), scaled(_counts("app=x"), name="pods")),
        scaled_job(depth(), maxReplicaCount=2),
        pod("x", "x"),
    )
    list(world.until(at_s))
    copied = world.forked()
    told = []
    for one in (copied, world):
        lines = list(one.until(300)) + list(one.delete("Pod", "x").until(700)) + list(one.rest())
        told.append(lines)
    assert told[0] == told[1]
