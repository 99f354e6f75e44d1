"""Which pods of a group are alike? A hash of what matters to admission.

Source: pkg/util/pod/pod.go GenerateRoleHash, SpecShape: the first 8 hex digits of the SHA-256 of the shape as Go
prints it as JSON.

Unlike kube: of affinity, spread constraints and resource claims the members are in the order of their names, where
Go has the order of the struct's fields; pods with those get another hash than upstream's, the same one for all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from fairway.kube import quantity
from fairway.kube.objects import Obj, annotations_of, spec_of

ROLE_HASH: Final = "kueue.x-k8s.io/role-hash"
_AS_WRITTEN: Final = (
    *("nodeSelector", "affinity", "runtimeClassName", "priority"),
    *("topologySpreadConstraints", "resourceClaims"),
)
# Fields in the order of Go's structs.
_TOLERATION: Final = ("key", "operator", "value", "effect", "tolerationSeconds")
_PORT: Final = ("name", "hostPort", "containerPort", "protocol", "hostIP")
_POINTER: Final = "tolerationSeconds"


def role_of(pod: Obj) -> str:
    """What the webhook wrote into the pod, or the hash of its spec."""
    return annotations_of(pod).get(ROLE_HASH) or role_hash(spec_of(pod))


def role_hash(spec: Mapping[str, Any]) -> str:
    """Eight hex digits that pods of one role share."""
    shape = {
        "initContainers": _containers(spec.get("initContainers")),
        "containers": _containers(spec.get("containers")),
        "tolerations": _in_order(spec.get("tolerations"), _TOLERATION, ""),
        "overhead": _amounts(spec.get("overhead")),
        **{field: _by_name(spec.get(field)) for field in _AS_WRITTEN},
    }
    if spec.get("resources") is not None:
        shape["resources"] = _amounts(spec["resources"].get("requests"))
    text = json.dumps({"spec": dict(sorted(shape.items()))}, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()[:8]


def _containers(containers: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    return [
        {
            "ports": _in_order(c.get("ports"), _PORT, "containerPort"),
            "resources": {"requests": _amounts((c.get("resources") or {}).get("requests"))},
        }
        for c in containers or ()
    ] or None


def _amounts(amounts: Mapping[str, Any] | None) -> dict[str, str] | None:
    return None if amounts is None else {name: quantity.canonical(amounts[name]) for name in sorted(amounts)}


def _in_order(
    items: Sequence[Mapping[str, Any]] | None, fields: Sequence[str], always: str
) -> list[dict[str, Any]] | None:
    """As Go prints structs: what is empty is left out, but for the field `always`, and for what is a pointer."""

    def is_printed(item: Mapping[str, Any], field: str) -> bool:
        value = item.get(field)
        return field == always or (value is not None and (field == _POINTER or value not in ("", 0)))

    return [{f: item.get(f, 0) for f in fields if is_printed(item, f)} for item in items or ()] or None


def _by_name(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _by_name(value[k]) for k in sorted(value)} or None
    if isinstance(value, list):
        return [_by_name(v) for v in value] or None
    return value
