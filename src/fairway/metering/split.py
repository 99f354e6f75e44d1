"""How much of a machine's price are its GPUs, its CPUs and its memory?

Clouds price machines, not parts. Three rules, one of which every bill states:

- `residual`: CPU and memory cost what they cost elsewhere (reference prices), the GPUs the rest. The default:
  a pod without a GPU on a GPU node pays what it would pay on a CPU node.
- `gpu`: all of it is the GPUs', as the guides reckon; a machine without GPUs is split by `ratio`.
- `ratio`: in the ratio of reference prices, as OpenCost splits a node's price.

Source of the reference prices: OpenCost's default custom pricing (CPU $0.031611 a core and hour, RAM $0.004237 a
GiB and hour, GPU $0.95 an hour).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fairway.metering.apportion import Floats
from fairway.metering.ground import Machines

GIB = 2**30


class SplitRule(StrEnum):
    RESIDUAL = "residual"
    GPU = "gpu"
    RATIO = "ratio"


@dataclass(frozen=True, slots=True)
class ReferencePrices:
    """µ$ an hour."""

    cpu: int = 31_611
    memory_gib: int = 4_237
    gpu: int = 950_000


REFERENCE = ReferencePrices()


@dataclass(frozen=True, slots=True)
class Split:
    """`float64[machine, part]`: weights of the parts GPU, CPU and memory of a machine's price."""

    weights: Floats


GPU, CPU, MEMORY = 0, 1, 2
PARTS = ("gpu", "cpu", "memory")


def split_of(
    machines: Machines,
    micros_per_hour: Floats,
    rule: SplitRule = SplitRule.RESIDUAL,
    reference: ReferencePrices = REFERENCE,
) -> Split:
    """The weights of every machine's parts under a rule; `micros_per_hour: [machine]`, none above 0 where unpriced."""
    at = reference
    gpus = machines.gpus
    cpu = machines.cpu_milli / 1000 * at.cpu
    memory = machines.memory_bytes / GIB * at.memory_gib
    has_gpu = gpus > 0
    gpu = gpus * at.gpu
    if rule == SplitRule.RESIDUAL:
        # A machine cheaper than its CPUs and memory elsewhere leaves nothing for the GPUs: the ratio then.
        rest = micros_per_hour - cpu - memory
        gpu = np.where(has_gpu & (rest > 0), rest, gpu)
    weights = np.stack((gpu, cpu, memory), axis=1)
    if rule == SplitRule.GPU:
        weights[has_gpu, CPU] = weights[has_gpu, MEMORY] = 0.0
    return Split(weights)
