"""Nodes, namespaces, priority classes, configuration.

Source: pkg/apis/core/validation/validation.go ValidateNode, ValidateConfigMap, ValidateSecret;
pkg/apis/scheduling/validation (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.validation.context import Context
from fairway.kube.validation.problem import (
    duplicate,
    forbidden,
    invalid,
    invalids,
    required,
    too_long,
    unsupported,
)
from fairway.kube.validation.rules.resources import check_amounts

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# Source: pkg/apis/scheduling/types.go HighestUserDefinablePriority.
HIGHEST_USER_PRIORITY = 1_000_000_000
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
# Data of one ConfigMap or Secret. Source: core.MaxSecretSize.
_MAX_DATA_BYTES = 1024 * 1024
_ACCOUNT_NAME = "kubernetes.io/service-account.name"
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def check_node(node: dict[str, Any], path: Path, context: Context) -> None:
    """Unlike kube: a taint is reported below `spec`, where it stands, not below `metadata`."""
    out = context.out
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate((node.get("spec") or {}).get("taints") or ()):
        at = ("spec", "taints", index)
        key, value, effect = (taint.get(n) or "" for n in ("key", "value", "effect"))
        out.extend(invalids((*at, "key"), key, names.label_key(key)))
        complaints = names.label_value(value)
        if complaints:
            out.append(invalid((*at, "value"), value, ";".join(complaints)))
        if not effect:
            out.append(required((*at, "effect")))
        elif effect not in _EFFECTS:
            out.append(unsupported((*at, "effect"), effect, _EFFECTS))
        if (effect, key) in seen:
            detail = "taints must be unique by key and effect pair"
            out.append(duplicate(at, taint)._replace(detail=detail))
        seen.add((effect, key))
    status = node.get("status") or {}
    for side in ("capacity", "allocatable"):
        check_amounts(status.get(side), ("status", side), out)


def check_priority_class(priority_class: dict[str, Any], path: Path, context: Context) -> None:
    name = (priority_class.get("metadata") or {}).get("name") or ""
    value = priority_class.get("value") or 0
    if name.startswith("system-"):
        known = _SYSTEM_CLASSES.get(name)
        if known != value or priority_class.get("globalDefault"):
            wrong = "is not a known system priority class" if known is None else f"must have value {known}"
            detail = f"reserved for system use only. error: {name} {wrong}"
            text = f"priority class names with 'system-' prefix are {detail}"
            context.out.append(forbidden(("metadata", "name"), text))
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        context.out.append(forbidden(("value",), detail))


def check_data(obj: dict[str, Any], path: Path, context: Context) -> None:
    """ConfigMaps and Secrets: legal keys, at most 1 MiB, no key twice."""
    total = 0
    plain, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for member, data in (
        ("data", plain),
        ("binaryData", binary),
        ("stringData", obj.get("stringData") or {}),
    ):
        for key, value in data.items():
            at = (member, MapKey(key))
            context.out.extend(invalids(at, key, names.config_key(key)))
            if member == "data" and key in binary:
                context.out.append(invalid(at, key, "duplicate of key present in binaryData"))
            total += len(value or "")
    if total > _MAX_DATA_BYTES:
        context.out.append(too_long((), _MAX_DATA_BYTES))


def check_secret(secret: dict[str, Any], path: Path, context: Context) -> None:
    """What each type of Secret must hold."""
    kind = secret.get("type") or ""
    held = {**(secret.get("data") or {}), **(secret.get("stringData") or {})}
    wanted = _SECRET_KEYS.get(kind, ())
    context.out.extend(required(("data", MapKey(key))) for key in wanted if key not in held)
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & held.keys():
        context.out.extend(required(("data", MapKey(key))) for key in ("username", "password"))
    if kind == "kubernetes.io/service-account-token":
        annotations = (secret.get("metadata") or {}).get("annotations") or {}
        if not annotations.get(_ACCOUNT_NAME):
            context.out.append(required(("metadata", "annotations", MapKey(_ACCOUNT_NAME))))


def check_both(secret: dict[str, Any], path: Path, context: Context) -> None:
    check_data(secret, path, context)
    check_secret(secret, path, context)


RULES = {
    "Node": check_node,
    "PriorityClass": check_priority_class,
    "ConfigMap": check_data,
    "Secret": check_both,
}
