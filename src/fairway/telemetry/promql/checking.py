"""Do the parts of a query fit together? Types of operands and arguments, and what selectors must have.

Source: promql/parser/parse.go checkAST, functions.go (Prometheus 3.14).
"""

from __future__ import annotations

from typing import Final

from fairway.kube.goregexp import RegexpError
from fairway.kube.problem import quoted
from fairway.telemetry.promql.lexing import Refusal
from fairway.telemetry.promql.nodes import COMPARISONS, MATRIX, SCALAR, SET_OPERATORS, STRING, VECTOR
from fairway.telemetry.promql.signatures import FUNCTIONS
from fairway.telemetry.promql.syntax import Part
from fairway.telemetry.store import Matcher, anchored

_DOCUMENTED: Final = {MATRIX: "range vector", VECTOR: "instant vector", SCALAR: SCALAR, STRING: STRING}
_KINDS: Final = {"v": VECTOR, "m": MATRIX, "s": SCALAR, "t": STRING}


def type_of(part: Part) -> str:
    match part.kind:
        case "number":
            return SCALAR
        case "string":
            return STRING
        case "range" | "subquery":
            return MATRIX
        case "paren" | "unary":
            return type_of(part.parts[0])
        case "binary":
            return SCALAR if all(type_of(p) == SCALAR for p in part.parts) else VECTOR
        case "call":
            return FUNCTIONS[part.name].returns
        case _:
            return VECTOR


def check(part: Part) -> str:
    """Its type. Raises: Refusal for the first part that does not fit, as deep as it stands."""
    match part.kind:
        case "aggregation":
            _expect(part.parts[-1], VECTOR, "aggregation expression")
            if len(part.parts) == 2:
                wanted = STRING if part.name == "count_values" else SCALAR
                _expect(part.parts[0], wanted, "aggregation parameter")
        case "binary":
            _check_binary(part)
        case "call":
            _check_call(part)
        case "unary":
            if (kind := check(part.parts[0])) not in (SCALAR, VECTOR):
                only = "unary expression only allowed on expressions of type scalar or instant vector"
                raise Refusal(part.start, f"{only}, got {quoted(_DOCUMENTED[kind])}")
        case "subquery":
            if (kind := check(part.parts[0])) != VECTOR:
                raise Refusal(part.start, f"subquery is only allowed on instant vector, got {kind} instead")
        case "selector":
            _check_selector(part)
        case _:
            for inner in part.parts:
                check(inner)
    return type_of(part)


def _expect(part: Part, wanted: str, context: str) -> None:
    if (kind := check(part)) != wanted:
        said = f"expected type {_DOCUMENTED[wanted]} in {context}, got {_DOCUMENTED[kind]}"
        raise Refusal(part.start, said)


def _check_binary(part: Part) -> None:
    left, right = part.parts
    kinds = check(left), check(right)
    at, op = part.operator, part.name
    if "bool" in part.modifiers and op not in COMPARISONS:
        raise Refusal(at, "bool modifier can only be used on comparison operators")
    if op in COMPARISONS and "bool" not in part.modifiers and kinds == (SCALAR, SCALAR):
        raise Refusal(at, "comparisons between scalars must use BOOL modifier")
    for label in part.matching:
        if "on" in part.modifiers and label in part.include:
            raise Refusal(at, f"label {quoted(label)} must not occur in ON and GROUP clause at once")
    for side, kind in zip(part.parts, kinds, strict=True):
        if kind not in (SCALAR, VECTOR):
            said = "binary expression must contain only scalar and instant vector types"
            raise Refusal(side.start, said)
    is_set = op in SET_OPERATORS
    if kinds != (VECTOR, VECTOR):
        if part.matching:
            raise Refusal(part.start, "vector matching only allowed between instant vectors")
        if "fill" in part.modifiers:
            raise Refusal(part.start, "filling in missing series only allowed between instant vectors")
        if is_set:
            raise Refusal(part.start, f"set operator {quoted(op)} not allowed in binary scalar expression")
    elif is_set and part.modifiers & {"group_left", "group_right"}:
        raise Refusal(part.start, f"no grouping allowed for {quoted(op)} operation")
    elif is_set and "fill" in part.modifiers:
        raise Refusal(part.start, "filling in missing series not allowed for set operators")


def _check_call(part: Part) -> None:
    function, given = FUNCTIONS[part.name], part.parts
    wanted, name = len(function.arguments), quoted(part.name)
    if not function.more and wanted != len(given):
        raise Refusal(part.start, f"expected {wanted} argument(s) in call to {name}, got {len(given)}")
    least = wanted - 1
    if function.more and least > len(given):
        raise Refusal(
            part.start, f"expected at least {least} argument(s) in call to {name}, got {len(given)}"
        )
    if function.more > 0 and (most := least + function.more) < len(given):
        raise Refusal(part.start, f"expected at most {most} argument(s) in call to {name}, got {len(given)}")
    for at, argument in enumerate(given):
        if part.name == "info" and at and argument.kind == "selector" and not argument.name:
            # Its matchers choose labels, not series: they may all be empty.
            continue
        kind = _KINDS[function.arguments[min(at, wanted - 1)]]
        _expect(argument, kind, f"call to function {name}")


def _check_selector(part: Part) -> None:
    if part.name:
        for matcher in part.matchers:
            if matcher.name == "__name__":
                both = f"{quoted(part.name)} or {quoted(matcher.value)}"
                raise Refusal(part.start, f"metric name must not be set twice: {both}")
    elif not any(_is_nonempty(matcher) for matcher in part.matchers):
        raise Refusal(part.start, "vector selector must contain at least one non-empty matcher")


def _is_nonempty(matcher: Matcher) -> bool:
    """Whether an empty text does not match."""
    if matcher.op in ("=", "!="):
        return (matcher.op == "=") == bool(matcher.value)
    try:
        is_match = anchored(matcher.value).search("") is not None
    except RegexpError:
        return True
    return is_match == (matcher.op == "!~")
