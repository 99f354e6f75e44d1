"""How schemas are kept: every place once, a line of JSON each, children by the number of their line.

Pod templates are nine tenths of all definitions and nearly the same everywhere: kept once, a hundred kinds fit into
the space of three. `fairway.kube.published` reads this form.
"""

from __future__ import annotations

import json
from typing import Any

_SENTENCES = frozenset({"description", "title", "externalDocs", "example"})
_ONE = ("items", "additionalProperties", "not")
_MANY = ("oneOf", "anyOf", "allOf")


class Nodes:
    """The lines so far. The same schema gets the same number."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, schema: dict[str, Any]) -> int:
        """The number of a schema's line; its children's come first."""
        body: dict[str, Any] = {}
        for key, value in sorted(schema.items()):
            if key in _SENTENCES:
                continue
            if key == "properties":
                value = {name: self.number(member) for name, member in value.items()}
            elif key in _ONE and isinstance(value, dict):
                value = self.number(value)
            elif key in _MANY:
                value = [self.number(member) for member in value]
            body[key] = value
        line = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        if line not in self._numbers:
            self._numbers[line] = len(self.lines)
            self.lines.append(line)
        return self._numbers[line]


def spelled_out(lines: list[str], number: int) -> dict[str, Any]:
    """The schema of a line, as a definition has it: the reverse of `Nodes.number`."""
    body: dict[str, Any] = json.loads(lines[number])
    for name, below in body.get("properties", {}).items():
        body["properties"][name] = spelled_out(lines, below)
    for key in _ONE:
        if isinstance(body.get(key), int) and not isinstance(body[key], bool):
            body[key] = spelled_out(lines, body[key])
    for key in _MANY:
        if key in body:
            body[key] = [spelled_out(lines, below) for below in body[key]]
    return body
