"""How does an object of a built-in kind read once Go has read and written it?

Quantities take their canonical form (`1` → `"1"`, `1024Mi` → `1Gi`); null and empty maps and lists are gone where
Go omits them. Custom objects are kept as they were written.

Source: encoding/json `omitempty` on k8s.io/api types; resource.Quantity.CanonicalizeBytes (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.apiserver.patching.gotypes import always_written
from fairway.kube import quantity
from fairway.kube.objects import Obj
from fairway.kube.schema.node import ARRAY, OBJECT, QUANTITY, Schema

# Below here Go keeps what it is given.
_OPAQUE = ("managedFields",)


def canonical(obj: Obj, schema: Schema) -> Obj:
    """The same object where nothing changes; shares what does not."""
    return _struct(obj, schema)


def _struct(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    out: dict[str, Any] | None = None
    properties = schema.properties
    for name, member in value.items():
        below = properties.get(name)
        if below is None or name in _OPAQUE:
            continue
        settled = _value(member, below)
        is_gone = settled is None or (
            settled in ([], {}) and below.type in (ARRAY, OBJECT) and _is_omitted(below)
        )
        if is_gone and name in always_written(schema):
            continue
        if settled is not member or is_gone:
            if out is None:
                out = dict(value)
            if is_gone:
                del out[name]
            else:
                out[name] = settled
    return value if out is None else out


def _is_omitted(schema: Schema) -> bool:
    """Whether Go leaves an empty value of this type out: lists and maps, not structs."""
    return schema.type == ARRAY or (schema.type == OBJECT and schema.values is not None)


def _value(value: Any, schema: Schema) -> Any:
    if isinstance(value, dict):
        if schema.values is not None:
            return _map(value, schema.values)
        return _struct(value, schema) if schema.properties else value
    if isinstance(value, list):
        if schema.items is None:
            return value
        settled = [_value(item, schema.items) for item in value]
        return value if all(a is b for a, b in zip(settled, value, strict=True)) else settled
    if schema.format == QUANTITY and value is not None:
        return _quantity(value)
    return value


def _map(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    settled = {k: _value(v, schema) for k, v in value.items()}
    return value if all(settled[k] is v for k, v in value.items()) else settled


def _quantity(value: Any) -> Any:
    try:
        text = quantity.canonical(value)
    except quantity.QuantityError:
        return value
    return value if text == value else text
