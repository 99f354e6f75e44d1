"""Expressions to programs: compiled once per environment, checked for the type they must give.

What cannot be compiled is an `Error` with cel-go's words, so that it can be shown and stored like any verdict.

Source: apiserver pkg/admission/plugin/cel/compile.go (v1.36).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any, NamedTuple

from fairway.admission.cel import authorizing
from fairway.kube.cel.brackets import closing
from fairway.kube.cel.functions import addresses, formats, lists, quantities, strings
from fairway.kube.cel.functions.overloads import Overload
from fairway.kube.cel.wording import compile_words

MAX_PROGRAMS = 8192
MAX_EXPRESSION = 16 * 1024
"""Characters of one expression (own limit: upstream's objects are bounded as a whole)."""

BOOL, STRING, ANY = "bool", "string", "any"

# (variable, type): what an expression may name. Sorted by the caller's choice; part of the cache key.
Variables = tuple[tuple[str, str], ...]


class Error(NamedTuple):
    """`kind` is `compile`, `runtime` or `budget`."""

    text: str
    kind: str


class Program(NamedTuple):
    """`result` is the type it gives; `loops` how deep its comprehensions nest; `uses` the names it may need."""

    expression: str
    result: str
    loops: int
    uses: tuple[str, ...]
    compiled: Any


def compiled(expression: str, variables: Variables, wanted: tuple[str, ...] = (ANY,)) -> Program | Error:
    """The program of an expression that must give one of the `wanted` types."""
    program = _compiled(expression, variables)
    if isinstance(program, Error) or ANY in wanted or program.result in wanted:
        return program
    if len(wanted) == 1:
        return Error(f"must evaluate to {wanted[0]} but got {program.result}", "compile")
    return Error(f"must evaluate to one of [{' '.join(wanted)}] but got {program.result}", "compile")


@lru_cache(MAX_PROGRAMS)
def _compiled(expression: str, variables: Variables) -> Program | Error:
    if len(expression) > MAX_EXPRESSION:
        return Error(f"compilation failed: expression is longer than {MAX_EXPRESSION} characters", "compile")
    environment = _environment(variables)
    try:
        program = environment.compile(_with_optional_formats(expression))
    except RuntimeError as refused:
        return Error(f"compilation failed: {_as_cel_go_says(str(refused))}", "compile")
    uses = tuple(name for name, _ in variables if name in expression)
    return Program(expression, _type_name(program.return_type().name()), loops_of(expression), uses, program)


@cache
def _environment(variables: Variables) -> Any:
    """An interpreter environment with Kubernetes' libraries. 2 ms; one per set of variables."""
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional

    return cel.NewEnv(
        variables={name: _declared(type_name) for name, type_name in variables},
        extensions=[ext_optional.ExtOptional(), ext_bindings.ExtBindings()],
        functions=list(_functions()),
    )


@cache
def _functions() -> tuple[Any, ...]:
    from cel_expr_python import cel

    by_name: dict[str, list[Overload]] = {}
    for library in (strings, lists, quantities, addresses, formats, authorizing):
        for overload in library.OVERLOADS:
            by_name.setdefault(overload.name, []).append(overload)
    return tuple(
        cel.FunctionDecl(name, [_overload(o, i) for i, o in enumerate(overloads)])
        for name, overloads in by_name.items()
    )


def _overload(o: Overload, index: int) -> Any:
    from cel_expr_python import cel

    identity = f"{o.name.replace('.', '_')}_{index}"
    parameters = [_declared(p) for p in o.parameters]
    return cel.Overload(identity, _declared(o.result), parameters, o.is_member, impl=o.call)


def _declared(name: str) -> Any:
    from cel_expr_python import cel

    if name == "list<string>":
        return cel.Type.List(cel.Type.STRING)
    if name == ANY:
        return cel.Type("google.protobuf.Any")
    simple = {
        "list(string)": cel.Type.List(cel.Type.STRING),
        "timestamp": cel.Type.TIMESTAMP,
        "google.protobuf.Timestamp": cel.Type.TIMESTAMP,
        "google.protobuf.Duration": cel.Type.DURATION,
    }
    if name in simple:
        return simple[name]
    return getattr(cel.Type, name.upper(), cel.Type.DYN)


# C++ writes types as LIST<STRING>; cel-go as list(string).
def _type_name(name: str) -> str:
    lowered = name.lower().replace("<", "(").replace(">", ")")
    own = {
        "timestamp": "google.protobuf.Timestamp",
        "duration": "google.protobuf.Duration",
        "null": "null_type",
    }
    return own.get(lowered, lowered)


_VARIABLE = re.compile(r"undeclared reference to 'variables\.(\w+)' \(in container ''\)")


def _as_cel_go_says(text: str) -> str:
    return compile_words(_VARIABLE.sub(r"undefined field '\1'", text))


_FORMAT_CALL = re.compile(r"format\.\w+\(\)\.validate\(")


def _with_optional_formats(expression: str) -> str:
    """`format.x().validate(y)` gives an optional in Kubernetes: none where nothing is wrong."""
    found = _FORMAT_CALL.search(expression)
    if found is None:
        return expression
    end = closing(expression, found.end() - 1)
    if end < 0:
        return expression
    call, rest = expression[found.start() : end + 1], expression[end + 1 :]
    return f"{expression[: found.start()]}optional.ofNonZeroValue({call}){_with_optional_formats(rest)}"


_MACRO = re.compile(r"\.(?:all|exists|exists_one|map|filter)\(")


def loops_of(expression: str) -> int:
    """How deep comprehensions nest: `a.all(x, b.exists(y, …))` is 2."""
    deepest = 0
    for found in _MACRO.finditer(expression):
        end = closing(expression, found.end() - 1)
        inner = expression[found.end() : end if end >= 0 else None]
        deepest = max(deepest, 1 + loops_of(inner))
    return deepest
