"""Workloads whose pods claim devices: what they count as, and in which words they are refused."""

from __future__ import annotations

from typing import Any

import pytest
from kueueworld import World, job, local_queue, node, queue

from fairway.kube.objects import Key, Obj, status_of
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.control.settings import KueueSettings
from fairway.queueing.devices.mapping import device_class_mappings
from fairway.queueing.facts.gates import gates_from

DRIVER = "gpu.example.com"
V1 = "resource.k8s.io/v1"
AT = "spec.podSets[0].template.spec.resourceClaims[0]"


def settings(gates: dict[str, bool] | None = None, **mapping: Any) -> KueueSettings:
    raw = [{"name": "example.com/gpus", "deviceClassNames": ["gpu"], **mapping}]
    return KueueSettings(gates=gates_from(gates)[0], device_classes=device_class_mappings(raw))


def device_class(**spec: Any) -> Obj:
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    meta = {"name": "gpu"}
    return {
        "apiVersion": V1,
        "kind": "DeviceClass",
        "metadata": meta,
        "spec": {"selectors": selectors, **spec},
    }


def slice_of(node_name: str, *devices: Obj, **spec: Any) -> Obj:
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    body = {"driver": DRIVER, "pool": pool, "nodeName": node_name, "devices": list(devices), **spec}
    return {"apiVersion": V1, "kind": "ResourceSlice", "metadata": {"name": f"{node_name}-s"}, "spec": body}


def device(name: str, **extra: Any) -> Obj:
    return {"name": name, "attributes": {"model": {"string": "H100"}}, **extra}


