"""VerticalPodAutoscaler: histograms that fade, recommendations, peaks, policies, restarts, what new pods get."""

from __future__ import annotations

import math
import random

import pytest

from fairway.autoscaling.vpa.admitting import resized
from fairway.autoscaling.vpa.histograms import CPU, MEMORY, Histogram
from fairway.autoscaling.vpa.policies import capped, mode
from fairway.autoscaling.vpa.recommending import (
    Recommendation,
    Usage,
    add_cpu,
    add_memory,
    add_oom,
    amounts_text,
    recommend,
)
from fairway.autoscaling.vpa.updating import Priority, in_order, is_worth_it, may_go, priority
from fairway.kube.timestamps import DAY_US, HOUR_US, MINUTE_US, rfc3339

NOW = 1_800_000_000_000_000
MI = 1024 * 1024


def used(milli: int, size: int, minutes: int, *, usage: Usage | None = None, start_us: int = NOW) -> Usage:
    usage = usage or Usage()
    for minute in range(minutes):
        at_us = start_us + minute * MINUTE_US
        add_cpu(usage, milli, at_us)
        add_memory(usage, "pod", size, at_us)
    return usage


def test_buckets_are_upstreams() -> None:
    """176 buckets each, as `NewExponentialHistogramOptions` counts them."""
    assert (CPU.count, MEMORY.count) == (176, 176)
    assert CPU.of(0.0) == CPU.of(0.0099) == 0
    assert CPU.of(10**9) == CPU.count - 1
    for bucket in range(1, CPU.count - 1):
        assert CPU.of(CPU.start(bucket) * 1.0001) == bucket


def test_a_percentile_is_the_end_of_its_bucket() -> None:
    histogram = Histogram(CPU)
    assert histogram.percentile(0.9) == 0.0
    for value in (0.1, 0.2, 0.3, 4.0):
        histogram.add(value, 1.0, NOW)
    assert 0.1 <= histogram.percentile(0.2) <= 0.111
    assert 0.3 <= histogram.percentile(0.7) <= 0.33
    assert histogram.percentile(1.0) == CPU.start(CPU.of(4.0) + 1)


def test_samples_fade_by_half_a_day() -> None:
    histogram = Histogram(CPU)
    for minute in range(60):
        histogram.add(4.0, 0.1, NOW + minute * MINUTE_US)
    assert histogram.percentile(0.5) > 3
    for minute in range(60):
        histogram.add(0.1, 0.1, NOW + 2 * DAY_US + minute * MINUTE_US)
    assert histogram.percentile(0.5) < 0.2
    assert histogram.percentile(0.9) > 3


def test_years_do_not_overflow() -> None:
    histogram = Histogram(CPU)
    for day in range(0, 1000, 10):
        histogram.add(1.0, 0.1, NOW + day * DAY_US)
    assert math.isfinite(histogram.total)
    assert 1.0 <= histogram.percentile(0.9) <= 1.06


def test_the_well_known_numbers() -> None:
    """A tenth of a core and next to no memory: `126m`-like steps, and the minimum of 250 MiB as `262144k`."""
    found = recommend({"c": used(2, 10 * MI, 1500)})["c"]
    assert amounts_text(found.target) == {"cpu": "25m", "memory": "262144k"}
    two = recommend({"a": used(2, 10 * MI, 10), "b": used(2, 10 * MI, 10)})
    assert amounts_text(two["a"].target) == {"cpu": "12m", "memory": "131072k"}
    assert recommend({"c": used(500, 3 * 1024 * MI, 1500)})["c"].target["cpu"] == 587


def test_bounds_narrow_with_time() -> None:
    young = recommend({"c": used(500, 1024 * MI, 5)})["c"]
    old = recommend({"c": used(500, 1024 * MI, 7 * 1440)})["c"]
    assert young.lower["cpu"] < old.lower["cpu"] <= old.target["cpu"] <= old.upper["cpu"] < young.upper["cpu"]
    assert old.upper["cpu"] == pytest.approx(old.target["cpu"] * 8 / 7, rel=0.01)
    one = recommend({"c": used(500, 1024 * MI, 1)})["c"]
    assert one.upper["cpu"] == 100_000_000_000_000
    assert one.lower["cpu"] == 25


