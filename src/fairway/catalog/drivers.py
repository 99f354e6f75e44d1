"""What does NVIDIA's driver say of the GPUs of a simulated node, and its DRA driver publish?

One slice a node: pool and node of one name, devices `gpu-0` to `gpu-N`, described from the catalog. Nothing here says
how GPUs are connected: `resource.kubernetes.io/pcieRoot` is left out.

Source: k8s-dra-driver-gpu cmd/gpu-kubelet-plugin (deviceinfo.go, driver.go); its Helm chart's device classes.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from fairway.catalog.gpus import MIB
from fairway.kube.objects import Obj, labels_of, meta_of, status_of
from fairway.kube.quantity import whole_ceil
from fairway.kube.resources import NVIDIA_GPU

DRIVER, CUDA = "580.82.07", "13.0"
OLD: Final = ("470.256.02", "11.4")
"""The driver of a node with the fault `driver-version`, and the newest CUDA that it runs."""
OLD_DRIVER: Final = "driver-version"
DRA_DRIVER: Final = "gpu.nvidia.com"
"""The DRA driver's name, and its device class's."""
_PRODUCT, _COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
# Devices in one ResourceSlice. Source: resource.k8s.io ResourceSliceMaxDevices.
_MOST: Final = 128
# Feature discovery writes a hyphen for each space; those around SXM are the product's own.
_HYPHEN_FOR_SPACE: Final = re.compile(r"-(?!SXM\d)(?<!SXM\d-)")


def shaped_uuid(kind: str, of: str) -> str:
    digest = hashlib.blake2b(of.encode(), digest_size=16).hexdigest()
    return f"{kind}-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def gpu_uuid(node: str, slot: int) -> str:
    """Of one GPU of a node, the same in every run."""
    return shaped_uuid("GPU", f"{node}/{slot}")


def mig_uuid(node: str, slot: int, start: int) -> str:
    """Of the MIG instance that begins on this memory slice of a card."""
    return shaped_uuid("MIG", f"{gpu_uuid(node, slot)}/{start}")


def published_devices(node: Obj) -> list[Obj]:
    """The devices in the node's slice; none where it is not said which and how many GPUs there are, or where a device
    plugin hands them out."""
    labels = labels_of(node)
    product, count = labels.get(_PRODUCT), labels.get(_COUNT, "")
    if not product or not count.isdecimal() or int(count[:4]) > _MOST:
        return []
    if whole_ceil((status_of(node).get("allocatable") or {}).get(NVIDIA_GPU) or 0):
        return []
    from fairway.catalog.catalog import load_catalog

    model = load_catalog().gpu(product)
    if model is None:
        return []
    said: dict[str, Any] = {
        "type": {"string": "gpu"},
        "productName": {"string": _HYPHEN_FOR_SPACE.sub(" ", model.product)},
        "brand": {"string": "Tesla" if model.product.startswith("Tesla") else "Nvidia"},
        "architecture": {"string": model.architecture},
        "cudaComputeCapability": {"version": _version(model.compute_capability)},
        "driverVersion": {"version": _version(DRIVER)},
        "cudaDriverVersion": {"version": _version(CUDA)},
    }
    known = {name: value for name, value in said.items() if all(value.values())}
    capacity = {"memory": {"value": f"{model.memory_bytes // MIB}Mi"}}
    name = meta_of(node)["name"]
    return [
        {
            "name": f"gpu-{slot}",
            "attributes": {**known, "uuid": {"string": gpu_uuid(name, slot)}},
            "capacity": capacity,
        }
        for slot in range(int(count))
    ]


def _version(text: str) -> str:
    """As a semantic version: three numbers without leading zeros; empty for none."""
    numbers = [str(int(part)) for part in text.split(".") if part.isdecimal()]
    return ".".join([*numbers, "0", "0"][:3]) if numbers else ""
