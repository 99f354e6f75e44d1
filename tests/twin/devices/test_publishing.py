"""Simulated nodes publish their GPUs once NVIDIA's driver is installed, and take them back with it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.catalog.catalog import load_catalog
from fairway.catalog.drivers import DRA_DRIVER, gpu_uuid, published_devices
from fairway.catalog.placements import Instance, fits
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US
from fairway.kube.validation.validating import validate
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

SLICE = "ResourceSlice.resource.k8s.io"
V1 = "resource.k8s.io/v1"
CHOSEN = f"device.driver == '{DRA_DRIVER}' && device.attributes['{DRA_DRIVER}'].type == 'gpu'"
DRIVER: Obj = {
    "apiVersion": V1,
    "kind": "DeviceClass",
    "metadata": {"name": DRA_DRIVER},
    "spec": {"selectors": [{"cel": {"expression": CHOSEN}}]},
}


def node(name: str, product: str = "NVIDIA-A100-SXM4-80GB", count: str = "2", **allocatable: str) -> Obj:
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": count}
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", **allocatable}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": amounts}}


def a_twin(*objects: Obj) -> Twin:
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    settle(twin, *objects)
    return twin


def settle(twin: Twin, *objects: Obj) -> None:
    twin.apply(list(objects))
    twin.run_for(MINUTE_US)


def published(twin: Twin) -> dict[str, list[str]]:
    """Node → its devices."""
    slices = twin.store.objects(SLICE)
    return {s["spec"]["nodeName"]: [d["name"] for d in s["spec"]["devices"]] for s in slices}


def test_nodes_publish_with_the_driver_and_not_without() -> None:
    plugged = node("plugged", **{"nvidia.com/gpu": "2"})
    twin = a_twin(node("a"), plugged)
    assert published(twin) == {}
    settle(twin, DRIVER)
    assert published(twin) == {"a": ["gpu-0", "gpu-1"]}
    settle(twin, node("b", count="1"))
    assert published(twin) == {"a": ["gpu-0", "gpu-1"], "b": ["gpu-0"]}
    twin.store.delete(Key("Node", "", "a"))
    twin.wake()
    twin.run_for(MINUTE_US)
    assert published(twin) == {"b": ["gpu-0"]}
    twin.store.delete(Key("DeviceClass.resource.k8s.io", "", DRA_DRIVER))
    twin.wake()
    twin.run_for(MINUTE_US)
    assert published(twin) == {}


def test_a_node_somebody_else_published_for_is_left_alone() -> None:
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRA_DRIVER, "pool": pool, "nodeName": "a", "devices": [{"name": "mine"}]}
    theirs = {"apiVersion": V1, "kind": "ResourceSlice", "metadata": {"name": "theirs"}, "spec": spec}
    twin = a_twin(node("a"), DRIVER)
    settle(twin, theirs)
    assert published(twin) == {"a": ["mine"]}


def test_a_slice_that_changed_is_a_new_generation() -> None:
    twin = a_twin(node("a"), DRIVER)
    settle(twin, node("a", count="3"))
    (found,) = twin.store.objects(SLICE)
    assert len(found["spec"]["devices"]) == 3
    assert found["spec"]["pool"] == {"name": "a", "generation": 2, "resourceSliceCount": 1}


def test_what_is_said_of_a_gpu() -> None:
    first, second = published_devices(node("n"))
    uuid = first["attributes"].pop("uuid")["string"]
    assert uuid.startswith("GPU-") and uuid != second["attributes"]["uuid"]["string"]
    assert first == {
        "name": "gpu-0",
        "attributes": {
            "type": {"string": "gpu"},
            "productName": {"string": "NVIDIA A100-SXM4-80GB"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Ampere"},
            "cudaComputeCapability": {"version": "8.0.0"},
            "driverVersion": {"version": "580.82.7"},
            "cudaDriverVersion": {"version": "13.0.0"},
        },
        "capacity": {"memory": {"value": "81920Mi"}},
    }


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3"),
        ("Tesla-V100-SXM2-16GB", "Tesla V100-SXM2-16GB"),
        ("NVIDIA-L40S", "NVIDIA L40S"),
    ],
)
def test_product_names_are_the_drivers(product: str, name: str) -> None:
    assert published_devices(node("n", product))[0]["attributes"]["productName"] == {"string": name}


@pytest.mark.parametrize("count", ["", "many", "-1", "0", "129", "9" * 50])
def test_counts_that_are_none(count: str) -> None:
    assert published_devices(node("n", count=count)) == []


def test_products_nobody_knows() -> None:
    assert published_devices(node("n", "Voodoo-2")) == []


def cut(name: str, layout: str = "", gates: str = "", **more: str) -> Obj:
    notes = {"fairway.dev/gpu-layout": layout, "fairway.dev/dra-feature-gates": gates}
    made = node(name, **more)
    made["metadata"]["annotations"] = {k: v for k, v in notes.items() if v}
    return made


def test_a_card_that_is_cut_is_its_instances() -> None:
    first, second, third = published_devices(cut("n", "1=3g.40gb@0,1g.10gb@4"))
    assert [d["name"] for d in (first, second, third)] == [
        "gpu-0",
        "gpu-1-mig-3g40gb-9-0",
        "gpu-1-mig-1g10gb-19-4",
    ]
    assert third["attributes"]["profile"] == {"string": "1g.10gb"}
    assert third["attributes"]["uuid"]["string"].startswith("MIG-")
    assert third["attributes"]["parentUUID"] == {"string": gpu_uuid("n", 1)}
    assert third["capacity"] == {
        **{name: {"value": "0"} for name in ("encoders", "decoders", "jpegEngines", "ofaEngines")},
        "multiprocessors": {"value": "14"},
        "copyEngines": {"value": "1"},
        "memory": {"value": "9728Mi"},
        "memorySlice4": {"value": "1"},
    }


def test_where_the_board_is_known_devices_say_where_they_are() -> None:
    made = node("n", count="8")
    made["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "p4de.24xlarge"
    devices = published_devices(made)
    numa = [d["attributes"]["resource.kubernetes.io/numaNode"]["int"] for d in devices]
    roots = [d["attributes"]["resource.kubernetes.io/pcieRoot"]["string"] for d in devices]
    assert numa == [0, 0, 0, 0, 1, 1, 1, 1]
    assert roots[0] == roots[1] != roots[2]


MIG_CLASS = {
    "apiVersion": V1,
    "kind": "DeviceClass",
    "metadata": {"name": "mig.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": CHOSEN.replace("'gpu'", "'mig'")}}]},
}
DYNAMIC = "DynamicMIG=true"


def asks(name: str, profile: str) -> list[Obj]:
    """A pod with a claim for an instance; profile `whole`: for a card."""
    exactly: Obj = {"deviceClassName": DRA_DRIVER if profile == "whole" else "mig.nvidia.com"}
    if profile != "whole":
        chosen = f"device.attributes['{DRA_DRIVER}'].profile == '{profile}'"
        exactly["selectors"] = [{"cel": {"expression": chosen}}]
    claim = {
        "apiVersion": V1,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "g"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "g", "resourceClaimName": name}]}
    notes = {"fairway.dev/run-time": "forever"}
    meta = {"name": name, "namespace": "default", "annotations": notes}
    return [claim, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}]


def given_to(twin: Twin) -> list[str]:
    found = []
    for claim in twin.store.objects("ResourceClaim.resource.k8s.io"):
        results = ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", [])
        found += [r["device"] for r in results]
    return sorted(found)


def test_slices_of_partitions_are_such_as_the_api_takes() -> None:
    twin = a_twin(cut("a", gates=DYNAMIC, count="10"), DRIVER)
    slices = twin.store.objects(SLICE)
    assert [len(s["spec"].get("sharedCounters", ())) for s in slices if "sharedCounters" in s["spec"]] == [
        8,
        2,
    ]
    assert {s["spec"]["pool"]["resourceSliceCount"] for s in slices} == {12} == {len(slices)}
    for found in slices:
        assert validate(found) == []


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.sampled_from(["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb", "1g.20gb", "whole"]), max_size=9)
)
def test_what_claims_get_of_a_card_is_a_layout_that_nvidia_allows(profiles: list[str]) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    twin = a_twin(namespace, cut("a", gates=DYNAMIC, count="1"), DRIVER, MIG_CLASS)
    settle(twin, *(obj for i, p in enumerate(profiles) for obj in asks(f"p{i}", p)))
    got = given_to(twin)
    model = load_catalog().gpu("NVIDIA-A100-SXM4-80GB")
    assert model is not None
    if "gpu-0" in got:
        assert got == ["gpu-0"]
        return
    layout: tuple[Instance, ...] = ()
    for name in got:
        *_, number, start = name.split("-")
        profile = next(p for p in model.mig if p.id == int(number))
        new = Instance(profile, int(start))
        assert fits(model, layout, new)
        layout = (*layout, new)
    assert bool(got) == bool(profiles)


def test_seven_instances_and_no_eighth_then_room_again() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    twin = a_twin(namespace, cut("a", gates=DYNAMIC, count="1"), DRIVER, MIG_CLASS)
    settle(twin, *(obj for i in range(8) for obj in asks(f"p{i}", "1g.10gb")))
    assert len(given_to(twin)) == 7
    twin.store.delete(Key("Pod", "default", "p0"))
    twin.wake()
    twin.run_for(MINUTE_US)
    assert len(given_to(twin)) == 7


def test_a_new_layout_is_a_new_generation_of_slices() -> None:
    twin = a_twin(cut("a", gates=DYNAMIC), DRIVER)
    settle(twin, cut("a", "0=7g.80gb@0"))
    (found,) = twin.store.objects(SLICE)
    assert [d["name"] for d in found["spec"]["devices"]] == ["gpu-0-mig-7g80gb-0-0", "gpu-1"]
    assert found["spec"]["pool"] == {"name": "a", "generation": 2, "resourceSliceCount": 1}
