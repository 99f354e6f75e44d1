"""Kubernetes quantities: exact numbers with suffixes, as integers inside.

`parse` is exact (a `Fraction`); `milli` and `whole` round up as the scheduler does, which is where a
fractional byte or a micro-CPU becomes an integer. `canonical` writes the form Kubernetes prints.

Source: apimachinery pkg/api/resource/quantity.go (v1.34): grammar, canonical form, rounding away from zero.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FORM: Final = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+|[numkMGTPE]|)", re.ASCII)
# Beyond these the value is only known to be too large, or too small, to be counted exactly: Kubernetes caps at 2^63-1
# and rounds up to a billionth. Exactness would cost memory.
_MAX_EXPONENT: Final = 40
_MAX_CHARS: Final = 64
# Longer than any text that an object may hold is worth reading.
_MOST_CHARS: Final = 100_000
MAX_INT64: Final = 2**63 - 1


class QuantityError(ValueError):
    """Not a quantity. The text says which rule it broke."""


@lru_cache(maxsize=65536)
def _short(text: str) -> Fraction:
    return _read(text)


def parse(text: str) -> Fraction:
    """The value of a quantity, exact within what Kubernetes can count.

    Raises: QuantityError.
    """
    # Long ones are not kept: whoever writes many of them would fill the memory.
    return _short(text) if len(text) <= _MAX_CHARS else _read(text)


def _read(text: str) -> Fraction:
    match = _FORM.fullmatch(text) if len(text) <= _MOST_CHARS else None
    if match is None:
        raise QuantityError(
            "expected a quantity: a number with an optional suffix (m, k, M, G, Ki, Mi, Gi, … or e3)"
        )
    sign, digits, suffix = match.groups()
    if len(text) > _MAX_CHARS or (suffix not in _BINARY and abs(_exponent(suffix)) > _MAX_EXPONENT):
        value = _extreme(digits, suffix)
    elif suffix in _BINARY:
        value = Fraction(digits) * _BINARY[suffix]
    else:
        value = Fraction(digits) * Fraction(10) ** _exponent(suffix)
    return -value if sign == "-" else value


def _exponent(suffix: str) -> int:
    """The power of ten of a decimal suffix; one of more digits than matter is as good as endless."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    return int(suffix[1:]) if len(suffix) < 12 else (-1 if "-" in suffix else 1) * 10**9


def _extreme(digits: str, suffix: str) -> Fraction:
    """What is too long, or has too large an exponent: capped, rounded up, or its first digits."""
    whole, _, part = digits.partition(".")
    whole, some = whole.lstrip("0"), part.lstrip("0")
    if not whole and not some:
        return Fraction(0)
    factor = _BINARY.get(suffix, 1)
    power = 0 if suffix in _BINARY else _exponent(suffix)
    # Of the first digit that is not zero.
    place = power + (len(whole) if whole else len(some) - len(part))
    if place > _MAX_EXPONENT:
        return Fraction(MAX_INT64)
    if place < -_MAX_EXPONENT:
        return Fraction(1, 10**9)
    first = (whole + part if whole else some)[:_MAX_CHARS]
    return Fraction(int(first)) * Fraction(10) ** (place - len(first)) * factor


def of(value: object) -> Fraction:
    """The exact value of a quantity as it stands in YAML: text, an integer or a float."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QuantityError("expected a quantity: a number or text such as 500m, 2, 16Gi")
    return parse(value if isinstance(value, str) else repr(value))


def _ceil(value: Fraction) -> int:
    """Rounded away from zero, as Quantity.Value and MilliValue do."""
    magnitude = -(-abs(value.numerator) // value.denominator)
    return magnitude if value >= 0 else -magnitude


# Amounts by their text: a cluster writes few, and reads them with every node and pod.
_MILLIS: Final[dict[str, int]] = {}
_WHOLES: Final[dict[str, int]] = {}
_AMOUNTS_KEPT: Final = 65_536


def milli_ceil(value: object) -> int:
    """Thousandths, rounded up: the scheduler's unit for cpu."""
    text = value if isinstance(value, str) else _text(value)
    known = _MILLIS.get(text)
    return _noted(_MILLIS, text, 1000) if known is None else known


def whole_ceil(value: object) -> int:
    """Units (bytes, devices), rounded up."""
    text = value if isinstance(value, str) else _text(value)
    known = _WHOLES.get(text)
    return _noted(_WHOLES, text, 1) if known is None else known


def _noted(amounts: dict[str, int], text: str, parts: int) -> int:
    """An amount in such parts of a unit. Raises: QuantityError."""
    amount = min(_ceil(parse(text) * parts), MAX_INT64)
    if len(text) > _MAX_CHARS:
        return amount
    if len(amounts) >= _AMOUNTS_KEPT:
        amounts.clear()
    amounts[text] = amount
    return amount


def _text(value: object) -> str:
    of(value)
    return repr(value)


def canonical(value: object) -> str:
    """The form Kubernetes prints: the largest suffix that keeps it whole, in the family it was written in.

    `1500m` → `1500m`, `1.5` → `1500m`, `2048Mi` → `2Gi`, `1e3` → `1e3`.
    """
    exact = of(value)
    text = value if isinstance(value, str) else repr(value)
    if exact == 0:
        return "0"
    if len(text) > _MAX_CHARS:
        return text
    match = _FORM.fullmatch(text)
    suffix = match.group(3) if match else ""
    if suffix in _BINARY and exact.denominator == 1:
        return format_binary(int(exact))
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        if abs(_exponent(suffix)) > _MAX_EXPONENT:
            return text.replace("E", "e")
        return _format_decimal(exact, exponent_form=True)
    return _format_decimal(exact, exponent_form=False)


def format_binary(value: int) -> str:
    """Bytes in the binary family: 2147483648 → `2Gi`. Below 1024, or not a multiple: plain digits."""
    if value == 0:
        return "0"
    best = str(value)
    for suffix, factor in _BINARY.items():
        if value % factor == 0:
            best = f"{value // factor}{suffix}"
    return best


@lru_cache(maxsize=4096)
def format_milli(milli: int) -> str:
    """Thousandths in the decimal family: 1500 → `1500m`, 2000 → `2`."""
    return _format_decimal(Fraction(milli, 1000), exponent_form=False)


def _format_decimal(exact: Fraction, *, exponent_form: bool) -> str:
    if exact == 0:
        return "0"
    digits = _ceil(exact * 10**9)
    exponent = -9
    while exponent < 18 and digits % 1000 == 0 and digits != 0:
        digits //= 1000
        exponent += 3
    if exponent_form:
        return f"{digits}e{exponent}" if exponent else str(digits)
    suffix = next(s for s, e in _DECIMAL.items() if e == exponent)
    return f"{digits}{suffix}"
