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
# Larger magnitudes are refused: Kubernetes caps at 2^63-1; an exponent beyond this only costs memory.
_MAX_EXPONENT: Final = 40
# Longer texts are refused before they cost anything: 2^63 has 19 digits, nano-units nine more.
_MAX_CHARS: Final = 64
MAX_INT64: Final = 2**63 - 1


class QuantityError(ValueError):
    """Not a quantity. The text says which rule it broke."""


@lru_cache(maxsize=65536)
def parse(text: str) -> Fraction:
    """The exact value of a quantity.

    Raises: QuantityError.
    """
    match = _FORM.fullmatch(text) if len(text) <= _MAX_CHARS else None
    if match is None:
        raise QuantityError(
            "expected a quantity: a number with an optional suffix (m, k, M, G, Ki, Mi, Gi, … or e3)"
        )
    sign, digits, suffix = match.groups()
    value = Fraction(digits)
    if suffix in _BINARY:
        value *= _BINARY[suffix]
    else:
        exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        if abs(exponent) > _MAX_EXPONENT:
            raise QuantityError(f"exponent {exponent} is out of range (at most {_MAX_EXPONENT})")
        value *= Fraction(10) ** exponent
    return -value if sign == "-" else value


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
    match = _FORM.fullmatch(text)
    suffix = match.group(3) if match else ""
    if suffix in _BINARY and exact.denominator == 1:
        return format_binary(int(exact))
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
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
