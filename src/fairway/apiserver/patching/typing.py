"""Does what is applied have the types of its kind?

Source: structured-merge-diff typed/validate.go, typed/helpers.go (v6).
"""

from __future__ import annotations

import json
from typing import Any

from fairway.apiserver.patching.fieldset import path_text
from fairway.apiserver.patching.walk import item_element
from fairway.kube.gojson import go_text
from fairway.kube.schema.node import ANY, ARRAY, BOOLEAN, BYTES, INTEGER, NUMBER, STRING, Schema

_GRANULAR_LISTS = ("set", "map")


def type_errors(value: Any, schema: Schema | None, path: str = "") -> list[str]:
    """The sentences, as `.spec.replicas: expected …`."""
    if schema is None or value is None:
        return []
    if schema.type in (STRING, INTEGER, NUMBER, BOOLEAN, ANY) and not schema.properties:
        said = _scalar(value, schema)
        return [f"{path}: {said}"] if said else []
    if schema.type == ARRAY:
        if not isinstance(value, list):
            return [f"{path}: expected list, got &{{{go_text(value)}}}"]
        return _items(value, schema, path)
    if not isinstance(value, dict):
        return [f"{path}: expected map, got &{{{go_text(value)}}}"]
    return _members(value, schema, path)


def _members(value: dict[str, Any], schema: Schema, path: str) -> list[str]:
    out: list[str] = []
    for name, member in value.items():
        child = schema.child(name)
        if child is None and schema.properties and not schema.is_open:
            # Nothing else is looked at there.
            return [f"{path}.{name}: field not declared in schema"]
        out.extend(type_errors(member, child, f"{path}.{name}"))
    return out


def _items(items: list[Any], schema: Schema, path: str) -> list[str]:
    out: list[str] = []
    seen: set[str] = set()
    is_granular = schema.list_type in _GRANULAR_LISTS
    for index, item in enumerate(items):
        place = f"{path}[{index}]"
        if is_granular:
            if schema.list_type == "map" and not isinstance(item, dict):
                what = "associative list with keys may not have non-map elements"
                return [f"{path}: element {index}: {what}"]
            element = item_element(item, schema)
            place = path + path_text((element,))
            if element in seen:
                out.append(f"{path}: duplicate entries for key {path_text((element,))}")
            seen.add(element)
        out.extend(type_errors(item, schema.items, place))
    return out


def _scalar(value: Any, schema: Schema) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if schema.type == ANY:
        return ""
    if schema.format not in ("", BYTES) and schema.type == STRING:
        return f"expected any scalar, got &{{{go_text(value)}}}" if isinstance(value, (dict, list)) else ""
    if schema.type in (INTEGER, NUMBER):
        return "" if is_number else f"expected numeric (int or float), got {_go_type(value)}"
    if schema.type == BOOLEAN:
        return "" if isinstance(value, bool) else f"expected boolean, got &{{{go_text(value)}}}"
    if isinstance(value, str):
        return ""
    return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"


def _go_type(value: Any) -> str:
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return "bool" if isinstance(value, bool) else "string"


def _go_syntax(value: Any) -> str:
    """As Go's `%#v`."""
    if isinstance(value, dict):
        return f"{_go_type(value)}{{{', '.join(f'{json.dumps(k)}:{_go_syntax(value[k])}' for k in sorted(value))}}}"
    if isinstance(value, list):
        return f"{_go_type(value)}{{{', '.join(map(_go_syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return json.dumps(value, ensure_ascii=False)
