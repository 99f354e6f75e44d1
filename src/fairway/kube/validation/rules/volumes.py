"""Volumes of a pod and claims.

Source: pkg/apis/core/validation/validation.go ValidateVolumes, ValidatePersistentVolumeClaimSpec (v1.36). The
in-tree drivers of cloud providers are checked for their shape only.
"""

from __future__ import annotations

from typing import Any

from fairway.kube import names, quantity
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.validation.context import Context
from fairway.kube.validation.devices.gostructs import go_text
from fairway.kube.validation.metadata import check_labels
from fairway.kube.validation.problem import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    invalids,
    required,
    unsupported,
)
from fairway.kube.validation.rules.env import check_field, check_resource
from fairway.kube.validation.rules.paths import check_local, check_no_backsteps
from fairway.kube.validation.rules.selectors import check_label_selector

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_VOLUME_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def check_spec_volumes(spec: dict[str, Any], path: Path, context: Context) -> None:
    """Names of a pod's volumes are unique, and so are those of its resource claims."""
    seen: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        name = volume.get("name") or ""
        if name in seen and name:
            context.out.append(duplicate((*path, "volumes", index, "name"), name))
        seen.add(name)
    claims: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        _check_pod_claim(claim, (*path, "resourceClaims", index), claims, context.out)


def _check_pod_claim(claim: dict[str, Any], at: Path, seen: set[str], out: list[Problem]) -> None:
    name = claim.get("name") or ""
    if not name:
        out.append(required((*at, "name")))
    elif name in seen:
        out.append(duplicate((*at, "name"), name))
    else:
        out.extend(invalids((*at, "name"), name, names.dns_label(name)))
    seen.add(name)
    sources = [s for s in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(s) is not None]
    if len(sources) > 1:
        detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        out.append(invalid(at, go_text("PodResourceClaim", claim), detail))
    elif not sources:
        detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        out.append(invalid(at, go_text("PodResourceClaim", claim), detail))
    for source in sources:
        out.extend(invalids((*at, source), claim[source], names.dns_subdomain(claim[source])))


def check_volume(volume: dict[str, Any], path: Path, context: Context) -> None:
    sources = [name for name, source in volume.items() if name != "name" and source is not None]
    if not sources:
        context.out.append(required(path, "must specify a volume type"))
    for name in sources[1:]:
        context.out.append(forbidden((*path, name), "may not specify more than 1 volume type"))


def check_empty_dir(source: dict[str, Any], path: Path, context: Context) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and quantity.of(limit) < 0:
        detail = "SizeLimit field must be a valid resource quantity"
        context.out.append(forbidden((*path, "sizeLimit"), detail))


def check_host_path(source: dict[str, Any], path: Path, context: Context) -> None:
    if source.get("path"):
        check_no_backsteps(source["path"], (*path, "path"), context.out)
    type_ = source.get("type")
    if type_ is not None and type_ not in _HOST_PATH_TYPES:
        context.out.append(unsupported((*path, "type"), type_, _HOST_PATH_TYPES))


def check_key_to_path(item: dict[str, Any], path: Path, context: Context) -> None:
    if item.get("path"):
        check_local(item["path"], (*path, "path"), context.out)


def check_nfs(source: dict[str, Any], path: Path, context: Context) -> None:
    if source.get("path") and not source["path"].startswith("/"):
        context.out.append(invalid((*path, "path"), source["path"], "must be an absolute path"))


def check_projected(source: dict[str, Any], path: Path, context: Context) -> None:
    for index, projection in enumerate(source.get("sources") or ()):
        at = (*path, "sources", index)
        chosen = [n for n, s in projection.items() if s is not None]
        for name in chosen[1:]:
            context.out.append(forbidden((*at, name), "may not specify more than 1 volume type"))
        for name in ("secret", "configMap"):
            if projection.get(name) is not None and not projection[name].get("name"):
                context.out.append(required((*at, name, "name")))
        token = projection.get("serviceAccountToken")
        if token is not None:
            _check_token(token, (*at, "serviceAccountToken"), context.out)


def _check_token(token: dict[str, Any], at: Path, out: list[Problem]) -> None:
    seconds = token.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        out.append(
            invalid((*at, "expirationSeconds"), seconds, "may not specify a duration less than 10 minutes")
        )
    if not token.get("path"):
        out.append(required((*at, "path")))
    else:
        check_local(token["path"], (*at, "path"), out)


def check_downward_file(item: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    if not item.get("path"):
        out.append(required((*path, "path")))
    else:
        check_local(item["path"], (*path, "path"), out)
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        check_field(field, _VOLUME_FIELDS, (*path, "fieldRef"), out)
        if resource is not None:
            out.append(
                invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
            )
    elif resource is not None:
        check_resource(resource, (*path, "resourceFieldRef"), out, in_volume=True)
    else:
        out.append(required(path, "one of fieldRef and resourceFieldRef is required"))


def check_image(source: dict[str, Any], path: Path, context: Context) -> None:
    if context.pod.is_pod and not source.get("reference"):
        context.out.append(required((*path, "reference")))
    policy = source.get("pullPolicy")
    if policy and policy not in _PULL_POLICIES:
        context.out.append(unsupported((*path, "pullPolicy"), policy, _PULL_POLICIES))


def check_claim_spec(spec: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    modes = spec.get("accessModes") or ()
    if not modes:
        out.append(required((*path, "accessModes"), "at least 1 access mode is required"))
    for mode in modes:
        if mode not in _ACCESS_MODES:
            out.append(unsupported((*path, "accessModes"), mode, _ACCESS_MODES))
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        out.append(forbidden((*path, "accessModes"), detail))
    if spec.get("selector") is not None:
        check_label_selector(spec["selector"], (*path, "selector"), out)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    at = (*path, "resources", "requests", MapKey("storage"))
    if storage is None:
        out.append(required(at))
    elif quantity.of(storage) <= 0:
        out.append(invalid(at, quantity.canonical(storage), "must be greater than zero"))
    mode = spec.get("volumeMode")
    if mode and mode not in ("Block", "Filesystem"):
        out.append(unsupported((*path, "volumeMode"), mode, ("Block", "Filesystem")))


def check_claim_template(template: dict[str, Any], path: Path, context: Context) -> None:
    meta = template.get("metadata") or {}
    check_labels(meta.get("labels"), (*path, "metadata", "labels"), context.out)
    check_claim(template, path, context)


def check_claim(claim: dict[str, Any], path: Path, context: Context) -> None:
    if claim.get("spec") is None:
        context.out.append(required((*path, "spec", "accessModes"), "at least 1 access mode is required"))


RULES = {
    "PodSpec": check_spec_volumes,
    "Volume": check_volume,
    "EmptyDirVolumeSource": check_empty_dir,
    "HostPathVolumeSource": check_host_path,
    "KeyToPath": check_key_to_path,
    "NFSVolumeSource": check_nfs,
    "ProjectedVolumeSource": check_projected,
    "DownwardAPIVolumeFile": check_downward_file,
    "ImageVolumeSource": check_image,
    "PersistentVolumeClaimSpec": check_claim_spec,
    "PersistentVolumeClaim": check_claim,
    "PersistentVolumeClaimTemplate": check_claim_template,
}
