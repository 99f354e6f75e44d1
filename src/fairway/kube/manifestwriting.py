"""How is an object written down, so that kubectl, Fairway and people read the same thing back?

Key order is kept, lists stand flush with their key and ambiguous text is double-quoted, as kubectl prints it.
Text is plain only where no YAML reader, 1.1 or 1.2, could take it for a number, a time or a truth value.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import yaml
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from fairway.kube.objects import Obj
from fairway.kube.yamlscalars import WORDS

# Starts with a letter (or / or _), holds nothing YAML could take for syntax, and is not one of the words below.
_WORD = r"(?:[\w./@+=~^-]|:(?=[\w./@+=~^-]))"
_PLAIN = re.compile(rf"[A-Za-z/_]{_WORD}*(?: {_WORD}+)*", re.ASCII)
# Versions and identifiers may start with a digit: plain only where a letter rules out a number.
_DIGIT_FIRST = re.compile(r"[0-9]+[A-DF-Za-df-z][\w.-]*", re.ASCII)
_MAYBE_NUMBER = re.compile(r"0[xXbBoO][0-9a-fA-F_]*|[0-9][0-9_.:eE+-]*", re.ASCII)
# Text that may stand in a literal block: printable, no line that ends with a blank, the first not indented.
_LINE = r"[!-~\u00a1-\u1fff](?:[ -~\u00a1-\u1fff]*[!-~\u00a1-\u1fff])?"
_BLOCK = re.compile(rf"{_LINE}\n(?: *{_LINE}\n|\n)*(?: *{_LINE}\n?)?")

_MANY_COLUMNS = 2**30
_MAPPING_START = MappingStartEvent(None, None, True, flow_style=False)
_MAPPING_EMPTY = MappingStartEvent(None, None, True, flow_style=True)
_MAPPING_END = MappingEndEvent()
_SEQUENCE_START = SequenceStartEvent(None, None, True, flow_style=False)
_SEQUENCE_EMPTY = SequenceStartEvent(None, None, True, flow_style=True)
_SEQUENCE_END = SequenceEndEvent()


def write_yaml(objs: Iterable[Obj]) -> str:
    """The objects as YAML documents, `---` between them. `manifest.read_text` reads back equal objects."""
    out = io.StringIO()
    emitter: Any = getattr(yaml, "CDumper", yaml.Dumper)(
        out, width=_MANY_COLUMNS, allow_unicode=True, indent=2
    )
    emit = emitter.emit
    emit(StreamStartEvent())
    for index, obj in enumerate(objs):
        emit(DocumentStartEvent(explicit=index > 0))
        for event in _events(obj):
            emit(event)
        emit(DocumentEndEvent(explicit=False))
    emit(StreamEndEvent())
    return out.getvalue()


def write_json(objs: Iterable[Obj]) -> str:
    """One object as indented JSON, several as a `List`, as `kubectl get -o json` prints them."""
    listed = list(objs)
    value = listed[0] if len(listed) == 1 else {"apiVersion": "v1", "items": listed, "kind": "List"}
    return msgspec.json.format(msgspec.json.encode(value), indent=4).decode() + "\n"


def _events(value: Any) -> Iterator[Event]:
    if isinstance(value, dict):
        yield _MAPPING_START if value else _MAPPING_EMPTY
        for key, member in value.items():
            yield _scalar(key)
            yield from _events(member)
        yield _MAPPING_END
    elif isinstance(value, (list, tuple)):
        yield _SEQUENCE_START if value else _SEQUENCE_EMPTY
        for item in value:
            yield from _events(item)
        yield _SEQUENCE_END
    else:
        yield _scalar(value)


def _scalar(value: Any) -> ScalarEvent:
    if isinstance(value, str):
        return ScalarEvent(None, None, (True, True), value, style=text_style(value))
    if value is None or isinstance(value, bool):
        text = "null" if value is None else "true" if value else "false"
    else:
        text = repr(value)
    return ScalarEvent(None, None, (True, True), text)


def text_style(text: str) -> str:
    """How this text is written: plain (``), double-quoted (`"`) or as a literal block (`|`)."""
    if _PLAIN.fullmatch(text):
        return '"' if text in WORDS else ""
    if _DIGIT_FIRST.fullmatch(text) and not _MAYBE_NUMBER.fullmatch(text):
        return ""
    return "|" if "\n" in text and _BLOCK.fullmatch(text) else '"'
