"""What values does this JSON text hold, and on which line does each field stand?

Decoding is msgspec's, at hundreds of megabytes a second; lines are looked up afterwards, only when a message
needs one, by stepping over siblings at the speed of the standard library's scanner.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from fairway.kube.fieldpath import Path, TextProblem, value_text
from fairway.kube.yamltext import MAX_DEPTH

# Up to this size a text may be hand-written, and a second, slower pass looks for duplicate keys. Dumps that
# machines write are larger and have none.
STRICT_BYTES = 8 * 1024 * 1024

_SPACE = re.compile(r"[ \t\n\r]*")
_BYTE = re.compile(r"\(byte (\d+)\)")
_DECODER = json.JSONDecoder(strict=False)


def read_values(data: bytes) -> list[tuple[Any, int]]:
    """The values of the text, one after another as kubectl takes them, with the index where each starts.

    Raises: TextProblem.
    """
    try:
        values = _decode(data)
    except RecursionError:
        raise TextProblem(0, (), "", f"nested more than {MAX_DEPTH} levels deep: refused") from None
    for value, _ in values:
        if _is_too_deep(value):
            raise TextProblem(0, (), "", f"nested more than {MAX_DEPTH} levels deep: refused")
    if len(data) <= STRICT_BYTES:
        _refuse_duplicate_keys(data.decode())
    return values


def _decode(data: bytes) -> list[tuple[Any, int]]:
    try:
        return [(msgspec.json.decode(data), 0)]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if "trailing characters" in str(error):
            return _decode_stream(data.decode())
        raise _json_problem(data, str(error)) from None


def _decode_stream(text: str) -> list[tuple[Any, int]]:
    values = []
    at = _skip_space(text, 0)
    while at < len(text):
        try:
            value, end = _DECODER.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise TextProblem(
                error.lineno, (), value_text(text[error.pos :][:40]), f"expected valid JSON: {error.msg}"
            ) from None
        values.append((value, at))
        at = _skip_space(text, end)
    return values


def _json_problem(data: bytes, message: str) -> TextProblem:
    match = _BYTE.search(message)
    at = int(match.group(1)) if match else len(data)
    line = data.count(b"\n", 0, at) + 1
    near = data[at : at + 40].decode(errors="replace").partition("\n")[0]
    text = _BYTE.sub("", message).removeprefix("JSON is malformed:").strip()
    if text == "Input data was truncated":
        text = "the text ends too early"
    return TextProblem(line, (), value_text(near) if near else "", f"expected valid JSON: {text}")


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = (
            [
                child
                for node in level
                for child in (node.values() if type(node) is dict else node)
                if type(child) is dict or type(child) is list
            ]
            if level and type(level[0]) in (dict, list)
            else []
        )
        if not level:
            return False
    return True


class _DuplicateKey(Exception):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(key)
            seen.add(key)
    return members


def _refuse_duplicate_keys(text: str) -> None:
    at = _skip_space(text, 0)
    decoder = json.JSONDecoder(object_pairs_hook=_unique, strict=False)
    try:
        while at < len(text):
            at = _skip_space(text, decoder.raw_decode(text, at)[1])
    except _DuplicateKey as error:
        key = str(error)
        line, path = _find_duplicate(text, _skip_space(text, at), (), key) or (0, (key,))
        raise TextProblem(
            line, path, value_text(key), "duplicate key: this object has it already; keep one"
        ) from None


def _find_duplicate(text: str, at: int, path: Path, key: str) -> tuple[int, Path] | None:
    """The first object below `at` that has this key twice: the line and path of the second."""
    if text[at] == "[":
        for index, child in enumerate(_items(text, at)):
            if (found := _find_duplicate(text, child, (*path, index), key)) is not None:
                return found
    elif text[at] == "{":
        seen = False
        for name, key_at, child in _members(text, at):
            if name == key and seen:
                return text.count("\n", 0, key_at) + 1, (*path, key)
            seen = seen or name == key
            if (found := _find_duplicate(text, child, (*path, name), key)) is not None:
                return found
    return None


class JsonLines:
    """Lines of fields in one JSON text. Keeps the text, and where the items of a `List` start."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._text: str | None = None
        self._items: dict[int, list[int]] = {}

    def line_of(self, start: int, path: Path) -> int:
        """The line of the field at `path` in the value that starts at `start`, or of its nearest ancestor."""
        if self._text is None:
            self._text = self._data.decode()
        text = self._text
        at = line_at = start
        steps = list(path)
        if len(steps) >= 2 and steps[0] == "items" and isinstance(steps[1], int):
            offsets = self._item_offsets(start)
            if steps[1] < len(offsets):
                at = line_at = offsets[steps[1]]
                steps = steps[2:]
        for step in steps:
            found = _step_into(text, at, step)
            if found is None:
                break
            line_at, at = found
        return text.count("\n", 0, line_at) + 1

    def _item_offsets(self, start: int) -> list[int]:
        if start not in self._items:
            assert self._text is not None
            found = _step_into(self._text, start, "items")
            self._items[start] = list(_items(self._text, found[1])) if found else []
        return self._items[start]


def _step_into(text: str, at: int, step: str | int) -> tuple[int, int] | None:
    """(where the key or item stands, where its value starts), or None where there is no such step."""
    if text[at] == "[":
        for index, child in enumerate(_items(text, at)):
            if index == step:
                return child, child
    elif text[at] == "{":
        for name, key_at, child in _members(text, at):
            if name == step:
                return key_at, child
    return None


def _members(text: str, at: int) -> Any:
    """(name, index of the name, index of the value) of each member of the object at `at`."""
    at = _skip_space(text, at + 1)
    while text[at] == '"':
        name, end = _DECODER.raw_decode(text, at)
        value_at = _skip_space(text, _skip_space(text, end) + 1)
        yield name, at, value_at
        at = _skip_space(text, _DECODER.raw_decode(text, value_at)[1])
        if text[at] != ",":
            return
        at = _skip_space(text, at + 1)


def _items(text: str, at: int) -> Any:
    """The index of each item of the array at `at`."""
    at = _skip_space(text, at + 1)
    while text[at] != "]":
        yield at
        at = _skip_space(text, _DECODER.raw_decode(text, at)[1])
        if text[at] != ",":
            return
        at = _skip_space(text, at + 1)


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
