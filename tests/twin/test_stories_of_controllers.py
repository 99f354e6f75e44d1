"""Stories of single controllers of the control plane: each write and word of theirs, and when.

What is told is compared with `stories/`; FAIRWAY_UPDATE_GOLDENS=1 writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.histories import check_history
from tests.twin.stepwise import STORIES, Watched

from fairway.cluster.actions import Create, Emit, Patch, Reconciliation, View
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.components import Component
from fairway.twin.controllers import Controllers
from fairway.twin.distributions import constant
from fairway.twin.latency import NONE
from fairway.twin.nodelifecycle import NodeLifecycle
from fairway.twin.ownergc import OwnerGarbageCollector
from fairway.twin.twin import EPOCH_US, Twin
from fairway.workloads.controller import Controller

S = SECOND_US
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"


def node(name: str, ready: str = "True", zone: str = "", **spec: Any) -> Obj:
    """`ready` empty: its kubelet has not said anything."""
    labels = {ZONE: zone, REGION: "r"} if zone else {}
    status: Obj = {"allocatable": {"cpu": "1"}}
    if ready:
        status["conditions"] = [{"type": "Ready", "status": ready}]
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def pod(name: str, on: str, ready: str = "True", **more: Any) -> Obj:
    conditions = [
        {"type": "Initialized", "status": "True"},
        *([{"type": "Ready", "status": ready}] if ready else []),
        {"type": "ContainersReady", "status": "True"},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": on, "containers": [{"name": "c", "image": "i"}], **more},
        "status": {"phase": "Running", "conditions": conditions},
    }


class World(Watched):
    def __init__(self, *parts: Component, start_s: float = 0, **latency: Any) -> None:
        start_us = EPOCH_US + round(start_s * S)
        super().__init__(Twin(seed=3, latency=replace(NONE, **latency), components=parts, start_us=start_us))

    def apply(self, *objects: Obj) -> World:
        for obj in objects:
            self.twin.apply([obj])
            if obj.get("status"):
                meta = obj["metadata"]
                self.twin.store.set_status(
                    Key(obj["kind"], meta.get("namespace", ""), meta["name"]), obj["status"]
                )
        self.twin.wake()
        return self

    def patch(self, gk: str, name: str, change: Obj) -> World:
        self.twin.store.patch(Key(gk, "" if gk == "Node" else "default", name), change)
        self.twin.wake()
        return self

    def delete(self, gk: str, name: str) -> World:
        self.twin.store.delete(Key(gk, "" if gk == "Node" else "default", name), grace_s=0)
        self.twin.wake()
        return self

    def says(self, name: str, ready: str, **others: str) -> World:
        """A node's kubelet writes its conditions, and is heard from."""
        self.heard(name)
        conditions = [{"type": t, "status": s} for t, s in {"Ready": ready, **others}.items()]
        self.twin.store.set_status(Key("Node", "", name), {"conditions": conditions})
        self.twin.wake()
        return self

    def heard(self, name: str) -> World:
        self.twin.host.heartbeats.resume(name)
        return self

    def silent(self, last_s: float, *names: str) -> World:
        for name in names:
            self.twin.host.heartbeats.stop(name, EPOCH_US + round(last_s * S))
        return self


def never_heard_from() -> Iterator[str]:
    """A node has a minute to say something; then it is unknown, and tainted at once."""
    world = World(NodeLifecycle(), start_s=2.000001)
    yield from world.apply(node("mute", ""), node("well"), pod("p", "mute"), pod("q", "well")).until(9)
    yield from world.apply(node("late", ""), node("ill", "")).until(60)
    yield from world.says("late", "True").says("ill", "False").silent(0, "mute").heard("mute").until(63)
    # A minute is over at 62 s, and a look is a moment later.
    yield from world.until(120)
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    world.says("mute", "True", MemoryPressure="False").apply(node("new", "", taints=[taint]))
    yield from world.until(300)
    yield from world.said()


def silent_nodes() -> Iterator[str]:
    """Unknown at the first look after the grace, tainted from the next one on, one in ten seconds."""
    world = World(NodeLifecycle())
    theirs = [{"key": "own", "effect": "NoExecute"}, {"key": "own", "effect": "NoSchedule"}]
    world.apply(*(node(name, taints=theirs if name == "b" else []) for name in "abcdef"))
    pods = [
        pod("t", "c"),
        pod("s", "b"),
        pod("r", "a"),
        pod("q", "a", "False"),
        pod("p", "a"),
        pod("o", "a", ""),
    ]
    yield from world.apply(*pods).until(3)
    world.says("b", "True", NetworkUnavailable="False", MemoryPressure="Unknown", DiskPressure="True")
    # The last lease of `a` is of 10 s: overdue after 60, and looked at at 65. That of `b` is a moment older.
    yield from world.silent(10, "a").silent(9.999999, "b").until(57)
    yield from world.heard("a").silent(10, "a").until(66)
    yield from world.silent(12, "c").until(100)
    yield from world.says("a", "True").until(104)
    yield from world.says("c", "False", MemoryPressure="True", PIDPressure="True").until(118)
    yield from world.silent(80, "c").until(140)
    yield from world.says("b", "False").apply(pod("u", "b"), pod("v", "c")).says("c", "True").until(150)
    yield from world.says("b", "True").until(160)
    # Who is well again before its turn has none, and stands behind the others when it is not.
    yield from world.silent(160, "d", "e", "f").until(222)
    yield from world.says("e", "True").until(226)
    yield from world.says("e", "False").until(300)
    yield from world.said()


