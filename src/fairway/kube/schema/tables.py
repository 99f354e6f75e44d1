"""Schemas of files that no definition describes, as compact tables.

A type's name stands on a line of its own, its fields below, one a line: `name type`. Types: `str bool int num qty any`,
`[T]`, `{T}` (map from text), names of other types. A line `same Other` takes over the fields of another type; those
that follow replace what was taken over.
"""

from __future__ import annotations

from typing import Any

Raw = dict[str, Any]

_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_QUANTITY = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
_SCALARS: dict[str, Raw] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "num": {"type": "number"},
    "qty": {"x-kubernetes-int-or-string": True, "pattern": _QUANTITY},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}


def read_tables(text: str) -> dict[str, Raw]:
    """Every type of a text, as a definition would say it (`structural.custom_schema` reads that)."""
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("  "):
            lines[list(lines)[-1]].append(line.strip())
        elif line:
            lines[line.strip()] = []
    types: dict[str, Raw] = {}
    for name in lines:
        _read_type(name, lines, types)
    return types


def _read_type(name: str, lines: dict[str, list[str]], types: dict[str, Raw]) -> Raw:
    if name not in types:
        fields: dict[str, Raw] = {}
        for line in lines[name]:
            word, kind = line.split()
            if word == "same":
                fields.update(_read_type(kind, lines, types)["properties"])
                continue
            inner = kind.strip("[]{}")
            of = _SCALARS[inner] if inner in _SCALARS else _read_type(inner, lines, types)
            wrapped = {
                "[": {"type": "array", "items": of},
                "{": {"type": "object", "additionalProperties": of},
            }
            fields[word] = wrapped.get(kind[0], of)
        types[name] = {"type": "object", "properties": fields}
    return types[name]
