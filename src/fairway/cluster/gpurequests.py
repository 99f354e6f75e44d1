"""How many GPUs does a node have, and how many does a pod ask for? In milli-GPU, by resource names.

A node that shares its GPUs publishes `fairway.dev/gpu-milli` beside `nvidia.com/gpu`, and both come out of
the same devices: its capacity is the larger of the two, not their sum. A MIG instance counts as its compute
slices (sevenths of a GPU; quarters of those that have four), rounded down where it is asked for. Where the device
plugin calls an instance (MIG strategy single) or a share of a GPU `nvidia.com/gpu`, the node's labels say which part
of one that is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from fairway.kube.integers import natural
from fairway.kube.resources import CPU, GPU_MILLI, MEMORY, NVIDIA_GPU, parse_resources

MILLI = 1000

# Labels that name a node's GPU model. Source: NVIDIA GPU feature discovery; GKE; Karpenter on AWS; ours.
MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "fairway.dev/gpu-model",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
# Resources of the mixed strategy: `nvidia.com/mig-3g.20gb`, `nvidia.com/mig-1g.5gb.me`. Source: k8s-device-plugin.
_MIG = re.compile(r"nvidia\.com/mig-([1-7])g\.")
_MIG_PREFIX = "nvidia.com/mig-"
COMPUTE_SLICES = 7
# What the device plugin calls a GPU that it shares, where it renames it.
SHARED = "nvidia.com/gpu.shared"

Part = tuple[int, int]
"""Of a whole GPU, as numerator and denominator."""
WHOLE: Part = (1, 1)

Devices = tuple[tuple[str, int], ...]
"""Extended resources that are GPUs or parts of them, with their counts, by name."""

INSTANCE_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


@dataclass(frozen=True, slots=True)
class GpuResources:
    """Which resources count as GPUs. `whole`: one unit is one GPU; `milli`: a thousandth of a `whole` one."""

    whole: tuple[str, ...] = (NVIDIA_GPU,)
    milli: tuple[str, ...] = (GPU_MILLI,)

    def asked(self, requests: Mapping[str, int], unit: Part = WHOLE) -> int:
        """Milli-GPU a pod asks for, of such GPUs."""
        milli = sum(requests.get(name, 0) for name in self.milli)
        return self._whole(requests) * unit[0] // unit[1] + milli + _instances(requests)

    def capacity(self, allocatable: Mapping[str, int], unit: Part = WHOLE) -> int:
        """Milli-GPU a node has, of whose GPUs one is this part of a whole one."""
        whole = self._whole(allocatable) * unit[0] // unit[1] + _instances(allocatable)
        return max(whole, sum(allocatable.get(name, 0) for name in self.milli))

    def devices(self, vector: Mapping[str, int]) -> Devices:
        """The part of a vector that is GPUs, as its resources call them."""
        return tuple(
            [(name, count) for name, count in sorted(vector.items()) if count and self._is_gpu(name)]
        )

    def units(self, requests: Mapping[str, int]) -> int:
        """On how many devices, MIG instances or shares of GPUs something runs."""
        milli = sum(requests.get(name, 0) for name in self.milli)
        others = sum(n for name, n in self.devices(requests) if name not in self.milli)
        return others - (-milli // MILLI)

    def _is_gpu(self, name: str) -> bool:
        return name in self.whole or name in self.milli or name == SHARED or name.startswith(_MIG_PREFIX)

    def _whole(self, vector: Mapping[str, int]) -> int:
        return MILLI * (sum(vector.get(name, 0) for name in self.whole) + vector.get(SHARED, 0))


def _instances(vector: Mapping[str, int]) -> int:
    """Milli-GPU of MIG instances."""
    found: dict[int, int] = {}
    for name, count in vector.items():
        match = _MIG.match(name) if name.startswith(_MIG_PREFIX) else None
        if match:
            most = _slices_of_card(name.removesuffix(".shared"))
            found[most] = found.get(most, 0) + count * int(match[1])
    return sum(MILLI * slices // most for most, slices in found.items())


@cache
def _slices_of_card(resource: str) -> int:
    """Of the cards that have such instances: seven, where not all of them have fewer."""
    from fairway.catalog.catalog import load_catalog

    having = [m.compute_slices for m in load_catalog().gpus() if m.profile(resource) is not None]
    return max(having, default=COMPUTE_SLICES)


DEFAULT_GPUS = GpuResources()


def unit_of(labels: Mapping[str, str]) -> Part:
    """Which part of a GPU one `nvidia.com/gpu` of a node is, as GPU Feature Discovery tells."""
    replicas, slices, most = 1, COMPUTE_SLICES, COMPUTE_SLICES
    if labels.get("nvidia.com/gpu.sharing-strategy", "none") != "none":
        replicas = max(natural(labels.get("nvidia.com/gpu.replicas")) or 1, 1)
    if labels.get("nvidia.com/mig.strategy") == "single":
        from fairway.catalog.catalog import load_catalog

        model = load_catalog().gpu(labels.get("nvidia.com/gpu.product", ""))
        most = (model.compute_slices if model is not None else 0) or COMPUTE_SLICES
        slices = natural(labels.get("nvidia.com/gpu.slices.gi")) or most
    if replicas == 1 and slices >= most:
        return WHOLE
    return min(slices, most), most * replicas


def node_resources(node: Mapping[str, object]) -> dict[str, int]:
    """What a node object offers: allocatable, or capacity where that is all it says."""
    status = node.get("status")
    if not isinstance(status, dict):
        return {}
    return parse_resources(status.get("allocatable") or status.get("capacity"))


def kept_for_itself(node: Mapping[str, object]) -> tuple[int, int]:
    """Milli-CPU and bytes of memory that a node does not offer to pods: capacity less allocatable."""
    status = node.get("status")
    if not isinstance(status, dict) or not status.get("allocatable") or not status.get("capacity"):
        return 0, 0
    whole, offered = parse_resources(status["capacity"]), parse_resources(status["allocatable"])
    cpu, memory = (max(0, whole.get(name, 0) - offered.get(name, 0)) for name in (CPU, MEMORY))
    return cpu, memory


def label_of(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The first of these labels that is there; empty without."""
    return next((labels[name] for name in names if name in labels), "")
