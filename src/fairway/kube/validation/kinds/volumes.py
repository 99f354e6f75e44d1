"""Volumes of pods and persistent volumes: the sources, their fields, and that there is one of them.

Source: pkg/apis/core/validation/validation.go ValidateVolumes, validateVolumeSource, ValidatePersistentVolumeSpec
(v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairway.kube import names, quantity
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts
from fairway.kube.validation.kinds.claims import claim_template
from fairway.kube.validation.kinds.env import field_reference, resource_reference
from fairway.kube.validation.kinds.projections import projected
from fairway.kube.validation.kinds.texts import one_of

Source = Mapping[str, Any]
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_PARTITION = "must be between 1 and 255, inclusive"
_LUN = "must be between 0 and 255, inclusive"
_HOST_PATHS = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_INITIATORS = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9.-]+)(:[^,;*&$|\s]+)$"),
    "eui": re.compile(r"^eui.[a-zA-Z0-9]{16}$"),
    "naa": re.compile(r"^naa.[a-zA-Z0-9]{32}$"),
}
_TOO_LONG_PORTAL = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
    "specified."
)
_HOST_PORT = "must be a host:port pair or multiple pairs separated by commas"


def pod_volumes(volumes: Sequence[Source], pod: str | None, at: Path, out: Faults) -> dict[str, Source]:
    """The volumes without faults by name. `pod`: its name, None for a template."""
    fine: dict[str, Source] = {}
    made = {f"{pod}-{v.get('name') or ''}" for v in volumes if pod and v.get("ephemeral") is not None}
    for index, volume in enumerate(volumes):
        where, before, name = (*at, index), len(out), volume.get("name") or ""
        _pod_source(volume, name, pod, where, out)
        if not name:
            out.required((*where, "name"))
        else:
            texts.dns_label(name, (*where, "name"), out)
        if name in fine:
            out.duplicate((*where, "name"), name)
        if len(out) == before:
            fine[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in made:
            said = "must not reference a PVC that gets created for an ephemeral volume"
            out.invalid((*where, "persistentVolumeClaim", "claimName"), claim, said)
    return fine


def _pod_source(volume: Source, name: str, pod: str | None, at: Path, out: Faults) -> None:
    count = 0
    for member, (shown, check, refused) in _OF_PODS.items():
        source = volume.get(member)
        if source is None:
            continue
        if count:
            out.forbidden((*at, refused or member), "may not specify more than 1 volume type")
        else:
            count = 1
            if member == "image" and pod is not None and not source.get("reference"):
                out.required((*at, "image", "reference"))
            check(source, (*at, shown or member), out)
            if member == "ephemeral" and pod and name:
                claim = f"{pod}-{name}"
                said = [f'PVC name "{claim}": {why}' for why in names.dns_subdomain(claim)]
                out.invalids((*at, "name"), name, said)
        if member == "iscsi" and _is_long_portal(source, name):
            out.invalid((*at, "name"), name, _TOO_LONG_PORTAL)
    if not count:
        out.required(at, "must specify a volume type")


def persistent_source(spec: Source, name: str, at: Path, out: Faults, *, has_affinity: bool) -> None:
    """The source of a PersistentVolume."""
    count = 0
    for member, (shown, check, refused) in _OF_PERSISTENT_VOLUMES.items():
        source = spec.get(member)
        if source is None:
            continue
        if count and member != "flexVolume":
            out.forbidden((*at, refused or member), "may not specify more than 1 volume type")
            continue
        count = 1
        if member == "iscsi" and _is_long_portal(source, name):
            portal = source.get("targetPortal") or ""
            out.invalid((*at, "iscsi", "targetportal"), portal, _TOO_LONG_PORTAL)
        check(source, (*at, shown or member), out)
        if member == "local" and not has_affinity:
            out.required((*at, "nodeAffinity"), "Local volume requires node affinity")
    if not count:
        out.required(at, "must specify a volume type")


def _is_long_portal(source: Source, volume: str) -> bool:
    return (
        source.get("initiatorName") is not None and len(f"{volume}:{source.get('targetPortal') or ''}") > 64
    )


def _wants(*members: str) -> Callable[[Source, Path, Faults], None]:
    """A source with members that must be set."""

    def check(source: Source, at: Path, out: Faults) -> None:
        for member in members:
            if not source.get(member):
                out.required((*at, member))

    return check


def mode(value: int | None, at: Path, out: Faults) -> None:
    if value is not None and not 0 <= value <= 0o777:
        out.invalid(at, value, _MODE)


def _empty_dir(source: Source, at: Path, out: Faults) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and quantity.of(limit) < 0:
        out.forbidden((*at, "sizeLimit"), "SizeLimit field must be a valid resource quantity")


def _host_path(source: Source, at: Path, out: Faults) -> None:
    if not source.get("path"):
        out.required((*at, "path"))
        return
    texts.path_without_backsteps(source["path"], (*at, "path"), out)
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATHS:
        out.unsupported((*at, "type"), kind, _HOST_PATHS)


def _git_repo(source: Source, at: Path, out: Faults) -> None:
    _wants("repository")(source, at, out)
    texts.descending_path(source.get("directory") or "", (*at, "directory"), out)


def _disk(member: str) -> Callable[[Source, Path, Faults], None]:
    def check(source: Source, at: Path, out: Faults) -> None:
        _wants(member)(source, at, out)
        partition = source.get("partition") or 0
        if not 0 <= partition <= 255:
            out.invalid((*at, "partition"), partition, _PARTITION)

    return check


def _secret(source: Source, at: Path, out: Faults) -> None:
    _wants("secretName")(source, at, out)
    _items(source, at, out)


def _config_map(source: Source, at: Path, out: Faults) -> None:
    _wants("name")(source, at, out)
    _items(source, at, out)


def _items(source: Source, at: Path, out: Faults) -> None:
    mode(source.get("defaultMode"), (*at, "defaultMode"), out)
    for index, item in enumerate(source.get("items") or ()):
        key_to_path(item, (*at, "items", index), out)


def key_to_path(item: Source, at: Path, out: Faults) -> None:
    _wants("key", "path")(item, at, out)
    texts.local_path(item.get("path") or "", (*at, "path"), out)
    mode(item.get("mode"), (*at, "mode"), out)


def downward_file(item: Source, at: Path, out: Faults) -> None:
    """Upstream names the volume, not the item."""
    _wants("path")(item, at, out)
    texts.local_path(item.get("path") or "", (*at, "path"), out)
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        field_reference(field, (*at, "fieldRef"), out, of_volume=True)
        if resource is not None:
            out.invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif resource is not None:
        resource_reference(resource, (*at, "resourceFieldRef"), out, of_volume=True)
    else:
        out.required(at, "one of fieldRef and resourceFieldRef is required")
    mode(item.get("mode"), (*at, "mode"), out)


def _downward(source: Source, at: Path, out: Faults) -> None:
    mode(source.get("defaultMode"), (*at, "defaultMode"), out)
    for item in source.get("items") or ():
        downward_file(item, at, out)


def _projected(source: Source, at: Path, out: Faults) -> None:
    mode(source.get("defaultMode"), (*at, "defaultMode"), out)
    projected(source, at, out, key_to_path, downward_file)


def _nfs(source: Source, at: Path, out: Faults) -> None:
    _wants("server", "path")(source, at, out)
    if not (source.get("path") or "").startswith("/"):
        out.invalid((*at, "path"), source.get("path") or "", "must be an absolute path")


def _iscsi(source: Source, at: Path, out: Faults) -> None:
    _iscsi_of(source, at, out, "must be valid format starting with iqn, eui, or naa")


def _persistent_iscsi(source: Source, at: Path, out: Faults) -> None:
    _iscsi_of(source, at, out, "must be valid format")


def _iscsi_of(source: Source, at: Path, out: Faults, unknown: str) -> None:
    _wants("targetPortal", "iqn")(source, at, out)
    if source.get("iqn"):
        _initiator(source["iqn"], (*at, "iqn"), out, unknown)
    lun = source.get("lun") or 0
    if not 0 <= lun <= 255:
        out.invalid((*at, "lun"), lun, _LUN)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        out.required((*at, "secretRef"))
    if unknown.endswith("format") and source.get("secretRef") is not None:
        _wants("name")(source["secretRef"], (*at, "secretRef"), out)
    if source.get("initiatorName") is not None:
        _initiator(source["initiatorName"], (*at, "initiatorname"), out, unknown)


def _initiator(name: str, at: Path, out: Faults, unknown: str) -> None:
    pattern = _INITIATORS.get(name[:3])
    if pattern is None:
        out.invalid(at, name, unknown)
    elif not pattern.search(name):
        out.invalid(at, name, "must be valid format")


def _fibre(source: Source, at: Path, out: Faults) -> None:
    wide, ids, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    if not wide and not ids:
        out.required((*at, "targetWWNs"), "must specify either targetWWNs or wwids, but not both")
    if wide and ids:
        said = "targetWWNs and wwids can not be specified simultaneously"
        out.invalid((*at, "targetWWNs"), wide, said)
    if wide and lun is None:
        out.required((*at, "lun"), "lun is required if targetWWNs is specified")
    elif wide and lun is not None and not 0 <= lun <= 255:
        out.invalid((*at, "lun"), lun, _LUN)


def _quobyte(source: Source, at: Path, out: Faults) -> None:
    registry = source.get("registry") or ""
    if not registry:
        out.required((*at, "registry"), _HOST_PORT)
    elif len(source.get("tenant") or "") >= 65:
        out.required((*at, "tenant"), "must be a UUID and may not exceed a length of 64 characters")
    else:
        for pair in registry.split(","):
            if ":" not in pair:
                out.invalid((*at, "registry"), registry, _HOST_PORT)
    _wants("volume")(source, at, out)


def _persistent_glusterfs(source: Source, at: Path, out: Faults) -> None:
    _wants("endpoints", "path")(source, at, out)
    namespace, where = source.get("endpointsNamespace"), (*at, "endpointsNamespace")
    if namespace == "":
        out.invalid(where, "", "if the endpointnamespace is set, it must be a valid namespace name")
    elif namespace is not None:
        texts.dns_label(namespace, where, out)


def _flocker(source: Source, at: Path, out: Faults) -> None:
    name, uid = source.get("datasetName") or "", source.get("datasetUUID")
    if not name and not uid:
        out.required(at, "one of datasetName and datasetUUID is required")
    if name and uid:
        out.invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        out.invalid((*at, "datasetName"), name, "must not contain '/'")


def _cinder(source: Source, at: Path, out: Faults) -> None:
    _wants("volumeID")(source, at, out)
    if source.get("secretRef") is not None:
        _wants("name")(source["secretRef"], (*at, "secretRef"), out)


def _persistent_cinder(source: Source, at: Path, out: Faults) -> None:
    _wants("volumeID")(source, at, out)
    if source.get("secretRef") is not None:
        _wants("name", "namespace")(source["secretRef"], (*at, "secretRef"), out)


def _flex(source: Source, at: Path, out: Faults) -> None:
    _wants("driver")(source, at, out)
    for key in source.get("options") or ():
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            said = "kubernetes.io and k8s.io namespaces are reserved"
            out.invalid((*at, "options", MapKey(key)), key, said)


def _persistent_azure_file(source: Source, at: Path, out: Faults) -> None:
    _wants("secretName", "shareName")(source, at, out)
    if source.get("secretNamespace") == "":
        out.required((*at, "secretNamespace"))


def _azure_disk(source: Source, at: Path, out: Faults) -> None:
    _wants("diskName", "diskURI")(source, at, out)
    kind, uri, caching = source.get("kind"), source.get("diskURI") or "", source.get("cachingMode")
    if caching is not None and caching not in ("None", "ReadOnly", "ReadWrite"):
        out.unsupported((*at, "cachingMode"), caching, ("None", "ReadOnly", "ReadWrite"))
    if kind is not None and kind not in ("Dedicated", "Managed", "Shared"):
        out.unsupported((*at, "kind"), kind, ("Dedicated", "Managed", "Shared"))
    managed = (
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
    )
    blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        out.unsupported((*at, "diskURI"), uri, (managed,))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        out.unsupported((*at, "diskURI"), uri, (blob,))


def _storage_os(source: Source, at: Path, out: Faults, wanted: tuple[str, ...] = ("name",)) -> None:
    _wants("volumeName")(source, at, out)
    for member in ("volumeName", "volumeNamespace"):
        if source.get(member):
            texts.dns_label(source[member], (*at, member), out)
    if source.get("secretRef") is not None:
        _wants(*wanted)(source["secretRef"], (*at, "secretRef"), out)


def _persistent_storage_os(source: Source, at: Path, out: Faults) -> None:
    _storage_os(source, at, out, ("name", "namespace"))


def _local(source: Source, at: Path, out: Faults) -> None:
    if not source.get("path"):
        out.required((*at, "path"))
    else:
        texts.path_without_backsteps(source["path"], (*at, "path"), out)


def csi_driver_name(name: str, at: Path, out: Faults) -> None:
    if not name:
        out.required(at)
        return
    if len(name) > 63:
        out.too_long(at, 63)
    out.invalids(at, name, names.dns_subdomain(name.lower()))


def _csi(source: Source, at: Path, out: Faults) -> None:
    csi_driver_name(source.get("driver") or "", (*at, "driver"), out)
    secret = source.get("nodePublishSecretRef")
    if secret is not None and not secret.get("name"):
        out.required((*at, "nodePublishSecretRef", "name"))
    elif secret is not None:
        texts.dns_subdomain(secret["name"], (*at, "name"), out)


def _persistent_csi(source: Source, at: Path, out: Faults) -> None:
    csi_driver_name(source.get("driver") or "", (*at, "driver"), out)
    _wants("volumeHandle")(source, at, out)
    for stage in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        secret, where = source.get(f"{stage}SecretRef"), (*at, f"{stage}SecretRef")
        if secret is None:
            continue
        for member, check in (("name", texts.dns_subdomain), ("namespace", texts.dns_label)):
            if not secret.get(member):
                out.required((*where, member))
            else:
                check(secret[member], (*where, member), out)


def _ephemeral(source: Source, at: Path, out: Faults) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        out.required((*at, "volumeClaimTemplate"))
    else:
        claim_template(template, (*at, "volumeClaimTemplate"), out)


def _image(source: Source, at: Path, out: Faults) -> None:
    one_of(source.get("pullPolicy"), _PULL_POLICIES, (*at, "pullPolicy"), out)


_Check = tuple[str, Callable[[Source, Path, Faults], None], str]
_GCE: _Check = ("persistentDisk", _disk("pdName"), "")
_AWS: _Check = ("", _disk("volumeID"), "")
_CEPH: _Check = ("", _wants("monitors"), "cephFS")
_RBD: _Check = ("", _wants("monitors", "image"), "")
_SCALE_IO: _Check = ("", _wants("gateway", "system", "volumeName"), "")
# Member → how its path is written, its check, and how the path of a second source is; empty: as the member.
_OF_PODS: dict[str, _Check] = {
    "emptyDir": ("", _empty_dir, ""),
    "hostPath": ("", _host_path, ""),
    "gitRepo": ("", _git_repo, ""),
    "gcePersistentDisk": _GCE,
    "awsElasticBlockStore": _AWS,
    "secret": ("", _secret, ""),
    "nfs": ("", _nfs, ""),
    "iscsi": ("", _iscsi, ""),
    "glusterfs": ("", _wants("endpoints", "path"), ""),
    "flocker": ("", _flocker, ""),
    "persistentVolumeClaim": ("", _wants("claimName"), ""),
    "rbd": _RBD,
    "cinder": ("", _cinder, ""),
    "cephfs": _CEPH,
    "quobyte": ("", _quobyte, ""),
    "downwardAPI": ("", _downward, "downwarAPI"),
    "fc": ("", _fibre, ""),
    "flexVolume": ("", _flex, ""),
    "configMap": ("", _config_map, ""),
    "azureFile": ("", _wants("secretName", "shareName"), ""),
    "vsphereVolume": ("", _wants("volumePath"), ""),
    "photonPersistentDisk": ("", _wants("pdID"), ""),
    "portworxVolume": ("", _wants("volumeID"), ""),
    "azureDisk": ("", _azure_disk, ""),
    "storageos": ("", _storage_os, ""),
    "projected": ("", _projected, ""),
    "scaleIO": _SCALE_IO,
    "csi": ("", _csi, ""),
    "ephemeral": ("", _ephemeral, ""),
    "image": ("", _image, ""),
}
_OF_PERSISTENT_VOLUMES: dict[str, _Check] = {
    "hostPath": ("", _host_path, ""),
    "gcePersistentDisk": _GCE,
    "awsElasticBlockStore": _AWS,
    "glusterfs": ("", _persistent_glusterfs, ""),
    "flocker": ("", _flocker, ""),
    "nfs": ("", _nfs, ""),
    "rbd": _RBD,
    "quobyte": ("", _quobyte, ""),
    "cephfs": _CEPH,
    "iscsi": ("", _persistent_iscsi, ""),
    "cinder": ("", _persistent_cinder, ""),
    "fc": ("", _fibre, ""),
    "flexVolume": ("", _flex, ""),
    "azureFile": ("", _persistent_azure_file, ""),
    "vsphereVolume": ("", _wants("volumePath"), ""),
    "photonPersistentDisk": ("", _wants("pdID"), ""),
    "portworxVolume": ("", _wants("volumeID"), ""),
    "azureDisk": ("", _azure_disk, ""),
    "scaleIO": _SCALE_IO,
    "local": ("", _local, ""),
    "storageos": ("", _persistent_storage_os, ""),
    "csi": ("", _persistent_csi, ""),
}
