"""`quantity('1.5Gi')` and `semver('1.2.3')`: ordered values, with the member names they share.

Source: apiserver pkg/cel/library/quantity.go, semverlib.go (v1.36).
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from fairway.kube import quantity as kube_quantity
from fairway.kube.cel.functions.overloads import (
    BOOL,
    DOUBLE,
    INT,
    MAP,
    STRING,
    FunctionError,
    member,
    plain,
    tagged,
)

QUANTITY = "kubernetes.Quantity"
SEMVER = "kubernetes.Semver"
_MAX_INT64 = 2**63 - 1

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:\d*+[a-zA-Z-][0-9a-zA-Z-]*+|0|[1-9]\d*+)(?:\.(?:\d*+[a-zA-Z-][0-9a-zA-Z-]*+|0|[1-9]\d*+))*+))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?"
)


def _quantity(text: str) -> dict[str, str]:
    try:
        return _of(kube_quantity.parse(text))
    except kube_quantity.QuantityError:
        pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise FunctionError(f"quantities must match the regular expression '{pattern}'") from None


def _of(amount: Fraction) -> dict[str, str]:
    return {QUANTITY: str(amount)}


def _amount(value: Any) -> Fraction:
    return Fraction(tagged(value, QUANTITY))


def _is_quantity(text: str) -> bool:
    try:
        kube_quantity.parse(text)
    except kube_quantity.QuantityError:
        return False
    return True


def _as_integer(value: Any) -> int:
    amount = _amount(value)
    if not _is_integer(value):
        raise FunctionError("cannot convert value to integer")
    return int(amount)


def _is_integer(value: Any) -> bool:
    amount = _amount(value)
    return amount.denominator == 1 and abs(amount) <= _MAX_INT64


def _as_float(value: Any) -> float:
    return float(_amount(value))


def _sign(value: Any) -> int:
    amount = _amount(value)
    return (amount > 0) - (amount < 0)


def _add(a: Any, b: Any) -> dict[str, str]:
    return _of(_amount(a) + (b if isinstance(b, int) else _amount(b)))


def _sub(a: Any, b: Any) -> dict[str, str]:
    return _of(_amount(a) - (b if isinstance(b, int) else _amount(b)))


def _compare(a: Any, b: Any) -> int:
    if isinstance(a, dict) and SEMVER in a:
        left: Any = _precedence(a)
        right: Any = _precedence(b)
    else:
        left, right = _amount(a), _amount(b)
    return int(left > right) - int(left < right)


def _is_less(a: Any, b: Any) -> bool:
    return _compare(a, b) < 0


def _is_greater(a: Any, b: Any) -> bool:
    return _compare(a, b) > 0


def _semver(text: str, normalize: bool = False) -> dict[str, str]:
    found = _SEMVER.fullmatch(_normalized(text) if normalize else text)
    if found is None:
        raise FunctionError(
            "No Major.Minor.Patch elements found" if text.count(".") < 2 else "Invalid character(s)"
        )
    return {SEMVER: found[0].partition("+")[0]}


def _normalized(text: str) -> str:
    """Without a leading v, with a minor and a patch, without leading zeros."""
    core, dash, rest = text.removeprefix("v").partition("-")
    numbers = [n.lstrip("0") or "0" for n in core.split(".")]
    return ".".join([*numbers, *["0"] * (3 - len(numbers))]) + dash + rest


def _is_semver(text: str, normalize: bool = False) -> bool:
    return _SEMVER.fullmatch(_normalized(text) if normalize else text) is not None


def _precedence(value: Any) -> tuple[Any, ...]:
    """Numbers first; a pre-release comes before its release, numeric parts before words."""
    core, _, pre = str(tagged(value, SEMVER)).partition("-")
    numbers = tuple(int(n) for n in core.split("."))
    parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in pre.split(".")) if pre else ()
    return (*numbers, 0 if pre else 1, parts)


def _part(index: int) -> Any:
    return lambda value: _precedence(value)[index]


_Q, _QQ = (MAP,), (MAP, MAP)

OVERLOADS = (
    plain("quantity", (STRING,), MAP, _quantity),
    plain("isQuantity", (STRING,), BOOL, _is_quantity),
    member("isInteger", _Q, BOOL, _is_integer),
    member("asInteger", _Q, INT, _as_integer),
    member("asApproximateFloat", _Q, DOUBLE, _as_float),
    plain("sign", _Q, INT, _sign),
    member("add", _QQ, MAP, _add),
    member("add", (MAP, INT), MAP, _add),
    member("sub", _QQ, MAP, _sub),
    member("sub", (MAP, INT), MAP, _sub),
    member("compareTo", _QQ, INT, _compare),
    member("isLessThan", _QQ, BOOL, _is_less),
    member("isGreaterThan", _QQ, BOOL, _is_greater),
    plain("semver", (STRING,), MAP, _semver),
    plain("semver", (STRING, BOOL), MAP, _semver),
    plain("isSemver", (STRING,), BOOL, _is_semver),
    plain("isSemver", (STRING, BOOL), BOOL, _is_semver),
    member("major", _Q, INT, _part(0)),
    member("minor", _Q, INT, _part(1)),
    member("patch", _Q, INT, _part(2)),
)
