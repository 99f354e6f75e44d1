"""Does an object have the shape of its kind: known fields only, each of the right type?

This is what the API server's strict decoding refuses before it looks at any rule. Almost every object is
fine, so msgspec first answers yes or no at the speed of C, and only a "no" is walked again to say where.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any

import msgspec

from fairway.kube import quantity
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.problem import UNKNOWN_FIELD, WRONG_TYPE, Problem
from fairway.kube.validation.schema import LIST, MAP, STRUCT, FieldType, StructType, struct_type

_MIN32, _MAX32 = -(2**31), 2**31 - 1
_MIN64, _MAX64 = -(2**63), 2**63 - 1
_TIME = r"^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z"
_TIME_RE = re.compile(_TIME, re.ASCII)
# Quantities that parse at first sight; the others go the slow way, which knows the whole grammar.
_QUANTITY = r"^[0-9]+(\.[0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?\Z"
_Int32 = Annotated[int, msgspec.Meta(ge=_MIN32, le=_MAX32)]
_SCALARS: dict[str, Any] = {
    "str": str,
    "bytes": str,
    "dur": str,
    "time": Annotated[str, msgspec.Meta(pattern=_TIME)],
    "bool": bool,
    "i32": _Int32,
    "i64": Annotated[int, msgspec.Meta(ge=_MIN64, le=_MAX64)],
    "num": int | float,
    "qty": Annotated[str, msgspec.Meta(pattern=_QUANTITY)] | int,
    "ios": str | _Int32,
    "any": Any,
}
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
    try:
        msgspec.convert(obj, decoder_type(struct.name), strict=True)
        return []
    except msgspec.ValidationError:
        problems: list[Problem] = []
        _locate_struct(struct, obj, (), problems)
        return problems


@cache
def decoder_type(type_name: str) -> type:
    """The type as msgspec takes it: exactly what the API server would decode, unknown fields refused."""
    fields = struct_type(type_name).fields
    members = [(f"f{i}", _decoder_of(declared) | None, None) for i, declared in enumerate(fields.values())]
    rename = {f"f{i}": name for i, name in enumerate(fields)}
    return msgspec.defstruct(type_name, members, rename=rename, forbid_unknown_fields=True, gc=False)


def _decoder_of(declared: FieldType) -> Any:
    if declared.kind == STRUCT:
        assert declared.struct is not None
        return decoder_type(declared.struct.name)
    if declared.kind in (LIST, MAP):
        assert declared.of is not None
        of: Any = _decoder_of(declared.of)
        return (
            list.__class_getitem__(of)
            if declared.kind == LIST
            else dict.__class_getitem__((str, of | None if declared.nullable else of))
        )
    return _SCALARS[declared.kind]


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
    import difflib

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
            if member is not None or not declared.nullable:
                _locate(declared.of, member, (*path, MapKey(key)), out)
    elif not _fits(declared.kind, value):
        out.append(_wrong_scalar(path, value, declared.kind))


def _fits(kind: str, value: Any) -> bool:
    of_type = type(value)
    if kind in ("str", "dur", "bytes"):
        return of_type is str
    if kind == "time":
        return of_type is str and _TIME_RE.fullmatch(value) is not None
    if kind == "bool":
        return of_type is bool
    if kind == "qty":
        return _is_quantity(value)
    if kind in ("i32", "i64", "ios"):
        low, high = (_MIN64, _MAX64) if kind == "i64" else (_MIN32, _MAX32)
        return (of_type is int and low <= value <= high) or (kind == "ios" and of_type is str)
    if kind == "num":
        return of_type is int or of_type is float
    return True


def _is_quantity(value: Any) -> bool:
    try:
        quantity.of(value)
    except quantity.QuantityError:
        return False
    return True


def _wrong_scalar(path: Path, value: Any, kind: str) -> Problem:
    if kind == "qty" and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            quantity.of(value)
        except quantity.QuantityError as error:
            return Problem(path, value, WRONG_TYPE, str(error))
    if kind == "time" and isinstance(value, str):
        return Problem(path, value, WRONG_TYPE, f"expected {_WANTED[kind]}")
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
