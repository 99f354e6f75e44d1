"""How schemas are kept: every place once, a line each: its name, then JSON whose parts are named.

A name is made of what the line says, so a new release changes the lines that say something new and those above them,
and no others. Pod templates are nine tenths of all definitions and nearly the same everywhere: kept once, a hundred
kinds fit into the space of three. `fairway.kube.published` reads this form.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

_SENTENCES = frozenset({"description", "title", "externalDocs", "example"})
_ONE = ("items", "additionalProperties", "not")
_MANY = ("oneOf", "anyOf", "allOf")
# Letters of a name: four thousand places share thirty bits in one of two hundred imports; then `Nodes` says so.
_LETTERS = 5


class Nodes:
    """The places so far, by name. The same schema gets the same name."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}

    def name(self, schema: dict[str, Any]) -> str:
        """The name of a schema's place.

        Raises: ValueError where two places would share one (more `_LETTERS` are needed then).
        """
        body: dict[str, Any] = {}
        for key, value in sorted(schema.items()):
            if key in _SENTENCES:
                continue
            if key == "properties":
                value = {name: self.name(member) for name, member in value.items()}
            elif key in _ONE and isinstance(value, dict):
                value = self.name(value)
            elif key in _MANY:
                value = [self.name(member) for member in value]
            body[key] = value
        line = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        name = base64.urlsafe_b64encode(hashlib.sha256(line.encode()).digest())[:_LETTERS].decode()
        if self.places.setdefault(name, line) != line:
            raise ValueError(f"two places are named {name}: {line} and {self.places[name]}")
        return name

    def text(self) -> str:
        return "".join(f"{name} {self.places[name]}\n" for name in sorted(self.places))


def places(text: str) -> dict[str, str]:
    """The places of a file's text."""
    return dict(line.split(" ", 1) for line in text.splitlines())


def spelled_out(known: Mapping[str, str], name: str) -> dict[str, Any]:
    """The schema of a place, as a definition has it: the reverse of `Nodes.name`."""
    body: dict[str, Any] = json.loads(known[name])
    for member, below in body.get("properties", {}).items():
        body["properties"][member] = spelled_out(known, below)
    for key in _ONE:
        if isinstance(body.get(key), str):
            body[key] = spelled_out(known, body[key])
    for key in _MANY:
        if key in body:
            body[key] = [spelled_out(known, below) for below in body[key]]
    return body
