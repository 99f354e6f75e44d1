"""Small parts of a twin against what they stand for, worked out another way."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fairway.serving import batching as b
from fairway.twin.behaviour import Behaviour
from fairway.twin.kubelet import preparing
from fairway.twin.kubelet.probes import LIVENESS, READINESS, STARTUP
from fairway.twin.kubelet.probing import failing_windows
from fairway.twin.serving import series

WINDOWS: dict[str, tuple[tuple[tuple[int, int], ...], int, list[tuple[int, int]]]] = {
    "nothing": ((), 0, []),
    "starting": ((), 5, [(100, 105)]),
    "apart": (((10, 20), (30, 40)), 0, [(110, 120), (130, 140)]),
    "touching": (((10, 20), (20, 40)), 0, [(110, 140)]),
    "overlapping": (((10, 30), (20, 40)), 0, [(110, 140)]),
    "one in another": (((10, 40), (20, 30)), 0, [(110, 140)]),
    "three in turn": (((0, 2), (1, 4), (4, 5), (7, 8)), 3, [(100, 105), (107, 108)]),
    "out of order": (((30, 40), (10, 20)), 15, [(100, 120), (130, 140)]),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_when_probes_fail(name: str) -> None:
    said, startup, want = WINDOWS[name]
    for kind, field in (
        (STARTUP, "startup_fails"),
        (READINESS, "readiness_fails"),
        (LIVENESS, "liveness_fails"),
    ):
        behaviour = Behaviour()
        setattr(behaviour, field, said)
        assert failing_windows(behaviour, kind, 100, startup) == want


def test_a_driver_tries_again_after_twice_as_long_up_to_three_seconds() -> None:
    tries, delay = [7], 250_000
    while len(tries) < 40:
        tries.append(tries[-1] + delay)
        delay = min(2 * delay, 3_000_000)
    for now in sorted({t + d for t in tries[:30] for d in (-1, 0, 1)} | {30_000_000, 61_500_000}):
        want = next(t for t in tries if t >= now)
        assert preparing._next_try_us(7, now) == want, now


# What Prometheus would have scraped of a model server


def _served() -> Any:
    """Four requests of two replicas: two done well, one failed, one of another replica."""
    when, what = np.zeros((4, 16)), np.zeros((4, 16), dtype=np.int64)
    rows = [
        # replica, status, arrived, first token, done, tokens
        (0, b.DONE_WELL, 1.0, 1.5, 5.5, 5),
        (0, b.DONE_WELL, 20.0, 21.5, 23.5, 1),
        (0, b.FAILED, 21.0, 22.0, 24.0, 3),
        (1, b.DONE_WELL, 2.0, 3.0, 4.0, 2),
    ]
    for i, (where, status, arrived, first, done, tokens) in enumerate(rows):
        what[i, b.WHERE], what[i, b.STATUS], what[i, b.OUTPUT] = where, status, tokens
        when[i, b.ARRIVED], when[i, b.FIRST], when[i, b.DONE] = arrived, first, done
    return SimpleNamespace(
        fleet=SimpleNamespace(arrived=4, tables=lambda: (when, what)),
        natures={0: SimpleNamespace(accuracy=0.5), 1: SimpleNamespace(accuracy=math.nan)},
        served=SimpleNamespace(deployed=None),
        memory_mib={0: 7.0},
        runs={"p": [0.0, 10.0, 30.0]},
        last_replica={"p": 0},
    )


def _pages(wanted: str | None, replica: int = 0) -> dict[tuple[tuple[str, str], ...], list[float]]:
    at_s = np.array([0.0, 15.0, 23.5, 30.0])
    found = {}
    for name, values in series._of_pod(_served(), replica, {"pod": "p"}, wanted, at_s):
        found[tuple(name)] = list(values)
    return found


def _one(wanted: str, replica: int = 0, **labels: str) -> list[float]:
    """Of the one series with these labels."""
    rest = {("__name__", wanted), ("pod", "p"), *labels.items()}
    (found,) = [values for name, values in _pages(wanted, replica).items() if set(_pairs(name)) == rest]
    return found


def _pairs(name: Any) -> list[tuple[str, str]]:
    return [(str(k), str(v)) for k, v in name]


def test_requests_and_tokens_are_counted_when_they_are_done() -> None:
    assert _one("vllm:request_success_total", finished_reason="stop") == [0, 1, 2, 2]
    assert _one("vllm:generation_tokens_total") == [0, 5, 6, 6]
    assert _one("http_requests_total", code="200") == [0, 1, 2, 2]
    assert _one("http_requests_total", code="500") == [0, 0, 0, 1]
    assert _one("http_requests_total", code="502") == [0, 0, 0, 0]


def test_histograms_count_what_is_at_most_a_bound() -> None:
    def bucket(name: str, le: str) -> list[float]:
        return _one(f"vllm:{name}_bucket", le=le)

    # First tokens after 0.5 s and 1.5 s, each counted when it came.
    assert bucket("time_to_first_token_seconds", "0.25") == [0, 0, 0, 0]
    assert bucket("time_to_first_token_seconds", "0.5") == [0, 1, 1, 1]
    assert bucket("time_to_first_token_seconds", "1.0") == [0, 1, 1, 1]
    assert bucket("time_to_first_token_seconds", "2.5") == [0, 1, 2, 2]
    # A token each second after the first of five; a single token's two seconds count as one's.
    assert bucket("time_per_output_token_seconds", "0.75") == [0, 0, 0, 0]
    assert bucket("time_per_output_token_seconds", "1.0") == [0, 1, 1, 1]
    assert bucket("time_per_output_token_seconds", "2.5") == [0, 1, 2, 2]
    # 4.5 s and 3.5 s from end to end.
    assert bucket("e2e_request_latency_seconds", "2.5") == [0, 0, 0, 0]
    assert bucket("e2e_request_latency_seconds", "5.0") == [0, 1, 2, 2]
    assert bucket("e2e_request_latency_seconds", "+Inf") == [0, 1, 2, 2]


# The bounds of vLLM's histograms, as its page has them.
BOUNDS = {
    "time_to_first_token_seconds": "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 "
    "40.0 80.0 +Inf",
    "time_per_output_token_seconds": "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 +Inf",
    "e2e_request_latency_seconds": "0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0 50.0 60.0 120.0 240.0 "
    "480.0 +Inf",
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_of_histograms(name: str) -> None:
    assert [dict(_pairs(found))["le"] for found in _pages(f"vllm:{name}_bucket")] == BOUNDS[name].split()


def test_sums_are_of_what_was_counted() -> None:
    assert _one("vllm:time_to_first_token_seconds_sum") == [0, 0.5, 2, 2]
    assert _one("vllm:time_per_output_token_seconds_sum") == [0, 1, 3, 3]
    assert _one("vllm:e2e_request_latency_seconds_sum") == [0, 4.5, 8, 8]
    assert _one("vllm:e2e_request_latency_seconds_count") == [0, 1, 2, 2]


def test_what_stands_beside_the_requests() -> None:
    assert _one("model_accuracy") == [0.5] * 4
    assert _pages("model_accuracy", 1) == {}, "nobody said how good it is"
    assert _one("DCGM_FI_DEV_FB_USED") == [7] * 4
    assert _one("DCGM_FI_DEV_FB_USED", 1) == [0] * 4
    # Begun at 0, 10 and 30 s: restarted after the first.
    assert _one("kube_pod_container_status_restarts_total") == [0, 1, 1, 2]
    assert _pages("kube_pod_container_status_restarts_total", 1) == {}, "the pod's last replica says it"


def test_every_series_has_a_name_that_is_listed() -> None:
    source = series.ServingSource(SimpleNamespace())  # type: ignore[arg-type]
    found = {dict(_pairs(name))["__name__"] for name in _pages(None)}
    assert sorted(found) == source.names()
    assert source.names() == sorted(source.names())
    for name in found:
        assert all(dict(_pairs(given))["__name__"] == name for given in _pages(name))