def zones() -> Iterator[str]:
    """Of a small zone that is down for the most part nobody is tainted; nor of anything when everything is down."""
    world = World(NodeLifecycle())
    for zone, names in (("x", "abcd"), ("y", "ef"), ("", "g"), ("w", "jkl")):
        world.apply(*(node(name, zone=zone) for name in names))
    yield from world.apply(pod("p", "a"), pod("q", "e")).until(1)
    # At 65 s three of four are down: `b`, whose turn would be at 70 s, has none. Two of three are not that many.
    yield from world.silent(0, "a", "b", "e", "j", "k").silent(12, "c").until(150)
    yield from world.says("a", "True").until(200)
    # Of three zones all are down, but not everything.
    yield from world.silent(200, "a", "c", "d", "f", "l").until(300)
    yield from world.silent(290, "g").until(360)
    yield from world.apply(node("h", "False", zone="z"), node("i", "", zone="y")).until(400)
    # Everybody is: nobody is tainted until somebody is there again.
    yield from world.says("g", "True").until(450)
    yield from world.delete("Node", "g").until(500)
    yield from world.says("f", "True").until(600)
    # Two of three are no partial disruption, with another one they are.
    yield from world.patch("Node", "f", {"metadata": {"labels": {ZONE: "w"}}}).until(650)
    yield from world.delete("Node", "f").until(700)
    yield from world.said()


def large_zones() -> Iterator[str]:
    """Where more than four nodes are a large zone, and six of ten down are most: one in fifty seconds."""
    world = World(
        NodeLifecycle(),
        large_cluster_size_threshold=4,
        unhealthy_zone_threshold_milli=600,
        secondary_node_eviction_rate_milli=20,
        node_eviction_rate_milli=1000,
    )
    world.apply(*(node(name, zone="x") for name in "abcde"), *(node(name, zone="y") for name in "fghi"))
    yield from world.until(1)
    yield from world.silent(0, "a", "b", "c", "f", "g").until(90)
    yield from world.silent(30, "h").until(170)
    yield from world.says("b", "True").until(300)
    yield from world.said()


def heard_late() -> Iterator[str]:
    """The controller hears of what happens two seconds later, and looks at what is there."""
    world = World(NodeLifecycle(), watch=constant(2 * S))
    yield from world.apply(*(node(name) for name in "abcdefghij")).until(4)
    yield from world.silent(0, "b", "c", "d", "e").until(54)
    # `b` is gone when it is looked at, and `d` is another one when its turn comes; of `e` there is none.
    yield from world.delete("Node", "b").until(64)
    yield from world.delete("Node", "d").heard("d").apply(node("d", "False")).until(79.5)
    yield from world.delete("Node", "e").until(82)
    # A node that is not known yet is looked at for nothing.
    world.apply(node("new", "False"))
    yield from world.silent(24, "new").until(100)
    yield from world.said()


def looked_at_always() -> Iterator[str]:
    """Without a period, looks are when there is something to see."""
    world = World(NodeLifecycle(), node_monitor_period_us=0)
    yield from world.apply(node("a"), node("b"), node("mute", "")).until(4)
    yield from world.silent(0, "a").until(59.999999)
    # A look when its minute is over, to the microsecond, finds nothing to say yet.
    yield from world.silent(59, "mute").heard("mute").until(100)
    yield from world.said()


def cordoned() -> Iterator[str]:
    """Conditions and `unschedulable` become taints, and others' taints stay."""
    world = World(NodeLifecycle())
    theirs = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoExecute"},
        {"key": "own", "effect": "NoSchedule"},
    ]
    yield from world.apply(node("a", taints=theirs), node("b", unschedulable=True)).until(1)
    yield from world.patch("Node", "a", {"spec": {"unschedulable": True}}).until(2)
    yield from world.says("a", "True", DiskPressure="True", NetworkUnavailable="Unknown").until(3)
    yield from world.patch("Node", "b", {"spec": {"unschedulable": None}}).until(4)
    yield from world.says("a", "False", DiskPressure="Unknown", NetworkUnavailable="True").until(5)
    # The same in another order.
    yield from world.says("a", "Unknown", NetworkUnavailable="True", DiskPressure="True").until(6)
    world.twin.store.set_status(
        Key("Node", "", "a"),
        {
            "conditions": [
                {"type": t, "status": s}
                for t, s in (("DiskPressure", "True"), ("Ready", "Unknown"), ("NetworkUnavailable", "True"))
            ]
        },
    )
    world.twin.wake()
    yield from world.until(7)
    yield from world.patch("Node", "a", {"spec": {"unschedulable": False, "taints": None}}).until(20)
    yield from world.said()


