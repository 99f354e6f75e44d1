"""Stories of who looks after devices, each alone: every write and word of it, and when.

What is told is compared with `../stories/`; FAIRWAY_UPDATE_GOLDENS=1 writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_computedomains import CLASSES, RACK, domain, tray
from test_device_taints import taint, tolerates
from test_devices_in_a_twin import device, device_class, slice_of
from test_devices_in_a_twin import node as dra_node
from test_gpu_health_causes import node as node_with_cards
from test_gpu_health_causes import pod as pod_on
from test_hami_plugin import node as hami_node
from test_hami_plugin import plugin as hami_plugin
from test_publishing import DRIVER, SLICE
from test_publishing import node as gpu_node
from test_reserving import claim_of, named
from tests.histories import check_history
from tests.twin.stepwise import STORIES, Watched

from fairway.catalog.drivers import DRA_DRIVER
from fairway.kube import computedomains as words
from fairway.kube.objects import Key, Obj
from fairway.twin.components import Component
from fairway.twin.devices.computedomains import ComputeDomains
from fairway.twin.devices.evicting import DeviceTaintEviction
from fairway.twin.devices.gpuhealth import GpuHealth, break_gpu
from fairway.twin.devices.hami import HamiDevicePlugin
from fairway.twin.devices.publishing import DevicePublishing
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.latency import NONE
from fairway.twin.operators import HAMI
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.twin import EPOCH_US, Twin

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


# Taints that evict


def resources(*listed: Obj, name: str = "s", pool: str = "n", generation: int = 1) -> Obj:
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "n",
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
        "devices": list(listed),
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": spec,
    }


def tainted() -> Iterator[str]:
    """Devices whose taints evict: at once, later, never; moved, called off, and told once."""
    world = World(DeviceTaintEviction())
    bad, worse = taint("bad", added_s=0), taint("worse", value="", added_s=None)
    mild = taint("mild", effect="NoSchedule")

    def uses(pod: str, claim: str, device: str, *tolerations: Obj, pool: str = "n", node: str = "n") -> None:
        spec: Obj = {
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "r", "resourceClaimName": claim}],
            **({"nodeName": node} if node else {}),
        }
        meta = {"name": pod, "namespace": "default"}
        key, of = Key("Pod", "default", pod), Key(CLAIM, "default", claim)
        world.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        if world.twin.store.get(of) is None:
            world.apply(channel(claim))
        uid = world.twin.store.require(key)["metadata"]["uid"]
        result = {"request": "r", "driver": "gpu.example.com", "pool": pool, "device": device}
        result |= {"tolerations": list(tolerations)} if tolerations else {}
        users = world.twin.store.require(of).get("status", {}).get("reservedFor") or []
        users = [*users, {"resource": "pods", "name": pod, "uid": uid}]
        world.status(of, allocation={"devices": {"results": [result]}}, reservedFor=users)

    world.apply(
        namespace("default"), resources({"name": "a"}, {"name": "b"}, {"name": "c", "taints": [mild]})
    )
    uses("p0", "c0", "a")
    uses("p1", "c1", "a", tolerates(5))
    uses("p2", "c2", "a", tolerates())
    uses("p3", "c3", "b", tolerates(9), tolerates(3))
    uses("p4", "c4", "c")
    uses("p5", "c0", "a", node="")
    uses("p6", "c6", "a", tolerates(5), pool="other")
    yield from world.until(1)
    ill = resources({"name": "a", "taints": [bad]}, {"name": "b"}, {"name": "c", "taints": [mild, mild]})
    world.patch(Key(SLICE, "", "s"), {"spec": ill["spec"]})
    yield from world.until(2)
    both = resources({"name": "a", "taints": [bad]}, {"name": "b", "taints": [bad]}, {"name": "c"})
    yield from world.patch(Key(SLICE, "", "s"), {"spec": both["spec"]}).until(2.5)
    copy = world.forks()
    yield from copy.until(4)
    yield from copy.apply(resources({"name": "a"}, {"name": "b"}, name="t", generation=2)).until(6)
    world = copy
    again = resources({"name": "a", "taints": [worse]}, {"name": "b"}, name="t", generation=2)
    yield from world.patch(Key(SLICE, "", "t"), {"spec": again["spec"]}).until(7)
    uses("p7", "c7", "a", tolerates(60, key="worse"))
    uses("p8", "c8", "a", tolerates(30, key="worse"))
    uses("p9", "c9", "a", tolerates(20, key="worse"))
    yield from world.until(8)
    yield from world.delete(Key("Pod", "default", "p8")).until(9)
    yield from world.status(Key(CLAIM, "default", "c9"), reservedFor=None).until(10)
    yield from world.patch(Key("Pod", "default", "p9"), {"metadata": {"labels": {"x": "y"}}}).until(11)
    yield from world.apply(resources({"name": "a", "taints": [worse]}, name="u", pool="other")).until(12)
    yield from world.delete(Key(SLICE, "", "t"), Key(SLICE, "", "s")).until(80)
    yield from world.said()


# What NVIDIA's driver and HAMi's plugin publish


def drivers() -> Iterator[str]:
    """Slices of nodes: made with their class, renewed with the cards, gone with either; another's are left alone."""
    world = World(DevicePublishing())
    world.apply(
        gpu_node("a"), gpu_node("b", count="1"), gpu_node("plugged", **{"nvidia.com/gpu": "2"}), tray("t")
    )
    yield from world.apply(gpu_node("none", "", "")).until(1)
    yield from world.apply(DRIVER).until(2)
    yield from world.patch(
        Key("Node", "", "a"), {"metadata": {"labels": {"nvidia.com/gpu.count": "3"}}}
    ).until(3)
    yield from world.patch(Key("Node", "", "b"), {"metadata": {"labels": {"x": "y"}}}).until(4)
    yield from world.apply(CLASSES[0], CLASSES[1]).until(5)
    copy = world.apply(gpu_node("late", count="4"))
    yield from copy.until(6)
    mine = next(s for s in copy.twin.store.objects(SLICE) if s["spec"]["nodeName"] == "b")
    yield from copy.delete(Key(SLICE, "", mine["metadata"]["name"])).until(7)
    theirs = resources({"name": "gpu-0"}, name="theirs", pool="a")
    theirs["spec"] |= {"driver": DRA_DRIVER, "nodeName": "a"}
    yield from copy.apply(theirs).until(8)
    yield from copy.delete(Key(SLICE, "", "theirs")).until(9)
    other = resources({"name": "x"}, name="other", pool="b")
    yield from copy.apply(other).until(10)
    yield from copy.delete(Key("DeviceClass.resource.k8s.io", "", words.DAEMON_CLASS)).until(11)
    yield from copy.patch(
        Key("Node", "", "b"), {"metadata": {"labels": {"nvidia.com/gpu.count": "0"}}}
    ).until(12)
    yield from copy.delete(Key("Node", "", "a")).until(13)
    yield from copy.forks().delete(Key("DeviceClass.resource.k8s.io", "", DRA_DRIVER)).until(14)


