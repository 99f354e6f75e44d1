"""What is free on every GPU of every node, and how does a pod take and give it back?

A GPU is shared in thousandths (milli-GPU). A pod asks for `gpu_count` devices, `gpu_milli` of each: one
device in part (`1 × 470`), or whole devices (`4 × 1000`). A device is an index on its node, 0 … 7; the free
thousandths of a device never go below zero nor above 1000.

Everything here is plain arrays, so that compiled kernels read them and a cluster's accounts can own them.
Nothing here chooses: see the policies.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

MILLI = 1000  # thousandths in one device
MAX_DEVICES = 8  # devices on one node; columns of gpu_milli_free
WIDTHS = MAX_DEVICES + 1  # how wide pods are: 0 shares a device, k takes k whole devices
ANY_MODEL = -1  # model mask of a pod that runs on every GPU model

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]


class GpuNodes(NamedTuple):
    """What is free, node by node, in an order that breaks ties (a lower row wins).

    cpu_milli_free, memory_bytes_free: int64[node]
    gpu_milli_free: int64[node, 8], zero beyond gpu_count
    gpu_count: int64[node]
    gpu_model: int64[node], a code below 63 (see ModelCodes)
    pods_by_width: int64[node, 9], GPU pods running there that share a device (0) or take k devices (k)
    """

    cpu_milli_free: Int64s
    memory_bytes_free: Int64s
    gpu_milli_free: Int64s
    gpu_count: Int64s
    gpu_model: Int64s
    pods_by_width: Int64s


class PodNeeds(NamedTuple):
    """What one pod asks for; `gpu_models` has bit m set when model code m will do (ANY_MODEL: all)."""

    cpu_milli: int
    memory_bytes: int
    gpu_count: int
    gpu_milli: int
    gpu_models: int


@dataclass(frozen=True, slots=True)
class ModelCodes:
    """GPU model names as small integers: the code is the position, a set of models is a bit mask."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, names: Iterable[str]) -> "ModelCodes":
        return cls(tuple(sorted(dict.fromkeys(names))))

    def code(self, name: str) -> int:
        return self.names.index(name)

    def mask(self, wanted: Sequence[str]) -> int:
        """Bits of the wanted models that exist; no wish is ANY_MODEL, only unknown ones fit nowhere (0)."""
        if not wanted:
            return ANY_MODEL
        return sum(1 << code for code, name in enumerate(self.names) if name and name in wanted)


@njit(cache=True, nogil=True)
def fits(nodes: GpuNodes, row: int, pod: PodNeeds) -> bool:
    """Does the pod fit on the node now: CPU, memory, GPU model, and enough devices with enough free?"""
    if nodes.cpu_milli_free[row] < pod.cpu_milli or nodes.memory_bytes_free[row] < pod.memory_bytes:
        return False
    if pod.gpu_count == 0:
        return True
    if (pod.gpu_models >> nodes.gpu_model[row]) & 1 == 0:
        return False
    return devices_with(nodes.gpu_milli_free[row], pod.gpu_milli) >= pod.gpu_count


@njit(cache=True, nogil=True)
def devices_with(gpu_milli_free: Int64s, gpu_milli: int) -> int:
    """How many devices have at least that much free."""
    count = 0
    for free in gpu_milli_free:
        count += free >= gpu_milli
    return count


@njit(cache=True, nogil=True)
def take(nodes: GpuNodes, row: int, pod: PodNeeds, devices: int) -> None:
    """Place the pod: `devices` is a bit mask with gpu_count bits. The caller has checked that it fits."""
    _move(nodes, row, pod, devices, -1)


@njit(cache=True, nogil=True)
def give_back(nodes: GpuNodes, row: int, pod: PodNeeds, devices: int) -> None:
    """Undo `take`."""
    _move(nodes, row, pod, devices, 1)


@njit(cache=True, nogil=True)
def _move(nodes: GpuNodes, row: int, pod: PodNeeds, devices: int, sign: int) -> None:
    nodes.cpu_milli_free[row] += sign * pod.cpu_milli
    nodes.memory_bytes_free[row] += sign * pod.memory_bytes
    if pod.gpu_count == 0:
        return
    for device in range(MAX_DEVICES):
        if (devices >> device) & 1:
            nodes.gpu_milli_free[row, device] += sign * pod.gpu_milli
    nodes.pods_by_width[row, width(pod)] -= sign


@njit(cache=True, nogil=True)
def width(pod: PodNeeds) -> int:
    """0 for a pod that shares a device, else the number of devices it takes whole."""
    return pod.gpu_count if pod.gpu_milli >= MILLI else 0


@njit(cache=True, nogil=True)
def tightest_devices(gpu_milli_free: Int64s, pod: PodNeeds) -> int:
    """Bit mask of the gpu_count fitting devices with the least free, the lower index first."""
    chosen = 0
    for _ in range(pod.gpu_count):
        best = -1
        for device in range(MAX_DEVICES):
            free = gpu_milli_free[device]
            if free < pod.gpu_milli or (chosen >> device) & 1:
                continue
            if best < 0 or free < gpu_milli_free[best]:
                best = device
        chosen |= 1 << best
    return chosen
