"""A Slurm configuration file as lines of key=value pairs, with what Slurm would not understand named.

A line is `Key=Value Key=Value`; `#` begins a comment unless escaped, `\\` at the end goes on, `Include FILE` reads
another, values may be quoted. Keys are compared without case. Source: src/common/parse_config.c, 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from fairway.errors import FieldProblem, InvalidInput

MAX_BYTES = 16 << 20
"""Bytes of one file: far over any site's, so that a hostile one is not read for hours."""
MAX_INCLUDES = 64
"""How deep files include files."""
MAX_FILES = 10_000
"""Files read, each as often as it is included."""

_PAIR = re.compile(r'\s*([A-Za-z][\w.]*)\s*([-+*/]?=)\s*("[^"]*"|[^\s]*)')

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")

Reader = Callable[[str], str]
"""The text of an included file. Raises: OSError."""


@dataclass(frozen=True, slots=True)
class Line:
    """One logical line: `first` is its first key, `pairs` its keys (lower case) and values in order."""

    file: str
    number: int
    first: str
    pairs: dict[str, str]

    def problem(self, key: str, value: str, expected: str) -> FieldProblem:
        return FieldProblem(self.file, self.number, key, value, expected)


@dataclass(slots=True)
class Lines:
    """A file's lines and what could not be understood in them."""

    lines: list[Line] = field(default_factory=list)
    problems: list[FieldProblem] = field(default_factory=list)
    files: int = 0


def read_lines(text: str, file: str, kinds: tuple[str, ...], include: Reader | None = None) -> Lines:
    """Every line of `text`. `kinds`: the sections of keys.txt whose keys are known here, the file's own first.

    An unknown key, and a line that is no list of pairs, is named in `problems` and left out. Raises: InvalidInput for a
    file that is too large, or an Include that cannot be read or leads to itself.
    """
    read = Lines()
    _read(text, file, kinds, include, read, 0)
    return read


def _read(
    text: str, file: str, kinds: tuple[str, ...], include: Reader | None, read: Lines, depth: int
) -> None:
    if len(text) > MAX_BYTES:
        raise InvalidInput((FieldProblem(file, 0, "", f"{len(text)} bytes", f"is over {MAX_BYTES} bytes"),))
    if depth > MAX_INCLUDES:
        raise InvalidInput(
            (FieldProblem(file, 0, "Include", "", f"nests over {MAX_INCLUDES} deep: it leads to itself?"),)
        )
    read.files += 1
    if read.files > MAX_FILES:
        raise InvalidInput((FieldProblem(file, 0, "Include", "", f"is the file over {MAX_FILES} of them"),))
    for number, line in _logical(text):
        word, _, rest = line.partition(" ")
        if word.lower() == "include" and "=" not in word:
            _include(rest.strip(), file, number, kinds, include, read, depth)
            continue
        pairs = _pairs(line, file, number, read.problems)
        if not pairs:
            continue
        first = next(iter(pairs))
        section = next((kind for kind in kinds[1:] if kind.lower() == first), kinds[0])
        known = known_keys(section)
        for key in [key for key in pairs if key not in known and key != section.lower()]:
            value = pairs.pop(key)
            read.problems.append(
                FieldProblem(file, number, key, value, f"is no key of {section} in Slurm 22.05")
            )
        if pairs:
            read.lines.append(Line(file, number, first, pairs))


def _include(
    name: str, file: str, number: int, kinds: tuple[str, ...], include: Reader | None, read: Lines, depth: int
) -> None:
    try:
        if include is None:
            raise FileNotFoundError(name)
        text = include(name)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            (FieldProblem(file, number, "Include", name, f"cannot be read: {error}"),)
        ) from error
    _read(text, name, kinds, include, read, depth + 1)


def _logical(text: str) -> Iterator[tuple[int, str]]:
    held: list[str] = []
    start = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(?<!\\)#.*", "", raw).replace("\\#", "#").rstrip() if "#" in raw else raw.rstrip()
        start = start or number
        if line.endswith("\\"):
            held.append(line[:-1])
            continue
        whole = " ".join((*held, line)).strip()
        if whole:
            yield start, whole
        held.clear()
        start = 0
    if whole := " ".join(held).strip():
        yield start, whole


def _pairs(line: str, file: str, number: int, problems: list[FieldProblem]) -> dict[str, str]:
    """None of a line that is no list of pairs."""
    pairs: dict[str, str] = {}
    at = 0
    if _CONTROL.search(line):
        problems.append(FieldProblem(file, number, "", repr(line)[1:81], "has a control character"))
        return pairs
    while at < len(line):
        match = _PAIR.match(line, at)
        if match is None:
            rest = line[at:].strip()
            problems.append(FieldProblem(file, number, "", rest[:80], "should be Key=Value"))
            return {}
        pairs[match[1].lower()] = match[3].strip('"')
        at = match.end()
    return pairs


@cache
def known_keys(section: str) -> dict[str, str]:
    """Lower-case key → the key as Slurm writes it, for one section of keys.txt."""
    known: dict[str, str] = {}
    for row in (files("fairway.slurm") / "conf" / "keys.txt").read_text("utf-8").splitlines()[1:]:
        name, _, keys = row.partition(": ")
        if name == section:
            known.update((key.lower(), key) for key in keys.split())
    return known
