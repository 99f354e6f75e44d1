"""Lines of volumes, claims, storage classes and CSI objects.

Source: pkg/printers/internalversion/printers.go; pkg/apis/core/helper (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.apiserver.tables.wording import NONE, UNSET, age, name
from fairway.kube.objects import Obj, annotations_of, meta_of, spec_of, status_of

VOLUME = (
    "Name:name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass |"
    " VolumeAttributesClass | Reason | Age | VolumeMode*"
)
CLAIM = (
    "Name:name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age |"
    " VolumeMode*"
)
CLASS = "Name:name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age"
ATTRIBUTES_CLASS = "Name:name | DriverName | Age"
ATTACHMENT = "Name:name | Attacher:name | PV | Node | Attached:boolean | Age"
CSI_NODE = "Name:name | Drivers:integer | Age"
CSI_DRIVER = (
    "Name:name | AttachRequired:boolean | PodInfoOnMount:boolean | StorageCapacity:boolean | TokenRequests |"
    " RequiresRepublish:boolean | Modes | Age"
)
CSI_CAPACITY = "Name:name | StorageClassName | Capacity"

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _modes(modes: list[str] | None) -> str:
    """In this order, whatever order they were given in."""
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _phase(obj: Obj) -> str:
    return "Terminating" if "deletionTimestamp" in meta_of(obj) else status_of(obj).get("phase") or ""


def _class_of(obj: Obj) -> str:
    annotated: str | None = annotations_of(obj).get("volume.beta.kubernetes.io/storage-class")
    return spec_of(obj).get("storageClassName") or "" if annotated is None else annotated


def volume(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    claim = spec.get("claimRef")
    return [
        name(obj),
        str((spec.get("capacity") or {}).get("storage", "0")),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class_of(obj),
        spec.get("volumeAttributesClassName") or UNSET,
        status_of(obj).get("reason") or "",
        age(obj, now_us),
        spec.get("volumeMode") or UNSET,
    ]


def claim(obj: Obj, now_us: int) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    is_bound = bool(spec.get("volumeName"))
    return [
        name(obj),
        _phase(obj),
        spec.get("volumeName") or "",
        str((status.get("capacity") or {}).get("storage", "0")) if is_bound else "",
        _modes(status.get("accessModes")) if is_bound else "",
        _class_of(obj),
        spec.get("volumeAttributesClassName") or UNSET,
        age(obj, now_us),
        spec.get("volumeMode") or UNSET,
    ]


def storage_class(obj: Obj, now_us: int) -> list[Any]:
    is_default = any(annotations_of(obj).get(key) == "true" for key in _DEFAULT_CLASS)
    return [
        name(obj) + (" (default)" if is_default else ""),
        obj.get("provisioner") or "",
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now_us),
    ]


def attributes_class(obj: Obj, now_us: int) -> list[Any]:
    return [name(obj), obj.get("driverName") or "", age(obj, now_us)]


def attachment(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    return [
        name(obj),
        spec.get("attacher") or "",
        (spec.get("source") or {}).get("persistentVolumeName") or "",
        spec.get("nodeName") or "",
        bool(status_of(obj).get("attached")),
        age(obj, now_us),
    ]


def csi_node(obj: Obj, now_us: int) -> list[Any]:
    return [name(obj), len(spec_of(obj).get("drivers") or ()), age(obj, now_us)]


def csi_driver(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    tokens = spec.get("tokenRequests")
    return [
        name(obj),
        spec.get("attachRequired", True),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        UNSET if tokens is None else ",".join(t.get("audience", "") for t in tokens),
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age(obj, now_us),
    ]


def csi_capacity(obj: Obj, _now_us: int) -> list[Any]:
    return [name(obj), obj.get("storageClassName") or "", str(obj.get("capacity", UNSET))]
