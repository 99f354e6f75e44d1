"""Reading a configuration file field by field, every problem located and none of them the last.

Source of the words: apimachinery util/validation/field (v1.36) for values, strict decoding for unknown fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairway.errors import FieldProblem
from fairway.kube.fieldpath import Path, path_text, value_text
from fairway.kube.manifest import Manifest

REQUIRED = "Required value"
DUPLICATE = "Duplicate value"
_INT32 = (-(2**31), 2**31 - 1)


class Part:
    """A value in the file, or the place where one is missing (`value` None)."""

    __slots__ = ("_manifest", "path", "problems", "value")

    def __init__(
        self, manifest: Manifest, problems: list[FieldProblem], path: Path = (), value: Any = None
    ) -> None:
        self._manifest = manifest
        self.problems = problems
        self.path = path
        self.value = value

    @property
    def is_given(self) -> bool:
        return self.value is not None

    def reject(self, expected: str) -> None:
        """Note what is wrong with this value."""
        shown = "" if self.value is None else value_text(self.value)
        line = self._manifest.line_of(self.path)
        problem = FieldProblem(self._manifest.file, line, path_text(self.path), shown, expected)
        self.problems.append(problem)

    def at(self, step: str | int, value: Any) -> Part:
        return Part(self._manifest, self.problems, (*self.path, step), value)

    def members(self, *names: str) -> dict[str, Part]:
        """These members of a mapping; others are unknown fields."""
        value = self.value if self.value is not None else {}
        if not isinstance(value, dict):
            self.reject("expected a mapping")
            value = {}
        for name, given in value.items():
            if name not in names:
                self.at(name, given).reject(f"unknown field: expected one of {', '.join(sorted(names))}")
        return {name: self.at(name, value.get(name)) for name in names}

    def items(self) -> list[Part]:
        """The items of a list; none where it is missing."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.reject("expected a list")
            return []
        return [self.at(i, v) for i, v in enumerate(self.value)]

    def text(self, default: str = "") -> str:
        if self.value is None:
            return default
        if not isinstance(self.value, str):
            self.reject("expected text")
            return default
        return self.value

    def required_text(self) -> str:
        found = self.text()
        if not found and (self.value is None or isinstance(self.value, str)):
            self.reject(REQUIRED)
        return found

    def one_of(self, supported: Iterable[str], default: str) -> str:
        found = self.text(default)
        known = sorted(supported)
        if found not in known:
            self.reject(unsupported(known))
            return default
        return found

    def flag(self, default: bool = False) -> bool:
        if self.value is None:
            return default
        if not isinstance(self.value, bool):
            self.reject("expected true or false")
            return default
        return self.value

    def integer(self, default: int, low: int | None = None, high: int | None = None, words: str = "") -> int:
        """A whole number within bounds; `words` say what is wrong with one that is not."""
        if self.value is None:
            return default
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.reject("expected a whole number")
            return default
        least = _INT32[0] if low is None else low
        most = _INT32[1] if high is None else high
        if not least <= self.value <= most:
            self.reject(words or f"expected a whole number from {least} to {most}")
            return default
        return self.value


def unsupported(known: Iterable[str]) -> str:
    """Source: field.NotSupported."""
    return f"Unsupported value: supported values: {', '.join(f'{chr(34)}{k}{chr(34)}' for k in known)}"
