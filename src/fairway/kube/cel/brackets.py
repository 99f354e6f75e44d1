"""Where brackets and strings of an expression end."""

from __future__ import annotations

_CLOSES = {"(": ")", "[": "]", "{": "}"}
_OPENS = {closes: opens for opens, closes in _CLOSES.items()}


def closing(text: str, opening: int) -> int:
    """Where the bracket that opens at `opening` closes, strings skipped; -1 if nowhere."""
    opens, closes = text[opening], _CLOSES[text[opening]]
    depth, index = 0, opening
    while index < len(text):
        char = text[index]
        if char in "'\"":
            index = string_end(text, index)
        elif char == opens:
            depth += 1
        elif char == closes:
            depth -= 1
            if depth == 0:
                return index
        index += 1
    return -1


def string_end(text: str, start: int) -> int:
    """Where the string that begins at `start` ends: its closing quote."""
    quote, index = text[start], start + 1
    while index < len(text) and text[index] != quote:
        index += 2 if text[index] == "\\" else 1
    return index


def receiver_start(text: str, dot: int) -> int:
    """Where the value begins whose member the `.` at `dot` names: `a.b['x'].c(1)` as a whole."""
    opened = _openings(text)
    index = dot
    while index > 0:
        char = text[index - 1]
        if char in _OPENS:
            index = opened.get(index - 1, index - 1)
        elif char.isalnum() or char in "_.?":
            index -= 1
        else:
            break
    return index


def arguments(text: str) -> list[str]:
    """What stands between the commas of a call, brackets and strings kept whole."""
    found, start, index = [], 0, 0
    while index < len(text):
        char = text[index]
        if char in "'\"":
            index = string_end(text, index)
        elif char in _CLOSES:
            end = closing(text, index)
            index = len(text) if end < 0 else end
        elif char == ",":
            found.append(text[start:index])
            start = index + 1
        index += 1
    return [*found, text[start:]]


def _openings(text: str) -> dict[int, int]:
    """Closing bracket → its opening one."""
    found: dict[int, int] = {}
    stack: list[int] = []
    index = 0
    while index < len(text):
        char = text[index]
        if char in "'\"":
            index = string_end(text, index)
        elif char in _CLOSES:
            stack.append(index)
        elif char in _OPENS and stack:
            found[index] = stack.pop()
        index += 1
    return found