def shared_by_hami() -> Iterator[str]:
    """Cards registered with the plugin's node selector, anew with its arguments, and taken back with it."""
    world = World(HamiDevicePlugin())
    kept = {"fairway.dev/gpu-unhealthy": "0", "own": "kept"}
    world.apply(
        hami_node("a"), hami_node("b", 1, notes=kept), hami_node("off", gpu="off"), hami_node("c", 0, "")
    )
    yield from world.until(1)
    yield from world.apply(hami_plugin("--device-split-count=5", selects={"gpu": "on"})).until(2)
    yield from world.patch(Key("Node", "", "a"), {"metadata": {"labels": {"x": "y"}}}).until(3)
    yield from world.patch(Key("Node", "", "off"), {"metadata": {"labels": {"gpu": "on"}}}).until(4)
    yield from world.patch(
        Key("Node", "", "b"), {"metadata": {"annotations": {"fairway.dev/gpu-unhealthy": None}}}
    ).until(5)
    yield from world.apply(
        hami_plugin("--device-split-count", "7", command=("x", "--device-split-count=1001"))
    ).until(6)
    yield from world.apply(hami_node("late", 3)).until(7)
    yield from world.apply(
        hami_plugin("--device-split-count=0", "--device-split-count=2", selects={"gpu": "on", "x": "y"})
    ).until(8)
    yield from world.delete(Key("Node", "", "late")).until(9)
    yield from world.forks().delete(HAMI).until(10)


