"""Checked trees to closures, and what they give on plain values.

Logic absorbs errors as cel-go's does: `a || b` is true where either is, whatever the other says. A loop keeps an error
in its accumulator, so that a later element may still decide. Work is bounded by the number of steps.

Source: cel-go interpreter/interpretable.go (v0.26).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from fairway.kube.cel.functions import addresses, formats, lists, quantities, strings
from fairway.kube.cel.functions.overloads import ANY, DYN, Overload
from fairway.kube.cel.operators import FUNCTIONS, NO_OVERLOAD, CelError, Optional, find, get, kind_of, type_of
from fairway.kube.cel.tree import CALL, CONST, IDENT, LIST, LOOP, MAP, SELECT, Node

Names = dict[str, Any]
Run = Callable[[Names], Any]

MAX_STEPS: Final = 1_000_000
_STEPS: Final = "@steps"


def closure(node: Node) -> Run:
    """A function from the values of names to the value of the expression. It raises `CelError`."""
    return _MAKERS[node.kind](node)


def _const(node: Node) -> Run:
    value = node.value
    return lambda names: value


def _ident(node: Node) -> Run:
    name = node.value

    def run(names: Names) -> Any:
        value = names[name]
        if value.__class__ is CelError:
            raise value
        return value

    return run


def _select(node: Node) -> Run:
    operand, name = closure(node.args[0]), node.value
    if node.is_test:
        return lambda names: find(operand(names), name)[1]
    return lambda names: get(operand(names), name)


def _list(node: Node) -> Run:
    items, optional = [closure(a) for a in node.args], node.optional
    if not optional:
        return lambda names: [item(names) for item in items]

    def run(names: Names) -> list[Any]:
        made = []
        for index, item in enumerate(items):
            value = item(names)
            if index not in optional:
                made.append(value)
            elif value.is_there:
                made.append(value.value)
        return made

    return run


def _map(node: Node) -> Run:
    parts, optional = [closure(a) for a in node.args], node.optional

    def run(names: Names) -> dict[Any, Any]:
        made = {}
        for index in range(0, len(parts), 2):
            key, value = parts[index](names), parts[index + 1](names)
            if index // 2 not in optional:
                made[key] = value
            elif value.is_there:
                made[key] = value.value
        return made

    return run


# Calls


def _call(node: Node) -> Run:
    special = _LAZY.get(node.value)
    if special is not None:
        return special([closure(a) for a in node.args])
    args = [closure(a) for a in ((node.target, *node.args) if node.target is not None else node.args)]
    name = node.value
    candidates = _libraries().get((name, node.target is not None, len(args)), ())
    own = FUNCTIONS.get(name)
    if not candidates and own is not None:
        if len(args) == 2:
            first, second = args
            return lambda names: own(first(names), second(names))
        return lambda names: own(*[arg(names) for arg in args])

    def run(names: Names) -> Any:
        values = [arg(names) for arg in args]
        for overload in candidates:
            if all(map(_takes, overload.parameters, values)):
                return _called(overload, values)
        if own is not None:
            return own(*values)
        raise CelError(f"{NO_OVERLOAD}: {name}({', '.join(map(type_of, values))})")

    return run


def _called(overload: Overload, values: Sequence[Any]) -> Any:
    try:
        found = overload.call(*values)
    except ValueError as refused:
        raise CelError(str(refused)) from refused
    # `format.x().validate(y)` gives an optional in Kubernetes: none where nothing is wrong.
    return Optional(found, bool(found)) if overload.name == "validate" else found


def _takes(declared: str, value: Any) -> bool:
    if declared in (ANY, DYN):
        return True
    kind = kind_of(value)
    return kind == declared or (declared.startswith("list") and kind == "list")


@cache
def _libraries() -> dict[tuple[str, bool, int], tuple[Overload, ...]]:
    found: dict[tuple[str, bool, int], tuple[Overload, ...]] = {}
    for library in (strings, lists, quantities, addresses, formats):
        for overload in library.OVERLOADS:
            key = (overload.name, overload.is_member, len(overload.parameters))
            found[key] = (*found.get(key, ()), overload)
    return found


def _logic(args: Sequence[Run], decides: bool) -> Run:
    first, second = args

    def run(names: Names) -> Any:
        try:
            if _truth(first(names)) is decides:
                return decides
        except CelError as refused:
            if _kept(second, names) is decides:
                return decides
            raise refused
        return _truth(second(names))

    return run


def _truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise CelError(NO_OVERLOAD)


def _conditional(args: Sequence[Run]) -> Run:
    test, yes, no = args
    return lambda names: yes(names) if _truth(test(names)) else no(names)


def _not(args: Sequence[Run]) -> Run:
    return lambda names: not _truth(args[0](names))


def _not_strictly_false(args: Sequence[Run]) -> Run:
    def run(names: Names) -> bool:
        try:
            value: Any = args[0](names)
            return value is not False
        except CelError:
            return True

    return run


_LAZY: Final[dict[str, Callable[[Sequence[Run]], Run]]] = {
    "_&&_": lambda args: _logic(args, False),
    "_||_": lambda args: _logic(args, True),
    "_?_:_": _conditional,
    "!_": _not,
    "@not_strictly_false": _not_strictly_false,
}


# Loops


def _loop(node: Node) -> Run:
    over, initial, condition, step, result = map(closure, node.args)
    item_name, sum_name = node.names

    def run(names: Names) -> Any:
        elements = over(names)
        if isinstance(elements, Optional) or not isinstance(elements, list | dict):
            raise CelError(NO_OVERLOAD)
        inner = dict(names)
        steps = names.setdefault(_STEPS, [0])
        inner[_STEPS] = steps
        inner[sum_name] = _kept(initial, names)
        for element in list(elements):
            steps[0] += 1
            if steps[0] > MAX_STEPS:
                raise CelError("operation cancelled: actual cost limit exceeded")
            inner[item_name] = element
            if not condition(inner):
                break
            inner[sum_name] = _kept(step, inner)
        return result(inner)

    return run


def _kept(run: Run, names: Names) -> Any:
    try:
        return run(names)
    except CelError as refused:
        return refused


_MAKERS: Final[dict[str, Callable[[Node], Run]]] = {
    CONST: _const,
    IDENT: _ident,
    SELECT: _select,
    CALL: _call,
    LIST: _list,
    MAP: _map,
    LOOP: _loop,
}
