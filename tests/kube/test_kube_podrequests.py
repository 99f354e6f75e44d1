"""Effective pod requests: containers, init containers, sidecars, overhead, pod-level."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.podrequests import pod_limits, pod_requests, pod_requests_non_zero
from fairway.kube.resources import format_resources, is_extended, parse_resources


def box(limits: dict[str, Any] | None = None, /, **requests: Any) -> dict[str, Any]:
    """A container; `gpu=2` stands for nvidia.com/gpu."""
    resources: dict[str, Any] = {"requests": {_name(k): v for k, v in requests.items()}}
    if limits:
        resources["limits"] = {_name(k): v for k, v in limits.items()}
    return {"name": "c", "resources": resources}


def sidecar(**requests: Any) -> dict[str, Any]:
    return {**box(**requests), "restartPolicy": "Always"}


def _name(short: str) -> str:
    return {"gpu": "nvidia.com/gpu"}.get(short, short)


CASES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "containers add up": (
        {"containers": [box(cpu="500m", memory="1Gi"), box(cpu=1, gpu=2)]},
        {"cpu": 1500, "memory": 2**30, "nvidia.com/gpu": 2},
    ),
    "nothing asked": ({"containers": [{"name": "c"}]}, {}),
    "a limit without a request is a request": (
        {"containers": [box({"gpu": 4, "cpu": "2"}, cpu="1")]},
        {"cpu": 1000, "nvidia.com/gpu": 4},
    ),
    "init containers count by their largest": (
        {"initContainers": [box(cpu=3), box(cpu=2)], "containers": [box(cpu=1)]},
        {"cpu": 3000},
    ),
    "init containers smaller than the rest do not count": (
        {"initContainers": [box(cpu=1)], "containers": [box(cpu=2)]},
        {"cpu": 2000},
    ),
    "a sidecar runs beside the containers": (
        {"initContainers": [sidecar(cpu=1)], "containers": [box(cpu=2)]},
        {"cpu": 3000},
    ),
    "a sidecar runs beside the init containers after it": (
        {"initContainers": [sidecar(cpu=1), box(cpu=5)], "containers": [box(cpu=2)]},
        {"cpu": 6000},
    ),
    "a sidecar does not run beside the init containers before it": (
        {"initContainers": [box(cpu=5), sidecar(cpu=1)], "containers": [box(cpu=2)]},
        {"cpu": 5000},
    ),
    "each resource by its own phase": (
        {"initContainers": [box(cpu=5, memory="1Gi")], "containers": [box(cpu=1, memory="4Gi")]},
        {"cpu": 5000, "memory": 4 * 2**30},
    ),
    "overhead comes on top": (
        {"containers": [box(cpu=1)], "overhead": {"cpu": "250m", "memory": "120Mi"}},
        {"cpu": 1250, "memory": 120 * 2**20},
    ),
    "pod-level requests override the sum": (
        {"containers": [box(cpu=1, gpu=1)], "resources": {"requests": {"cpu": "4", "memory": "2Gi"}}},
        {"cpu": 4000, "memory": 2 * 2**30, "nvidia.com/gpu": 1},
    ),
    "a pod-level limit alone is the request of what containers leave open": (
        {"containers": [box(cpu=1)], "resources": {"limits": {"cpu": "4", "memory": "2Gi"}}},
        {"cpu": 1000, "memory": 2 * 2**30},
    ),
    "fractions of a byte are added before they are rounded": (
        {"containers": [box(memory="500m"), box(memory="500m")]},
        {"memory": 1},
    ),
}


@pytest.mark.parametrize(("spec", "want"), CASES.values(), ids=CASES.keys())
def test_effective_requests(spec: dict[str, Any], want: dict[str, int]) -> None:
    got = pod_requests(spec)
    assert {k: v for k, v in got.items() if v} == want


def test_scores_assume_something_for_containers_that_ask_for_nothing() -> None:
    got = pod_requests_non_zero({"containers": [{"name": "a"}, box(cpu=1)]})
    assert got["cpu"] == 1100
    assert got["memory"] == 2 * 200 * 2**20


def test_limits_add_up() -> None:
    assert pod_limits({"containers": [box({"gpu": 1}), box({"gpu": 2})]})["nvidia.com/gpu"] == 3


def test_vectors_are_written_as_kubernetes_writes_them() -> None:
    vector = parse_resources({"cpu": "1500m", "memory": "2048Mi", "nvidia.com/gpu": 8, "pods": "110"})
    assert vector == {"cpu": 1500, "memory": 2 * 2**30, "nvidia.com/gpu": 8, "pods": 110}
    assert format_resources(vector) == {"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "8", "pods": "110"}


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/mig-1g.10gb", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/batch-cpu", False),
        ("requests.nvidia.com/gpu", False),
    ],
)
def test_which_resources_are_extended(name: str, want: bool) -> None:
    assert is_extended(name) is want
