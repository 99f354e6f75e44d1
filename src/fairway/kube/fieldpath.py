"""Where in an object does a field stand, and where in a text does something go wrong?

A path is a tuple: field names, list indexes, and `MapKey`s for the keys of a map, which Kubernetes writes in
brackets: `spec.containers[0].resources.limits[nvidia.com/gpu]`. Source: apimachinery field.Path.String.
"""

from __future__ import annotations

import json
from typing import Any

# How much of a value an error message shows; Kubernetes shows all of it, a terminal should not.
_MAX_VALUE_CHARS = 120


class MapKey(str):
    """A path step that is a key of a map (a label, a resource name), not the name of a field."""

    __slots__ = ()


Step = str | int
Path = tuple[Step, ...]


def path_text(path: Path) -> str:
    """The path as Kubernetes writes it."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, (int, MapKey)):
            parts.append(f"[{step}]")
        else:
            parts.append(f".{step}" if parts else step)
    return "".join(parts)


def value_text(value: Any) -> str:
    """A value as an error message shows it: compact JSON, cut at 120 characters."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if len(text) <= _MAX_VALUE_CHARS else text[: _MAX_VALUE_CHARS - 1] + "…"


class TextProblem(ValueError):
    """A text that is not what it should be, located in it (line 1-based, 0: unknown)."""

    def __init__(self, line: int, path: Path, value: str, expected: str) -> None:
        self.line = line
        self.path = path
        self.value = value
        self.expected = expected
        super().__init__(f"line {line}: {path_text(path)}: {value}: {expected}")
