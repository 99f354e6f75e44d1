"""Functions that change labels, or sort by them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any, Final

from fairway.telemetry.promql.matrix import Matrix, with_label
from fairway.telemetry.promql.nodes import PromQLError
from fairway.telemetry.store import Labels, anchored

# `$1`, `${name}`, `$$`: Go's Expand. A name is as long as letters, digits and underscores go.
_REFERENCE: Final = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})", re.ASCII)
_PARTS: Final = re.compile(r"(\d+|\D+)")


def replace_labels(matrix: Matrix, texts: Sequence[str]) -> Matrix:
    """Raises: PromQLError, RegexpError."""
    target, template, source, pattern = texts
    compiled = anchored(pattern)
    _check(target, "destination", "label_replace")
    labels = []
    for one in matrix.labels:
        found = compiled.search(dict(one).get(source, ""))
        labels.append(with_label(one, target, _expanded(template, found)) if found else one)
    return Matrix(labels, matrix.values, matrix.present)


def _expanded(template: str, found: Any) -> str:
    def of(reference: re.Match[str]) -> str:
        if reference.group(1):
            return "$"
        name = reference.group(2) or reference.group(3)
        try:
            return found.group(int(name) if name.isdigit() else name) or ""
        except (IndexError, KeyError):
            return ""

    return _REFERENCE.sub(of, template)


def join_labels(matrix: Matrix, texts: Sequence[str]) -> Matrix:
    """Raises: PromQLError."""
    target, separator, *sources = texts
    for source in sources:
        _check(source, "source", "label_join")
    _check(target, "destination", "label_join")
    labels = []
    for one in matrix.labels:
        values = dict(one)
        labels.append(with_label(one, target, separator.join(values.get(s, "") for s in sources)))
    return Matrix(labels, matrix.values, matrix.present)


def _check(name: str, which: str, function: str) -> None:
    """Any text is a name since Prometheus 3, but none."""
    if not name:
        raise PromQLError(f"invalid {which} label name in {function}(): {name}")


def sorted_by_labels(labels: Sequence[Labels], names: Sequence[str], is_down: bool) -> list[int]:
    """Numbers within values by their size; then by all labels."""

    def compare(a: int, b: int) -> int:
        first, second = dict(labels[a]), dict(labels[b])
        for name in names:
            x, y = first.get(name, ""), second.get(name, "")
            if x != y:
                return -1 if _natural(x) < _natural(y) else 1
        return (labels[a] > labels[b]) - (labels[a] < labels[b])

    return sorted(range(len(labels)), key=cmp_to_key(compare), reverse=is_down)


def _natural(text: str) -> list[tuple[int, int, str]]:
    return [(0, int(p), p) if p.isdecimal() else (1, 0, p) for p in _PARTS.findall(text)]
