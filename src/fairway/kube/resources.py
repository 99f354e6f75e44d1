"""Resource vectors: how much of each resource, as integers.

A vector is a `dict[str, int]`: `cpu` in milli-CPU, everything else in whole units (bytes for memory,
ephemeral-storage and hugepages; devices for extended resources). Absent means zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairway.kube import quantity

Resources = dict[str, int]

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
STORAGE: Final = "storage"
PODS: Final = "pods"
NVIDIA_GPU: Final = "nvidia.com/gpu"
# Thousandths of one GPU, for nodes that share theirs. Ours: Kubernetes has no name for it.
GPU_MILLI: Final = "fairway.dev/gpu-milli"

# Names without a domain that Kubernetes knows natively. Source: v1helper.IsNativeResource, validation.
_NATIVE: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS, STORAGE})


def amount(resource: str, value: object) -> int:
    """A quantity in the unit this resource is counted in (cpu: milli), rounded up."""
    return quantity.milli_ceil(value) if resource == CPU else quantity.whole_ceil(value)


def parse_resources(raw: Mapping[str, object] | None) -> Resources:
    """A `requests`, `limits`, `capacity` or `hard` map as a vector."""
    if not raw:
        return {}
    return {name: amount(name, value) for name, value in raw.items()}


def format_amount(resource: str, value: int) -> str:
    """The quantity text for an amount: cpu 1500 → `1500m`, memory 2^31 → `2Gi`."""
    if resource == CPU:
        return quantity.format_milli(value)
    if resource in (MEMORY, EPHEMERAL_STORAGE, STORAGE) or resource.startswith("hugepages-"):
        return quantity.format_binary(value)
    return str(value)


def format_resources(vector: Mapping[str, int]) -> dict[str, str]:
    return {name: format_amount(name, value) for name, value in vector.items()}


def is_extended(resource: str) -> bool:
    """Whether this is an extended resource (a device): a domain outside kubernetes.io, no `requests.` prefix.

    Source: pkg/apis/core/v1/helper.IsExtendedResourceName.
    """
    if "/" not in resource or is_native(resource):
        return False
    return not resource.startswith("requests.")


def is_native(resource: str) -> bool:
    """Names without a domain or within kubernetes.io/ are Kubernetes' own."""
    return "/" not in resource or "kubernetes.io/" in resource


def is_hugepages(resource: str) -> bool:
    return resource.startswith("hugepages-")


def add_into(total: Resources, vector: Mapping[str, int]) -> None:
    for name, value in vector.items():
        total[name] = total.get(name, 0) + value


def max_into(total: Resources, vector: Mapping[str, int]) -> None:
    for name, value in vector.items():
        if value > total.get(name, 0):
            total[name] = value
