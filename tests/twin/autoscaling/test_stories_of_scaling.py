"""Stories of HorizontalPodAutoscalers, VerticalPodAutoscalers and Knative's, whole: what each writes, says and plans.

What is told is compared with `stories/`; FAIRWAY_UPDATE_GOLDENS=1 writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scalingstory import NAMES, World, deployment, node, pod
from tests.histories import check_history

from fairway.kube.objects import Key, Obj

HERE = Path(__file__).parent / "stories"
GROUP = "autoscaling.knative.dev"


def scaler(
    name: str, *metrics: Obj, target: Obj | None = None, low: int = 1, high: int = 9, **spec: Any
) -> Obj:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, **(target or {})}
    spec = {"scaleTargetRef": ref, "minReplicas": low, "maxReplicas": high, "metrics": list(metrics), **spec}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": meta, "spec": spec}


def of(kind: str, name: str, amount: str | int, **more: Any) -> Obj:
    """A metric by its type; of a resource in percent where `amount` is a number."""
    target: Obj = {"type": "AverageValue", "averageValue": str(amount)}
    if isinstance(amount, int):
        target = {"type": "Utilization", "averageUtilization": amount}
    if kind in ("Resource", "ContainerResource"):
        return {"type": kind, f"{kind[0].lower()}{kind[1:]}": {"name": name, "target": target, **more}}
    return {"type": kind, kind.lower(): {"metric": {"name": name}, "target": target, **more}}


def usage() -> Iterator[str]:
    """CPU and memory of pods that begin, work more, less, end and are replaced."""
    steps = {"cpu": "0s:500m,3m:1500m,10m:100m", "memory": "0s:200Mi,5m:900Mi"}
    world = World(
        None,
        *(deployment(), scaler("web", of("Resource", "cpu", 50), of("Resource", "memory", "500Mi"))),
        *(pod(f"p{i}", annotations=steps) for i in range(2)),
        nodes=1,
    )
    yield from world.until(200)
    yield from world.apply(pod("late", annotations=steps)).until(420)
    yield from world.delete("Pod", "p0").until(1100)
    yield from world.rest()


def of_a_load() -> Iterator[str]:
    """What a load lets ready pods use and report: all of it divided, or each; one that is not ready has none."""
    each = {"memory": "300Mi", "hits": "0s:5,4m:12"}
    shop = {"kind": "Deployment", "name": "web", "namespace": "default", "total": {"cpu": "0s:1,100s:4"}}
    world = World(
        {"workloads": [{**shop, "each": each}]},
        *(deployment(), scaler("web", of("Resource", "cpu", 50), of("Pods", "hits", "10"))),
        *(pod(f"p{i}") for i in range(2)),
        nodes=1,
    )
    yield from world.until(130)
    yield from world.apply(pod("q"), pod("x", "other")).until(240)
    yield from world.delete("Pod", "p1").until(420)
    yield from world.rest()


def of_objects() -> Iterator[str]:
    """A metric of a Service as a value or by pod; one of another object; none; the largest of several counts."""
    service = {"apiVersion": "v1", "kind": "Service", "name": "front"}
    series = [
        {
            "name": "rps",
            "object": {"kind": "Service", "name": "front"},
            "namespace": "default",
            "value": "0s:80,90s:10",
        },
        {"name": "lag", "value": "0s:3,60s:30"},
    ]
    value: Obj = {"describedObject": service, "target": {"type": "Value", "value": "20"}}
    world = World(
        {"series": series},
        *(
            deployment("a"),
            scaler("a", of("Object", "rps", "20", describedObject=service), of("External", "lag", "10")),
        ),
        *(
            deployment("b"),
            scaler("b", {**of("Object", "rps", "1"), "object": {"metric": {"name": "rps"}, **value}}),
        ),
        *(
            deployment("c"),
            scaler("c", of("Object", "rps", "20", describedObject={**service, "name": "back"})),
        ),
        *(deployment("d"), scaler("d", of("Pods", "lag", "1"))),
    )
    yield from world.until(135)
    yield from world.rest()


def bounds() -> Iterator[str]:
    """Above and below what is allowed, at none, and by rules of its own: at most so many, so often, or not at all."""
    rules: Obj = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 30}]}}
    rules["scaleDown"] = {"policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}]}
    rules["scaleDown"]["stabilizationWindowSeconds"] = 20
    held = {"scaleDown": {"selectPolicy": "Disabled"}}
    world = World(
        {"series": [{"name": "lag", "value": "0s:70,2m:10,6m:0"}]},
        *(deployment("above", 5), scaler("above", of("External", "lag", "10"), high=3)),
        *(deployment("below", 0), scaler("below", of("External", "lag", "10"), low=2)),
        *(deployment("ruled"), scaler("ruled", of("External", "lag", "10"), behavior=rules)),
        *(deployment("held"), scaler("held", of("External", "lag", "10"), behavior=held)),
    )
    yield from world.until(100)
    yield from world.patch("Deployment", "below", {"spec": {"replicas": 1}}).until(500)
    yield from world.rest()


def aimed_otherwise() -> Iterator[str]:
    """A target that is not there, comes, goes, and another; a selector of nothing; pods that change their labels."""
    world = World(
        {"series": [{"name": "lag", "value": "30"}], "workloads": [_hits("web"), _hits("two")]},
        *(scaler("web", of("Pods", "hits", "10"), target={"name": "web"}), pod("p", "web"), pod("q", "two")),
    )
    yield from world.until(40)
    yield from world.apply(deployment(), deployment("two")).ready("p", "q").until(100)
    world.patch("HPA", "web", {"spec": {"scaleTargetRef": {"name": "two"}}})
    yield from world.until(130)
    yield from world.patch("Pod", "q", {"metadata": {"labels": {"app": "three"}}}).until(160)
    yield from world.patch("Pod", "q", {"metadata": {"labels": {"app": "two"}}}).until(190)
    yield from world.patch("Deployment", "two", {"spec": {"selector": {"matchLabels": {}}}}).until(220)
    yield from world.delete("Deployment", "two").until(250)
    yield from world.delete("HPA", "web").until(280)
    yield from world.rest()


# Vertical


def vertical(mode: str, *policies: Obj, name: str = "web", target: str = "web", **spec: Any) -> Obj:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    update = {"updateMode": mode, **spec.pop("update", {})}
    spec = {"targetRef": ref, "updatePolicy": update, **spec}
    if policies:
        spec["resourcePolicy"] = {"containerPolicies": list(policies)}
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": meta,
        "spec": spec,
    }


USES = {"cpu": "3", "memory": "3Gi"}


def recommended() -> Iterator[str]:
    """What pods of one name use, hour by hour, capped, one resource, one container; those that ended do not count."""
    alone = {"containerName": "c", "controlledResources": ["cpu"], "maxAllowed": {"cpu": "2"}}
    world = World(
        None,
        *(deployment(), vertical("Off"), vertical("Off", alone, name="alone")),
        vertical("Off", {"containerName": "*", "mode": "Off"}, name="none"),
        *(pod(f"p{i}", annotations={"cpu": f"0s:{i + 1},20m:4", "memory": "1Gi"}) for i in range(2)),
        pod("brief", annotations={"cpu": "9", "run-time": "90s"}, restartPolicy="Never"),
        nodes=1,
    )
    yield from world.until(300)
    yield from world.apply(pod("late", annotations=USES)).until(420)
    yield from world.delete("Deployment", "web").until(500)
    for name in ("p0", "p1", "late", "brief"):
        world.delete("Pod", name)
    yield from world.apply(deployment()).until(600)
    yield from world.rest()


def evicted() -> Iterator[str]:
    """By groups, half of each at a time; budgets count; who waits goes as well, bare pods stay."""
    guard: Obj = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    guard["metadata"] = {"name": "guard", "namespace": "default"}
    guard["spec"] = {"maxUnavailable": 0, "selector": {"matchLabels": {"guarded": "yes"}}}
    sets: list[Obj] = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"replicas": count, "selector": {"matchLabels": {"app": "web"}}},
        }
        for name, count in (("four", 4), ("one", 1))
    ]
    world = World(None, *sets, guard, deployment(), vertical("Recreate"), nodes=1)
    uid = {s["metadata"]["name"]: s["metadata"]["uid"] for s in world.twin.store.objects("ReplicaSet.apps")}
    uid["gone"] = "gone"
    for name, owner in (
        *((f"f{i}", "four") for i in range(4)),
        ("o", "one"),
        *((f"g{i}", "gone") for i in range(3)),
    ):
        made = pod(name, owner=owner, annotations=USES, labels={"guarded": "yes"} if name == "f1" else {})
        made["metadata"]["ownerReferences"][0]["uid"] = uid[owner]
        world.apply(made)
    world.apply(pod("bare", annotations=USES))
    huge = pod("huge", owner="four", resources={"requests": {"cpu": "100", "memory": "1Gi"}})
    huge["metadata"]["ownerReferences"][0]["uid"] = uid["four"]
    yield from world.apply(huge).until(150)
    yield from world.delete("PDB", "guard").until(400)
    yield from world.rest()


def in_place() -> Iterator[str]:
    """Resized where that can be; evicted where it cannot: another class of service, or five minutes without room."""
    both = {"requests": {"cpu": "4", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "1Gi"}}
    requests_only = {"containerName": "*", "controlledValues": "RequestsOnly"}
    world = World(
        None,
        *(deployment("web"), vertical("InPlaceOrRecreate", update={"minReplicas": 1})),
        *(deployment("sure"), vertical("InPlaceOrRecreate", requests_only, name="sure", target="sure")),
        *(node("narrow", "4"), node("wide", "9")),
        *(pod(f"p{i}", owner="p", annotations=USES, nodeName="narrow") for i in range(3)),
        *(
            pod(f"s{i}", "sure", owner="s", annotations={"cpu": "100m"}, nodeName="wide", resources=both)
            for i in range(2)
        ),
        pod("bare", annotations=USES, nodeName="wide"),
        nodes=1,
    )
    yield from world.until(1100)
    yield from world.rest()


def out_of_memory() -> Iterator[str]:
    """Each run that ended for want of memory counts once; by what its container had asked for."""
    world = World(None, deployment(), vertical("Off"), pod("p"), pod("q", resources={}), nodes=1)
    yield from world.until(70)
    for name, at in (
        ("p", "2026-01-05T00:01:05Z"),
        ("q", "2026-01-05T00:01:06Z"),
        ("p", "2026-01-05T00:02:30Z"),
    ):
        ended = {
            "reason": "OOMKilled",
            "exitCode": 137,
            "startedAt": "2026-01-05T00:00:00Z",
            "finishedAt": at,
        }
        key = next(k for k in world.twin.store.accounts.pods[0] if k.name == name)
        told = world.twin.store.require(key)["status"]["containerStatuses"]
        world.status("Pod", name, containerStatuses=[{**told[0], "lastState": {"terminated": ended}}])
        yield from world.until(world.twin.now_us // 1_000_000 - 1_767_571_200 + 130)
    yield from world.rest()


# Knative


def revision(name: str = "m", replicas: int = 1, concurrency: int = 0, **told: str) -> tuple[Obj, Obj]:
    """A PodAutoscaler and its Deployment, of a Service of that name."""
    meta: Obj = {"name": name, "namespace": "default", "labels": {"serving.knative.dev/service": "model"}}
    meta["annotations"] = {
        f"{GROUP}/{key.rstrip('_').replace('_', '-')}": value for key, value in told.items()
    }
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{name}-deployment"}
    spec = {"scaleTargetRef": target, "containerConcurrency": concurrency}
    made = {
        "apiVersion": "autoscaling.internal.knative.dev/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": meta,
    }
    own = deployment(f"{name}-deployment", replicas, app=name)
    own["metadata"]["labels"] = {"serving.knative.dev/revision": name}
    return {**made, "spec": spec}, own


def serving(name: str, of_revision: str = "m") -> Obj:
    return pod(name, of_revision, labels={"serving.knative.dev/revision": of_revision})


def _requests(value: str, name: str = "concurrency", about: str = "model") -> dict[str, Any]:
    return {
        "name": name,
        "object": {"kind": "Service", "name": about},
        "namespace": "default",
        "value": value,
    }


def to_zero_and_back() -> Iterator[str]:
    """Requests that end, come, surge, and end; pods that come, and one that is not ready."""
    world = World(
        {"series": [_requests("0s:50,60s:0,201s:40,231s:900,260s:0,601s:1")]}, *revision(), serving("a")
    )
    yield from world.until(3)
    yield from world.ready("a").until(150)
    yield from world.delete("Pod", "a").until(202)
    yield from world.apply(serving("b")).ready("b").until(231)
    yield from world.apply(*(serving(f"c{i}") for i in range(4))).ready("c0", "c1", "c2").until(240)
    yield from world.ready("c1", phase="Failed").until(420)
    for name in ("c0", "c1", "c2", "c3"):
        world.delete("Pod", name)
    yield from world.until(520)
    yield from world.delete("Pod", "b").until(640)
    yield from world.rest()


def by_rules() -> Iterator[str]:
    """Bounds, a target, a window, a first scale, how long the last pod stays, requests a second; changed meanwhile."""
    world = World(
        {"series": [_requests("0s:30,2m:4,5m:0"), _requests("0s:300,2m:0", "requests_per_second")]},
        *revision("low", min_scale="2", max_scale="3", target="10"),
        *revision(
            "quick", 4, window="10s", scale_down_delay="30s", target_utilization_percentage="100", target="10"
        ),
        *revision("last", 2, scale_to_zero_pod_retention_period="90s", initial_scale="2"),
        *revision("rates", metric="rps", target="100", activation_scale="3"),
        *revision("one", 1, 2, target_burst_capacity="0"),
        *(serving(f"{name}-p", name) for name in ("low", "quick", "last", "rates", "one")),
    )
    yield from world.ready(*(f"{name}-p" for name in ("low", "quick", "last", "rates", "one"))).until(100)
    yield from world.patch("PA", "low", {"metadata": {"annotations": {f"{GROUP}/min-scale": "1"}}}).until(125)
    yield from world.patch("Deployment", "one-deployment", {"spec": {"replicas": 9}}).until(420)
    yield from world.rest()


def divided() -> Iterator[str]:
    """Two revisions by a route's percentages, which change; requests about one of them, about nobody, or elsewhere."""
    parts = (
        _requests("100"),
        _requests("20", about="m-private"),
        {**_requests("900"), "namespace": "other"},
        {"name": "requests_in_flight", "value": "15", "labels": {"service": "model"}},
        {"name": "concurrency", "value": "9000"},
    )
    world = World({"series": list(parts)}, *revision("m"), *revision("n"), serving("a"), serving("b", "n"))
    world.ready("a", "b")
    yield from world.until(20)
    route: Obj = {"apiVersion": "serving.knative.dev/v1", "kind": "Route", "spec": {}}
    route["metadata"] = {"name": "model", "namespace": "default"}
    traffic = [
        {"revisionName": "m", "percent": 25},
        {"revisionName": "n", "percent": 50},
        {"revisionName": "m"},
    ]
    yield from world.apply({**route, "status": {"traffic": traffic}}).until(100)
    yield from world.status("Route", "model", traffic=[{"revisionName": "n", "percent": 100}]).until(200)
    yield from world.status("Route", "model", address={"url": "x"}).until(240)
    yield from world.delete("PA", "m").until(300)
    yield from world.rest()


