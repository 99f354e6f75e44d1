"""The worst an expression may cost, before it ever runs: cel-go's estimate, in its units.

A cost is counted up from sizes: what the text says (constants, literals), what the declared types bound (`sizes`), and
without either, anything. Only the upper end matters to Kubernetes; the lower one is kept where it changes an upper one.

Source: cel-go checker/cost.go (v0.26), apiserver pkg/cel/library/cost.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Final, NamedTuple

from fairway.kube.cel.tree import CALL, CONST, IDENT, LIST, MAP, SELECT, Node, Type

MOST: Final = 2**64 - 1
_LIST_COST, _MAP_COST = 10, 30
_PER_CHARACTER: Final = 0.1
_PER_PATTERN_CHARACTER: Final = 0.25
# The longest of the named formats' patterns. Source: apiserver pkg/cel MaxNameFormatRegexSize.
_FORMAT_PATTERN: Final = 128
_ACCUMULATORS: Final = ("@result", "__result__")
_SCALARS: Final = frozenset(
    ("bool", "double", "google.protobuf.Duration", "int", "google.protobuf.Timestamp", "uint")
)

Path = tuple[str, ...]
Sizes = Callable[[Path], int | None]
"""The most members a variable's part has, by its path (`device`, `attributes`, `@values`); None: unknown."""


