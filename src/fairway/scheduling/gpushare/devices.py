"""What is free on every GPU of every node, and how does a pod take it and give it back?

A GPU is shared in thousandths (milli-GPU). A pod asks for a number of devices and the milli of each: one
device in part (1 × 470), or whole devices (4 × 1000). A device is an index on its node, 0 … 7, and what is
free of it stays within 0 … 1000.

Nodes and pods are rows of int64 tables, so that kernels stay small and a cluster's accounts can own them.
Row numbers break ties: the lower row wins. Nothing here chooses a node; see the policies.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairway.errors import UserError
from fairway.kernels import kernel, leaf
from fairway.scheduling.gpushare.sizes import MAX_DEVICES as MAX_DEVICES
from fairway.scheduling.gpushare.sizes import MILLI as MILLI

WIDTHS = MAX_DEVICES + 1  # how wide pods are: 0 shares a device, k takes k whole ones

# Columns of a node: int64[node, NODE_COLUMNS].
CPU, MEMORY, DEVICES, MODEL, GPU = range(5)  # GPU … GPU+7: milli free per device, 0 where there is none
RUNNING = GPU + MAX_DEVICES  # RUNNING+w: GPU pods of width w on the node
NODE_COLUMNS = RUNNING + WIDTHS

# Columns of a pod: int64[POD_COLUMNS]. CPU and MEMORY are those of a node.
COUNT, EACH, MODELS = range(2, 5)  # devices, milli of each, bit mask of the model codes that will do
POD_COLUMNS = 5
ANY_MODEL = -1  # a mask with every bit set
MOST_MODELS = 63  # bits of a mask but the sign

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GpuNodes:
    """What is free, node by node. The properties are views of `table`: writing to one writes the table."""

    table: Int64s

    @classmethod
    def idle(
        cls, cpu_milli: ArrayLike, memory_bytes: ArrayLike, devices: ArrayLike, model: ArrayLike
    ) -> "GpuNodes":
        """Nodes on which nothing runs."""
        count = np.asarray(devices, np.int64)
        table = np.zeros((len(count), NODE_COLUMNS), np.int64)
        table[:, CPU], table[:, MEMORY] = cpu_milli, memory_bytes
        table[:, DEVICES], table[:, MODEL] = count, model
        table[:, GPU:RUNNING] = MILLI * (np.arange(MAX_DEVICES) < count[:, None])
        return cls(table)

    def __len__(self) -> int:
        return len(self.table)

    def copy(self) -> "GpuNodes":
        return GpuNodes(self.table.copy())

    @property
    def cpu_milli_free(self) -> Int64s:
        return self.table[:, CPU]

    @property
    def memory_bytes_free(self) -> Int64s:
        return self.table[:, MEMORY]

    @property
    def gpu_count(self) -> Int64s:
        return self.table[:, DEVICES]

    @property
    def gpu_model(self) -> Int64s:
        """Codes of ModelCodes."""
        return self.table[:, MODEL]

    @property
    def gpu_milli_free(self) -> Int64s:
        """int64[node, 8]"""
        return self.table[:, GPU:RUNNING]

    @property
    def pods_by_width(self) -> Int64s:
        """int64[node, 9]: GPU pods running there that share a device (0) or take k whole ones (k)."""
        return self.table[:, RUNNING:]


@dataclass(frozen=True, slots=True)
class ModelCodes:
    """GPU model names as small integers: the code is the position, a set of models is a bit mask."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, names: Iterable[str]) -> "ModelCodes":
        """Codes by name. Raises UserError for more names than a mask has bits."""
        distinct = tuple(sorted(dict.fromkeys(names)))
        if len(distinct) > MOST_MODELS:
            raise UserError(f"{len(distinct)} GPU models: expected at most {MOST_MODELS}")
        return cls(distinct)

    def code(self, name: str) -> int:
        return self.names.index(name)

    def mask(self, wanted: Sequence[str]) -> int:
        """Bits of the wanted models there are. No wish: ANY_MODEL. Only unknown models: 0, fits nowhere."""
        if not wanted:
            return ANY_MODEL
        return sum(1 << code for code, name in enumerate(self.names) if name and name in wanted)


def pod_needs(
    cpu_milli: int, memory_bytes: int, gpu_count: int, gpu_milli: int, gpu_models: int = ANY_MODEL
) -> Int64s:
    """A pod's row: int64[POD_COLUMNS]."""
    return np.array([cpu_milli, memory_bytes, gpu_count, gpu_milli, gpu_models], np.int64)


@leaf
def fits(nodes: Int64s, row: int, pod: Int64s) -> bool:
    """Does the pod fit on the node now: CPU, memory, GPU model, and enough devices with enough free?"""
    if nodes[row, CPU] < pod[CPU] or nodes[row, MEMORY] < pod[MEMORY]:
        return False
    if pod[COUNT] == 0:
        return True
    if (pod[MODELS] >> nodes[row, MODEL]) & 1 == 0:
        return False
    able = 0
    for device in range(GPU, RUNNING):
        able += nodes[row, device] >= pod[EACH]
    return bool(able >= pod[COUNT])


@leaf
def tightest(nodes: Int64s, row: int, pod: Int64s) -> int:
    """Bit mask of the fitting devices with the least free, the lower index first. The pod fits."""
    chosen = 0
    for _ in range(pod[COUNT]):
        best = -1
        for device in range(MAX_DEVICES):
            free = nodes[row, GPU + device]
            if free < pod[EACH] or (chosen >> device) & 1:
                continue
            if best < 0 or free < nodes[row, GPU + best]:
                best = device
        chosen |= 1 << best
    return chosen


@kernel
def tightest_devices(nodes: Int64s, row: int, pod: Int64s) -> int:
    """`tightest` for Python."""
    return tightest(nodes, row, pod)


@kernel
def move(nodes: Int64s, row: int, pod: Int64s, devices: int, sign: int) -> None:
    """Place the pod on the devices of a bit mask (sign 1), or take it away again (sign -1).

    The caller has checked that it fits there, or that it runs there.
    """
    charge(nodes, row, sign * pod[CPU], devices, sign * pod[EACH])
    nodes[row, MEMORY] -= sign * pod[MEMORY]
    if pod[COUNT] > 0:
        nodes[row, RUNNING + width(pod)] += sign


@leaf
def charge(nodes: Int64s, row: int, cpu_milli: int, devices: int, each: int) -> None:
    """Take CPU, and `each` milli of the devices of a bit mask; negative amounts give back."""
    nodes[row, CPU] -= cpu_milli
    for device in range(MAX_DEVICES):
        nodes[row, GPU + device] -= each * ((devices >> device) & 1)


@leaf
def width(pod: Int64s) -> int:
    """0 for a pod that shares a device, else how many it takes whole."""
    return pod[COUNT] if pod[EACH] >= MILLI else 0


@leaf
def gpu_milli_free(nodes: Int64s, row: int) -> int:
    """Free milli on all devices of the node."""
    total = 0
    for device in range(GPU, RUNNING):
        total += nodes[row, device]
    return total
