"""Stories of claims and volumes: each write and word of the binder, and of the scheduler where pods wait for volumes.

What is told is compared with `../stories/`; FAIRWAY_UPDATE_GOLDENS=1 writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from test_volume_binding import LOCAL, ZONE, claim, node, pod, storage_class, volume
from tests.histories import check_history
from tests.twin.stepwise import STORIES, Watched

from fairway.kube.objects import Key, Obj
from fairway.twin.components import Component
from fairway.twin.distributions import constant
from fairway.twin.latency import NONE
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.twin import Twin
from fairway.twin.volumes.binding import VolumeBinder

SLOW = replace(NONE, volume_provision=constant(5_000_000))


class World(Watched):
    def __init__(self, *objects: Obj, schedules: bool = False, twin: Twin | None = None) -> None:
        made: list[Component] = [VolumeBinder(), *([SchedulerComponent()] if schedules else [])]
        super().__init__(twin or Twin(seed=8, latency=SLOW, components=made))
        self.apply(*objects)

    def apply(self, *objects: Obj) -> World:
        self.twin.apply(objects)
        return self

    def patch(self, key: Key, change: Obj) -> World:
        self.twin.store.patch(key, change)
        self.twin.wake()
        return self

    def delete(self, *keys: Key, grace_s: int | None = 0) -> World:
        for key in keys:
            self.twin.store.delete(key, grace_s=grace_s)
        self.twin.wake()
        return self

    def ends(self, name: str, phase: str = "Succeeded") -> World:
        key = pods(name)
        self.twin.store.set_status(key, {**self.twin.store.require(key).get("status", {}), "phase": phase})
        self.twin.wake()
        return self

    def forks(self) -> World:
        return World(twin=self.twin.fork())


def claims(name: str) -> Key:
    return Key("PersistentVolumeClaim", "default", name)


def volumes(name: str) -> Key:
    return Key("PersistentVolume", "", name)


def pods(name: str) -> Key:
    return Key("Pod", "default", name)


def nodes(name: str) -> Key:
    return Key("Node", "", name)


def made_for(world: World, name: str) -> Key:
    return volumes(f"pvc-{world.twin.store.require(claims(name))['metadata']['uid']}")


def protected(of: Obj) -> Obj:
    """As admission leaves it."""
    which = "pvc" if of["kind"] == "PersistentVolumeClaim" else "pv"
    return {
        **of,
        "metadata": {**of["metadata"], "finalizers": [f"kubernetes.io/{which}-protection", "x.io/y"]},
    }


def ephemeral(name: str, cls: str, **meta: Any) -> Obj:
    template = {"metadata": meta, "spec": claim("", storageClassName=cls)["spec"]}
    return {"name": name, "ephemeral": {"volumeClaimTemplate": template}}


def bound() -> Iterator[str]:
    """Claims bound to what is there, or told why not; used, deleted, lost; volumes released and kept."""
    world = World(storage_class("local", LOCAL, waits=False), storage_class("later", LOCAL))
    world.apply(
        volume("small"), volume("large", "5Gi"), protected(volume("kept", "3Gi", storageClassName="local"))
    )
    yield from world.apply(
        claim("none", "9Gi"),
        claim("plain", "2Gi"),
        protected(claim("local", storageClassName="local")),
        claim("odd", storageClassName="local", volumeMode="Block"),
        claim("nowhere", storageClassName="missing"),
        claim("first", storageClassName="later"),
    ).until(1)
    yield from world.apply(pod("user", "local", "first"), pod("other", "first"), pod("free")).until(2)
    yield from world.delete(claims("local"), volumes("kept"), grace_s=None).until(3)
    yield from world.patch(pods("user"), {"metadata": {"labels": {"x": "y"}}}).until(4)
    yield from world.delete(pods("other")).until(5)
    copy = world.forks()
    yield from copy.ends("user").until(6)
    yield from copy.patch(claims("local"), {"metadata": {"finalizers": ["x.io/y"]}}).until(7)
    copy.twin.store.set_finalizers(claims("local"), [])
    copy.twin.wake()
    yield from copy.until(8)
    yield from copy.patch(volumes("large"), {"spec": {"claimRef": None}}).until(8.5)
    yield from copy.delete(volumes("large")).until(9)
    yield from copy.delete(claims("none")).apply(claim("none", "9Gi")).until(10)
    yield from copy.apply(storage_class("missing", "disks.example.com", waits=False)).until(20)
    yield from copy.said()


def provisioned() -> Iterator[str]:
    """Volumes are made five seconds after they are asked for; what changes meanwhile, and who keeps what."""
    one_zone = [
        {"matchLabelExpressions": [{"key": ZONE, "values": ["z2", "z1"]}, {"key": "x", "values": []}]}
    ]
    world = World(
        storage_class("now", waits=False, mountOptions=["ro"], allowedTopologies=one_zone),
        storage_class("kept", waits=False, reclaimPolicy="Retain"),
        storage_class("later"),
        node("a", "z1"),
        node("b"),
        pod("p", "w1"),
        pod("q", "w1", "w2"),
    )
    yield from world.apply(
        claim("n", storageClassName="now"),
        claim("k", storageClassName="kept", volumeMode="Block"),
        claim("gone", storageClassName="now"),
        claim("again", storageClassName="now"),
        claim("named", storageClassName="now"),
        claim("unclassed", storageClassName="now"),
        claim("w1", storageClassName="later"),
        claim("w2", storageClassName="later"),
        claim("w3", storageClassName="later"),
    ).until(1)
    selected = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a"}}}
    world.patch(claims("w1"), selected)
    world.patch(claims("w2"), {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "b"}}})
    world.patch(claims("w3"), {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "c"}}})
    yield from world.delete(claims("gone"), claims("again")).until(2)
    world.apply(claim("again", storageClassName="now"))
    world.patch(claims("named"), {"spec": {"volumeName": "mine"}})
    world.patch(claims("unclassed"), {"spec": {"storageClassName": "missing"}})
    yield from world.until(3)
    copy = world.forks()
    yield from copy.until(8)
    yield from copy.apply(volume("mine", storageClassName="now")).until(12)
    for name in ("n", "k", "w1"):
        yield from copy.delete(claims(name)).until(13)
    yield from copy.delete(made_for(copy, "w2")).until(14)
    yield from copy.said()


def scratch() -> Iterator[str]:
    """Claims of ephemeral volumes: one each, with the template's words, of its pod."""
    world = World(storage_class("now", waits=False))
    labels = {"labels": {"x": "y"}, "annotations": {}}
    volumes_of = [
        ephemeral("one", "now", **labels),
        ephemeral("two", "now", annotations={"a": "b"}, generateName="ignored"),
        {"name": "plain", "emptyDir": {}},
    ]
    yield from world.apply(pod("p", volumes=volumes_of), claim("q-one", "3Gi")).until(1)
    leaving = pod("leaving", volumes=volumes_of[:1])
    leaving["metadata"]["finalizers"] = ["x.io/y"]
    yield from world.apply(pod("q", volumes=volumes_of[:2])).until(9)
    yield from world.apply(leaving).until(15)
    yield from world.delete(pods("leaving"), claims("leaving-one"), grace_s=None).until(16)
    yield from world.patch(pods("leaving"), {"metadata": {"labels": {"x": "y"}}}).until(20)
    yield from world.delete(claims("p-one")).until(21)
    yield from world.patch(pods("p"), {"metadata": {"labels": {"x": "y"}}}).until(30)
    yield from world.said()


