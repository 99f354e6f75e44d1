"""A CustomResourceDefinition's `openAPIV3Schema` as a `Schema` tree.

What `x-kubernetes-embedded-resource` and the root imply is made explicit here: both have apiVersion, kind and
metadata, whatever the schema says of them. Source: apiextensions-apiserver pkg/apiserver/schema (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.memos import memo
from fairway.kube.schema.node import (
    INT_OR_STRING,
    STRING,
    Schema,
    object_meta_schema,
    set_list_extensions,
)

META_FIELDS = ("apiVersion", "kind", "metadata")


def custom_schema(open_api_v3: dict[str, Any]) -> Schema:
    """The tree of a CRD version's `schema.openAPIV3Schema`. Parts that are the same dict become the same node."""
    root = _made(open_api_v3, {})
    root.is_embedded = True
    _imply_metadata(root)
    return root


# A definition's version → its tree. The version is kept with it, so that its identity stays its own.
_TREES: dict[int, tuple[dict[str, Any], Schema | None]] = memo()
_MAX_TREES = 4096


def tree_of(version: dict[str, Any]) -> Schema | None:
    """The tree of an entry of a definition's `spec.versions`; None where it has no schema. Built once."""
    known = _TREES.get(id(version))
    if known is None or known[0] is not version:
        text = (version.get("schema") or {}).get("openAPIV3Schema")
        if len(_TREES) >= _MAX_TREES:
            _TREES.clear()
        known = _TREES[id(version)] = (version, custom_schema(text) if text else None)
    return known[1]


_Made = dict[int, Schema]


def _node(body: dict[str, Any], made: _Made) -> Schema:
    known = made.get(id(body))
    if known is None:
        known = made[id(body)] = _made(body, made)
    return known


def _made(body: dict[str, Any], made: _Made) -> Schema:
    node = Schema(
        type=body.get("type", ""),
        format=body.get("format", ""),
        is_open=bool(body.get("x-kubernetes-preserve-unknown-fields")),
        is_embedded=bool(body.get("x-kubernetes-embedded-resource")),
        is_nullable=bool(body.get("nullable")),
        default=body.get("default"),
        raw=body,
    )
    if body.get("x-kubernetes-int-or-string"):
        node.type, node.format = STRING, INT_OR_STRING
    for name, member in (body.get("properties") or {}).items():
        node.properties[name] = _node(member, made)
    values = body.get("additionalProperties")
    if isinstance(values, dict):
        node.values = _node(values, made)
    elif values is True:
        node.values = Schema(raw={}, is_open=True)
    if isinstance(body.get("items"), dict):
        node.items = _node(body["items"], made)
    set_list_extensions(node, body)
    if node.is_embedded:
        _imply_metadata(node)
    return node


def _imply_metadata(node: Schema) -> None:
    node.properties = {
        "apiVersion": Schema(type=STRING, raw={}, is_nullable=False),
        "kind": Schema(type=STRING, raw={}, is_nullable=False),
        **{name: member for name, member in node.properties.items() if name != "metadata"},
        "metadata": object_meta_schema(),
    }
