"""Are two values the same to Kubernetes, and what does it say where they must be?

Empty and absent are the same, and so are quantities of one amount. Source: apimachinery equality.Semantic (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.fieldpath import Path
from fairway.kube.problem import Faults

IMMUTABLE = "field is immutable"
_EMPTY: tuple[object, ...] = (None, "", [], {}, ())


def is_same(one: Any, other: Any) -> bool:
    if one is other or one == other:
        return True
    if _is_empty(one) and _is_empty(other):
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return all(is_same(one.get(key), other.get(key)) for key in {**one, **other})
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(is_same(a, b) for a, b in zip(one, other, strict=True))
    return False


def _is_empty(value: Any) -> bool:
    return value is None or (not isinstance(value, (bool, int, float)) and value in _EMPTY)


def immutable(new: Any, old: Any, at: Path, out: Faults, shown: Any = None) -> None:
    """`shown`: how a message shows the new value, where that is not as it stands."""
    if not is_same(new, old):
        out.invalid(at, new if shown is None else shown, IMMUTABLE)
