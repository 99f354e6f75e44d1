"""The checked tree of an expression, as the interpreter hands it back: `cel.expr.CheckedExpr`, read off the wire.

Source: google/api/expr/v1alpha1/checked.proto and syntax.proto, whose field numbers stand here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final

CONST: Final = "const"
IDENT: Final = "ident"
SELECT: Final = "select"
CALL: Final = "call"
LIST: Final = "list"
MAP: Final = "map"
LOOP: Final = "loop"

_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN = {1: "any", 2: "google.protobuf.Timestamp", 3: "google.protobuf.Duration"}


@dataclass(frozen=True, slots=True)
class Type:
    """`name` is CEL's (`int`, `list`, `any`, `kubernetes.Quantity`, …); `of` what lists, maps and optionals hold."""

    name: str
    of: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.of))})" if self.of else self.name


DYN_TYPE: Final = Type("dyn")


@dataclass(slots=True)
class Node:
    """One node. `value`: a constant, a name, a field, a function; `args`: its parts in order.

    A call's `target` is a member call's receiver. A loop's `args` are range, initial, condition, step, result; its
    `names` the iteration variable and the accumulator. `optional`: indices of optional list elements, or entries.
    """

    kind: str
    id: int
    value: Any = None
    target: Node | None = None
    args: tuple[Node, ...] = ()
    names: tuple[str, str] = ("", "")
    type: Type = DYN_TYPE
    overloads: tuple[str, ...] = ()
    offset: int = 0
    is_test: bool = False
    optional: frozenset[int] = field(default_factory=frozenset)


def read_tree(serialized: bytes) -> Node:
    """The tree of `Expression.serialize()`."""
    checked = _fields(_first(_fields(serialized), 2))
    types = {_int(e, 1): _type(_first(e, 2)) for e in map(_fields, checked.get(3, ()))}
    references = {_int(e, 1): _reference(_first(e, 2)) for e in map(_fields, checked.get(2, ()))}
    source = _fields(_first(checked, 5))
    positions = {_int(e, 1): _int(e, 2) for e in map(_fields, source.get(4, ()))}
    return _Reader(types, references, positions).node(_first(checked, 4))


@dataclass(frozen=True, slots=True)
class _Reader:
    types: dict[int, Type]
    references: dict[int, tuple[str, tuple[str, ...]]]
    positions: dict[int, int]

    def node(self, data: bytes) -> Node:
        fields = _fields(data)
        ident = _int(fields, 2)
        made = self._made(fields, ident)
        made.type = self.types.get(ident, DYN_TYPE)
        made.offset = self.positions.get(ident, 0)
        name, overloads = self.references.get(ident, ("", ()))
        made.overloads = overloads
        if name and made.is_test:
            made.type = Type("bool")
        elif name and made.kind in (IDENT, SELECT):
            # A qualified name, such as `device.driver`, is one variable.
            return Node(IDENT, ident, name, type=made.type, offset=made.offset)
        return made

    def _made(self, fields: dict[int, list[Any]], ident: int) -> Node:
        if 3 in fields:
            return Node(CONST, ident, _constant(_fields(fields[3][0])))
        if 4 in fields:
            return Node(IDENT, ident, _text(_fields(fields[4][0]), 1))
        if 5 in fields:
            select = _fields(fields[5][0])
            operand = self.node(_first(select, 1))
            return Node(SELECT, ident, _text(select, 2), args=(operand,), is_test=bool(_int(select, 3)))
        if 6 in fields:
            call = _fields(fields[6][0])
            target = self.node(call[1][0]) if 1 in call else None
            args = tuple(self.node(a) for a in call.get(3, ()))
            return Node(CALL, ident, _text(call, 2), target=target, args=args)
        if 7 in fields:
            items = _fields(fields[7][0])
            args = tuple(self.node(a) for a in items.get(1, ()))
            return Node(LIST, ident, args=args, optional=frozenset(_packed(items.get(2, ()))))
        if 8 in fields:
            return self._map(_fields(fields[8][0]), ident)
        return self._loop(_fields(fields[9][0]), ident)

    def _map(self, fields: dict[int, list[Any]], ident: int) -> Node:
        args: list[Node] = []
        optional = set()
        for index, entry in enumerate(map(_fields, fields.get(2, ()))):
            args += [self.node(_first(entry, 3)), self.node(_first(entry, 4))]
            if _int(entry, 5):
                optional.add(index)
        return Node(MAP, ident, args=tuple(args), optional=frozenset(optional))

    def _loop(self, fields: dict[int, list[Any]], ident: int) -> Node:
        args = tuple(self.node(_first(fields, n)) for n in (2, 4, 5, 6, 7))
        return Node(LOOP, ident, args=args, names=(_text(fields, 1), _text(fields, 3)))


