"""What does a field say, and where does it stand?

A `Field` is a value with its path and file. Each reader answers with a value of one type; what is wrong is
collected, with file, line and path, and a default goes on in its place, so that one reading finds every
problem of a file.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path as Path_
from typing import Any, Self, TypeVar

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.fieldpath import MapKey, Path, path_text, value_text
from fairway.kube.labelparsing import parse_selector
from fairway.kube.labels import EVERYTHING, Selector, SelectorError, label_selector
from fairway.kube.manifest import Manifest, capped
from fairway.kube.quantity import QuantityError, of
from fairway.kube.timestamps import parse_duration, parse_rfc3339

T = TypeVar("T")

DURATION = "expected a duration such as 90s, 1h30m or 2d"
_LARGEST = 2**53


@dataclass(frozen=True, slots=True)
class PlacedProblem(FieldProblem):
    """A problem inside the text of a field: `column` is 1-based, in the line of the file where the text stands
    on one line, else in the text."""

    column: int = 0

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:" if self.line else f"{self.file}:"
        return FieldProblem.__str__(self).replace(where, f"{where}{self.column}:", 1)


def nearest(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known words closest to this one, best first."""
    by_lower: dict[str, str] = {}
    for name in known:
        by_lower.setdefault(name.lower(), name)
    found = difflib.get_close_matches(word.lower(), by_lower, n=most, cutoff=0.6)
    return [by_lower[name] for name in found]


def did_you_mean(word: str, known: Sequence[str], what: str = "expected one of") -> str:
    """`did you mean nodes? expected one of …`."""
    close = nearest(word, known)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{hint}{what} {', '.join(known)}"


