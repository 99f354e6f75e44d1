"""FGD: the node and device whose fragmentation grows least.

Fragmentation gradient descent (Weng et al., USENIX ATC 2023): place the pod in thought, measure the node's
fragmentation before and after, and take the steepest descent. Which device a sharing pod gets is part of
the search; a pod that takes whole devices gets the first free ones.
"""

from math import exp

from numba import njit

from fairway.scheduling.gpushare.devices import MAX_DEVICES, MILLI, GpuNodes, PodNeeds, tightest_devices
from fairway.scheduling.gpushare.fragmentation import TypicalPods, Workspace, amounts, lost_amount, node_amounts


@njit(cache=True, nogil=True)
def score(nodes: GpuNodes, row: int, pod: PodNeeds, typical: TypicalPods, work: Workspace) -> int:
    """0 … 100, 50 for no change: the best over the devices the pod could get."""
    return score_and_devices(nodes, row, pod, typical, work)[0]


@njit(cache=True, nogil=True)
def score_and_devices(
    nodes: GpuNodes, row: int, pod: PodNeeds, typical: TypicalPods, work: Workspace
) -> tuple[int, int]:
    """The score and the bit mask of the devices that earn it. The pod fits."""
    node_amounts(nodes, row, typical, work)
    before = lost_amount(work)
    if pod.gpu_count != 1 or pod.gpu_milli >= MILLI:
        devices = tightest_devices(nodes.gpu_milli_free[row], pod)
        return descent(before, lost_after(nodes, row, pod, devices, typical, work)), devices
    best, chosen = -1, 0
    for device in range(MAX_DEVICES):
        free = nodes.gpu_milli_free[row, device]
        if free < pod.gpu_milli or _seen_before(nodes, row, device):
            continue
        points = descent(before, lost_after(nodes, row, pod, 1 << device, typical, work))
        if points > best:
            best, chosen = points, 1 << device
    return best, chosen


@njit(cache=True, nogil=True)
def descent(before: float, after: float) -> int:
    """The drop of the fragmentation, in whole GPUs, squashed into 0 … 100 and rounded down."""
    return int(1.0 / (1.0 + exp(-(before - after) / 1000.0)) * 100.0)


@njit(cache=True, nogil=True)
def lost_after(
    nodes: GpuNodes, row: int, pod: PodNeeds, devices: int, typical: TypicalPods, work: Workspace
) -> float:
    """The node's fragmentation if the pod ran on these devices."""
    for device in range(MAX_DEVICES):
        taken = pod.gpu_milli if (devices >> device) & 1 else 0
        work.row[device] = nodes.gpu_milli_free[row, device] - taken
    amounts(nodes.cpu_milli_free[row] - pod.cpu_milli, nodes.gpu_model[row], typical, work)
    return lost_amount(work)


@njit(cache=True, nogil=True)
def _seen_before(nodes: GpuNodes, row: int, device: int) -> bool:
    """A lower device with as much free would leave the same node, and wins the tie."""
    for lower in range(device):
        if nodes.gpu_milli_free[row, lower] == nodes.gpu_milli_free[row, device]:
            return True
    return False
