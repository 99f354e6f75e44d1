"""Expressions that select devices: compiled once, with their worst cost, and asked of one device at a time.

The variable `device` has `driver`, `attributes` and `capacity` (by domain, then by name) and
`allowMultipleAllocations`. A domain that a device does not have is an empty map.

Source: k8s.io/dynamic-resource-allocation/cel/compile.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from fairway.kube import goregexp, quantity
from fairway.kube.cel.costs import Path, worst_cost
from fairway.kube.cel.functions import addresses, formats, lists, quantities, strings
from fairway.kube.cel.functions.overloads import Overload
from fairway.kube.cel.functions.quantities import QUANTITY, SEMVER
from fairway.kube.cel.interpreting import Run, closure
from fairway.kube.cel.operators import CelError, Defaulted, kind_of
from fairway.kube.cel.tree import CALL, CONST, IDENT, LIST, SELECT, Node, read_tree
from fairway.kube.cel.twovars import with_one_variable
from fairway.kube.cel.wording import compile_words, located
from fairway.kube.objects import Obj

MAX_LENGTH: Final = 10 * 1024
"""Bytes of one expression. Source: api/resource/v1 CELSelectorExpressionMaxLength."""
MAX_COST: Final = 1_000_000
"""Source: api/resource/v1 CELSelectorExpressionMaxCost."""
_MAX_PROGRAMS: Final = 4096

_MEMBERS: Final = {"driver": 63, "attributes": 32, "capacity": 32, "allowMultipleAllocations": 1}
"""What `device` has, and the most members of each."""
_MAX_NAME, _MAX_VALUE, _MAX_DOMAIN = 32, 64, 63


class Selector(NamedTuple):
    """A compiled expression. `error`: why it cannot be used (cel-go's words), else empty."""

    error: str
    cost: int
    run: Run | None


@lru_cache(_MAX_PROGRAMS)
def selector(expression: str) -> Selector:
    """What an expression is good for."""
    try:
        tree = _checked(expression)
    except RuntimeError as refused:
        return Selector(f"compilation failed: {compile_words(str(refused))}", 0, None)
    wrong = [_located(offset, text, expression) for offset, text in _complaints(tree)]
    if wrong:
        return Selector("compilation failed: " + "\n".join(wrong), 0, None)
    if tree.type.name not in ("bool", "any"):
        return Selector(f"must evaluate to bool or the unknown type, not {tree.type}", 0, None)
    return Selector("", worst_cost(tree, _most_members), closure(tree))


def is_match(program: Selector, driver: str, device: Obj) -> bool:
    """Whether the expression holds for a device.

    Raises: CelError, with cel-go's words.
    """
    assert program.run is not None
    found = program.run(_names(driver, device))
    if not isinstance(found, bool):
        raise CelError(
            f"CEL result of type {kind_of(found)} could not be converted to bool: {_unconverted(found)}"
        )
    return found


def _unconverted(value: Any) -> str:
    kind = kind_of(value)
    if kind == "string":
        return "unsupported native conversion from string to 'bool'"
    if kind in ("list", "map"):
        return f"type conversion error from {kind} to 'bool'"
    return f"unsupported type conversion from '{kind}' to bool"


def _names(driver: str, device: Obj) -> dict[str, Any]:
    attributes: dict[str, dict[str, Any]] = {}
    for name, value in (device.get("attributes") or {}).items():
        domain, own = qualified(name, driver)
        attributes.setdefault(domain, {})[own] = _attribute(name, value)
    capacity: dict[str, dict[str, Any]] = {}
    for name, value in (device.get("capacity") or {}).items():
        domain, own = qualified(name, driver)
        capacity.setdefault(domain, {})[own] = {QUANTITY: str(quantity.of(value["value"]))}
    shared = bool(device.get("allowMultipleAllocations"))
    members = {
        "driver": driver,
        "attributes": Defaulted(attributes),
        "capacity": Defaulted(capacity),
        "allowMultipleAllocations": shared,
    }
    return {"device": members, **{f"device.{name}": value for name, value in members.items()}}


def qualified(name: str, driver: str) -> tuple[str, str]:
    """Domain and name: a bare name is of the driver's domain."""
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)


def _attribute(name: str, value: Obj) -> Any:
    for member in ("int", "bool", "string"):
        if value.get(member) is not None:
            return value[member]
    if value.get("version") is not None:
        return {SEMVER: str(value["version"]).partition("+")[0]}
    raise CelError(f"attribute {name}: unsupported attribute value")


# Compiling


def _checked(expression: str) -> Node:
    """The checked tree. Macros of two variables are tried over maps, then over lists.

    Raises: RuntimeError, as the interpreter words it.
    """
    environment = _environment()
    rewritten = with_one_variable(expression)
    try:
        return read_tree(environment.compile(rewritten).serialize())
    except RuntimeError:
        if rewritten == expression:
            raise
    return read_tree(environment.compile(with_one_variable(expression, over_lists=True)).serialize())


