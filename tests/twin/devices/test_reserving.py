"""What the scheduler writes for a pod with claims: the whole of it, in every way a pod comes to its devices."""

from __future__ import annotations

import pytest
from test_devices_in_a_twin import (
    CLAIM,
    SLICE,
    SLOW,
    V1,
    a_twin,
    at,
    claims,
    device,
    device_class,
    devices_of,
    node,
    pod,
    slice_of,
    slow_twin,
    tell,
    template,
    why,
)

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.twin.latency import NONE
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin


def uid(twin: Twin, name: str) -> str:
    return str(twin.store.require(Key("Pod", "default", name))["metadata"]["uid"])


def user(twin: Twin, name: str) -> Obj:
    return {"resource": "pods", "name": name, "uid": uid(twin, name)}


def allocation(name: str, node_name: str, request: str = "gpu", **more: object) -> Obj:
    here = [{"key": "metadata.name", "operator": "In", "values": [node_name]}]
    result = {"request": request, "driver": "gpu.example.com", "pool": node_name, "device": name, **more}
    return {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": here}]},
        "allocationTimestamp": "2026-01-05T00:00:00Z",
    }


def named(name: str, claim: str, **spec: object) -> Obj:
    return pod(name, **spec, resourceClaims=[{"name": "gpu", "resourceClaimName": claim}])


