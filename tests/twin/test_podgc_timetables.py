"""The pod garbage collector by itself: who goes when, in which order, and what is written of them before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.latency import NONE
from fairway.twin.podgc import PodGarbageCollector
from fairway.twin.twin import EPOCH_US, Twin

S = SECOND_US
DEAD = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute", "value": "x"}
GONE, NEVER, SERVICE = (
    "PodGC: node no longer exists",
    "PodGC: pod was never scheduled",
    "PodGC: node is out-of-service",
)


def pod(name: str, node: str = "", held: bool = False) -> Obj:
    meta = {"name": name, "namespace": "d", **({"finalizers": ["x/y"]} if held else {})}
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def node(name: str, ready: str = "True", *taints: Obj) -> Obj:
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"taints": list(taints)},
        "status": {"conditions": conditions},
    }


class World:
    """Sweeps every 20 s, and a node is missed for 40 s, as kube-controller-manager has it."""

    def __init__(self, threshold: int = 0) -> None:
        latency = replace(
            NONE,
            pod_gc_period_us=20 * S,
            pod_gc_quarantine_us=40 * S,
            terminated_pod_gc_threshold=threshold,
        )
        self.twin = Twin(latency=latency, components=[PodGarbageCollector()], keep_records=1000)
        self.store = self.twin.store

    def until(self, at_s: int) -> World:
        self.twin.run(EPOCH_US + at_s * S)
        return self

    def apply(self, *objects: Obj) -> World:
        self.twin.apply(objects)
        return self

    def ends(self, name: str, phase: str = "Succeeded", **more: Any) -> None:
        self.store.set_status(Key("Pod", "d", name), {"phase": phase, **more})
        self.twin.wake()

    def deletes(self, gk: str, name: str) -> None:
        self.store.delete(Key(gk, "" if gk == "Node" else "d", name))
        self.twin.wake()

    def names(self) -> list[str]:
        return [p["metadata"]["name"] for p in self.store.objects("Pod")]

    def noted(self) -> list[tuple[int, str, str]]:
        return [
            ((r.time_us - EPOCH_US) // S, r.name, r.message)
            for r in self.twin.host.log.records()
            if r.reason == "DeletionByPodGC" and r.message.startswith("PodGC")
        ]


def test_of_ended_pods_the_oldest_go_and_evicted_ones_before_them() -> None:
    world = World(threshold=2)
    for at, name in enumerate(["e", "d", "c", "b", "a"]):
        world.apply(pod(name)).until(at + 1)
    world.ends("c")
    world.ends("e", "Failed")
    world.until(30)
    # Two are as many as may stay.
    assert world.names() == ["a", "b", "c", "d", "e"]
    world.ends("a", "Failed", reason="Evicted")
    world.until(39)
    assert len(world.names()) == 5
    assert world.until(41).names() == ["b", "c", "d", "e"]
    world.ends("b")
    world.ends("d")
    # Of e, d, c and b (from the oldest) two are too many.
    assert world.until(59).names() == ["b", "c", "d", "e"]
    assert world.until(60).names() == ["b", "c"]
    assert world.noted() == [] and world.twin.loop.next_time() is None


@pytest.mark.parametrize(("threshold", "left"), [(0, 4), (-1, 4), (4, 4), (3, 3), (1, 1)])
def test_how_many_may_stay(threshold: int, left: int) -> None:
    world = World(threshold).apply(*(pod(f"p{i}") for i in range(4))).until(1)
    for i in range(4):
        world.ends(f"p{i}")
    assert world.until(100).names() == [f"p{i}" for i in range(4 - left, 4)]


def test_an_ended_pod_that_goes_by_itself_counts_no_more() -> None:
    world = World(threshold=1).apply(pod("a"), pod("b"), pod("c")).until(1)
    world.ends("a")
    world.until(2).deletes("Pod", "a")
    world.until(3).ends("b")
    assert world.until(50).names() == ["b", "c"]
    world.ends("c")
    assert world.until(100).names() == ["c"]


def test_pods_of_a_node_that_is_gone_go_after_its_quarantine() -> None:
    world = World().apply(
        node("n"), node("m"), pod("a", "n"), pod("b", "n"), pod("c", "m"), pod("held", "n", held=True)
    )
    world.until(5).ends("b", "Failed", reason="Evicted")
    world.until(15).deletes("Node", "n")
    assert world.until(59).names() == ["a", "b", "c", "held"]
    # Missed since 15, due at 55, swept at 60: evicted ones first.
    assert world.until(60).names() == ["c", "held"]
    assert world.noted() == [(60, name, GONE) for name in ("b", "a", "held")]
    held = world.store.require(Key("Pod", "d", "held"))
    assert held["status"]["phase"] == "Failed" and "deletionTimestamp" in held["metadata"]
    (condition,) = [c for c in held["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "DeletionByPodGC")
    assert condition["message"] == GONE
    assert world.until(500).names() == ["c", "held"]


def test_a_pod_that_comes_again_elsewhere_is_not_taken_for_the_one_that_ended() -> None:
    world = World().apply(node("n"), node("m"), pod("a", "n")).until(1)
    world.ends("a")
    world.until(2).deletes("Pod", "a")
    world.until(3).apply(pod("a", "m"))
    world.until(15).deletes("Node", "n")
    assert (world.until(300).names(), world.noted()) == (["a"], [])


@pytest.mark.parametrize(("back_s", "left"), [(30, ["a"]), (59, ["a"]), (61, [])])
def test_a_node_that_comes_back_in_time_keeps_its_pods(back_s: int, left: list[str]) -> None:
    world = World().apply(node("n"), pod("a", "n")).until(15)
    world.deletes("Node", "n")
    world.until(back_s).apply(node("n"))
    assert world.until(200).names() == left
    # Missed again it has its whole quarantine again.
    if left:
        world.until(210).deletes("Node", "n")
        assert world.until(259).names() == ["a"] and world.until(260).names() == []


def test_a_pod_bound_to_a_node_that_never_was() -> None:
    world = World().apply(pod("a", "ghost")).until(100)
    assert (world.names(), world.noted()) == ([], [(40, "a", GONE)])
    world.apply(pod("b", "ghost")).until(200)
    assert world.noted()[1:] == [(140, "b", GONE)]


def test_nodes_are_missed_each_for_itself() -> None:
    world = World().apply(node("n"), node("m"), pod("a", "n"), pod("b", "m")).until(10)
    world.deletes("Node", "n")
    world.until(30).deletes("Node", "m")
    world.until(200)
    assert world.noted() == [(60, "a", GONE), (80, "b", GONE)]
    # Of those that are still missing the first decides when it looks again.
    names = "abcd"
    world = World().apply(*(node(f"n{x}") for x in names), *(pod(x, f"n{x}") for x in names)).until(1)
    for at_s, name in zip((1, 25, 45, 65), names, strict=True):
        world.until(at_s).deletes("Node", f"n{name}")
    world.until(300)
    assert world.noted() == [(60, "a", GONE), (80, "b", GONE), (100, "c", GONE), (120, "d", GONE)]


def test_dead_nodes_are_gone_through_by_name() -> None:
    names = "cabfed"
    nodes = [node(f"n{x}", "Unknown", DEAD) for x in names]
    world = World().apply(*nodes, *(pod(x, f"n{x}", held=True) for x in names)).until(1)
    for name in names:
        world.deletes("Pod", name)
    world.until(100)
    assert list(dict.fromkeys(name for _, name, _ in world.noted())) == sorted(names)


def test_a_pod_that_had_no_node_when_it_was_told_to_go() -> None:
    """One that a finalizer holds fails at the next sweep; one that has a node is its kubelet's."""
    world = (
        World().apply(pod("free"), pod("held", held=True), node("n"), pod("bound", "n", held=True)).until(3)
    )
    for name in ("free", "held", "bound"):
        world.deletes("Pod", name)
    assert world.until(4).names() == ["bound", "held"]
    assert set(world.until(100).noted()) == {(20, "held", NEVER)}
    phases = {n: world.store.require(Key("Pod", "d", n))["status"]["phase"] for n in ("held", "bound")}
    assert phases == {"held": "Failed", "bound": "Pending"}


