"""What a trigger of KEDA finds: the clock, pods, queues, series, and what its authentication gives."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from scalingworld import World, deployment

from fairway.autoscaling.keda.external import Answer, Asked
from fairway.autoscaling.keda.triggers import Probe, TriggerFault, probe
from fairway.autoscaling.source import NEVER_US
from fairway.kube.objects import Key, Obj
from fairway.kube.secrets import texts_of
from fairway.kube.timestamps import HOUR_US, MINUTE_US, parse_rfc3339
from fairway.twin.autoscaling import probing


def asked(kind: str, **metadata: str) -> Probe:
    return probe(0, {"type": kind, "metadata": metadata}, "default", {})


def series_of(name: str) -> Probe:
    return asked("metrics-api", url="http://x", valueLocation=name, targetValue="1")


def cron(start: str, end: str, zone: str = "UTC", replicas: str = "5") -> Probe:
    return asked("cron", timezone=zone, start=start, end=end, desiredReplicas=replicas)


def at(world: World, clock: str) -> World:
    world.twin.run(parse_rfc3339(f"2026-01-05T{clock}:00Z"))
    return world


@pytest.mark.parametrize(
    ("clock", "zone", "is_within", "until"),
    [
        ("05:59", "UTC", False, "06:00"),
        ("06:00", "UTC", True, "20:00"),
        ("19:59", "UTC", True, "20:00"),
        ("20:00", "UTC", False, "30:00"),
        ("04:30", "Europe/Berlin", False, "05:00"),
        ("05:00", "Europe/Berlin", True, "19:00"),
    ],
)
def test_a_window_of_the_clock(clock: str, zone: str, is_within: bool, until: str) -> None:
    world = at(World(), clock)
    found = probing.found(world.room, cron("0 6 * * *", "0 20 * * *", zone), "default")
    hours, minutes = (int(part) for part in until.split(":"))
    until_us = parse_rfc3339("2026-01-05T00:00:00Z") + hours * HOUR_US + minutes * MINUTE_US
    assert found == (5000 if is_within else 0, is_within, until_us, "")


@pytest.mark.parametrize(
    ("start", "end", "zone", "said"),
    [
        ("0 6 * * *", "0 20 * * *", "UTC", ""),
        (
            "0 6 * * *",
            "0 20 * * *",
            "Mars/Olympus",
            "unable to load timezone: unknown time zone Mars/Olympus",
        ),
        ("0 6 * *", "0 20 * * *", "UTC", "error parsing cron metadata: error parsing start schedule: "),
        ("0 6 * * *", "0 99 * * *", "UTC", "error parsing cron metadata: error parsing end schedule: "),
        ("0 6 * * *", "0 6 * * *", "UTC", "error parsing cron metadata: start and end can not have exactly"),
    ],
)
def test_schedules_that_are_none(start: str, end: str, zone: str, said: str) -> None:
    fault = probing.cron_fault(cron(start, end, zone))
    assert fault.startswith(said)
    assert bool(fault) == bool(said)


def pod(
    name: str, node: str = "", phase: str = "Running", app: str = "web", namespace: str = "default"
) -> Obj:
    spec: Obj = {"containers": [{"name": "c", "image": "i"}]}
    if node:
        spec["nodeName"] = node
    meta = {"name": name, "namespace": namespace, "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": phase}}


def test_pods_are_counted_or_their_nodes() -> None:
    world = World(nodes=0)
    many = [pod("a", "n1"), pod("b", "n1"), pod("c", "n2"), pod("d"), pod("e", "n3", "Succeeded")]
    for one in [*many, pod("f", "n4", "Failed"), pod("g", "n5", app="db"), pod("h", "n6", namespace="other")]:
        world.twin.store.create(one)
        world.twin.store.set_status(
            Key("Pod", one["metadata"]["namespace"], one["metadata"]["name"]), one["status"]
        )
    world.twin.wake()
    for said, milli in (({}, 4000), ({"groupByNode": "false"}, 4000), ({"groupByNode": "true"}, 2000)):
        workload = asked("kubernetes-workload", podSelector="app=web", value="1", **said)
        assert probing.found(world.room, workload, "default")[:2] == (milli, True)
    idle = asked("kubernetes-workload", podSelector="app=web", value="1", activationValue="4")
    assert probing.found(world.room, idle, "default")[:2] == (4000, False)


def test_a_series_is_the_sum_of_those_of_its_namespace() -> None:
    series = [
        {"name": "depth", "value": 3},
        {"name": "depth", "value": 4, "namespace": "default"},
        {"name": "depth", "value": 50, "namespace": "other"},
        {"name": "else", "value": 100},
    ]
    world = World(load={"series": series, "queues": [{"name": "jobs", "length": 7}]})
    depth = series_of("depth")
    assert probing.found(world.room, depth, "default").milli == 7000
    assert probing.found(world.room, depth, "third").milli == 3000
    jobs = series_of("jobs")
    assert probing.found(world.room, jobs, "default").milli == 7000
    none = series_of("nothing")
    assert (
        probing.found(world.room, none, "default").fault == "metrics-api: no load describes a series nothing"
    )


QUERIES: list[tuple[str, str, int, str]] = [
    ("sum(depth)", "true", 3000, ""),
    ("depth / 0", "true", 0, ""),
    ("depth / 0", "false", 0, "prometheus query returns +Inf"),
    ("-depth / 0", "false", 0, "prometheus query returns -Inf"),
    ("depth * 0 / 0", "false", 0, "prometheus query returns NaN"),
    ("depth > 10", "true", 0, ""),
    ("depth > 10", "false", 0, "prometheus metrics 'prometheus' target may be lost, the result is empty"),
    ("scalar(depth)", "true", 0, "json: cannot unmarshal number into Go struct field .data.result"),
    ("sum(", "true", 0, "prometheus query api returned error. status: 400"),
    ("depth or label_replace(depth, 'a', 'b', '', '')", "true", 0, "returned multiple elements"),
    ("nowhere", "true", 0, "prometheus: nothing here has the metric nowhere"),
]


@pytest.mark.parametrize(("query", "ignores", "milli", "said"), QUERIES)
def test_what_a_query_comes_to(query: str, ignores: str, milli: int, said: str) -> None:
    world = World(load={"series": [{"name": "depth", "value": 3}]})
    world.run(60)
    metadata = {"serverAddress": "x", "query": query, "threshold": "1", "ignoreNullValues": ignores}
    found = probing.found(world.room, asked("prometheus", **metadata), "default")
    assert (found.milli, found.is_active) == (milli, milli > 0)
    assert said in found.fault
    assert bool(found.fault) == bool(said)


def held(kind: str, name: str, namespace: str, **data: str) -> Obj:
    meta = {"name": name, "namespace": namespace}
    if kind == "Secret":
        data = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "data": data}


def authentication(kind: str, name: str, **spec: Any) -> Obj:
    meta = {"name": name} if kind.startswith("Cluster") else {"name": name, "namespace": "default"}
    return {"apiVersion": "keda.sh/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


def test_what_an_authentication_gives() -> None:
    world = World()
    world.apply(held("Secret", "s", "default", password="sesame", other="x"))
    world.apply(held("ConfigMap", "c", "default", host="rabbit"))
    world.apply(held("Secret", "s", "keda", password="open"))
    of_secret = [
        {"parameter": "pw", "name": "s", "key": "password"},
        {"parameter": "no", "name": "s", "key": "missing"},
        {"parameter": "gone", "name": "nobody", "key": "password"},
    ]
    of_map = [{"parameter": "host", "name": "c", "key": "host"}]
    env = [{"parameter": "user", "name": "USER"}]
    own = authentication(
        "TriggerAuthentication", "own", secretTargetRef=of_secret, configMapTargetRef=of_map, env=env
    )
    world.apply(own)
    world.apply(authentication("ClusterTriggerAuthentication", "all", secretTargetRef=of_secret))
    given = probing.parameters(world.room, {"authenticationRef": {"name": "own"}}, "default")
    assert given == {"pw": "sesame", "host": "rabbit", "user": "USER"}
    ref = {"name": "all", "kind": "ClusterTriggerAuthentication"}
    assert probing.parameters(world.room, {"authenticationRef": ref}, "default") == {"pw": "open"}
    assert probing.parameters(world.room, {}, "default") == {}


def test_a_secret_of_anything_is_read_as_far_as_it_is_text() -> None:
    data = {"good": "c2VzYW1l", "odd": "c", "bytes": "//8=", "accent": "é", "none": None}
    texts = texts_of({"data": data, "stringData": {"plain": "x"}})
    assert texts == {"good": "sesame", "odd": "", "bytes": "", "accent": "", "none": "", "plain": "x"}


@pytest.mark.parametrize("kind", ["TriggerAuthentication", "ClusterTriggerAuthentication"])
def test_an_authentication_that_is_not_there(kind: str) -> None:
    world = World(objects=[deployment("web")])
    with pytest.raises(TriggerFault, match=f'^{kind.lower()}s.keda.sh "lost" not found$'):
        probing.parameters(world.room, {"authenticationRef": {"name": "lost", "kind": kind}}, "default")


class Outside:
    """Somebody who really asks: the answers in turn."""

    def __init__(self, *answers: Answer | None) -> None:
        self.answers, self.asked = list(answers), list[Asked]()

    def answer(self, asked: Asked) -> Answer | None:
        self.asked.append(asked)
        return self.answers.pop(0)

    def frozen(self) -> Outside:
        return self


def test_what_an_external_scaler_says() -> None:
    """Nothing yet is no fault; an answer from outside holds for now alone; a metric that it lacks is one."""
    world = at(World(), "01:00")
    now_us = world.twin.now_us
    asks = Asked(Key("ScaledObject.keda.sh", "default", "web"), 0, "s:1", False, ())
    trigger = Probe(0, "external", "s0-depth", "", "depth", 10_000, 0, "s0-depth", {}, {}, asks)
    nobody = probing.found(world.room, trigger, "default")
    assert nobody == (0, False, NEVER_US, "external: no load describes a scaler at s:1")
    values = {"depth": 7000, "other": 1}
    outside = Outside(
        None,
        Answer(fault="no"),
        Answer(values={"other": 1}),
        Answer(values=values, is_active=True),
        Answer(values=values),
    )
    world.room.outside = outside
    assert [probing.found(world.room, trigger, "default") for _ in range(5)] == [
        (0, False, now_us, ""),
        (0, False, now_us, "no"),
        (0, False, now_us, "external: s:1 has no metric depth"),
        (7000, True, now_us, ""),
        (7000, False, now_us, ""),
    ]
    assert outside.asked == [asks] * 5


def test_a_scaler_that_a_load_describes_is_not_asked_outside() -> None:
    load = {"series": [{"name": "depth", "scaler": "s:1", "target": 10, "value": "0s:40,1h:50"}]}
    world = at(World(load=load), "00:30")
    asks = Asked(Key("ScaledObject.keda.sh", "default", "web"), 0, "s:1", False, ())
    told = probing.external(world.room, asks)
    assert told is not None and told.fault == "" and dict(told.values) == {"depth": 40_000}
    world.room.outside = Outside()
    assert probing.external(world.room, asks) == told


def test_a_queue_without_what_consumers_hold() -> None:
    """RabbitMQ may leave out what is unacknowledged, SQS what is in flight; a queue of another namespace is none."""
    queues = [
        {
            "name": "jobs",
            "length": 9,
            "arrivals": "0s:0.003",
            "consumers": {"kind": "Deployment", "name": "web", "rate": "0.001", "atOnce": 2},
        },
        {"name": "far", "namespace": "other", "length": 4},
        {"name": "bare", "length": 3},
    ]
    series = [{"name": "level", "value": 8}]
    world = World(load={"queues": queues, "series": series}, objects=[deployment("web", 3)])
    world.run(30)

    def length(
        name: str, kind: str = "rabbitmq", namespace: str = "default", **more: str
    ) -> tuple[int, bool, str]:
        metadata = {"queueName": name, "mode": "QueueLength", "value": "1", "host": "amqp://x", **more}
        if kind == "aws-sqs-queue":
            metadata = {"queueURL": f"https://sqs.x/1/{name}", "queueLength": "1", "awsRegion": "x", **more}
        told = probing.found(world.room, asked(kind, **metadata), namespace)
        return told.milli, told.is_active, told.fault

    assert length("jobs") == (9000, True, "")
    assert length("jobs", excludeUnacknowledged="true", protocol="http") == (3000, True, "")
    assert length("jobs", "aws-sqs-queue") == (9000, True, "")
    assert length("jobs", "aws-sqs-queue", scaleOnInFlight="false") == (3000, True, "")
    assert length("bare", excludeUnacknowledged="true", protocol="http") == (3000, True, "")
    assert length("far", namespace="other") == (4000, True, "")
    assert length("far")[2] == "rabbitmq: no load describes a queue far"
    assert length("level") == (8000, True, "")


@pytest.mark.parametrize(
    ("selector", "is_wrong"), [("app=web", False), ("app in (a,b)", False), ("a in b", True)]
)
def test_a_selector_that_is_none_is_said(selector: str, is_wrong: bool) -> None:
    found = probing.selector_fault(asked("kubernetes-workload", podSelector=selector, value="1"))
    assert (
        found.startswith("error parsing kubernetes workload metadata: error parsing pod selector: ")
        is is_wrong
    )
    assert bool(found) is is_wrong