def claim_of(name: str, **exactly: object) -> Obj:
    spec = template(**exactly)["spec"]["spec"]
    return {
        "apiVersion": V1,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def said(twin: Twin, name: str) -> list[tuple[str, str, str]]:
    return [(e.type, e.reason, e.message) for e in twin.host.events.about(Key("Pod", "default", name))]


def test_a_claim_is_allocated_and_reserved_at_once() -> None:
    twin = a_twin(node("n"), slice_of("n", device("d0")), device_class(), template(), pod("p"))
    (claim,) = claims(twin)
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert claim["status"] == {"allocation": allocation("d0", "n"), "reservedFor": [user(twin, "p")]}
    assert said(twin, "p")[0] == ("Normal", "Scheduled", "Successfully assigned default/p to n")
    assert "extendedResourceClaimStatus" not in twin.store.require(Key("Pod", "default", "p"))["status"]


def test_a_claim_of_two_pods_is_reserved_for_both_and_allocated_once() -> None:
    twin = a_twin(node("n"), node("o"), slice_of("n", device("d0")), device_class(), claim_of("mine"))
    twin.store.set_finalizers(Key(CLAIM, "default", "mine"), ["example.com/own"])
    twin.apply([named("p", "mine")])
    twin.run_for(MINUTE_US)
    twin.apply([named("q", "mine")])
    twin.run_for(MINUTE_US)
    assert (at(twin, "p"), at(twin, "q")) == ("n", "n")
    (claim,) = claims(twin)
    assert claim["metadata"]["finalizers"] == ["example.com/own", "resource.kubernetes.io/delete-protection"]
    want = {**allocation("d0", "n"), "allocationTimestamp": "2026-01-05T00:01:00Z"}
    assert claim["status"] == {"allocation": want, "reservedFor": [user(twin, "p"), user(twin, "q")]}


def test_a_claim_is_made_for_an_extended_resource() -> None:
    wants = pod("p")
    del wants["spec"]["resourceClaims"]
    amounts = {"example.com/gpu": "1"}
    wants["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    of_class = device_class(extendedResourceName="example.com/gpu")
    twin = a_twin(node("n"), slice_of("n", device("d")), of_class, wants)
    (claim,) = claims(twin)
    meta = claim["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid(twin, "p"), "controller": True}
    assert (claim["apiVersion"], meta["namespace"], meta["generateName"]) == (
        V1,
        "default",
        "p-extended-resources-",
    )
    assert (meta["ownerReferences"], meta["annotations"]) == (
        [owner],
        {"resource.kubernetes.io/extended-resource-claim": "true"},
    )
    request = "container-0-request-0"
    assert claim["status"] == {
        "allocation": allocation("d", "n", request),
        "reservedFor": [user(twin, "p")],
    }
    mapping = {"containerName": "c", "requestName": request, "resourceName": "example.com/gpu"}
    status = twin.store.require(Key("Pod", "default", "p"))["status"]
    assert status["extendedResourceClaimStatus"] == {
        "requestMappings": [mapping],
        "resourceClaimName": meta["name"],
    }


def test_what_is_said_while_a_device_is_made_ready() -> None:
    twin = slow_twin()
    pending = ("Normal", "BindingConditionsPending", "waiting for binding conditions for device on node a")
    assert said(twin, "p") == [pending]
    status = twin.store.require(Key("Pod", "default", "p"))["status"]
    assert status["nominatedNodeName"] == "a"
    twin.run_for(2 * SECOND_US)
    tell(twin, "ready")
    # Looked at every five seconds: next at 65 s.
    twin.run_for(2 * SECOND_US)
    assert at(twin, "p") == ""
    twin.run_for(SECOND_US)
    assert at(twin, "p") == "a"
    assert said(twin, "p")[1] == ("Normal", "Scheduled", "Successfully assigned default/p to a")
    assert "nominatedNodeName" not in twin.store.require(Key("Pod", "default", "p"))["status"]


def test_a_copy_waits_for_a_device_by_itself() -> None:
    twin = slow_twin()
    copy = twin.fork()
    tell(twin, "ready")
    tell(copy, "broken")
    for one in (twin, copy):
        one.run_for(MINUTE_US)
    assert (at(twin, "p"), at(copy, "p")) == ("a", "")


def test_pods_that_wait_for_a_claim_come_in_their_order() -> None:
    twin = a_twin(
        node("n"), slice_of("n", device("d0")), device_class(), named("z", "late"), named("a", "late")
    )
    assert (said(twin, "z"), said(twin, "a")) == ([], []), "not tried: what they need is not there"
    twin.apply([claim_of("late")])
    twin.run_for(MINUTE_US)
    (claim,) = claims(twin)
    assert [one["name"] for one in claim["status"]["reservedFor"]] == ["z", "a"]


@pytest.mark.parametrize("is_mine", [True, False])
def test_a_pod_waits_until_the_claim_that_was_made_is_its_own(is_mine: bool) -> None:
    """It is there under the name in the pod's status, and somebody else's until its owner is another."""
    twin = a_twin(node("n"), slice_of("n", device("d0")), device_class(), template(), claim_of("made"))
    one = pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "never"}])
    twin.apply([one])
    known = Key("Pod", "default", "p")
    twin.store.set_status(known, {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]})
    twin.run_for(MINUTE_US)
    assert at(twin, "p") == ""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid(twin, "p"), "controller": True}
    change = {"ownerReferences": [owner]} if is_mine else {"labels": {"a": "b"}}
    twin.store.patch(Key(CLAIM, "default", "made"), {"metadata": change})
    twin.run_for(MINUTE_US)
    assert at(twin, "p") == ("n" if is_mine else "")