def awaited() -> Iterator[str]:
    """Pods that have a node and wait there for volumes: bound, overtaken, deleted, left by their node."""
    world = World(
        storage_class("local", LOCAL),
        storage_class("disks"),
        node("a", "z1"),
        node("b", "z2"),
        volume("va", zones=("z1",), storageClassName="local"),
        volume("vb", "2Gi", zones=("z2",), storageClassName="local"),
        schedules=True,
    )
    names = ("l1", "l2"), ("d1", "d2", "d3", "d4", "d5")
    world.apply(
        *(
            claim(n, storageClassName=cls)
            for of, cls in zip(names, ("local", "disks"), strict=True)
            for n in of
        )
    )
    yield from world.apply(pod("both", "l1", "d1", nodeSelector={ZONE: "z1"})).until(1)
    yield from world.apply(
        pod("waits", "d2", cpu="7", nodeSelector={ZONE: "z1"}), pod("small", cpu="1")
    ).until(2)
    yield from world.apply(pod("crowd", cpu="6"), pod("late", cpu="3")).until(3)
    yield from world.delete(pods("waits")).until(4)
    yield from world.apply(pod("third", "d3", cpu="500m", nodeSelector={ZONE: "z2"})).until(5)
    copy = world.forks()
    yield from copy.delete(claims("d3")).until(6)
    yield from copy.apply(claim("d3", storageClassName="disks")).until(12)
    yield from copy.apply(pod("taken", "l2", "d4", cpu="250m", nodeSelector={ZONE: "z2"})).until(13)
    change = {"spec": {"claimRef": {"name": "someone", "namespace": "default", "uid": "else"}}}
    yield from copy.patch(volumes("vb"), change).until(20)
    yield from copy.apply(pod("stays", "d5", nodeSelector={ZONE: "z1"})).until(21)
    yield from copy.delete(nodes("b")).until(22)
    yield from copy.delete(nodes("a")).until(24)
    yield from copy.apply(node("c", "z1")).until(60)
    yield from copy.said()


@pytest.mark.parametrize("story", [bound, provisioned, scratch, awaited], ids=lambda one: one.__name__)
def test_nothing_else_happens_to_claims(story: Callable[[], Iterator[str]]) -> None:
    check_history(STORIES / f"volumes-{story.__name__}.txt", story())


@pytest.mark.parametrize("story", [bound, provisioned, scratch, awaited], ids=lambda one: one.__name__)
def test_nor_in_copies_of_volumes(
    story: Callable[[], Iterator[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watched, "goes_on_in_copies", True)
    check_history(STORIES / f"volumes-{story.__name__}.txt", story())
