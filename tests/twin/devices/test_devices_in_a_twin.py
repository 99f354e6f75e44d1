"""Pods with claims, end to end: templates, devices, what holds pods back, what is given back, taints."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US
from fairway.scheduling.dynamicresources import Binding
from fairway.twin.devices.reserving import overtaken
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

DRIVER = "gpu.example.com"
CLAIM = "ResourceClaim.resource.k8s.io"
SLICE = "ResourceSlice.resource.k8s.io"
V1 = "resource.k8s.io/v1"
PREPARE = "FailedPrepareDynamicResources"


def node(name: str, **allocatable: str) -> Obj:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", **allocatable}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": amounts}}


def slice_of(node_name: str, *devices: Obj, generation: int = 1) -> Obj:
    pool = {"name": node_name, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node_name, "devices": list(devices)}
    return {
        "apiVersion": V1,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-gpus"},
        "spec": spec,
    }


def device(name: str, **extra: Any) -> Obj:
    return {"name": name, "attributes": {"productName": {"string": "H100"}}, **extra}


def device_class(**spec: Any) -> Obj:
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    body = {"selectors": selectors, **spec}
    return {"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": body}


def template(name: str = "one", **exactly: Any) -> Obj:
    asked = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", **exactly}}]}
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": V1,
        "kind": "ResourceClaimTemplate",
        "metadata": meta,
        "spec": {"spec": {"devices": asked}},
    }


def pod(name: str, of: str = "one", **spec: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": of}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "resourceClaims": claims, **spec},
    }


def a_twin(*objects: Obj) -> Twin:
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    twin.apply(list(objects))
    twin.run_for(MINUTE_US)
    return twin


def at(twin: Twin, name: str) -> str:
    found = twin.store.get(Key("Pod", "default", name))
    return "gone" if found is None else found["spec"].get("nodeName", "")


def why(twin: Twin, name: str) -> str:
    conditions = twin.store.require(Key("Pod", "default", name))["status"].get("conditions", ())
    return next((c["message"] for c in conditions if c["type"] == "PodScheduled"), "")


def claims(twin: Twin) -> list[Obj]:
    return list(twin.store.objects(CLAIM))


def devices_of(claim: Obj) -> list[str]:
    return [r["device"] for r in claim["status"]["allocation"]["devices"]["results"]]


def test_a_pod_gets_a_claim_and_the_claim_a_device() -> None:
    twin = a_twin(node("n"), slice_of("n", device("d0"), device("d1")), device_class(), template(), pod("p"))
    assert at(twin, "p") == "n"
    (claim,) = claims(twin)
    assert claim["metadata"]["name"].startswith("p-gpu-")
    assert devices_of(claim) == ["d0"]
    assert [u["name"] for u in claim["status"]["reservedFor"]] == ["p"]
    said = twin.store.require(Key("Pod", "default", "p"))["status"]["resourceClaimStatuses"]
    assert said == [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]


def test_devices_come_back_and_go_to_who_waits() -> None:
    twin = a_twin(node("n"), slice_of("n", device("d0")), device_class(), template(), pod("p"))
    twin.apply([pod("q")])
    twin.run_for(MINUTE_US)
    assert (at(twin, "p"), at(twin, "q")) == ("n", "")
    assert why(twin, "q").startswith(
        "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable"
    )
    twin.store.delete(Key("Pod", "default", "p"), grace_s=0)
    twin.wake()
    twin.run_for(MINUTE_US)
    assert at(twin, "q") == "n"
    assert [devices_of(c) for c in claims(twin)] == [["d0"]]


def test_a_pod_waits_for_its_claim_and_its_class() -> None:
    named = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}
    twin = a_twin(node("n"), slice_of("n", device("d0")), pod("p", **named))
    assert (at(twin, "p"), why(twin, "p")) == ("", "")
    spec = template()["spec"]["spec"]
    meta = {"name": "mine", "namespace": "default"}
    twin.apply([{"apiVersion": V1, "kind": "ResourceClaim", "metadata": meta, "spec": spec}])
    twin.run_for(MINUTE_US)
    assert "device class gpu does not exist" in why(twin, "p")
    twin.apply([device_class()])
    twin.run_for(MINUTE_US)
    assert at(twin, "p") == "n"


def test_a_selector_that_fails_on_a_device_is_told() -> None:
    selector = [{"cel": {"expression": f"device.attributes['{DRIVER}'].memory == 1"}}]
    twin = a_twin(
        node("n"), slice_of("n", device("d0")), device_class(), template(selectors=selector), pod("p")
    )
    assert at(twin, "p") == ""
    assert "no such key: memory" in why(twin, "p")


def test_pods_leave_a_tainted_device_unless_they_tolerate_it() -> None:
    tolerating = template("tough", tolerations=[{"operator": "Exists", "effect": "NoExecute"}])
    both = slice_of("n", device("d0"), device("d1"))
    twin = a_twin(node("n"), both, device_class(), template(), tolerating, pod("p"), pod("q", "tough"))
    assert (at(twin, "p"), at(twin, "q")) == ("n", "n")
    taints = [{"key": "broken", "effect": "NoExecute"}]
    twin.apply([slice_of("n", device("d0", taints=taints), device("d1", taints=taints), generation=2)])
    twin.run_for(MINUTE_US)
    assert (at(twin, "p"), at(twin, "q")) == ("gone", "n")


def test_an_extended_resource_is_given_by_a_class() -> None:
    asks = {"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "2"}}
    plain = {"containers": [{"name": "c", "image": "i", "resources": asks}], "resourceClaims": []}
    backed = device_class(extendedResourceName="example.com/gpu")
    twin = a_twin(node("n"), slice_of("n", device("d0"), device("d1")), backed, pod("p", **plain))
    assert at(twin, "p") == "n"
    (claim,) = claims(twin)
    assert sorted(devices_of(claim)) == ["d0", "d1"]
    status = twin.store.require(Key("Pod", "default", "p"))["status"]["extendedResourceClaimStatus"]
    assert status["resourceClaimName"] == claim["metadata"]["name"]


def test_a_fork_goes_on_by_itself() -> None:
    twin = a_twin(node("n"), slice_of("n", device("d0")), device_class(), template(), pod("p"))
    fork = twin.fork()
    fork.store.delete(Key("Pod", "default", "p"), grace_s=0)
    fork.apply([pod("q")])
    fork.run_for(MINUTE_US)
    assert at(fork, "q") == "n"
    assert at(twin, "p") == "n"


# Devices that have to be made ready before a pod is bound

SLOW = {"bindsToNode": True, "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


def slow_twin(*objects: Obj) -> Twin:
    return a_twin(
        node("a"),
        node("b"),
        slice_of("a", device("d", **SLOW)),
        device_class(),
        template(),
        pod("p"),
        *objects,
    )


def tell(twin: Twin, kind: str, status: str = "True", device_name: str = "d") -> None:
    """The driver's word on the device of the only claim."""
    (claim,) = claims(twin)
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    said = {"type": kind, "status": status, "reason": "Why", "message": "so"}
    device_status = {k: result[k] for k in ("driver", "pool")} | {"device": device_name, "conditions": [said]}
    twin.store.set_status(
        Key(CLAIM, "default", claim["metadata"]["name"]), {**claim["status"], "devices": [device_status]}
    )
    twin.wake()


