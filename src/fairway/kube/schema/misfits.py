"""Where does an object not fit its built-in kind, in words for the author of a file?

This is what the API server's strict decoding refuses before it looks at any rule: unknown fields, wrong types
(`decoding` says the same in Go's words, one at a time). Almost every object is fine, so msgspec first answers yes or
no at the speed of C, and only a "no" is walked again to say where.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from fairway.kube import quantity
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.problem import UNKNOWN_FIELD, WRONG_TYPE, Problem
from fairway.kube.schema.node import (
    ANY,
    ARRAY,
    BOOLEAN,
    BYTES,
    INT_OR_STRING,
    INTEGER,
    MICRO_TIME,
    NUMBER,
    OBJECT,
    QUANTITY,
    STRING,
    TIME,
    Schema,
)

_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_TIME = r"^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z"
_TIME_RE = re.compile(_TIME, re.ASCII)
# Quantities that parse at first sight; the others go the slow way, which knows the whole grammar.
_QUANTITY = r"^[0-9]+(\.[0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?\Z"
_Int32 = Annotated[int, msgspec.Meta(ge=_RANGES["int32"][0], le=_RANGES["int32"][1])]
_Int64 = Annotated[int, msgspec.Meta(ge=_RANGES["int64"][0], le=_RANGES["int64"][1])]
_Time = Annotated[str, msgspec.Meta(pattern=_TIME)]
_FORMATS: dict[str, Any] = {
    QUANTITY: Annotated[str, msgspec.Meta(pattern=_QUANTITY)] | int,
    INT_OR_STRING: str | _Int32,
    TIME: _Time,
    MICRO_TIME: _Time,
    BYTES: str,
}
_TYPES: dict[str, Any] = {STRING: str, BOOLEAN: bool, NUMBER: int | float, ANY: Any}
_WANTED = {
    STRING: "text",
    TIME: "a time such as 2026-01-31T08:00:00Z",
    MICRO_TIME: "a time such as 2026-01-31T08:00:00.000000Z",
    BYTES: "base64 text",
    BOOLEAN: "true or false",
    INTEGER: "an integer",
    NUMBER: "a number",
    QUANTITY: "a quantity such as 500m, 2 or 16Gi",
    INT_OR_STRING: "an integer or text",
    ARRAY: "a list",
    OBJECT: "a mapping",
}
# Maps that may hold null, which reads as empty text. Go allows it in every map of text; in labels and selectors it is
# a slip of a template, better told than kept.
_HOLD_NULL = frozenset({"annotations", "data", "binaryData", "stringData"})
_TYPE_TEXTS = {
    type(None): "nothing",
    bool: "a truth value",
    str: "text",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "a mapping",
}


def misfits(obj: Any, schema: Schema) -> list[Problem]:
    """Every unknown field and wrong type, in the order of the text. O(size of the object)."""
    decoder = decoder_type(schema)
    if decoder is not None:
        try:
            msgspec.convert(obj, decoder, strict=True)
            return []
        except msgspec.ValidationError:
            pass
    problems: list[Problem] = []
    _locate(schema, obj, (), problems)
    return problems


class _ContainsItself(Exception):
    """No finite decoder: a CustomResourceDefinition's schemas hold schemas."""


# By the definition's name; None where a definition contains itself.
_DECODERS: dict[str, Any] = {}


def decoder_type(schema: Schema) -> Any:
    """The definition as msgspec takes it, unknown fields refused; None where it contains itself. Built once."""
    name = schema.go_type
    if name not in _DECODERS:
        try:
            _decoder_of(schema, set())
        except _ContainsItself:
            _DECODERS[name] = None
    return _DECODERS[name]


def _decoder_of(schema: Schema, above: set[str], name: str = "") -> Any:
    """Raises: _ContainsItself. `above`: names of the definitions around; `name`: the field this is the type of."""
    if schema.type == ARRAY:
        of: Any = Any if schema.items is None else _decoder_of(schema.items, above)
        return list.__class_getitem__(of)
    if schema.properties:
        return _struct_of(schema, above)
    if schema.values is not None:
        of = _decoder_of(schema.values, above)
        return dict.__class_getitem__((str, of | None if name in _HOLD_NULL else of))
    if schema.type in (OBJECT, ANY):
        return Any
    if schema.type == INTEGER:
        return _Int32 if schema.format == "int32" else _Int64
    return _FORMATS.get(schema.format) or _TYPES[schema.type]


