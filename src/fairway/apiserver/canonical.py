"""How does an object of a built-in kind read once Go has read and written it?

Quantities take their canonical form (`1` → `"1"`, `1024Mi` → `1Gi`); null and empty maps and lists are gone where
Go omits them, and what Go always writes is there (`completed`). Custom objects are kept as they were written.

Source: encoding/json `omitempty` on k8s.io/api types; resource.Quantity.CanonicalizeBytes (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairway.apiserver.patching.gotypes import always_written
from fairway.cluster.store import Store
from fairway.kube import quantity
from fairway.kube.kinds import BY_GROUP_KIND
from fairway.kube.memos import memo
from fairway.kube.objects import Obj
from fairway.kube.schema.document import definition
from fairway.kube.schema.node import ARRAY, OBJECT, QUANTITY, Schema, schema_for

# Below here Go keeps what it is given.
_OPAQUE = ("managedFields",)
# Pods of one template share their spec, and go on sharing it once it is complete.
_SHARED = "io.k8s.api.core.v1.PodSpec"
# A few, since each may have a megabyte: pods of one template come one after another.
_MAX_KNOWN = 64


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
        return _struct(value, schema)
    if isinstance(value, list):
        if schema.items is None:
            return value
        settled = [_value(schema.items.zero if item is None else item, schema.items) for item in value]
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


@dataclass(slots=True)
class _Plan:
    """Of one Go type: which members it always writes, and below which members others are."""

    always: Mapping[str, Any] = field(default_factory=dict)
    below: dict[str, _Plan] = field(default_factory=dict)
    items: _Plan | None = None
    is_shared: bool = False


_NOTHING = _Plan()
_ZEROS: dict[str, Any] = {"string": "", "integer": 0, "boolean": False}
_NUMBERS = ("", "int32", "int64")
_PLANS: dict[int, tuple[Schema, _Plan]] = {}
# Each by its identity, which stays its own while it is held here.
_KNOWN: dict[int, tuple[dict[str, Any], dict[str, Any]]] = memo()


def completed(obj: Obj, schema: Schema) -> Obj:
    """The object with the members that Go always writes; itself where they are there. O(what there may be)."""
    known = _PLANS.get(id(schema))
    if known is None:
        known = _PLANS[id(schema)] = (schema, _plan(schema, ()))
    settled: Obj = _complete(obj, known[1])
    return settled


def complete_in(store: Store) -> None:
    """From now on every built-in object a store creates, whoever wrote it, is complete."""
    for gk, kind in BY_GROUP_KIND.items():
        before = store.completing.get(gk)
        store.completing[gk] = _completer(kind.kind, before)


def _completer(kind: str, before: Callable[[Obj], Obj] | None) -> Callable[[Obj], Obj]:
    def complete(obj: Obj) -> Obj:
        obj = obj if before is None else before(obj)
        schema = schema_for(obj["apiVersion"], kind)
        return obj if schema is None else completed(obj, schema)

    return complete


def _plan(schema: Schema, above: tuple[int, ...], *, is_status: bool = False) -> _Plan:
    """A type within itself (a CRD's schema) is left alone from there on."""
    if id(schema) in above or schema.is_custom:
        return _NOTHING
    above = (*above, id(schema))
    if schema.items is not None:
        within = _plan(schema.items, above, is_status=is_status)
        return _NOTHING if within is _NOTHING else _Plan(items=within)
    always = {**_zeros(schema), **always_written(schema)} if is_status else dict(always_written(schema))
    below = {}
    for name, member in schema.properties.items():
        plan = _NOTHING if name in _OPAQUE else _plan(member, above, is_status=is_status or name == "status")
        if plan is not _NOTHING:
            below[name] = plan
    if not always and not below:
        return _NOTHING
    return _Plan(always, below, is_shared=schema.go_type == _SHARED)


def _zeros(schema: Schema) -> dict[str, Any]:
    """Texts, numbers and truths without `omitempty`: a status is written by whoever may, and nobody checks that its
    conditions have a type. Source: OpenAPI's `required` of a built-in type is what its tags do not omit."""
    required = definition(schema.go_type).get("required", ()) if schema.go_type else ()
    kinds = {name: schema.properties[name] for name in required if name in schema.properties}
    return {
        name: _ZEROS[s.type]
        for name, s in kinds.items()
        if s.type in _ZEROS and not s.go_type and s.format in _NUMBERS
    }


def _complete(value: Any, plan: _Plan) -> Any:
    if plan.items is not None:
        return _complete_all(value, plan.items)
    if not isinstance(value, dict):
        return value
    if not plan.is_shared:
        return _complete_struct(value, plan)
    known = _KNOWN.get(id(value))
    if known is None:
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[id(value)] = (value, _complete_struct(value, plan))
    return known[1]


def _complete_all(value: Any, plan: _Plan) -> Any:
    if not isinstance(value, list):
        return value
    items = [_complete(item, plan) for item in value]
    return value if all(a is b for a, b in zip(items, value, strict=True)) else items


def _complete_struct(value: dict[str, Any], plan: _Plan) -> dict[str, Any]:
    out: dict[str, Any] | None = None
    for name, unset in plan.always.items():
        if name not in value or (value[name] is None and unset is not None):
            out = out if out is not None else dict(value)
            out[name] = unset
    for name, below in plan.below.items():
        held = value.get(name) if out is None else out.get(name)
        settled = _complete(held, below)
        if settled is not held:
            out = out if out is not None else dict(value)
            out[name] = settled
    return value if out is None else out
