"""What the C++ checker complains of, as cel-go words it.

Both follow one conformance suite; they differ in how a qualified name nobody declared is shown, in an escape of the
parser, and in a line C++ adds where nothing could be parsed.
"""

from __future__ import annotations

import re

from fairway.kube.cel.brackets import arguments

_NO_TREE = re.compile(r"\nERROR: <input>:-1:-1: <<nil>> parsetree")
_QUALIFIED = re.compile(
    r"ERROR: <input>:(\d+):(\d+): undeclared reference to '((?:\w+\.)+\w+)' \(in container '(.*?)'\)\n"
    r" \| (.*)\n \| (\.*)\^"
)


_OVERLOAD = re.compile(
    r"(ERROR: <input>:\d+:(\d+): found no matching overload for '(\w+)' applied to ')\((.*)\)'\n \| (.*)\n"
)


def compile_words(text: str) -> str:
    text = text.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    text = _NO_TREE.sub("", text).replace("\\u003F", "?")
    text = text.replace("cannot be the range of a comprehension", "cannot be range of a comprehension")
    return _OVERLOAD.sub(_on_receiver, _QUALIFIED.sub(_first_of, text))


def _on_receiver(match: re.Match[str]) -> str:
    """A member call's receiver stands before its arguments: `string.(int)`."""
    said, column, name, types, source = match.groups()
    before = source[: int(column) - 1]
    parts = arguments(types)
    if name.startswith("_") or not re.search(rf"\.\s*{name}\s*$", before):
        return match[0]
    return f"{said}{parts[0].strip()}.({', '.join(p.strip() for p in parts[1:])})'\n | {source}\n"


def _first_of(match: re.Match[str]) -> str:
    """C++ points at the last dot of `a.b.c`; cel-go at `a`, which is what nobody declared."""
    line, column, name, container, source, _ = match.groups()
    first, _, _ = name.partition(".")
    at = source.rfind(first, 0, int(column)) + 1
    return located(
        int(line), max(at, 1), f"undeclared reference to '{first}' (in container '{container}')", source
    )


def located(line: int, column: int, text: str, source: str) -> str:
    """A complaint with its place, as cel-go prints it. Lines and columns count from 1."""
    return f"ERROR: <input>:{line}:{column}: {text}\n | {source}\n | {'.' * (column - 1)}^"
