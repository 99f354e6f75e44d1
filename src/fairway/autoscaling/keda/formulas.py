"""Scaling modifiers: one value from the values of several triggers.

The part of the expression language that formulas use: numbers, triggers by name, arithmetic, comparison, `and`/`&&`,
`or`/`||`, `not`/`!`, `a ? b : c`, `a ?? b`, lists and a dozen functions.

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
_TOKEN: Final = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|<=|>=|==|!=|&&|\|\||\?\?|[-+*/%^<>!?:(),\[\]]))"
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
_LEVELS: Final = (
    ("??",),
    ("||", "or"),
    ("&&", "and"),
    ("==", "!=", "<", "<=", ">", ">="),
    ("+", "-"),
    ("*", "/", "%"),
    ("**", "^"),
)


def _flat(values: tuple[Any, ...]) -> list[float]:
    return [float(v) for value in values for v in (value if isinstance(value, list) else [value])]


def evaluate(formula: str, values: Mapping[str, float | None]) -> float:
    """Raises: FormulaFault."""
    try:
        found = _Reader(formula, values).whole()
        return float(found)
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
        if token in ("true", "false", "nil"):
            return {"true": True, "false": False, "nil": None}[token]
        if self.next == "(":
            self.take()
            function = _FUNCTIONS.get(token)
            if function is None:
                raise FormulaFault(f"{self.formula!r}: unknown name {token}")
            return function(*self.listed(")"))
        if token not in self.values:
            raise FormulaFault(f"{self.formula!r}: unknown name {token}")
        return self.values[token]

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
        "/": lambda: left / right,
        "%": lambda: math.fmod(left, right),
        "**": lambda: math.pow(left, right),
        "^": lambda: math.pow(left, right),
    }
    return operations[operator]()
