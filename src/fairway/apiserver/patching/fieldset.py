"""Sets of fields, as `managedFields` writes them: tries of path elements.

An element is `f:name` (a field or a map's key), `k:{"name":"c"}` (an item of a `map` list by its keys), `v:"x"` (an
item of a `set` list by its value) or `i:0`. A `FieldSet` is FieldsV1 itself: element → set below. An element whose
set below is empty, or holds `.`, is itself a member. The empty set is `{}` at the top only.

Nothing here mutates its arguments; results share what they can.

Source: structured-merge-diff fieldpath/set.go, serialize.go, element.go (v6).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

FieldSet = dict[str, Any]

SELF = "."
_NONE: FieldSet = {}


def is_field_set(value: Any) -> bool:
    """Whether this is a set of fields: elements that can be read, each over another set."""
    return isinstance(value, dict) and all(
        (element == SELF or _is_element(element)) and is_field_set(below) for element, below in value.items()
    )


def _is_element(element: str) -> bool:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return True
    if kind == "i:":
        return text.removeprefix("-").isdecimal() and text.isascii()
    if kind not in ("k:", "v:"):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return kind == "v:" or isinstance(value, dict)


def is_member(below: FieldSet) -> bool:
    """Is the element this set hangs below a member?"""
    return not below or SELF in below


def element_key(keys: dict[str, Any]) -> str:
    """The element of an item of a `map` list."""
    return "k:" + json.dumps(keys, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def element_value(value: Any) -> str:
    """The element of an item of a `set` list."""
    return "v:" + json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or left == right:
        return right
    if not right:
        return left
    out = dict(left)
    for element, below in right.items():
        mine = out.get(element)
        out[element] = below if mine is None else _joined(mine, below)
    return out


def _joined(left: FieldSet, right: FieldSet) -> FieldSet:
    if left == right:
        return left
    both = union(left, right)
    if both and (is_member(left) or is_member(right)) and SELF not in both:
        both = {SELF: _NONE, **both}
    return both


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of `left` that are not members of `right`."""
    if not left or not right:
        return left
    out: FieldSet = {}
    for element, below in left.items():
        theirs = right.get(element)
        if theirs is None or element == SELF:
            out[element] = below
            continue
        kept = difference(_beyond_self(below), _beyond_self(theirs))
        _put(out, element, kept, is_member(below) and not is_member(theirs))
    return out


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """`left` without the members of `right` and everything below them."""
    if not left or not right:
        return left
    out: FieldSet = {}
    for element, below in left.items():
        theirs = right.get(element)
        if theirs is None or element == SELF:
            out[element] = below
        elif not is_member(theirs):
            kept = recursive_difference(_beyond_self(below), theirs)
            _put(out, element, kept, is_member(below))
    return out


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    out: FieldSet = {}
    for element, below in left.items():
        theirs = right.get(element)
        if theirs is not None and element != SELF:
            both = intersection(_beyond_self(below), _beyond_self(theirs))
            _put(out, element, both, is_member(below) and is_member(theirs))
    return out


def _beyond_self(below: FieldSet) -> FieldSet:
    return {e: b for e, b in below.items() if e != SELF} if SELF in below else below


def _put(out: FieldSet, element: str, below: FieldSet, member: bool) -> None:
    if below:
        out[element] = {SELF: _NONE, **below} if member else below
    elif member:
        out[element] = {}


def members(fields: FieldSet, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every member as a path of elements, at each place before those below. Source: fieldpath Set.Iterate."""
    inner = [(element, below) for element, below in fields.items() if element != SELF]
    for element, below in inner:
        if is_member(below):
            yield (*above, element)
    for element, below in inner:
        yield from members(below, (*above, element))


def path_text(path: tuple[str, ...]) -> str:
    """A path as conflicts print it: `.spec.containers[name="c"].image`."""
    return "".join(_element_text(element) for element in path)


def _element_text(element: str) -> str:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "k:":
        keys = json.loads(text)
        return "[" + ",".join(f"{name}={_value_text(value)}" for name, value in sorted(keys.items())) + "]"
    if kind == "v:":
        return f"[={_value_text(json.loads(text))}]"
    return f"[{text}]"


def _value_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
