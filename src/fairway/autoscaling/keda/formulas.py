"""Scaling modifiers: one value from the values of several triggers.

The part of the expression language that formulas use: numbers, triggers by name, arithmetic, comparison, `and`/`&&`,
`or`/`||`, `not`/`!`, `in`, `a ? b : c`, `a ?? b`, lists, a dozen functions, and predicates
over lists such as `count([a, b], {# > 1})`.

Source: expr-lang/expr docs/language-definition.md, KEDA pkg/scaling/modifiers.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping
from typing import Any, Final

# Longer formulas are refused before they cost anything.
CHARS_MOST: Final = 2_000
_DEPTH_MOST: Final = 50
# Values looked at in one evaluation: predicates within predicates multiply.
_STEPS_MOST: Final = 20_000
_TOKEN: Final = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|<=|>=|==|!=|&&|\|\||\?\?|[-+*/%^<>!?:(),\[\]{}#]))"
)


class FormulaFault(ValueError):
    """Not a formula, or one that does not come to a number."""


def _sum(values: list[float]) -> float:
    return math.fsum(values)


_FUNCTIONS: Final[dict[str, Callable[..., float]]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": lambda v: math.floor(v + 0.5),
    "min": lambda *v: min(_flat(v)),
    "max": lambda *v: max(_flat(v)),
    "sum": lambda *v: _sum(_flat(v)),
    "mean": lambda *v: statistics.fmean(_flat(v)),
    "median": lambda *v: statistics.median(_flat(v)),
    "len": len,
    "float": float,
    "int": int,
}
# What becomes of a list and of what a predicate says of each of its elements.
_OVER_LISTS: Final[dict[str, Callable[[list[Any], list[Any]], Any]]] = {
    "count": lambda _, said: sum(map(bool, said)),
    "all": lambda _, said: all(said),
    "any": lambda _, said: any(said),
    "none": lambda _, said: not any(said),
    "one": lambda _, said: sum(map(bool, said)) == 1,
    "filter": lambda values, said: [v for v, keeps in zip(values, said, strict=True) if keeps],
    "map": lambda _, said: said,
    "sum": lambda _, said: _sum(said),
}
_LEVELS: Final = (
    ("??",),
    ("||", "or"),
    ("&&", "and"),
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
    ("**", "^"),
)


def _flat(values: tuple[Any, ...]) -> list[float]:
    return [float(v) for value in values for v in (value if isinstance(value, list) else [value])]


def evaluate(formula: str, values: Mapping[str, float | None]) -> float:
    """Raises: FormulaFault."""
    try:
        found = float(_Reader(formula, values).whole())
        if not math.isfinite(found):
            raise FormulaFault(f"{formula!r}: comes to {found}, which is no amount")
        return found
    except FormulaFault:
        raise
    except (ArithmeticError, TypeError, ValueError) as wrong:
        raise FormulaFault(f"{formula!r}: {wrong}") from None


class _Reader:
    """Reads and computes at once: formulas are short and rarely the same values twice."""

    def __init__(self, formula: str, values: Mapping[str, float | None]) -> None:
        if len(formula) > CHARS_MOST:
            raise FormulaFault(f"a formula may have at most {CHARS_MOST} characters")
        self.formula = formula
        self.values = values
        self.tokens = self._tokens(formula)
        self.at = 0
        self.depth = 0
        self.steps = 0
        self.elements: list[Any] = []

    def _tokens(self, text: str) -> list[str]:
        found, at = [], 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise FormulaFault(f"{text!r}: nothing is known that begins with {text[at:].strip()[:10]!r}")
            found.append(next(part for part in match.groups() if part is not None))
            at = match.end()
        return found

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, token: str = "") -> str:
        found = self.next
        if not found or (token and found != token):
            raise FormulaFault(f"{self.formula!r}: expected {token or 'a value'}, found {found or 'its end'}")
        self.at += 1
        return found

    def whole(self) -> Any:
        found = self.choice()
        if self.next:
            raise FormulaFault(f"{self.formula!r}: unexpected {self.next}")
        return found

    def choice(self) -> Any:
        self.depth += 1
        if self.depth > _DEPTH_MOST:
            raise FormulaFault(f"a formula may be nested at most {_DEPTH_MOST} times")
        found = self.binary(0)
        if self.next == "?":
            self.take()
            yes = self.choice()
            self.take(":")
            no = self.choice()
            found = yes if found else no
        self.depth -= 1
        return found

    def binary(self, level: int) -> Any:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.next in _LEVELS[level]:
            operator = self.take()
            left = _apply(operator, left, self.binary(level + 1))
        return left

    def unary(self) -> Any:
        self.steps += 1
        if self.steps > _STEPS_MOST:
            raise FormulaFault(f"a formula may look at most at {_STEPS_MOST} values")
        token = self.take()
        if token == "-":
            return -self.unary()
        if token in ("!", "not"):
            return not self.unary()
        if token == "(":
            found = self.choice()
            self.take(")")
            return found
        if token == "[":
            return self.listed("]")
        if token[0].isdigit():
            return float(token)
        if token == "#" and self.elements:
            return self.elements[-1]
        if token in ("true", "false", "nil"):
            return {"true": True, "false": False, "nil": None}[token]
        if self.next == "(":
            self.take()
            return self.called(token)
        if token not in self.values:
            raise FormulaFault(f"{self.formula!r}: unknown name {token}")
        return self.values[token]

    def called(self, name: str) -> Any:
        """A function of what stands in brackets."""
        given = [] if self.next == ")" else [self.choice()]
        while self.next == ",":
            self.take()
            if name in _OVER_LISTS and self.next == "{":
                return self.over(name, given)
            given.append(self.choice())
        self.take(")")
        function = _FUNCTIONS.get(name)
        if function is None:
            raise FormulaFault(f"{self.formula!r}: unknown name {name}")
        return function(*given)

    def over(self, name: str, given: list[Any]) -> Any:
        """A predicate, tried on every element of a list."""
        if len(given) != 1 or not isinstance(given[0], list):
            raise FormulaFault(f"{self.formula!r}: {name} expects a list and a predicate")
        self.take("{")
        start, said = self.at, []
        for element in given[0] or [0.0]:
            self.at = start
            self.elements.append(element)
            said.append(self.choice())
            self.elements.pop()
        self.take("}")
        self.take(")")
        return _OVER_LISTS[name](given[0], said if given[0] else [])

    def listed(self, end: str) -> list[Any]:
        found = []
        while self.next != end:
            found.append(self.choice())
            if self.next != end:
                self.take(",")
        self.take(end)
        return found


def _apply(operator: str, left: Any, right: Any) -> Any:
    if operator == "??":
        return right if left is None else left
    if operator in ("||", "or"):
        return bool(left) or bool(right)
    if operator in ("&&", "and"):
        return bool(left) and bool(right)
    operations: dict[str, Callable[[], Any]] = {
        "==": lambda: left == right,
        "!=": lambda: left != right,
        "<": lambda: left < right,
        "<=": lambda: left <= right,
        ">": lambda: left > right,
        ">=": lambda: left >= right,
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "in": lambda: left in right,
        "/": lambda: _quotient(left, right),
        "%": lambda: math.fmod(left, right),
        "**": lambda: math.pow(left, right),
        "^": lambda: math.pow(left, right),
    }
    return operations[operator]()


def _quotient(left: float, right: float) -> float:
    """As Go divides: by nothing is endless, and no fault in a branch that is not taken."""
    if right:
        return left / right
    return math.nan if not left else math.copysign(math.inf, left)
