"""Does an object have the shape of its kind: known fields only, each of the right type?

This is what the API server's strict decoding refuses before it looks at any rule. Almost every object is
fine, so a first pass answers yes or no without building paths, and only a "no" is walked again to say where.
"""

from __future__ import annotations

import difflib
from typing import Any

from fairway.kube import quantity
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.validation.problem import UNKNOWN_FIELD, WRONG_TYPE, Problem
from fairway.kube.validation.schema import LIST, MAP, STRUCT, FieldType, StructType

_MIN32, _MAX32 = -(2**31), 2**31 - 1
_MIN64, _MAX64 = -(2**63), 2**63 - 1
_TEXT = frozenset({"str", "time", "dur", "bytes"})
_WANTED = {
    "str": "text",
    "time": "a time such as 2026-01-31T08:00:00Z",
    "dur": "a duration such as 30s",
    "bytes": "base64 text",
    "bool": "true or false",
    "i32": "an integer",
    "i64": "an integer",
    "num": "a number",
    "qty": "a quantity such as 500m, 2 or 16Gi",
    "ios": "an integer or text",
    LIST: "a list",
    MAP: "a mapping",
    STRUCT: "a mapping",
}


def check_structure(struct: StructType, obj: Any) -> list[Problem]:
    """Every unknown field and wrong type, in the order of the text."""
    if fits_struct(struct, obj):
        return []
    problems: list[Problem] = []
    _locate_struct(struct, obj, (), problems)
    return problems


def fits_struct(struct: StructType, value: Any) -> bool:
    """Whether nothing is wrong. O(fields), no allocation."""
    if type(value) is not dict:
        return False
    fields = struct.fields
    for name, member in value.items():
        if member is None:
            if name not in fields:
                return False
            continue
        declared = fields.get(name)
        if declared is None or not _fits(declared, member):
            return False
    return True


def _fits(declared: FieldType, value: Any) -> bool:
    kind = declared.kind
    if kind in _TEXT:
        return type(value) is str
    if kind == STRUCT:
        return fits_struct(declared.struct, value)  # type: ignore[arg-type]
    if kind == LIST:
        of = declared.of
        return type(value) is list and all([_fits(of, v) for v in value])  # type: ignore[arg-type]
    if kind == MAP:
        of = declared.of
        return type(value) is dict and all([v is None or _fits(of, v) for v in value.values()])  # type: ignore[arg-type]
    return _fits_scalar(kind, value)


def _fits_scalar(kind: str, value: Any) -> bool:
    of_type = type(value)
    if kind == "i32":
        return of_type is int and _MIN32 <= value <= _MAX32
    if kind == "bool":
        return of_type is bool
    if kind == "qty":
        return _is_quantity(value)
    if kind == "i64":
        return of_type is int and _MIN64 <= value <= _MAX64
    if kind == "ios":
        return of_type is str or (of_type is int and _MIN32 <= value <= _MAX32)
    if kind == "num":
        return of_type is int or of_type is float
    return kind == "any"


def _is_quantity(value: Any) -> bool:
    try:
        quantity.of(value)
    except quantity.QuantityError:
        return False
    return True


def _locate_struct(struct: StructType, value: Any, path: Path, out: list[Problem]) -> None:
    if not isinstance(value, dict):
        out.append(_wrong_type(path, value, STRUCT))
        return
    for name, member in value.items():
        declared = struct.fields.get(name)
        if declared is None:
            out.append(Problem((*path, name), member, UNKNOWN_FIELD, nearest(name, struct)))
        elif member is not None:
            _locate(declared, member, (*path, name), out)


def nearest(name: str, struct: StructType) -> str:
    """`did you mean "resources"?`, or nothing where no field is close."""
    by_lower = {f.lower(): f for f in struct.fields}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return f'did you mean "{by_lower[close[0]]}"?' if close else ""


def _locate(declared: FieldType, value: Any, path: Path, out: list[Problem]) -> None:
    if declared.kind == STRUCT:
        assert declared.struct is not None
        _locate_struct(declared.struct, value, path, out)
    elif declared.kind == LIST:
        if not isinstance(value, list):
            out.append(_wrong_type(path, value, LIST))
            return
        assert declared.of is not None
        for index, item in enumerate(value):
            _locate(declared.of, item, (*path, index), out)
    elif declared.kind == MAP:
        if not isinstance(value, dict):
            out.append(_wrong_type(path, value, MAP))
            return
        assert declared.of is not None
        for key, member in value.items():
            if member is not None:
                _locate(declared.of, member, (*path, MapKey(key)), out)
    elif not _fits(declared, value):
        out.append(_wrong_scalar(path, value, declared.kind))


def _wrong_scalar(path: Path, value: Any, kind: str) -> Problem:
    if kind == "qty" and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            quantity.of(value)
        except quantity.QuantityError as error:
            return Problem(path, value, WRONG_TYPE, str(error))
    if kind in ("i32", "i64", "ios") and type(value) is int:
        bits = 64 if kind == "i64" else 32
        return Problem(path, value, WRONG_TYPE, f"expected an integer that fits in {bits} bits")
    return _wrong_type(path, value, kind)


def _wrong_type(path: Path, value: Any, kind: str) -> Problem:
    return Problem(path, value, WRONG_TYPE, f"expected {_WANTED[kind]}, got {_type_text(value)}")


def _type_text(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a truth value"
    names = {str: "text", int: "an integer", float: "a number", list: "a list", dict: "a mapping"}
    return names.get(type(value), type(value).__name__)
