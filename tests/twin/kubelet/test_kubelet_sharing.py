"""Runs that share a card slow each other while they do, and only then."""

from __future__ import annotations

import kubeletworld
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeletworld import World, latency

from fairway.devices.interference import SWITCHING, paces
from fairway.kube.objects import Key, Obj, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.twin.kubelet import slowing
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


def slowed(world: World, milli: int, at_s: float) -> tuple[bool, float]:
    """Whether the run of the one pod there is goes on at another pace from then on, and when it ends."""
    world.at(at_s)
    (pod,) = world.kubelet.pods.values()
    found = slowing.stretch(world.kubelet, pod, milli)
    (state,) = pod.containers
    return found, -1 if state.exit_at is None else (state.exit_at.finished_us - world.us(0)) / SECOND_US


def test_the_rest_of_a_run_takes_so_much_longer() -> None:
    world = World(kubeletworld.pod("p", says={"run-time": "100s"}), latency=latency(container_relist=10))
    assert slowed(world, 2000, 30) == (True, 170)
    (state,) = next(iter(world.kubelet.pods.values())).containers
    assert state.own_end is state.exit_at
    assert slowed(world, 500, 40) == (True, 105)
    assert slowed(world, 1000, 104.999999) == (True, 105)
    # It has ended by then: that it is noticed ten seconds later changes nothing.
    assert slowed(world, 3000, 105) == (False, 105)
    assert slowed(world, 3000, 114) == (False, 105)
    assert world.at(114.9).seen() == "Running 1/1 main=run"
    assert world.at(115).seen() == "Succeeded 0/1 main=end:Completed:0"


def test_what_kills_a_run_is_put_off_as_well_and_what_it_would_do_by_itself_is_not() -> None:
    says = {"run-time": "100s", "out-of-memory-after": "60s"}
    world = World(kubeletworld.pod("p", says=says))
    assert slowed(world, 2000, 30) == (True, 90)
    (state,) = next(iter(world.kubelet.pods.values())).containers
    assert state.own_end is not None and state.own_end.finished_us == world.us(100)
    assert world.at(90).seen() == "Failed 0/1 main=end:OOMKilled:137"


def test_who_does_not_run_to_an_end_is_not_slowed() -> None:
    assert slowed(World(kubeletworld.pod("p", says={"run-time": "forever"})), 2000, 5) == (False, -1)
    waits = kubeletworld.pod("p", says={"run-time": "9s", "exit-code": "1"}, restartPolicy="OnFailure")
    assert slowed(World(waits), 2000, 20) == (False, -1)
    goes = World(kubeletworld.pod("p", says={"run-time": "90s", "stop-time": "9s"})).at(5)
    goes.delete()
    assert slowed(goes, 2000, 6) == (False, 14)
