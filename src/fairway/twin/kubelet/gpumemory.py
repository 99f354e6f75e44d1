"""Does a container want more memory than its GPU has? Then an allocation fails, and with it the process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairway.kube.integers import natural
from fairway.twin.behaviour import Behaviour

_MIB: Final = 1024**2
_PRODUCT: Final = "nvidia.com/gpu.product"
_MEMORY: Final = "nvidia.com/gpu.memory"
_MIG: Final = "nvidia.com/mig-"
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
    if told is not None:
        return told * _MIB
    return None if model is None else model.memory_bytes


def outgrown_us(behaviour: Behaviour, card: int | None) -> int | None:
    """How much work it has done when it first wants more than there is; None: never."""
    if card is None:
        return None
    return next((at_us for at_us, size in behaviour.gpu_memory_bytes if size > card), None)
