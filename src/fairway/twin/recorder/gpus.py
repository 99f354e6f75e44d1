"""How many GPUs does a node have, and how many does a pod ask for? In milli-GPU, by resource names.

A node that shares its GPUs publishes `fairway.dev/gpu-milli` beside `nvidia.com/gpu`, and both come out of
the same devices: its capacity is the larger of the two, not their sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairway.kube.resources import GPU_MILLI, NVIDIA_GPU, parse_resources

MILLI = 1000

# Labels that name a node's GPU model. Source: NVIDIA GPU feature discovery; GKE; Karpenter on AWS; ours.
MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "fairway.dev/gpu-model",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
INSTANCE_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


@dataclass(frozen=True, slots=True)
class GpuResources:
    """Which resources count as GPUs. `whole`: one unit is one GPU; `milli`: a thousandth of a `whole` one."""

    whole: tuple[str, ...] = (NVIDIA_GPU,)
    milli: tuple[str, ...] = (GPU_MILLI,)

    def asked(self, requests: Mapping[str, int]) -> int:
        """Milli-GPU a pod asks for."""
        return self._whole(requests) + sum(requests.get(name, 0) for name in self.milli)

    def capacity(self, allocatable: Mapping[str, int]) -> int:
        """Milli-GPU a node has."""
        return max(self._whole(allocatable), sum(allocatable.get(name, 0) for name in self.milli))

    def _whole(self, vector: Mapping[str, int]) -> int:
        return MILLI * sum(vector.get(name, 0) for name in self.whole)


DEFAULT_GPUS = GpuResources()


def node_resources(node: Mapping[str, object]) -> dict[str, int]:
    """What a node object offers: allocatable, or capacity where that is all it says."""
    status = node.get("status")
    if not isinstance(status, dict):
        return {}
    return parse_resources(status.get("allocatable") or status.get("capacity"))


def label_of(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The first of these labels that is there; empty without."""
    return next((labels[name] for name in names if name in labels), "")
