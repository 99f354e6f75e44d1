"""ResourceClaims: made of templates, reserved, given back, cleaned up."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fairway.cluster.actions import Delete, Emit, Patch, SetStatus, perform
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.resourceclaims import CLAIM, FINALIZER
from fairway.kube.timestamps import parse_rfc3339
from fairway.workloads.resourceclaims import CLAIMS, PODS, affected

V1 = "resource.k8s.io/v1"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
POD = Key("Pod", "default", "p")
MINE = Key(CLAIM, "default", "mine")


class World:
    """A store and the two controllers, which look until they have nothing more to do."""

    def __init__(self, *objects: Obj) -> None:
        self.store = Store(seed=1, now_us=parse_rfc3339("2026-01-05T08:00:00Z"))
        self.events: list[Emit] = []
        self._seen = 0
        for obj in objects:
            self.store.create(obj)
        self.settle()

    def settle(self) -> None:
        while self._seen < self.store.version:
            self._seen += 1
            change = self.store.log.at(self._seen)
            for controller, key in affected(self.store, change):
                for action in controller.reconcile(self.store, key, self.store.now_us).actions:
                    if isinstance(action, Emit):
                        self.events.append(action)
                    else:
                        perform(self.store, action)

    def create(self, obj: Obj) -> None:
        self.store.create(obj)
        self.settle()

    def status(self, key: Key, **fields: Any) -> None:
        self.store.set_status(key, {**(self.store.require(key).get("status") or {}), **fields})
        self.settle()

    def delete(self, key: Key) -> None:
        self.store.delete(key, grace_s=0)
        self.settle()

    def claims(self) -> list[Obj]:
        return self.store.objects(CLAIM)

    def allocate(self, key: Key, *pods: str) -> None:
        """As kube-scheduler does for these pods."""
        self.store.set_finalizers(key, [FINALIZER])
        self.status(key, allocation={"devices": {}}, reservedFor=[self.user(p) for p in pods])

    def user(self, pod: str) -> Obj:
        uid = self.store.require(Key("Pod", "default", pod))["metadata"]["uid"]
        return {"resource": "pods", "name": pod, "uid": uid}


def pod(name: str = "p", **entry: Any) -> Obj:
    """A pod with one claim, of the template `one` unless told."""
    claims = [{"name": "gpu", **(entry or {"resourceClaimTemplateName": "one"})}]
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": claims}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def template() -> Obj:
    inner = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}, "spec": SPEC}
    meta = {"name": "one", "namespace": "default"}
    return {"apiVersion": V1, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": inner}


def claim(name: str = "mine") -> Obj:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": V1, "kind": "ResourceClaim", "metadata": meta, "spec": SPEC}


def key_of(made: Obj) -> Key:
    return Key(CLAIM, "default", made["metadata"]["name"])


def test_a_template_becomes_a_claim_of_the_pod() -> None:
    world = World(template(), pod())
    (made,) = world.claims()
    meta, owner = made["metadata"], world.store.require(POD)["metadata"]
    assert meta["name"].startswith("p-gpu-") and meta["generateName"] == "p-gpu-"
    assert made["spec"] == SPEC
    assert meta["labels"] == {"team": "a"}
    assert meta["annotations"] == {"note": "x", "resource.kubernetes.io/pod-claim-name": "gpu"}
    assert [(o["kind"], o["uid"], o["controller"]) for o in meta["ownerReferences"]] == [
        ("Pod", owner["uid"], True)
    ]
    said = world.store.require(POD)["status"]["resourceClaimStatuses"]
    assert said == [{"name": "gpu", "resourceClaimName": meta["name"]}]


def test_a_template_that_comes_late_is_told_and_made_up_for() -> None:
    world = World(pod())
    assert [e.reason for e in world.events] == ["FailedResourceClaimCreation"]
    assert 'resource claim template "one"' in world.events[0].message
    world.create(template())
    assert len(world.claims()) == 1


def test_a_claim_that_its_user_has_to_make_keeps_those_behind_it_from_being_made() -> None:
    """Source: podNeedsWork: the first that is missing, and that no template makes, ends the look."""
    late = pod()
    late["spec"]["resourceClaims"].insert(0, {"name": "own", "resourceClaimName": "mine"})
    world = World(template(), late)
    assert world.claims() == []
    world.create(claim())
    assert [c["metadata"]["name"][:6] for c in world.claims()] == ["mine", "p-gpu-"]
    first = pod()
    first["spec"]["resourceClaims"].append({"name": "own", "resourceClaimName": "mine"})
    assert [c["metadata"]["name"][:6] for c in World(template(), first).claims()] == ["p-gpu-"]


def test_a_claim_that_was_deleted_is_made_again() -> None:
    world = World(template(), pod())
    (first,) = world.claims()
    world.delete(key_of(first))
    (second,) = world.claims()
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    said = world.store.require(POD)["status"]["resourceClaimStatuses"]
    assert said == [{"name": "gpu", "resourceClaimName": second["metadata"]["name"]}]


def test_names_are_cut_to_63_characters() -> None:
    world = World(template(), pod("p" * 200))
    assert len(world.claims()[0]["metadata"]["name"]) <= 63


def test_a_pod_bound_by_hand_reserves_what_is_allocated() -> None:
    world = World(claim(), pod(resourceClaimName="mine"), pod("q", resourceClaimName="mine"))
    world.store.bind(POD, "n", {"phase": "Running"})
    world.allocate(MINE)
    assert world.store.require(MINE)["status"]["reservedFor"] == [world.user("p")]


@pytest.mark.parametrize("ends", ["deleted", "Succeeded", "Failed"])
def test_with_its_last_pod_a_claim_loses_its_devices(ends: str) -> None:
    world = World(claim(), pod(resourceClaimName="mine"), pod("q", resourceClaimName="mine"))
    world.allocate(MINE, "p", "q")
    for name in ("p", "q"):
        assert "allocation" in world.store.require(MINE)["status"]
        key = Key("Pod", "default", name)
        world.delete(key) if ends == "deleted" else world.status(key, phase=ends)
    left = world.store.require(MINE)
    assert not {"allocation", "reservedFor"} & left.get("status", {}).keys()
    assert not left["metadata"].get("finalizers")


def test_a_claim_made_for_a_pod_goes_when_the_pod_is_done() -> None:
    world = World(template(), pod())
    (made,) = world.claims()
    world.allocate(key_of(made), "p")
    world.status(POD, phase="Succeeded")
    assert world.claims() == []


def test_a_claim_being_deleted_stays_until_its_pods_are_gone() -> None:
    world = World(claim(), pod(resourceClaimName="mine"))
    world.allocate(MINE, "p")
    world.delete(MINE)
    assert "deletionTimestamp" in world.store.require(MINE)["metadata"]
    world.delete(POD)
    assert world.store.get(MINE) is None


def test_another_pod_of_the_same_name_does_not_hold_a_claim() -> None:
    world = World(claim(), pod(resourceClaimName="mine"))
    world.allocate(MINE, "p")
    world.store.delete(POD, grace_s=0)
    world.create(pod(resourceClaimName="mine"))
    assert "allocation" not in world.store.require(MINE).get("status", {})


def test_who_is_no_pod_is_left_alone() -> None:
    world = World(claim())
    world.store.set_finalizers(MINE, [FINALIZER])
    other = {"apiGroup": "example.com", "resource": "trains", "name": "t", "uid": "1"}
    world.status(MINE, allocation={"devices": {}}, reservedFor=[other])
    assert world.store.require(MINE)["status"]["reservedFor"] == [other]


def _held(claim: Obj, pod: Obj | None) -> Store:
    """One claim and one pod, as they are."""
    store = Store(seed=1)
    store.load({"apiVersion": V1, "kind": "ResourceClaim", **claim})
    if pod is not None:
        meta = {"name": "p", "namespace": "default", **pod["metadata"]}
        store.load({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": meta})
    return store


_PODS: dict[str, Obj | None] = {
    "lives": {"metadata": {"uid": "u"}, "spec": {}, "status": {"phase": "Running"}},
    "is done": {"metadata": {"uid": "u"}, "spec": {}, "status": {"phase": "Succeeded"}},
    "is another": {"metadata": {"uid": "v"}, "spec": {}, "status": {"phase": "Running"}},
    "is gone": None,
}


@pytest.mark.parametrize("pod", _PODS)
def test_what_becomes_of_a_claim_in_every_state(pod: str) -> None:
    """Source: pkg/controller/resourceclaim/controller.go, syncClaim."""
    user = {"resource": "pods", "name": "p", "uid": "u"}
    other = {"apiGroup": "x.io", "resource": "things", "name": "t", "uid": "t"}
    for is_guarded, is_going, is_allocated, is_made_for_it, users in product(
        *[(False, True)] * 4, ([], [user], [other], [other, user])
    ):
        meta: Obj = {"name": "mine", "namespace": "default", "uid": "c", "finalizers": ["a.b/c"]}
        if is_guarded:
            meta["finalizers"] = ["a.b/c", FINALIZER]
        if is_going:
            meta["deletionTimestamp"] = "2026-01-05T08:00:00Z"
        if is_made_for_it:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
            meta["ownerReferences"] = [owner]
        status: Obj = {"allocation": {"devices": {}}, "devices": [{}]} if is_allocated else {}
        if users:
            status["reservedFor"] = users
        held = _held({"metadata": meta, "spec": {}, "status": status}, _PODS[pod])
        found = CLAIMS.reconcile(held, MINE, 0)
        kept = [u for u in users if u is other or pod == "lives"]
        want: list[Any] = []
        left = {} if is_guarded and not kept else {k: v for k, v in status.items() if k != "reservedFor"}
        if kept:
            left["reservedFor"] = kept
        unguarded = Patch(MINE, {"metadata": {"finalizers": ["a.b/c"]}})
        if len(kept) < len(users):
            want.append(SetStatus(MINE, left))
            if is_guarded and not left.get("allocation"):
                want.append(unguarded)
        elif is_guarded and is_going and not kept:
            want += [SetStatus(MINE, left), unguarded] if is_allocated else [unguarded]
        if not kept and not is_going and is_made_for_it and pod in ("is done", "is another"):
            want.append(Delete(MINE, "c"))
        assert list(found.actions) == want, (is_guarded, is_going, is_allocated, is_made_for_it, users)


def test_a_refused_claim_is_told_once_for_the_first_entry_without_one() -> None:
    refused = PODS.refused
    assert refused is not None

    def told(world: World, key: Key = POD) -> list[tuple[str, str]]:
        look = refused(world.store, key, world.store.now_us, "no")
        assert look.again_at_us is None
        return [(a.reason, a.message) for a in look.actions if isinstance(a, Emit)]

    words = "PodResourceClaim {}: create ResourceClaim : no"
    waiting = World(pod())
    assert told(waiting) == [("FailedResourceClaimCreation", words.format("gpu"))]
    assert told(waiting, POD._replace(name="gone")) == []
    assert told(World(claim(), pod(resourceClaimName="mine"))) == [], (
        "a claim that is named is nobody's to make"
    )
    made = World(template(), pod())
    assert told(made) == []
    made.store.set_status(POD, {"phase": "Pending"})
    assert told(made) == [], "made, and not yet written down"
    both = pod()
    both["spec"]["resourceClaims"].append({"name": "nic", "resourceClaimTemplateName": "late"})
    half = World(template(), both)
    assert told(half) == [("FailedResourceClaimCreation", words.format("nic"))]


def test_of_those_who_use_a_claim_only_pods_with_work_look_again() -> None:
    meta = {"name": "mine", "namespace": "default"}
    mine = {"apiVersion": V1, "kind": "ResourceClaim", "metadata": meta, "spec": SPEC}
    world = World(mine, pod("waits", resourceClaimName="mine"))
    bound = pod("bound", resourceClaimName="mine")
    bound["spec"]["nodeName"] = "n1"
    world.create(bound)
    store = world.store
    claim = store.set_status(MINE, {"allocation": {"devices": {}}})
    change = store.log.at(store.version)
    assert change.obj == claim
    assert [(controller, key.name) for controller, key in affected(store, change)] == [
        (PODS, "bound"),
        (CLAIMS, "mine"),
    ]
    two = [{"name": "a", "resourceClaimName": "mine"}, {"name": "b", "resourceClaimName": "other"}]
    for name in ("other", "late"):
        store.create({**mine, "metadata": {**meta, "name": name}})
    store.set_status(MINE._replace(name="other"), {"allocation": {"devices": {}}})
    late = pod("late")
    late["spec"] |= {"nodeName": "n1", "resourceClaims": [{**two[0], "resourceClaimName": "late"}, two[1]]}
    made = store.create(late)
    claim = store.require(MINE._replace(name="late"))
    for type_, looks in ((ADDED, [(PODS, "late")]), (MODIFIED, [])):
        found = affected(store, Change(1, type_, MINE._replace(name="late"), claim, None))
        assert [(c, key.name) for c, key in found if c is PODS] == looks
    for type_, looks in ((MODIFIED, [(PODS, "late")]), (DELETED, [])):
        found = affected(store, Change(1, type_, Key("Pod", "default", "late"), made, made))
        assert [(c, key.name) for c, key in found if c is PODS] == looks
