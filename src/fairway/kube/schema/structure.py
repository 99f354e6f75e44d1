"""Is this `openAPIV3Schema` structural, and does it keep the rules of CustomResourceDefinitions?

Two walks as upstream: the invariants of structural schemas, sorted by their text, then the rules of the OpenAPI
subset. Costs and types of CEL rules are the business of whoever evaluates CEL.

Source: apiextensions-apiserver pkg/apiserver/schema/validation.go, complete.go, defaulting/validation.go;
pkg/apis/apiextensions/validation/validation.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube import goregexp
from fairway.kube.fieldpath import MapKey, Path, path_text
from fairway.kube.problem import Problem, forbidden, invalid, required, unsupported
from fairway.kube.schema.shaping import prune
from fairway.kube.schema.structural import META_FIELDS, custom_schema
from fairway.kube.schema.values import validate_custom

_ROOT, _ITEM, _FIELD = "at the root", "for specified array items", "for specified object fields"
_JUNCTORS = ("anyOf", "allOf", "oneOf")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_LIST_TYPE, _LIST_KEYS, _MAP_TYPE = (
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
_INT_TEXT = "x-kubernetes-int-or-string"
_RULES = "x-kubernetes-validations"
_UNSUPPORTED = ("definitions", "dependencies", "patternProperties", "additionalItems", "$ref", "id")
_RULE_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def check_schema(schema: dict[str, Any], path: Path) -> list[Problem]:
    """Everything wrong with a CRD version's schema."""
    structural: list[Problem] = []
    _check_invariants(schema, _ROOT, path, structural)
    structural.sort(key=str)
    found = structural
    if not structural:
        _check_defaults(schema, path, found)
    if schema.get("nullable"):
        found.append(forbidden((*path[:-1], f"{path[-1]}.nullable"), "nullable cannot be true at the root"))
    _check_subset(schema, path, found)
    return found


# Structural invariants


def _check_invariants(schema: dict[str, Any], level: str, path: Path, found: list[Problem]) -> None:
    kind = schema.get("type") or ""
    items, properties = schema.get("items"), schema.get("properties") or {}
    if kind == "array" and not isinstance(items, dict):
        found.append(required((*path, "items"), "must be specified"))
    if isinstance(items, dict):
        _check_invariants(items, _ITEM, (*path, "items"), found)
    for name, member in properties.items():
        _check_invariants(member, _FIELD, (*path, "properties", MapKey(name)), found)
    values = schema.get("additionalProperties")
    if values is not None:
        if level == _ROOT:
            found.append(forbidden((*path, "additionalProperties"), "must not be used at the root"))
        if isinstance(values, dict):
            _check_invariants(values, _FIELD, (*path, "additionalProperties"), found)
    _check_extensions(schema, path, found)
    _check_value_rules(schema, schema, path, found)
    _check_type(schema, kind, level, path, found)
    _check_root_metadata(schema, properties, level, path, found)


def _check_extensions(schema: dict[str, Any], path: Path, found: list[Problem]) -> None:
    if schema.get(_INT_TEXT):
        rule = f"must be false if {_INT_TEXT} is true"
        clashing = [key for key in (_PRESERVE, _EMBEDDED) if schema.get(key)]
        found.extend(invalid((*path, key), True, rule) for key in clashing)


def _check_type(schema: dict[str, Any], kind: str, level: str, path: Path, found: list[Problem]) -> None:
    at = (*path, "type")
    if schema.get(_EMBEDDED) and kind != "object":
        rule = f"must be object if {_EMBEDDED} is true"
        found.append(invalid(at, kind, rule) if kind else required(at, rule))
    elif not kind and not schema.get(_INT_TEXT) and not schema.get(_PRESERVE):
        found.append(required(at, f"must not be empty {level}"))
    if schema.get(_EMBEDDED) and schema.get("additionalProperties") is not None:
        found.append(forbidden((*path, "additionalProperties"), f"must not be used if {_EMBEDDED} is set"))
    if level == _ROOT and kind and kind != "object":
        found.append(invalid(at, kind, "must be object at the root"))
    if schema.get(_EMBEDDED) and not schema.get(_PRESERVE) and not schema.get("properties"):
        rule = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        found.append(required((*path, "properties"), rule))


