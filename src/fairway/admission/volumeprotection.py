"""StorageObjectInUseProtection: claims and volumes do not go while they are used.

Source: plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go (v1.36).
"""

from __future__ import annotations

from fairway.kube.objects import Obj, meta_of

# Resource → the finalizer it is created with; a controller lifts it.
FINALIZERS = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
}


def guarded(obj: Obj, resource: str) -> Obj:
    """The object with its finalizer."""
    meta, finalizer = meta_of(obj), FINALIZERS[resource]
    finalizers = meta.get("finalizers") or []
    if finalizer in finalizers:
        return obj
    return {**obj, "metadata": {**meta, "finalizers": [*finalizers, finalizer]}}
