"""Could the API server read this object, and which of its fields would it not know?

Two different refusals, in Go's own words. A wrong type stops the decoder: `json: cannot unmarshal string into Go
struct field DeploymentSpec.spec.replicas of type int32`. Unknown and duplicate fields are collected and, by
`fieldValidation`, refused, warned of or ignored. Go names the struct that holds the field and the path without
list indexes; strict errors have indexes.

Source: encoding/json decode.go; sigs.k8s.io/json; apimachinery runtime/serializer/json (v1.36).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

from fairway.kube import quantity
from fairway.kube.fieldpath import Path, path_text
from fairway.kube.objects import Obj
from fairway.kube.schema.node import (
    ARRAY,
    BOOLEAN,
    BYTES,
    INT_OR_STRING,
    INTEGER,
    MICRO_TIME,
    NUMBER,
    OBJECT,
    QUANTITY,
    STRING,
    TIME,
    Schema,
    object_meta_schema,
)
from fairway.kube.schema.structural import META_FIELDS

# Source: sigs.k8s.io/json keeps at most this many strict errors.
_MAX_STRICT_ERRORS = 100
_LIMITS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_TIME = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]\d\d:\d\d)",
    re.ASCII,
)
_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
# Fields whose Go type is a name for text. Source: k8s.io/api types.go (v1.36).
_TEXT_TYPES = {
    "PodSpec.restartPolicy": "v1.RestartPolicy",
    "PodSpec.dnsPolicy": "v1.DNSPolicy",
    "PodSpec.preemptionPolicy": "v1.PreemptionPolicy",
    "Container.imagePullPolicy": "v1.PullPolicy",
    "Container.terminationMessagePolicy": "v1.TerminationMessagePolicy",
    "ContainerPort.protocol": "v1.Protocol",
    "ServicePort.protocol": "v1.Protocol",
    "ServiceSpec.type": "v1.ServiceType",
    "Toleration.operator": "v1.TolerationOperator",
    "Toleration.effect": "v1.TaintEffect",
    "Taint.effect": "v1.TaintEffect",
    "Secret.type": "v1.SecretType",
    "PodStatus.phase": "v1.PodPhase",
    "JobSpec.completionMode": "v1.CompletionMode",
    "CronJobSpec.concurrencyPolicy": "v1.ConcurrencyPolicy",
    "DeploymentStrategy.type": "v1.DeploymentStrategyType",
    "ObjectMeta.uid": "types.UID",
    "OwnerReference.uid": "types.UID",
}
_QUANTITY_ERROR = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class _Unreadable(Exception):
    """The first wrong type: decoding goes no further."""


def decode_error(obj: Obj, schema: Schema) -> str | None:
    """What Go's decoder says of the first wrong type; None where it can read the object."""
    if schema.is_custom:
        return metadata_error(obj)
    try:
        _decode(obj, schema, "", schema, "")
    except _Unreadable as error:
        return str(error)
    return None


def metadata_error(obj: Obj) -> str | None:
    """Custom objects are read loosely: only their metadata has types."""
    meta = obj.get("metadata")
    try:
        if meta is not None:
            _decode(meta, object_meta_schema(), "metadata", object_meta_schema(), "")
    except _Unreadable as error:
        return str(error)
    return None


def _decode(value: Any, schema: Schema, path: str, owner: Schema, name: str) -> None:
    """Raises: _Unreadable. `owner` is the struct that holds the field `name`, `path` the names down to it."""
    if value is None:
        return
    kind = schema.type
    if kind == OBJECT:
        if type(value) is not dict:
            raise _mismatch(value, schema, path, owner, name)
        if schema.properties:
            fields = schema.properties
            for key, member in value.items():
                declared = fields.get(key)
                if declared is not None and member is not None:
                    _decode(member, declared, f"{path}.{key}" if path else key, schema, key)
        elif schema.values is not None:
            held = schema.values
            if held.type == STRING and not held.format:
                for member in value.values():
                    if type(member) is not str and member is not None:
                        raise _mismatch(member, held, path, owner, "")
                return
            for member in value.values():
                _decode(member, held, path, owner, "")
    elif kind == ARRAY:
        if type(value) is not list:
            raise _mismatch(value, schema, path, owner, name)
        if schema.items is not None:
            for item in value:
                _decode(item, schema.items, path, owner, "")
    elif kind:
        _decode_scalar(value, schema, path, owner, name)


def _decode_scalar(value: Any, schema: Schema, path: str, owner: Schema, name: str) -> None:
    kind, of_type = schema.type, type(value)
    if kind == STRING:
        if schema.format in _SPECIAL:
            _SPECIAL[schema.format](value, path, owner)
        elif of_type is not str:
            raise _mismatch(value, schema, path, owner, name)
    elif kind == INTEGER:
        low, high = _LIMITS.get(schema.format, _LIMITS["int64"])
        if of_type is not int or not low <= value <= high:
            raise _mismatch(value, schema, path, owner, name)
    elif kind == BOOLEAN:
        if of_type is not bool:
            raise _mismatch(value, schema, path, owner, name)
    elif kind == NUMBER and of_type not in (int, float):
        raise _mismatch(value, schema, path, owner, name)


