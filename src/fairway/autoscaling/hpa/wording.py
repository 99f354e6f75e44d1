"""How does Go print what the controller says? Selectors, quantities, and conversions of floats to integers.

Source: apimachinery pkg/apis/meta/v1/generated.pb.go (LabelSelector.String), pkg/api/resource/quantity.go, the
conversions of Go on amd64 (v1.36).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from fairway.kube.labels import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, Selector, label_selector
from fairway.kube.quantity import canonical, format_binary, format_milli, of

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1


def int32(value: float) -> int:
    """`int32(f)`: out of range and NaN become the smallest."""
    return int(value) if -(2**31) - 1 < value <= MAX_INT32 else -(2**31)


def int64(value: float) -> int:
    """`int64(f)`: out of range and NaN become the smallest."""
    return int(value) if -(2.0**63) <= value < 2.0**63 else -(2**63)


def ceil32(value: float) -> int:
    """`int32(math.Ceil(f))`."""
    return int32(math.ceil(value)) if math.isfinite(value) else -(2**31)


def ceil64(value: float) -> int:
    """`int64(math.Ceil(f))`."""
    return int64(math.ceil(value)) if math.isfinite(value) else -(2**63)


def ratio(amount: float, per: float) -> float:
    """`a / b` of floats: by zero it is infinite, or not a number."""
    if per:
        return amount / per
    return math.nan if not amount else math.copysign(math.inf, amount)


def quotient(amount: int, parts: int) -> int:
    """`a / b` of integers: towards zero."""
    return amount // parts if amount >= 0 else -(-amount // parts)


def milli_quantity(milli: int) -> str:
    """`NewMilliQuantity(milli, DecimalSI)` as it is written."""
    return format_milli(milli)


def amount_of(resource: str, milli: int) -> str:
    """Memory in the binary family where that loses nothing, everything else in thousandths."""
    if resource == "memory" and milli % 1000 == 0 and abs(milli) >= 1024 * 1000:
        return format_binary(milli // 1000) if milli > 0 else f"-{format_binary(-milli // 1000)}"
    return format_milli(milli)


def approximate(quantity: Any) -> float:
    """`Quantity.AsApproximateFloat64` of a quantity that was stored: its digits times a power of ten."""
    text = canonical(quantity)
    for suffix, exponent in (("n", -9), ("u", -6), ("m", -3)):
        if text.endswith(suffix):
            return float(text[:-1]) * 10.0**exponent
    return float(of(text))


def selector_text(raw: Mapping[str, Any] | None) -> str:
    """`%+v` of a `*metav1.LabelSelector`."""
    if raw is None:
        return "nil"
    labels = "".join(f"{k}: {v}," for k, v in sorted((raw.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{e.get('key', '')},Operator:{e.get('operator', '')},"
        f"Values:[{' '.join(e.get('values') or ())}],}},"
        for e in raw.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


class SelectorFault(ValueError):
    """A metric's selector says nothing. The text is `LabelSelectorAsSelector`'s."""


def metric_selector(raw: Mapping[str, Any] | None) -> Selector | None:
    """None selects every series: a client sends "nothing" as an empty query.

    Raises: SelectorFault.
    """
    for expression in (raw or {}).get("matchExpressions") or ():
        operator, values = expression.get("operator", ""), expression.get("values") or ()
        if operator not in (IN, NOT_IN, EXISTS, DOES_NOT_EXIST):
            raise SelectorFault(f'"{operator}" is not a valid label selector operator')
        if operator in (IN, NOT_IN) and not values:
            raise SelectorFault(
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
            )
        if operator in (EXISTS, DOES_NOT_EXIST) and values:
            listed = ",".join(f'"{v}"' for v in values)
            raise SelectorFault(
                f"values: Invalid value: [{listed}]: values set must be empty for exists and does not exist"
            )
    return label_selector(raw) if raw else None
