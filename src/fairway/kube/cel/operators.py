"""CEL's own operators and conversions on plain values, with cel-go's errors.

Values: None, bool, int, float, str, bytes, list, dict, `Optional`; what CEL has no type for is a map with one key that
names it (`functions.overloads.tagged`).

Source: cel-go common/types, common/stdlib (v0.26).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fairway.kube import goregexp

_MAX_INT = 2**63 - 1
_MIN_INT = -(2**63)
NO_OVERLOAD: Final = "no such overload"


class CelError(Exception):
    """An expression cannot be evaluated on these values; the text is cel-go's."""


class Optional(NamedTuple):
    """A value that may be absent."""

    value: Any
    is_there: bool


NONE: Final = Optional(None, False)


class Defaulted(dict[Any, Any]):
    """A map in which every key that is looked up is found: an unknown one is an empty map. `in` and `size` see only
    what is there."""


def kind_of(value: Any) -> str:
    """The name of a value's type, as errors show it."""
    if value is None:
        return "null_type"
    for python, name in _KINDS:
        if isinstance(value, python):
            return name
    return "dyn"


_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "bool"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (list, "list"),
    (Optional, "optional_type"),
    (dict, "map"),
)


def tag_of(value: Any) -> str:
    """The type of a value that travels as a map; empty for any other."""
    if not isinstance(value, dict) or len(value) != 1:
        return ""
    (key,) = value
    return key if isinstance(key, str) and key.startswith(("kubernetes.", "net.")) else ""


def type_of(value: Any) -> str:
    return tag_of(value) or kind_of(value)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_equal(a: Any, b: Any) -> bool:
    if is_number(a) and is_number(b):
        return bool(a == b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(is_equal(x, y) for x, y in zip(a, b, strict=True))
    if tag_of(a) and tag_of(a) != tag_of(b):
        raise CelError(NO_OVERLOAD)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_equal(v, b[k]) for k, v in a.items())
    return kind_of(a) == kind_of(b) and bool(a == b)


def find(container: Any, key: Any) -> tuple[Any, bool]:
    """What a container has under a key."""
    if isinstance(container, Optional):
        return find(container.value, key) if container.is_there else (None, False)
    if isinstance(container, dict):
        if isinstance(key, bool | None.__class__) or not isinstance(key, str | int | float):
            raise (
                CelError(NO_OVERLOAD)
                if isinstance(key, list | dict)
                else CelError(f"no such key: {shown(key)}")
            )
        if key in container:
            return container[key], True
        return ({}, True) if isinstance(container, Defaulted) else (None, False)
    if isinstance(container, list):
        if not is_number(key) or key != int(key):
            raise CelError(f"unsupported index type '{kind_of(key)}' in list")
        return (container[int(key)], True) if 0 <= key < len(container) else (None, False)
    raise CelError(NO_OVERLOAD)


def get(container: Any, key: Any) -> Any:
    """`container[key]` and `container.key`."""
    value, is_there = find(container, key)
    if isinstance(container, Optional):
        return Optional(value, True) if is_there else NONE
    if is_there:
        return value
    raise CelError(
        f"index out of bounds: {key}" if isinstance(container, list) else f"no such key: {shown(key)}"
    )


def get_optional(container: Any, key: Any) -> Optional:
    value, is_there = find(container, key)
    return Optional(value, True) if is_there else NONE


