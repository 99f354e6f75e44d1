"""Loads without kubelets and controllers: what they answer of pods, series, queues and scalers, and until when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scalingworld import World
from scalingworld import deployment as deployed

from fairway.autoscaling.keda.external import Answer, Asked, Metric
from fairway.autoscaling.load.queues import Level
from fairway.autoscaling.load.reading import read_load
from fairway.autoscaling.source import NEVER_US, PodValue
from fairway.kube.labels import label_selector
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.twin.autoscaling.component import Autoscaling
from fairway.twin.autoscaling.loads import Loads, Value
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.latency import NONE
from fairway.twin.twin import EPOCH_US, Twin

WEB = {"kind": "Deployment", "name": "web", "namespace": "shop"}
LOAD: dict[str, Any] = {
    "workloads": [
        {
            **WEB,
            "total": {"cpu": 4, "rps": "0s:100,10m:900"},
            "each": {"memory": "2Gi", "rps": 5, "conns": "0s:1,5m:2"},
        },
        {"kind": "Deployment", "name": "absent", "total": {"lag": 3}},
    ],
    "series": [
        {"name": "depth", "labels": {"queue": "a"}, "value": "0s:1,5m:200"},
        {"name": "depth", "labels": {"queue": "b"}, "namespace": "shop", "value": 7},
        {"name": "hits", "object": {"kind": "Service", "name": "web"}, "namespace": "shop", "value": 40},
        {"name": "odd", "object": {"kind": "Nobody", "name": "x"}, "value": 1},
        {"name": "total", "perSecond": 2},
        {
            "name": "lag",
            "scaler": "s:6000",
            "target": 10,
            "value": "0s:0,2m:40",
            "labels": {"topic": ""},
            "namespace": "shop",
        },
        {"name": "lag2", "scaler": "s:6000", "target": 5, "value": "0s:0,5m:1", "labels": {"topic": ""}},
    ],
    "queues": [
        {
            "name": "jobs",
            "namespace": "shop",
            "arrivals": "0s:2,1h:20",
            "consumers": {**WEB, "rate": 0.5},
        },
        {"name": "mails", "metric": "mail_depth", "length": 3},
    ],
}


def deployment(name: str = "web", app: str = "web") -> Obj:
    spec = {"selector": {"matchLabels": {"app": app}}, "template": {}}
    meta = {"name": name, "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def pod(name: str, **labels: str) -> Obj:
    meta = {"name": name, "namespace": "shop", "labels": labels or {"app": "web"}}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def ready(twin: Twin, name: str, status: str = "True") -> None:
    said = {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}
    twin.store.set_status(Key("Pod", "shop", name), said)
    twin.wake()
    twin.run_for(0)


def a_twin(*objects: Obj) -> Twin:
    """Two of three pods are ready, and a minute is over."""
    twin = Twin(latency=NONE, components=[Autoscaling(read_load(LOAD))])
    twin.apply([deployment(), *(pod(f"p{i}") for i in range(3)), pod("stranger", app="x"), *objects])
    twin.run_for(0)
    ready(twin, "p0")
    ready(twin, "p1")
    twin.run_for(60 * SECOND_US)
    return twin


def loads(twin: Twin) -> Loads:
    room = twin.component("autoscaling")
    assert isinstance(room, Autoscaling)
    return room.loads


def at(seconds: int) -> int:
    return EPOCH_US + seconds * SECOND_US


@pytest.mark.parametrize(
    ("metric", "of_ready", "of_other"),
    [
        ("rps", Value(55_000, at(600)), Value(0, at(600))),
        ("conns", Value(1000, at(300)), Value(0, at(300))),
        ("cpu", Value(2000, NEVER_US), Value(0, NEVER_US)),
        ("memory", Value(2 * 2**30 * 1000, NEVER_US), Value(0, NEVER_US)),
        ("lag", None, None),
        ("depth", None, None),
    ],
)
def test_what_a_pod_reports(metric: str, of_ready: Value | None, of_other: Value | None) -> None:
    twin = a_twin()
    said = {
        name: loads(twin).pod_metric(twin.store.require(Key("Pod", "shop", name)), metric)
        for name in ("p0", "p1", "p2", "stranger")
    }
    assert said == {"p0": of_ready, "p1": of_ready, "p2": of_other, "stranger": None}
    assert loads(twin).pod_metric(pod("nobody", app="x"), metric) is None


def test_series_as_they_are_now() -> None:
    twin = a_twin()
    a, b = (("queue", "a"),), (("queue", "b"),)

    def now(metric: str, **labels: str) -> list[Any]:
        selector = label_selector({"matchLabels": labels}) if labels else None
        return [(s.labels, s.namespace, *v) for s, v in loads(twin).series(metric, selector)]

    assert now("depth") == [(a, "", 1000, at(300)), (b, "shop", 7000, NEVER_US)]
    assert now("depth", queue="b") == [(b, "shop", 7000, NEVER_US)]
    assert now("depth", queue="c") == []
    assert now("hits") == [((), "shop", 40_000, NEVER_US)]
    assert now("total") == [((), "", 120_000, at(75))]
    assert now("lag") == now("jobs") == now("rps") == []
    twin.run_for(240 * SECOND_US)
    assert now("depth") == [(a, "", 200_000, NEVER_US), (b, "shop", 7000, NEVER_US)]
    assert now("total") == [((), "", 600_000, at(315))]


def test_what_is_known_of_now_alone() -> None:
    twin = a_twin()
    of = {name: list(loads(twin).of_now(name)) for name in ("rps", "conns", "jobs", "mails", "mail_depth")}
    pods = [{"namespace": "shop", "pod": name} for name in ("p0", "p1")]
    mails = [({"queue": "mails", "namespace": ""}, Value(3000, NEVER_US))]
    assert of == {
        "rps": [(labels, Value(55_000, at(600))) for labels in pods],
        "conns": [(labels, Value(1000, at(300))) for labels in pods],
        "jobs": [({"queue": "jobs", "namespace": "shop"}, Value(60_000, at(75)))],
        "mails": mails,
        "mail_depth": mails,
    }
    assert [list(loads(twin).of_now(name)) for name in ("cpu", "memory", "depth", "lag", "total")] == [[]] * 5


def test_which_metrics_there_are() -> None:
    found = loads(a_twin())
    assert found.names() == [
        "conns",
        "depth",
        "hits",
        "jobs",
        "lag",
        "mail_depth",
        "mails",
        "odd",
        "rps",
        "total",
    ]
    assert [found.has(name) for name in ("depth", "rps", "jobs", "cpu", "lag2")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert found.metric_names(of_objects=True) == [
        "nobody/odd",
        "pods/conns",
        "pods/lag",
        "pods/rps",
        "services/hits",
    ]
    assert found.metric_names(of_objects=False) == ["depth", "jobs", "mail_depth", "total"]
    assert [(g.began_us, s.labels) for g, s in found.described("depth")] == [
        (EPOCH_US, (("queue", "a"),)),
        (EPOCH_US, (("queue", "b"),)),
    ]
    assert [found.until_us(g, s) for g, s in found.described("depth")] == [at(300), NEVER_US]
    assert found.described("rps") == []


@pytest.mark.parametrize(
    ("namespace", "address", "metadata", "want"),
    [
        ("shop", "s:6000", {"topic": "", "more": "x"}, ("lag", "lag2")),
        ("other", "s:6000", {"topic": ""}, ("lag2",)),
        ("shop", "s:6000", {"topic": "x"}, None),
        ("shop", "s:6000", {}, None),
        ("shop", "s:6001", {"topic": ""}, None),
    ],
)
def test_what_an_external_scaler_answers(
    namespace: str, address: str, metadata: dict[str, str], want: tuple[str, ...] | None
) -> None:
    twin = a_twin()
    asked = Asked(
        Key("ScaledObject.keda.sh", namespace, "o"), 0, address, False, tuple(sorted(metadata.items()))
    )
    targets = {"lag": 10_000, "lag2": 5000}

    def answer(values: dict[str, int], until: dict[str, int], active: bool) -> Answer | None:
        if want is None:
            return None
        metrics = tuple(Metric(name, targets[name]) for name in want)
        return Answer(metrics, {n: values[n] for n in want}, active, min(until[n] for n in want))

    assert loads(twin).scaler(asked) == answer(
        {"lag": 0, "lag2": 0}, {"lag": at(120), "lag2": at(300)}, False
    )
    twin.run_for(60 * SECOND_US)
    is_active = want is not None and "lag" in want
    assert loads(twin).scaler(asked) == answer(
        {"lag": 40_000, "lag2": 0}, {"lag": NEVER_US, "lag2": at(300)}, is_active
    )


def test_queues_flow_by_who_is_ready_since_when() -> None:
    """Two a second arrive, and each ready pod takes half of one."""
    twin = a_twin()

    def jobs() -> tuple[Level, int, Value]:
        (_, level, many, length), (mails, *_, mailed) = loads(twin).queues()
        assert (mails.name, mailed) == ("mails", Value(3000, NEVER_US))
        return level, many, length

    assert jobs() == (Level(at(60), 60_000, 120_000, 60_000), 2, Value(60_000, at(75)))
    twin.run_for(10 * SECOND_US)
    ready(twin, "p2")
    assert jobs() == (Level(at(70), 70_000, 140_000, 70_000), 3, Value(70_000, at(75)))
    twin.run_for(10 * SECOND_US)
    for name in ("p0", "p1", "p2"):
        ready(twin, name, "False")
    assert jobs() == (Level(at(80), 75_000, 160_000, 85_000), 0, Value(75_000, at(90)))
    copy = twin.fork()
    for one in (twin, copy):
        one.run_for(10 * SECOND_US)
        ((_, level, _, _), _) = loads(one).queues()
        assert level == Level(at(90), 95_000, 180_000, 85_000)


def test_a_pod_that_leaves_is_ready_no_more() -> None:
    twin = a_twin()
    twin.store.set_finalizers(Key("Pod", "shop", "p0"), ["example.com/held"])
    twin.store.delete(Key("Pod", "shop", "p0"))
    assert "deletionTimestamp" in twin.store.require(Key("Pod", "shop", "p0"))["metadata"]
    twin.run_for(SECOND_US)
    p1 = twin.store.require(Key("Pod", "shop", "p1"))
    assert loads(twin).pod_metric(p1, "rps") == Value(105_000, at(600))
    assert [many for _, _, many, _ in loads(twin).queues()] == [1, 0]


@pytest.mark.parametrize(
    ("kind", "obj", "want"),
    [
        ("Deployment", deployment("other", "x"), ["stranger"]),
        ("ScaledJob", {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob", "spec": {}}, ["job"]),
        (
            "ReplicationController",
            {"apiVersion": "v1", "kind": "ReplicationController", "spec": {"selector": {"app": "x"}}},
            ["stranger"],
        ),
        ("ReplicationController", {"apiVersion": "v1", "kind": "ReplicationController", "spec": {}}, []),
        ("Nobody", None, []),
        ("Deployment", None, []),
    ],
)
def test_whose_pods_a_workload_has(kind: str, obj: Obj | None, want: list[str]) -> None:
    twin = a_twin(pod("job", **{"scaledjob.keda.sh/name": "other"}))
    if obj is not None:
        twin.apply([{**obj, "metadata": {"name": "other", "namespace": "shop"}}])
    for name in ("job", "stranger"):
        ready(twin, name)
    found = loads(twin).ready_pods(kind, "shop", "other")
    assert [one["metadata"]["name"] for one in found] == want


def test_a_workload_that_comes_later_or_selects_others() -> None:
    twin = Twin(latency=NONE, components=[Autoscaling(read_load(LOAD))])
    twin.apply([pod("p0"), pod("p1", app="new")])
    twin.run_for(0)
    for name in ("p0", "p1"):
        ready(twin, name)

    def said() -> list[int | None]:
        pods = [twin.store.require(Key("Pod", "shop", name)) for name in ("p0", "p1")]
        return [v.milli if (v := loads(twin).pod_metric(one, "rps")) else None for one in pods]

    assert said() == [None, None]
    twin.apply([deployment()])
    twin.run_for(0)
    assert said() == [105_000, None]
    twin.store.patch(
        Key("Deployment.apps", "shop", "web"), {"spec": {"selector": {"matchLabels": {"app": "new"}}}}
    )
    twin.run_for(0)
    assert said() == [None, 105_000]


def test_what_is_dropped_says_nothing_any_more() -> None:
    twin = a_twin()
    of = loads(twin)
    of.put(
        "shop/more",
        read_load({"series": [{"name": "depth", "value": 9}, {"name": "new", "value": 1}]}),
        twin.now_us,
    )
    assert [v.milli for _, v in of.series("depth")] == [1000, 7000, 9000]
    of.drop("shop/more")
    of.drop("shop/never")
    assert [v.milli for _, v in of.series("depth")] == [1000, 7000]
    assert (of.series("new"), of.has("new")) == ([], False)
    of.drop("")
    assert (of.names(), of.queues()) == ([], [])
    assert of.pod_metric(twin.store.require(Key("Pod", "shop", "p0")), "rps") is None


def test_a_copy_answers_as_its_original_and_by_itself() -> None:
    twin = a_twin()
    copy = twin.fork()
    loads(twin).drop("")
    assert [v.milli for _, v in loads(copy).series("depth")] == [1000, 7000]
    assert [s.name for _, s in loads(copy).described("lag")] == []
    p0 = copy.store.require(Key("Pod", "shop", "p0"))
    assert loads(copy).pod_metric(p0, "rps") == Value(55_000, at(600))
    ready(copy, "p2")
    assert loads(copy).pod_metric(p0, "rps") == Value(38_333, at(600))
    copy.run_for(600 * SECOND_US)
    assert loads(copy).pod_metric(p0, "rps") == Value(305_000, NEVER_US)


# What containers use


def using(load: Obj, seconds: int = 0, **limits: str) -> list[tuple[Any, Any]]:
    """CPU and memory of each pod of `web`, in steps since it began to work."""
    one = deployed("web", 2)
    one["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = limits
    world = World(load={"workloads": [{"name": "web", **load}]}, objects=[one])
    world.run(seconds)
    kubelet = world.twin.component("kubelet")
    assert isinstance(kubelet, Kubelet)
    of = [state.plan.behaviours[0] for state in kubelet.pods.values()]
    return [(b.cpu_milli, b.memory_bytes) for b in of]


GI = 2**30


@pytest.mark.parametrize(
    ("load", "limits", "want"),
    [
        ({"total": {"cpu": 3}}, {}, (1500, None)),
        ({"total": {"cpu": 3}}, {"cpu": "1"}, (1000, None)),
        ({"total": {"cpu": 3}}, {"cpu": "2"}, (1500, None)),
        ({"total": {"cpu": 3}, "each": {"cpu": "250m"}}, {}, (1750, None)),
        ({"each": {"memory": "1Gi"}}, {"cpu": "1"}, (None, GI)),
        ({"total": {"memory": "1Gi"}, "each": {"cpu": 1}}, {}, (1000, GI // 2)),
        ({"total": {"rps": 9}}, {}, (None, None)),
    ],
)
def test_what_each_ready_pod_uses(
    load: Obj, limits: dict[str, str], want: tuple[int | None, int | None]
) -> None:
    found = using(load, 60, **limits)
    last = [tuple(steps[-1][1] if steps else None for steps in one) for one in found]
    assert last == [want, want]


def test_what_they_use_follows_the_load_step_by_step() -> None:
    (first, memory), (second, _) = using({"total": {"cpu": "0s:2,1m:4,2m:4,3m:1"}}, 400)
    assert (first, memory) == (second, ())
    assert [level for _, level in first] == [1000, 2000, 500]
    assert first[2][0] - first[1][0] == 120 * SECOND_US


def test_a_config_map_alone_lets_pods_use_what_it_says() -> None:
    world = World(objects=[deployed("web", 2)])
    world.run(10)
    assert "Pod" not in world.room.kinds
    text = "workloads: [{name: web, each: {cpu: 2}}]"
    meta = {"name": "l", "labels": {"fairway.dev/load": ""}}
    world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": text}})
    world.run(10)
    kubelet = world.twin.component("kubelet")
    assert isinstance(kubelet, Kubelet)
    assert [state.plan.behaviours[0].cpu_milli[-1][1] for state in kubelet.pods.values()] == [2000, 2000]
    # A pod that comes later is one of them.
    world.twin.store.patch(Key("Deployment.apps", "default", "web"), {"spec": {"replicas": 3}})
    world.run(10)
    assert [state.plan.behaviours[0].cpu_milli[-1][1] for state in kubelet.pods.values()] == [2000] * 3


# What autoscalers are told, and until when


def test_until_when_an_answer_holds() -> None:
    twin = a_twin()
    room = twin.component("autoscaling")
    assert isinstance(room, Autoscaling)
    measured = room.measured
    of_web = label_selector({"matchLabels": {"app": "web"}})
    service = {"kind": "Service", "name": "web"}

    def until(ask: Callable[[], Any]) -> tuple[Any, int]:
        measured.begin()
        return ask(), measured.until_us

    a, b = ((("queue", "a"),), 1000), ((("queue", "b"),), 7000)
    jobs = ((("queue", "jobs"),), 60_000)
    assert until(lambda: measured.external_series("shop", "depth", None)) == ([a, b], at(300))
    assert until(lambda: measured.external_series("other", "depth", None)) == ([a], at(300))
    only_b = label_selector({"matchLabels": {"queue": "b"}})
    assert until(lambda: measured.external_series("shop", "depth", only_b)) == ([b], NEVER_US)
    assert until(lambda: measured.external("shop", "jobs", None)) == ([60_000], at(75))
    assert until(lambda: measured.external_series("shop", "jobs", None)) == ([jobs], at(75))
    assert until(lambda: measured.external("other", "hits", None)) == ([], NEVER_US)
    assert until(lambda: measured.of_object("shop", "hits", service, None)) == (40_000, NEVER_US)
    of_pods, holds_us = until(lambda: measured.of_pods("shop", "rps", of_web, None))
    assert holds_us == at(600)
    assert of_pods == {
        name: PodValue(twin.now_us, MINUTE_US, milli)
        for name, milli in (("p0", 55_000), ("p1", 55_000), ("p2", 0))
    }
    assert until(lambda: measured.usage("shop", of_web)) == ({}, NEVER_US)
    # The soonest of all that was asked since the beginning.
    measured.of_pods("shop", "rps", of_web, None)
    measured.external("shop", "depth", None)
    assert measured.until_us == at(300)


def test_an_object_whose_metric_has_steps() -> None:
    load = {"series": [{"name": "hits", "object": {"kind": "Service", "name": "web"}, "value": "0s:1,2m:5"}]}
    twin = Twin(latency=NONE, components=[Autoscaling(read_load(load))])
    twin.run_for(60 * SECOND_US)
    room = twin.component("autoscaling")
    assert isinstance(room, Autoscaling)
    room.measured.begin()
    assert room.measured.of_object("x", "hits", {"kind": "Service", "name": "web"}, None) == 1000
    assert room.measured.until_us == at(120)
