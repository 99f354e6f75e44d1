"""Does an object of Kueue's keep its CRD's schema? Defaults, unknown fields, and every fault in the server's words.

Faults come in the order of the schema (fields by name). On update, what was wrong before and is unchanged may stay
(ratcheting), except for rules that look back.

Source: apiextensions-apiserver pkg/apiserver/validation, pkg/registry/customresource/strategy.go, schema/cel,
schema/listtype; kube-openapi pkg/validation (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fairway.kube.fieldpath import Path, path_text
from fairway.kube.goregexp import is_match
from fairway.kube.validation.problem import INVALID
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import OMITTED, Fault
from fairway.queueing.webhooks.rules import RULES
from fairway.queueing.webhooks.schema import (
    ANY,
    BOOL,
    INT,
    LIST,
    MAP,
    NUM,
    PATTERNS,
    QTY,
    STR,
    STRUCT,
    TIME,
    Node,
)

_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_JSON_TYPES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
_TYPE_NAMES = {
    STR: "string",
    TIME: "string",
    BOOL: "boolean",
    INT: "integer",
    NUM: "number",
    QTY: "integer,string",
    LIST: "array",
    MAP: "object",
    STRUCT: "object",
}
_ACCEPTED: dict[str, tuple[type, ...]] = {
    STR: (str,),
    TIME: (str,),
    BOOL: (bool,),
    INT: (int,),
    NUM: (int, float),
    QTY: (int, str),
    LIST: (list,),
    MAP: (dict,),
    STRUCT: (dict,),
}
# What the API server itself declares beside the CRD.
_META = ("apiVersion", "kind", "metadata")


def with_defaults(node: Node, value: Any) -> Any:
    """The value with the schema's defaults filled in; shared where nothing is missing.

    An explicit null of a field with a default counts as absent. Source: structural defaulting.
    """
    if node.kind == STRUCT and isinstance(value, dict):
        out = value
        for name, member in node.fields.items():
            if not member.has_defaults:
                continue
            given = value.get(name)
            if given is None and member.has_default:
                given = member.default
            if given is None:
                continue
            filled = with_defaults(member, given)
            if filled is not value.get(name):
                out = {**out, name: filled}
        return out
    if node.kind == LIST and isinstance(value, list) and node.of is not None and node.of.has_defaults:
        items = [with_defaults(node.of, item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def unknown_fields(node: Node, value: Any, path: Path = ()) -> list[Path]:
    """Fields nobody declared, in the order of the text. The API server prunes them, or refuses when strict."""
    if node.kind == STRUCT and isinstance(value, dict):
        found: list[Path] = []
        for name, member in value.items():
            declared = node.fields.get(name)
            if declared is not None:
                found += unknown_fields(declared, member, (*path, name))
            elif path or name not in _META:
                found.append((*path, name))
        return found
    if node.kind == LIST and isinstance(value, list) and node.of is not None:
        return [p for i, item in enumerate(value) for p in unknown_fields(node.of, item, (*path, i))]
    return []


def schema_faults(node: Node, value: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[Fault]:
    """What the API server finds wrong. `old`: on update, what was stored."""
    out: list[Fault] = []
    _check(node, dict(value), (), out)
    _check_lists(node, value, (), out)
    if old is not None:
        out = [fault for fault in out if not _is_unchanged(fault.path, value, old)]
    if not node.has_rules:
        return out
    if any(fault.kind in f.BLOCKING for fault in out):
        return [*out, Fault((), "null", INVALID, _NOT_CHECKED)]
    _apply_rules(node, value, old, (), out)
    return out


def type_faults(node: Node, value: Mapping[str, Any]) -> list[Fault]:
    """What each field by itself does wrong: its type, its limits."""
    out: list[Fault] = []
    _check(node, dict(value), (), out)
    return out


def _check(node: Node, value: Any, path: Path, out: list[Fault]) -> None:
    if node.kind == ANY:
        return
    if not _is_of_type(node.kind, value):
        out.append(_wrong_type(path, value, _TYPE_NAMES[node.kind]))
        return
    if isinstance(value, str):
        _check_text(node, value, path, out)
    elif isinstance(value, list):
        _check_list(node, value, path, out)
    elif isinstance(value, dict):
        _check_mapping(node, value, path, out)
    elif node.minimum is not None and value < node.minimum:
        detail = f"{_in_body(path)} should be greater than or equal to {node.minimum}"
        out.append(f.invalid(path, value, detail))


def _is_of_type(kind: str, value: Any) -> bool:
    of_type = type(value)
    if of_type is float and kind in (INT, QTY) and value.is_integer():
        return True
    return of_type in _ACCEPTED[kind]


def _in_body(path: Path) -> str:
    return f"{path_text(path)} in body"


def _wrong_type(path: Path, value: Any, wanted: str) -> Fault:
    name = _JSON_TYPES.get(type(value), "object")
    return Fault(path, name, f.TYPE_INVALID, f'{_in_body(path)} must be of type {wanted}: "{name}"')


def _check_text(node: Node, text: str, path: Path, out: list[Fault]) -> None:
    shortest, longest = node.length
    if longest is not None and len(text) > longest:
        out.append(f.too_long(path, longest))
    if shortest is not None and len(text) < shortest:
        plural = f"{_in_body(path)} should be at least {shortest} chars long"
        out.append(f.invalid(path, text, plural))
    name = node.pattern or ("quantity" if node.kind == QTY else "")
    if name and not is_match(PATTERNS[name], text):
        out.append(f.invalid(path, text, f"{_in_body(path)} should match '{PATTERNS[name]}'"))
    if node.kind == TIME and not _TIME.fullmatch(text):
        detail = f"{_in_body(path)} must be of type date-time: {f.go_text(text)}"
        out.append(Fault(path, text, f.TYPE_INVALID, detail))
    if node.enum and text not in node.enum:
        out.append(f.unsupported(path, text, node.enum))


def _check_list(node: Node, items: list[Any], path: Path, out: list[Fault]) -> None:
    fewest, most = node.items
    if node.of is not None:
        for index, item in enumerate(items):
            _check(node.of, item, (*path, index), out)
    if most is not None and len(items) > most:
        out.append(f.too_many(path, len(items), most))
    if fewest is not None and len(items) < fewest:
        out.append(f.invalid(path, len(items), f"{_in_body(path)} should have at least {fewest} items"))


def _check_mapping(node: Node, value: dict[str, Any], path: Path, out: list[Fault]) -> None:
    if node.most_properties is not None and len(value) > node.most_properties:
        out.append(f.too_many(path, len(value), node.most_properties))
    if node.kind == MAP:
        assert node.of is not None
        for key, member in value.items():
            # kube-openapi writes keys of maps like fields: `spec.nodeLabels.zone`.
            _check(node.of, member, (*path, key), out)
        return
    for name, declared in node.fields.items():
        if name in value:
            _check(declared, value[name], (*path, name), out)
    out.extend(f.required((*path, name)) for name in node.required if name not in value)


def _check_lists(node: Node, value: Any, path: Path, out: list[Fault]) -> None:
    """Repeats in lists that are maps or sets. Source: schema/listtype/validation.go."""
    if isinstance(value, dict):
        for name, declared in node.fields.items():
            if declared.has_keys and name in value:
                _check_lists(declared, value[name], (*path, name), out)
    elif isinstance(value, list) and node.of is not None:
        seen: list[Any] = []
        for index, item in enumerate(value):
            if node.keys or node.is_set:
                key = {k: item.get(k) for k in node.keys} if isinstance(item, dict) else item
                if key in seen:
                    out.append(f.duplicate((*path, index), key))
                else:
                    seen.append(key)
            _check_lists(node.of, item, (*path, index), out)


def _apply_rules(node: Node, value: Any, old: Any, path: Path, out: list[Fault]) -> None:
    for name in node.rules:
        rule = RULES[name]
        if rule.looks_back and old is None:
            continue
        if not rule.holds(value, old) and (rule.looks_back or old is None or value != old):
            shown = OMITTED if isinstance(value, (dict, list)) else value
            out.append(f.invalid(path, shown, rule.message))
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, declared in node.fields.items():
            if value.get(name) is not None and declared.has_rules:
                _apply_rules(declared, value[name], before.get(name), (*path, name), out)
    elif isinstance(value, list) and node.of is not None and node.of.has_rules:
        for index, item in enumerate(value):
            _apply_rules(node.of, item, _counterpart(node, item, old), (*path, index), out)


def _counterpart(node: Node, item: Any, old: Any) -> Any:
    """The item of the old list with the same key; lists without keys have none."""
    if not node.keys or not isinstance(old, list) or not isinstance(item, dict):
        return None
    wanted = [item.get(k) for k in node.keys]
    return next((o for o in old if [o.get(k) for k in node.keys] == wanted), None)


def _is_unchanged(path: Path, new: Any, old: Any) -> bool:
    """Whether the place, or for something missing its parent, is what it was. Source: KEP-4008."""
    for step in path:
        if isinstance(new, dict) and isinstance(old, dict) and step in new and step in old:
            new, old = new[step], old[step]
        elif isinstance(new, list) and isinstance(old, list) and isinstance(step, int):
            if step >= len(new) or step >= len(old):
                return False
            new, old = new[step], old[step]
        else:
            break
    return bool(new == old)
