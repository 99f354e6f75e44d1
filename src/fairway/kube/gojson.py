"""What does Go's decoder say of a text that is no JSON, and how does Go print what was one?

Source: encoding/json scanner.go (Go 1.24).
"""

from __future__ import annotations

import re
from typing import Any, Final

_BLANK: Final = " \t\r\n"
_END: Final = "unexpected end of JSON input"
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_DIGITS: Final = re.compile(r"\d+", re.ASCII)
_SHORT: Final = {"'": "'\\''", '"': "'\"'", "\n": "'\\n'", "\t": "'\\t'", "\r": "'\\r'"}
_WORDS: Final = {"t": "true", "f": "false", "n": "null"}
_HEX: Final = frozenset("0123456789abcdefABCDEF")


class _Wrong(Exception):
    """`args[0]` is what Go says."""


def json_error(text: str) -> str:
    """The first fault; nothing for JSON."""
    try:
        at = _blank(text, _value(text, _blank(text, 0)))
        if at < len(text):
            _fail(text, at, "after top-level value")
    except _Wrong as wrong:
        return str(wrong)
    except RecursionError:
        return "exceeded max depth"
    return ""


def _fail(text: str, at: int, context: str) -> None:
    if at >= len(text):
        raise _Wrong(_END)
    char = text[at]
    shown = _SHORT.get(char) or (f"'{char}'" if char.isprintable() else f"'\\x{ord(char):02x}'")
    raise _Wrong(f"invalid character {shown} {context}")


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _value(text: str, at: int) -> int:
    char = text[at : at + 1]
    if char == "{":
        return _members(text, at + 1)
    if char == "[":
        return _items(text, at + 1)
    if char == '"':
        return _string(text, at + 1)
    if char and char in "-0123456789":
        return _number(text, at)
    word = _WORDS.get(char)
    if word is None:
        _fail(text, at, "looking for beginning of value")
    assert word is not None
    for offset, wanted in enumerate(word):
        if text[at + offset : at + offset + 1] != wanted:
            _fail(text, at + offset, f"in literal {word} (expecting '{wanted}')")
    return at + len(word)


def _members(text: str, at: int) -> int:
    at = _blank(text, at)
    if text[at : at + 1] == "}":
        return at + 1
    while True:
        if text[at : at + 1] != '"':
            _fail(text, at, "looking for beginning of object key string")
        at = _blank(text, _string(text, at + 1))
        if text[at : at + 1] != ":":
            _fail(text, at, "after object key")
        at = _blank(text, _value(text, _blank(text, at + 1)))
        if text[at : at + 1] == "}":
            return at + 1
        if text[at : at + 1] != ",":
            _fail(text, at, "after object key:value pair")
        at = _blank(text, at + 1)


def _items(text: str, at: int) -> int:
    at = _blank(text, at)
    if text[at : at + 1] == "]":
        return at + 1
    while True:
        at = _blank(text, _value(text, at))
        if text[at : at + 1] == "]":
            return at + 1
        if text[at : at + 1] != ",":
            _fail(text, at, "after array element")
        at = _blank(text, at + 1)


def _string(text: str, at: int) -> int:
    while True:
        char = text[at : at + 1]
        if char == '"':
            return at + 1
        if not char or char < " ":
            _fail(text, at, "in string literal")
        if char == "\\":
            at += 1
            code = text[at : at + 1]
            if code == "u":
                for offset in range(1, 5):
                    if text[at + offset : at + offset + 1] not in _HEX:
                        _fail(text, at + offset, "in \\u hexadecimal character escape")
                at += 4
            elif not code or code not in 'bfnrt\\/"':
                _fail(text, at, "in string escape code")
        at += 1


def _number(text: str, at: int) -> int:
    found = _NUMBER.match(text, at)
    if found is None:
        _fail(text, at + 1, "in numeric literal")
    assert found is not None
    at = found.end()
    if text[at : at + 1] == ".":
        at = _digits(text, at + 1, "after decimal point in numeric literal")
    if text[at : at + 1] in ("e", "E"):
        at += 1
        if text[at : at + 1] in ("+", "-"):
            at += 1
        at = _digits(text, at, "in exponent of numeric literal")
    return at


def _digits(text: str, at: int, context: str) -> int:
    found = _DIGITS.match(text, at)
    if found is None:
        _fail(text, at, context)
    assert found is not None
    return found.end()


def go_text(value: Any) -> str:
    """A decoded JSON value as Go's `%+v` shows it: `map[spec:map[replicas:x]]`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{go_text(value[k])}" for k in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_text(item) for item in value) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
