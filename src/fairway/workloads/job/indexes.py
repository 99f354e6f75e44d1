"""Completion indexes as Kubernetes writes them: `0-3,5,7,8`.

Intervals are ordered, do not touch and do not overlap: `((0, 3), (5, 5), (7, 8))`.

Source: pkg/controller/job/indexed_job_utils.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

Intervals = tuple[tuple[int, int], ...]

NONE: Final[Intervals] = ()


def parse(text: str, completions: int) -> Intervals:
    """Intervals below `completions`; parts that are no numbers are left out, as upstream does."""
    if not text:
        return NONE
    found: list[tuple[int, int]] = []
    for part in text.split(","):
        first_text, _, last_text = part.partition("-")
        try:
            first = int(first_text)
            last = int(last_text) if last_text else first
        except ValueError:
            continue
        if first >= completions:
            break
        found.append((first, min(last, completions - 1)))
    return _joined(found)


def of(indexes: Iterable[int]) -> Intervals:
    return _joined([(i, i) for i in sorted(indexes)])


def union(a: Intervals, b: Intervals) -> Intervals:
    if not a or not b:
        return a or b
    return _joined(sorted((*a, *b)))


def _joined(ordered: list[tuple[int, int]]) -> Intervals:
    out: list[tuple[int, int]] = []
    for first, last in ordered:
        if out and first <= out[-1][1] + 1:
            if last > out[-1][1]:
                out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return tuple(out)


def total(intervals: Intervals) -> int:
    return sum(last - first + 1 for first, last in intervals)


def has(intervals: Intervals, index: int) -> bool:
    return any(first <= index <= last for first, last in intervals)


def overlap(a: Intervals, b: Intervals) -> int:
    """How many indexes both hold."""
    return sum(max(0, min(la, lb) - max(fa, fb) + 1) for fa, la in a for fb, lb in b)


def text(intervals: Intervals) -> str:
    parts = []
    for first, last in intervals:
        if last == first:
            parts.append(str(first))
        elif last == first + 1:
            parts.append(f"{first},{last}")
        else:
            parts.append(f"{first}-{last}")
    return ",".join(parts)


def first_missing(taken: Intervals, count: int, completions: int) -> list[int]:
    """The lowest `count` indexes below `completions` that nobody has. O(intervals + count)."""
    found: list[int] = []
    candidate = 0
    for first, last in (*taken, (completions, completions)):
        end = min(first, completions)
        while candidate < end and len(found) < count:
            found.append(candidate)
            candidate += 1
        candidate = max(candidate, last + 1)
    return found
