"""Which GPUs does a node have, and how are they cut? What its object says, in one place.

`fairway.dev/gpus: 8 NVIDIA-H100-80GB-HBM3` is the hardware, whatever drivers and plugins make of it; without it
labels, instance type and capacity tell. `fairway.dev/gpu-layout: 0=1g.10gb@0,3g.40gb@4;1=` are the cards with MIG
enabled and their instances by profile and first memory slice; cards that are not named have MIG disabled.
`fairway.dev/gpu-unhealthy: 3,5` are cards that the device plugin has given up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fairway.catalog.catalog import load_catalog
from fairway.catalog.gpus import GpuModel
from fairway.catalog.placements import Layout, layout_of, layout_text
from fairway.kube.integers import natural
from fairway.kube.objects import Obj, annotations_of, labels_of, status_of
from fairway.kube.quantity import whole_ceil
from fairway.kube.resources import NVIDIA_GPU

HARDWARE: Final = "fairway.dev/gpus"
LAYOUT: Final = "fairway.dev/gpu-layout"
UNHEALTHY: Final = "fairway.dev/gpu-unhealthy"
INSTANCES: Final = "fairway.dev/gpu-instances"
"""On a pod: the MIG instances it has, `0/1g.10gb@3,0/1g.10gb@4`: card and place."""
_PRODUCT, _COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
_TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
# Cards of one node; what says more is not believed.
MOST: Final = 128


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """`layouts`: by card; None with MIG disabled, empty with MIG enabled and no instance."""

    product: str
    model: GpuModel | None
    layouts: tuple[Layout | None, ...]
    unhealthy: frozenset[int] = frozenset()

    @property
    def count(self) -> int:
        return len(self.layouts)

    @property
    def hardware(self) -> str:
        return f"{self.count} {self.product}"


NO_GPUS: Final = NodeGpus("", None, ())


def gpus_of_node(node: Obj) -> NodeGpus:
    """Its cards; none where it does not say how many of what."""
    labels, annotations = labels_of(node), annotations_of(node)
    count, product = _hardware(annotations.get(HARDWARE, ""), labels, node)
    if not count or count > MOST or not product:
        return NO_GPUS
    model = load_catalog().gpu(product)
    unhealthy = (natural(part.strip()) for part in annotations.get(UNHEALTHY, "").split(","))
    return NodeGpus(
        product if model is None else model.product,
        model,
        read_layouts(model, count, annotations.get(LAYOUT, "")),
        frozenset(n for n in unhealthy if n is not None),
    )


def _hardware(said: str, labels: Mapping[str, str], node: Obj) -> tuple[int, str]:
    number, _, product = said.strip().partition(" ")
    if number.isdecimal() and product:
        return int(number[:6]), product.strip()
    kind = next((k for t in _TYPES if (k := load_catalog().instance_type(labels.get(t, "")))), None)
    product = (
        labels.get(_PRODUCT, "") or labels.get("fairway.dev/gpu-model", "") or (kind.gpu if kind else "")
    )
    status = status_of(node)
    whole = whole_ceil((status.get("capacity") or status.get("allocatable") or {}).get(NVIDIA_GPU) or 0)
    return whole or natural(labels.get(_COUNT)) or (kind.gpus if kind else 0), product


def read_layouts(model: GpuModel | None, count: int, text: str) -> tuple[Layout | None, ...]:
    """What `layouts_text` wrote; a card whose part cannot be read has MIG disabled."""
    found: list[Layout | None] = [None] * count
    for part in filter(None, text.split(";")):
        number, _, layout = part.partition("=")
        at = natural(number.strip())
        if model is not None and at is not None and at < count:
            found[at] = layout_of(model, layout)
    return tuple(found)


def layouts_text(layouts: Sequence[Layout | None]) -> str:
    return ";".join(f"{i}={layout_text(layout)}" for i, layout in enumerate(layouts) if layout is not None)
