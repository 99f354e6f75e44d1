"""How much of the free GPU of a node can the expected workload not use?

The FGD paper's measure (Weng et al., USENIX ATC 2023, §3): draw a pod from the typical pods; on this node, which
free GPU-milli could it not use? All of them if the pod cannot run here, else those on devices with less
free than it asks per device. The expectation over the typical pods is the node's fragmentation, in
GPU-milli; the sum over nodes relative to all free GPU-milli is the cluster's fragmentation ratio.

A pod that asks for no GPU uses none of them, so its share of the typical pods always counts as lost: the
ratio of an empty cluster is the share of such pods.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from fairway.scheduling.gpushare.devices import MAX_DEVICES, Float64s, GpuNodes, Int64s

POPULARITY_PCT = 95  # the most popular shapes that make up this share of all pods are the typical ones
LACKS_BOTH, LACKS_GPU, SATISFIED, LACKS_CPU, NO_GPU_ASKED, NO_GPU_ASKED_LACKS_CPU, NO_ACCESS = range(7)
CAUSES = 7  # why free GPU-milli are lost; SATISFIED are those that are not


class TypicalPods(NamedTuple):
    """The expected workload, most popular shape first.

    cpu_milli, gpu_count, gpu_milli, gpu_models: int64[shape]; share: float64[shape], sums to 1
    level: int64[shape], index into `levels`
    levels: int64[level], the distinct gpu_milli
    """

    cpu_milli: Int64s
    gpu_count: Int64s
    gpu_milli: Int64s
    gpu_models: Int64s
    share: Float64s
    level: Int64s
    levels: Int64s


class Workspace(NamedTuple):
    """Scratch a kernel overwrites: reused, because an allocation costs more than a node's score.

    row: int64[8]; able, lost: int64[level]; amounts: float64[cause]
    """

    row: Int64s
    able: Int64s
    lost: Int64s
    amounts: Float64s


def workspace(typical: TypicalPods) -> Workspace:
    levels = len(typical.levels)
    return Workspace(
        np.zeros(MAX_DEVICES, np.int64), np.zeros(levels, np.int64), np.zeros(levels, np.int64), np.zeros(CAUSES)
    )


@njit(cache=True, nogil=True)
def node_amounts(nodes: GpuNodes, row: int, typical: TypicalPods, work: Workspace) -> int:
    """Write the node's free GPU-milli by cause into work.amounts; return how many are free."""
    for device in range(MAX_DEVICES):
        work.row[device] = nodes.gpu_milli_free[row, device]
    return amounts(nodes.cpu_milli_free[row], nodes.gpu_model[row], typical, work)


@njit(cache=True, nogil=True)
def amounts(cpu_milli_free: int, gpu_model: int, typical: TypicalPods, work: Workspace) -> int:
    """The same for a node with work.row free on its devices.

    Adds in the order of the typical pods: a policy that rounds scores down sees the last bit of these sums.
    """
    total = _count_levels(typical, work)
    out = work.amounts
    out[:] = 0.0
    for t in range(len(typical.share)):
        share = typical.share[t]
        enough_cpu = cpu_milli_free >= typical.cpu_milli[t]
        if typical.gpu_milli[t] == 0:
            out[NO_GPU_ASKED if enough_cpu else NO_GPU_ASKED_LACKS_CPU] += share * total
        elif (typical.gpu_models[t] >> gpu_model) & 1 == 0:
            out[NO_ACCESS] += share * total
        elif work.able[typical.level[t]] < typical.gpu_count[t]:
            out[LACKS_GPU if enough_cpu else LACKS_BOTH] += share * total
        elif enough_cpu:
            lost = work.lost[typical.level[t]]
            out[LACKS_GPU] += share * lost
            out[SATISFIED] += share * (total - lost)
        else:
            out[LACKS_CPU] += share * total
    return total


@njit(cache=True, nogil=True)
def _count_levels(typical: TypicalPods, work: Workspace) -> int:
    """Per level: devices with at least that much free, and the milli free on the others."""
    total = 0
    for device in range(MAX_DEVICES):
        total += work.row[device]
    for level in range(len(typical.levels)):
        need = typical.levels[level]
        able = 0
        lost = 0
        for device in range(MAX_DEVICES):
            free = work.row[device]
            if free >= need:
                able += 1
            else:
                lost += free
        work.able[level] = able
        work.lost[level] = lost
    return total


@njit(cache=True, nogil=True)
def lost_amount(work: Workspace) -> float:
    """Expected GPU-milli unusable: every cause but SATISFIED."""
    out = work.amounts
    return (
        out[LACKS_BOTH]
        + out[LACKS_GPU]
        + out[LACKS_CPU]
        + out[NO_GPU_ASKED]
        + out[NO_GPU_ASKED_LACKS_CPU]
        + out[NO_ACCESS]
    )
