"""What an assertion is, once its text is understood.

Values are in base units: µs, bytes, milli-GPU, milli-CPU, plain counts, and ratios where 60 % is 0.6.
"""

from __future__ import annotations

from dataclasses import dataclass

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, NOT_EQUAL = "<", "<=", ">", ">=", "==", "!="
OPERATORS = (LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, NOT_EQUAL)
IN, NOT_IN, LIKE = "in", "not in", "like"

EVENTUALLY, NEVER = "eventually", "never"
REPLICAS = " replicas"
"""After a number: the state of an object that has so many ready."""
REFUSED = "Refused"
"""The state of an object that the cluster did not let in."""


@dataclass(frozen=True, slots=True)
class Window:
    """A part of the run, in µs since its start; None: its end."""

    start_us: int = 0
    end_us: int | None = None


@dataclass(frozen=True, slots=True)
class FieldTest:
    """One field of a row against one value, or a list of them for `in` and `not in`. `key` names a label."""

    field: str
    operator: str
    values: tuple[str | float | bool, ...]
    key: str = ""


@dataclass(frozen=True, slots=True)
class All:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Either:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Condition


Condition = FieldTest | All | Either | Not


@dataclass(frozen=True, slots=True)
class Comparison:
    """`metric` (or `set` for count and share) reduced by `statistic`, against a bound in `unit`.

    `statistic`: mean, min, max, total, or p95 for a percentile. With `always` it must hold at every moment.
    """

    metric: str
    statistic: str
    operator: str
    bound: float
    unit: str
    set: str = ""
    always: bool = False
    window: Window = Window()
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Reaching:
    """Whether objects ever reach a state. `name` and `namespace` may hold wildcards.

    `within_us` counts from an object's creation, `before_us` from the start of the run.
    """

    quantifier: str
    gk: str
    namespace: str
    name: str
    state: str
    within_us: int | None = None
    before_us: int | None = None


@dataclass(frozen=True, slots=True)
class Assertion:
    """`where` is `file:line`; `name` is what reports call it, the text where none was given."""

    text: str
    body: Comparison | Reaching
    name: str = ""
    where: str = ""
    path: str = ""
    column: int = 0

    @property
    def title(self) -> str:
        return self.name or self.text
