"""Rules of the API server that need no server: when a wait is over, how long kubelets may cache, how it counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairway.apiserver import nodettl
from fairway.apiserver.components import latency_of
from fairway.apiserver.conditions import condition_of
from fairway.apiserver.controlplanepods import ControlPlanePods
from fairway.apiserver.events import KubeEvents, StoredEvents
from fairway.apiserver.kubelets.archives import is_complete
from fairway.apiserver.namespaced import NamespaceFurniture
from fairway.apiserver.nodeleases import NodeLeases
from fairway.apiserver.nodettl import ANNOTATION, NodeTtl
from fairway.apiserver.requestmeter import RequestMeter
from fairway.apiserver.requests import parse
from fairway.apiserver.statuses import StatusError, warning_headers
from fairway.apiserver.verbs.reading import parse_version
from fairway.apiserver.wire.messages import Request
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.store import Store
from fairway.errors import UserError
from fairway.kube.objects import Key, Obj
from fairway.scenario.entering import enter
from fairway.twin.distributions import Distribution
from fairway.twin.latency import DEFAULT, latency_named
from fairway.twin.twin import Twin

# When is it as we wait for?

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "team-a", "labels": {"a-b": "x"}},
    "spec": {"suspend": False, "containers": [{"name": "c"}]},
}


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ({"for": "condition=Complete"}, True),
        ({"for": "condition=complete=TRUE"}, True),
        ({"for": "condition=Complete=False"}, False),
        ({"for": "condition=Failed"}, False),
        ({"for": "condition=Failed=False"}, True),
        ({"for": "condition=Absent"}, False),
        ({"for": "create"}, True),
        ({"for": "delete"}, False),
        ({"for": "create", "target": "job/other"}, False),
        ({"for": "delete", "target": "job/other"}, True),
        ({"for": "delete", "namespace": "default"}, True),
        ({"for": "condition=Complete", "target": "job/other"}, False),
        ({"for": "jsonpath={.spec.suspend}=false"}, True),
        ({"for": "jsonpath=.spec.suspend=true"}, False),
        ({"for": "jsonpath={.spec.containers[0].name}=c"}, True),
        ({"for": "jsonpath={.spec.containers[1].name}="}, True),
        ({"for": "jsonpath={.metadata.labels.a-b}=x"}, True),
        ({"for": "jsonpath={.status.active}=2"}, True),
        ({"for": "jsonpath={.status.active}=3"}, False),
        ({"for": "jsonpath={.status.absent}="}, True),
        ({"for": "jsonpath={.status.active}=", "target": "job/other"}, True),
        ({"for": "create", "target": "node/n1"}, True),
        ({"for": "create", "target": "Job.batch/train"}, True),
    ],
)
def test_when_a_wait_is_over(said: Obj, want: bool) -> None:
    store = Store(seed=1)
    store.create(JOB)
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    conditions = [{"type": "Failed", "status": "False"}, {"type": "Complete", "status": "True"}]
    store.set_status(Key("Job.batch", "team-a", "train"), {"active": 2, "conditions": conditions})
    assert condition_of(store, {"target": "job/train", "namespace": "team-a", **said})() is want


@pytest.mark.parametrize(
    "said",
    [
        {"target": "train"},
        {"target": "job/"},
        {"target": "unheard/x"},
        {"for": "condition="},
        {"for": "jsonpath="},
        {"for": "jsonpath={.a b}=1"},
        {"for": "other"},
        {"for": ""},
    ],
)
def test_waits_that_cannot_be(said: Obj) -> None:
    with pytest.raises(UserError):
        condition_of(Store(seed=1), {"target": "job/train", "for": "create", **said})


# How long kubelets may cache: each size with some slack, so that one node more or less does not rewrite all of them


def test_the_annotation_follows_the_size_with_slack() -> None:
    """Source: pkg/controller/ttl/ttl_controller.go: up at 101, 501 and 1001 nodes, down below 90 and 450."""
    twin = Twin(seed=1, latency=latency_named("zero"), components=[NodeTtl()])
    alive: list[str] = []

    def resize(count: int) -> str:
        while len(alive) < count:
            alive.append(f"n{len(alive)}")
            enter(
                twin.host,
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": alive[-1], "annotations": {"own": "1"}},
                },
            )
        while len(alive) > count:
            twin.store.delete(Key("Node", "", alive.pop()))
        twin.wake()
        twin.run_for(1)
        found = {n["metadata"]["annotations"][ANNOTATION] for n in twin.store.objects("Node")}
        assert all(n["metadata"]["annotations"]["own"] == "1" for n in twin.store.objects("Node"))
        (one,) = found
        return one

    assert [resize(n) for n in (1, 100, 101, 100, 90, 89, 90, 101, 500, 501, 450, 449)] == [
        *("0", "0", "15", "15", "15", "0", "0", "15", "15", "30", "30", "15")
    ]


class OfSize:
    """A host of so many nodes."""

    def __init__(self, part: NodeTtl) -> None:
        self.nodes, self.now_us = 0, 0
        it: Any = self
        self.store = self.loop = it
        part.attach(it)

    def register(self, _name: str, handler: Any) -> Any:
        return handler

    def count(self, _kind: str) -> int:
        return self.nodes

    def objects(self, _kind: str) -> list[Obj]:
        return []


def test_the_slack_of_every_size() -> None:
    part = NodeTtl()
    host = OfSize(part)
    node: Obj = {"metadata": {"name": "n"}}
    for nodes, step in (
        *((100, 0), (101, 1), (500, 1), (501, 2), (1000, 2), (1001, 3), (2000, 3), (2001, 4), (10000, 4)),
        *((10001, 5), (9000, 5), (8999, 4), (1800, 4), (1799, 3), (900, 3), (899, 2), (450, 2), (449, 1)),
        *((90, 1), (89, 0), (0, 0), (10001, 5), (0, 0)),
    ):
        host.nodes = nodes
        part.observe(Change(1, DELETED, Key("Node", "", "n"), node, node))
        assert part._step == step, nodes
    assert (
        *((0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, 10000, 300)),
        (9000, 2**31 - 1, 600),
    ) == nodettl._SIZES


# When has all of an archive come?


def header(size: bytes) -> bytes:
    return b"name".ljust(124, b"\0") + size.ljust(12, b"\0") + b"x".ljust(512 - 136, b"\0")


@pytest.mark.parametrize(
    ("data", "want"),
    [
        (b"", False),
        (bytes(512), False),
        (bytes(1023), False),
        (bytes(1024), True),
        (bytes(512) + b"x" * 512, False),
        (header(b"0") + bytes(1024), True),
        (header(b"1") + b"y".ljust(512, b"\0") + bytes(1024), True),
        (header(b"1") + bytes(1024), False),
        (header(b"1000") + b"y" * 512 + bytes(1024), True),
        (header(b"1001") + b"y" * 512 + bytes(1024), False),
        (header(b"1001") + b"y" * 1024 + bytes(1024), True),
        (header(bytes((0x80,)) + bytes(10) + b"\x01") + b"y" * 512 + bytes(1024), True),
        (header(b"9") + bytes(4096), False),
    ],
)
def test_an_archive_ends_with_two_empty_blocks(data: bytes, want: bool) -> None:
    assert is_complete(data) is want
    assert is_complete(bytearray(data)) is want


# What requests are counted as


def counted(method: str, target: str, content_type: str = "application/json") -> tuple[Any, ...]:
    path, _, query = target.partition("?")
    request = Request(method, path, query, {"content-type": content_type}, b"")
    request.about = parse(method, path, "watch=true" in query)
    meter = RequestMeter()
    meter.answered(request, 200, 1000)
    meter.answered(request, 200, 1001)
    meter.answered(request, 404, 0)
    ((about, series),) = meter.series.items()
    assert series.by_code == {200: 2, 404: 1}
    assert (series.sizes[0], series.sizes[1], series.size_total) == (2, 1, 2001), (
        "a bound is part of its bucket"
    )
    assert sum(series.durations) == 3
    meter.began(request)
    ((going, count),) = meter.going_on.items()
    assert count == 1
    meter.ended(request, 101)
    assert meter.going_on == {going: 0}
    assert meter.series[going].by_code[101] == 1
    return about.verb, about.dry_run, about.resource, about.subresource, about.scope, about.component


@pytest.mark.parametrize(
    ("method", "target", "want"),
    [
        ("GET", "/api/v1/pods", ("LIST", "", "pods", "", "cluster", "apiserver")),
        ("GET", "/api/v1/namespaces/ns/pods", ("LIST", "", "pods", "", "namespace", "apiserver")),
        ("GET", "/api/v1/namespaces/ns/pods/p", ("GET", "", "pods", "", "resource", "apiserver")),
        ("GET", "/api/v1/namespaces/ns/pods?watch=true", ("WATCH", "", "pods", "", "namespace", "apiserver")),
        (
            "POST",
            "/api/v1/namespaces/ns/pods?dryRun=All",
            ("POST", "All", "pods", "", "resource", "apiserver"),
        ),
        ("PUT", "/api/v1/nodes/n/status", ("PUT", "", "nodes", "status", "resource", "apiserver")),
        (
            "DELETE",
            "/api/v1/namespaces/ns/pods",
            ("DELETECOLLECTION", "", "pods", "", "namespace", "apiserver"),
        ),
        (
            "POST",
            "/api/v1/namespaces/ns/pods/p/exec",
            ("CONNECT", "", "pods", "exec", "resource", "apiserver"),
        ),
        ("GET", "/healthz", ("GET", "", "", "/healthz", "", "")),
        ("GET", "/livez/etcd", ("GET", "", "", "/livez", "", "")),
        ("GET", "/somewhere/else", ("GET", "", "", "", "", "")),
    ],
)
def test_what_a_request_is_counted_as(method: str, target: str, want: tuple[str, ...]) -> None:
    assert counted(method, target) == want


@pytest.mark.parametrize(
    ("content_type", "want"),
    [("application/apply-patch+yaml", "APPLY"), ("application/merge-patch+json", "PATCH")],
)
def test_applying_is_no_other_patch(content_type: str, want: str) -> None:
    assert counted("PATCH", "/api/v1/nodes/n", content_type)[0] == want


# What a fork of the cluster has of its parts.


@pytest.mark.parametrize(
    "part",
    [
        KubeEvents(ttl_us=7, limit=3),
        NodeTtl(2),
        NodeLeases(),
        NamespaceFurniture(),
        ControlPlanePods(without=("kueue",)),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_fork_has_parts_of_its_own_with_the_same_settings(part: Any) -> None:
    fork = part.fork()
    assert fork is not part and type(fork) is type(part)
    names = ("ttl_us", "limit", "_step", "_also", "_without", "_programs")
    found = [n for n in names if hasattr(part, n)]
    assert [getattr(fork, n) for n in found] == [getattr(part, n) for n in found]


def test_a_fork_writes_its_events_nowhere() -> None:
    served = StoredEvents(Store())
    served.ttl_us, served.limit = 7, 3
    fork = served.fork()
    assert type(fork) is KubeEvents and (fork.ttl_us, fork.limit) == (7, 3)


# Headers of warnings, numbers of versions, latencies of a served cluster


@pytest.mark.parametrize(
    ("lengths", "want"),
    [
        ([4096], [4096]),
        ([4096, 0], [4096]),
        ([4097], [256]),
        ([4096, 1], [256, 1]),
        ([257] * 16 + [1], [256] * 16),
        ([257] * 15 + [256, 1], [256] * 16),
        ([257] * 15 + [255, 1, 1], [256] * 15 + [255, 1]),
        ([1, 5000, 2, 3], [1, 256, 2, 3]),
    ],
)
def test_how_much_is_warned_of(lengths: list[int], want: list[int]) -> None:
    """All of it up to 4096 characters; else 256 of each, while there is room for another."""
    texts = [f"{chr(97 + i)}" * length for i, length in enumerate(lengths)]
    told = warning_headers(texts)
    assert [name for name, _ in told] == ["Warning"] * len(want)
    assert [len(value) - len('299 - ""') for _, value in told] == want
    assert all(value.startswith(f'299 - "{text[:1]}') for (_, value), text in zip(told, texts, strict=False))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("99999999999999999999", "value out of range"),
        ("-1", "invalid syntax"),
        ("+1", "invalid syntax"),
        ("1.5", "invalid syntax"),
        ("²", "invalid syntax"),
        ("x", "invalid syntax"),
    ],
)
def test_versions_that_are_no_number(text: str, why: str) -> None:
    """In the words of strconv.ParseUint, which takes no sign."""
    with pytest.raises(StatusError) as caught:
        parse_version(text)
    said = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}'
    assert (caught.value.code, caught.value.message) == (500, said)
    assert parse_version("0") == 0 and parse_version("17") == 17


def test_images_of_a_served_cluster_are_cached_nearby() -> None:
    found = latency_of("served")
    assert found.image_pull == Distribution("uniform", 100_000, 400_000)
    assert found.image_check == Distribution("uniform", 50_000, 100_000)
    assert replace(found, image_pull=DEFAULT.image_pull, image_check=DEFAULT.image_check) == DEFAULT
    assert latency_of("zero") == latency_named("zero")
