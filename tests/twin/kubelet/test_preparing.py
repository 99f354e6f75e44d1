"""What keeps a pod's claims from being prepared, in the kubelet's words: pods that come bound, without a scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from kubeletworld import World, container, pod

from fairway.kube.objects import Key, Obj

V1 = "resource.k8s.io/v1"
REASON = "FailedPrepareDynamicResources"
FAILED = "Failed to prepare dynamic resources: prepare dynamic resources: "
CLAIM = "ResourceClaim.resource.k8s.io"


def claim(name: str = "c", **meta: Any) -> Obj:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    meta = {"name": name, "namespace": "default", **meta}
    return {"apiVersion": V1, "kind": "ResourceClaim", "metadata": meta, "spec": spec}


def using(*entries: Obj) -> Obj:
    return pod("p", container("main", "sleep 60"), resourceClaims=list(entries))


def words(world: World) -> list[tuple[str, int]]:
    told = world.twin.host.events.about(Key("Pod", "default", "p"))
    return [(e.message, e.times) for e in told if e.reason == REASON]


def reserve(world: World, uid: str = "") -> None:
    uid = uid or world.need()["metadata"]["uid"]
    users = [{"resource": "pods", "name": "p", "uid": uid}]
    world.twin.store.set_status(Key(CLAIM, "default", "c"), {"reservedFor": users})
    world.twin.wake()


NAMED, MADE = {"name": "e", "resourceClaimName": "c"}, {"name": "e", "resourceClaimTemplateName": "t"}


def test_a_claim_that_is_not_there() -> None:
    world = World(using(NAMED)).at(1)
    assert world.seen() == "Pending 0/1 main=wait:ContainerCreating"
    assert words(world) == [
        (f'{FAILED}fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found', 1)
    ]


def test_a_claim_of_somebody_else_until_it_is_reserved() -> None:
    world = World(claim(), using(NAMED)).at(9.9)
    uid, its = (
        o["metadata"]["uid"] for o in (world.need(), world.twin.store.require(Key(CLAIM, "default", "c")))
    )
    said = f"{FAILED}pod p ({uid}) is not allowed to use ResourceClaim c ({its})"
    assert words(world) == [(said, 1)]
    world.at(10)
    assert words(world) == [(said, 2)], "with the next sync of the pod"
    reserve(world, "another")
    world.at(20)
    assert words(world) == [(said, 3)]
    reserve(world)
    assert world.at(29.9).seen() == "Pending 0/1 main=wait:ContainerCreating"
    assert world.at(30).seen() == "Running 1/1 main=run"
    assert words(world) == [(said, 3)]
    assert world.kubelet.preparing == {}


def test_a_claim_of_a_template_that_nobody_has_made() -> None:
    world = World(using(MADE)).at(1)
    assert words(world) == [(f'{FAILED}pod "default/p": claim e not created yet', 1)]
    statuses = [{"name": "e", "resourceClaimName": "c"}]
    status = world.need()["status"]
    world.twin.store.set_status(Key("Pod", "default", "p"), {**status, "resourceClaimStatuses": statuses})
    world.twin.apply([claim()])
    reserve(world)
    world.at(11)
    not_its = "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)"
    assert words(world)[1:] == [(f"{FAILED}{not_its}", 1)]


@pytest.mark.parametrize("is_owner", [True, False])
def test_a_claim_of_a_template_has_to_be_its_own(is_owner: bool) -> None:
    one = using(MADE)
    del one["spec"]["nodeName"]
    world = World(one)
    uid = world.need()["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid if is_owner else "other"}
    world.twin.apply([claim(ownerReferences=[{**owner, "controller": True}])])
    reserve(world)
    key = Key("Pod", "default", "p")
    statuses = [{"name": "e", "resourceClaimName": "c"}]
    world.twin.store.set_status(key, {"phase": "Pending", "resourceClaimStatuses": statuses})
    world.twin.store.patch(key, {"spec": {"nodeName": "n"}})
    world.twin.wake()
    assert world.at(1).seen().startswith("Running" if is_owner else "Pending")


def test_no_claim_is_needed_where_its_name_is_none() -> None:
    """A template of a device that its node does not need."""
    world = World()
    one = using(MADE)
    world.twin.store.create(one)
    world.twin.store.set_status(
        Key("Pod", "default", "p"), {"resourceClaimStatuses": [{"name": "e", "resourceClaimName": None}]}
    )
    world.twin.wake()
    assert world.at(1).seen() == "Running 1/1 main=run"


def test_one_that_waits_and_goes_is_forgotten() -> None:
    world = World(using(NAMED)).at(1)
    world.delete()
    world.at(2)
    assert world.seen() == "gone"
    world.at(60)
    assert world.kubelet.preparing == {} and [n for _, n in words(world)] == [1]


CHANNEL = "compute-domain.nvidia.com"
CONFIG = "error applying config: error asserting ComputeDomain's namespace: "


def domain_claim(world: World, uid: str) -> str:
    """A claim of a channel of a domain, reserved for the pod; what is said where it cannot be prepared."""
    claims = Key(CLAIM, "default", "c")
    parameters = {"kind": "ComputeDomainChannelConfig", "domainID": uid}
    config = [{"opaque": {"driver": CHANNEL, "parameters": parameters}}]
    results = [{"request": "r", "driver": CHANNEL, "pool": "n", "device": "channel-0"}]
    users = [{"resource": "pods", "name": "p", "uid": world.need()["metadata"]["uid"]}]
    allocation = {"devices": {"results": results, "config": config}}
    world.twin.store.set_status(claims, {"reservedFor": users, "allocation": allocation})
    world.twin.store.patch(Key("Pod", "default", "p"), {"spec": {"nodeName": "n"}})
    world.twin.wake()
    its = world.twin.store.require(claims)["metadata"]["uid"]
    failed = f"error preparing devices for claim 'default/c:{its}': prepare devices failed: "
    return f"{FAILED}NodePrepareResources failed for ResourceClaim c: {failed}"


def unbound() -> World:
    one = using(NAMED)
    del one["spec"]["nodeName"]
    return World(claim(), one)


def domain(namespace: str = "default") -> Obj:
    spec = {"numNodes": 1, "channel": {"resourceClaimTemplate": {"name": "t"}}}
    meta = {"name": "d", "namespace": namespace}
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": meta,
        "spec": spec,
    }


def test_a_domain_that_is_not_there_or_elsewhere() -> None:
    world = unbound()
    said = domain_claim(world, "d")
    world.at(10)
    assert words(world) == [(f"{said}{CONFIG}ComputeDomain not found: d", 2)]
    world = unbound()
    of_node = world.node()["metadata"]["uid"]
    said = domain_claim(world, of_node)
    assert words(world.at(1)) == [(f"{said}{CONFIG}ComputeDomain not found: {of_node}", 1)]
    world = unbound()
    world.twin.apply([domain("other")])
    (there,) = world.twin.store.objects("ComputeDomain.resource.nvidia.com")
    said = domain_claim(world, there["metadata"]["uid"])
    other = "the ResourceClaim's namespace is different than the ComputeDomain's namespace"
    assert words(world.at(1)) == [(f"{said}{CONFIG}{other}", 1)]
    assert LABEL not in world.node()["metadata"]["labels"]


LABEL = "resource.nvidia.com/computeDomain"


def test_a_domain_is_waited_for_and_its_driver_gives_up_after_45_seconds() -> None:
    """What may pass is said when the driver gives up; the kubelet comes back ten seconds later."""
    world = unbound()
    world.twin.apply([domain()])
    key = Key("ComputeDomain.resource.nvidia.com", "default", "d")
    uid = world.twin.store.require(key)["metadata"]["uid"]
    domain_claim(world, uid)
    assert world.at(44.9).node()["metadata"]["labels"][LABEL] == uid
    assert words(world) == []
    gave_up = (
        "Failed to prepare dynamic resources: prepare dynamic resources: "
        "NodePrepareResources skipped 1 ResourceClaims"
    )
    assert words(world.at(45)) == [(gave_up, 1)]
    assert words(world.at(99.9)) == [(gave_up, 1)]
    assert words(world.at(100)) == [(gave_up, 2)]
    # Begun at 110 s anew; its driver tries after 0.25, 0.75, 1.75, 3.75, 6.75 s.
    world.at(112)
    ready = {"status": "Ready", "nodes": [{"name": "n", "status": "Ready"}]}
    world.twin.store.set_status(key, ready)
    world.twin.wake()
    assert world.at(113.7).seen() == "Pending 0/1 main=wait:ContainerCreating"
    assert world.at(113.75).seen() == "Running 1/1 main=run"


@pytest.mark.parametrize(
    ("ready_s", "tried_s"), [(0.1, 0.25), (0.3, 0.75), (1.5, 1.75), (9.8, 12.75), (11, 12.75), (12.8, 15.75)]
)
def test_a_domain_that_is_ready_is_noticed_at_its_drivers_next_try(ready_s: float, tried_s: float) -> None:
    world = unbound()
    world.twin.apply([domain()])
    key = Key("ComputeDomain.resource.nvidia.com", "default", "d")
    domain_claim(world, world.twin.store.require(key)["metadata"]["uid"])
    world.at(ready_s)
    world.twin.store.set_status(key, {"status": "Ready", "nodes": [{"name": "n", "status": "Ready"}]})
    world.twin.wake()
    assert world.at(tried_s - 0.01).seen() == "Pending 0/1 main=wait:ContainerCreating"
    assert world.at(tried_s).seen() == "Running 1/1 main=run" and words(world) == []
    assert world.at(50).kubelet.preparing == {} and words(world) == []


def test_a_node_of_another_domain_is_waited_for_and_keeps_its_label() -> None:
    world = unbound()
    world.twin.apply([domain()])
    world.twin.store.patch(Key("Node", "", "n"), {"metadata": {"labels": {LABEL: "other"}}})
    key = Key("ComputeDomain.resource.nvidia.com", "default", "d")
    domain_claim(world, world.twin.store.require(key)["metadata"]["uid"])
    world.twin.store.set_status(key, {"status": "Ready", "nodes": [{"name": "n", "status": "Ready"}]})
    world.twin.wake()
    assert world.at(44).seen() == "Pending 0/1 main=wait:ContainerCreating"
    assert (words(world), world.node()["metadata"]["labels"][LABEL]) == ([], "other")


def test_what_could_not_pass_may_pass_later() -> None:
    """Reserved after five seconds: the driver, which is asked at the next sync, waits until its 45 seconds are over."""
    world = unbound()
    world.twin.apply([domain()])
    key = Key("ComputeDomain.resource.nvidia.com", "default", "d")
    domain_claim(world, world.twin.store.require(key)["metadata"]["uid"])
    claims = Key(CLAIM, "default", "c")
    mine = world.twin.store.require(claims)["status"]
    nobody = {**mine, "reservedFor": [{"resource": "pods", "name": "q", "uid": "q"}]}
    world.twin.store.set_status(claims, nobody)
    world.twin.wake()
    (said,) = words(world.at(5))
    assert said[0].startswith(f"{FAILED}pod p (") and said[1] == 1
    world.twin.store.set_status(claims, mine)
    world.twin.wake()
    assert words(world.at(44.9)) == [said]
    gave_up = f"{FAILED}NodePrepareResources skipped 1 ResourceClaims"
    assert words(world.at(45)) == [said, (gave_up, 1)]