@cache
def _environment() -> Any:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional

    def of(text: str) -> Any:
        if text in ("any", "list<string>"):
            return cel.Type("google.protobuf.Any") if text == "any" else cel.Type.List(cel.Type.STRING)
        if text == "optional":
            return cel.Type.AbstractType("optional_type", [cel.Type.List(cel.Type.STRING)])
        if "." in text:
            return cel.Type.AbstractType(text)
        return getattr(cel.Type, text.upper(), cel.Type.DYN)

    by_name: dict[str, list[Any]] = {}
    for library, overload in _overloads():
        known = by_name.setdefault(overload.name, [])
        for parameters, result in _typed(library, overload):
            identity = f"{overload.name.replace('.', '_')}_{len(known)}"
            # Nothing runs in the interpreter: only its checker is asked.
            known.append(cel.Overload(identity, of(result), [of(p) for p in parameters], overload.is_member))
    text, nested = cel.Type.STRING, cel.Type.Map
    return cel.NewEnv(
        variables={
            "device": nested(text, cel.Type.DYN),
            "device.driver": text,
            "device.attributes": nested(text, nested(text, of("any"))),
            "device.capacity": nested(text, nested(text, of(QUANTITY))),
            "device.allowMultipleAllocations": cel.Type.BOOL,
        },
        extensions=[ext_optional.ExtOptional(), ext_bindings.ExtBindings()],
        functions=[cel.FunctionDecl(name, overloads) for name, overloads in by_name.items()],
    )


def _overloads() -> Iterator[tuple[str, Overload]]:
    for name, library in (
        ("strings", strings),
        ("lists", lists),
        ("quantities", quantities),
        ("addresses", addresses),
        ("formats", formats),
    ):
        for overload in library.OVERLOADS:
            yield name, overload


# A value that travels as a map has a type of its own here: by library, what makes one and what takes one.
_VERSION_MEMBERS: Final = ("major", "minor", "patch")
_COMPARED: Final = ("compareTo", "isLessThan", "isGreaterThan")


def _typed(library: str, overload: Overload) -> Iterator[tuple[tuple[str, ...], str]]:
    """The types of an overload, with opaque ones by name instead of `map`."""
    for name in _opaque_of(library, overload):

        def swap(kind: str, to: str = name) -> str:
            return to if kind == "map" else kind

        result = "map" if overload.name == "getQuery" else overload.result
        made = "net.IP" if overload.name == "ip" else ("net.CIDR" if overload.name == "masked" else name)
        parameters = [swap(p) for p in overload.parameters]
        if overload.name == "containsIP" and overload.parameters[1] == "map":
            parameters[1] = "net.IP"
        if overload.name == "validate":
            result = "optional"
        yield tuple(parameters), swap(result, made) if overload.name != "getQuery" else result


def _opaque_of(library: str, overload: Overload) -> tuple[str, ...]:
    name = overload.name
    if library == "quantities":
        if name in _COMPARED:
            return (QUANTITY, SEMVER)
        return (SEMVER,) if name in _VERSION_MEMBERS or "emver" in name else (QUANTITY,)
    if library == "formats":
        return ("kubernetes.NamedFormat",)
    if library != "addresses":
        return ("map",)
    if name.startswith(("get", "url", "isURL")):
        return ("kubernetes.URL",)
    if name in ("cidr", "containsIP", "containsCIDR", "masked", "prefixLength") or (
        name == "ip" and overload.is_member
    ):
        return ("net.CIDR",)
    return ("net.IP",)


# What the checker does not say


def _complaints(node: Node) -> Iterator[tuple[int, str]]:
    """Members `device` does not have (to the checker it is a map), and what cel-go's validators find in literals."""
    is_member = node.kind == SELECT and node.args[0].kind == IDENT and node.args[0].value == "device"
    if is_member and node.value not in _MEMBERS:
        yield node.offset, f"undefined field '{node.value}'"
    if node.kind == CALL and node.value == "matches" and node.args[0].kind == CONST:
        try:
            goregexp.compiled(node.args[0].value)
        except goregexp.RegexpError:
            yield node.args[0].offset, "invalid matches argument"
    for part in (*((node.target,) if node.target is not None else ()), *node.args):
        yield from _complaints(part)
    if node.kind == LIST and node.args:
        first = node.args[0].type
        for item in node.args[1:]:
            if first.name in _PLAIN and item.type.name in _PLAIN and item.type != first:
                yield item.offset, f"expected type '{first}' but found '{item.type}'"


_PLAIN: Final = frozenset(("bool", "bytes", "double", "int", "string", "uint"))


def _located(offset: int, text: str, expression: str) -> str:
    at = min(offset, len(expression))
    start = expression.rfind("\n", 0, at) + 1
    source = expression[start:].partition("\n")[0]
    return located(expression.count("\n", 0, at) + 1, at - start + 1, text, source)


def _most_members(path: Path) -> int | None:
    """Source: compile.go sizeEstimator."""
    if path[0] != "device":
        return None
    if len(path) == 1:
        return 0
    member = path[1]
    if member not in _MEMBERS:
        return None
    if member not in ("attributes", "capacity"):
        return _MEMBERS[member] if len(path) == 2 else None
    most = (32, 32, _MAX_VALUE if member == "attributes" else 0)
    depth = 0
    for part in path[2:]:
        if part == "@keys":
            return _MAX_DOMAIN if depth == 0 else _MAX_NAME
        if part not in ("@values", "@items") and not (depth == 1 and member == "attributes"):
            return None
        depth += 1
        if depth > 2:
            return None
    return most[depth]
