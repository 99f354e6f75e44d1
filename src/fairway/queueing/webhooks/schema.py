"""Which fields do Kueue's kinds have, and what does the CRD's schema demand of each?

The tables are text (see `tables`): a type's name on a line of its own, its fields below, one a line:

    queueingStrategy str enum:StrictFIFO|BestEffortFIFO default:"BestEffortFIFO"
    resourceGroups [ResourceGroup] items<=16
    name! str /subdomain len<=253

Types: `str bool int num qty time any`, `[T]`, `{T}` (map from text), names of other types. `!` after the name:
required. Constraints: `/pattern`, `len>=`, `len<=`, `items>=`, `items<=`, `props<=`, `min:` (a number),
`enum:a|b`, `map:key,key` and `set` (lists without repeats), `atomic`, `cel:rule` (a rule of `rules`), `of:` (a
constraint of a list's or map's items), `default:` (JSON, last on its line). A line indented further goes on.
A line `cel rule rule` holds the rules of the type itself, `same Other` takes over all of another type; fields that
follow replace those taken over.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

STR, BOOL, INT, NUM, QTY, TIME, ANY = "str", "bool", "int", "num", "qty", "time", "any"
STRUCT, LIST, MAP = "struct", "list", "map"
_SCALARS = frozenset({STR, BOOL, INT, NUM, QTY, TIME, ANY})

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
PATTERNS = {
    "label": f"^{_LABEL}$",
    "subdomain": f"^{_SUBDOMAIN}$",
    "labelkey": rf"^({_SUBDOMAIN}/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    "reason": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    "kind": "^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$",
    "quantity": rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$",
}


@dataclass(slots=True)
class Node:
    """One place of a schema. `of`: what a list or map holds. Limits None: none."""

    kind: str
    fields: dict[str, Node] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    of: Node | None = None
    pattern: str = ""
    length: tuple[int | None, int | None] = (None, None)
    items: tuple[int | None, int | None] = (None, None)
    most_properties: int | None = None
    minimum: int | None = None
    enum: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    is_set: bool = False
    is_atomic: bool = False
    rules: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False
    is_required: bool = False
    has_rules: bool = False
    has_keys: bool = False
    has_defaults: bool = False
    """CEL rules, lists without repeats, defaults: here or below. Walks leave out what has none."""


def read_tables(text: str) -> dict[str, Node]:
    """Every type of a table text."""
    lines: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("    "):
            lines[name][-1] += f" {line.strip()}"
        elif line.startswith("  "):
            lines[name].append(line.strip())
        elif line:
            name = line.strip()
            lines[name] = []
    types: dict[str, Node] = {}
    for name in lines:
        _read_type(name, lines, types)
    for node in types.values():
        _note(node)
    return types


def _note(node: Node) -> None:
    """What is to be found below."""
    below = [*node.fields.values(), *([node.of] if node.of is not None else ())]
    for child in below:
        _note(child)
    node.has_rules = bool(node.rules) or any(c.has_rules for c in below)
    node.has_keys = bool(node.keys) or node.is_set or any(c.has_keys for c in below)
    node.has_defaults = node.has_default or any(c.has_defaults for c in below)


def _read_type(name: str, lines: dict[str, list[str]], types: dict[str, Node]) -> Node:
    if name in types:
        return types[name]
    node = Node(STRUCT)
    for line in lines[name]:
        word, _, rest = line.partition(" ")
        if word == "cel":
            node.rules = tuple(rest.split())
        elif word == "same":
            other = _read_type(rest, lines, types)
            node = replace(node, fields=dict(other.fields), rules=other.rules)
        else:
            node.fields[word.rstrip("!")] = _read_field(word, rest, lines, types)
    node.required = tuple(n for n, f in sorted(node.fields.items()) if f.is_required)
    types[name] = node
    return node


def _read_field(word: str, rest: str, lines: dict[str, list[str]], types: dict[str, Node]) -> Node:
    rest, _, default = rest.partition("default:")
    kind, *tokens = rest.split()
    inner = kind.strip("[]{}")
    # An item's own constraints stand behind `of:`.
    of_tokens = [t[3:] for t in tokens if t.startswith("of:")]
    base = Node(inner) if inner in _SCALARS else replace(_read_type(inner, lines, types))
    if kind[0] in "[{":
        for token in of_tokens:
            _constrain(base, token)
        node = Node(LIST if kind[0] == "[" else MAP, of=base)
    else:
        node = base
    for token in tokens:
        if not token.startswith("of:"):
            _constrain(node, token)
    node.is_required = word.endswith("!")
    if default:
        node.default, node.has_default = json.loads(default), True
    return node


def _constrain(node: Node, token: str) -> None:
    if token.startswith("/"):
        node.pattern = token[1:]
    elif match := re.fullmatch(r"(len|items)(<=|>=)(\d+)", token):
        name = "length" if match[1] == "len" else "items"
        low, high = getattr(node, name)
        setattr(node, name, (int(match[3]), high) if match[2] == ">=" else (low, int(match[3])))
    elif token.startswith("props<="):
        node.most_properties = int(token[7:])
    elif token.startswith("min:"):
        node.minimum = int(token[4:])
    elif token.startswith("enum:"):
        node.enum = tuple(token[5:].split("|"))
    elif token.startswith("map:"):
        node.keys = tuple(token[4:].split(","))
    elif token.startswith("cel:"):
        node.rules = (*node.rules, token[4:])
    elif token == "set":
        node.is_set = True
    else:
        assert token == "atomic", token
        node.is_atomic = True
