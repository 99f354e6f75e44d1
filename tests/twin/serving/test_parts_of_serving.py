"""Served models in a small twin: when a pod is an endpoint, what a scrape finds, and each series by its requests."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairway.catalog.catalog import load_catalog
from fairway.kube.objects import Key, Obj, meta_of
from fairway.kube.timestamps import SECOND_US
from fairway.serving import batching as b
from fairway.serving.disaggregated import Apart
from fairway.serving.fleet import Gateway
from fairway.serving.models import model_named
from fairway.serving.readings import Slo
from fairway.serving.steptimes import Deployed
from fairway.serving.traffic import Requests
from fairway.telemetry.store import Matcher
from fairway.twin.latency import NONE
from fairway.twin.serving.component import Room, Serving, _column
from fairway.twin.serving.series import ServingSource
from fairway.twin.serving.served import Served
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

NAME, NAMESPACE = "chat", "default"
Step = tuple[float, bool, bool]
"""At which second a pod began to get requests (or not), and to listen (or not)."""


def deployed() -> Deployed:
    gpu = load_catalog().gpu("H100-SXM5-80GB")
    assert gpu is not None
    return Deployed(model_named("llama-3.1-8b"), gpu)


def requests(*arrived_s: float, prompt: int = 100, output: int = 20) -> Requests:
    n = len(arrived_s)
    ones = np.ones(n, dtype=np.int64)
    return Requests(np.array(arrived_s, dtype=np.float64), prompt * ones, output * ones, np.arange(n))


class World:
    """One node, a Service `chat` for pods with `app: chat`, and the model behind it."""

    def __init__(self, asked: Requests, **served: Any) -> None:
        gateway = served.pop("gateway", Gateway())
        one = Served(NAME, NAMESPACE, served.pop("of", deployed()), asked, gateway, Slo(), **served)
        self.serving = Serving([one])
        self.twin = Twin(seed=1, latency=NONE, components=[*standard_components(), self.serving])
        offers = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
        status = {"allocatable": offers, "capacity": offers}
        self.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status})
        if not one.is_route:
            self.apply(service(NAME, app=NAME))
        self.began_us = self.twin.now_us

    @property
    def room(self) -> Room:
        return self.serving.rooms[0]

    def apply(self, *objects: Obj) -> World:
        for obj in objects:
            self.twin.store.create(obj)
        self.twin.wake()
        return self

    def patch(self, key: Key, patch: Obj) -> World:
        self.twin.store.patch(key, patch)
        self.twin.wake()
        return self

    def run_to(self, second: float) -> World:
        self.twin.run(self.began_us + round(second * SECOND_US))
        return self

    def watched(self, until_s: int, at: dict[int, Any] | None = None) -> dict[str, list[Step]]:
        """What each pod's endpoint became, looked at every half second; `at`: what to do when."""
        found: dict[str, list[Step]] = {}
        names: dict[str, str] = {}
        last: dict[str, tuple[bool, bool]] = {}
        for tick in range(2 * until_s + 1):
            self.run_to(tick / 2)
            if tick % 2 == 0 and at and tick // 2 in at:
                at[tick // 2]()
                self.twin.wake()
                self.run_to(tick / 2)
            for pod in self.twin.store.objects("Pod"):
                names[meta_of(pod)["uid"]] = meta_of(pod)["name"]
            now = {uid: (end.gets_requests, end.listens) for uid, end in self.room.endpoints.items()}
            for uid in [*now, *(u for u in last if u not in now)]:
                state = now.get(uid, (False, False))
                if last.get(uid, (False, False)) != state:
                    found.setdefault(names[uid], []).append((tick / 2, *state))
            last = {uid: now.get(uid, (False, False)) for uid in {**last, **now}}
        return found

    def delete(self, name: str) -> None:
        self.twin.store.delete(Key("Pod", NAMESPACE, name))


def service(name: str, **selector: str) -> Obj:
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": selector}}


def pod(name: str, labels: dict[str, str] | None = None, *, startup_s: int = 10, **container: Any) -> Obj:
    one = {
        "name": "vllm",
        "image": "i",
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1},
        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
        **container,
    }
    notes = {
        "fairway.dev/startup-time": f"{startup_s}s",
        "fairway.dev/stop-time": "3s",
        "fairway.dev/run-time": "forever",
        **container.pop("annotations", {}),
    }
    one.pop("annotations", None)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": labels or {"app": NAME},
            "annotations": notes,
        },
        "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 60, "containers": [one]},
    }