# GPUs that break


def broken() -> Iterator[str]:
    """Cards that break and are mended, one cause beside another: work that ends, paces that change, nodes drained."""
    world = World(Faults(), Kubelet(), GpuHealth())
    notes = {"gpu_index": "2"}
    sharing = pod_on("sharing", 0)
    sharing["spec"]["containers"][0]["resources"] = {"limits": {"fairway.dev/gpu-milli": "500"}}
    owned = pod_on("owned", 1)
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    ]
    world.apply(node_with_cards(), node_with_cards("m"))
    world.apply(
        pod_on("first", 1),
        pod_on("second", 1, run_time="100s"),
        pod_on("third", 1, **notes, run_time="12s"),
        pod_on("plain", 0),
        pod_on("far", 4, on="m", run_time="30s"),
        sharing,
        owned,
    )
    yield from world.until(5)

    def breaks(card: int, cause: str, node: str = "n", **how: Any) -> None:
        break_gpu(world.twin.host, node, card, cause, **how)

    breaks(0, "thermal", repair_us=20_000_000)
    breaks(0, "power-cap", repair_us=40_000_000)
    breaks(4, "thermal")
    breaks(9, "thermal", "gone")
    yield from world.until(10)
    breaks(2, "straggler", repair_us=-1)
    breaks(0, "thermal")
    breaks(1, "silent-corruption", after_us=2_000_000, repair_us=3_000_000)
    yield from world.until(20)
    yield from world.apply(pod_on("late", 1, gpu_index="2", run_time="4s")).until(26)
    breaks(2, "xid-13")
    yield from world.until(30)
    breaks(3, "xid-48", repair_us=15_000_000)
    breaks(3, "xid-79", repair_us=25_000_000)
    breaks(2, "xid-63", repair_us=10_000_000, drains=True)
    yield from world.until(45)
    copy = world.forks()
    breaks_on = copy.twin.host
    break_gpu(breaks_on, "m", 0, "xid-74", drains=True)
    yield from copy.until(50)
    copy.twin.store.delete(Key("Node", "", "m"))
    copy.twin.wake()
    yield from copy.until(7300)
    yield from copy.said()
    health = copy.twin.component("gpu-health")
    assert isinstance(health, GpuHealth)
    for (name, card, cause, since), until in health.history.items():
        yield f"{name} {card} {cause}: {(since - EPOCH_US) / 1e6} to {until and (until - EPOCH_US) / 1e6}"
    yield f"{health.broken}"


# What the scheduler writes for pods with devices


ON_A, ON_B = {"kubernetes.io/hostname": "a"}, {"kubernetes.io/hostname": "b"}


def pod_named(name: str, **more: Any) -> Obj:
    spec = {"containers": [{"name": "c", "image": "i"}], **more}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def slow(name: str) -> Obj:
    more = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"], "bindsToNode": True}
    return device(name, **more)


def cpu(of: Obj, amount: str) -> Obj:
    of["spec"]["containers"][0]["resources"] = {"requests": {"cpu": amount}}
    return of


def says(world: World, claim: str, type_: str = "ready") -> World:
    """The driver, of the claim's devices."""
    key = Key(CLAIM, "default", claim)
    results = world.twin.store.require(key)["status"]["allocation"]["devices"]["results"]
    condition = {"type": type_, "status": "True", "reason": "R", "message": "so it is"}
    said = [{n: r[n] for n in ("driver", "pool", "device")} | {"conditions": [condition]} for r in results]
    return world.status(key, devices=said)


