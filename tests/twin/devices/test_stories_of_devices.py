"""Stories of who looks after devices, each alone: every write and word of it, and when.

What is told is compared with `../stories/`; FAIRWAY_UPDATE_GOLDENS=1 writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_computedomains import CLASSES, RACK, domain, tray
from tests.histories import check_history
from tests.twin.stepwise import STORIES, Watched

from fairway.kube import computedomains as words
from fairway.kube.objects import Key, Obj
from fairway.twin.components import Component
from fairway.twin.devices.computedomains import ComputeDomains
from fairway.twin.latency import NONE
from fairway.twin.twin import Twin

TEMPLATE, CLAIM = "ResourceClaimTemplate.resource.k8s.io", "ResourceClaim.resource.k8s.io"


class World(Watched):
    def __init__(self, *made: Component, twin: Twin | None = None) -> None:
        super().__init__(twin or Twin(seed=6, latency=NONE, components=made))

    def apply(self, *objects: Obj) -> World:
        self.twin.apply(objects)
        return self

    def patch(self, key: Key, change: Obj) -> World:
        self.twin.store.patch(key, change)
        self.twin.wake()
        return self

    def status(self, key: Key, **status: Any) -> World:
        known = self.twin.store.require(key).get("status") or {}
        self.twin.store.set_status(key, {n: v for n, v in {**known, **status}.items() if v is not None})
        self.twin.wake()
        return self

    def delete(self, *keys: Key) -> World:
        for key in keys:
            self.twin.store.delete(key, grace_s=0)
        self.twin.wake()
        return self

    def lets_go(self, key: Key) -> World:
        """Of all its finalizers."""
        self.twin.store.set_finalizers(key, [])
        self.twin.wake()
        return self

    def forks(self) -> World:
        """Goes on as a copy of itself."""
        return World(twin=self.twin.fork())


def namespace(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


# ComputeDomains


def daemon(world: World, name: str, uid: str, node: str = "", **status: Any) -> World:
    meta = {"name": name, "namespace": words.NAMESPACE, "labels": {words.LABEL: uid}}
    spec: Obj = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
    world.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    return world.status(pod_key(name), **status)


def pod_key(name: str) -> Key:
    return Key("Pod", words.NAMESPACE, name)


def domain_key(name: str) -> Key:
    return Key(words.DOMAIN, "default", name)


def ready(status: str = "True") -> list[Obj]:
    return [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": status}]


def channel(name: str) -> Obj:
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": {"devices": {}},
    }


def given_to(uid: str, node: str) -> Obj:
    parameters = {"kind": "ComputeDomainChannelConfig", "domainID": uid}
    return {
        "devices": {
            "results": [{"driver": words.DRIVER, "device": "channel-0", "request": "c", "pool": node}],
            "config": [{"requests": ["c"], "opaque": {"driver": words.DRIVER, "parameters": parameters}}],
        }
    }


def domains() -> Iterator[str]:
    """A domain before its driver, one whose template is somebody else's, and both taken down."""
    world = World(ComputeDomains())
    other = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "taken-channel", "namespace": "default"},
        "spec": {"spec": {}},
    }
    world.apply(namespace("default"), other, tray("a"), tray("b"))
    yield from world.apply(domain(), domain("taken", nodes=1)).until(3)
    yield from world.apply(CLASSES[1]).until(4)
    yield from world.apply(CLASSES[0]).until(20)
    yield from world.delete(Key(TEMPLATE, "default", "taken-channel")).until(35)
    uid = {n: world.twin.store.require(domain_key(n))["metadata"]["uid"] for n in ("rack", "taken")}
    # What was made, and somebody took away or changed, is made again when it is a daemon set or a template of its own.
    yield from world.lets_go(Key(TEMPLATE, "default", "rack-channel")).until(36)
    yield from world.delete(Key(TEMPLATE, "default", "rack-channel")).until(50)
    for name, label in (("a", uid["rack"]), ("b", uid["taken"])):
        world.patch(Key("Node", "", name), {"metadata": {"labels": {words.LABEL: label}}})
    world.patch(domain_key("rack"), {"metadata": {"finalizers": [words.LABEL, "example.com/mine"]}})
    yield from world.patch(domain_key("rack"), {"metadata": {"labels": {"x": "y"}}}).until(51)
    made = Key(TEMPLATE, words.NAMESPACE, f"computedomain-daemon-{uid['rack']}")
    world.patch(made, {"metadata": {"finalizers": ["example.com/first", words.LABEL]}})
    world.patch(
        Key("DaemonSet.apps", words.NAMESPACE, f"computedomain-daemon-{uid['rack']}"),
        {"metadata": {"labels": {words.LABEL: "somebody else's"}}},
    )
    yield from world.until(52)
    copy = world.forks()
    yield from copy.delete(domain_key("rack")).until(60)
    yield from copy.lets_go(domain_key("rack")).lets_go(made).until(65)
    yield from copy.delete(Key(CLASSES[0]["kind"] + ".resource.k8s.io", "", words.DAEMON_CLASS)).until(66)
    yield from copy.delete(domain_key("taken")).until(80)
    yield from copy.apply(CLASSES[0]).until(90)
    yield from copy.said()