# Endpoints.


def test_a_pod_is_an_endpoint_from_its_readiness_until_after_its_deletion() -> None:
    """Up after ten seconds, sent requests two seconds later; after its deletion they come for two seconds more, it
    listens until preStop is over and is gone three seconds after that."""
    world = World(requests(200.0)).apply(pod("one"))
    (steps,) = world.watched(40, {20: lambda: world.delete("one")}).values()
    assert [s for s in steps if s[0] < 20] == [(10.0, False, True), (12.0, True, True)]
    assert [s for s in steps if s[0] >= 20] == [(22.0, False, True), (25.0, False, False)]
    assert world.room.endpoints == {}
    assert world.room.fleet.replicas[0, b.STATE] == b.GONE


def test_an_endpoint_that_is_not_ready_gets_no_requests() -> None:
    """It goes on listening; ready again, it gets them again two seconds later."""
    world = World(requests(200.0)).apply(pod("one"))
    key = Key("Pod", NAMESPACE, "one")

    def become(value: str) -> Any:
        def act() -> None:
            status = dict(world.twin.store.require(key)["status"])
            status["conditions"] = [
                {**c, "status": value} if c["type"] == "Ready" else c for c in status["conditions"]
            ]
            world.twin.store.set_status(key, status)

        return act

    found = world.watched(
        40, {20: become("False"), 30: become("True"), 35: become("False"), 36: become("True")}
    )
    assert found == {
        "one": [(10.0, False, True), (12.0, True, True), (22.0, False, True), (32.0, True, True)],
    }, "what is taken back within two seconds is never seen"


@pytest.mark.parametrize("loses", ["label", "service"])
def test_an_endpoint_nobody_finds_gets_no_requests(loses: str) -> None:
    world = World(requests(200.0)).apply(pod("one"), pod("other", {"app": "else"}))

    def lose() -> None:
        if loses == "label":
            world.patch(Key("Pod", NAMESPACE, "one"), {"metadata": {"labels": {"app": "else"}}})
        else:
            world.twin.store.delete(Key("Service", NAMESPACE, NAME))

    def find() -> None:
        if loses == "label":
            world.patch(Key("Pod", NAMESPACE, "one"), {"metadata": {"labels": {"app": NAME}}})
        else:
            world.apply(service(NAME, app=NAME))

    found = world.watched(40, {20: lose, 30: find})
    assert found == {
        "one": [(10.0, False, True), (12.0, True, True), (22.0, False, True), (32.0, True, True)]
    }


def test_a_container_that_runs_again_is_another_endpoint() -> None:
    """What the run before was writing is lost; nothing is sent to it any more, however soon the next one runs."""
    probe = {"httpGet": {"path": "/health", "port": 8000}}
    world = World(requests(14.9, 50.0, 51.0, 200.0, output=3000)).apply(pod("one", livenessProbe=probe))
    world.run_to(15)
    (uid,) = world.room.endpoints
    kubelet: Any = world.twin.component("kubelet")
    first = world.room.endpoints[uid]
    from fairway.twin.kubelet import probing

    probing.fail_liveness(kubelet, uid, 0, "no answer")
    world.run_to(120)
    second = world.room.endpoints[uid]
    assert (first.replica, second.replica) == (0, 1) and second.started_us > first.started_us
    assert (second.gets_requests, second.listens) == (True, True)
    assert [int(r[b.STATE]) for r in world.room.fleet.replicas] == [b.GONE, b.READY]
    assert world.room.last_replica == {"one": 1} and len(world.room.runs["one"]) == 2
    assert [given["pod"] for given in world.room.labels.values()] == ["one", "one"]
    assert [tuple(int(r[c]) for c in (b.STATUS, b.WHERE)) for r in world.room.fleet.what[:3]] == [
        (b.LOST, 0),
        (b.DONE_WELL, 1),
        (b.DONE_WELL, 1),
    ]


