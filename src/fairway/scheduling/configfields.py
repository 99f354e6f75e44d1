"""Reading a configuration file field by field, in the words of the API server.

Source of the words: apimachinery util/validation/field (v1.36) for values, strict decoding for unknown fields.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.errors import FieldProblem
from fairway.kube.located import Field, Reading
from fairway.kube.manifest import Manifest

REQUIRED = "Required value"
DUPLICATE = "Duplicate value"
_INT32 = (-(2**31), 2**31 - 1)


class Part(Field):
    """A value in the file, or the place where one is missing (`value` None)."""

    __slots__ = ()

    @property
    def problems(self) -> list[FieldProblem]:
        """What is wrong with the file so far."""
        return self.reading.problems

    def expected_members(self, names: tuple[str, ...]) -> str:
        return "expected a mapping"

    def unknown_member(self, name: str, names: tuple[str, ...]) -> str:
        return f"unknown field: expected one of {', '.join(sorted(names))}"

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

    def integer(
        self, default: int = 0, low: int | None = None, high: int | None = None, words: str = ""
    ) -> int:
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


def root_of(manifest: Manifest, problems: list[FieldProblem]) -> Part:
    """The whole document; what is wrong with it is added to `problems`."""
    return Part(Reading(manifest, problems), (), manifest.obj)


def unsupported(known: Iterable[str]) -> str:
    """Source: field.NotSupported."""
    return f"Unsupported value: supported values: {', '.join(f'{chr(34)}{k}{chr(34)}' for k in known)}"