def daemons() -> Iterator[str]:
    """Daemons come, get their addresses, become ready, move between NVLink domains, and go."""
    world = World(ComputeDomains())
    world.apply(namespace("default"), namespace(words.NAMESPACE), *CLASSES)
    world.apply(tray("a"), tray("b"), tray("c", f"{RACK}.2"), tray("d", ""), tray("e"))
    yield from world.apply(domain(nodes=3), domain("else")).until(1)
    uid = {n: world.twin.store.require(domain_key(n))["metadata"]["uid"] for n in ("rack", "else")}
    rack = uid["rack"]
    daemon(world, "p0", rack)
    daemon(world, "p1", rack, "a")
    yield from daemon(world, "p2", rack, "b", podIP="10.0.0.2").until(2)
    yield from world.status(pod_key("p1"), podIP="10.0.0.1").until(3.5)
    yield from world.status(pod_key("p2"), conditions=ready()).until(4)
    yield from world.status(pod_key("p1"), conditions=ready("False")).until(5)
    yield from daemon(world, "p3", rack, "c", podIP="10.0.0.3", conditions=ready()).until(6)
    yield from daemon(world, "p4", rack, "d", podIP="10.0.0.4", conditions=ready()).until(7)
    yield from daemon(world, "q0", uid["else"], "e", podIP="10.0.1.1", conditions=ready()).until(9)
    yield from world.status(pod_key("p1"), conditions=ready()).until(11)
    yield from world.status(pod_key("p4"), conditions=ready("False")).until(13)
    world.patch(Key("Node", "", "b"), {"metadata": {"labels": {words.GPU_CLIQUE: f"{RACK}.2"}}})
    yield from world.status(pod_key("p2"), podIP="10.0.0.22").until(15)
    yield from world.delete(pod_key("p1")).until(17)
    yield from daemon(world, "p5", rack, "a", podIP="10.0.0.5", conditions=ready()).until(19)
    yield from world.status(pod_key("p4"), conditions=ready()).until(19)
    copy = world.forks()
    yield from copy.delete(Key("Node", "", "d")).until(21)
    yield from copy.delete(pod_key("p3")).delete(pod_key("p2")).until(23)
    yield from daemon(copy, "p6", "nobody's", "a", podIP="10.0.0.6").until(25)
    gone = Key(CLASSES[0]["kind"] + ".resource.k8s.io", "", words.DAEMON_CLASS)
    yield from copy.delete(gone).status(pod_key("p5"), podIP="10.0.0.55").until(27)
    yield from copy.apply(CLASSES[0]).until(29)
    for one in copy.twin.store.objects(words.CLIQUE):
        yield f"{one['metadata']['name']}: {one['daemons']}"


def full_racks() -> Iterator[str]:
    """An NVLink domain has eighteen trays at most; a place that becomes free is the next one's."""
    world = World(ComputeDomains())
    world.apply(namespace("default"), namespace(words.NAMESPACE), *CLASSES)
    world.apply(*(tray(f"n{i:02}") for i in range(21)), domain(nodes=18)).until(1)
    yield from world.until(1)
    uid = world.twin.store.require(domain_key("rack"))["metadata"]["uid"]
    for i in range(21):
        daemon(world, f"p{i:02}", uid, f"n{i:02}", podIP=f"10.0.0.{i}", conditions=ready())
        if i in (16, 17, 18, 20):
            yield from world.until(2 * i)
    yield from world.delete(pod_key("p07"), pod_key("p03")).until(50)
    yield from world.status(pod_key("p20"), podIP="10.0.1.20").until(60)
    for one in world.twin.store.objects(words.CLIQUE):
        yield f"{[(d['nodeName'], d['index']) for d in one['daemons']]}"


def channels() -> Iterator[str]:
    """A node keeps a domain's label until its last channel of that domain is given back."""
    world = World(ComputeDomains())
    world.apply(namespace("default"), namespace(words.NAMESPACE), *CLASSES, tray("a"), tray("b"))
    yield from world.apply(domain(), domain("else")).until(1)
    uid = {n: world.twin.store.require(domain_key(n))["metadata"]["uid"] for n in ("rack", "else")}

    def claim(name: str, node: str, of: str = "rack") -> None:
        world.apply(channel(name))
        world.status(Key(CLAIM, "default", name), allocation=given_to(uid[of], node))

    def label(node: str, of: str = "rack") -> None:
        world.patch(Key("Node", "", node), {"metadata": {"labels": {words.LABEL: uid[of]}}})

    label("a")
    label("b")
    for name, node, of in (
        ("one", "a", "rack"),
        ("two", "a", "rack"),
        ("three", "b", "rack"),
        ("four", "b", "else"),
    ):
        claim(name, node, of)
    world.apply(channel("never"))
    yield from world.until(2)
    yield from world.status(Key(CLAIM, "default", "one"), reservedFor=[{"name": "x"}]).until(3)
    yield from world.delete(Key(CLAIM, "default", "one")).until(4)
    yield from world.delete(Key(CLAIM, "default", "never")).until(5)
    yield from world.status(Key(CLAIM, "default", "two"), allocation=None).until(6)
    yield from world.delete(Key(CLAIM, "default", "four")).until(7)
    yield from world.status(Key(CLAIM, "default", "three"), allocation=given_to(uid["rack"], "a")).until(8)
    label("a")
    yield from world.delete(Key("Node", "", "a")).delete(Key(CLAIM, "default", "three")).until(9)


STORIES_OF = {
    "domains": (domains, daemons, full_racks, channels),
}


@pytest.mark.parametrize(
    "story", [story for stories in STORIES_OF.values() for story in stories], ids=lambda one: one.__name__
)
def test_nothing_else_happens_to_devices(story: Callable[[], Iterator[str]]) -> None:
    check_history(STORIES / f"devices-{story.__name__}.txt", story())