@pytest.mark.parametrize(
    ("drains", "knative", "lost", "closed_s"),
    [(False, False, True, 25.0), (True, False, False, 25.0), (False, True, False, 28.0)],
)
def test_what_becomes_of_answers_that_are_being_written(
    drains: bool, knative: bool, lost: bool, closed_s: float
) -> None:
    """At SIGTERM a server drops them, unless it drains; Knative's queue-proxy keeps it open for half a minute."""
    world = World(requests(*([24.9] * 3), 200.0, output=100), drains=drains)
    labels = {"app": NAME, **({"serving.knative.dev/revision": "r"} if knative else {})}
    world.apply(pod("one", labels, lifecycle={"preStop": {"sleep": {"seconds": 5}}}))
    # Still sent there: proxies have not heard yet.
    world.run_to(20)
    world.room.served = Served(
        NAME,
        NAMESPACE,
        deployed(),
        world.room.served.requests,
        Gateway(),
        Slo(),
        drains=drains,
        endpoint_us=9 * SECOND_US,
    )
    found = world.watched(28, {20: lambda: world.delete("one")})
    ends = [at_s for at_s, _, listens in found["one"] if not listens]
    assert ends[0] == closed_s
    world.twin.run(world.began_us + 60 * SECOND_US)
    world.serving.finish()
    assert list(world.room.fleet.what[:3, b.STATUS]) == [b.LOST if lost else b.DONE_WELL] * 3


# Probes that ask for tokens.


@pytest.mark.parametrize(
    ("arrived_s", "wanted", "restarts"),
    [
        (17.5, [0, 1, 2, 3], True),
        (18.0, [0, 0, 1, 2], True),
        (22.5, [0, 0, 1, 2], True),
        (27.5, [0, 0, 0, 1], False),
        (300.0, [0, 0, 0, 0], False),
    ],
)
def test_a_liveness_probe_waits_in_line_and_fails_where_the_first_waited_too_long(
    arrived_s: float, wanted: list[int], restarts: bool
) -> None:
    """Every five seconds, more than two of waiting; three failures in a row stop the container."""
    probe = {"httpGet": {"path": "/generate", "port": 8000}, "periodSeconds": 5, "timeoutSeconds": 2}
    asked = requests(14.0, arrived_s, 400.0, output=3000)
    world = (
        World(asked, of=replace(deployed(), seqs_most=1)).apply(pod("one", livenessProbe=probe)).run_to(14)
    )
    (end,) = world.room.endpoints.values()
    assert end.probe is not None
    assert (end.probe.path, end.probe.period_us, end.probe.timeout_s, end.probe.failures_most) == (
        "/generate",
        5 * SECOND_US,
        2.0,
        3,
    )
    failures = []
    for second in (15, 20, 25, 30):
        world.run_to(second)
        failures.append(end.failures)
    assert failures == wanted and not end.is_gone
    world.run_to(90)
    last = next(iter(world.room.endpoints.values()))
    assert end.is_gone is restarts and last.replica == int(restarts)


