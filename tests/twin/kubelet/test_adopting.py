"""A kubelet that starts anew goes on with what ran: in the end nobody can tell that it was away."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kubeletworld import NONE, World, container, node, pod

from fairway.kube.objects import Obj
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.nodelifecycle import NodeLifecycle
from fairway.twin.podgc import PodGarbageCollector
from fairway.twin.tainteviction import TaintEviction
from fairway.twin.twin import Twin


def restarted(world: World) -> World:
    """The same cluster, its components new: all that they know is what is stored."""
    again = World.__new__(World)
    again.kubelet = Kubelet()
    components = [Faults(), again.kubelet, NodeLifecycle(), TaintEviction(), PodGarbageCollector()]
    store = world.twin.store.fork()
    again.twin = Twin(seed=1, latency=NONE, components=components, start_us=store.now_us, store=store)
    return again


def drawn(draw: random.Random) -> tuple[list[Obj], list[tuple[float, str]]]:
    """Pods of many kinds, and when some of them are deleted. None comes to its second backoff: see below."""
    pods, deletions = [], []
    for number in range(draw.randint(1, 3)):
        names = [f"c{i}" for i in range(draw.randint(1, 2))]
        policy, deadline = draw.choice(["Never", "OnFailure"]), draw.choice([0, 0, 10, 30])
        says: dict[str, str] = {}
        for name in names:
            says[f"run-time.{name}"] = draw.choice(["5", "20", "40", "forever"])
            says[f"exit-code.{name}"] = draw.choice(["0", "1,0", "1" if policy == "Never" else "0"])
            says[f"stop-time.{name}"] = "1" if deadline else draw.choice(["1", "4", "never"])
        extra: dict[str, Any] = {"restartPolicy": policy}
        inits = []
        if draw.random() < 0.4:
            inits.append(container("i0"))
            says["run-time.i0"], says["exit-code.i0"] = draw.choice(["3", "15"]), draw.choice(["0", "1,0"])
        if draw.random() < 0.3:
            inits.append(container("side", restartPolicy="Always"))
            says["run-time.side"] = "forever"
        if inits:
            extra["initContainers"] = inits
        if deadline:
            extra["activeDeadlineSeconds"] = deadline
        extra["terminationGracePeriodSeconds"] = draw.choice([0, 3, 30])
        pods.append(pod(f"p{number}", *[container(name) for name in names], says=says, **extra))
        if draw.random() < 0.4:
            deletions.append((draw.choice([8.0, 22.0, 36.0]), f"p{number}"))
    return pods, deletions


def plain(world: World) -> dict[str, Any]:
    """What is stored of pods, but for versions of writes."""
    found = {}
    for obj in world.twin.store.objects("Pod"):
        found[obj["metadata"]["name"]] = (obj["metadata"].get("deletionTimestamp"), obj["status"])
    return found


@pytest.mark.parametrize("seed", range(60))
def test_nobody_can_tell_that_it_was_away(seed: int) -> None:
    draw = random.Random(seed)
    pods, deletions = drawn(draw)
    cut = draw.choice([1.5, 4.5, 9.5, 17.5, 23.5, 37.5])
    world = World(*pods, nodes=[node()])
    other: World | None = None
    for at, name in sorted([*deletions, (cut, ""), (90.0, "")]):
        world.at(at)
        if other is not None:
            other.at(at)
            assert plain(other) == plain(world)
        if name:
            for one in (world, other):
                if one is not None and one.get(name) is not None:
                    one.delete(name)
        elif at == cut:
            other = restarted(world)
    assert other is not None
    assert plain(other) == plain(world)


def test_attempts_go_on_counting_over_pods_that_ended() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    says = {"run-time": "5", "exit-code": "1,1,0"}
    tries = [pod(f"try{n}", says=says, meta={"ownerReferences": [owner]}) for n in range(3)]
    world = World(tries[0], nodes=[node()]).at(6.5)
    world.twin.apply([tries[1]])
    # The second is under way when the kubelet goes; the third is made after it came back.
    other = restarted(world.at(8.5)).at(20.5)
    other.twin.apply([tries[2]])
    assert [other.at(30.5).seen(f"try{n}") for n in range(3)] == [
        "Failed 0/1 main=end:Error:1",
        "Failed 0/1 main=end:Error:1",
        "Succeeded 0/1 main=end:Completed:0",
    ]


def test_backoffs_are_forgotten_as_by_a_kubelet() -> None:
    world = World(pod(says={"run-time": "5", "exit-code": "1"}, restartPolicy="Always"), nodes=[node()])
    assert world.at(12.5).seen() == "Running 0/1 main=wait:CrashLoopBackOff*1"
    other = restarted(world)
    assert other.at(13.5).seen() == "Running 1/1 main=run*2"
    assert world.at(13.5).seen() == "Running 0/1 main=wait:CrashLoopBackOff*1"


def test_what_was_ready_stays_ready() -> None:
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": 5, "initialDelaySeconds": 3}
    made = pod("p", container(readinessProbe=probe), says={"run-time": "forever"})
    other = restarted(World(made, nodes=[node()]).at(9.5))
    assert other.at(9.6).seen() == "Running 1/1 main=run"
    assert other.condition("Ready") == ("True", "")


def test_a_node_keeps_count_of_what_it_has() -> None:
    asks = {"resources": {"requests": {"cpu": "5"}}}
    made = pod("p", container(**asks), says={"run-time": "20"})
    other = restarted(World(made, nodes=[node(cpu="8")]).at(5.5))
    other.twin.apply([pod("q", container(**asks))])
    assert other.at(6.5).seen("q").startswith("Failed/OutOfcpu")
    other.at(25.5).twin.apply([pod("r", container(**asks))])
    assert other.at(26.5).seen("r").startswith("Running 1/1")


def test_a_pod_that_was_being_deleted_goes_on_going() -> None:
    made = pod("p", says={"stop-time": "10"}, terminationGracePeriodSeconds=30)
    world = World(made, nodes=[node()]).at(5)
    world.delete()
    other = restarted(world.at(7.5))
    assert other.get() is not None
    assert other.at(20).get() is None