def _check_root_metadata(
    schema: dict[str, Any], properties: dict[str, Any], level: str, path: Path, found: list[Problem]
) -> None:
    if level != _ROOT and not schema.get(_EMBEDDED):
        return
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        declared = properties.get(name)
        if declared is not None and declared.get("type") != wanted:
            at = (*path, "properties", MapKey(name), "type")
            found.append(invalid(at, declared.get("type") or "", f"must be {wanted}"))
    metadata = properties.get("metadata")
    if level == _ROOT and metadata is not None:
        beyond = {k for k, v in metadata.items() if v} - {"type", "properties", "description", "default"}
        names = set(metadata.get("properties") or {}) - {"name", "generateName"}
        if beyond or names or metadata.get("description"):
            rule = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            found.append(forbidden((*path, "properties", MapKey("metadata")), rule))


def _check_value_rules(
    rules: dict[str, Any], owner: dict[str, Any], path: Path, found: list[Problem]
) -> None:
    """Junctors below a structural node: they may restrict values, not specify structure."""
    for junctor in _JUNCTORS:
        if junctor == "anyOf" and rules.get(junctor) == _INT_OR_STRING:
            continue
        for index, branch in enumerate(rules.get(junctor) or ()):
            is_pattern = junctor == "allOf" and index == 0 and branch.get("anyOf") == _INT_OR_STRING
            body = {k: v for k, v in branch.items() if k != "anyOf"} if is_pattern else branch
            _check_nested(body, owner, (*path, junctor, index), found)
    if isinstance(rules.get("not"), dict):
        _check_nested(rules["not"], owner, (*path, "not"), found)
    pattern = rules.get("pattern")
    if pattern:
        try:
            goregexp.compiled(pattern)
        except goregexp.RegexpError as broken:
            detail = f"must be a valid regular expression, but isn't: {broken}"
            found.append(invalid((*path, "pattern"), pattern, detail))


_NESTED_RULES = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (_PRESERVE, "must be false to be structural"),
    (_EMBEDDED, "must be false to be structural"),
    (_INT_TEXT, "must be false to be structural"),
    (_LIST_KEYS, "must be empty to be structural"),
    (_LIST_TYPE, "must be undefined to be structural"),
    (_MAP_TYPE, "must be undefined to be structural"),
    (_RULES, "must be empty to be structural"),
)


def _check_nested(
    branch: dict[str, Any], owner: dict[str, Any] | None, path: Path, found: list[Problem]
) -> None:
    """`owner` is the structural node the branch speaks of, None where structure lacks it."""
    _check_value_rules(branch, owner or {}, path, found)
    for key, rule in _NESTED_RULES:
        if branch.get(key) not in (None, "", False, [], {}):
            found.append(forbidden((*path, key), rule))
    specified = (owner or {}).get("properties") or {}
    for name, member in (branch.get("properties") or {}).items():
        at = (*path, "properties", MapKey(name))
        if name == "metadata":
            found.append(forbidden(at, "must not be specified in a nested context"))
        if name not in specified and not _is_map(owner):
            structure = _without_junctors(at)
            found.append(required(structure, f"because it is defined in {path_text(at)}"))
        _check_nested(member, specified.get(name), at, found)
    if isinstance(branch.get("items"), dict):
        at = (*path, "items")
        below = (owner or {}).get("items")
        if not isinstance(below, dict):
            found.append(required(_without_junctors(at), f"because it is defined in {path_text(at)}"))
            below = None
        _check_nested(branch["items"], below, at, found)


def _is_map(owner: dict[str, Any] | None) -> bool:
    return owner is not None and owner.get("additionalProperties") not in (None, False)


def _without_junctors(path: Path) -> Path:
    """The place of the structural node a nested path speaks of."""
    kept: list[str | int] = []
    skip_index = False
    for index, step in enumerate(path):
        is_name = index > 0 and path[index - 1] == "properties"
        if not is_name and step in (*_JUNCTORS, "not"):
            skip_index = step != "not"
            continue
        if skip_index and isinstance(step, int):
            skip_index = False
            continue
        kept.append(step)
    return tuple(kept)