@pytest.mark.parametrize(
    ("ready", "taints", "goes"),
    [
        ("Unknown", (DEAD,), True),
        ("False", (DEAD,), True),
        ("True", (DEAD,), False),
        ("Unknown", (), False),
        ("Unknown", ({"key": "other", "effect": "NoExecute"},), False),
    ],
)
def test_pods_told_to_go_on_a_node_declared_dead(ready: str, taints: tuple[Obj, ...], goes: bool) -> None:
    world = World().apply(node("n", ready, *taints), pod("going", "n", held=True), pod("stays", "n")).until(3)
    world.deletes("Pod", "going")
    world.until(100)
    assert set(world.noted()) == ({(20, "going", SERVICE)} if goes else set())
    assert world.names() == ["going", "stays"]
    phase = world.store.require(Key("Pod", "d", "going"))["status"]["phase"]
    assert phase == ("Failed" if goes else "Pending")
    if goes:
        # Once it is declared alive again nobody is collected there.
        world.store.patch(Key("Node", "", "n"), {"spec": {"taints": None}})
        world.until(110).deletes("Pod", "stays")
        assert {at for at, _, _ in world.until(200).noted()} == {20}


def test_a_copy_goes_on_alone() -> None:
    world = World(threshold=1).apply(node("n"), pod("a", "n"), pod("b"), pod("c")).until(10)
    world.deletes("Node", "n")
    world.ends("b")
    world.until(12)
    fork = world.twin.fork()
    world.ends("c")
    fork.run(EPOCH_US + 100 * S)
    assert [p["metadata"]["name"] for p in fork.store.objects("Pod")] == ["b", "c"]
    assert world.names() == ["a", "b", "c"]
    assert world.until(100).names() == ["c"]


def test_turns_that_are_none_any_more_do_not_pile_up() -> None:
    """A pod that is said to be evicted and not so again and again has a turn each time, and one counts."""
    world = World(threshold=1).apply(pod("a"), pod("b")).until(1)
    world.ends("b")
    (collector,) = (c for c in world.twin.host.parts.values() if isinstance(c, PodGarbageCollector))
    most = 0
    for i in range(1050):
        world.ends("a", "Failed", reason="Evicted" if i % 2 else "Error")
        world.twin.run_for(1)
        most = max(most, len(collector._turns))
    assert most == 2 * 2 + 1024 and len(collector._turns) < 40
    assert [turn[2].name for turn in sorted(collector._turns)][:1] == ["a"]
    assert sorted(collector.ended) == [Key("Pod", "d", "a"), Key("Pod", "d", "b")]
    assert world.until(40).names() == ["b"]
