"""What would the API server refuse of a custom object, by the schema of its definition?

The words are those of kube-openapi's validator as apiextensions reports them: `spec.x: Invalid value: "string":
spec.x in body must be of type integer: "string"`. Rules in CEL are not evaluated here.

Source: apiextensions-apiserver pkg/apiserver/validation, pkg/apiserver/schema/listtype; kube-openapi
pkg/validation/validate and errors (v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from fairway.kube import goregexp
from fairway.kube.fieldpath import MapKey, Path, path_text
from fairway.kube.objects import Obj
from fairway.kube.problem import (
    TYPE_INVALID,
    Problem,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
    unsupported,
)
from fairway.kube.schema.fitting import fits
from fairway.kube.schema.formats import fits_format
from fairway.kube.schema.node import Schema

# How kube prints the path of a fault that belongs to no single field.
_NO_PATH = ("<nil>",)
_MAX_DEPTH = 64


_ABSENT: Any = object()


def validate_custom(obj: Obj, schema: Schema, old: Obj | None = None) -> list[Problem]:
    """Everything wrong with a custom object, metadata's own rules and CEL apart, in the order of the validator.

    `old` is what an update replaces: values that stay as they were are not held against it (ratcheting).
    """
    assert schema.raw is not None
    if fits(obj, schema.raw, _is_right):
        return []
    found = list(_check(obj, schema.raw, (), old=_ABSENT if old is None else old))
    found.extend(_check_lists(obj, schema.raw, ()))
    return found


def _is_right(value: Any, raw: dict[str, Any]) -> bool:
    return not any(True for _ in _check(value, raw, ())) and not any(
        True for _ in _check_lists(value, raw, ())
    )


def has_types_of(obj: Obj, schema: Schema) -> bool:
    """Whether Go could read the object: every value of the type its schema says."""
    assert schema.raw is not None
    if fits(obj, schema.raw, _is_right):
        return True
    return all(p.reason != TYPE_INVALID for p in _check(obj, schema.raw, ()))


def _check(
    value: Any, raw: dict[str, Any], path: Path, depth: int = 0, old: Any = _ABSENT
) -> Iterator[Problem]:
    """`old` is the value that stood here before, where the two correspond."""
    if depth > _MAX_DEPTH or (old is not _ABSENT and old == value):
        return
    wanted = ("integer", "string") if raw.get("x-kubernetes-int-or-string") else _types(raw)
    if value is None:
        if wanted and not raw.get("nullable"):
            yield _wrong_type(path, wanted, "null")
        yield from _check_enum(value, raw, path)
        return
    if wanted and not _is_of_type(value, wanted):
        yield from _misfit(value, raw, path, wanted)
    yield from _check_junctors(value, raw, path, depth)
    if isinstance(value, str):
        yield from _check_text(value, raw, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _check_number(value, raw, path)
    elif isinstance(value, list):
        yield from _check_list(value, raw, path, depth, old)
    yield from _check_enum(value, raw, path)
    if isinstance(value, dict):
        yield from _check_object(value, raw, path, depth, old)


def _misfit(value: Any, raw: dict[str, Any], path: Path, wanted: tuple[str, ...]) -> Iterator[Problem]:
    """A value of another type. Of a field with a format it is the format that is named.

    Source: kube-openapi pkg/validation/validate/type.go.
    """
    named = raw.get("format")
    is_number = "integer" in wanted or "number" in wanted
    if named and not isinstance(value, (str, list)):
        held = "int64" if type(value) is int else "double" if type(value) is float else ""
        yield _wrong_type(path, (named,), held)
    elif not named or is_number:
        yield _wrong_type(path, wanted, _type_name(value))


def _types(raw: dict[str, Any]) -> tuple[str, ...]:
    declared = raw.get("type")
    return (declared,) if declared else ()


def _is_of_type(value: Any, wanted: tuple[str, ...]) -> bool:
    actual = _type_name(value)
    if actual in wanted or ("number" in wanted and actual == "integer"):
        return True
    return "integer" in wanted and isinstance(value, float) and value.is_integer()


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _wrong_type(path: Path, wanted: tuple[str, ...], actual: str) -> Problem:
    sentence = f'{path_text(path)} in body must be of type {",".join(wanted)}: "{actual}"'
    return Problem(_at(path), actual, TYPE_INVALID, sentence.lstrip())


def _at(path: Path) -> Path:
    return path or _NO_PATH


def _says(path: Path, value: Any, rule: str) -> Problem:
    return invalid(_at(path), value, f"{path_text(path)} in body {rule}".lstrip())


def _check_text(value: str, raw: dict[str, Any], path: Path) -> Iterator[Problem]:
    length = len(value)
    if "maxLength" in raw and length > raw["maxLength"]:
        yield too_long(_at(path), raw["maxLength"])
    if "minLength" in raw and length < raw["minLength"]:
        yield _says(path, value, f"should be at least {raw['minLength']} chars long")
    pattern = raw.get("pattern")
    if pattern and not goregexp.is_match(pattern, value):
        yield _says(path, value, f"should match '{pattern}'")
    named = raw.get("format")
    if named and not raw.get("x-kubernetes-int-or-string") and not fits_format(value, named):
        yield _says(path, value, f"must be of type {named}: {json.dumps(value, ensure_ascii=False)}")


def _check_number(value: int | float, raw: dict[str, Any], path: Path) -> Iterator[Problem]:
    step = raw.get("multipleOf")
    if step and not float(value / step).is_integer():
        yield _says(path, value, f"should be a multiple of {go_number(step)}")
    bound = raw.get("maximum")
    if bound is not None:
        if raw.get("exclusiveMaximum") and value >= bound:
            yield _says(path, value, f"should be less than {_bound(bound, value)}")
        elif value > bound:
            yield _says(path, value, f"should be less than or equal to {_bound(bound, value)}")
    bound = raw.get("minimum")
    if bound is not None:
        if raw.get("exclusiveMinimum") and value <= bound:
            yield _says(path, value, f"should be greater than {_bound(bound, value)}")
        elif value < bound:
            yield _says(path, value, f"should be greater than or equal to {_bound(bound, value)}")


def _bound(bound: int | float, value: int | float) -> str:
    """An integer is compared with an integer bound, which is printed as one."""
    if isinstance(value, int) and float(bound).is_integer():
        return str(int(bound))
    return go_number(bound)


def go_number(value: int | float) -> str:
    """A float64 as Go's `%v` prints it: shortest digits, with an exponent from a million on (`1e+06`)."""
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    assert isinstance(exponent, int)
    power = len(digits) - 1 + exponent
    if value == 0 or -4 <= power < 6:
        return repr(float(value)).removesuffix(".0")
    text = "".join(map(str, digits))
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{power:+03d}"


