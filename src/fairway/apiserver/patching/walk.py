"""Which fields does an object have, which differ between two, and how are two merged?

One walk over values and schema at once. Lists are units unless their schema says `map` (items go by key fields) or
`set` (items go by value); objects are granular unless `atomic`. Where there is no schema, objects are granular and
lists are units, as upstream deduces it.

Source: structured-merge-diff typed/tofieldset.go, comparison.go, merge.go, remove.go (v6).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fairway.apiserver.patching.fieldset import (
    SELF,
    FieldSet,
    element_key,
    element_value,
    is_member,
)
from fairway.apiserver.patching.gotypes import always_written
from fairway.kube.schema.node import Schema

_GRANULAR_LISTS = ("map", "set")
_UNTYPED = Schema()


class Comparison(NamedTuple):
    """What changed from one object to another."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet


def fields_of(value: dict[str, Any], schema: Schema | None) -> FieldSet:
    """The fields an applied object names: leaves, items of lists, entries of maps; structs only when empty."""
    found: FieldSet = {}
    known = schema.properties if schema is not None else {}
    values = schema.values if schema is not None else None
    for name, member in value.items():
        declared = known.get(name)
        below = _below(member, declared if declared is not None else values)
        if below and declared is None and schema is not None:
            below = {SELF: {}, **below}
        found["f:" + name] = below
    return found


def _below(value: Any, schema: Schema | None) -> FieldSet:
    """The set under one element: empty for leaves."""
    if type(value) is dict:
        if schema is not None and schema.map_type == "atomic":
            return {}
        return fields_of(value, schema)
    if type(value) is list and schema is not None and schema.list_type in _GRANULAR_LISTS:
        found: FieldSet = {}
        for item in value:
            element = item_element(item, schema)
            below = _below(item, schema.items)
            found[element] = {SELF: {}, **below} if below else below
        return found
    return {}


def item_element(item: Any, schema: Schema) -> str:
    """The path element of an item of a granular list. Absent key fields have their default."""
    if schema.list_type == "set" or type(item) is not dict:
        return element_value(item)
    keys: dict[str, Any] = {}
    for name in schema.list_map_keys:
        held = item.get(name)
        if held is None and schema.items is not None and name in schema.items.properties:
            held = schema.items.properties[name].default
        if held is not None:
            keys[name] = held
    return element_key(keys)


# Comparing


def compare(old: dict[str, Any], new: dict[str, Any], schema: Schema | None) -> Comparison:
    """The fields added, modified and removed between two objects of one schema."""
    result = Comparison({}, {}, {})
    _compare_objects(old, new, schema or _UNTYPED, result)
    return result


def _compare_objects(old: dict[str, Any], new: dict[str, Any], schema: Schema, result: Comparison) -> None:
    always = always_written(schema)
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if before is _ABSENT and name in always:
            before = always[name]
        if before is value or before == value:
            continue
        _compare_member("f:" + name, before, value, schema.child(name), result)
    for name, before in old.items():
        if name not in new:
            after = always.get(name, _ABSENT)
            if after is _ABSENT or before != after:
                _compare_member("f:" + name, before, after, schema.child(name), result)


_ABSENT: Any = object()


def _compare_member(element: str, old: Any, new: Any, schema: Schema | None, result: Comparison) -> None:
    if old is _ABSENT:
        result.added[element] = _everything(new, schema)
    elif new is _ABSENT:
        result.removed[element] = _everything(old, schema)
    elif _is_granular(old, new, schema):
        below = Comparison({}, {}, {})
        if type(old) is list or type(new) is list:
            _compare_lists(old or [], new or [], schema or _UNTYPED, below)
        else:
            _compare_objects(old or {}, new or {}, schema or _UNTYPED, below)
        for mine, theirs in zip(result, below, strict=True):
            if theirs:
                mine[element] = theirs
    else:
        result.modified[element] = {}


def _is_granular(old: Any, new: Any, schema: Schema | None) -> bool:
    """Are both sides (null counts as either) objects or lists to descend into, not both empty?"""
    if not old and not new:
        return False
    if all(side is None or type(side) is dict for side in (old, new)):
        return schema is None or schema.map_type != "atomic"
    if all(side is None or type(side) is list for side in (old, new)):
        return schema is not None and schema.list_type in _GRANULAR_LISTS
    return False