def test_a_pod_is_bound_once_its_device_is_ready() -> None:
    twin = slow_twin()
    (claim,) = claims(twin)
    assert at(twin, "p") == "" and devices_of(claim) == ["d"]
    assert [u["name"] for u in claim["status"]["reservedFor"]] == ["p"]
    for kind, status, name in (("ready", "False", "d"), ("broken", "False", "d"), ("ready", "True", "other")):
        tell(twin, kind, status, name)
        twin.run_for(MINUTE_US)
        assert at(twin, "p") == "", (kind, status, name)
    tell(twin, "ready")
    twin.run_for(MINUTE_US)
    assert at(twin, "p") == "a"


def tried(twin: Twin) -> list[str]:
    """Messages of the pod's failed attempts, in order, that speak of its binding."""
    return [e.message for e in twin.host.events.told() if "PreBind" in e.message]


def test_a_device_that_breaks_is_let_go_and_tried_again() -> None:
    twin = slow_twin()
    name = claims(twin)[0]["metadata"]["name"]
    tell(twin, "broken")
    twin.run_for(MINUTE_US)
    failed = f'device binding failed: claim={name}, reason=Why, message="so"'
    assert tried(twin) == [f'running PreBind plugin "DynamicResources": {failed}']
    (claim,) = claims(twin)
    assert at(twin, "p") == "" and "devices" not in claim["status"], (
        "what the driver said is gone with the allocation"
    )
    assert devices_of(claim) == ["d"], "and there is no other device"
    tell(twin, "ready")
    twin.run_for(MINUTE_US)
    assert at(twin, "p") == "a"


def test_a_device_that_never_gets_ready_is_late_after_ten_minutes() -> None:
    twin = slow_twin()
    name = claims(twin)[0]["metadata"]["name"]
    twin.run_for(8 * MINUTE_US)
    assert tried(twin) == []
    twin.run_for(2 * MINUTE_US)
    assert tried(twin) == [f'running PreBind plugin "DynamicResources": device binding timeout: claim={name}']


def test_what_a_waiting_pod_holds_is_not_given_away_and_comes_back_with_it() -> None:
    twin = slow_twin(pod("q"))
    assert [at(twin, n) for n in "pq"] == ["", ""]
    held = [c for c in claims(twin) if (c.get("status") or {}).get("reservedFor")]
    assert [c["metadata"]["name"].partition("-")[0] for c in held] == ["p"]
    twin.store.delete(Key("Pod", "default", "p"))
    twin.wake()
    twin.run_for(10 * MINUTE_US)
    (claim,) = claims(twin)
    assert claim["metadata"]["name"].startswith("q-gpu-") and devices_of(claim) == ["d"]
    tell(twin, "ready")
    twin.run_for(MINUTE_US)
    assert at(twin, "q") == "a"


