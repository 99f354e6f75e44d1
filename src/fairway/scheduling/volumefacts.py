"""What is asked of claims and volumes again and again: which of them go together, and which are free.

Which claims a pod uses: `kube.volumes`. Source: k8s.io/component-helpers/storage/volume (pv_helpers.go) (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairway.cluster.actions import View
from fairway.kube import quantity
from fairway.kube.labels import label_selector
from fairway.kube.objects import Key, Obj, labels_of, meta_of, name_of, spec_of
from fairway.kube.volumes import CLASS, VOLUME

CSI_NODE: Final = "CSINode.storage.k8s.io"
BOUND_BY_US: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_LATER = "WaitForFirstConsumer"


def class_of(view: View, claim: Obj) -> Obj | None:
    name = spec_of(claim).get("storageClassName")
    return view.get(Key(CLASS, "", name)) if name else None


def waits_for_consumer(storage_class: Obj | None) -> bool:
    return storage_class is not None and storage_class.get("volumeBindingMode") == _LATER


def is_of(reference: Mapping[str, Any], claim: Obj) -> bool:
    """Whether a volume's claimRef means this claim."""
    meta = claim["metadata"]
    if (reference.get("namespace"), reference.get("name")) != (meta["namespace"], meta["name"]):
        return False
    return reference.get("uid") in (None, "", meta["uid"])


def fits(volume: Obj, claim: Obj) -> bool:
    """Whether a volume would do for a claim, whoever has it now: class, mode, access modes, selector, size."""
    wanted, has = spec_of(claim), spec_of(volume)
    if (wanted.get("storageClassName") or "") != (has.get("storageClassName") or ""):
        return False
    if (wanted.get("volumeMode") or "Filesystem") != (has.get("volumeMode") or "Filesystem"):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(has.get("accessModes") or ()):
        return False
    selector = wanted.get("selector")
    if selector and not label_selector(selector).matches(labels_of(volume)):
        return False
    return capacity(volume) >= asked(claim)


def candidates(view: View, claim: Obj) -> list[Obj]:
    """The volume that is bound to it beforehand; else those that are free. Source: FindMatchingVolume."""
    for volume in view.objects(VOLUME):
        if is_of(spec_of(volume).get("claimRef") or {}, claim) and "deletionTimestamp" not in meta_of(volume):
            return [volume]
    return free_volumes(view, claim)


def free_volumes(view: View, claim: Obj) -> list[Obj]:
    """Volumes that nobody has and that would do, the smallest first, then by name."""
    found = [
        volume
        for volume in view.objects(VOLUME)
        if "deletionTimestamp" not in meta_of(volume)
        and spec_of(volume).get("claimRef") is None
        and fits(volume, claim)
    ]
    return sorted(found, key=lambda v: (capacity(v), name_of(v)))


def capacity(volume: Obj) -> int:
    """Bytes."""
    return quantity.whole_ceil((spec_of(volume).get("capacity") or {}).get("storage") or "0")


def asked(claim: Obj) -> int:
    """Bytes."""
    return quantity.whole_ceil(
        ((spec_of(claim).get("resources") or {}).get("requests") or {}).get("storage") or "0"
    )
