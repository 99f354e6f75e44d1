"""Simulated nodes publish their GPUs once NVIDIA's driver is installed, and take them back with it."""

from __future__ import annotations

import pytest

from fairway.catalog.drivers import DRA_DRIVER, published_devices
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US
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