def test_a_pod_whose_node_goes_while_it_waits_is_tried_elsewhere() -> None:
    twin = slow_twin()
    twin.apply([slice_of("b", device("e"))])
    for gone in (Key("Node", "", "a"), Key("ResourceSlice.resource.k8s.io", "", "a-gpus")):
        twin.store.delete(gone)
    twin.wake()
    twin.run_for(20 * MINUTE_US)
    assert at(twin, "p") == "b"
    assert devices_of(claims(twin)[0]) == ["e"]


def test_an_extended_resource_whose_device_breaks_loses_its_claim_at_once() -> None:
    """Unreserve deletes it: the next attempt makes another, and no attempt is spent on taking the old one away."""
    waits = device("d", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    wants = pod("p")
    del wants["spec"]["resourceClaims"]
    wants["spec"]["containers"][0]["resources"] = {
        "requests": {"example.com/gpu": "1"},
        "limits": {"example.com/gpu": "1"},
    }
    twin = a_twin(
        node("a"), slice_of("a", waits), device_class(extendedResourceName="example.com/gpu"), wants
    )
    (first,) = claims(twin)
    tell(twin, "broken")
    twin.run_for(MINUTE_US)
    assert len(tried(twin)) == 1
    assert not [e for e in twin.host.events.told() if "extended resource claim" in e.message]
    (claim,) = claims(twin)
    assert claim["metadata"]["name"] != first["metadata"]["name"] and devices_of(claim) == ["d"]


def test_a_quota_of_claims_is_told_to_the_pod() -> None:
    meta = {"name": "q", "namespace": "default"}
    hard = {"count/resourceclaims.resource.k8s.io": "0"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}
    twin = a_twin(node("a"), slice_of("a", device("d")), device_class(), quota, template())
    twin.apply([pod("p")])
    twin.run_for(MINUTE_US)
    told = {e.message for e in twin.host.events.told() if e.reason == "FailedResourceClaimCreation"}
    assert len(told) == 1
    (message,) = told
    assert message.startswith("PodResourceClaim gpu: create ResourceClaim : resourceclaims.resource.k8s.io ")
    assert "exceeded quota: q" in message


def test_a_pod_bound_without_its_claim_does_not_begin_before_it_is_reserved() -> None:
    """By hand, or by a scheduler that knows no claims: the kubelet asks whether the claim is the pod's."""
    asked = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    meta = {"name": "c", "namespace": "default"}
    claim = {"apiVersion": V1, "kind": "ResourceClaim", "metadata": meta, "spec": asked}
    hand = pod("p", nodeName="a", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
    twin = a_twin(node("a"), hand)
    p = twin.store.require(Key("Pod", "default", "p"))

    def said() -> list[str]:
        told = twin.host.events.told()
        return [e.message.partition("prepare dynamic resources: ")[2] for e in told if e.reason == PREPARE]

    assert p["status"]["phase"] == "Pending"
    assert set(said()) == {
        'prepare dynamic resources: fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'
    }
    twin.apply([claim])
    twin.run_for(MINUTE_US)
    uid = twin.store.require(Key(CLAIM, "default", "c"))["metadata"]["uid"]
    assert said()[-1] == (
        f"prepare dynamic resources: pod p ({p['metadata']['uid']}) is not allowed to use ResourceClaim c ({uid})"
    )
    twin.apply(
        [slice_of("a", device("d")), device_class(), pod("q", resourceClaims=hand["spec"]["resourceClaims"])]
    )
    twin.run_for(MINUTE_US)
    # Another pod of the claim has it allocated: the claim controller reserves it for the one that was bound by hand.
    assert [twin.store.require(Key("Pod", "default", n))["status"]["phase"] for n in "pq"] == [
        "Running",
        "Running",
    ]


@pytest.mark.parametrize(
    ("status", "chosen", "want"),
    [
        (None, True, 'add finalizer to claim default/c: resourceclaims.resource.k8s.io "c" not found'),
        (None, False, 'add reservation to claim default/c: resourceclaims.resource.k8s.io "c" not found'),
        ({}, True, ""),
        ({}, False, "claim default/c got deallocated elsewhere in the meantime"),
        ({"allocation": {}}, True, "claim default/c got allocated elsewhere in the meantime"),
        ({"allocation": {}}, False, ""),
    ],
)
def test_what_overtook_a_choice_is_said(status: Obj | None, chosen: bool, want: str) -> None:
    """Source: bindClaim."""
    key, allocation = Key(CLAIM, "default", "c"), {"devices": {}} if chosen else None
    claim = None if status is None else {"metadata": {"name": "c"}, "status": status}
    assert overtaken(Binding(key, {}, allocation), key, claim) == want
    if claim is not None:
        claim["metadata"]["deletionTimestamp"] = "2026-01-05T00:00:00Z"
        assert (
            overtaken(Binding(key, {}, allocation), key, claim)
            == "claim default/c got deleted in the meantime"
        )
