"""What is wrong with a field, said as the Kubernetes API server says it.

Source: apimachinery pkg/util/validation/field/errors.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from fairway.kube.fieldpath import Path, path_text
from fairway.kube.internals import Typed, go_json, text_of

INVALID = "Invalid value"
REQUIRED = "Required value"
UNSUPPORTED = "Unsupported value"
DUPLICATE = "Duplicate value"
FORBIDDEN = "Forbidden"
NOT_FOUND = "Not found"
TOO_LONG = "Too long"
TOO_MANY = "Too many"
UNKNOWN_FIELD = "unknown field"
WRONG_TYPE = "Wrong type"
# As INVALID to whoever reads it; rules are not asked where there is one.
TYPE_INVALID = "Type invalid"

_WITHOUT_VALUE = frozenset({REQUIRED, FORBIDDEN, TOO_LONG})
_NEGATIVE = "must be greater than or equal to 0"


class _Omitted:
    """No value is shown. Source: field.OmitValueType."""


OMITTED: Final = _Omitted()


class GoText(str):
    """A value's text, to be shown as it is: structs in Go's own writing."""

    __slots__ = ()


class Problem(NamedTuple):
    """One field's fault. `detail` may be empty; `str()` is the API server's line."""

    path: Path
    value: Any
    reason: str
    detail: str

    @property
    def message(self) -> str:
        """Without the path: `Invalid value: "1500m": must be an integer`."""
        parts = [INVALID if self.reason == TYPE_INVALID else self.reason]
        if self.reason not in _WITHOUT_VALUE and self.value is not OMITTED:
            parts.append(_value_text(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    @property
    def expected(self) -> str:
        """What should stand there instead, for a message that shows the value itself."""
        if self.reason in (INVALID, TYPE_INVALID, WRONG_TYPE):
            return self.detail
        return f"{self.reason}: {self.detail}" if self.detail else self.reason

    def __str__(self) -> str:
        if self.reason == UNKNOWN_FIELD:
            hint = f", {self.detail}" if self.detail else ""
            return f'unknown field "{path_text(self.path)}"{hint}'
        if not self.path:
            return self.message
        return f"{path_text(self.path)}: {self.message}"


# What Go's %q writes as it stands.
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
_QUOTED = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\v": "\\v",
}


def quoted(text: str) -> str:
    """As Go's %q."""
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    return '"' + "".join(_QUOTED.get(c) or (c if c.isprintable() else _code(c)) for c in text) + '"'


def _code(char: str) -> str:
    point = ord(char)
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _value_text(value: Any) -> str:
    if isinstance(value, GoText):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    return text_of(value) if isinstance(value, Typed) else go_json(value)


def invalid(path: Path, value: Any, detail: str) -> Problem:
    return Problem(path, value, INVALID, detail)


def invalids(path: Path, value: Any, complaints: Iterable[str]) -> list[Problem]:
    """One problem for each complaint about a value."""
    return [Problem(path, value, INVALID, complaint) for complaint in complaints]


def required(path: Path, detail: str = "") -> Problem:
    return Problem(path, "", REQUIRED, detail)


def unsupported(path: Path, value: Any, supported: Iterable[str]) -> Problem:
    """`supported` in the order the message lists them."""
    return Problem(path, value, UNSUPPORTED, "supported values: " + ", ".join(f'"{s}"' for s in supported))


def duplicate(path: Path, value: Any) -> Problem:
    return Problem(path, value, DUPLICATE, "")


def forbidden(path: Path, detail: str) -> Problem:
    return Problem(path, "", FORBIDDEN, detail)


def not_found(path: Path, value: Any) -> Problem:
    return Problem(path, value, NOT_FOUND, "")


def too_long(path: Path, limit: int) -> Problem:
    return Problem(path, "", TOO_LONG, f"may not be more than {limit} bytes")


def too_many(path: Path, count: int, limit: int) -> Problem:
    return Problem(path, count, TOO_MANY, f"must have at most {limit} items")


class Faults(list[Problem]):
    """What is found wrong with one object, in the order it is found."""

    def required(self, path: Path, detail: str = "") -> None:
        self.append(Problem(path, "", REQUIRED, detail))

    def invalid(self, path: Path, value: Any, detail: str) -> None:
        self.append(Problem(path, value, INVALID, detail))

    def invalids(self, path: Path, value: Any, complaints: Iterable[str]) -> None:
        self.extend(Problem(path, value, INVALID, complaint) for complaint in complaints)

    def unsupported(self, path: Path, value: Any, supported: Iterable[str]) -> None:
        self.append(unsupported(path, value, supported))

    def duplicate(self, path: Path, value: Any, detail: str = "") -> None:
        self.append(Problem(path, value, DUPLICATE, detail))

    def forbidden(self, path: Path, detail: str) -> None:
        self.append(Problem(path, "", FORBIDDEN, detail))

    def not_found(self, path: Path, value: Any, detail: str = "") -> None:
        self.append(Problem(path, value, NOT_FOUND, detail))

    def too_long(self, path: Path, limit: int) -> None:
        self.append(too_long(path, limit))

    def too_many(self, path: Path, count: int, limit: int) -> None:
        self.append(too_many(path, count, limit))

    def negative(self, path: Path, value: int | None) -> None:
        """A number that may be absent, but not below zero."""
        if value is not None and value < 0:
            self.append(Problem(path, value, INVALID, _NEGATIVE))

    def omitted(self, path: Path, detail: str) -> None:
        """An invalid value that is not shown."""
        self.append(Problem(path, OMITTED, INVALID, detail))
