"""Which values may a label have? One requirement, as a set or the complement of one, with bounds.

`In` is a set, `NotIn` and `Exists` complements, `DoesNotExist` the empty set; `Gt`, `Gte`, `Lt` and `Lte` bound a
complement by integers. Intersections are requirements again, so a NodePool's, a pod's and an instance type's
wishes become one.

Source: pkg/scheduling/requirement.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from fairway.provisioning.karpenter.labels import NORMALIZED

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GT: Final = "Gt"
LT: Final = "Lt"
GTE: Final = "Gte"
LTE: Final = "Lte"
OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT, GTE, LTE)

# strconv.Atoi takes a sign; anything else is no integer.
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_MAX_INT: Final = 2**63 - 1
_VALUES_SHOWN: Final = 5


class Requirement:
    """The allowed values of one label: `values`, or with `complement` all others; within the bounds. Immutable."""

    # Not a dataclass: a dozen are made for every node, and the interpreter runs what a dataclass generates.
    __slots__ = ("complement", "gte", "key", "lte", "min_values", "values")

    def __init__(
        self,
        key: str,
        complement: bool,
        values: frozenset[str],
        gte: int | None = None,
        lte: int | None = None,
        min_values: int | None = None,
    ) -> None:
        self.key = key
        self.complement = complement
        self.values = values
        self.gte = gte
        self.lte = lte
        self.min_values = min_values

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Requirement)
            and self.key == other.key
            and self.complement == other.complement
            and self.values == other.values
            and self.gte == other.gte
            and self.lte == other.lte
            and self.min_values == other.min_values
        )

    def __hash__(self) -> int:
        return hash((self.key, self.complement, self.values, self.gte, self.lte, self.min_values))

    def __repr__(self) -> str:
        return f"Requirement({self})"

    def __reduce__(self) -> tuple[Any, ...]:
        """By its parts: clouds travel between processes, which compiled classes cannot by themselves."""
        return (
            Requirement,
            (self.key, self.complement, self.values, self.gte, self.lte, self.min_values),
        )

    def with_min_values(self, count: int) -> Requirement:
        return Requirement(self.key, self.complement, self.values, self.gte, self.lte, count)

    @property
    def operator(self) -> str:
        """Bounds count as `Exists`; a complement that names values as `NotIn`."""
        if self.complement:
            return NOT_IN if self.values else EXISTS
        return IN if self.values else DOES_NOT_EXIST

    def has(self, value: str) -> bool:
        return (value in self.values) != self.complement and _within(value, self.gte, self.lte)

    def sorted_values(self) -> list[str]:
        return sorted(self.values)

    def intersection(self, other: Requirement) -> Requirement:
        gte, lte = _most(self.gte, other.gte), _least(self.lte, other.lte)
        min_values = _most(self.min_values, other.min_values)
        if gte is not None and lte is not None and gte > lte:
            return Requirement(self.key, False, frozenset(), min_values=min_values)
        complement = self.complement and other.complement
        if complement:
            values = self.values | other.values
        elif self.complement:
            values = other.values - self.values
        elif other.complement:
            values = self.values - other.values
        else:
            values = self.values & other.values
        if gte is not None or lte is not None:
            values = frozenset(v for v in values if _within(v, gte, lte))
        if not complement:
            gte = lte = None
        return Requirement(self.key, complement, values, gte, lte, min_values)

    def intersects(self, other: Requirement) -> bool:
        """Whether any value suits both."""
        gte, lte = _most(self.gte, other.gte), _least(self.lte, other.lte)
        if gte is not None and lte is not None and gte > lte:
            return False
        if self.complement and other.complement:
            return True
        if self.complement:
            left = other.values - self.values
        elif other.complement:
            left = self.values - other.values
        else:
            left = self.values & other.values
        return any(_within(v, gte, lte) for v in left)

    def __str__(self) -> str:
        """As Karpenter's messages write it: `key In [a b]`."""
        text = f"{self.key} {self.operator}"
        if self.operator in (IN, NOT_IN):
            shown = self.sorted_values()
            if len(shown) > _VALUES_SHOWN:
                shown = [*shown[:_VALUES_SHOWN], f"and {len(shown) - _VALUES_SHOWN} others"]
            text += f" [{' '.join(shown)}]"
        text += f" >={self.gte}" if self.gte is not None else ""
        text += f" <={self.lte}" if self.lte is not None else ""
        return text + (f" minValues {self.min_values}" if self.min_values is not None else "")

    def as_selectors(self) -> list[dict[str, Any]]:
        """As `spec.requirements` of a NodeClaim lists it; two bounds are two entries."""
        base: dict[str, Any] = {"key": self.key}
        more = {} if self.min_values is None else {"minValues": self.min_values}
        bounds = [(GTE, self.gte), (LTE, self.lte)]
        if any(b is not None for _, b in bounds):
            return [{**base, "operator": op, "values": [str(b)], **more} for op, b in bounds if b is not None]
        values = {"values": self.sorted_values()} if self.values else {}
        return [{**base, "operator": self.operator, **values, **more}]


def requirement(
    key: str, operator: str, values: Sequence[str] = (), min_values: int | None = None
) -> Requirement:
    """From a selector's parts, which validation has seen. Old label names are read as the new ones."""
    key = NORMALIZED.get(key, key)
    if operator == IN:
        return Requirement(key, False, frozenset(values), min_values=min_values)
    if operator == DOES_NOT_EXIST:
        return Requirement(key, False, frozenset(), min_values=min_values)
    if operator == NOT_IN:
        return Requirement(key, True, frozenset(values), min_values=min_values)
    if operator == EXISTS:
        return Requirement(key, True, frozenset(), min_values=min_values)
    bound = int(values[0]) if values and _INTEGER.fullmatch(values[0]) else 0
    if operator == GT and bound == _MAX_INT:
        return Requirement(key, False, frozenset())
    gte = bound + 1 if operator == GT else bound if operator == GTE else None
    lte = bound - 1 if operator == LT else bound if operator == LTE else None
    return Requirement(key, True, frozenset(), gte, lte, min_values)


def one_of(key: str, values: Iterable[str]) -> Requirement:
    return Requirement(key, False, frozenset(values))


def _within(value: str, gte: int | None, lte: int | None) -> bool:
    """With bounds, what is no integer is out of them."""
    if gte is None and lte is None:
        return True
    if not _INTEGER.fullmatch(value):
        return False
    number = int(value)
    return (gte is None or number >= gte) and (lte is None or number <= lte)


def _most(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)