def template(request: Obj | None = None, **exactly: Any) -> Obj:
    asked = request or {"exactly": {"deviceClassName": "gpu", **exactly}}
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", **asked}]}}}
    meta = {"name": "two", "namespace": "a"}
    return {"apiVersion": V1, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": spec}


def claiming(name: str, entry: Obj | None = None, pods: int = 1) -> Obj:
    obj = job(name, "a", pods=pods)
    spec = obj["spec"]["template"]["spec"]
    spec["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    spec["resourceClaims"] = [{"name": "gpu", **(entry or {"resourceClaimTemplateName": "two"})}]
    return obj


def a_queue(amount: str, resource: str = "example.com/gpus") -> Obj:
    obj = queue("a", 0)
    (group,) = obj["spec"]["resourceGroups"]
    group["coveredResources"] = [resource]
    group["flavors"][0]["resources"] = [{"name": resource, "nominalQuota": amount}]
    return obj


def a_world(amount: str = "4", configured: KueueSettings | None = None, *devices: Obj) -> World:
    found = devices or tuple(device(f"gpu-{i}") for i in range(4))
    world = World(configured or settings())
    world.apply(node("n1", 0), a_queue(amount), local_queue("a"), device_class(), slice_of("n1", *found))
    return world


def refusal(world: World, name: str) -> str:
    found = world.conditions(name)["QuotaReserved"]
    assert (found["status"], found["reason"]) == ("False", "Misconfigured")
    return str(found["message"])


def usage(world: World, name: str) -> Obj:
    admission = status_of(world.workload(name))["admission"]
    return dict(admission["podSetAssignments"][0]["resourceUsage"])


def test_claims_hold_quota_and_wait_for_it() -> None:
    world = a_world("4").apply(template(count=2)).run(2)
    world.apply(claiming("first", pods=1)).run(5)
    world.apply(claiming("large", pods=2)).run(5)
    assert world.admitted() == ["first"]
    assert usage(world, "first") == {"example.com/gpus": "2"}
    assert world.condition("large", "QuotaReserved") == ("False", "WaitingForQuota")
    world.check_books()
    world.check_settled()
    world.delete("Job.batch", "first", "a").run(10)
    assert world.admitted() == ["large"]
    assert usage(world, "large") == {"example.com/gpus": "4"}


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        (
            template({"firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]}),
            f"{AT}.devices.requests[0]: Invalid value: null: "
            "ResourceClaimTemplate two: FirstAvailable device selection is not supported",
        ),
        (
            template(allocationMode="All"),
            f'{AT}.devices.requests[0].exactly.allocationMode: Invalid value: "All": '
            "ResourceClaimTemplate two: AllocationMode 'All' is not supported",
        ),
        (
            template(deviceClassName="other"),
            f'{AT}.resourceClaimTemplateName: Not found: "DeviceClass other is not mapped in DRA configuration '
            'for podset main"',
        ),
        (
            template(count=2, selectors=[{"cel": {"expression": "device.attributes['x'].y == 'z'"}}]),
            f"{AT}.devices.requests[0].exactly.selectors: Invalid value: null: ResourceClaimTemplate two: "
            "CEL evaluation failed for DeviceClass gpu: no such key: y",
        ),
    ],
)
def test_what_kueue_does_not_count_is_inadmissible(wanted: Obj, refused: str) -> None:
    world = a_world().apply(wanted, claiming("train")).run(5)
    assert refusal(world, "train") == refused
    requeued = world.conditions("train")["Requeued"]
    assert (requeued["status"], requeued["reason"]) == ("False", "Inadmissible")
    assert not world.admitted()


def test_what_is_missing_may_come() -> None:
    chooses = [{"cel": {"expression": f"device.attributes['{DRIVER}'].model == 'H200'"}}]
    world = a_world().apply(template(selectors=chooses), claiming("train")).run(5)
    assert refusal(world, "train").endswith(
        "Internal error: ResourceClaimTemplate two: insufficient matching devices for CEL selector in "
        "DeviceClass gpu: 0 device(s) match in the cluster but 1 requested"
    )
    newer = device("gpu-0", attributes={"model": {"string": "H200"}})
    world.apply(slice_of("n2", newer)).run(15)
    assert world.admitted() == ["train"]
    assert "Requeued" not in world.conditions("train")


def test_a_template_that_comes_later_is_found() -> None:
    world = a_world().apply(claiming("train")).run(3)
    assert refusal(world, "train").endswith('ResourceClaimTemplate.resource.k8s.io "two" not found')
    world.apply(template()).run(10)
    assert world.admitted() == ["train"]


def test_claims_by_name_are_not_supported() -> None:
    world = a_world().apply(claiming("train", {"resourceClaimName": "mine"})).run(5)
    assert refusal(world, "train") == "KueueDRAIntegration feature does not support use of resource claims"


def test_without_the_gate_claims_are_refused() -> None:
    off = settings({"KueueDRAIntegration": False})
    world = a_world("4", off).apply(template(), claiming("train")).run(5)
    words = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
    assert refusal(world, "train") == words


def test_partitions_count_by_their_counter() -> None:
    counts = {"counter": {"driver": DRIVER, "name": "memory"}}
    sizes = ("10Gi", "40Gi")
    counters = [{"name": "gpu0", "counters": {"memory": {"value": "80Gi"}}}]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    parts = [
        device(f"p{i}", consumesCounters=[{"counterSet": "gpu0", "counters": {"memory": {"value": size}}}])
        for i, size in enumerate(sizes)
    ]
    world = World(settings(name="example.com/memory", sources=[counts]))
    world.apply(node("n1", 0), a_queue("60Gi", "example.com/memory"), local_queue("a"), device_class())
    first, second = slice_of("n1", *parts, pool=pool), slice_of("n1", pool=pool, sharedCounters=counters)
    second["metadata"]["name"] = "n1-counters"
    del second["spec"]["devices"]
    world.apply(first, second, template(), claiming("train")).run(5)
    assert usage(world, "train") == {"example.com/memory": str(40 << 30)}
    world.apply(claiming("again")).run(5)
    assert world.condition("again", "QuotaReserved") == ("False", "WaitingForQuota")


@pytest.mark.parametrize(
    ("policy", "asked", "counted"),
    [
        ({}, None, "80"),
        ({"default": "10"}, None, "10"),
        ({"default": "10", "validValues": ["10", "20", "40"]}, "15", "20"),
        ({"default": "10", "validRange": {"min": "10", "step": "8", "max": "40"}}, "19", "26"),
        ({"default": "10", "validRange": {"min": "10", "step": "8", "max": "20"}}, "19", ""),
    ],
)
def test_shared_devices_count_by_their_capacity(policy: Obj, asked: str | None, counted: str) -> None:
    source = {"capacity": {"driver": DRIVER, "name": "memory"}}
    on = settings({"KueueDRAIntegrationConsumableCapacity": True}, sources=[source])
    capacity = {"memory": {"value": "80", **({"requestPolicy": policy} if policy else {})}}
    world = a_world("100", on, device("g", allowMultipleAllocations=True, capacity=capacity))
    exactly = {} if asked is None else {"capacity": {"requests": {"memory": asked}}}
    world.apply(template(**exactly), claiming("train")).run(5)
    if counted:
        assert usage(world, "train") == {"example.com/gpus": counted}
    else:
        assert refusal(world, "train") == (
            f"{AT}.devices.requests[0]: Invalid value: null: capacity request cannot be satisfied by any matched "
            'device\'s RequestPolicy for dimension "memory"'
        )


def test_extended_resources_count_as_their_class() -> None:
    world = a_world("3")
    world.apply(device_class(extendedResourceName="nvidia.com/gpu")).run(1)
    world.apply(job("train", "a", gpus=2)).run(5)
    assert usage(world, "train") == {"example.com/gpus": "2"}
    assert status_of(world.job("train", "a"))["active"] == 1
    world.apply(job("more", "a", gpus=2)).run(5)
    assert world.condition("more", "QuotaReserved") == ("False", "WaitingForQuota")


def test_a_class_that_comes_later_changes_what_waits() -> None:
    """Until then the resource is none of the queue's."""
    world = a_world("3").apply(job("train", "a", gpus=2)).run(5)
    assert not world.admitted()
    world.apply(device_class(extendedResourceName="nvidia.com/gpu")).run(10)
    assert world.admitted() == ["train"]


def test_a_fork_knows_what_was_counted() -> None:
    world = a_world("2").apply(template(count=2), claiming("first")).run(5)
    world.apply(claiming("second")).run(5)
    fork = world.twin.fork()
    for twin in (fork, world.twin):
        twin.store.delete(Key("Job.batch", "a", "first"))
        twin.wake()
        twin.run_for(10 * SECOND_US)
    assert world.admitted() == ["second"]
    assert fork.digest() == world.twin.digest()
