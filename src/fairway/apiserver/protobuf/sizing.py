"""How many bytes is an object in Kubernetes' protobuf, as etcd keeps it?

Go's generated code writes every field that is no pointer, zero or not; pointers, lists and maps as far as they are
there. So an object is counted by its type, not by what its JSON says.

Source: k8s.io/api generated.pb.go Size (v1.36); apimachinery runtime/serializer/protobuf (the envelope).
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairway.apiserver.protobuf.numbers import fields_of, message_of
from fairway.kube.objects import Obj
from fairway.kube.schema.node import (
    ARRAY,
    BOOLEAN,
    BYTES,
    INT_OR_STRING,
    INTEGER,
    MICRO_TIME,
    OBJECT,
    QUANTITY,
    STRING,
    TIME,
    Schema,
)
from fairway.kube.timestamps import SECOND_US, parse_rfc3339

# `k8s\0`, and two empty texts of the envelope: encoding and type of the content.
_ENVELOPE = 4 + 2 + 2
# A time's seconds (five bytes until 2106) and no nanoseconds, each with its tag.
_TIME = 6 + 2


def size_of(obj: Obj, schema: Schema) -> int:
    """O(fields of its types)."""
    names = 2 + len(obj["apiVersion"]) + 2 + len(obj["kind"])
    return (
        _ENVELOPE + 1 + _delimited(names) + 1 + _delimited(_message(obj, message_of(schema.go_type), schema))
    )


def _message(obj: dict[str, Any], message: str, schema: Schema) -> int:
    size = 0
    for number, field in fields_of(message).items():
        tag = _varint(number << 3)
        if field.embedded:
            size += tag + _delimited(_message(obj, field.embedded, schema))
            continue
        below = schema.properties.get(field.name)
        if below is None:
            continue
        value = obj.get(field.name)
        if below.type == ARRAY and below.items is not None:
            size += sum(tag + _value(item, below.items) for item in value or ())
        elif below.type == OBJECT and below.values is not None:
            size += sum(tag + _delimited(_entry(k, v, below.values)) for k, v in (value or {}).items())
        elif value is not None or not (field.is_pointer or below.format == BYTES):
            size += tag + _value(value, below)
    return size


def _entry(key: str, value: Any, schema: Schema) -> int:
    if schema.type == ARRAY and schema.items is not None:
        # A list as a map's value is a message of its own.
        return 1 + _text(key) + 1 + _delimited(sum(1 + _value(item, schema.items) for item in value or ()))
    return 1 + _text(key) + 1 + _value(value, schema)


def _value(value: Any, schema: Schema) -> int:
    """A value with its length in front, where it has one."""
    if schema.format == QUANTITY:
        return _delimited(0 if value is None else 1 + _text(str(value)))
    if schema.format == INT_OR_STRING:
        text, number = (value, 0) if isinstance(value, str) else ("", value or 0)
        return _delimited(2 + 1 + _varint(number) + 1 + _text(text))
    if schema.format in (TIME, MICRO_TIME):
        return _delimited(_TIME - 1 + _varint(parse_rfc3339(value) % SECOND_US * 1000) if value else 0)
    if schema.format == BYTES:
        text = value or ""
        return _delimited(len(text) * 3 // 4 - text.count("="))
    if schema.type == STRING:
        return _text(value or "")
    if schema.type == BOOLEAN:
        return 1
    if schema.type == INTEGER:
        return _varint(int(value or 0))
    message = message_of(schema.go_type)
    if fields_of(message):
        return _delimited(_message(value or {}, message, schema))
    return _delimited(0 if value is None else 1 + _delimited(len(msgspec.json.encode(value))))


def _text(text: str) -> int:
    return _delimited(len(text.encode("utf-8", "surrogatepass")))


def _delimited(size: int) -> int:
    return _varint(size) + size


def _varint(value: int) -> int:
    return 10 if value < 0 else max((value.bit_length() + 6) // 7, 1)