def _compare_lists(old: list[Any], new: list[Any], schema: Schema, result: Comparison) -> None:
    before = {item_element(item, schema): item for item in old}
    after = {item_element(item, schema): item for item in new}
    for element, item in after.items():
        held = before.get(element, _ABSENT)
        if held != item:
            _compare_member(element, held, item, schema.items, result)
    for element, item in before.items():
        if element not in after:
            _compare_member(element, item, _ABSENT, schema.items, result)


def _everything(value: Any, schema: Schema | None) -> FieldSet:
    """All fields at and below a value that one side has and the other lacks: members all the way down."""
    if type(value) is dict and (schema is None or schema.map_type != "atomic"):
        below = schema or _UNTYPED
        found: FieldSet = {"f:" + name: _everything(v, below.child(name)) for name, v in value.items()}
        for name, unset in always_written(below).items():
            if name not in value:
                found["f:" + name] = _everything(unset, below.child(name))
    elif type(value) is list and schema is not None and schema.list_type in _GRANULAR_LISTS:
        found = {item_element(item, schema): _everything(item, schema.items) for item in value}
    else:
        return {}
    return {SELF: {}, **found} if found else {}


# Merging


def merge(live: Any, applied: Any, schema: Schema | None) -> Any:
    """The live value with the applied one laid over it."""
    if type(live) is dict and type(applied) is dict:
        if schema is not None and schema.map_type == "atomic":
            return applied
        out = dict(live)
        for name, value in applied.items():
            held = out.get(name)
            below = schema.child(name) if schema is not None else None
            out[name] = value if held is None else merge(held, value, below)
        return out
    if type(live) is not list or type(applied) is not list or schema is None:
        return applied
    return _merge_lists(live, applied, schema) if schema.list_type in _GRANULAR_LISTS else applied


def _merge_lists(live: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    """The applied order, with live items that are not applied staying where they stood among the shared ones."""
    before = [(item_element(item, schema), item) for item in live]
    after = {item_element(item, schema): item for item in applied}
    held = dict(before)
    out: list[Any] = []
    at = 0
    done: set[str] = set()

    def take_unapplied(position: int) -> int:
        """Live items up to the next one that is applied and not merged yet."""
        while position < len(before):
            element, item = before[position]
            if element not in after:
                out.append(item)
            elif element not in done:
                break
            position += 1
        return position

    for element, item in after.items():
        at = take_unapplied(at)
        out.append(merge(held[element], item, schema.items) if element in held else item)
        done.add(element)
    take_unapplied(at)
    return out


# Removing


def remove(value: dict[str, Any], fields: FieldSet, schema: Schema | None) -> dict[str, Any]:
    """The object without the members of a set and all below them. What is emptied by that goes too."""
    out: dict[str, Any] = {}
    for name, member in value.items():
        below = fields.get("f:" + name)
        if below is None:
            out[name] = member
        elif not is_member(below):
            kept = _remove_below(member, below, schema.child(name) if schema is not None else None)
            if kept or not member:
                out[name] = kept
    return out


def _remove_below(value: Any, fields: FieldSet, schema: Schema | None) -> Any:
    if type(value) is dict:
        return remove(value, fields, schema)
    if type(value) is list and schema is not None and schema.list_type in _GRANULAR_LISTS:
        out = []
        for item in value:
            below = fields.get(item_element(item, schema))
            if below is None:
                out.append(item)
            elif not is_member(below):
                out.append(_remove_below(item, below, schema.items))
        return out
    return value


def with_parents(fields: FieldSet, schema: Schema | None) -> FieldSet:
    """The set with every struct's field above a member made a member too. Source: EnsureNamedFieldsAreMembers."""
    out: FieldSet = {}
    for element, below in fields.items():
        if element == SELF or not below:
            out[element] = below
            continue
        name = element[2:] if element.startswith("f:") else ""
        if schema is None:
            child, is_field = None, False
        elif name:
            child, is_field = schema.child(name), name in schema.properties
        else:
            child, is_field = schema.items, False
        deeper = with_parents(below, child)
        out[element] = {SELF: {}, **deeper} if is_field else deeper
    return out
