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
    filled: Obj = _default(_without_nulls(obj, schema), schema)
    return filled


def _without_nulls(value: Any, schema: Schema) -> Any:
    """The same value where no null goes."""
    out = None
    if type(value) is dict:
        for key, member in value.items():
            declared = schema.properties.get(key) or schema.values
            if declared is None or not declared.is_custom:
                continue
            if member is None:
                if not declared.is_nullable and declared.default is None:
                    out = dict(value) if out is None else out
                    del out[key]
            elif type(member) is dict or type(member) is list:
                kept = _without_nulls(member, declared)
                if kept is not member:
                    out = dict(value) if out is None else out
                    out[key] = kept
    elif type(value) is list and schema.items is not None:
        items = [_without_nulls(item, schema.items) for item in value]
        if any(a is not b for a, b in zip(items, value, strict=True)):
            return items
    return value if out is None else out


def _default(value: Any, schema: Schema) -> Any:
    """The same value where nothing is filled in. Only fields with a default, or one below, are looked at."""
    if type(value) is dict:
        out = value
        for key, declared in _defaulting(schema):
            held = value.get(key)
            if (
                held is None
                and declared.default is not None
                and (key not in value or not declared.is_nullable)
            ):
                held = copy.deepcopy(declared.default)
            if held is None:
                continue
            filled = _default(held, declared)
            if filled is not value.get(key):
                out = dict(value) if out is value else out
                out[key] = filled
        values = schema.values
        if values is not None and _has_defaults(values):
            known = schema.properties
            out = {k: v if k in known else _default_item(v, values) for k, v in out.items()}
        return out
    if type(value) is list and schema.items is not None and _has_defaults(schema.items):
        return [_default_item(item, schema.items) for item in value]
    return value


def _default_item(value: Any, schema: Schema) -> Any:
    if value is None and not schema.is_nullable and schema.default is not None:
        value = copy.deepcopy(schema.default)
    return _default(value, schema)


def _has_defaults(schema: Schema) -> bool:
    """Whether there is a default here or below. A tree that is being looked through has none further down."""
    if schema.defaulting is None:
        _defaulting(schema)
    below = schema.items or schema.values
    return (
        schema.default is not None or bool(schema.defaulting) or (below is not None and _has_defaults(below))
    )


def _defaulting(schema: Schema) -> tuple[tuple[str, Schema], ...]:
    """The fields with a default, or one below. Found once."""
    known = schema.defaulting
    if known is None:
        schema.defaulting = ()
        if schema.is_custom:
            named = schema.properties.items()
            schema.defaulting = tuple((n, s) for n, s in named if s.is_custom and _has_defaults(s))
        known = schema.defaulting
    return known