def _reference(data: bytes) -> tuple[str, tuple[str, ...]]:
    fields = _fields(data)
    return _text(fields, 1), tuple(b.decode() for b in fields.get(3, ()))


def _type(data: bytes) -> Type:
    fields = _fields(data)
    if 3 in fields:
        return Type(_PRIMITIVES.get(_int(fields, 3), "dyn"))
    if 4 in fields:
        return Type("wrapper", (Type(_PRIMITIVES.get(_int(fields, 4), "dyn")),))
    if 5 in fields:
        return Type(_WELL_KNOWN.get(_int(fields, 5), "dyn"))
    if 6 in fields:
        return Type("list", (_type(_first(_fields(fields[6][0]), 1)),))
    if 7 in fields:
        held = _fields(fields[7][0])
        return Type("map", (_type(_first(held, 1)), _type(_first(held, 2))))
    if 9 in fields:
        return Type(_text(fields, 9))
    if 11 in fields:
        return Type("type", (_type(fields[11][0]),) if fields[11][0] else ())
    if 14 in fields:
        abstract = _fields(fields[14][0])
        return Type(_text(abstract, 1), tuple(map(_type, abstract.get(2, ()))))
    return Type("null_type") if 2 in fields else DYN_TYPE


def _constant(fields: dict[int, list[Any]]) -> Any:
    if 2 in fields:
        return bool(fields[2][0])
    if 3 in fields:
        return _signed(fields[3][0])
    if 4 in fields:
        return fields[4][0]
    if 5 in fields:
        return struct.unpack("<d", fields[5][0])[0]
    if 6 in fields:
        return fields[6][0].decode()
    return fields[7][0] if 7 in fields else None


# The wire format


def _fields(data: bytes) -> dict[int, list[Any]]:
    """Field number → values: integers, or bytes."""
    found: dict[int, list[Any]] = {}
    index = 0
    while index < len(data):
        tag, index = _varint(data, index)
        wire = tag & 7
        value: Any
        if wire == 0:
            value, index = _varint(data, index)
        elif wire == 1:
            value, index = data[index : index + 8], index + 8
        elif wire == 2:
            length, index = _varint(data, index)
            value, index = data[index : index + length], index + length
        else:
            value, index = data[index : index + 4], index + 4
        found.setdefault(tag >> 3, []).append(value)
    return found


def _varint(data: bytes, index: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[index]
        value |= (byte & 0x7F) << shift
        index += 1
        if byte < 0x80:
            return value, index
        shift += 7


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _first(fields: dict[int, list[Any]], number: int) -> bytes:
    values = fields.get(number)
    return values[0] if values else b""


def _int(fields: dict[int, list[Any]], number: int) -> int:
    values = fields.get(number)
    return _signed(values[0]) if values else 0


def _text(fields: dict[int, list[Any]], number: int) -> str:
    return _first(fields, number).decode()


def _packed(values: list[Any] | tuple[()]) -> list[int]:
    found: list[int] = []
    for value in values:
        if isinstance(value, int):
            found.append(value)
            continue
        index = 0
        while index < len(value):
            number, index = _varint(value, index)
            found.append(number)
    return found
