"""Environment variables and where their values come from.

Source: pkg/apis/core/validation/validation.go validateEnvVarValueFrom, ValidateEnvFrom (v1.36).
"""

from __future__ import annotations

import re
from typing import Any

from fairway.kube import names, quantity
from fairway.kube.fieldpath import Path
from fairway.kube.validation.context import Context
from fairway.kube.validation.problem import Problem, invalid, invalids, not_found, required, unsupported

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
FIELDS = (
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
# metadata.annotations and metadata.labels as a whole exist in volumes, not in variables.
_KNOWN_FIELDS = frozenset(
    {*FIELDS, "metadata.annotations", "metadata.labels", "spec.restartPolicy", "status.phase"}
)
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_SUBSCRIPT = re.compile(r"(.*)\['(.*)'\]")
_DIVISORS = frozenset(["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"])


def check_variable(variable: dict[str, Any], path: Path, context: Context) -> None:
    source = variable.get("valueFrom")
    if source is None:
        return
    out = context.out
    at = (*path, "valueFrom")
    chosen = [name for name in _SOURCES if source.get(name) is not None]
    if "fieldRef" in chosen:
        check_field(source["fieldRef"], FIELDS, (*at, "fieldRef"), out)
    if "resourceFieldRef" in chosen:
        check_resource(source["resourceFieldRef"], (*at, "resourceFieldRef"), out, in_volume=False)
    if "fileKeyRef" in chosen:
        _check_file_volume(source["fileKeyRef"], (*at, "fileKeyRef"), context)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in chosen:
            of = source[name].get("name") or ""
            out.extend(invalids((*at, name, "name"), of, names.dns_subdomain(of)))
    if not chosen:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        out.append(invalid(at, "", f"must specify one of: {listed}"))
    elif variable.get("value"):
        out.append(invalid(at, "", "may not be specified when `value` is not empty"))
    elif len(chosen) > 1:
        out.append(invalid(at, "", "may not have more than one field specified at a time"))


def _check_file_volume(reference: dict[str, Any], path: Path, context: Context) -> None:
    name = reference.get("volumeName") or ""
    volume = context.pod.volumes.get(name)
    if volume is None:
        context.out.append(not_found((*path, "volumeName"), name))
    elif volume.get("emptyDir") is None:
        detail = "referenced volume must be of type emptyDir"
        context.out.append(invalid((*path, "volumeName"), name, detail))


def check_field(reference: dict[str, Any], allowed: tuple[str, ...], path: Path, out: list[Problem]) -> None:
    """A fieldRef: the downward API knows few fields, and labels and annotations by key."""
    field = reference.get("fieldPath") or ""
    if not field:
        return
    match = _SUBSCRIPT.fullmatch(field)
    if match is not None:
        base, key = match.groups()
        if base not in ("metadata.annotations", "metadata.labels"):
            detail = f"error converting fieldPath: field label does not support subscript: {field}"
            out.append(invalid((*path, "fieldPath"), field, detail))
            return
        out.extend(
            invalids(path, key, names.label_key(key.lower() if base == "metadata.annotations" else key))
        )
    elif field not in _KNOWN_FIELDS:
        detail = f"error converting fieldPath: field label not supported: {field}"
        out.append(invalid((*path, "fieldPath"), field, detail))
    elif field not in allowed:
        out.append(unsupported((*path, "fieldPath"), field, sorted(allowed)))


def check_resource(reference: dict[str, Any], path: Path, out: list[Problem], *, in_volume: bool) -> None:
    """A resourceFieldRef and its divisor."""
    resource = reference.get("resource") or ""
    is_pages = resource.startswith(("requests.hugepages-", "limits.hugepages-"))
    if in_volume and not reference.get("containerName"):
        out.append(required((*path, "containerName")))
    elif not resource:
        out.append(required((*path, "resource")))
    elif resource not in _RESOURCES and not is_pages:
        out.append(unsupported((*path, "resource"), resource, _RESOURCES))
    divisor = reference.get("divisor")
    if divisor is None or quantity.of(divisor) == 0:
        return
    text = quantity.canonical(divisor)
    if resource.endswith(".cpu") and text not in ("1m", "1"):
        detail = "only divisor's values 1m and 1 are supported with the cpu resource"
        out.append(invalid((*path, "divisor"), resource, detail))
    elif not resource.endswith(".cpu") and text not in _DIVISORS:
        kind = "hugepages" if is_pages else resource.partition(".")[2].replace("ephemeral", "local ephemeral")
        kind = kind.replace("-storage", " storage")
        values = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
        detail = f"only divisor's values {values} are supported with the {kind} resource"
        out.append(invalid((*path, "divisor"), resource, detail))


def check_env_from(source: dict[str, Any], path: Path, context: Context) -> None:
    chosen = [n for n in ("configMapRef", "secretRef") if source.get(n) is not None]
    at = path[:-1]
    if not chosen:
        context.out.append(invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"))
    elif len(chosen) > 1:
        context.out.append(invalid(at, "", "may not have more than one field specified at a time"))


RULES = {"EnvVar": check_variable, "EnvFromSource": check_env_from}