class Range(NamedTuple):
    """From and to; both stop at the largest unsigned integer."""

    low: int
    high: int

    def plus(self, other: Range) -> Range:
        return Range(min(self.low + other.low, MOST), min(self.high + other.high, MOST))

    def times(self, other: Range) -> Range:
        return Range(min(self.low * other.low, MOST), min(self.high * other.high, MOST))

    def scaled(self, factor: float) -> Range:
        return Range(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def _scaled(value: int, factor: float) -> int:
    return min(ceil(float(value) * factor), MOST) if value < MOST else _most_scaled(factor)


def _most_scaled(factor: float) -> int:
    return MOST if factor >= 1 else ceil(float(MOST) * factor)


ZERO, ONE, UNKNOWN = Range(0, 0), Range(1, 1), Range(0, MOST)


class _Held(NamedTuple):
    """Sizes of what a list or map holds."""

    is_list: bool
    key: Range
    value: Range


class _Local(NamedTuple):
    path: Path
    size: Range | None
    held: _Held | None


class _Call(NamedTuple):
    cost: Range
    result: Range | None = None


def worst_cost(tree: Node, sizes: Sizes) -> int:
    return _Coster(sizes).cost(tree).high


@dataclass(slots=True)
class _Coster:
    sizes: Sizes
    paths: dict[int, Path] = field(default_factory=dict)
    computed: dict[int, Range] = field(default_factory=dict)
    holds: dict[int, _Held] = field(default_factory=dict)
    locals: dict[str, list[_Local]] = field(default_factory=dict)

    def cost(self, node: Node) -> Range:
        kind = node.kind
        if kind == CONST:
            return ZERO
        if kind == IDENT:
            local = self._local(node.value)
            self.paths[node.id] = local.path if local is not None else tuple(node.value.split("."))
            # A qualified variable is a select upstream: one unit for each part.
            return Range(1 + node.value.count("."), 1 + node.value.count("."))
        if kind == SELECT:
            return self._select(node)
        if kind == CALL:
            return self._call(node)
        if kind in (LIST, MAP):
            return self._literal(node)
        return self._bind(node) if _is_bind(node) else self._loop(node)

    def _select(self, node: Node) -> Range:
        operand = node.args[0]
        if node.is_test:
            # Kubernetes lets presence be asked for nothing.
            return self.cost(operand)
        total = self.cost(operand)
        self.paths[node.id] = (*self._path(operand), node.value)
        return total.plus(ONE) if operand.type.name == "map" else total

    def _literal(self, node: Node) -> Range:
        total = Range(_LIST_COST, _LIST_COST) if node.kind == LIST else Range(_MAP_COST, _MAP_COST)
        keys, values = Range(MOST, 0), Range(MOST, 0)
        for index, part in enumerate(node.args):
            total = total.plus(self.cost(part))
            size = self._size_or_unknown(part)
            if node.kind == MAP and index % 2 == 0:
                keys = keys.union(size)
            else:
                values = values.union(size)
        if not node.args:
            keys = values = ZERO
        self.holds[node.id] = _Held(node.kind == LIST, ONE if node.kind == LIST else keys, values)
        return total

    # Loops

    def _bind(self, node: Node) -> Range:
        over, initial, _, _, result = node.args
        total = self.cost(over).plus(self.cost(initial))
        self._push(node.names[1], _Local(self._path(initial), self._size(initial), self._holding(initial)))
        total = total.plus(self.cost(result))
        self.locals[node.names[1]].pop()
        self._copy(node, result)
        return total

    def _loop(self, node: Node) -> Range:
        over, initial, condition, step, result = node.args
        item, accumulator = node.names
        total = self.cost(over).plus(self.cost(initial))
        self._push(accumulator, _Local(self._path(initial), self._size(initial), self._holding(initial)))
        self._push(item, self._element(over))
        each = self.cost(condition).plus(self.cost(step))
        self.locals[item].pop()
        total = total.plus(self.cost(result))
        self.locals[accumulator].pop()
        count = self._size_or_unknown(over)
        if initial.kind == CONST:
            self.computed[node.id] = self._size_or_unknown(initial)
        elif initial.kind in (LIST, MAP):
            self.computed[node.id] = count
            held = self._holding(step)
            if held is not None:
                self.holds[node.id] = held
        return total.plus(count.times(each))

    def _element(self, over: Node) -> _Local:
        held = self._holding(over)
        is_list = held.is_list if held is not None else over.type.name == "list"
        size = None if held is None else (held.value if is_list else held.key)
        return _Local((*self._path(over), "@items" if is_list else "@keys"), size, None)

    def _push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def _local(self, name: str) -> _Local | None:
        stack = self.locals.get(name)
        return stack[-1] if stack else None

    # Calls

    def _call(self, node: Node) -> Range:
        if node.value == "dyn":
            total = ONE.plus(self.cost(node.args[0]))
            self._copy(node, node.args[0])
            return total
        costs = [self.cost(a) for a in node.args]
        target_cost = self.cost(node.target) if node.target is not None else ZERO
        worst, result = Range(MOST, 0), None
        for overload in node.overloads or ("",):
            found = self._function(node, overload, costs)
            worst = worst.union(found.cost)
            if found.result is not None:
                result = found.result if result is None else result.union(found.result)
        if node.value == "_[_]":
            is_list = node.args[0].type.name == "list"
            held = self._holding(node.args[0])
            result = held.value if held is not None else None
            self.paths[node.id] = (*self._path(node.args[0]), "@items" if is_list else "@values")
        if result is None:
            result = self._size(node)
        if result is not None:
            self.computed[node.id] = result
        return target_cost.plus(worst)

    def _function(self, node: Node, overload: str, costs: list[Range]) -> _Call:
        known = self._library(node)
        if known is None:
            known = self._builtin(node, overload, costs)
            if known is not None and overload in ("logical_or", "logical_and", "conditional"):
                return known
        cost = ONE if known is None else known.cost
        for each in costs:
            cost = cost.plus(each)
        return _Call(cost, None if known is None else known.result)

    def _library(self, node: Node) -> _Call | None:
        name, target, args = node.value, node.target, node.args
        size = self._estimated
        if name in _NOMINAL or (name == "ip" and target is not None):
            return _Call(ONE)
        if name in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf") and target is not None:
            element = target.type.of[0] if target.type.of else None
            if element is None:
                return _Call(size(target).scaled(_PER_CHARACTER))
            each = ONE
            if element.name in ("string", "bytes"):
                most = self.sizes((*self._path(target), "@items")) if self._path(target) else None
                each = each.plus((UNKNOWN if most is None else Range(0, most)).scaled(_PER_CHARACTER))
            return _Call(size(target).times(each))
        if name in ("url", "lowerAscii", "upperAscii", "substring", "trim"):
            of = target if target is not None else args[0]
            return _Call(size(of).scaled(_PER_CHARACTER), size(of))
        if name == "replace" and target is not None and len(args) >= 2:
            longest = _replaced(size(target), size(args[0]), size(args[1]))
            return _Call(size(target).scaled(2 * _PER_CHARACTER), longest)
        if name == "split" and target is not None:
            most = size(target).high
            if len(args) > 1 and isinstance(args[1].value, int):
                most = args[1].value % (MOST + 1)
            return _Call(size(target).scaled(2 * _PER_CHARACTER), Range(0, most))
        if name == "join" and target is not None:
            return self._join(target, args)
        if name in ("find", "findAll") and target is not None and args:
            characters = size(target).plus(ONE).scaled(_PER_CHARACTER)
            pattern = size(args[0]).scaled(_PER_PATTERN_CHARACTER)
            return _Call(characters.times(pattern), Range(0, size(target).high))
        if name in ("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver") and args:
            return _Call(size(args[0]).scaled(_PER_CHARACTER))
        if name == "ip.isCanonical" and args:
            return _Call(size(args[0]).scaled(2 * _PER_CHARACTER))
        if name in ("containsIP", "containsCIDR") and args:
            return _Call(self._contained(name, args[0]))
        if name == "validate" and args:
            pattern_cost = _FORMAT_PATTERN * _PER_PATTERN_CHARACTER
            return _Call(size(args[0]).scaled(_PER_CHARACTER).scaled(pattern_cost))
        if name in _LIST_COSTS or name.startswith("sets."):
            return self._of_lists(name, target, args)
        if name == "_==_" and args[0].type == args[1].type and args[0].type.name in _CHEAPLY_EQUAL:
            return _Call(ONE)
        return None

    def _of_lists(self, name: str, target: Node | None, args: tuple[Node, ...]) -> _Call | None:
        """Source: cel-go ext/sets.go, ext/lists.go."""
        if name.startswith("sets."):
            pairs = self._estimated(args[0]).times(self._estimated(args[1]))
            factor = Range(2, 2) if name == "sets.equivalent" else ONE
            return _Call(pairs.times(factor).plus(ONE))
        if name == "lists.range":
            size = self._counted(args[0])
        elif target is None:
            return None
        else:
            size = self._estimated(target)
        each = _LIST_COSTS[name](size)
        return _Call(each.plus(Range(_LIST_COST + 1, _LIST_COST + 1)), size)

    def _counted(self, node: Node) -> Range:
        """How many `lists.range(n)` makes, where `n` is a number, or the size of something."""
        if node.kind == CONST and isinstance(node.value, int):
            return Range(max(node.value, 0), max(node.value, 0))
        if node.kind == CALL and node.value == "size":
            return self._estimated(node.target if node.target is not None else node.args[0])
        return UNKNOWN

    def _join(self, target: Node, args: tuple[Node, ...]) -> _Call:
        size = ZERO
        count = self._estimated(target)
        if target.type.of:
            most = self.sizes((*self._path(target), "@items")) if self._path(target) else None
            size = count.times(UNKNOWN if most is None else Range(0, most))
        if args:
            between = Range(max(count.low - 1, 0), max(count.high - 1, 0))
            size = size.plus(self._estimated(args[0]).times(between))
        return _Call(size.scaled(_PER_CHARACTER), size)

    def _contained(self, name: str, arg: Node) -> Range:
        address = Range(4, 16)
        total = address.plus(address).scaled(_PER_CHARACTER)
        if name == "containsCIDR":
            total = total.plus(address.scaled(_PER_CHARACTER)).plus(ONE)
        if arg.type.name == "string":
            total = total.plus(self._estimated(arg).scaled(_PER_CHARACTER))
        return total

    def _builtin(self, node: Node, overload: str, costs: list[Range]) -> _Call | None:
        args, target, size = node.args, node.target, self._size_or_unknown
        if overload == "format" or node.value == "format":
            return None if target is None else _Call(size(target).scaled(_PER_CHARACTER))
        if overload in ("string_to_bytes", "bytes_to_string"):
            held = size(args[0])
            made = (
                Range(held.low, held.high * 4)
                if overload == "string_to_bytes"
                else Range(held.low // 4, held.high)
            )
            return _Call(held.scaled(_PER_CHARACTER), made)
        if node.value == "strings.quote":
            held = size(args[0])
            return _Call(held.scaled(_PER_CHARACTER), Range(held.low + 2, min(held.high * 2 + 2, MOST)))
        if node.value in ("startsWith", "endsWith") and len(args) == 1:
            return _Call(size(args[0]).scaled(_PER_CHARACTER))
        if overload == "in_list":
            return _Call(size(args[1]))
        if node.value == "matches" and target is not None:
            characters = size(target).plus(ONE).scaled(_PER_CHARACTER)
            return _Call(characters.times(size(args[0]).scaled(_PER_PATTERN_CHARACTER)))
        if node.value == "contains" and target is not None:
            return _Call(size(target).scaled(_PER_CHARACTER).times(size(args[0]).scaled(_PER_CHARACTER)))
        if node.value in ("_||_", "_&&_"):
            return _Call(Range(costs[0].low, costs[0].plus(costs[1]).high))
        if node.value == "_?_:_":
            either = _held_union(self._holding(args[1]), self._holding(args[2]))
            if either is not None:
                self.holds[node.id] = either
            return _Call(costs[0].plus(costs[1].union(costs[2])), size(args[1]).union(size(args[2])))
        if overload in ("add_string", "add_bytes", "add_list"):
            both = size(args[0]).plus(size(args[1]))
            either = _held_union(self._holding(args[0]), self._holding(args[1]))
            if either is not None:
                self.holds[node.id] = either
            return _Call(ONE if overload == "add_list" else both.scaled(_PER_CHARACTER), both)
        if overload in ("equals", "not_equals") or (
            overload.endswith(("_string", "_bytes")) and node.value in _ORDERS
        ):
            smaller = min(size(args[0]).high, size(args[1]).high)
            return _Call(Range(int(smaller > 0), smaller).scaled(_PER_CHARACTER))
        return None

    # Sizes

    def _size(self, node: Node) -> Range | None:
        if node.id in self.computed:
            return self.computed[node.id]
        stated = _stated_size(node)
        if stated is not None:
            return stated
        path = self._path(node)
        most = self.sizes(path) if path else None
        if most is not None:
            self.computed[node.id] = Range(0, most)
            return Range(0, most)
        if _is_scalar(node.type):
            return ONE
        local = self._local(node.value) if node.kind == IDENT else None
        return local.size if local is not None else None

    def _size_or_unknown(self, node: Node) -> Range:
        return self._size(node) or UNKNOWN

    def _estimated(self, node: Node) -> Range:
        """What libraries see: accumulators have no path, and so no bound by it."""
        size = self._size(node)
        return UNKNOWN if size is None else size

    def _holding(self, node: Node) -> _Held | None:
        if node.id in self.holds:
            return self.holds[node.id]
        local = self._local(node.value) if node.kind == IDENT else None
        return None if local is None else local.held

    def _path(self, node: Node) -> Path:
        local = self._local(node.value) if node.kind == IDENT else None
        path = local.path if local is not None else self.paths.get(node.id, ())
        return () if path and path[0] in _ACCUMULATORS else path

    def _copy(self, node: Node, source: Node) -> None:
        size, held = self._size(source), self._holding(source)
        if size is not None:
            self.computed[node.id] = size
        if held is not None:
            self.holds[node.id] = held


_NOMINAL: Final = frozenset(
    [
        "masked",
        "prefixLength",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "format.named",
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
        "getScheme",
        "getHostname",
        "getHost",
        "getPort",
        "getEscapedPath",
        "getQuery",
    ]
)
# What the members of a list cost these: once through, or each with each.
_LIST_COSTS: Final[dict[str, Callable[[Range], Range]]] = {
    **dict.fromkeys(("lists.range", "flatten", "reverse", "slice"), lambda size: size),
    **dict.fromkeys(("distinct", "sort"), lambda size: size.times(size).times(Range(2, 2))),
}
_CHEAPLY_EQUAL: Final = frozenset(("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"))
_ORDERS: Final = ("_<_", "_<=_", "_>_", "_>=_")


def _is_bind(node: Node) -> bool:
    over, _, condition, _, _ = node.args
    never = condition.kind == CONST and condition.value is False
    return over.kind == LIST and not over.args and never and node.names[1] not in _ACCUMULATORS


def _stated_size(node: Node) -> Range | None:
    if node.kind == CONST:
        count = len(node.value) if isinstance(node.value, str | bytes) else 1
    elif node.kind == LIST:
        count = len(node.args)
    elif node.kind == MAP:
        count = len(node.args) // 2
    else:
        return None
    return Range(count, count)


def _is_scalar(kind: Type) -> bool:
    if kind.name == "optional_type" and kind.of:
        return _is_scalar(kind.of[0])
    return kind.name in _SCALARS


def _held_union(a: _Held | None, b: _Held | None) -> _Held | None:
    if a is None or b is None:
        return None
    return _Held(a.is_list, a.key.union(b.key), a.value.union(b.value))


def _replaced(size: Range, old: Range, new: Range) -> Range:
    """How long a text may be once every `old` in it is a `new`."""
    if old.low == 0:
        most, kept_most = min(size.high + 1, MOST), size.high
    elif new.high <= old.low:
        most, kept_most = 0, size.high
    else:
        most, kept_most = -(-size.high // old.low), 0
    if old.high == 0:
        least, kept_least = size.low + 1, size.low
    elif old.high <= new.low:
        least, kept_least = 0, size.low
    else:
        least, kept_least = -(-size.low // old.high), 0
    return Range(least, most).times(new).plus(Range(kept_least, kept_most))