def _struct_of(schema: Schema, above: set[str]) -> Any:
    name = schema.go_type
    if name in above or _DECODERS.get(name, name) is None:
        raise _ContainsItself(name)
    if name not in _DECODERS:
        fields = schema.properties
        around = above | {name}
        members = [
            (f"f{i}", _decoder_of(below, around, field) | None, None)
            for i, (field, below) in enumerate(fields.items())
        ]
        rename = {f"f{i}": field for i, field in enumerate(fields)}
        _DECODERS[name] = msgspec.defstruct(
            name.rpartition(".")[2], members, rename=rename, forbid_unknown_fields=True, gc=False
        )
    return _DECODERS[name]


def _locate(schema: Schema, value: Any, path: Path, out: list[Problem]) -> None:
    if schema.type == ARRAY:
        if type(value) is not list:
            out.append(_wrong_type(path, value, ARRAY))
        elif schema.items is not None:
            for index, item in enumerate(value):
                _locate(schema.items, item, (*path, index), out)
    elif schema.properties or schema.values is not None:
        if type(value) is not dict:
            out.append(_wrong_type(path, value, OBJECT))
        elif schema.properties:
            _locate_fields(schema, value, path, out)
        elif schema.values is not None:
            for key, member in value.items():
                if member is not None or not path or path[-1] not in _HOLD_NULL:
                    _locate(schema.values, member, (*path, MapKey(key)), out)
    elif schema.type not in (OBJECT, ANY) and not _fits(schema, value):
        out.append(_wrong_scalar(path, value, schema))


def _locate_fields(schema: Schema, value: dict[str, Any], path: Path, out: list[Problem]) -> None:
    for name, member in value.items():
        declared = schema.properties.get(name)
        if declared is None:
            out.append(Problem((*path, name), member, UNKNOWN_FIELD, nearest(name, schema)))
        elif member is not None:
            _locate(declared, member, (*path, name), out)


def nearest(name: str, schema: Schema) -> str:
    """`did you mean "resources"?`, or nothing where no field is close."""
    import difflib

    by_lower = {f.lower(): f for f in schema.properties}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.7)
    return f'did you mean "{by_lower[close[0]]}"?' if close else ""


def _fits(schema: Schema, value: Any) -> bool:
    of_type = type(value)
    if schema.type == BOOLEAN:
        return of_type is bool
    if schema.type == INTEGER:
        return of_type is int and _is_within(value, schema.format)
    if schema.type == NUMBER:
        return of_type is int or of_type is float
    if schema.format in (TIME, MICRO_TIME):
        return of_type is str and _TIME_RE.fullmatch(value) is not None
    if schema.format == INT_OR_STRING:
        return of_type is str or (of_type is int and _is_within(value, "int32"))
    if schema.format == QUANTITY:
        return _why_no_quantity(value) is None
    return of_type is str


def _is_within(value: int, format_: str) -> bool:
    low, high = _RANGES.get(format_, _RANGES["int64"])
    return low <= value <= high


def _why_no_quantity(value: Any) -> str | None:
    try:
        quantity.of(value)
    except quantity.QuantityError as error:
        return str(error)
    return None


def _wrong_scalar(path: Path, value: Any, schema: Schema) -> Problem:
    is_number = type(value) in (int, float)
    if schema.format == QUANTITY and (is_number or type(value) is str):
        return Problem(path, value, WRONG_TYPE, _why_no_quantity(value) or "")
    if schema.format in (TIME, MICRO_TIME) and type(value) is str:
        return Problem(path, value, WRONG_TYPE, f"expected {_WANTED[schema.format]}")
    if type(value) is int and (schema.type == INTEGER or schema.format == INT_OR_STRING):
        bits = 64 if schema.type == INTEGER and schema.format != "int32" else 32
        return Problem(path, value, WRONG_TYPE, f"expected an integer that fits in {bits} bits")
    return _wrong_type(path, value, schema.format if schema.format in _WANTED else schema.type)


def _wrong_type(path: Path, value: Any, kind: str) -> Problem:
    got = _TYPE_TEXTS.get(type(value), type(value).__name__)
    return Problem(path, value, WRONG_TYPE, f"expected {_WANTED[kind]}, got {got}")