def test_memory_counts_one_peak_a_day() -> None:
    usage = Usage()
    add_memory(usage, "p", 500 * MI, NOW)
    for minute, size in ((1, 400), (2, 900), (3, 800)):
        add_memory(usage, "p", size * MI, NOW + minute * MINUTE_US)
    assert sum(usage.memory.weights.values()) == pytest.approx(usage.memory.total)
    assert usage.memory.percentile(0.5) > 850 * MI
    add_memory(usage, "p", 100 * MI, NOW + DAY_US + MINUTE_US)
    assert sum(1 for w in usage.memory.weights.values() if w > 0) == 2


def test_running_out_of_memory_asks_for_more() -> None:
    usage = used(100, 900 * MI, 5)
    before = recommend({"c": usage})["c"].target["memory"]
    add_oom(usage, "pod", 1024 * MI, NOW + 6 * MINUTE_US)
    after = recommend({"c": usage})["c"].target["memory"]
    assert before < after
    assert after >= 1.2 * 1024 * MI
    small = Usage()
    add_oom(small, "pod", 50 * MI, NOW)
    assert small.memory.percentile(0.9) >= 150 * MI


def vpa(update_mode: str = "", **policy: object) -> dict[str, object]:
    spec: dict[str, object] = {}
    if update_mode:
        spec["updatePolicy"] = {"updateMode": update_mode}
    if policy:
        spec["resourcePolicy"] = {"containerPolicies": [{"containerName": "*", **policy}]}
    return {"spec": spec}


def test_policies_cap() -> None:
    given = Recommendation(*({"cpu": 500, "memory": 1024 * MI} for _ in range(3)))
    assert capped(vpa(maxAllowed={"cpu": "200m"}), "c", given).target["cpu"] == 200
    assert capped(vpa(minAllowed={"memory": "2Gi"}), "c", given).lower["memory"] == 2048 * MI
    assert dict(capped(vpa(controlledResources=["memory"]), "c", given).target) == {"memory": 1024 * MI}
    assert mode(vpa()) == "Recreate"


def running(cpu: str = "1", *, age_us: int = 0) -> dict[str, object]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"containers": [container]}, "status": {"startTime": rfc3339(NOW - age_us)}}


def told(target: str, lower: str, upper: str) -> dict[str, dict[str, dict[str, str]]]:
    return {"c": {"target": {"cpu": target}, "lowerBound": {"cpu": lower}, "upperBound": {"cpu": upper}}}


WORTH = {
    "below the lower bound": (told("3", "2", "4"), 0, True),
    "above the upper bound": (told("200m", "100m", "500m"), 0, True),
    "within, young": (told("1500m", "500m", "2"), HOUR_US, False),
    "within, old and far off": (told("1500m", "500m", "2"), 13 * HOUR_US, True),
    "within, old and near": (told("1050m", "500m", "2"), 13 * HOUR_US, False),
}


@pytest.mark.parametrize("name", WORTH)
def test_who_is_worth_a_restart(name: str) -> None:
    recommended, age_us, want = WORTH[name]
    pod = running(age_us=age_us)
    assert is_worth_it(vpa(), pod, priority(pod, recommended), NOW) is want


def test_order_and_tolerance() -> None:
    pods = [
        ({"n": i}, p)
        for i, p in enumerate([Priority(True, False, 9), Priority(True, True, 1), Priority(True, True, 3)])
    ]
    assert [p["n"] for p in in_order(pods)] == [2, 1, 0]
    assert [
        may_go(*case) for case in ((1, 1, 2), (2, 2, 2), (3, 3, 2), (3, 2, 2), (10, 10, 2), (1, 1, 1))
    ] == [
        0,
        1,
        1,
        0,
        5,
        1,
    ]


def test_limits_keep_their_proportion() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "4", "memory": "2Gi"}}
    found = resized(resources, {"cpu": "500m", "memory": "1Gi"}, True)
    assert found["limits"] == {"cpu": "2", "memory": "1073741824"}
    assert resized(resources, {"cpu": "500m"}, False)["limits"]["cpu"] == "4"


@pytest.mark.parametrize("seed", range(10))
def test_bounds_hold_the_target(seed: int) -> None:
    chance = random.Random(seed)
    usage = Usage()
    for minute in range(chance.randint(1, 3000)):
        at_us = NOW + minute * MINUTE_US
        add_cpu(usage, chance.randint(0, 4000), at_us)
        add_memory(usage, f"p{chance.randint(0, 2)}", chance.randint(1, 4096) * MI, at_us)
    found = recommend({"c": usage})["c"]
    for name in ("cpu", "memory"):
        assert found.lower[name] <= found.target[name] <= found.upper[name]
