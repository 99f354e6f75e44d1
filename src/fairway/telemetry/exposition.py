"""Prometheus' text format: families of samples, written.

Source: prometheus docs, exposition formats, version 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isinf, isnan
from typing import Final, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Block(NamedTuple):
    """A family and the lines of its samples."""

    name: str
    type: str
    help: str
    lines: list[str]


def text(blocks: Iterable[Block]) -> str:
    """Families that have samples."""
    parts = []
    for block in blocks:
        if block.lines:
            said = block.help.replace("\\", "\\\\").replace("\n", "\\n")
            head = f"# HELP {block.name} {said}\n# TYPE {block.name} {block.type}\n"
            parts.append(head + "".join(block.lines))
    return "".join(parts)


def sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """One line."""
    return f"{name}{braced(labels)} {number(value)}\n"


def braced(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{escaped(value)}"' for name, value in labels.items()]) + "}"


def escaped(value: str) -> str:
    return value.translate(_ESCAPES) if "\\" in value or '"' in value or "\n" in value else value


def number(value: float) -> str:
    """The shortest text that is read as the same number."""
    if value.is_integer() and abs(value) < 2**63:
        return str(int(value))
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
