"""Runs that share a card in turns or by MPS slow each other: how much, whenever one of them begins or ends.

What each could use of the card is its `fairway.dev/gpu-utilization` at the most (without one: all of it). The model is
`devices.interference.paces`; whole cards and MIG instances of one's own are left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairway.twin.kubelet import slowing
from fairway.twin.kubelet.gpumemory import devices_of
from fairway.twin.kubelet.states import RUNNING, NodeState, PodState

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"
SHARING: Final = ("time-slicing", "mps")


def repace(k: Kubelet, node: NodeState, pod: PodState, *, is_over: bool) -> None:
    """A pod's run on this node begins or ends: everybody who shares a card with it goes on at a new pace."""
    from fairway.devices.interference import paces

    mine = devices_of(k, pod.uid)
    if not mine:
        return
    for device in sorted(mine):
        beside = [k.pods[uid] for uid in node.pods if device in devices_of(k, uid)]
        tenants = [p for p in beside if _runs(p) and not (is_over and p is pod)]
        found = paces([_share(p) for p in tenants], node.labels.get(STRATEGY, ""))
        for tenant, pace in zip(tenants, found, strict=True):
            _go_on(k, tenant, round(pace * 1000))


def _runs(pod: PodState) -> bool:
    state = pod.containers[pod.plan.init_count]
    return state.state == RUNNING and not pod.is_lost


def _share(pod: PodState) -> float:
    said = pod.plan.behaviours[pod.plan.init_count].gpu_utilization_milli
    return max((milli for _, milli in said), default=1000) / 1000


def _go_on(k: Kubelet, pod: PodState, pace_milli: int) -> None:
    before = pod.pace_milli
    if pace_milli != before and slowing.stretch(k, pod, pace_milli * 1000 // before):
        pod.pace_milli = pace_milli
