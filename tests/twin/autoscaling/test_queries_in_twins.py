"""PromQL asked inside a twin: KEDA's prometheus trigger over counters, GPUs and objects, and an oracle for loads."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scalingworld import World, deployment, node

from fairway.autoscaling.load.curves import Curve
from fairway.kube.objects import Obj
from fairway.telemetry.promql import Matrix, query_instant
from fairway.telemetry.store import MemoryStore, labels
from fairway.twin.queries import ask


def scaled(query: str, threshold: str, **metadata: str) -> Obj:
    metadata = {"serverAddress": "http://p:9090", "query": query, "threshold": threshold, **metadata}
    spec = {"minReplicaCount": 1, "maxReplicaCount": 50, "scaleTargetRef": {"name": "web"}}
    triggers = [{"type": "prometheus", "metadata": metadata}]
    meta = {"name": "web"}
    spec |= {"triggers": triggers}
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": meta, "spec": spec}


def requests(*curves: str) -> dict[str, Any]:
    series = [
        {"name": "http_requests_total", "labels": {"service": f"s{i}"}, "perSecond": curve}
        for i, curve in enumerate(curves)
    ]
    return {"series": [*series, {"name": "busy", "labels": {"zone": "a"}, "value": "0.5"}]}


def test_a_rate_of_a_counter_scales() -> None:
    query = 'sum(rate(http_requests_total{service="s0"}[2m]))'
    world = World(load=requests("0s:20,20m:90", "500"), objects=[deployment("web"), scaled(query, "10")])
    world.run(900)
    assert world.replicas("web") == 2
    world.run(900)
    assert world.replicas("web") == 9


def test_how_busy_gpus_are_scales() -> None:
    web = deployment("web")
    template: dict[str, Any] = web["spec"]["template"]
    template["metadata"]["annotations"] = {"fairway.dev/gpu-utilization": "0s:20,20m:80"}
    template["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    query = 'avg(avg_over_time(DCGM_FI_DEV_GPU_UTIL{namespace="default"}[5m]))'
    world = World(nodes=0)
    for number in range(3):
        board = node(f"gpu-{number}")
        board["metadata"]["labels"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        world.apply(board)
    world.apply(web)
    world.apply(scaled(query, "30"))
    world.run(900)
    assert world.replicas("web") == 1
    world.run(900)
    # The first is busy for 80 %, the second, which came later, for 20 %.
    assert world.replicas("web") == 2


def faults(load: dict[str, Any], query: str, **metadata: str) -> list[str]:
    world = World(load=load, objects=[deployment("web"), scaled(query, "10", **metadata)])
    world.run(90)
    return [message for reason, message in world.said("ScaledObject") if reason == "KEDAScalerFailed"]


@pytest.mark.parametrize(
    ("query", "metadata", "said"),
    [
        ("http_requests_total", {}, "prometheus query http_requests_total returned multiple elements"),
        ("rate(http_requests_total)", {}, "prometheus query api returned error. status: 400"),
        ("nobody_has_this", {}, "prometheus: nothing here has the metric nobody_has_this"),
        ('busy{zone="b"}', {"ignoreNullValues": "false"}, "target may be lost, the result is empty"),
        ("busy * 0 / 0", {"ignoreNullValues": "false"}, "prometheus query returns NaN"),
        ("1 + 1", {}, "json: cannot unmarshal number into Go struct field .data.result"),
        ("busy / 0", {"ignoreNullValues": "false"}, "prometheus query returns +Inf"),
    ],
)
def test_what_keda_says_of_a_query(query: str, metadata: dict[str, str], said: str) -> None:
    assert any(said in message for message in faults(requests("5", "6"), query, **metadata))


@pytest.mark.parametrize("query", ['busy{zone="b"}', "busy / 0", "sum(busy)", "count(kube_node_info)"])
def test_queries_that_keda_takes(query: str) -> None:
    assert faults(requests("5", "6"), query) == []


def test_objects_and_patterns_of_names() -> None:
    world = World(load=requests("5", "6"), objects=[deployment("web", 3)])
    world.run(60)
    assert number(world, 'kube_deployment_spec_replicas{deployment="web"}') == 3
    assert number(world, 'count({__name__=~"http_.*"})') == 2
    assert ask(world.twin.host, "absent_of_all").missing == ("absent_of_all",)


def test_an_answer_holds_until_the_load_is_another() -> None:
    world = World(load={"series": [{"name": "a", "value": "0s:1,1h:2"}]})
    world.run(60)
    began_us = world.room.loads.given[""].began_us
    assert ask(world.twin.host, "sum(a) * 2").until_us == began_us + 3_600_000_000
    assert ask(world.twin.host, "max_over_time(a[5m])").until_us == world.twin.now_us + 15_000_000


def number(world: World, query: str) -> float:
    found = ask(world.twin.host, query).result
    assert isinstance(found, Matrix), query
    assert len(found.labels) == 1, query
    return float(found.values[0, 0])


QUERIES = (
    "sum by (zone) ({metric})",
    "rate({metric}[2m])",
    "max_over_time({metric}[10m]) - min_over_time({metric}[10m])",
    "avg_over_time({metric}[5m] offset 3m)",
    "sum(increase({metric}[7m])) > 1",
    "quantile_over_time(0.5, {metric}[90s])",
    "max_over_time(sum({metric})[5m:1m])",
)


@pytest.mark.parametrize("seed", range(12))
def test_loads_answer_as_their_samples_would(seed: int) -> None:
    rng = random.Random(seed)
    series = []
    for i in range(3):
        at = sorted({0, *(rng.randrange(1, 3000) for _ in range(3))})
        curve = ",".join(f"{t}s:{rng.randrange(0, 400) / 4}" for t in at)
        how = rng.choice(["value", "perSecond"])
        one = {
            "name": "m",
            "labels": {"zone": "ab"[i % 2], "n": str(i)},
            how: curve,
            "ramp": rng.random() < 0.5,
        }
        series.append(one)
    world = World(load={"series": series})
    world.run(rng.randrange(1200, 4000))
    now_ms = world.twin.now_us // 1000
    kept = MemoryStore()
    for given_, described in world.room.loads.described("m"):
        began_ms = given_.began_us // 1000
        times = np.arange(now_ms - (now_ms - began_ms) // 15_000 * 15_000, now_ms + 1, 15_000, dtype=np.int64)
        values = np.array([described.at((t - began_ms) * 1000) / 1000 for t in times.tolist()])
        kept.extend(labels("m", dict(described.labels)), times, values)
    for query in QUERIES:
        text = query.replace("{metric}", "m")
        got, want = ask(world.twin.host, text).result, query_instant(kept, text, now_ms)
        assert isinstance(got, Matrix)
        assert isinstance(want, Matrix)
        assert sorted(got.labels) == sorted(want.labels), text
        np.testing.assert_allclose(got.values, want.values, rtol=1e-9, err_msg=text)


STEPS = st.lists(st.tuples(st.integers(1, 900), st.integers(0, 50_000)), max_size=5)


@settings(max_examples=80, deadline=None)
@given(STEPS, st.booleans(), st.integers(0, 1), st.integers(0, 4000))
def test_a_counter_is_the_sum_of_what_seconds_add(
    steps: list[tuple[int, int]], ramp: bool, repeats: int, until_s: int
) -> None:
    by_time = {0: 7_000, **{at * 1_000_000: value for at, value in steps}}
    curve = Curve(tuple(sorted(by_time.items())), ramp, repeats * 1_000_000_000)
    # Seconds' middles: exact where lines are straight within each.
    added = sum(curve.at(second * 1_000_000 + 500_000) for second in range(until_s))
    assert abs(curve.total(until_s * 1_000_000) - added) <= 1 + until_s
