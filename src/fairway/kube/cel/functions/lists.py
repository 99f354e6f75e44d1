"""Lists and sets: Kubernetes' list library, cel-go's `lists` (without its macros) and `sets`.

Source: apiserver pkg/cel/library/lists.go (v1.36); cel-go ext/lists.go, ext/sets.go.
"""

from __future__ import annotations

from typing import Any

from fairway.kube.cel.functions.overloads import (
    ANY,
    BOOL,
    DYN,
    INT,
    LIST,
    FunctionError,
    member,
    plain,
)

MAX_ITEMS = 100_000


def equal(a: Any, b: Any) -> bool:
    """CEL's `==`: numbers of different types compare, a bool is not a number."""
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def _has(items: list[Any], wanted: Any) -> bool:
    return any(equal(item, wanted) for item in items)


def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    if any(isinstance(i, bool) or not isinstance(i, int | float) for i in items):
        raise FunctionError("no such overload")
    return sum(items)


def _least(items: list[Any]) -> Any:
    return _ordered(items, "min")[0]


def _greatest(items: list[Any]) -> Any:
    return _ordered(items, "max")[-1]


def _ordered(items: list[Any], of: str) -> list[Any]:
    if not items:
        raise FunctionError(f"{of} called on empty list")
    return _sorted(items)


def _sorted(items: list[Any]) -> list[Any]:
    try:
        return sorted(items)
    except TypeError:
        raise FunctionError("no such overload") from None


def _is_sorted(items: list[Any]) -> bool:
    return _sorted(items) == items


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((i for i, item in enumerate(items) if equal(item, wanted)), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    return next((i for i in range(len(items) - 1, -1, -1) if equal(items[i], wanted)), -1)


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if not _has(found, item):
            found.append(item)
    return found


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise FunctionError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        if isinstance(item, list):
            flat += _flatten(item, depth - 1) if depth > 1 else item
        else:
            flat.append(item)
    return flat


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise FunctionError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise FunctionError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(items):
        raise FunctionError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _range(count: int) -> list[int]:
    if count > MAX_ITEMS:
        raise FunctionError("operation interrupted: list too long")
    return list(range(count))


def _reverse(items: list[Any]) -> list[Any]:
    return items[::-1]


def _contains(items: list[Any], wanted: list[Any]) -> bool:
    return all(_has(items, w) for w in wanted)


def _equivalent(a: list[Any], b: list[Any]) -> bool:
    return _contains(a, b) and _contains(b, a)


def _intersects(a: list[Any], b: list[Any]) -> bool:
    return any(_has(b, item) for item in a)


_ONE, _TWO = (LIST,), (LIST, LIST)

OVERLOADS = (
    member("sum", _ONE, DYN, _sum),
    member("min", _ONE, DYN, _least),
    member("max", _ONE, DYN, _greatest),
    member("isSorted", _ONE, BOOL, _is_sorted),
    member("indexOf", (LIST, ANY), INT, _index_of),
    member("lastIndexOf", (LIST, ANY), INT, _last_index_of),
    member("distinct", _ONE, LIST, _distinct),
    member("flatten", _ONE, LIST, _flatten),
    member("flatten", (LIST, INT), LIST, _flatten),
    member("slice", (LIST, INT, INT), LIST, _slice),
    member("sort", _ONE, LIST, _sorted),
    member("reverse", _ONE, LIST, _reverse),
    plain("lists.range", (INT,), LIST, _range),
    plain("sets.contains", _TWO, BOOL, _contains),
    plain("sets.equivalent", _TWO, BOOL, _equivalent),
    plain("sets.intersects", _TWO, BOOL, _intersects),
)
