"""Patches: how does an object look after this change?

Three forms, as the API takes them: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge,
which merges the lists Kubernetes keys by a field. The input is never mutated; untouched parts are shared.

Source: apimachinery pkg/util/strategicpatch (v1.34); merge keys from the `patchMergeKey` tags of k8s.io/api.
"""

from __future__ import annotations

import copy
from typing import Any

from fairway.cluster.errors import bad_request

# Field name → merge key, where the list under that field is merged element by element.
_MERGE_KEYS: dict[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "conditions": "type",
    "ownerReferences": "uid",
    "addresses": "type",
    "secrets": "name",
}
# `ports` is keyed by containerPort in a container and by port in a Service.
_PORT_KEYS = ("containerPort", "port")
_PRIMITIVE_MERGE = frozenset({"finalizers", "podCIDRs"})
# Not in the table, so replaced whole: NodeSpec.taints and tolerations carry no patchMergeKey in the published API.


def merge_patch(obj: Any, patch: Any) -> Any:
    """RFC 7386: null deletes, maps merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    out = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


def strategic_patch(obj: Any, patch: Any, field: str = "") -> Any:
    """A strategic merge patch, with `$patch: replace|delete|merge`, `$deleteFromPrimitiveList`, `$retainKeys`."""
    if isinstance(patch, dict):
        return _strategic_map(obj if isinstance(obj, dict) else {}, patch)
    if isinstance(patch, list):
        return _strategic_list(obj if isinstance(obj, list) else [], patch, field)
    return patch


def _strategic_map(obj: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch.get("$patch")
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != "$patch"}
    if directive == "delete":
        return {}
    out = dict(obj)
    retain = patch.get("$retainKeys")
    if retain is not None:
        out = {k: v for k, v in out.items() if k in retain}
    for key, value in patch.items():
        if key in ("$patch", "$retainKeys") or key.startswith("$setElementOrder/"):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            out[field] = [v for v in out.get(field) or [] if v not in value]
        elif value is None:
            out.pop(key, None)
        else:
            out[key] = strategic_patch(out.get(key), value, key)
    return out


def _strategic_list(obj: list[Any], patch: list[Any], field: str) -> list[Any]:
    if field in _PRIMITIVE_MERGE:
        return [*obj, *(v for v in patch if v not in obj)]
    merge_key = _merge_key(field, obj, patch)
    if merge_key is None or any(isinstance(p, dict) and p.get("$patch") == "replace" for p in patch):
        return [p for p in patch if not (isinstance(p, dict) and p.get("$patch") == "replace")]
    out = list(obj)
    for item in patch:
        at = next((i for i, o in enumerate(out) if o.get(merge_key) == item.get(merge_key)), None)
        if item.get("$patch") == "delete":
            out = [o for o in out if o.get(merge_key) != item.get(merge_key)]
        elif at is None:
            out.append({k: v for k, v in item.items() if k != "$patch"})
        else:
            out[at] = strategic_patch(out[at], item)
    return out


def _merge_key(field: str, obj: list[Any], patch: list[Any]) -> str | None:
    items = [*obj, *patch]
    if not items or not all(isinstance(i, dict) for i in items):
        return None
    if field == "ports":
        return next((k for k in _PORT_KEYS if all(k in i for i in items)), None)
    key = _MERGE_KEYS.get(field)
    return key if key is not None and all(key in i for i in items) else None


def json_patch(obj: Any, operations: list[dict[str, Any]]) -> Any:
    """RFC 6902.

    Raises: ApiError (400) for a path that is not there or a failed test.
    """
    out = copy.deepcopy(obj)
    for operation in operations:
        out = _json_operation(out, operation)
    return out


def _json_operation(doc: Any, operation: dict[str, Any]) -> Any:
    op = operation.get("op")
    path = _pointer(operation.get("path", ""))
    if op in ("copy", "move"):
        source = _pointer(operation.get("from", ""))
        value = copy.deepcopy(_at(doc, source))
        if op == "move":
            doc = _edit(doc, source, "remove", None)
        return _edit(doc, path, "add", value)
    if op == "test":
        if _at(doc, path) != operation.get("value"):
            raise bad_request(f"testing value {operation.get('path')} failed: test failed")
        return doc
    if op in ("add", "remove", "replace"):
        return _edit(doc, path, op, operation.get("value"))
    raise bad_request(f"Unexpected kind: {op}")


def _pointer(text: str) -> list[str]:
    return [p.replace("~1", "/").replace("~0", "~") for p in text.split("/")[1:]]


def _at(doc: Any, path: list[str]) -> Any:
    for step in path:
        try:
            doc = doc[int(step)] if isinstance(doc, list) else doc[step]
        except (KeyError, IndexError, ValueError, TypeError) as e:
            raise bad_request(f"path does not exist: /{'/'.join(path)}") from e
    return doc


def _edit(doc: Any, path: list[str], op: str, value: Any) -> Any:
    if not path:
        return value if op != "remove" else None
    parent = _at(doc, path[:-1])
    last = path[-1]
    if isinstance(parent, list):
        _edit_list(parent, last, op, value, path)
    elif isinstance(parent, dict):
        if op != "add" and last not in parent:
            raise bad_request(f"path does not exist: /{'/'.join(path)}")
        if op == "remove":
            del parent[last]
        else:
            parent[last] = value
    else:
        raise bad_request(f"path does not exist: /{'/'.join(path)}")
    return doc


def _edit_list(parent: list[Any], last: str, op: str, value: Any, path: list[str]) -> None:
    if last == "-" and op == "add":
        parent.append(value)
        return
    limit = len(parent) + (1 if op == "add" else 0)
    if not last.isdigit() or int(last) >= limit:
        raise bad_request(f"path does not exist: /{'/'.join(path)}")
    at = int(last)
    if op == "add":
        parent.insert(at, value)
    elif op == "remove":
        del parent[at]
    else:
        parent[at] = value