def _check_defaults(schema: dict[str, Any], path: Path, found: list[Problem]) -> None:
    """Defaults must be valid and pruned. `path` is the schema's."""
    if "default" in schema:
        value = schema["default"]
        at = (*path, "default")
        found.extend(
            problem._replace(path=_below(at, problem.path))
            for problem in validate_custom(value, custom_schema(schema))
        )
        if isinstance(value, dict) and prune(value, custom_schema(schema)) != value:
            found.append(invalid(at, value, "must not have unknown fields"))
    for name, member in (schema.get("properties") or {}).items():
        _check_defaults(member, (*path, "properties", MapKey(name)), found)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            _check_defaults(schema[name], (*path, name), found)


def _below(path: Path, relative: Path) -> Path:
    return path if relative in ((), ("<nil>",)) else (*path, *relative)


# The OpenAPI subset


def _check_subset(schema: dict[str, Any], path: Path, found: list[Problem], *, is_root: bool = True) -> None:
    if schema.get("uniqueItems"):
        rule = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        found.append(forbidden((*path, "uniqueItems"), rule))
    refused = [key for key in _UNSUPPORTED if schema.get(key)]
    found.extend(forbidden((*path, key), f"{key} is not supported") for key in refused)
    if schema.get("type") == "null":
        rule = "type cannot be set to null, use nullable as an alternative"
        found.append(forbidden((*path, "type"), rule))
    elif schema.get("type") not in (None, "", "array", "boolean", "integer", "number", "object", "string"):
        supported = ("array", "boolean", "integer", "number", "object", "string")
        found.append(unsupported((*path, "type"), schema["type"], supported))
    if isinstance(schema.get("items"), list):
        found.append(forbidden((*path, "items"), "items must be a schema object and not an array"))
    values, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if properties and (values is False or isinstance(values, dict)):
        rule = "additionalProperties and properties are mutual exclusive"
        found.append(forbidden((*path, "additionalProperties"), rule))
    if is_root:
        for name in META_FIELDS:
            if "default" in properties.get(name, {}):
                at = (*path, "properties", MapKey(name), "default")
                found.append(forbidden(at, f"must not be set in top-level {name}"))
    _check_map_type(schema, path, found)
    _check_list_type(schema, path, found)
    _check_rules(schema, path, found)
    for name, member in properties.items():
        _check_subset(member, (*path, "properties", MapKey(name)), found, is_root=False)
    for name in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(name), dict):
            _check_subset(schema[name], (*path, name), found, is_root=False)
    for junctor in _JUNCTORS:
        for index, branch in enumerate(schema.get(junctor) or ()):
            _check_subset(branch, (*path, junctor, index), found, is_root=False)


def _check_map_type(schema: dict[str, Any], path: Path, found: list[Problem]) -> None:
    if schema.get(_PRESERVE) is False:
        found.append(invalid((*path, _PRESERVE), False, "must be true or undefined"))
    map_type, kind = schema.get(_MAP_TYPE), schema.get("type") or ""
    if map_type is None:
        return
    if kind != "object":
        rule = f"must be object if {_MAP_TYPE} is specified"
        found.append(invalid((*path, "type"), kind, rule) if kind else required((*path, "type"), rule))
    if map_type not in ("atomic", "granular"):
        found.append(unsupported((*path, _MAP_TYPE), map_type, ("atomic", "granular")))


def _check_list_type(schema: dict[str, Any], path: Path, found: list[Problem]) -> None:
    list_type, kind = schema.get(_LIST_TYPE), schema.get("type") or ""
    keys = schema.get(_LIST_KEYS) or []
    if list_type is not None and kind != "array":
        rule = f"must be array if {_LIST_TYPE} is specified"
        found.append(invalid((*path, "type"), kind, rule) if kind else required((*path, "type"), rule))
    elif list_type == "set" and isinstance(schema.get("items"), dict):
        _check_set_items(schema["items"], path, found)
    if list_type not in (None, "atomic", "set", "map"):
        found.append(unsupported((*path, _LIST_TYPE), list_type, ("atomic", "set", "map")))
    if keys and list_type != "map":
        rule = f"must be map if {_LIST_KEYS} is non-empty"
        at = (*path, _LIST_TYPE)
        found.append(required(at, rule) if list_type is None else invalid(at, list_type, rule))
    if list_type == "map":
        _check_map_list(schema, keys, path, found)


