"""Bytes to an object, by the schema of its kind.

Source: apimachinery runtime/serializer/protobuf (the envelope), k8s.io/api generated.proto (v1.36).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import msgspec

from fairway.apiserver.protobuf.numbers import fields_of, message_of
from fairway.apiserver.statuses import bad_request, unsupported_media_type
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
    schema_for,
)
from fairway.kube.timestamps import SECOND_US, rfc3339, rfc3339_micro

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ZEROS: tuple[Any, ...] = ("", 0, False, None)

Value = int | bytes


def read(body: bytes) -> Obj:
    """The object in an envelope.

    Raises: StatusError (400 for bytes that are none; 415 for a kind whose numbers are not known).
    """
    if not body.startswith(_MAGIC):
        raise bad_request("the body of the request is not protobuf of Kubernetes: it does not begin with k8s")
    try:
        type_meta, raw = _envelope(body[len(_MAGIC) :])
        names = dict(_fields(type_meta))
        api_version, kind = _text(names.get(1, b"")), _text(names.get(2, b""))
        schema = schema_for(api_version, kind)
        if schema is None or not fields_of(message_of(schema.go_type)):
            raise unsupported_media_type(("application/json", "application/yaml"))
        obj: Obj = {"apiVersion": api_version, "kind": kind}
        obj.update(_message(raw, message_of(schema.go_type), schema))
    except (IndexError, ValueError, UnicodeDecodeError) as broken:
        raise bad_request(f"the protobuf body of the request cannot be read: {broken}") from broken
    return obj


def _envelope(data: bytes) -> tuple[bytes, bytes]:
    """`runtime.Unknown`: typeMeta 1, raw 2."""
    type_meta = raw = b""
    for number, value in _fields(data):
        if number == 1:
            type_meta = _bytes(value)
        elif number == 2:
            raw = _bytes(value)
    return type_meta, raw


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif wire == _BYTES:
            length, at = _varint(data, at)
            if at + length > end:
                raise ValueError("a field is longer than its message")
            yield number, data[at : at + length]
            at += length
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
            yield number, data[at : at + size]
            at += size
        else:
            raise ValueError(f"unknown wire type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    shift = value = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _message(data: bytes, message: str, schema: Schema) -> dict[str, Any]:
    """A struct's fields; zeros are left out where Go would leave them out of JSON."""
    known = fields_of(message)
    out: dict[str, Any] = {}
    for number, value in _fields(data):
        field = known.get(number)
        if field is None:
            continue
        if field.embedded:
            out.update(_message(_bytes(value), field.embedded, schema))
            continue
        below = schema.properties.get(field.name)
        if below is None:
            continue
        _put(out, field.name, value, below, field.is_pointer)
    return out


def _put(out: dict[str, Any], name: str, value: Value, schema: Schema, is_pointer: bool) -> None:
    if schema.type == ARRAY and schema.items is not None:
        items = out.setdefault(name, [])
        if isinstance(value, bytes) and schema.items.type == INTEGER:
            items.extend(_packed(value))
        else:
            items.append(_value(value, schema.items))
        return
    if schema.type == OBJECT and schema.values is not None:
        entry = dict(_fields(_bytes(value)))
        out.setdefault(name, {})[_text(entry.get(1, b""))] = _map_value(entry.get(2, b""), schema.values)
        return
    read_value = _value(value, schema)
    if is_pointer or not (read_value in _ZEROS or read_value == {}):
        out[name] = read_value


def _map_value(value: Value, schema: Schema) -> Any:
    if schema.type == ARRAY and schema.items is not None:
        # A list as a map's value is a message of its own: `items` 1.
        return [_value(item, schema.items) for _, item in _fields(_bytes(value))]
    return _value(value, schema)


def _packed(data: bytes) -> list[int]:
    numbers, at = [], 0
    while at < len(data):
        number, at = _varint(data, at)
        numbers.append(_signed(number))
    return numbers


def _value(value: Value, schema: Schema) -> Any:
    if schema.format in _SPECIAL:
        return _SPECIAL[schema.format](value)
    if schema.type == STRING:
        return _text(value)
    if schema.type == BOOLEAN:
        return bool(value)
    if schema.type == INTEGER:
        return _signed(_int(value))
    message = message_of(schema.go_type)
    if fields_of(message):
        return _message(_bytes(value), message, schema)
    return _raw_json(_bytes(value))


def _raw_json(data: bytes) -> Any:
    """RawExtension, FieldsV1 and JSON: field 1 holds JSON."""
    raw = dict(_fields(data)).get(1, b"")
    if not raw:
        return {}
    try:
        return msgspec.json.decode(_bytes(raw))
    except msgspec.DecodeError as broken:
        raise ValueError(f"embedded JSON: {broken}") from broken


def _quantity(value: Value) -> str:
    return _text(dict(_fields(_bytes(value))).get(1, b"0"))


def _int_or_string(value: Value) -> int | str:
    said = dict(_fields(_bytes(value)))
    return _text(said.get(3, b"")) if said.get(1) else _signed(_int(said.get(2, 0)))


def _time(value: Value) -> str | None:
    said = dict(_fields(_bytes(value)))
    if not said:
        return None
    return rfc3339(_signed(_int(said.get(1, 0))) * SECOND_US)


def _micro_time(value: Value) -> str | None:
    said = dict(_fields(_bytes(value)))
    if not said:
        return None
    return rfc3339_micro(_signed(_int(said.get(1, 0))) * SECOND_US + _int(said.get(2, 0)) // 1000)


def _base64(value: Value) -> str:
    return base64.b64encode(_bytes(value)).decode()


_SPECIAL = {
    QUANTITY: _quantity,
    INT_OR_STRING: _int_or_string,
    TIME: _time,
    MICRO_TIME: _micro_time,
    BYTES: _base64,
}


def _bytes(value: Value) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message was expected")
    return value


def _int(value: Value) -> int:
    if isinstance(value, bytes):
        raise ValueError("a message where a number was expected")
    return value


def _text(value: Value) -> str:
    return _bytes(value).decode("utf-8")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