def _check_list(value: list[Any], raw: dict[str, Any], path: Path, depth: int, old: Any) -> Iterator[Problem]:
    items = raw.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            yield from _check(item, items, (*path, index), depth + 1, _former(item, old, raw))
    if "minItems" in raw and len(value) < raw["minItems"]:
        yield _says(path, len(value), f"should have at least {raw['minItems']} items")
    if "maxItems" in raw and len(value) > raw["maxItems"]:
        yield too_many(_at(path), len(value), raw["maxItems"])
    if raw.get("uniqueItems") and len({json.dumps(v, sort_keys=True) for v in value}) != len(value):
        yield _says(path, "", "shouldn't contain duplicates")


def _former(item: Any, old: Any, raw: dict[str, Any]) -> Any:
    """The item of the old list with the same keys: only `map` lists have corresponding items."""
    keys = raw.get("x-kubernetes-list-map-keys")
    if raw.get("x-kubernetes-list-type") != "map" or not keys or not isinstance(old, list):
        return _ABSENT
    if not isinstance(item, dict):
        return _ABSENT
    same = (o for o in old if isinstance(o, dict) and all(o.get(k) == item.get(k) for k in keys))
    return next(same, _ABSENT)


def _check_enum(value: Any, raw: dict[str, Any], path: Path) -> Iterator[Problem]:
    choices = raw.get("enum")
    if not choices or (value is None and raw.get("nullable")):
        return
    if not any(type(c) is type(value) and c == value for c in choices):
        texts = [c if isinstance(c, str) else json.dumps(c, separators=(",", ":")) for c in choices]
        yield unsupported(_at(path), "null" if value is None else value, texts)


