"""Does a container want more memory than its GPU, or its part of one, has? Then an allocation fails, and with it the
process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fairway.cluster.devices import GPU_INDEX_ANNOTATION
from fairway.kube.integers import natural
from fairway.kube.objects import annotations_of
from fairway.twin.behaviour import Behaviour
from fairway.twin.kubelet.states import RUNNING, PodState

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

_MIB: Final = 1024**2
_PRODUCT: Final = "nvidia.com/gpu.product"
_MEMORY: Final = "nvidia.com/gpu.memory"
_MIG: Final = "nvidia.com/mig-"
_STRATEGY, _REPLICAS = "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas"
TIME_SLICING: Final = "time-slicing"
OUT_OF_MEMORY: Final = "RuntimeError: CUDA error: out of memory"


def card_bytes(labels: Mapping[str, Any], resources: Iterable[str]) -> int | None:
    """Memory of a GPU of this node, or of the MIG instance asked for; None where nobody says."""
    # Imported with the first container that is watched: few use GPU memory.
    from fairway.catalog.catalog import load_catalog

    model = load_catalog().gpu(str(labels.get(_PRODUCT) or ""))
    for name in resources:
        profile = model.profile(name) if model is not None and name.startswith(_MIG) else None
        if profile is not None:
            return profile.memory_bytes
    told = natural(labels.get(_MEMORY))
    whole = told * _MIB if told is not None else None if model is None else model.memory_bytes
    if whole is not None and labels.get(_STRATEGY) == "mps":
        # Each client may pin its part at most. Source: mps-control-daemon perDevicePinnedDeviceMemoryLimits.
        return whole // max(natural(labels.get(_REPLICAS)) or 1, 1)
    return whole


def taken_beside(k: Kubelet, pod: PodState) -> int:
    """Bytes that others may have of the card or instance that this pod shares with them in turns: what each says it
    uses at most. Memory is not divided there, so that who wants it when it is gone gets none."""
    node = k.nodes[pod.node]
    mine = devices_of(k, pod.uid) if node.labels.get(_STRATEGY) == TIME_SLICING else set()
    taken = 0
    for uid in node.pods if mine else ():
        other = k.pods[uid]
        if uid == pod.uid or not mine & devices_of(k, uid):
            continue
        i = other.plan.init_count
        if other.containers[i].state == RUNNING:
            taken += max((size for _, size in other.plan.behaviours[i].gpu_memory_bytes), default=0)
    return taken


def devices_of(k: Kubelet, uid: str) -> set[str]:
    """Cards and instances that it has, as they stand on the pod."""
    from fairway.catalog.nodegpus import INSTANCES

    pod = k.store.by_uid(uid)
    notes = {} if pod is None else annotations_of(pod)
    words = f"{notes.get(INSTANCES, '')},{notes.get(GPU_INDEX_ANNOTATION, '')}"
    return {word for word in words.split(",") if word}


def outgrown_us(behaviour: Behaviour, card: int | None) -> int | None:
    """How much work it has done when it first wants more than there is; None: never."""
    if card is None:
        return None
    return next((at_us for at_us, size in behaviour.gpu_memory_bytes if size > card), None)