def configured(name: str, **data: str) -> Obj:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def _copies(view: View, key: Key, now_us: int) -> Reconciliation:
    """Three copies of each, and one without a name of what is odd; what has them is looked at every ten seconds."""
    obj = view.get(key)
    if obj is None or key.name.startswith("copy"):
        return Reconciliation()
    names = [f"copy-{i}-of-{key.name}" for i in range(3)]
    there = [view.get(Key("ConfigMap", "default", name)) for name in names]
    if all(there):
        noted = (Emit(key, "Normal", "Copied", f"{len(names)} copies", "copier"),)
        return Reconciliation(noted, again_at_us=None if "once" in obj["data"] else now_us + 10 * S)
    nameless: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default"}}
    odd = (Create(nameless),) if "odd" in obj["data"] else ()
    made = [Create(configured(n)) for n, found in zip(names, there, strict=True) if found is None]
    return Reconciliation((*made[:1], *odd, *made[1:]))


def _refused(_view: View, key: Key, _now_us: int, message: str) -> Reconciliation:
    return Reconciliation(
        (Emit(key, "Warning", "Refused", message, "copier"), Patch(key, {"data": {"told": "1"}}))
    )


def copied() -> Iterator[str]:
    """Ten milliseconds until a look; two requests at once and one in half a second; refusals later every time."""
    made = Controller(
        "copier", "ConfigMap", ("ConfigMap",), lambda _view, change: (change.key,), _copies, refused=_refused
    )
    world = World(
        Controllers([made]),
        controller_reconcile=constant(10_000),
        api_write=constant(1_000),
        controller_qps=2,
        controller_burst=2,
    )
    yield from world.apply(configured("a"), configured("b", once="1"), configured("odd", odd="1")).until(3)
    # It changes while it waits for its requests.
    yield from world.apply(configured("c", once="1")).until(3.2)
    yield from world.patch("ConfigMap", "c", {"data": {"x": "1"}}).until(9)
    yield from world.patch("ConfigMap", "a", {"data": {"x": "1"}}).until(12)
    yield from world.delete("ConfigMap", "odd").apply(configured("odd", once="1")).until(22)
    yield from world.patch("ConfigMap", "a", {"data": {"once": "1"}}).until(40)
    yield from world.said()


def owned(name: str, *uids: str, **meta: Any) -> Obj:
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid, "blockOwnerDeletion": True}
        for uid in uids
    ]
    made = configured(name)
    return {**made, "metadata": {**made["metadata"], "ownerReferences": owners, **meta}}


def collected() -> Iterator[str]:
    """What an owner's end ends goes ten milliseconds later; what is owned by somebody unknown stays."""
    world = World(OwnerGarbageCollector(frozenset({"elsewhere"})), controller_reconcile=constant(10_000))
    yield from world.apply(configured("first"), configured("second")).until(1)
    first, second = (
        world.twin.store.require(Key("ConfigMap", "default", name))["metadata"]["uid"]
        for name in ("first", "second")
    )
    world.apply(owned("of-first", first), owned("of-both", first, second), owned("of-nobody"))
    world.apply(owned("of-one-unknown", "elsewhere"), owned("of-one-gone", "gone"))
    world.apply(owned("of-one-left", second, "gone"))
    yield from world.apply(owned("of-second", second)).until(2)
    yield from world.delete("ConfigMap", "first").until(3)
    world.twin.store.delete(Key("ConfigMap", "default", "second"), propagation="Foreground")
    world.twin.wake()
    yield from world.until(10)


TOLD: tuple[Callable[[], Iterator[str]], ...] = (
    *(never_heard_from, silent_nodes, zones, large_zones, heard_late, looked_at_always, cordoned),
    *(copied, collected),
)


@pytest.mark.parametrize("story", TOLD, ids=lambda story: story.__name__)
def test_nothing_else_happens(story: Callable[[], Iterator[str]]) -> None:
    check_history(STORIES / f"{story.__name__}.txt", story())


@pytest.mark.parametrize("story", TOLD, ids=lambda story: story.__name__)
def test_nor_in_a_copy_made_at_any_moment(
    story: Callable[[], Iterator[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watched, "goes_on_in_copies", True)
    check_history(STORIES / f"{story.__name__}.txt", story())
