"""How does the API server reshape an object before it looks at it: pruning, and the defaults of custom ones.

Source: apiextensions-apiserver pkg/apiserver/schema/pruning and defaulting (v1.36).
"""

from __future__ import annotations

import copy
from typing import Any

from fairway.kube.objects import Obj
from fairway.kube.schema.node import Schema
from fairway.kube.schema.structural import META_FIELDS


def prune(obj: Obj, schema: Schema) -> Obj:
    """The object without what its schema does not specify. Metadata is left to its own rules."""
    pruned: Obj = _prune(obj, schema)
    return pruned


def _prune(value: Any, schema: Schema | None) -> Any:
    """A new value, or the same where nothing goes. `schema` None: a place nothing is specified for."""
    if type(value) is dict:
        return _prune_object(value, schema)
    if type(value) is list:
        items = schema.items if schema is not None else None
        if schema is not None and schema.is_open and items is None:
            return value
        pruned = [_prune(item, items) for item in value]
        return pruned if any(a is not b for a, b in zip(pruned, value, strict=True)) else value
    return value


def _prune_object(value: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    if schema is None:
        return {} if value else value
    if not schema.is_custom and not schema.properties and schema.values is None:
        return value
    out: dict[str, Any] = {}
    changed = False
    for key, member in value.items():
        if schema.is_embedded and key in META_FIELDS:
            out[key] = member
            continue
        declared = schema.properties.get(key) or schema.values
        if declared is not None:
            kept = _prune(member, declared)
            out[key] = kept
            changed = changed or kept is not member
        elif schema.is_open:
            out[key] = member
        else:
            changed = True
    return out if changed else value


def fill_defaults(obj: Obj, schema: Schema) -> Obj:
    """The object with its schema's defaults. Nulls where the schema allows none go, unless there is a default."""
    filled: Obj = _default(_drop_nulls(obj, schema), schema)
    return filled


def _drop_nulls(value: Any, schema: Schema) -> Any:
    if not schema.is_custom:
        return value
    if type(value) is dict:
        out = {}
        for key, member in value.items():
            declared = schema.properties.get(key) or schema.values
            if declared is None or not declared.is_custom:
                out[key] = member
            elif member is None and not declared.is_nullable and declared.default is None:
                continue
            else:
                out[key] = _drop_nulls(member, declared)
        return out
    if type(value) is list and schema.items is not None:
        return [_drop_nulls(item, schema.items) for item in value]
    return value


def _default(value: Any, schema: Schema) -> Any:
    if not schema.is_custom:
        return value
    if type(value) is dict:
        out = dict(value)
        for key, declared in schema.properties.items():
            if declared.default is None or not declared.is_custom:
                continue
            if key not in out or (out[key] is None and not declared.is_nullable):
                out[key] = copy.deepcopy(declared.default)
        for key, member in out.items():
            below = schema.properties.get(key) or schema.values
            if below is not None:
                out[key] = _default_item(member, below)
        return out
    if type(value) is list and schema.items is not None:
        return [_default_item(item, schema.items) for item in value]
    return value


def _default_item(value: Any, schema: Schema) -> Any:
    if value is None and not schema.is_nullable and schema.default is not None:
        value = copy.deepcopy(schema.default)
    return _default(value, schema)