def test_a_copy_knows_of_devices_whose_claims_nobody_has_made() -> None:
    wants = pod("p")
    del wants["spec"]["resourceClaims"]
    amounts = {"example.com/gpu": "1"}
    wants["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    of_class = device_class(extendedResourceName="example.com/gpu")
    twin = a_twin(slice_of("n", device("d")), of_class, wants)
    copy = twin.fork()
    for one in (twin, copy):
        one.apply([node("n")])
        one.run_for(MINUTE_US)
        assert at(one, "p") == "n" and len(claims(one)) == 1


def test_a_pod_is_given_up_with_the_first_of_its_devices_that_fails() -> None:
    """Though another is not ready yet; and it waits for each of them."""
    both = [{"name": n, "resourceClaimTemplateName": "one"} for n in ("x", "y")]
    wants = pod("p", resourceClaims=both)
    wants["spec"]["containers"][0]["resources"] = {"claims": [{"name": "x"}, {"name": "y"}]}
    devices = slice_of("n", *(device(name, **SLOW) for name in ("d0", "d1")))
    twin = a_twin(node("n"), devices, device_class(), template(), wants)

    def say(twin: Twin, entry: str, kind: str) -> None:
        claim = next(c for c in claims(twin) if c["metadata"]["name"].startswith(f"p-{entry}-"))
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        condition = {"type": kind, "status": "True", "reason": "Why", "message": "so"}
        said_of = {k: result[k] for k in ("driver", "pool", "device")} | {"conditions": [condition]}
        name = Key(CLAIM, "default", claim["metadata"]["name"])
        twin.store.set_status(name, {**claim["status"], "devices": [said_of]})
        twin.wake()
        twin.run_for(10 * SECOND_US)

    assert [len(c["status"]["reservedFor"]) for c in claims(twin)] == [1, 1]
    for entry, other in (("x", "y"), ("y", "x")):
        failing, ready = twin.fork(), twin.fork()
        say(failing, entry, "broken")
        refused = [m for _, _, m in said(failing, "p") if "device binding failed" in m]
        assert len(refused) == (1 if entry == "x" else 0), "in the order in which the pod names them"
        say(ready, entry, "ready")
        assert at(ready, "p") == ""
        say(ready, other, "ready")
        assert at(ready, "p") == "n"


def test_what_was_asked_for_before_there_was_a_scheduler_is_known_to_it() -> None:
    """Of the kinds of devices one is enough to know of them."""
    before = slow_twin(device_class(), slice_of("n", device("d0")), claim_of("late"))
    for obj in before.store.objects(SLICE):
        before.store.delete(Key(SLICE, "", obj["metadata"]["name"]))
    after = Twin(latency=NONE, components=standard_components(), store=before.store, start_us=before.now_us)
    after.apply([node("n"), slice_of("n", device("d0")), named("p", "late")])
    after.run_for(MINUTE_US)
    assert at(after, "p") == "n"


def test_a_pod_that_goes_while_it_waits_for_its_claim_is_forgotten() -> None:
    twin = a_twin(
        node("n"), slice_of("n", device("d0")), device_class(), named("p", "late"), named("q", "late")
    )
    twin.store.delete(Key("Pod", "default", "p"))
    twin.run_for(SECOND_US)
    twin.apply([claim_of("late")])
    twin.run_for(MINUTE_US)
    (claim,) = claims(twin)
    assert [one["name"] for one in claim["status"]["reservedFor"]] == ["q"]


def test_admin_access_is_refused_until_its_namespace_may() -> None:
    admin = claim_of("admin", adminAccess=True)
    twin = a_twin(node("n"), slice_of("n", device("d0")), device_class(), admin, named("p", "admin"))
    forbidden = (
        'add allocation and reservation to claim default/admin: ResourceClaim.resource.k8s.io "admin" is invalid: '
        "status.allocation.devices.results[0].adminAccess: Forbidden: admin access to devices requires the "
        "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
    )
    assert (at(twin, "p"), why(twin, "p")) == ("", f'running PreBind plugin "DynamicResources": {forbidden}')
    (claim,) = claims(twin)
    assert claim.get("status") in (None, {})
    meta = {"name": "default", "labels": {"resource.kubernetes.io/admin-access": "true"}}
    twin.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": meta}])
    twin.run_for(10 * MINUTE_US)
    assert at(twin, "p") == "n"
    (claim,) = claims(twin)
    assert claim["status"]["allocation"]["devices"]["results"][0]["adminAccess"] is True


def test_a_slice_that_comes_is_what_pods_waited_for() -> None:
    twin = a_twin(node("n"), device_class(), template(), pod("p"))
    assert at(twin, "p") == ""
    twin.apply([slice_of("n", device("d0"))])
    twin.run_for(MINUTE_US)
    assert (at(twin, "p"), devices_of(claims(twin)[0])) == ("n", ["d0"])
    assert len(twin.store.objects(SLICE)) == 1
