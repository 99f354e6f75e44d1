"""Which pods of a group are alike? A hash of what matters to admission.

Source: pkg/util/pod/pod.go GenerateRoleHash, SpecShape: the first 8 hex digits of the SHA-256 of the shape as Go
prints it as JSON.

Unlike kube: of affinity, spread constraints and resource claims the members are in the order of their names, where
Go has the order of the struct's fields; pods with those get another hash than upstream's, the same one for all.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Final

from fairway.kube.objects import Obj, annotations_of, spec_of

ROLE_HASH: Final = "kueue.x-k8s.io/role-hash"
_TOLERATION: Final = ("key", "operator", "value", "effect", "tolerationSeconds")
_PORT: Final = ("name", "hostPort", "containerPort", "protocol", "hostIP")


def role_of(pod: Obj) -> str:
    """What the webhook wrote into the pod, or the hash of its spec."""
    return annotations_of(pod).get(ROLE_HASH) or role_hash(spec_of(pod))


def role_hash(spec: dict[str, Any]) -> str:
    shape = {
        "affinity": _by_name(spec.get("affinity")),
        "containers": _containers(spec.get("containers")),
        "initContainers": _containers(spec.get("initContainers")),
        "nodeSelector": _by_name(spec.get("nodeSelector")),
        "overhead": _by_name(spec.get("overhead")),
        "priority": spec.get("priority"),
        "resourceClaims": _by_name(spec.get("resourceClaims")),
        "runtimeClassName": spec.get("runtimeClassName"),
        "tolerations": _in_order(spec.get("tolerations"), _TOLERATION),
        "topologySpreadConstraints": _by_name(spec.get("topologySpreadConstraints")),
    }
    if spec.get("resources") is not None:
        shape["resources"] = _by_name(spec["resources"].get("requests"))
        shape = dict(sorted(shape.items()))
    text = json.dumps({"spec": shape}, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()[:8]


def _containers(containers: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    if not containers:
        return None
    return [
        {
            "ports": _in_order(c.get("ports"), _PORT),
            "resources": {"requests": _quantities((c.get("resources") or {}).get("requests"))},
        }
        for c in containers
    ]


def _quantities(requests: dict[str, Any] | None) -> dict[str, str] | None:
    return {k: str(requests[k]) for k in sorted(requests)} if requests else None


def _in_order(items: list[dict[str, Any]] | None, fields: tuple[str, ...]) -> list[dict[str, Any]] | None:
    if not items:
        return None
    return [{f: item[f] for f in fields if item.get(f) not in (None, "", 0)} for item in items]


def _by_name(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _by_name(value[k]) for k in sorted(value)} or None
    if isinstance(value, list):
        return [_by_name(v) for v in value] or None
    return value