def reserved() -> Iterator[str]:
    """Pods that wait on their nodes for devices: made ready, broken, late, deleted, left by node or claim."""
    world = World(SchedulerComponent())
    world.apply(
        device_class(), dra_node("a"), dra_node("b"), slice_of("a", slow("a0"), slow("a1"), device("a2"))
    )
    world.apply(*(claim_of(f"c{i}") for i in range(9)), claim_of("two", count=2))
    yield from world.apply(cpu(named("first", "c0", nodeSelector=ON_A), "6")).until(1)
    yield from world.apply(cpu(pod_named("plain"), "4"), cpu(pod_named("small"), "1")).until(2)
    yield from says(world, "c0").until(12)
    yield from world.apply(named("second", "c1"), named("beside", "c0")).until(13)
    yield from says(world, "c1", "broken").until(20)
    copy = world.forks()
    yield from copy.until(21)
    yield from copy.status(
        Key(CLAIM, "default", "c1"), allocation=None, reservedFor=None, devices=None
    ).until(40)
    yield from copy.until(50)
    yield from copy.apply(cpu(named("third", "two"), "2"), named("fourth", "late")).until(51)
    yield from copy.apply(cpu(pod_named("tight", nodeSelector=ON_A), "2")).until(52)
    yield from copy.apply(claim_of("late")).until(53)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}
    yield from copy.patch(Key(CLAIM, "default", "late"), {"metadata": {"ownerReferences": [owner]}}).until(54)
    yield from copy.apply(slice_of("b", slow("b0"), slow("b1"))).until(56)
    yield from copy.delete(Key("Pod", "default", "third")).until(58)
    yield from copy.apply(cpu(named("fifth", "c4"), "3")).until(58.5)
    yield from copy.apply(cpu(pod_named("narrow", nodeSelector=ON_B), "3")).until(59)
    copy.twin.store.delete(Key("Pod", "default", "fifth"), grace_s=30)
    copy.twin.wake()
    yield from copy.until(59.5)
    yield from copy.apply(named("eighth", "c4"), cpu(named("sixth", "c5"), "7")).until(60)
    yield from copy.delete(Key(CLAIM, "default", "c4")).until(66)
    yield from copy.delete(Key("Node", "", "b")).until(80)
    yield from copy.apply(dra_node("b")).until(90)
    yield from copy.until(900)
    yield from copy.said()


def extended() -> Iterator[str]:
    """Claims made for extended resources: given with their pods, taken back where binding fails."""
    world = World(SchedulerComponent())
    asks = pod_named("asks")
    amounts = {"example.com/gpu": "1"}
    asks["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    again = {**asks, "metadata": {**asks["metadata"], "name": "again"}}
    both = {**asks, "metadata": {**asks["metadata"], "name": "both"}}
    both["spec"] = {**asks["spec"], "resourceClaims": [{"name": "gpu", "resourceClaimName": "c0"}]}
    of_class = device_class(extendedResourceName="example.com/gpu")
    world.apply(of_class, dra_node("a"), slice_of("a", slow("a0"), device("a1")), claim_of("c0"))
    yield from world.apply(asks).until(2)
    (made,) = (
        c["metadata"]["name"] for c in world.twin.store.objects(CLAIM) if c["metadata"]["name"] != "c0"
    )
    yield from says(world, made, "broken").until(10)
    yield from world.apply(both, again).until(11)
    for one in list(world.twin.store.objects(CLAIM)):
        if one.get("status", {}).get("allocation"):
            says(world, one["metadata"]["name"])
    yield from world.until(400)
    yield from world.said()


STORIES_OF = {
    "domains": (domains, daemons, full_racks, channels),
    "taints": (tainted,),
    "publishing": (drivers, shared_by_hami),
    "health": (broken,),
    "reserving": (reserved, extended),
}


@pytest.mark.parametrize(
    "story", [story for stories in STORIES_OF.values() for story in stories], ids=lambda one: one.__name__
)
def test_nothing_else_happens_to_devices(story: Callable[[], Iterator[str]]) -> None:
    check_history(STORIES / f"devices-{story.__name__}.txt", story())


@pytest.mark.parametrize(
    "story", [story for stories in STORIES_OF.values() for story in stories], ids=lambda one: one.__name__
)
def test_nor_in_copies_of_devices(
    story: Callable[[], Iterator[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watched, "goes_on_in_copies", True)
    check_history(STORIES / f"devices-{story.__name__}.txt", story())
