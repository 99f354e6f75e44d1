"""Strings: cel-go's `strings` extension (version 2), and Kubernetes' `find` and `findAll`.

Source: cel-go ext/strings.go, ext/formatting.go; apiserver pkg/cel/library/regex.go (v1.36).
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from fairway.kube import goregexp
from fairway.kube.cel.functions.overloads import (
    INT,
    LIST,
    STRING,
    STRINGS,
    FunctionError,
    member,
    plain,
)

MAX_LENGTH = 1_000_000
"""Characters a function may return (own limit: keeps `replace` from filling the memory)."""


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise FunctionError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if part == "":
        return start
    if not 0 <= start <= len(text):
        raise FunctionError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    if not 0 <= start <= len(text):
        raise FunctionError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        end = len(text)
    elif start > end:
        raise FunctionError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise FunctionError(f"index out of range: {index}")
    return text[start:end]


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    if len(text) + text.count(old) * len(new) > MAX_LENGTH:
        raise FunctionError("operation interrupted: result too long")
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    parts = list(text) if separator == "" else text.split(separator, count - 1 if count > 0 else -1)
    if separator == "" and 0 < count < len(parts):
        return [*parts[: count - 1], "".join(parts[count - 1 :])]
    return parts


def _lower(text: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in text)


def _upper(text: str) -> str:
    return "".join(c.upper() if c.isascii() else c for c in text)


def _trim(text: str) -> str:
    return text.strip()


def _join(parts: list[Any], separator: str = "") -> str:
    if not all(isinstance(p, str) for p in parts):
        raise FunctionError("no such overload")
    return separator.join(parts)


def _quote(text: str) -> str:
    escapes = {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
    return f'"{"".join(escapes.get(c, c) for c in text)}"'


_VERB = re.compile(r"%(?:(%)|(?:\.(\d+))?([a-zA-Z]))")


def format_text(pattern: str, arguments: list[Any]) -> str:
    """`'%s of %d'.format([x, 3])`."""
    left = list(arguments)

    def replaced(match: re.Match[str]) -> str:
        if match[1]:
            return "%"
        if not left:
            raise FunctionError(f"index {len(arguments)} out of range")
        return _formatted(match[3], int(match[2]) if match[2] else None, left.pop(0))

    return _VERB.sub(replaced, pattern)


def _formatted(verb: str, precision: int | None, value: Any) -> str:
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if verb == "s":
        return shown(value)
    if verb == "d" and is_int:
        return str(value)
    if verb in "fe" and isinstance(value, int | float):
        return f"{float(value):.{6 if precision is None else min(precision, 100)}{verb}}"
    if verb == "b" and isinstance(value, int):
        return f"{value:b}"
    if verb == "o" and is_int:
        return f"{value:o}"
    if verb in "xX":
        if is_int:
            return f"{value:{verb}}"
        if isinstance(value, str | bytes):
            digits = (value.encode() if isinstance(value, str) else bytes(value)).hex()
            return digits.upper() if verb == "X" else digits
    if verb in "sdfeboxX":
        raise FunctionError(
            f"error during formatting: {verb} clause cannot be used on {type(value).__name__}"
        )
    raise FunctionError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


def shown(value: Any) -> str:
    """A value as `%s` prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:g}" if value != int(value) else str(int(value))
    if isinstance(value, list):
        return f"[{', '.join(shown(v) for v in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{shown(k)}: {shown(v)}' for k, v in sorted(value.items()))}}}"
    return str(value)


def _compiled(pattern: str) -> goregexp.Pattern:
    try:
        return goregexp.compiled(pattern)
    except goregexp.RegexpError as bad:
        raise FunctionError(f"Illegal regex: {bad}") from bad


def _find(text: str, pattern: str) -> str:
    found = _compiled(pattern).search(text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = (m[0] for m in _compiled(pattern).finditer(text))
    return list(found if limit < 0 else islice(found, limit))


_S, _SS = (STRING,), (STRING, STRING)

OVERLOADS = (
    member("charAt", (STRING, INT), STRING, _char_at),
    member("indexOf", _SS, INT, _index_of),
    member("indexOf", (STRING, STRING, INT), INT, _index_of),
    member("lastIndexOf", _SS, INT, _last_index_of),
    member("lastIndexOf", (STRING, STRING, INT), INT, _last_index_of),
    member("substring", (STRING, INT), STRING, _substring),
    member("substring", (STRING, INT, INT), STRING, _substring),
    member("replace", (STRING, STRING, STRING), STRING, _replace),
    member("replace", (STRING, STRING, STRING, INT), STRING, _replace),
    member("split", _SS, STRINGS, _split),
    member("split", (STRING, STRING, INT), STRINGS, _split),
    member("lowerAscii", _S, STRING, _lower),
    member("upperAscii", _S, STRING, _upper),
    member("trim", _S, STRING, _trim),
    member("join", (LIST,), STRING, _join),
    member("join", (LIST, STRING), STRING, _join),
    member("format", (STRING, LIST), STRING, format_text),
    plain("strings.quote", _S, STRING, _quote),
    member("find", _SS, STRING, _find),
    member("findAll", _SS, STRINGS, _find_all),
    member("findAll", (STRING, STRING, INT), STRINGS, _find_all),
)

__all__ = ["OVERLOADS", "format_text", "shown"]
