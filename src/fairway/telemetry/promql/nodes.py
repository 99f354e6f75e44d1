"""What a query is made of, once read: plain data, times in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from fairway.errors import UserError
from fairway.telemetry.store import Matcher

SCALAR: Final = "scalar"
VECTOR: Final = "vector"
MATRIX: Final = "matrix"
STRING: Final = "string"
ARITHMETIC: Final = ("+", "-", "*", "/", "%", "^", "atan2")
COMPARISONS: Final = ("==", "!=", ">", "<", ">=", "<=")
SET_OPERATORS: Final = ("and", "or", "unless")


class PromQLError(UserError):
    """A query that cannot be read or answered, in Prometheus' words."""


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Text:
    value: str


@dataclass(frozen=True, slots=True)
class Selector:
    """`at`: milliseconds, `start`, `end`, or None. `range_ms`: 0 for an instant vector."""

    matchers: tuple[Matcher, ...]
    offset_ms: int
    at: int | str | None
    range_ms: int


@dataclass(frozen=True, slots=True)
class Subquery:
    """`step_ms`: 0 for the default evaluation interval."""

    inner: Node
    range_ms: int
    step_ms: int
    offset_ms: int
    at: int | str | None


@dataclass(frozen=True, slots=True)
class Negation:
    inner: Node


@dataclass(frozen=True, slots=True)
class Matching:
    """How two vectors meet. `card`: one-to-one, many-to-one, one-to-many, many-to-many."""

    card: str
    is_on: bool
    names: tuple[str, ...]
    include: tuple[str, ...]
    fill_left: float | None = None
    fill_right: float | None = None


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    left: Node
    right: Node
    is_bool: bool
    matching: Matching


@dataclass(frozen=True, slots=True)
class Aggregation:
    op: str
    inner: Node
    parameter: Node | None
    is_without: bool
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: tuple[Node, ...]
    returns: str


Node: TypeAlias = Number | Text | Selector | Subquery | Negation | Binary | Aggregation | Call


def kind_of(node: Node) -> str:
    """Its type: scalar, vector, matrix or string."""
    match node:
        case Number():
            return SCALAR
        case Text():
            return STRING
        case Selector():
            return MATRIX if node.range_ms else VECTOR
        case Subquery():
            return MATRIX
        case Negation():
            return kind_of(node.inner)
        case Binary():
            both = kind_of(node.left) == kind_of(node.right) == SCALAR
            return SCALAR if both else VECTOR
        case Aggregation():
            return VECTOR
        case Call():
            return node.returns


def reach_ms(node: Node) -> int:
    """How far back a query looks at most, besides the lookback."""
    match node:
        case Selector():
            return node.range_ms + max(node.offset_ms, 0)
        case Subquery():
            return node.range_ms + max(node.offset_ms, 0) + reach_ms(node.inner)
        case Negation():
            return reach_ms(node.inner)
        case Binary():
            return max(reach_ms(node.left), reach_ms(node.right))
        case Aggregation():
            return max(reach_ms(node.inner), 0 if node.parameter is None else reach_ms(node.parameter))
        case Call():
            return max((reach_ms(argument) for argument in node.arguments), default=0)
        case _:
            return 0
