"""Kueue's kinds as OpenAPI says them: fields, types, what is required and which values there are.

Made of the tables by which Kueue's objects are checked; descriptions are Kueue's own and not repeated here.
"""

from __future__ import annotations

from typing import Any

from fairway.queueing.webhooks import schema as tables
from fairway.queueing.webhooks.schema import Node
from fairway.queueing.webhooks.tables import schema_of

GROUP = "kueue.x-k8s.io"
_INT_OR_STRING = {"x-kubernetes-int-or-string": True}
_SCALARS: dict[str, dict[str, Any]] = {
    tables.STR: {"type": "string"},
    tables.BOOL: {"type": "boolean"},
    tables.INT: {"type": "integer", "format": "int32"},
    tables.NUM: {"type": "number"},
    tables.QTY: _INT_OR_STRING,
    tables.TIME: {"type": "string", "format": "date-time"},
    tables.ANY: {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


def definition(kind: str, version: str) -> dict[str, Any] | None:
    """The schema of a kind of Kueue's; None for what is none."""
    node = schema_of(kind, version)
    return None if node is None else _said(node)


def _said(node: Node) -> dict[str, Any]:
    if node.kind == tables.STRUCT:
        body: dict[str, Any] = {"type": "object"}
        if node.fields:
            body["properties"] = {name: _said(below) for name, below in sorted(node.fields.items())}
        if node.required:
            body["required"] = list(node.required)
        return body
    if node.kind in (tables.LIST, tables.MAP):
        assert node.of is not None
        if node.kind == tables.MAP:
            return {"type": "object", "additionalProperties": _said(node.of)}
        return {"type": "array", "items": _said(node.of), **_list_type(node)}
    body = dict(_SCALARS[node.kind])
    return {**body, "enum": list(node.enum)} if node.enum else body


def _list_type(node: Node) -> dict[str, Any]:
    if node.keys:
        return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(node.keys)}
    if node.is_set or node.is_atomic:
        return {"x-kubernetes-list-type": "set" if node.is_set else "atomic"}
    return {}