def _decode_quantity(value: Any, _path: str, _owner: Schema) -> None:
    if type(value) is bool or not isinstance(value, (str, int, float)):
        raise _Unreadable(_QUANTITY_ERROR)
    try:
        quantity.of(value)
    except quantity.QuantityError:
        raise _Unreadable(_QUANTITY_ERROR) from None


def _decode_int_or_string(value: Any, path: str, owner: Schema) -> None:
    if type(value) is str:
        return
    low, high = _LIMITS["int32"]
    if type(value) is not int or not low <= value <= high:
        raise _unlike(_json_kind(value, INTEGER), path, owner, "int32")


def _decode_time(value: Any, path: str, owner: Schema, layout: str = _TIME_LAYOUT) -> None:
    if type(value) is not str:
        raise _unlike(_json_kind(value, STRING), path, owner, "string")
    if _TIME.fullmatch(value) is None:
        raise _Unreadable(
            f'parsing time {json.dumps(value)} as "{layout}": cannot parse {json.dumps(value)} as "2006"'
        )


def _decode_micro_time(value: Any, path: str, owner: Schema) -> None:
    _decode_time(value, path, owner, _MICRO_LAYOUT)


def _decode_bytes(value: Any, path: str, owner: Schema) -> None:
    if type(value) is not str:
        raise _unlike(_json_kind(value, STRING), path, owner, "[]uint8")
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        raise _Unreadable(f"illegal base64 data at input byte {_bad_base64_byte(value)}") from None


def _bad_base64_byte(value: str) -> int:
    """Where Go's decoder stops: the first foreign character, or the quantum that stays incomplete."""
    for index, char in enumerate(value):
        if not (char.isascii() and (char.isalnum() or char in "+/")):
            if char == "=" and index % 4 >= 2:
                return index + 1
            return index
    return len(value) // 4 * 4


_SPECIAL = {
    QUANTITY: _decode_quantity,
    INT_OR_STRING: _decode_int_or_string,
    TIME: _decode_time,
    MICRO_TIME: _decode_micro_time,
    BYTES: _decode_bytes,
}


def _mismatch(value: Any, schema: Schema, path: str, owner: Schema, name: str) -> _Unreadable:
    struct = _struct_name(owner)
    go_type = _TEXT_TYPES.get(f"{struct}.{name}") if schema.type == STRING else None
    return _unlike(_json_kind(value, schema.type), path, owner, go_type or _go_type(schema))


def _unlike(kind: str, path: str, owner: Schema, go_type: str) -> _Unreadable:
    return _Unreadable(
        f"json: cannot unmarshal {kind} into Go struct field {_struct_name(owner)}.{path} of type {go_type}"
    )


def _struct_name(owner: Schema) -> str:
    return owner.go_type.rpartition(".")[2]


def _json_kind(value: Any, wanted: str) -> str:
    """What Go calls a JSON value. A number that does not fit a number type is quoted in full."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return f"number {json.dumps(value)}" if wanted in (INTEGER, NUMBER) else "number"
    names: dict[type, str] = {str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _go_type(schema: Schema) -> str:
    if schema.type == ARRAY:
        return "[]" + (_go_type(schema.items) if schema.items else "interface {}")
    if schema.type == OBJECT and schema.values is not None and not schema.properties:
        if schema.values.format == QUANTITY:
            return "v1.ResourceList"
        return "map[string]" + ("[]uint8" if schema.values.format == BYTES else _go_type(schema.values))
    if schema.go_type:
        *_, package, name = schema.go_type.split(".")
        return f"{package}.{name}"
    if schema.type == INTEGER:
        return schema.format or "int64"
    return {STRING: "string", BOOLEAN: "bool", NUMBER: "float64"}.get(schema.type, "interface {}")


# Strict errors


def unknown_fields(obj: Obj, schema: Schema) -> list[str]:
    """Each field the schema does not know: `unknown field "spec.containers[0].resorces"`."""
    return [f'unknown field "{path_text(path)}"' for path in unknown_paths(obj, schema)]


def unknown_paths(obj: Obj, schema: Schema) -> list[Path]:
    """Where the fields stand that the schema does not know, as many as the API server names."""
    found: list[Path] = []
    _find_unknown(obj, schema, (), found)
    if schema.is_custom:
        found.sort(key=path_text)  # the pruning of custom objects reports in order
    return found[:_MAX_STRICT_ERRORS]


def _find_unknown(value: Any, schema: Schema, path: Path, found: list[Path]) -> None:
    if type(value) is dict:
        fields, held = schema.properties, schema.values
        if not fields and (held is None or held.type not in (OBJECT, ARRAY)) and _keeps_all(schema):
            return
        for key, member in value.items():
            declared = fields.get(key) or held
            if declared is not None:
                if type(member) is dict or type(member) is list:
                    _find_unknown(member, declared, (*path, key), found)
            elif not schema.is_open and not (schema.is_embedded and key in META_FIELDS):
                found.append((*path, key))
    elif type(value) is list and schema.items is not None:
        items = schema.items
        for index, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                _find_unknown(item, items, (*path, index), found)


def _keeps_all(schema: Schema) -> bool:
    return schema.is_open or schema.values is not None or schema.type != OBJECT or not schema.is_custom


def strict_error(found: list[str]) -> str:
    """The sentence of a strict refusal."""
    return "strict decoding error: " + ", ".join(found)