def shown(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def is_in(item: Any, container: Any) -> bool:
    if isinstance(container, dict):
        return not isinstance(item, list | dict) and item in container
    if isinstance(container, list):
        return any(is_equal(item, other) for other in container)
    raise CelError(NO_OVERLOAD)


def _whole(value: int) -> int:
    if not _MIN_INT <= value <= _MAX_INT:
        raise CelError("integer overflow")
    return value


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def add(a: Any, b: Any) -> Any:
    if _is_int(a) and _is_int(b):
        return _whole(a + b)
    if type(a) is type(b) and isinstance(a, float | str | bytes | list):
        return a + b
    raise CelError(NO_OVERLOAD)


def subtract(a: Any, b: Any) -> Any:
    return _arithmetic(a, b, lambda x, y: x - y)


def multiply(a: Any, b: Any) -> Any:
    return _arithmetic(a, b, lambda x, y: x * y)


def _arithmetic(a: Any, b: Any, compute: Callable[[Any, Any], Any]) -> Any:
    if _is_int(a) and _is_int(b):
        return _whole(compute(a, b))
    if isinstance(a, float) and isinstance(b, float):
        return compute(a, b)
    raise CelError(NO_OVERLOAD)


def divide(a: Any, b: Any) -> Any:
    if isinstance(a, float) and isinstance(b, float):
        if b == 0:
            return float("nan") if a == 0 or a != a else float("inf") * (1 if a > 0 else -1)
        return a / b
    if not (_is_int(a) and _is_int(b)):
        raise CelError(NO_OVERLOAD)
    if b == 0:
        raise CelError("division by zero")
    quotient = abs(a) // abs(b)
    return _whole(quotient if (a < 0) == (b < 0) else -quotient)


def modulus(a: Any, b: Any) -> Any:
    if not (_is_int(a) and _is_int(b)):
        raise CelError(NO_OVERLOAD)
    if b == 0:
        raise CelError("modulus by zero")
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def negate(a: Any) -> Any:
    if _is_int(a):
        return _whole(-a)
    if isinstance(a, float):
        return -a
    raise CelError(NO_OVERLOAD)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(a: Any, b: Any) -> bool:
        if (is_number(a) and is_number(b)) or (type(a) is type(b) and isinstance(a, str | bytes | bool)):
            return compare(a, b)
        raise CelError(NO_OVERLOAD)

    return compared


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | list) or (isinstance(value, dict) and not isinstance(value, Optional)):
        return len(value)
    raise CelError(NO_OVERLOAD)


def _texts(test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def tested(a: Any, b: Any) -> bool:
        if isinstance(a, str) and isinstance(b, str):
            return test(a, b)
        raise CelError(NO_OVERLOAD)

    return tested


def _matches(text: str, pattern: str) -> bool:
    try:
        return goregexp.compiled(pattern).search(text) is not None
    except goregexp.RegexpError as wrong:
        raise CelError(str(wrong)) from wrong


def _to_int(value: Any) -> int:
    if isinstance(value, bool):
        raise CelError(NO_OVERLOAD)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        if not _MIN_INT < value < _MAX_INT:
            raise CelError("integer overflow")
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+", value):
        return _whole(int(value))
    raise CelError("type conversion error from 'string' to 'int'" if isinstance(value, str) else NO_OVERLOAD)


def _to_double(value: Any) -> float:
    if is_number(value):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise CelError("type conversion error from 'string' to 'double'") from None
    raise CelError(NO_OVERLOAD)


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str | int):
        return str(value)
    raise CelError(NO_OVERLOAD)


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _BOOLS:
        return _BOOLS[value]
    raise CelError(NO_OVERLOAD)


_BOOLS = {
    **dict.fromkeys(("1", "t", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "false", "FALSE", "False"), False),
}


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else value
    raise CelError(NO_OVERLOAD)


def _or(a: Any, b: Any) -> Any:
    return a if a.is_there else b


def _or_value(a: Any, b: Any) -> Any:
    return a.value if a.is_there else b


def _value(a: Any) -> Any:
    if not a.is_there:
        raise CelError("optional.none() dereference")
    return a.value


def _of_non_zero(a: Any) -> Optional:
    return Optional(a, True) if a or (isinstance(a, dict | list) and a) else NONE


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "_==_": is_equal,
    "_!=_": lambda a, b: not is_equal(a, b),
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulus,
    "-_": negate,
    "_<_": _ordered(lambda a, b: a < b),
    "_<=_": _ordered(lambda a, b: a <= b),
    "_>_": _ordered(lambda a, b: a > b),
    "_>=_": _ordered(lambda a, b: a >= b),
    "@in": is_in,
    "_[_]": get,
    "_?._": get_optional,
    "_[?_]": get_optional,
    "size": _size,
    "contains": _texts(lambda a, b: b in a),
    "startsWith": _texts(str.startswith),
    "endsWith": _texts(str.endswith),
    "matches": _texts(_matches),
    "int": _to_int,
    "uint": _to_int,
    "double": _to_double,
    "string": _to_string,
    "bool": _to_bool,
    "bytes": _to_bytes,
    "dyn": lambda a: a,
    "optional.of": lambda a: Optional(a, True),
    "optional.none": lambda: NONE,
    "optional.ofNonZeroValue": _of_non_zero,
    "hasValue": lambda a: a.is_there,
    "value": _value,
    "or": _or,
    "orValue": _or_value,
}
"""By CEL's names for them; a member's first argument is its receiver."""
