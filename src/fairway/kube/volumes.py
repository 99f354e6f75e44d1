"""Which claims does a pod use, and how far is their binding? For who places pods, and who opens nodes for them.

Source: k8s.io/component-helpers/storage/volume (pv_helpers.go), storage/ephemeral (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairway.kube.objects import Obj, annotations_of, name_of, spec_of, status_of

CLAIM: Final = "PersistentVolumeClaim"
VOLUME: Final = "PersistentVolume"
CLASS: Final = "StorageClass.storage.k8s.io"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"

ClaimName = tuple[str, bool]
"""A claim by its name; or, true, by the name of the ephemeral volume it is made for."""


def claim_names(spec: Mapping[str, Any]) -> tuple[ClaimName, ...]:
    """The claims that a pod's spec names."""
    found: list[ClaimName] = []
    for volume in spec.get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            found.append((str(volume["persistentVolumeClaim"].get("claimName") or ""), False))
        elif volume.get("ephemeral"):
            found.append((str(volume.get("name") or ""), True))
    return tuple(found)


def name_for(pod: str, name: str, is_ephemeral: bool) -> str:
    """A claim's own name: one made for an ephemeral volume is named after the pod and the volume."""
    return f"{pod}-{name}" if is_ephemeral else name


def claims_of(pod: Obj) -> list[str]:
    """The claims a pod uses, by their own names."""
    return [name_for(name_of(pod), name, own) for name, own in claim_names(spec_of(pod))]


def is_fully_bound(claim: Obj) -> bool:
    return bool(spec_of(claim).get("volumeName")) and BIND_COMPLETED in annotations_of(claim)


def is_lost(claim: Obj) -> bool:
    return status_of(claim).get("phase") == "Lost"
