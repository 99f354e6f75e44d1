"""Functions over single values: mathematics, and parts of dates.

Source: promql/functions.go (Prometheus 3.14).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fairway.telemetry.store import Values

_DAY_S: Final = 86_400


def _days(seconds: Values) -> Any:
    """datetime64[D]; a value that is no time is 1970 (Go's conversion gives some far-away year)."""
    return _whole(seconds).astype("datetime64[s]").astype("datetime64[D]")


def _whole(seconds: Values) -> Any:
    """Toward zero, as Go converts."""
    sane = np.where(np.isfinite(seconds), seconds, 0.0)
    return np.clip(np.trunc(sane), -6e10, 2.5e11).astype(np.int64)


def _year(seconds: Values) -> Any:
    return _days(seconds).astype("datetime64[Y]").astype(np.int64) + 1970


def _month(seconds: Values) -> Any:
    return _days(seconds).astype("datetime64[M]").astype(np.int64) % 12 + 1


def _day_of_month(seconds: Values) -> Any:
    days = _days(seconds)
    return (days - days.astype("datetime64[M]")).astype(np.int64) + 1


def _day_of_year(seconds: Values) -> Any:
    days = _days(seconds)
    return (days - days.astype("datetime64[Y]")).astype(np.int64) + 1


def _days_in_month(seconds: Values) -> Any:
    month = _days(seconds).astype("datetime64[M]")
    return ((month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64)


def _round(values: Values, nearest: Values) -> Values:
    inverse = 1.0 / nearest
    rounded: Values = np.floor(values * inverse + 0.5) / inverse
    return rounded


def _clamp(values: Values, least: Values, most: Values) -> Values:
    clamped: Values = np.maximum(least, np.minimum(most, values))
    return clamped


DATES: Final[dict[str, Callable[[Values], Any]]] = {
    "day_of_month": _day_of_month,
    "day_of_week": lambda s: (_days(s).astype(np.int64) + 4) % 7,
    "day_of_year": _day_of_year,
    "days_in_month": _days_in_month,
    "hour": lambda s: _whole(s) // 3600 % 24,
    "minute": lambda s: _whole(s) // 60 % 60,
    "month": _month,
    "year": _year,
}
# Of one value each, and of scalars beside it; all drop the metric's name.
SIMPLE: Final[dict[str, Callable[..., Any]]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "clamp": _clamp,
    "clamp_max": lambda v, most: np.minimum(most, v),
    "clamp_min": lambda v, least: np.maximum(least, v),
    "cos": np.cos,
    "cosh": np.cosh,
    "deg": lambda v: v * 180 / np.pi,
    "exp": np.exp,
    "floor": np.floor,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "rad": lambda v: v * np.pi / 180,
    "round": lambda v, *nearest: _round(v, nearest[0] if nearest else np.ones(1)),
    "sgn": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    **DATES,
}
