"""How much of a whole GPU is this part of one?

Nodes advertise MIG slices and shared replicas under names of their own; a bill speaks of whole devices. A MIG
instance is as large a part of its GPU as it has of the compute slices (`by memory`: of the memory slices): seven 1g
instances are one GPU, of an A30 four, and what a layout leaves unused stays unallocated. A replica of a
time-sliced or MPS GPU is one of as many equal parts as the device plugin makes.

Source: NVIDIA k8s-device-plugin (resource names, `nvidia.com/gpu.shared`, label `nvidia.com/gpu.replicas`), MIG user
guide.
"""

from __future__ import annotations

import re
from enum import StrEnum

from fairway.catalog.gpus import GpuModel
from fairway.kube.resources import GPU_MILLI

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
_RENAMED = ".shared"
MIG_PREFIX = "nvidia.com/mig-"
REPLICAS_LABEL = "nvidia.com/gpu.replicas"
COMPUTE_SLICES = 7
_PROFILE = re.compile(r"nvidia\.com/mig-([1-7])g\.")


class MigRule(StrEnum):
    COMPUTE = "compute"
    MEMORY = "memory"


def gpus_of(
    resource: str, count: int, model: GpuModel | None, *, replicas: int = 1, rule: MigRule = MigRule.COMPUTE
) -> float:
    """Whole GPUs that `count` units of an extended resource come to; 0 for what is no GPU or no profile of the model.

    `replicas`: how many units the device plugin makes of one device (or one MIG instance). Of a model nobody knows,
    a profile's name says how many sevenths it is.
    """
    if resource == GPU_MILLI:
        return count / 1000
    units = count / max(replicas, 1)
    # Instances that are shared and renamed are as large; `replicas` says into how many each is shared.
    resource = resource.removesuffix(_RENAMED)
    if resource == GPU:
        return units
    if model is None:
        named = _PROFILE.match(resource)
        return units * int(named[1]) / COMPUTE_SLICES if named else 0.0
    profile = model.profile(resource) if resource.startswith(MIG_PREFIX) else None
    if profile is None:
        return 0.0
    if rule == MigRule.MEMORY:
        return units * profile.memory_slices / model.memory_slices
    return units * profile.compute_slices / model.compute_slices


def gpu_memory_of(resource: str, count: int, model: GpuModel, *, replicas: int = 1) -> float:
    """Bytes of GPU memory that `count` units of an extended resource come with; a share of a GPU, its share."""
    profile = model.profile(resource.removesuffix(_RENAMED)) if resource.startswith(MIG_PREFIX) else None
    if profile is not None:
        return count / max(replicas, 1) * profile.memory_bytes
    return gpus_of(resource, count, model, replicas=replicas) * model.memory_bytes
