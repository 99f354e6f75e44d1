"""PersistentVolumes, and the classes and nodes of storage.

Source: pkg/apis/core/validation ValidatePersistentVolume…; pkg/apis/storage/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.internals import Typed, difference
from fairway.kube.objects import Obj, name_of, spec_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import resources, texts
from fairway.kube.validation.kinds.claims import VOLUME_MODES, access_modes
from fairway.kube.validation.kinds.metadata import object_meta, object_meta_update
from fairway.kube.validation.kinds.projections import token_seconds
from fairway.kube.validation.kinds.sameness import IMMUTABLE, immutable, is_same
from fairway.kube.validation.kinds.selectors import label_selector_of, node_selector, shown
from fairway.kube.validation.kinds.volumes import csi_driver_name, persistent_source

Part = Mapping[str, Any]
_RECLAIM = ("Delete", "Recycle", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")
_INLINE = "may not be specified in the context of inline volumes"
_EXACTLY_ONE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
_NOT_SOURCES = (
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
)
_MAX_BYTES = 256 * 1024


def volume(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False, core=True)
    _volume_spec(spec_of(obj), name_of(obj), ("spec",), out)


def _volume_spec(spec: Part, name: str, at: Path, out: Faults, *, inline: bool = False) -> None:
    """`inline`: within a VolumeAttachment."""
    if inline:
        for member in ("claimRef", "capacity"):
            if spec.get(member):
                out.forbidden((*at, member), _INLINE)
        if spec.get("csi") is None:
            out.required((*at, "csi"), "has to be specified in the context of inline volumes")
    if not spec.get("accessModes"):
        out.required((*at, "accessModes"))
    access_modes(spec.get("accessModes"), (*at, "accessModes"), out)
    if not inline:
        _capacity(spec.get("capacity"), (*at, "capacity"), out)
    _reclaim(
        spec.get("persistentVolumeReclaimPolicy"), (*at, "persistentVolumeReclaimPolicy"), out, inline=inline
    )
    affinity = spec.get("nodeAffinity")
    if affinity is not None and inline:
        out.forbidden((*at, "nodeAffinity"), _INLINE)
    elif affinity is not None and affinity.get("required") is not None:
        node_selector(affinity["required"], (*at, "nodeAffinity", "required"), out)
    elif affinity is not None:
        out.required((*at, "nodeAffinity", "required"), "must specify required node constraints")
    persistent_source(spec, name, at, out, has_affinity=affinity is not None)
    host = (spec.get("hostPath") or {}).get("path") or ""
    is_root = host.startswith("/") and not host.replace("/", "").replace(".", "")
    if is_root and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        said = "may not be 'recycle' for a hostPath mount of '/'"
        out.forbidden((*at, "persistentVolumeReclaimPolicy"), said)
    _class_and_mode(spec, at, out, inline=inline)


def _capacity(capacity: Part | None, at: Path, out: Faults) -> None:
    if not capacity:
        out.required(at)
    if "storage" not in (capacity or {}) or len(capacity or {}) > 1:
        out.unsupported(at, capacity, ("storage",))
    for name, value in (capacity or {}).items():
        resources.basic(value, (*at, MapKey(name)), out)
        resources.positive(value, (*at, MapKey(name)), out)


def _reclaim(policy: str | None, at: Path, out: Faults, *, inline: bool) -> None:
    if inline and policy and policy != "Retain":
        out.forbidden(at, "may only be Retain in the context of inline volumes")
    elif policy and not inline and policy not in _RECLAIM:
        out.unsupported(at, policy, _RECLAIM)


def _class_and_mode(spec: Part, at: Path, out: Faults, *, inline: bool) -> None:
    name, mode, attributes = (
        spec.get(m) for m in ("storageClassName", "volumeMode", "volumeAttributesClassName")
    )
    if name and inline:
        out.forbidden((*at, "storageClassName"), _INLINE)
    elif name:
        texts.dns_subdomain(name, (*at, "storageClassName"), out)
    if mode is not None and inline and mode != "Filesystem":
        said = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        out.forbidden((*at, "volumeMode"), said)
    elif mode is not None and not inline and mode not in VOLUME_MODES:
        out.unsupported((*at, "volumeMode"), mode, VOLUME_MODES)
    if attributes is not None and not inline:
        if not attributes:
            out.required((*at, "volumeAttributesClassName"), "an empty string is disallowed")
        else:
            texts.dns_subdomain(attributes, (*at, "volumeAttributesClassName"), out)
        if spec.get("csi") is None:
            out.required((*at, "csi"), "has to be specified when using volumeAttributesClassName")


def volume_update(new: Obj, old: Obj, out: Faults) -> None:
    volume(new, out)
    spec, before = spec_of(new), spec_of(old)
    now, then = ({k: v for k, v in s.items() if k not in _NOT_SOURCES} for s in (spec, before))
    if then.get("csi") and then["csi"].get("controllerExpandSecretRef") is None and now.get("csi"):
        now["csi"] = {k: v for k, v in now["csi"].items() if k != "controllerExpandSecretRef"}
    if not is_same(now, then):
        kind = "core.PersistentVolumeSource"
        found = difference(Typed(kind, then), Typed(kind, now))
        said = f"spec.persistentvolumesource is immutable after creation\n{found}"
        out.forbidden(("spec", "persistentvolumesource"), said)
    immutable(spec.get("volumeMode"), before.get("volumeMode"), ("volumeMode",), out)
    affinity = spec.get("nodeAffinity")
    if before.get("nodeAffinity") is not None and not is_same(affinity, before["nodeAffinity"]):
        said = f"{IMMUTABLE}, except for updating from beta label to GA"
        out.invalid(("nodeAffinity",), Typed("*core.VolumeNodeAffinity", affinity), said)
    if before.get("volumeAttributesClassName") is not None and spec.get("volumeAttributesClassName") is None:
        out.forbidden(("spec", "volumeAttributesClassName"), "update from non-nil value to nil is forbidden")


def storage_class(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False)
    _provisioner(obj.get("provisioner") or "", ("provisioner",), out)
    _parameters(obj.get("parameters"), out, may_be_empty=True)
    policy, mode = obj.get("reclaimPolicy"), obj.get("volumeBindingMode")
    if policy and policy not in ("Delete", "Retain"):
        out.unsupported(("reclaimPolicy",), policy, ("Delete", "Retain"))
    if mode is not None and mode not in _BINDING:
        out.unsupported(("volumeBindingMode",), mode, _BINDING)
    _topologies(obj.get("allowedTopologies") or (), out)


def _provisioner(name: str, at: Path, out: Faults) -> None:
    if not name:
        out.required(at)
    else:
        out.invalids(at, name.lower(), names.label_key(name.lower()))


def _parameters(found: Mapping[str, str] | None, out: Faults, *, may_be_empty: bool) -> None:
    at, parameters = ("parameters",), found or {}
    if len(parameters) > 512:
        out.too_long(at, 512)
        return
    if "" in parameters:
        out.invalid(at, "", "field can not be empty.")
    if sum(len(key.encode()) + len((value or "").encode()) for key, value in parameters.items()) > _MAX_BYTES:
        out.too_long(at, _MAX_BYTES)
    if not may_be_empty and not parameters:
        out.required(at, "must contain at least one key/value pair")


def _topologies(terms: Sequence[Part], out: Faults) -> None:
    seen_terms: list[dict[str, frozenset[str]]] = []
    for number, term in enumerate(terms):
        at, keys = ("allowedTopologies", number, "matchLabelExpressions"), {}
        for index, expression in enumerate(term.get("matchLabelExpressions") or ()):
            where, key, values = (*at, index), expression.get("key") or "", expression.get("values") or ()
            if not values:
                out.required((*where, "values"))
            for place, value in enumerate(values):
                if value in values[:place]:
                    out.duplicate((*where, "values", place), value)
            texts.qualified_name(key, (*where, "key"), out)
            if key in keys:
                out.duplicate((*where, "key"), key)
            keys[key] = frozenset(values)
        if keys in seen_terms:
            out.duplicate(at, "")
        seen_terms.append(keys)


def storage_class_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out)
    for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        immutable(new.get(name), old.get(name), (name,), out)


def attributes_class(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False)
    _provisioner(obj.get("driverName") or "", ("driverName",), out)
    _parameters(obj.get("parameters"), out, may_be_empty=False)


def attributes_class_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out)
    for name in ("driverName", "parameters"):
        if not is_same(new.get(name), old.get(name)):
            out.forbidden((name,), f"updates to {name} are forbidden.")
    attributes_class(new, out)


def attachment(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False)
    spec, at = spec_of(obj), ("spec",)
    csi_driver_name(spec.get("attacher") or "", (*at, "attacher"), out)
    source, where = spec.get("source") or {}, (*at, "source")
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        out.required(where, _EXACTLY_ONE)
    elif inline is not None and name is not None:
        out.forbidden(where, _EXACTLY_ONE)
    elif inline is not None:
        _volume_spec(inline, "", (*where, "inlineVolumeSpec"), out, inline=True)
    elif not name:
        out.required((*where, "persistentVolumeName"), "must specify non empty persistentVolumeName")
    texts.dns_subdomain(spec.get("nodeName") or "", (*at, "nodeName"), out)
    if name is not None:
        texts.dns_subdomain(name, ("spec.source.persistentVolumeName",), out)


def attachment_update(new: Obj, old: Obj, out: Faults) -> None:
    attachment(new, out)
    immutable(spec_of(new), spec_of(old), ("spec",), out, Typed("storage.VolumeAttachmentSpec", spec_of(new)))


def csi_node(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False)
    seen = set()
    for index, driver in enumerate(spec_of(obj).get("drivers") or ()):
        at, name, node = ("spec", "drivers", index), driver.get("name") or "", driver.get("nodeID") or ""
        csi_driver_name(name, (*at, "name"), out)
        if not node:
            out.required((*at, "nodeID"))
        elif len(node) > 256:
            out.invalid((*at, "nodeID"), node, "must be 256 characters or less")
        out.negative((*at, "allocatable", "count"), (driver.get("allocatable") or {}).get("count"))
        if name in seen:
            out.duplicate((*at, "name"), name)
        seen.add(name)
        keys = driver.get("topologyKeys") or ()
        for place, key in enumerate(keys):
            if not key:
                out.required(at)
            if key in keys[:place]:
                out.duplicate(at, key)
            texts.qualified_name(key, at, out)


def csi_node_update(new: Obj, old: Obj, out: Faults) -> None:
    csi_node(new, out)
    for before in spec_of(old).get("drivers") or ():
        for driver in spec_of(new).get("drivers") or ():
            if driver.get("name") == before.get("name"):
                now, then = ({k: v for k, v in d.items() if k != "allocatable"} for d in (driver, before))
                immutable(now, then, ("spec", "drivers"), out, Typed("storage.CSINodeDriver", now))


def csi_driver(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False)
    _csi_driver_spec(spec_of(obj), out)


def _csi_driver_spec(spec: Part, out: Faults) -> None:
    at, policy = ("spec",), spec.get("fsGroupPolicy")
    known = ("File", "None", "ReadWriteOnceWithFSType")
    if policy is not None and policy not in known:
        out.unsupported((*at, "fsGroupPolicy"), policy, known)
    seen = set()
    for index, request in enumerate(spec.get("tokenRequests") or ()):
        where, audience = (*at, "tokenRequests", index), request.get("audience") or ""
        if audience in seen:
            out.duplicate((*where, "audience"), audience)
            continue
        seen.add(audience)
        if request.get("expirationSeconds") is not None:
            token_seconds(request["expirationSeconds"], (*where, "expirationSeconds"), out)
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in ("Persistent", "Ephemeral"):
            out.unsupported((*at, "volumeLifecycleModes"), mode, ("Persistent", "Ephemeral"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        said = "must be greater than or equal to 10 seconds"
        out.invalid((*at, "nodeAllocatableUpdatePeriodSeconds"), period, said)
    secrets = spec.get("serviceAccountTokenInSecrets")
    if secrets is not None and not spec.get("tokenRequests"):
        said = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        out.invalid((*at, "serviceAccountTokenInSecrets"), secrets, said)


def csi_driver_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out)
    spec, before = spec_of(new), spec_of(old)
    _csi_driver_spec(spec, out)
    for name, said in (
        ("attachRequired", "attachedRequired"),
        ("volumeLifecycleModes", "volumeLifecycleModes"),
    ):
        immutable(spec.get(name), before.get(name), ("spec", said), out)


def storage_capacity(obj: Obj, out: Faults) -> None:
    object_meta(obj, out)
    label_selector_of(obj.get("nodeTopology"), ("nodeTopology",), out)
    texts.dns_subdomain(obj.get("storageClassName") or "", ("storageClassName",), out)
    if obj.get("capacity") is not None:
        resources.not_negative(obj["capacity"], ("capacity",), out)


def storage_capacity_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out)
    immutable(
        new.get("nodeTopology"),
        old.get("nodeTopology"),
        ("nodeTopology",),
        out,
        shown(new.get("nodeTopology")),
    )
    immutable(new.get("storageClassName"), old.get("storageClassName"), ("storageClassName",), out)