def _check_object(
    value: dict[str, Any], raw: dict[str, Any], path: Path, depth: int, old: Any
) -> Iterator[Problem]:
    before = old if isinstance(old, dict) else {}
    if "minProperties" in raw and len(value) < raw["minProperties"]:
        yield _says(path, len(value), f"should have at least {raw['minProperties']} properties")
    if "maxProperties" in raw and len(value) > raw["maxProperties"]:
        yield too_many(_at(path), len(value), raw["maxProperties"])
    properties = raw.get("properties") or {}
    values = raw.get("additionalProperties")
    for name in raw.get("required") or ():
        if name not in value:
            yield required((*path, name))
    if values is False:
        for name in value:
            if name not in properties:
                yield _says(path, "", f"{path_text((*path, name))} in body is a forbidden property")
    for name, declared in properties.items():
        if name in value:
            yield from _check(value[name], declared, (*path, name), depth + 1, before.get(name, _ABSENT))
    if isinstance(values, dict):
        for name, member in value.items():
            if name not in properties:
                yield from _check(member, values, (*path, name), depth + 1, before.get(name, _ABSENT))


def _check_junctors(value: Any, raw: dict[str, Any], path: Path, depth: int) -> Iterator[Problem]:
    """`anyOf`, `oneOf`, `allOf`, `not`: the verdict first, then the faults of the alternative that came closest."""
    for branch in ("anyOf", "oneOf"):
        choices = raw.get(branch)
        if not choices:
            continue
        attempts = [list(_check(value, choice, path, depth + 1)) for choice in choices]
        valid = sum(not attempt for attempt in attempts)
        if branch == "anyOf" and valid == 0:
            yield invalid(_NO_PATH, "", f'"{path_text(path)}" must validate at least one schema (anyOf)')
            yield from min(attempts, key=len)
        elif branch == "oneOf" and valid != 1:
            verdict = "Found none valid" if valid == 0 else f"Found {valid} valid alternatives"
            yield invalid(
                _NO_PATH, "", f'"{path_text(path)}" must validate one and only one schema (oneOf). {verdict}'
            )
            if valid == 0:
                yield from min(attempts, key=len)
    choices = raw.get("allOf")
    if choices:
        attempts = [list(_check(value, choice, path, depth + 1)) for choice in choices]
        for attempt in attempts:
            yield from attempt
        if any(attempts):
            none = ". None validated" if all(attempts) else ""
            yield invalid(_NO_PATH, "", f'"{path_text(path)}" must validate all the schemas (allOf){none}')
    if raw.get("not") is not None and not list(_check(value, raw["not"], path, depth + 1)):
        yield invalid(_NO_PATH, "", f'"{path_text(path)}" must not validate the schema (not)')


# Lists that are sets or maps


def _check_lists(value: Any, raw: Any, path: Path) -> Iterator[Problem]:
    if not isinstance(raw, dict):
        return
    if isinstance(value, dict):
        values = raw.get("additionalProperties")
        if isinstance(values, dict):
            for name, member in value.items():
                yield from _check_lists(member, values, (*path, MapKey(name)))
        for name, declared in (raw.get("properties") or {}).items():
            if name in value:
                yield from _check_lists(value[name], declared, (*path, name))
    elif isinstance(value, list):
        if raw.get("x-kubernetes-list-type") == "set":
            yield from (duplicate((*path, i), value[i]) for i in _repeats(value))
        elif raw.get("x-kubernetes-list-type") == "map":
            yield from _check_map_list(value, raw.get("x-kubernetes-list-map-keys") or [], path)
        for index, item in enumerate(value):
            yield from _check_lists(item, raw.get("items"), (*path, index))


def _check_map_list(value: list[Any], keys: list[str], path: Path) -> Iterator[Problem]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            yield invalid((*path, index), item, "must be an object for an array of list-type map")
            return
    held = [{k: item[k] for k in keys if k in item} if item else {} for item in value]
    yield from (duplicate((*path, i), held[i]) for i in _repeats(held))


def _repeats(values: list[Any]) -> list[int]:
    """Where each value that is there more than once is there for the second time."""
    times: dict[str, int] = {}
    found = []
    for index, value in enumerate(values):
        text = json.dumps(value, sort_keys=True)
        times[text] = times.get(text, 0) + 1
        if times[text] == 2:
            found.append(index)
    return found
