"""Pods with claims, end to end: what holds them back, in kube-scheduler's words, and what lets them go."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.scheduling.profile import Profile
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

ZONE = "topology.kubernetes.io/zone"
NOT_FOUND = "not found"


def node(name: str, zone: str = "", **extra: Any) -> Obj:
    labels = {"kubernetes.io/hostname": name, **({ZONE: zone} if zone else {})}
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    meta = {"name": name, "labels": {**labels, **extra}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": allocatable}}


def pod(name: str, *claims: str, cpu: str = "1", **spec: Any) -> Obj:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(claims)]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "volumes": volumes, **spec},
    }


def claim(name: str, size: str = "1Gi", **spec: Any) -> Obj:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": wanted}


def volume(
    name: str, size: str = "1Gi", *, zones: tuple[str, ...] = (), labels: Any = None, **spec: Any
) -> Obj:
    body = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        **spec,
    }
    if zones:
        expressions = [{"key": ZONE, "operator": "In", "values": list(zones)}]
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    meta = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": body}


def storage_class(
    name: str, provisioner: str = "disks.example.com", *, waits: bool = True, **more: Any
) -> Obj:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
        **more,
    }


LOCAL = "kubernetes.io/no-provisioner"


def a_twin(*objects: Obj) -> Twin:
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    twin.apply(objects)
    twin.run_for(MINUTE_US)
    return twin


def at(twin: Twin, name: str = "p") -> str:
    return str(twin.store.require(Key("Pod", "default", name))["spec"].get("nodeName") or "")


def why(twin: Twin, name: str = "p") -> str:
    found = twin.store.require(Key("Pod", "default", name))["status"]["conditions"]
    return str(next(c for c in found if c["type"] == "PodScheduled").get("message") or "")


def bound(twin: Twin, name: str) -> str:
    """The volume of a claim, where both say so."""
    of_claim = twin.store.require(Key("PersistentVolumeClaim", "default", name))
    found = str(of_claim["spec"].get("volumeName") or "")
    if found:
        of_volume = twin.store.require(Key("PersistentVolume", "", found))
        assert of_volume["spec"]["claimRef"]["uid"] == of_claim["metadata"]["uid"]
        assert (of_claim["status"]["phase"], of_volume["status"]["phase"]) == ("Bound", "Bound")
    return found


A, B = node("a", "z1"), node("b", "z2")
TWO = "0/2 nodes are available"
HOPELESS = f"preemption: {TWO}: 2 Preemption is not helpful for scheduling."

REFUSED: dict[str, tuple[list[Obj], str]] = {
    "a claim that is not there": (
        [pod("p", "c")],
        f'{TWO}: persistentvolumeclaim "c" not found. {NOT_FOUND}',
    ),
    "a claim without a class": (
        [claim("c"), pod("p", "c")],
        f"{TWO}: pod has unbound immediate PersistentVolumeClaims. {NOT_FOUND}",
    ),
    "a claim that names a volume that is not there": (
        [claim("c", volumeName="gone"), pod("p", "c")],
        f"{TWO}: pod has unbound immediate PersistentVolumeClaims. {NOT_FOUND}",
    ),
    "a volume of another zone": (
        [volume("v", zones=("z3",)), claim("c"), pod("p", "c")],
        f"{TWO}: 2 node(s) didn't match PersistentVolume's node affinity. no new claims to deallocate, {HOPELESS}",
    ),
    "a volume with the label of another zone": (
        [volume("v", labels={ZONE: "z3__z4"}), claim("c"), pod("p", "c")],
        f"{TWO}: 2 node(s) had no available volume zone. no new claims to deallocate, {HOPELESS}",
    ),
    "local volumes, all too small": (
        [
            storage_class("local", LOCAL),
            volume("v", "1Gi", storageClassName="local"),
            claim("c", "2Gi", storageClassName="local"),
            pod("p", "c"),
        ],
        f"{TWO}: 2 node(s) didn't find available persistent volumes to bind. no new claims to deallocate, {HOPELESS}",
    ),
    "a class for other zones": (
        [
            storage_class(
                "far", allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["z3"]}]}]
            ),
            claim("c", storageClassName="far"),
            pod("p", "c"),
        ],
        f"{TWO}: 2 node(s) didn't find available persistent volumes to bind. no new claims to deallocate, {HOPELESS}",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_holds_a_pod_back(name: str) -> None:
    objects, message = REFUSED[name]
    twin = a_twin(A, B, *objects)
    assert at(twin) == ""
    assert why(twin) == message


def test_a_claim_that_lost_its_volume() -> None:
    twin = a_twin(A, B, volume("v"), claim("c"))
    assert bound(twin, "c") == "v"
    twin.store.delete(Key("PersistentVolume", "", "v"))
    twin.apply([pod("p", "c")])
    twin.run_for(MINUTE_US)
    lost = 'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"'
    assert why(twin) == f"{TWO}: {lost}. {NOT_FOUND}"


def test_a_claim_that_comes_later_lets_its_pod_go() -> None:
    twin = a_twin(A, pod("p", "c"), storage_class("disks"))
    assert at(twin) == ""
    twin.apply([claim("c", storageClassName="disks")])
    twin.run_for(MINUTE_US)
    assert at(twin) == "a"
    assert bound(twin, "c").startswith("pvc-")


def test_a_bound_volume_decides_the_node() -> None:
    objects = [A, B, volume("v", zones=("z2",)), claim("c"), *(pod(f"p{i}", "c") for i in range(3))]
    twin = a_twin(*objects)
    assert bound(twin, "c") == "v"
    assert [at(twin, f"p{i}") for i in range(3)] == ["b"] * 3


def test_the_smallest_volume_that_fits_on_the_node_is_taken() -> None:
    """Two claims of one pod: 1Gi and 4Gi. In z2 there are volumes of 2, 3 and 5 GiB; z1 lacks a large one."""
    sizes = {"s1": ("2Gi", "z1"), "s2": ("3Gi", "z2"), "s3": ("2Gi", "z2"), "s4": ("5Gi", "z2")}
    volumes = [volume(n, size, zones=(z,), storageClassName="local") for n, (size, z) in sizes.items()]
    claims = [claim("big", "4Gi", storageClassName="local"), claim("small", storageClassName="local")]
    twin = a_twin(A, B, storage_class("local", LOCAL), *volumes, *claims, pod("p", "big", "small"))
    assert at(twin) == "b"
    assert (bound(twin, "small"), bound(twin, "big")) == ("s3", "s4")


def test_a_volume_is_provisioned_in_the_zone_of_the_node_and_stays_there() -> None:
    twin = Twin(seed=1, latency=latency_named("default"), components=standard_components())
    twin.apply(
        [
            A,
            B,
            storage_class("disks"),
            claim("c", "7Gi", storageClassName="disks"),
            pod("p", "c", nodeSelector={ZONE: "z2"}),
        ]
    )
    twin.run_for(SECOND_US)
    # Its place is kept, its claim waits, and it has no node yet.
    assert at(twin) == "" and bound(twin, "c") == ""
    found = twin.store.require(Key("PersistentVolumeClaim", "default", "c"))
    assert found["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "b"
    twin.run_for(MINUTE_US)
    assert at(twin) == "b"
    made = twin.store.require(Key("PersistentVolume", "", bound(twin, "c")))
    assert made["spec"]["capacity"] == {"storage": "7Gi"}
    terms = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z2"]}]}]
    # Who comes later follows the volume.
    twin.store.delete(Key("Pod", "default", "p"), grace_s=0)
    twin.apply([pod("q", "c")])
    twin.run_for(MINUTE_US)
    assert at(twin, "q") == "b"


def test_a_pod_that_waits_for_its_volume_keeps_its_place() -> None:
    """Four cores of eight are promised to it: of two more pods of four cores one finds room, one does not."""
    twin = Twin(seed=1, latency=latency_named("default"), components=standard_components())
    twin.apply([A, storage_class("disks"), claim("c", storageClassName="disks"), pod("p", "c", cpu="4")])
    twin.run_for(SECOND_US)
    assert at(twin) == ""
    twin.apply([pod("q", cpu="4"), pod("r", cpu="4")])
    twin.run_for(MINUTE_US)
    assert (at(twin), at(twin, "q"), at(twin, "r")) == ("a", "a", "")
    fork = twin.fork()
    fork.run_for(MINUTE_US)
    assert at(fork, "r") == ""


def test_a_pod_deleted_while_it_waits_gives_its_place_up() -> None:
    twin = Twin(seed=1, latency=latency_named("default"), components=standard_components())
    twin.apply(
        [
            A,
            storage_class("disks"),
            claim("c", storageClassName="disks"),
            pod("p", "c", cpu="8"),
            pod("q", cpu="8"),
        ]
    )
    twin.run_for(SECOND_US)
    assert (at(twin), at(twin, "q")) == ("", "")
    twin.store.delete(Key("Pod", "default", "p"))
    twin.wake()
    twin.run_for(MINUTE_US)
    assert at(twin, "q") == "a"


def test_a_node_that_vanishes_while_a_pod_waits_there() -> None:
    twin = Twin(seed=1, latency=latency_named("default"), components=standard_components())
    twin.apply([A, storage_class("disks"), claim("c", storageClassName="disks"), pod("p", "c")])
    twin.run_for(SECOND_US)
    twin.store.delete(Key("Node", "", "a"))
    twin.apply([B])
    twin.run_for(5 * MINUTE_US)
    assert at(twin) == "b"
    made = twin.store.require(Key("PersistentVolume", "", bound(twin, "c")))
    assert "z2" in str(made["spec"]["nodeAffinity"])


def test_a_claim_for_one_pod_alone() -> None:
    alone = claim("c", accessModes=["ReadWriteOncePod"])
    objects = [A, B, volume("v", accessModes=["ReadWriteOncePod"]), alone, pod("p", "c"), pod("q", "c")]
    twin = a_twin(*objects)
    placed = {name: at(twin, name) for name in ("p", "q")}
    [waiting] = [name for name, where in placed.items() if not where]
    held = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
    assert why(twin, waiting).startswith(f"{TWO}: 2 {held}.")
    other = "q" if waiting == "p" else "p"
    twin.store.delete(Key("Pod", "default", other), grace_s=0)
    twin.wake()
    twin.run_for(MINUTE_US)
    assert at(twin, waiting)


def test_a_node_takes_as_many_volumes_as_its_driver_says() -> None:
    """Two of three pods fit where a driver may attach two; a volume that two pods share counts once."""
    driver = {"name": "disks.example.com", "nodeID": "a", "allocatable": {"count": 2}}
    limits = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "a"},
        "spec": {"drivers": [driver]},
    }
    claims = [claim(f"c{i}", storageClassName="disks") for i in range(3)]
    pods = [pod(f"p{i}", f"c{i}") for i in range(3)]
    twin = a_twin(A, limits, storage_class("disks"), *claims, *pods, pod("shares", "c0"))
    waiting = [f"p{i}" for i in range(3) if not at(twin, f"p{i}")]
    assert len(waiting) == 1
    assert why(twin, waiting[0]).startswith("0/1 nodes are available: 1 node(s) exceed max volume count.")
    assert at(twin, "shares") == "a" or waiting == ["p0"]


def test_an_ephemeral_volume_has_a_claim_of_its_own() -> None:
    template = {"spec": claim("", storageClassName="disks")["spec"]}
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    twin = a_twin(A, storage_class("disks"), pod("p", volumes=[scratch]), pod("q", volumes=[scratch]))
    assert (at(twin), at(twin, "q")) == ("a", "a")
    assert bound(twin, "p-scratch") != bound(twin, "q-scratch")
    twin.store.delete(Key("Pod", "default", "p"), grace_s=0)
    twin.wake()
    twin.run_for(5 * MINUTE_US)
    assert twin.store.get(Key("PersistentVolumeClaim", "default", "p-scratch")) is None
    # Its class deletes what it made.
    assert len(twin.store.objects("PersistentVolume")) == 1


def test_an_immediate_class_does_not_wait_for_a_pod() -> None:
    twin = a_twin(storage_class("now", waits=False), claim("c", storageClassName="now"))
    assert bound(twin, "c").startswith("pvc-")


def test_a_volume_meant_for_a_claim_is_the_only_one() -> None:
    """Its claimRef names the claim beforehand; a smaller one is free on the other node."""
    meant = volume("meant", "9Gi", zones=("z2",), storageClassName="local")
    meant["spec"]["claimRef"] = {"namespace": "default", "name": "c"}
    free = volume("free", "1Gi", zones=("z1",), storageClassName="local")
    wanted = claim("c", storageClassName="local")
    twin = a_twin(A, B, storage_class("local", LOCAL), meant, free, wanted, pod("p", "c"))
    assert (at(twin), bound(twin, "c")) == ("b", "meant")


def test_a_gang_waits_for_its_volumes_and_for_each_other() -> None:
    """Both pods of a group of two need a volume; both are bound once both volumes are there."""
    profile = Profile(permits=frozenset({"Coscheduling"}))
    twin = Twin(seed=1, latency=latency_named("default"), components=standard_components((profile,)))
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    pods = [pod(name, f"c-{name}", cpu="4") for name in ("p", "q")]
    for one in pods:
        one["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
    claims = [claim(f"c-{name}", storageClassName="disks") for name in ("p", "q")]
    twin.apply([A, group, storage_class("disks"), *claims, *pods])
    twin.run_for(SECOND_US)
    assert (at(twin), at(twin, "q")) == ("", "")
    twin.run_for(MINUTE_US)
    assert (at(twin), at(twin, "q")) == ("a", "a")
    assert bound(twin, "c-p") != bound(twin, "c-q")
