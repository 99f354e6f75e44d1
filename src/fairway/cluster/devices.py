"""Which GPUs of a node does each pod hold, and how much of them?

A node that publishes `fairway.dev/gpu-milli` shares its GPUs in thousandths: a pod asks for part of one
device (`fairway.dev/gpu-milli: 460`) or for whole ones (`nvidia.com/gpu: 2`), and both come out of the same
devices. On such nodes every pod holds devices by index, written in its `fairway.dev/gpu-index` annotation when
it is bound. Nodes that do not share are not tracked: whole devices are interchangeable there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from fairway.cluster.records import PodRecord
from fairway.cluster.shapes import PodShape
from fairway.kube.integers import natural

Ints = npt.NDArray[np.int64]

GPU_INDEX_ANNOTATION: Final = "fairway.dev/gpu-index"
SINGLE_REQUESTS: Final = "fairway.dev/gpu-single-requests"
"""On a node: shared devices of which a container may ask for one only, separated by commas."""
GPU_FAULT: Final = "fairway.dev/gpu-fault"
"""On a node, or a ClusterPolicy: what is broken of NVIDIA's stack, separated by commas."""
MILLI: Final = 1000
# Devices of a node that can be shared. Source: a2-megagpu-16g holds 16, HGX servers and the trace 8.
MAX_DEVICES: Final = 16


class GpuDevices:
    """`free`: int64[row, 16], milli of each device; `count`: int64[row], devices of nodes that share, else 0."""

    def __init__(self) -> None:
        self.free: Ints = np.zeros((16, MAX_DEVICES), np.int64)
        self.count: Ints = np.zeros(16, np.int64)
        self.shared_rows = 0
        # What pods without an annotation were given, by UID: counted anew (relabelled, an undone deletion), they
        # hold what they held.
        self._given: dict[str, int] = {}

    def grow(self, rows: int) -> None:
        more = rows - len(self.count)
        self.free = np.concatenate([self.free, np.zeros((more, MAX_DEVICES), np.int64)])
        self.count = np.concatenate([self.count, np.zeros(more, np.int64)])

    def describe(self, row: int, devices: int) -> None:
        """Set how many devices a row shares (0: it does not). What pods hold stays taken."""
        before = int(self.count[row])
        devices = min(devices, MAX_DEVICES)
        if devices == before:
            return
        self.shared_rows += (devices > 0) - (before > 0)
        change = np.where(np.arange(MAX_DEVICES) < devices, MILLI, 0)
        change -= np.where(np.arange(MAX_DEVICES) < before, MILLI, 0)
        self.free[row] += change
        self.count[row] = devices

    def take(self, record: PodRecord, row: int) -> None:
        """Count the devices of a pod that asks for some; one that names none gets the tightest that fit."""
        shape = record.shape
        if not self.count[row]:
            return
        if not record.devices:
            given = self._given.get(record.uid, 0)
            free = self.free[row].tolist()
            is_free = given and all(free[i] >= shape.gpu_each for i in indexes(given))
            record.devices = given if is_free else self.tightest(row, shape)
            self._given[record.uid] = record.devices
        for device in indexes(record.devices):
            self.free[row, device] -= shape.gpu_each

    def give(self, record: PodRecord, row: int) -> None:
        """Undo `take`."""
        if not self.count[row]:
            return
        for device in indexes(record.devices):
            self.free[row, device] += record.shape.gpu_each

    def tightest(self, row: int, shape: PodShape) -> int:
        """Bit mask of the fitting devices with the least free, lower index first; 0 where too few fit."""
        free = self.free[row].tolist()
        fitting = sorted((f, i) for i, f in enumerate(free[: int(self.count[row])]) if f >= shape.gpu_each)
        if len(fitting) < shape.gpu_count:
            return 0
        return sum(1 << i for _, i in fitting[: shape.gpu_count])

    def short(self, shape: PodShape, rows: Ints | slice) -> npt.NDArray[np.bool_]:
        """bool[rows]: the node shares GPUs and has too few devices with enough free."""
        able = (self.free[rows] >= max(shape.gpu_each, 1)).sum(axis=1)
        return np.asarray((self.count[rows] > 0) & (able < shape.gpu_count), np.bool_)

    def copy(self) -> GpuDevices:
        twin = GpuDevices()
        twin.free, twin.count = self.free.copy(), self.count.copy()
        twin.shared_rows = self.shared_rows
        twin._given = dict(self._given)
        return twin


def indexes(devices: int) -> list[int]:
    """The set bits: 0b101 → [0, 2]."""
    return [i for i in range(MAX_DEVICES) if devices >> i & 1]


def annotation_of(devices: int) -> str:
    """0b101 → `0,2`."""
    return ",".join(str(i) for i in indexes(devices))


def devices_of(annotations: Mapping[str, str] | None) -> int:
    """The bit mask a pod's annotation names; 0 without one, or where it is not a list of indexes."""
    text = annotations.get(GPU_INDEX_ANNOTATION) if annotations else None
    if not text:
        return 0
    numbers = {natural(part.strip()) for part in text.split(",") if part.strip()}
    if any(n is None or n >= MAX_DEVICES for n in numbers):
        return 0
    return sum(1 << n for n in numbers if n is not None)
