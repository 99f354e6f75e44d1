"""Runs that share a card slow each other while they do, and only then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.devices.interference import SWITCHING, paces
from fairway.kube.objects import Key, Obj, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin


def node(strategy: str, replicas: int = 4) -> Obj:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.count": "1",
        "nvidia.com/gpu.replicas": str(replicas),
        "nvidia.com/gpu.sharing-strategy": strategy,
    }
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(replicas)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": labels},
        "status": {"capacity": capacity},
    }


def run(name: str, seconds: int, use: int, card: str = "0") -> Obj:
    notes = {"run-time": f"{seconds}s", "gpu-utilization": f"{use}%", "gpu-index": card}
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {f"fairway.dev/{k}": v for k, v in notes.items()},
        },
        "spec": {"containers": [container], "restartPolicy": "Never", "nodeName": "n"},
    }


def took(strategy: str, *pods: Obj) -> dict[str, float]:
    """Seconds that each ran."""
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    twin.apply([space, node(strategy), *pods])
    twin.run_for(2000 * SECOND_US)
    found = {}
    for pod in twin.store.objects("Pod"):
        status = status_of(twin.store.get(Key("Pod", "default", pod["metadata"]["name"])) or {})
        ended = status["containerStatuses"][0]["state"]["terminated"]
        ran_us = parse_rfc3339(ended["finishedAt"]) - parse_rfc3339(ended["startedAt"])
        found[pod["metadata"]["name"]] = ran_us / SECOND_US
    return found


@pytest.mark.parametrize(
    ("strategy", "pods", "wanted"),
    [
        ("none", [run("a", 100, 100), run("b", 100, 100)], {"a": 100, "b": 100}),
        ("time-slicing", [run("a", 100, 100)], {"a": 100}),
        # Both want it all: half each, and 5 % for the switches.
        ("time-slicing", [run("a", 100, 100), run("b", 100, 100)], {"a": 210, "b": 210}),
        ("time-slicing", [run("a", 100, 100), run("b", 100, 100, "1")], {"a": 100, "b": 100}),
        # One that needs a fifth has its fifth; the other gets the rest.
        ("time-slicing", [run("a", 100, 20), run("b", 100, 60)], {"a": 100, "b": 100}),
        # b is alone once a has ended: 210 s of half speed are 100 s of work, 100 s are left.
        ("time-slicing", [run("a", 100, 100), run("b", 200, 100)], {"a": 210, "b": 310}),
        ("mps", [run("a", 100, 50), run("b", 100, 100)], {"a": 100, "b": 150}),
    ],
)
def test_how_long_runs_take(strategy: str, pods: list[Obj], wanted: dict[str, float]) -> None:
    assert took(strategy, *pods) == pytest.approx(wanted, abs=1.5)


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8))
def test_turns_are_never_more_than_the_card_and_fair(shares: list[float]) -> None:
    found = paces(shares, "time-slicing")
    if len(shares) == 1:
        assert found == [1.0]
        return
    used = [share * SWITCHING / pace for share, pace in zip(shares, found, strict=True)]
    assert sum(used) <= 1 + 1e-9 and min(found) >= 1
    slowed = [u for u, pace in zip(used, found, strict=True) if pace > 1 + 1e-9]
    assert all(abs(u - max(used)) < 1e-9 for u in slowed)
    if slowed:
        assert sum(used) == pytest.approx(1)