@pytest.mark.parametrize(
    ("probe", "wanted"),
    [
        ({"httpGet": {"path": "/v1/completions/"}}, ("/v1/completions/", 10, 1.0, 3)),
        (
            {"httpGet": {"path": "/generate"}, "failureThreshold": 5, "timeoutSeconds": 4},
            ("/generate", 10, 4.0, 5),
        ),
        ({"httpGet": {"path": "/health"}}, None),
        ({"httpGet": {"path": "/"}}, None),
        ({"tcpSocket": {"port": 80}}, None),
        (None, None),
    ],
)
def test_which_liveness_probes_generate(probe: Obj | None, wanted: tuple[Any, ...] | None) -> None:
    from fairway.twin.serving.component import _generating_probe

    plain: Obj = {"name": "sidecar"}
    obj: Obj = {"spec": {"containers": [plain, {**plain, **({"livenessProbe": probe} if probe else {})}]}}
    found = _generating_probe(obj, 1)
    assert (
        found and (found.path, found.period_us // SECOND_US, found.timeout_s, found.failures_most)
    ) == wanted
    assert _generating_probe(obj, 0) is None and _generating_probe(obj, 2) is None
    assert _generating_probe(obj, -1) is None and _generating_probe({}, 0) is None


# Metrics.


def test_a_scrape_every_quarter_minute_says_what_each_pod_has() -> None:
    world = World(
        requests(*(20 + 0.01 * i for i in range(40)), 300.0, output=4000), gateway=Gateway(holds=True)
    )
    world.apply(pod("one"), pod("two"))
    world.run_to(14)
    assert world.room.samples == []
    one, two = (world.twin.store.require(Key("Pod", NAMESPACE, name)) for name in ("one", "two"))
    until_us = world.began_us + 15 * SECOND_US
    assert world.serving.pod_metric(one, "vllm:num_requests_running") == (0, until_us)
    world.run_to(31)
    assert [sample.load.at_s for sample in world.room.samples] == [15, 30]
    until_us = world.began_us + 45 * SECOND_US
    running = [world.serving.pod_metric(each, "vllm:num_requests_running") for each in (one, two)]
    assert running == [(20_000, until_us), (20_000, until_us)]
    assert world.serving.pod_metric(one, "vllm_num_requests_running") == running[0]
    assert world.serving.pod_metric(one, "requests_in_flight") == running[0]
    assert world.serving.pod_metric(one, "up") is None
    stranger = {"metadata": {"uid": "x"}}
    assert world.serving.pod_metric(stranger, "vllm:num_requests_running") is None
    replicas, cache = world.room.samples[-1].values, world.room.fleet.times.cache_tokens
    cached = [replicas[i][b.CACHED] for i in (0, 1)]
    assert min(cached) > 0
    found = world.serving.pod_metric(one, "vllm:kv_cache_usage_perc")
    assert found == (round(1000 * cached[0] / cache), until_us)
    labels = (("model_name", "llama-3.1-8b"), ("service", NAME))
    totals = {name: world.serving.totals(name) for name in world.serving.metric_names()}
    assert totals.keys() == {
        "vllm:num_requests_waiting",
        "vllm:num_requests_running",
        "vllm:gpu_cache_usage_perc",
        "vllm:kv_cache_usage_perc",
        "requests_in_flight",
    }
    share = round(1000 * sum(cached) / (2 * cache))
    for name, wanted in (
        ("vllm:num_requests_running", 40_000),
        ("vllm:num_requests_waiting", 0),
        ("requests_in_flight", 40_000),
        ("vllm:gpu_cache_usage_perc", share),
    ):
        assert totals[name] == [(labels, NAMESPACE, wanted, until_us)], name
    assert world.serving.totals("up") == [] and Serving([]).metric_names() == []


def test_who_waits_at_the_gateway_counts_while_nobody_is_there() -> None:
    world = World(requests(1.0, 2.0, 3.0, 300.0), gateway=Gateway(holds=True)).run_to(16)
    totals = {name: world.serving.totals(name)[0][2] for name in world.serving.metric_names()}
    assert totals == {
        "vllm:num_requests_waiting": 3000,
        "vllm:num_requests_running": 0,
        "vllm:gpu_cache_usage_perc": 0,
        "vllm:kv_cache_usage_perc": 0,
        "requests_in_flight": 3000,
    }
    before = World(requests(1.0, 300.0), gateway=Gateway(holds=True)).run_to(14)
    assert before.serving.totals("vllm:num_requests_waiting")[0][2] == 0, "not scraped yet"


def test_names_of_metrics() -> None:
    names = (
        "vllm:num_requests_running",
        "vllm_num_requests_running",
        "requests_in_flight",
        "num",
        "vllm:x",
        "vllm_x",
    )
    assert [_column(n) for n in names] == [b.RUNNING, b.RUNNING, b.HELD, None, None, None]


def series_of(
    world: World, *matchers: Matcher, start_s: float = 0, end_s: float = 1e9
) -> dict[Any, list[Any]]:
    began_ms = world.began_us // 1000
    source = ServingSource(world.serving)
    found = source.select(matchers, began_ms + round(start_s * 1000), began_ms + round(end_s * 1000))
    return {
        s.labels: [(int(t - began_ms) // 1000, float(v)) for t, v in zip(s.times, s.values, strict=True)]
        for s in found
    }


def test_every_series_is_what_its_requests_make_of_it() -> None:
    """Counted anew from the table of requests, one by one."""
    asked = requests(*(13.0 + 0.7 * i for i in range(60)), 400.0, prompt=500, output=60)
    world = World(asked)
    nature = {"fairway.dev/serving": "errors=20%,accuracy=0.75,slowdown=3", "fairway.dev/gpu-memory": "3000M"}
    world.apply(pod("one"), pod("two", {"app": NAME, "rollouts-pod-template-hash": "h2"}, annotations=nature))
    world.run_to(64)
    room = world.room
    when, what = room.fleet.tables()
    scrapes = [0, 15, 30, 45, 60]
    both = {"namespace": NAMESPACE, "model_name": "llama-3.1-8b", "service": NAME}
    given = {
        0: {**both, "pod": "one", "rollouts_pod_template_hash": ""},
        1: {**both, "pod": "two", "rollouts_pod_template_hash": "h2"},
    }
    assert room.labels == given
    assert int((what[:, b.STATUS] == b.FAILED).sum()) > 0
    wanted: dict[Any, list[Any]] = {}

    def say(name: str, labels: dict[str, str], values: list[float]) -> None:
        key = tuple(sorted((k, v) for k, v in {"__name__": name, **labels}.items() if v))
        wanted[key] = [(t, pytest.approx(v)) for t, v in zip(scrapes, values, strict=True)]

    for replica, labels in given.items():
        mine = [i for i in range(60) if what[i, b.WHERE] == replica]
        well = [i for i in mine if what[i, b.STATUS] == b.DONE_WELL]
        for code, status in (("200", b.DONE_WELL), ("500", b.FAILED), ("502", b.LOST)):
            ends = [when[i, b.DONE] for i in mine if what[i, b.STATUS] == status]
            say("http_requests_total", {**labels, "code": code}, [sum(e <= t for e in ends) for t in scrapes])
        done = [[i for i in well if when[i, b.DONE] <= t] for t in scrapes]
        stop = {**labels, "finished_reason": "stop"}
        say("vllm:request_success_total", stop, [len(ids) for ids in done])
        say("vllm:generation_tokens_total", labels, [sum(what[i, b.OUTPUT] for i in ids) for ids in done])
        say("kube_pod_container_status_restarts_total", labels, [0] * 5)
        gpu = deployed().gpu.memory_bytes * deployed().memory_share / 2**20
        say("DCGM_FI_DEV_FB_USED", labels, [math.ceil(3e9) / 2**20 if replica else gpu] * 5)
        if replica:
            say("model_accuracy", labels, [0.75] * 5)
        first = [[i for i in well if when[i, b.FIRST] <= t] for t in scrapes]
        histograms: list[tuple[str, list[list[int]], Any]] = [
            ("vllm:time_to_first_token_seconds", first, lambda i: when[i, b.FIRST] - when[i, b.ARRIVED]),
            ("vllm:time_per_output_token_seconds", done, lambda i: (when[i, b.DONE] - when[i, b.FIRST]) / 59),
            ("vllm:e2e_request_latency_seconds", done, lambda i: when[i, b.DONE] - when[i, b.ARRIVED]),
        ]
        for name, ids_at, value in histograms:
            say(f"{name}_count", labels, [len(ids) for ids in ids_at])
            say(f"{name}_sum", labels, [sum(value(i) for i in ids) for ids in ids_at])
            for text in BOUNDS[name]:
                say(
                    f"{name}_bucket",
                    {**labels, "le": text},
                    [sum(value(i) <= float(text.replace("+Inf", "inf")) for i in ids) for ids in ids_at],
                )
    found = series_of(world)
    assert found.keys() == wanted.keys()
    for key, values in wanted.items():
        assert found[key] == values, key
    # One by one they are the same, and only those that are asked for.
    names = {dict(key)["__name__"] for key in wanted}
    assert names <= set(ServingSource(world.serving).names())
    for name in sorted(names):
        alone = series_of(world, Matcher("__name__", "=", name))
        assert alone == {k: v for k, v in found.items() if dict(k)["__name__"] == name}
    of_two = series_of(world, Matcher("pod", "=", "two"))
    assert of_two == {k: v for k, v in found.items() if dict(k)["pod"] == "two"}


BOUNDS = {
    "vllm:time_to_first_token_seconds": (
        *(
            "0.001",
            "0.005",
            "0.01",
            "0.02",
            "0.04",
            "0.06",
            "0.08",
            "0.1",
            "0.25",
            "0.5",
            "0.75",
            "1.0",
            "2.5",
        ),
        *("5.0", "7.5", "10.0", "20.0", "40.0", "80.0", "+Inf"),
    ),
    "vllm:time_per_output_token_seconds": (
        *(
            "0.01",
            "0.025",
            "0.05",
            "0.075",
            "0.1",
            "0.15",
            "0.2",
            "0.3",
            "0.4",
            "0.5",
            "0.75",
            "1.0",
            "2.5",
            "+Inf",
        ),
    ),
    "vllm:e2e_request_latency_seconds": (
        *(
            "0.3",
            "0.5",
            "0.8",
            "1.0",
            "1.5",
            "2.0",
            "2.5",
            "5.0",
            "10.0",
            "15.0",
            "20.0",
            "30.0",
            "40.0",
            "50.0",
        ),
        *("60.0", "120.0", "240.0", "480.0", "+Inf"),
    ),
}


@pytest.mark.parametrize(
    ("start_s", "end_s", "times"),
    [
        (0, 1e6, [0, 15, 30, 45]),
        (-100, 44, [0, 15, 30]),
        (0.001, 45, [15, 30, 45]),
        (15, 15, [15]),
        (16, 29, []),
        (46, 1e6, []),
    ],
)
def test_samples_between_two_times(start_s: float, end_s: float, times: list[int]) -> None:
    world = World(requests(300.0)).apply(pod("one")).run_to(50)
    found = series_of(world, Matcher("__name__", "=", "DCGM_FI_DEV_FB_USED"), start_s=start_s, end_s=end_s)
    assert [[t for t, _ in values] for values in found.values()] == ([times] if times else [])


# Routes.


def route(**weights: int | None) -> Obj:
    backends = [
        {"name": name, "port": 80, **({} if weight is None else {"weight": weight})}
        for name, weight in weights.items()
    ]
    meta = {"name": NAME, "namespace": NAMESPACE}
    rules: list[Obj] = [{"backendRefs": []}, {"backendRefs": backends}, {"backendRefs": [{"name": "late"}]}]
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": meta,
        "spec": {"rules": rules},
    }


def test_a_routes_weights_are_heard_two_seconds_late_but_the_first() -> None:
    world = World(requests(300.0), is_route=True)
    world.apply(service("blue", app="blue"), service("green", app="green"), service("both", tier="web"))
    world.apply(route(blue=3, green=1, both=0)).run_to(1)

    def backends() -> list[Any]:
        return list(world.room.backends)

    assert backends() == [("blue", 3), ("green", 1), ("both", 0)]
    assert list(world.room.fleet._limits[b.GROUPS :]) == [3, 3, 1, 0]
    assert sorted(world.room.selectors) == ["blue", "both", "green"]
    assert world.room.groups_of({"app": "green", "tier": "web"}) == [1, 2], "with most weight first"
    assert world.room.groups_of({"app": "blue"}) == [0] and world.room.groups_of({"app": "x"}) == []
    key = Key("HTTPRoute.gateway.networking.k8s.io", NAMESPACE, NAME)
    world.patch(key, {"spec": route(green=None, blue=0)["spec"]}).run_to(2.9)
    assert backends()[0] == ("blue", 3)
    world.run_to(3.1)
    assert backends() == [("green", 1), ("blue", 0)] and world.room.routes == []
    world.twin.store.delete(key)
    world.twin.wake()
    world.run_to(6)
    assert backends() == [] and list(world.room.fleet._limits[b.GROUPS :]) == [1, 0]


def test_pods_of_a_routes_services_are_its_groups_and_named_by_the_heaviest() -> None:
    world = World(requests(300.0), is_route=True)
    world.apply(service("blue", app="blue"), service("both", tier="web"), route(blue=1, both=3))
    world.apply(pod("a", {"app": "blue", "tier": "web"}), pod("c", {"app": "blue"}), pod("x", {"app": "no"}))
    world.run_to(14)
    assert sorted(world.room.endpoints[u].replica for u in world.room.endpoints) == [0, 1]
    by_pod = {given["pod"]: (given["service"], replica) for replica, given in world.room.labels.items()}
    assert {name: where for name, (where, _) in by_pod.items()} == {"a": "both", "c": "blue"}
    groups = {name: int(world.room.fleet.replicas[replica, b.GROUP]) for name, (_, replica) in by_pod.items()}
    assert groups == {"a": 0b11, "c": 0b01}


def test_selectors_of_services_pools_and_placeholders() -> None:
    world = World(requests(300.0), is_route=True).apply(route(s=1, pool=1, ksvc=1, none=1, empty=1))
    pool = {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "pool", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": "pooled"}}},
    }
    placeholder = service("ksvc")
    placeholder["metadata"]["labels"] = {"serving.knative.dev/service": "ksvc"}
    odd = service("none")
    odd["metadata"]["labels"] = {"serving.knative.dev/service": "other"}
    world.apply(service("s", app="s"), pool, placeholder, odd, service("unasked", app="u")).run_to(3)
    matches = {
        name: [selector.matches(labels) for labels in ({"app": "s"}, {"app": "pooled"}, {KNATIVE: "ksvc"})]
        for name, selector in world.room.selectors.items()
    }
    assert matches == {"s": [True, False, False], "pool": [False, True, False], "ksvc": [False, False, True]}
    world.twin.store.delete(Key("Service", NAMESPACE, "s"))
    world.twin.wake()
    world.run_to(4)
    assert sorted(world.room.selectors) == ["ksvc", "pool"]


KNATIVE = "serving.knative.dev/service"


def test_servers_that_read_prompts_are_replicas_before_and_have_no_series() -> None:
    world = World(requests(300.0), reads=deployed())
    reader = {"app": NAME, "llm-d.ai/role": "prefill"}
    world.apply(pod("writes"), pod("reads", reader)).run_to(31)
    fleet = world.room.fleet
    assert isinstance(fleet, Apart)
    assert (len(fleet.replicas), len(fleet.before.replicas)) == (1, 1)
    assert {given["pod"] for given in world.room.labels.values()} == {"writes"}
    assert sorted(world.room.samples[-1].values) == [-1, 0]
    assert [end.reads for end in world.room.endpoints.values()] == [False, True]
    # Where nobody reads for others, nobody is sent to who only reads.
    plain = World(requests(300.0)).apply(pod("writes"), pod("reads", reader)).run_to(14)
    assert [given["pod"] for given in plain.room.labels.values()] == ["writes"]


# Forks.


def test_a_fork_shares_nothing_that_changes() -> None:
    world = World(requests(14.0, 300.0), is_route=True)
    world.apply(service("blue", app=NAME), route(blue=1), pod("one")).run_to(31)
    world.patch(
        Key("HTTPRoute.gateway.networking.k8s.io", NAMESPACE, NAME), {"spec": route(blue=2)["spec"]}
    ).run_to(31)
    room, twin = world.room, world.serving.fork()
    copy = twin.rooms[0]

    def state(of: Room) -> Any:
        ends = {
            u: (e.replica, e.gets_requests, e.listens, e.container, list(e.steps))
            for u, e in of.endpoints.items()
        }
        tables = [dict(t) for t in (of.selectors, of.natures, of.memory_mib, of.last_replica)]
        labels = {replica: dict(given) for replica, given in of.labels.items()}
        runs = {name: list(at) for name, at in of.runs.items()}
        numbers = (of.fleet.now_s, of.fleet.replicas.tolist(), of.backends, of.due_us)
        return ends, tables, labels, runs, numbers, list(of.routes), len(of.samples)

    before = state(room)
    assert state(copy) == before and twin.began_us == world.serving.began_us and len(copy.routes) == 1
    (end,) = copy.endpoints.values()
    end.steps.append((1, 1))
    end.listens = False
    copy.labels[0]["pod"] = "x"
    copy.runs["one"].append(1.0)
    for table in (copy.selectors, copy.natures, copy.last_replica, copy.endpoints, copy.routes, copy.samples):
        table.clear()
    copy.memory_mib[0] = 1.0
    copy.fleet.replicas[0, b.STATE] = b.GONE
    assert state(room) == before