def settings_of_all() -> Iterator[str]:
    """config-autoscaler comes, is wrong, is mended and goes; the other class makes an autoscaler, and mends it."""
    world = World(
        {"series": [_requests("60")]}, *revision(), serving("a"), *revision("h", class_="hpa." + GROUP)
    )
    yield from world.ready("a").until(30)
    config: Obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"container-concurrency-target-default": "20"},
    }
    config["metadata"] = {"name": "config-autoscaler", "namespace": "knative-serving"}
    yield from world.apply(config).until(100)
    for data in (
        {"stable-window": "nonsense"},
        {"max-scale": "2"},
    ):
        key = Key("ConfigMap", "knative-serving", "config-autoscaler")
        world.twin.store.patch(key, {"data": {"stable-window": None, **data}})
        world.twin.wake()
        yield from world.until(world.twin.now_us // 1_000_000 - 1_767_571_200 + 60)
    world.patch("HPA", "h", {"spec": {"maxReplicas": 3}})
    yield from world.patch("PA", "h", {"metadata": {"annotations": {f"{GROUP}/max-scale": "5"}}}).until(260)
    world.twin.store.delete(key)
    world.twin.wake()
    yield from world.until(330)
    yield from world.rest()


def _hits(name: str) -> Obj:
    return {"kind": "Deployment", "name": name, "namespace": "default", "each": {"hits": "30"}}


STORIES: tuple[Callable[[], Iterator[str]], ...] = (
    *(usage, of_a_load, of_objects, bounds, aimed_otherwise, recommended, evicted, in_place, out_of_memory),
    *(to_zero_and_back, by_rules, divided, settings_of_all),
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_nothing_else_happens(story: Callable[[], Iterator[str]]) -> None:
    check_history(HERE / f"{story.__name__}.txt", story())


@pytest.mark.parametrize("at_s", [5, 61, 130, 250])
def test_a_copy_goes_on_alike(at_s: int) -> None:
    world = World(
        {"series": [_requests("0s:50,60s:0,200s:40"), {"name": "lag", "value": "0s:30,100s:5"}]},
        *(
            deployment(),
            scaler("web", of("External", "lag", "10"), of("Resource", "cpu", 50)),
            vertical("Recreate"),
        ),
        *(pod(f"p{i}", owner="p", annotations=USES) for i in range(4)),
        *(*revision(), serving("a")),
        nodes=1,
    )
    list(world.until(at_s))
    copied = world.forked()
    told = [
        list(one.until(400)) + list(one.delete("Pod", "a").until(600)) + list(one.rest())
        for one in (copied, world)
    ]
    assert told[0] == told[1]
    assert NAMES["VPA"] in "".join(told[0])
