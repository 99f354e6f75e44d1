"""Does a measured result meet a condition such as `result[0] <= 0.95 && !isNaN(result[0])`?

The expressions are those of expr-lang as AnalysisTemplates use them: comparisons, arithmetic, `&&` `||` `!` (also
`and`, `or`, `not`), indexes, `len`, `all`, `any`, `none`, `isNaN`, `isInf`, `isNil`, `asInt`, `asFloat`, `default`.

Source: utils/evaluate/evaluate.go.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

_LENGTH_MOST: Final = 1_000


def _of_numbers(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Text times a number, or text filled in by `%`, is no arithmetic, and may be as long as memory."""

    def operated(left: Any, right: Any) -> Any:
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            raise TypeError("invalid operation: arithmetic is of numbers")
        return operate(left, right)

    return operated


_OPERATORS: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Add: operator.add,
    ast.Sub: _of_numbers(operator.sub),
    ast.Mult: _of_numbers(operator.mul),
    ast.Div: _of_numbers(operator.truediv),
    ast.Mod: _of_numbers(operator.mod),
}
_WORDS: Final = (
    (r"&&", " and "),
    (r"\|\|", " or "),
    (r"!(?!=)", " not "),
    (r"#", "_it"),
    (r"\bnil\b", "None"),
)


class ConditionError(Exception):
    """What is wrong with the condition, or with the result under it."""


def holds(condition: str, result: Any) -> bool:
    """Raises: ConditionError."""
    if len(condition) > _LENGTH_MOST:
        raise ConditionError(f"longer than {_LENGTH_MOST} characters")
    text = condition.strip()
    for pattern, word in _WORDS:
        text = re.sub(pattern, word, text)
    text = re.sub(r"\{([^{}]*)\}", r"(\1)", text)
    text = re.sub(r"\btrue\b", "True", re.sub(r"\bfalse\b", "False", text)).strip()
    try:
        found = _value(ast.parse(text, mode="eval").body, {"result": result})
    except (SyntaxError, RecursionError, ValueError, MemoryError) as wrong:
        raise ConditionError(f"cannot be read: {wrong}") from wrong
    except IndexError as wrong:
        raise ConditionError("reflect: slice index out of range") from wrong
    except (TypeError, ArithmeticError, KeyError) as wrong:
        raise ConditionError(str(wrong)) from wrong
    if not isinstance(found, bool):
        raise ConditionError(f"expected bool, but got {type(found).__name__}")
    return found


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value) if isinstance(value, int | float | str | None):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BoolOp(op=op, values=values):
            found = (_value(value, names) for value in values)
            return all(found) if isinstance(op, ast.And) else any(found)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return not _value(inner, names)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.Subscript(value=inner, slice=at):
            return _value(inner, names)[_value(at, names)]
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]):
            return _called(name, given, names)
    raise ConditionError(f"unknown: {ast.unparse(node)[:80]}")


def _called(name: str, given: list[ast.expr], names: dict[str, Any]) -> Any:
    if name in ("all", "any", "none") and len(given) == 2:
        found = [bool(_value(given[1], {**names, "_it": one})) for one in _value(given[0], names)]
        return {"all": all(found), "any": any(found), "none": not any(found)}[name]
    values = [_value(one, names) for one in given]
    match name, values:
        case "len", [value]:
            return len(value)
        case "isNaN", [value]:
            return math.isnan(value)
        case "isInf", [value]:
            return math.isinf(value)
        case "isNil", [value]:
            return value is None
        case "asInt", [value]:
            return int(value)
        case "asFloat", [value]:
            return float(value)
        case "default", [value, other]:
            is_nothing = value is None or value == [] or (isinstance(value, float) and math.isnan(value))
            return other if is_nothing else value
    raise ConditionError(f"unknown name {name}")
