"""Lists of completed or failed indexes, such as `1,3-5,7`.

Source: pkg/apis/batch/validation/validation.go validateIndexesFormat, parseIndexInterval (v1.36).
"""

from __future__ import annotations

from fairway.kube.problem import quoted


class IndexesError(ValueError):
    """Not such a list; the text is upstream's."""


def intervals_of(text: str, completions: int) -> list[tuple[int, int]]:
    """Raises: IndexesError."""
    found: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        first, last = _interval(part, completions)
        if found and found[-1][1] >= first:
            raise IndexesError(f"non-increasing order, previous: {found[-1][1]}, current: {first}")
        found.append((first, last))
    return found


def count_of(text: str, completions: int) -> int:
    """How many indexes it names. Raises: IndexesError."""
    return sum(last - first + 1 for first, last in intervals_of(text, completions))


def _interval(text: str, completions: int) -> tuple[int, int]:
    limits = text.split("-")
    if len(limits) > 2:
        why = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise IndexesError(f"the fragment {quoted(text)} {why}")
    numbers = []
    for limit in limits:
        if not (limit.isascii() and limit.isdigit()):
            raise IndexesError(f"cannot convert string to integer for index: {quoted(limit)}")
        if int(limit) >= completions:
            raise IndexesError(f"too large index: {quoted(limit)}")
        numbers.append(int(limit))
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise IndexesError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]
