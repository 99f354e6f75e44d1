"""How a function is declared: name, whether it is called on a receiver, parameters, result, and what does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

# Types by name, so that declaring them needs no interpreter. `any` takes whatever there is.
STRING, INT, BOOL, DOUBLE, BYTES = "string", "int", "bool", "double", "bytes"
LIST, MAP, ANY, DYN = "list", "map", "any", "dyn"
STRINGS = "list<string>"


class Overload(NamedTuple):
    """A member function's first parameter is its receiver."""

    name: str
    is_member: bool
    parameters: tuple[str, ...]
    result: str
    call: Callable[..., Any]


class FunctionError(ValueError):
    """A function refuses its arguments; the text is the CEL error."""


def member(name: str, parameters: tuple[str, ...], result: str, call: Callable[..., Any]) -> Overload:
    return Overload(name, True, parameters, result, call)


def plain(name: str, parameters: tuple[str, ...], result: str, call: Callable[..., Any]) -> Overload:
    return Overload(name, False, parameters, result, call)


def tagged(value: Any, tag: str) -> Any:
    """What a map that stands for a foreign value carries; an error where it stands for something else."""
    if isinstance(value, dict) and tag in value:
        return value[tag]
    raise FunctionError("no such overload")
