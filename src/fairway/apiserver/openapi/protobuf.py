"""OpenAPI 2 as protobuf: the only form kubectl reads it in.

Old kubectls (Debian's 1.20) validate manifests by this document, and look up in it whether dry-run is known. So it
carries the definitions, and the paths with their parameters' names and `x-kubernetes-group-version-kind`; answers
and descriptions of operations are left out.

Source: field numbers of gnostic-models openapiv2/OpenAPIv2.proto.
"""

from __future__ import annotations

import json
from typing import Any

# Asked for with `@v1.0`, which is no valid media type, and answered with a dot: as kube-openapi does.
MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def encode(document: dict[str, Any]) -> bytes:
    """The bytes of an `openapi.v2.Document`."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(_message(2, _named(path, _path(item))) for path, item in document["paths"].items())
    definitions = b"".join(
        _message(1, _named(name, _schema(body))) for name, body in document["definitions"].items()
    )
    return _text(1, document["swagger"]) + _message(2, info) + _message(8, paths) + _message(9, definitions)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode())


def _flag(field: int, value: Any) -> bytes:
    return _varint(field << 3) + b"\x01" if value else b""


def _named(name: str, body: bytes) -> bytes:
    return _text(1, name) + _message(2, body)


def _any(value: Any) -> bytes:
    """An `Any`: its YAML text, of which JSON is a part."""
    return _text(2, json.dumps(value, ensure_ascii=False) + "\n")


def _extensions(field: int, node: dict[str, Any]) -> bytes:
    keys = [key for key in node if key.startswith("x-")]
    return b"".join(_message(field, _named(key, _any(node[key]))) for key in keys)


def _schema(node: dict[str, Any]) -> bytes:
    out = _text(1, node["$ref"]) if "$ref" in node else b""
    out += b"".join(
        _text(field, node[key])
        for field, key in ((2, "format"), (4, "description"), (13, "pattern"))
        if node.get(key)
    )
    out += b"".join(_text(19, name) for name in node.get("required") or ())
    out += b"".join(_message(20, _any(value)) for value in node.get("enum") or ())
    values = node.get("additionalProperties")
    if isinstance(values, dict):
        out += _message(21, _message(1, _schema(values)))
    elif values is not None:
        out += _message(21, _flag(2, values))
    if node.get("type"):
        out += _message(22, _text(1, node["type"]))
    if isinstance(node.get("items"), dict):
        out += _message(23, _message(1, _schema(node["items"])))
    if node.get("properties"):
        members = (_message(1, _named(name, _schema(body))) for name, body in node["properties"].items())
        out += _message(25, b"".join(members))
    return out + _extensions(31, node)


def _path(item: dict[str, Any]) -> bytes:
    out = b""
    for method, field in _METHODS.items():
        if method in item:
            out += _message(field, _operation(item[method]))
    return out


def _operation(operation: dict[str, Any]) -> bytes:
    out = _text(5, operation["operationId"])
    for parameter in operation["parameters"]:
        if parameter["in"] == "query":
            # ParametersItem.parameter.non_body_parameter.query_parameter_sub_schema
            held = _text(2, "query") + _text(4, parameter["name"]) + _text(6, parameter["type"])
            out += _message(8, _message(1, _message(2, _message(3, held))))
    return out + _extensions(13, operation)
