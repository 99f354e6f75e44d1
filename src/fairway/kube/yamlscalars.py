"""What does a plain YAML scalar mean to Kubernetes?

kubectl turns YAML into JSON with YAML 1.1 words and numbers (`on`, `yes` and `y` are true, `010` is eight,
`1_000` a thousand), but leaves times as text and knows no base-60 numbers. What JSON cannot hold is refused.

Source: go.yaml.in/yaml/v2 v2.4 resolve.go as used by sigs.k8s.io/yaml v1.6 (kubectl 1.36).
"""

from __future__ import annotations

import base64
import binascii
import re

Scalar = str | int | float | bool | None

_TAG = "tag:yaml.org,2002:"
_TRUE = "y Y yes Yes YES true True TRUE on On ON"
_FALSE = "n N no No NO false False FALSE off Off OFF"
_NULL = "~ null Null NULL"
WORDS: dict[str, bool | None] = {
    "": None,
    **dict.fromkeys(_TRUE.split(), True),
    **dict.fromkeys(_FALSE.split(), False),
    **dict.fromkeys(_NULL.split(), None),
}
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))", re.ASCII)
_BASES = (16, 2, 8, 10)
# Up to here Go writes a whole float64 without an exponent, and JSON then reads it as an integer.
_WHOLE_FLOAT_LIMIT = 1e21


class ScalarError(ValueError):
    """A scalar JSON cannot hold, or one that contradicts its tag."""


def plain_value(text: str) -> Scalar:
    """The value of an unquoted scalar without a tag.

    Raises: ScalarError for infinities and NaN.
    """
    if text in WORDS:
        return WORDS[text]
    first = text[0]
    if first not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise ScalarError("expected a finite number: JSON knows neither infinity nor NaN")
    number = _number(text if first == "." else text.replace("_", ""))
    return text if number is None else number


def _number(text: str) -> int | float | None:
    match = _INTEGER.fullmatch(text)
    if match is not None:
        sign, *digits = match.groups()
        for base, group in zip(_BASES, digits, strict=True):
            if group is not None and (whole := _bounded(sign, group, base)) is not None:
                return whole
    if _FLOAT.fullmatch(text):
        value = float(text)
        if value in (float("inf"), float("-inf")):
            return None
        return int(value) if value.is_integer() and abs(value) < _WHOLE_FLOAT_LIMIT else value
    return None


def _bounded(sign: str, digits: str, base: int) -> int | None:
    """The integer, or None where neither int64 nor uint64 holds it (it is a float then)."""
    if len(digits) > 64:
        return None
    value = int(digits, base)
    if sign == "-":
        return -value if value <= 2**63 else None
    return value if value < (2**63 if sign else 2**64) else None


def tagged_value(tag: str, text: str) -> Scalar:
    """The value of a scalar with an explicit tag (`!!str 1`). Tags Kubernetes does not know leave text.

    Raises: ScalarError.
    """
    name = tag.removeprefix(_TAG)
    if name == "binary":
        return _decoded(text)
    wanted = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}.get(name)
    if wanted is None or not tag.startswith(_TAG):
        return text
    value = plain_value(text)
    if type(value) not in wanted:
        raise ScalarError(f"cannot decode `{text[:60]}` as a !!{name}")
    return value


def _decoded(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ScalarError("expected base64 of UTF-8 text after !!binary") from None


def key_text(key: Scalar) -> str:
    """A mapping key as the JSON field name it becomes.

    Raises: ScalarError for null.
    """
    if isinstance(key, str):
        return key
    if key is None:
        raise ScalarError("expected a field name: a null key has no place in a Kubernetes object")
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)
