"""Reading plain Kubernetes objects without tripping over what is absent.

An object is a `dict[str, Any]` exactly as YAML or JSON had it. It is never mutated after it entered the
store; `with_metadata` and friends return a new dict sharing the rest.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.kube.kinds import group_kind

Obj = dict[str, Any]

_NOTHING: Final[dict[str, Any]] = {}


class Key(NamedTuple):
    """What identifies an object: group kind, namespace (empty for cluster-scoped kinds) and name."""

    gk: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = self.gk.partition(".")[0]
        return f"{kind}/{self.namespace}/{self.name}" if self.namespace else f"{kind}/{self.name}"


def quick_key(gk: str, namespace: str, name: str) -> Key:
    """As `Key(…)`, at half the cost: for what is asked at every write."""
    return tuple.__new__(Key, (gk, namespace, name))


def gk_of(obj: Obj) -> str:
    return group_kind(obj.get("apiVersion", ""), obj.get("kind", ""))


def key_of(obj: Obj) -> Key:
    meta = meta_of(obj)
    return Key(gk_of(obj), meta.get("namespace") or "", meta.get("name") or "")


def meta_of(obj: Obj) -> dict[str, Any]:
    return obj.get("metadata") or _NOTHING


def name_of(obj: Obj) -> str:
    return meta_of(obj).get("name") or ""


def namespace_of(obj: Obj) -> str:
    return meta_of(obj).get("namespace") or ""


def labels_of(obj: Obj) -> dict[str, str]:
    return meta_of(obj).get("labels") or _NOTHING


def annotations_of(obj: Obj) -> dict[str, str]:
    return meta_of(obj).get("annotations") or _NOTHING


def spec_of(obj: Obj) -> dict[str, Any]:
    return obj.get("spec") or _NOTHING


def status_of(obj: Obj) -> dict[str, Any]:
    return obj.get("status") or _NOTHING


def controller_of(obj: Obj) -> dict[str, Any] | None:
    """The owner reference that says `controller: true`, if any."""
    references: list[Obj] = meta_of(obj).get("ownerReferences") or []
    for ref in references:
        if ref.get("controller"):
            return ref
    return None


def owner_reference(owner: Obj, *, controller: bool = True, block_deletion: bool = True) -> dict[str, Any]:
    """The reference a controller writes into what it creates."""
    meta = meta_of(owner)
    ref: dict[str, Any] = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
    if controller:
        ref["controller"] = True
    if block_deletion:
        ref["blockOwnerDeletion"] = True
    return ref


def dig(obj: Any, *path: str | int) -> Any:
    """The value at a path, or None where any step is absent."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(obj, list) or step >= len(obj):
                return None
            obj = obj[step]
        else:
            if not isinstance(obj, dict):
                return None
            obj = obj.get(step)
    return obj
