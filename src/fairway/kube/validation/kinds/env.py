"""Environment variables, and where their values come from.

Source: pkg/apis/core/validation/validation.go ValidateEnv, ValidateEnvFrom; pkg/apis/core/pods/helpers.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names, quantity
from fairway.kube.fieldpath import Path
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts

Env = Mapping[str, Any]
_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_VOLUME_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
# Paths that can be written down at all. Source: ConvertDownwardAPIFieldLabel.
_LABELS = frozenset(
    (*_ENV_FIELDS, *_VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase")
)
_SUBSCRIPT = re.compile(r"(.*)\['(.*)'\]", re.DOTALL)
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVISOR_NAMES = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_OF = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)
_ONE = "may not have more than one field specified at a time"


def variables(found: Sequence[Env], at: Path, out: Faults) -> None:
    for index, variable in enumerate(found):
        where, name = (*at, index), variable.get("name") or ""
        if not name:
            out.required((*where, "name"))
        else:
            out.invalids((*where, "name"), name, names.env_name(name))
        source = variable.get("valueFrom")
        if source is not None:
            _value_from(source, variable.get("value"), (*where, "valueFrom"), out)


def _value_from(source: Env, value: str | None, at: Path, out: Faults) -> None:
    given = [name for name in _SOURCES if source.get(name) is not None]
    for name in given:
        part, where = source[name], (*at, name)
        if name == "fieldRef":
            field_reference(part, where, out)
        elif name == "resourceFieldRef":
            resource_reference(part, where, out)
        elif name == "fileKeyRef":
            _file_key(part, where, out)
        else:
            _key(part, where, out)
    if not given:
        out.invalid(at, "", _ONE_OF)
    elif value:
        out.invalid(at, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        out.invalid(at, "", _ONE)


def _key(source: Env, at: Path, out: Faults) -> None:
    name, key = source.get("name") or "", source.get("key") or ""
    texts.dns_subdomain(name, (*at, "name"), out)
    if not key:
        out.required((*at, "key"))
    else:
        out.invalids((*at, "key"), key, names.config_key(key))


def _file_key(source: Env, at: Path, out: Faults) -> None:
    key, volume, path = (source.get(name) or "" for name in ("key", "volumeName", "path"))
    if not key:
        out.required((*at, "key"))
    else:
        out.invalids((*at, "key"), key, names.env_name(key))
    if not volume:
        out.required((*at, "volumeName"))
    else:
        texts.dns_label(volume, (*at, "volumeName"), out)
    if not path:
        out.required((*at, "path"))
    else:
        texts.path_without_backsteps(path, (*at, "path"), out)


def field_reference(source: Env, at: Path, out: Faults, *, of_volume: bool = False) -> None:
    version, field = source.get("apiVersion"), source.get("fieldPath") or ""
    version = "v1" if version is None else version
    if not version:
        out.required((*at, "apiVersion"))
        return
    if not field:
        out.required((*at, "fieldPath"))
        return
    subscripted = _SUBSCRIPT.fullmatch(field)
    path = subscripted[1] if subscripted else field
    if version != "v1":
        why = f"unsupported pod version: {version}"
        out.invalid((*at, "fieldPath"), field, f"error converting fieldPath: {why}")
    elif subscripted and path == "metadata.annotations":
        texts.qualified_name(subscripted[2].lower(), at, out)
    elif subscripted and path == "metadata.labels":
        texts.qualified_name(subscripted[2], at, out)
    elif subscripted or field not in _LABELS:
        known = not subscripted
        why = (
            f"field label not supported: {field}"
            if known
            else f"field label does not support subscript: {field}"
        )
        out.invalid((*at, "fieldPath"), field, f"error converting fieldPath: {why}")
    else:
        choices = _VOLUME_FIELDS if of_volume else _ENV_FIELDS
        path = "spec.nodeName" if field == "spec.host" else field
        if path not in choices:
            out.unsupported((*at, "fieldPath"), path, choices)


def resource_reference(source: Env, at: Path, out: Faults, *, of_volume: bool = False) -> None:
    name = source.get("resource") or ""
    if of_volume and not source.get("containerName"):
        out.required((*at, "containerName"))
    elif not name:
        out.required((*at, "resource"))
    elif name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
        out.unsupported((*at, "resource"), name, _RESOURCES)
    divisor = source.get("divisor")
    if divisor is not None and quantity.of(divisor) != 0:
        _divisor(name, quantity.canonical(divisor), (*at, "divisor"), out)


def _divisor(name: str, divisor: str, at: Path, out: Faults) -> None:
    if name.endswith(".cpu"):
        if divisor not in ("1m", "1"):
            out.invalid(at, name, "only divisor's values 1m and 1 are supported with the cpu resource")
        return
    kind = "hugepages" if name.startswith(_HUGE_PAGES) else _DIVISOR_NAMES.get(name.partition(".")[2])
    if kind and divisor not in _DIVISORS:
        known = ", ".join(_DIVISORS)
        out.invalid(at, name, f"only divisor's values {known} are supported with the {kind} resource")


def sources(found: Sequence[Env], at: Path, out: Faults) -> None:
    """`envFrom`."""
    for index, source in enumerate(found):
        where, prefix = (*at, index), source.get("prefix") or ""
        if prefix:
            out.invalids((*where, "prefix"), prefix, names.env_name(prefix))
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for member in given:
            name = source[member].get("name") or ""
            if not name:
                out.required((*where, member, "name"))
            else:
                complaints = names.dns_subdomain(names.mask_trailing_dash(name))
                out.invalids((*where, member, "name"), name, complaints)
        if not given:
            out.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            out.invalid(at, "", _ONE)