@dataclass(slots=True)
class Reading:
    """One document being read, and what is wrong with it so far."""

    manifest: Manifest
    problems: list[FieldProblem] = field(default_factory=list)

    def root(self) -> Field:
        return Field(self, (), self.manifest.obj)

    def column_of(self, line: int, text: str) -> int:
        """How many characters precede this text in its line; 0 where it does not stand there in one piece."""
        try:
            lines = Path_(self.manifest.file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return 0
        return max(lines[line - 1].find(text), 0) if 0 < line <= len(lines) else 0

    def finish(self) -> None:
        """Raises: InvalidInput when anything was wrong."""
        if self.problems:
            raise InvalidInput(capped(self.problems))


@dataclass(frozen=True, slots=True)
class Field:
    """A value (None: absent) and its place."""

    reading: Reading
    path: Path
    value: Any

    @property
    def is_given(self) -> bool:
        return self.value is not None

    @property
    def line(self) -> int:
        return self.reading.manifest.line_of(self.path)

    def where(self) -> str:
        return f"{self.reading.manifest.file}:{self.line}"

    def problem(self, expected: str, value: Any = None) -> FieldProblem:
        shown = self.value if value is None else value
        text = "" if shown is None else value_text(shown)
        return FieldProblem(self.reading.manifest.file, self.line, path_text(self.path), text, expected)

    def reject(self, expected: str, value: Any = None) -> None:
        """Note that this value will not do."""
        self.reading.problems.append(self.problem(expected, value))

    # Structure

    def at(self, step: str | int, value: Any) -> Self:
        """What is, or would be, at this step below."""
        return type(self)(self.reading, (*self.path, step), value)

    def members(self, *names: str, required: tuple[str, ...] = ()) -> dict[str, Self]:
        """The named fields of a mapping (absent ones with None); other names are problems."""
        found = {name: self.at(name, None) for name in names}
        if self.value is None:
            self._require(found, required)
            return found
        if not isinstance(self.value, dict):
            self.reject(self.expected_members(names))
            return found
        for name, value in self.value.items():
            if name in found:
                found[name] = self.at(name, value)
            else:
                self.at(str(name), value).reject(self.unknown_member(str(name), names))
        self._require(found, required)
        return found

    def expected_members(self, names: tuple[str, ...]) -> str:
        """What to say where there is no mapping."""
        return f"expected a mapping with {', '.join(names)}"

    def unknown_member(self, name: str, names: tuple[str, ...]) -> str:
        """What to say of a field nobody knows."""
        return f"unknown field; {did_you_mean(name, names)}"

    def _require(self, found: dict[str, Self], required: tuple[str, ...]) -> None:
        for name in required:
            if found[name].value is None:
                found[name].reject("required")

    def entries(self) -> list[tuple[str, Self]]:
        """The members of a mapping with free keys, in the order of the text."""
        if self.value is None:
            return []
        if not isinstance(self.value, dict):
            self.reject("expected a mapping")
            return []
        return [(str(k), self.at(MapKey(k), v)) for k, v in self.value.items()]

    def items(self) -> list[Self]:
        """The items of a list."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.reject("expected a list")
            return []
        return [self.at(i, v) for i, v in enumerate(self.value)]

    def one_or_many(self) -> list[Self]:
        """The items of a list, or the value itself where it is none."""
        if self.value is None:
            return []
        return self.items() if isinstance(self.value, list) else [self]

    # Values

    def text(self, default: str = "") -> str:
        if self.value is None:
            return default
        if not isinstance(self.value, str):
            self.reject("expected text")
            return default
        return self.value

    def required_text(self) -> str:
        if self.value is None or self.value == "":
            self.reject("required")
            return ""
        return self.text()

    def flag(self, default: bool = False) -> bool:
        if self.value is None:
            return default
        if not isinstance(self.value, bool):
            self.reject("expected true or false")
            return default
        return self.value

    def integer(self, default: int = 0, low: int = 0, high: int = _LARGEST) -> int:
        if self.value is None:
            return default
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not low <= self.value <= high:
            upper = f" to {high}" if high != _LARGEST else " or more"
            self.reject(f"expected an integer, {low}{upper}")
            return default
        return self.value

    def number(self, default: float, low: float, high: float) -> float:
        if self.value is None:
            return default
        good = isinstance(self.value, (int, float)) and not isinstance(self.value, bool)
        if not good or not low <= self.value <= high:
            self.reject(f"expected a number from {low:g} to {high:g}")
            return default
        return float(self.value)

    def choice(self, options: Sequence[str], default: str) -> str:
        if self.value is None:
            return default
        if self.value not in options:
            self.reject(did_you_mean(str(self.value), options))
            return default
        return str(self.value)

    def duration(self, default: int = 0, *, positive: bool = False) -> int:
        """In µs."""
        found = self.parsed(parse_duration, DURATION, default)
        if self.value is not None and (found < 0 or (positive and found == 0)):
            self.reject(f"{DURATION}, above 0")
            return default
        return found

    def moment(self, start_us: int, default: int = 0) -> int:
        """A time in µs: a duration since the start, or an RFC 3339 time."""
        if self.value is None:
            return default
        if isinstance(self.value, str) and "T" in self.value:
            expected = "expected an RFC 3339 time such as 2026-01-31T08:00:00Z"
            found = self.parsed(parse_rfc3339, expected, default)
        else:
            found = start_us + self.parsed(parse_duration, f"{DURATION}, or an RFC 3339 time", 0)
        if found < start_us:
            self.reject("expected a time at or after startTime")
            return default
        return found

    def parsed(self, parse: Callable[[Any], T], expected: str, default: T) -> T:
        """What a parser makes of the value; its ValueError (and TypeError) is a problem."""
        if self.value is None:
            return default
        try:
            return parse(self.value)
        except (ValueError, TypeError, AttributeError, OverflowError):
            self.reject(expected)
            return default

    def texts(self) -> tuple[str, ...]:
        """A text, or a list of texts."""
        return tuple(f.text() for f in self.one_or_many() if f.text())

    def words(self) -> dict[str, str]:
        """A mapping of text to text; numbers and truth values are written out."""
        out = {}
        for name, member in self.entries():
            if isinstance(member.value, (dict, list)):
                member.reject("expected text")
            elif member.value is not None:
                value = member.value
                out[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return out

    def quantities(self) -> dict[str, Any]:
        """A mapping of resource names to quantities, as they were written."""
        out = {}
        for name, member in self.entries():
            try:
                if of(member.value) < 0:
                    member.reject("expected a quantity, 0 or more")
                out[name] = member.value if isinstance(member.value, str) else str(member.value)
            except QuantityError as wrong:
                member.reject(str(wrong))
        return out

    def selector(self) -> Selector:
        """`a=b,c in (d,e)`, or a LabelSelector. Absent: everything."""
        if self.value is None:
            return EVERYTHING
        if isinstance(self.value, dict):
            parts = self.members("matchLabels", "matchExpressions")
            labels = parts["matchLabels"].words()
            for expression in parts["matchExpressions"].items():
                expression.members("key", "operator", "values", required=("key", "operator"))
            return label_selector({**self.value, "matchLabels": labels})
        try:
            return parse_selector(self.text())
        except SelectorError as wrong:
            self.reject(f"expected a label selector such as app=web,tier in (a,b): {wrong}")
            return EVERYTHING
