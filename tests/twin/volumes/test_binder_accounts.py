"""The binder by itself: who gets which volume, what both objects say then, and every event of a claim."""

from __future__ import annotations

from typing import Any

import pytest
from test_volume_binding import LOCAL, ZONE, claim, node, pod, storage_class, volume

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, key_of
from fairway.kube.timestamps import SECOND_US
from fairway.twin.latency import NONE
from fairway.twin.twin import Twin
from fairway.twin.volumes.binding import CLAIM_FINALIZER, VOLUME_FINALIZER, VolumeBinder

CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"
NOBODY = (
    "Waiting for a volume to be created either by the external provisioner 'disks.example.com' or manually by the "
    "system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)


class World:
    def __init__(self, *objects: Obj) -> None:
        self.twin = Twin(latency=NONE, components=[VolumeBinder()])
        self.apply(*objects)

    def apply(self, *objects: Obj) -> World:
        """A status counts, and who is `leaving` does so from the start."""
        self.twin.apply(objects)
        for obj in objects:
            key = key_of(obj)
            if obj["kind"] == "Pod" and "status" in obj:
                self.twin.store.set_status(key, obj["status"])
            if "deletionTimestamp" in obj["metadata"]:
                self.twin.store.delete(key)
        self.twin.run_for(SECOND_US)
        return self

    def claim(self, name: str = "c") -> Obj:
        return self.twin.store.require(Key(CLAIM, "default", name))

    def volume(self, name: str) -> Obj:
        return self.twin.store.require(Key(VOLUME, "", name))

    def volumes(self) -> dict[str, tuple[str, str]]:
        """Phase, and the claim in its claimRef with `!` where that has a uid."""
        found = {}
        for obj in self.twin.store.objects(VOLUME):
            reference = obj["spec"].get("claimRef") or {}
            who = f"{reference.get('name', '')}{'!' if reference.get('uid') else ''}"
            found[obj["metadata"]["name"]] = (obj["status"].get("phase") or "", who)
        return found

    def said(self, name: str = "c") -> list[tuple[str, str, str, int]]:
        told = self.twin.host.events.about(Key(CLAIM, "default", name))
        return [(t.type, t.reason, t.message, t.times) for t in told]

    def delete(self, gk: str, name: str, namespace: str = "") -> World:
        self.twin.store.delete(Key(gk, namespace, name))
        return self.apply()


def meant(name: str = "c", **more: str) -> Obj:
    return {"claimRef": {"kind": CLAIM, "namespace": "default", "name": name, **more}}


def leaving(obj: Obj, finalizer: str = "x/y") -> Obj:
    meta = {**obj["metadata"], "finalizers": [finalizer], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return {**obj, "metadata": meta}


CASES: dict[str, tuple[Obj, list[Obj], str]] = {
    "nothing there": (claim("c"), [], ""),
    "the smallest that is large enough": (
        claim("c", "2Gi"),
        [volume("large", "5Gi"), volume("small", "1Gi"), volume("right", "2Gi"), volume("same", "2Gi")],
        "right",
    ),
    "one that is meant for it, before a smaller one": (
        claim("c"),
        [volume("a", "1Gi"), volume("meant", "9Gi", **meant())],
        "meant",
    ),
    "one that is meant for another": (claim("c"), [volume("a", **meant("other"))], ""),
    "one that is meant for one of its name elsewhere": (
        claim("c"),
        [volume("a", claimRef={"kind": CLAIM, "namespace": "far", "name": "c"})],
        "",
    ),
    "one that was meant for one before it": (claim("c"), [volume("a", **meant(uid="before"))], ""),
    "one that it names, before one that is meant for it": (
        claim("c", volumeName="named"),
        [volume("meant", **meant()), volume("named", "3Gi"), volume("small")],
        "named",
    ),
    "one that it names and that has another": (
        claim("c", volumeName="named"),
        [volume("named", **meant("other")), volume("free")],
        "",
    ),
    "one that it names and that is too small": (
        claim("c", "2Gi", volumeName="named"),
        [volume("named", "1Gi"), volume("free", "2Gi")],
        "",
    ),
    "one that is meant for it and goes": (
        claim("c"),
        [leaving(volume("meant", **meant())), volume("z", "4Gi")],
        "z",
    ),
    "one that goes": (claim("c"), [leaving(volume("a")), volume("z", "4Gi")], "z"),
    "of another class": (claim("c"), [volume("a", storageClassName="fast")], ""),
    "of its class": (
        claim("c", storageClassName="fast"),
        [volume("plain"), volume("a", storageClassName="fast")],
        "a",
    ),
    "of another mode": (claim("c"), [volume("a", volumeMode="Block")], ""),
    "of other access": (claim("c", accessModes=["ReadWriteMany"]), [volume("a")], ""),
    "by its labels": (
        claim("c", selector={"matchLabels": {"tier": "b"}}),
        [volume("a", labels={"tier": "a"}), volume("b", "3Gi", labels={"tier": "b"})],
        "b",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_who_gets_which(name: str) -> None:
    """Source: index.go findBestMatchForClaim; pv_controller.go syncUnboundClaim, syncVolume."""
    wants, volumes, want = CASES[name]
    world = World(wants, *volumes)
    found = world.claim()
    gets = found["spec"].get("volumeName") or "" if found["status"]["phase"] == "Bound" else ""
    assert gets == want
    for one in volumes:
        about, reference = one["metadata"]["name"], one["spec"].get("claimRef") or {}
        phase, who = world.volumes()[about]
        if about == want:
            assert (phase, who) == ("Bound", "c!")
        elif reference.get("uid"):
            assert (phase, who) == ("Released", "c!")
        else:
            assert (phase, who) == ("Available", reference.get("name", ""))


def test_what_both_say_once_they_are_bound() -> None:
    world = World(volume("v", "5Gi", accessModes=["ReadWriteOnce", "ReadOnlyMany"]), claim("c", "2Gi"))
    bound, by_us = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"
    got, made = world.claim(), world.volume("v")
    assert got["metadata"]["annotations"] == {bound: "yes", by_us: "yes"}
    assert got["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "capacity": {"storage": "5Gi"},
    }
    assert got["spec"]["volumeName"] == "v"
    assert made["metadata"]["annotations"] == {by_us: "yes"}
    reference = made["spec"]["claimRef"]
    assert reference.pop("resourceVersion")
    assert reference == {
        "apiVersion": "v1",
        "kind": CLAIM,
        "namespace": "default",
        "name": "c",
        "uid": got["metadata"]["uid"],
    }
    assert made["status"] == {"phase": "Bound", "lastPhaseTransitionTime": "2026-01-05T00:00:00Z"}
    # Whoever said which belongs to which said it, not the controller.
    told = World(volume("v", **meant()), claim("c", volumeName="v"))
    assert told.claim()["metadata"]["annotations"] == {bound: "yes"}
    assert by_us not in (told.volume("v")["metadata"].get("annotations") or {})
    version = world.twin.store.version
    assert world.apply().twin.store.version == version, "looking again writes nothing"


WAITS = storage_class("slow")
SAID: dict[str, tuple[list[Obj], list[tuple[str, str, str, int]]]] = {
    "no class": (
        [claim("c")],
        [
            (
                *("Normal", "FailedBinding"),
                "no persistent volumes available for this claim and no storage class is set",
                1,
            )
        ],
    ),
    "no such class": (
        [claim("c", storageClassName="none")],
        [("Warning", "ProvisioningFailed", 'storageclass.storage.k8s.io "none" not found', 1)],
    ),
    "a class without provisioner": (
        [storage_class("local", LOCAL, waits=False), claim("c", storageClassName="local")],
        [("Warning", "ProvisioningFailed", f"no volume plugin matched name: {LOCAL}", 1)],
    ),
    "it names one that is not there": ([claim("c", volumeName="v")], []),
    "waits for its first pod": (
        [WAITS, claim("c", storageClassName="slow")],
        [("Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding", 1)],
    ),
    "waits for a pod": (
        [WAITS, claim("c", storageClassName="slow"), pod("p", "c")],
        [("Normal", "WaitForPodScheduled", "waiting for pod p to be scheduled", 1)],
    ),
    "waits for pods": (
        [WAITS, claim("c", storageClassName="slow"), pod("p", "c"), pod("q", "c"), pod("r", "other")],
        [("Normal", "WaitForPodScheduled", "waiting for pods p,q to be scheduled", 1)],
    ),
    "pods that have a node or are over are no reason": (
        [
            *(WAITS, claim("c", storageClassName="slow"), pod("p", "c", nodeName="n")),
            {**pod("q", "c"), "status": {"phase": "Failed"}},
        ],
        [("Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding", 1)],
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_what_a_claim_that_waits_is_told(name: str) -> None:
    objects, want = SAID[name]
    world = World(*objects)
    assert world.said() == want
    assert world.claim()["status"]["phase"] == "Pending" and world.volumes() == {}


def test_what_a_claim_waits_for_is_said_once_and_of_its_successor_again() -> None:
    world = World(WAITS, claim("c", storageClassName="slow"))
    waits = ("Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding", 1)
    assert world.said() == [waits]
    for value in ("1", "2"):
        world.twin.store.patch(Key(CLAIM, "default", "c"), {"metadata": {"labels": {"x": value}}})
        world.twin.run_for(SECOND_US)
    assert world.said() == [waits]
    copy = world.twin.fork()
    copy.store.patch(Key(CLAIM, "default", "c"), {"metadata": {"labels": {"x": "3"}}})
    copy.run_for(SECOND_US)
    assert [e.times for e in copy.host.events.told()] == [1]
    world.twin.store.delete(Key(CLAIM, "default", "c"))
    world.twin.run_for(SECOND_US)
    world.twin.store.load(
        {
            **claim("c", storageClassName="slow"),
            "metadata": {"name": "c", "namespace": "default", "uid": "new"},
        }
    )
    world.twin.run_for(SECOND_US)
    assert world.said() == [waits, waits]


def made_by(world: World) -> Obj:
    (found,) = world.twin.store.objects(VOLUME)
    return found


def test_a_volume_that_is_made() -> None:
    disks = storage_class("disks", waits=False, reclaimPolicy="Retain", mountOptions=["ro"])
    world = World(disks, claim("c", "3Gi", storageClassName="disks"))
    got, made = world.claim(), made_by(world)
    name = f"pvc-{got['metadata']['uid']}"
    assert made["metadata"]["name"] == name
    assert made["metadata"]["annotations"] == {"pv.kubernetes.io/provisioned-by": "disks.example.com"}
    reference = made["spec"].pop("claimRef")
    assert reference["uid"] == got["metadata"]["uid"]
    assert made["spec"] == {
        "capacity": {"storage": "3Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "disks.example.com", "volumeHandle": name},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "disks",
        "volumeMode": "Filesystem",
        "mountOptions": ["ro"],
    }
    assert {k: v for k, v in got["metadata"]["annotations"].items() if "provisioner" in k} == {
        "volume.beta.kubernetes.io/storage-provisioner": "disks.example.com",
        "volume.kubernetes.io/storage-provisioner": "disks.example.com",
    }
    assert (got["status"]["phase"], got["spec"]["volumeName"]) == ("Bound", name)
    assert world.said() == [
        ("Normal", "ExternalProvisioning", NOBODY, 1),
        ("Normal", "Provisioning", 'External provisioner is provisioning volume for claim "default/c"', 1),
        ("Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}", 1),
    ]


TOPOLOGIES = [
    {"matchLabelExpressions": [{"key": ZONE, "values": ["z9", "z2"]}, {"key": "rack", "values": ["r"]}]}
]


@pytest.mark.parametrize(
    ("chosen", "topologies", "reaches"),
    [
        ("", [], []),
        ("", TOPOLOGIES, [("rack", ["r"]), (ZONE, ["z9"])]),
        ("n", [], [(ZONE, ["z2"])]),
        ("n", TOPOLOGIES, [("rack", ["r7"]), (ZONE, ["z2"])]),
        ("n", [{"matchLabelExpressions": [{"key": "hall", "values": ["h"]}]}], []),
    ],
)
def test_where_a_volume_that_is_made_can_be_reached(
    chosen: str, topologies: list[Obj], reaches: list[Any]
) -> None:
    more: Obj = {"allowedTopologies": topologies} if topologies else {}
    wants = claim("c", storageClassName="disks")
    if chosen:
        wants["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": chosen}
    world = World(node("n", "z2", rack="r7"), storage_class("disks", waits=bool(chosen), **more), wants)
    terms = (
        (made_by(world)["spec"].get("nodeAffinity") or {}).get("required", {}).get("nodeSelectorTerms", [])
    )
    found = [[(e["key"], e["values"]) for e in t["matchExpressions"]] for t in terms]
    assert found == ([reaches] if reaches else [])
    assert all(e["operator"] == "In" for t in terms for e in t["matchExpressions"])


def test_a_chosen_node_that_is_gone_is_chosen_anew() -> None:
    wants = claim("c", storageClassName="disks")
    wants["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "gone", "kept": "1"}
    world = World(storage_class("disks"), wants)
    notes = world.claim()["metadata"]["annotations"]
    assert "volume.kubernetes.io/selected-node" not in notes and notes["kept"] == "1"
    assert world.volumes() == {} and world.claim()["status"]["phase"] == "Pending"


@pytest.mark.parametrize(("policy", "stays"), [("Delete", False), ("Retain", True)])
def test_what_becomes_of_a_volume_without_its_claim(policy: str, stays: bool) -> None:
    """One that was made goes if its class says so; one that an administrator made stays, released, for nobody."""
    disks = storage_class("disks", waits=False, reclaimPolicy=policy)
    world = World(disks, claim("c", storageClassName="disks"))
    name = made_by(world)["metadata"]["name"]
    world.delete(CLAIM, "c", "default")
    assert world.volumes() == ({name: ("Released", "c!")} if stays else {})
    own = World(volume("v", persistentVolumeReclaimPolicy=policy), claim("c")).delete(CLAIM, "c", "default")
    assert own.volumes() == {"v": ("Released", "c!")}
    # A claim of the same name is another one.
    assert own.apply(claim("c")).claim()["status"]["phase"] == "Pending"
    assert own.volumes() == {"v": ("Released", "c!")}


def test_who_is_in_use_stays() -> None:
    """A claim as long as a pod that is not over uses it, a volume as long as it is bound."""
    held, kept = claim("c"), volume("v")
    held["metadata"]["finalizers"] = [CLAIM_FINALIZER, "x/own"]
    kept["metadata"]["finalizers"] = [VOLUME_FINALIZER]
    world = World(held, kept, pod("p", "c"))
    world.delete(CLAIM, "c", "default")
    assert world.claim()["metadata"]["finalizers"] == [CLAIM_FINALIZER, "x/own"]
    world.delete(VOLUME, "v")
    assert world.volume("v")["metadata"]["finalizers"] == [VOLUME_FINALIZER]
    world.twin.store.set_status(Key("Pod", "default", "p"), {"phase": "Succeeded"})
    world.apply()
    assert world.claim()["metadata"]["finalizers"] == ["x/own"]
    assert world.volume("v")["metadata"]["finalizers"] == [VOLUME_FINALIZER]
    world.twin.store.set_finalizers(Key(CLAIM, "default", "c"), [])
    world.apply()
    assert world.twin.store.get(Key(CLAIM, "default", "c")) is None and world.volumes() == {}


def test_a_claim_whose_volume_is_gone_is_lost_once() -> None:
    world = World(volume("v"), claim("c"))
    world.delete(VOLUME, "v")
    assert world.claim()["status"]["phase"] == "Lost"
    world.apply(volume("w"))
    assert world.said() == [
        ("Warning", "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!", 1)
    ]
    assert world.claim()["spec"]["volumeName"] == "v"


def ephemeral(name: str = "p", **meta: Any) -> Obj:
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"n": "m"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    made = pod(name)
    made["metadata"] |= meta
    made["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    return made


def test_the_claim_of_an_ephemeral_volume() -> None:
    world = World(ephemeral())
    got = world.claim("p-scratch")
    owner = world.twin.store.require(Key("Pod", "default", "p"))["metadata"]
    assert (got["metadata"]["labels"], got["metadata"]["annotations"]["n"]) == ({"a": "b"}, "m")
    assert got["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": owner["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert got["spec"]["resources"] == {"requests": {"storage": "1Gi"}}
    # None of a pod that goes; one that is there is nobody's to change.
    for one, count in ((leaving(ephemeral()), 0), (ephemeral(), 1)):
        store = Store()
        store.load({**one, "metadata": {**one["metadata"], "uid": "u"}})
        Twin(latency=NONE, components=[VolumeBinder()], store=store).run_for(SECOND_US)
        assert store.count(CLAIM) == count
    there = World(claim("p-scratch", "7Gi"), ephemeral()).claim("p-scratch")
    assert there["spec"]["resources"]["requests"] == {"storage": "7Gi"}
    assert not there["metadata"].get("ownerReferences")