def _check_set_items(items: dict[str, Any], path: Path, found: list[Problem]) -> None:
    rule = f"must be atomic as item of a list with {_LIST_TYPE}=set"
    if items.get("type") == "array" and items.get(_LIST_TYPE) not in (None, "atomic"):
        found.append(invalid((*path, "items", _LIST_TYPE), items[_LIST_TYPE], rule))
    elif items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        found.append(invalid((*path, "items", _MAP_TYPE), items.get(_MAP_TYPE), rule))


def _check_map_list(schema: dict[str, Any], keys: list[str], path: Path, found: list[Problem]) -> None:
    if not keys:
        found.append(required((*path, _LIST_KEYS), f"must not be empty if {_LIST_TYPE} is map"))
    items = schema.get("items")
    if not isinstance(items, dict):
        found.append(required((*path, "items"), f"must have a schema if {_LIST_TYPE} is map"))
        return
    if items.get("type") != "object":
        rule = f"must be object if parent array's {_LIST_TYPE} is map"
        found.append(invalid((*path, "items", "type"), items.get("type") or "", rule))
        return
    properties = items.get("properties") or {}
    seen: set[str] = set()
    for key in keys:
        declared = properties.get(key)
        if declared is None:
            found.append(invalid((*path, _LIST_KEYS), keys, "entries must all be names of item properties"))
        elif declared.get("type") in ("array", "object"):
            rule = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            at = (*path, "items", "properties", MapKey(key), "type")
            found.append(invalid(at, items["type"], rule))
        if key in seen:
            found.append(invalid((*path, _LIST_KEYS), keys, "must not contain duplicate entries"))
        seen.add(key)
    _check_key_presence(items, keys, path, found)


def _check_key_presence(items: dict[str, Any], keys: list[str], path: Path, found: list[Problem]) -> None:
    """Keys must be there or have a default, and neither they nor the items may be null."""
    if items.get("nullable"):
        rule = "cannot be nullable when x-kubernetes-list-type is map"
        found.append(forbidden((*path, "items", "nullable"), rule))
    properties = items.get("properties") or {}
    for key in keys:
        declared = properties.get(key)
        if declared is None:
            continue
        at = (*path, "items", "properties", MapKey(key))
        if key not in (items.get("required") or ()) and declared.get("default") is None:
            rule = f"this property is in {_LIST_KEYS}, so it must have a default or be a required property"
            found.append(required((*at, "default"), rule))
        if declared.get("nullable"):
            rule = f"this property is in {_LIST_KEYS}, so it cannot be nullable"
            found.append(forbidden((*at, "nullable"), rule))


def _check_rules(schema: dict[str, Any], path: Path, found: list[Problem]) -> None:
    for index, rule in enumerate(schema.get(_RULES) or ()):
        at = (*path, _RULES, index)
        text, message = rule.get("rule") or "", rule.get("message") or ""
        if not text.strip():
            found.append(required((*at, "rule"), "rule is not specified"))
        elif message and not message.strip():
            found.append(invalid((*at, "message"), message, "must be non-empty if specified"))
        elif "\n" in message.strip():
            found.append(invalid((*at, "message"), message, "must not contain line breaks"))
        elif "\n" in text.strip() and not message.strip():
            detail = "message must be specified if rule contains line breaks"
            found.append(required((*at, "message"), detail))
        expression = rule.get("messageExpression") or ""
        if expression and not expression.strip():
            detail = "messageExpression must be non-empty if specified"
            found.append(required((*at, "messageExpression"), detail))
        if rule.get("reason") is not None and rule["reason"] not in _RULE_REASONS:
            found.append(unsupported((*at, "reason"), rule["reason"], _RULE_REASONS))
