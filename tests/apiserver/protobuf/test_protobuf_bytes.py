"""Objects as Go writes them, byte by byte: they are read back as they were, and counted as they are long."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fairway.apiserver.protobuf.numbers import fields_of, message_of
from fairway.apiserver.protobuf.reading import read
from fairway.apiserver.protobuf.sizing import size_of
from fairway.apiserver.statuses import StatusError
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
from fairway.kube.timestamps import parse_rfc3339

# How Go writes: every field that is no pointer, lists and maps as far as they go. A tag is number << 3 | wire type.


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def tagged(number: int, data: bytes, wire: int = 2) -> bytes:
    return varint(number << 3 | wire) + (varint(len(data)) if wire == 2 else b"") + data


def message(obj: Obj, name: str, schema: Schema) -> bytes:
    out = b""
    for number, field in fields_of(name).items():
        if field.embedded:
            out += tagged(number, message(obj, field.embedded, schema))
            continue
        below = schema.properties.get(field.name)
        if below is None:
            continue
        value = obj.get(field.name)
        if below.type == ARRAY and below.items is not None:
            out += b"".join(written(number, item, below.items) for item in value or ())
        elif below.type == OBJECT and below.values is not None:
            for key, item in (value or {}).items():
                if below.values.type == ARRAY and below.values.items is not None:
                    listed = b"".join(written(1, one, below.values.items) for one in item)
                    entry = tagged(2, listed)
                else:
                    entry = written(2, item, below.values)
                out += tagged(number, tagged(1, key.encode()) + entry)
        elif value is not None or not (field.is_pointer or below.format == BYTES):
            out += written(number, value, below)
    return out


def written(number: int, value: Any, schema: Schema) -> bytes:
    if schema.format == QUANTITY:
        return tagged(number, tagged(1, str(value).encode()) if value is not None else b"")
    if schema.format == INT_OR_STRING:
        is_text = isinstance(value, str)
        text, count = (value.encode(), 0) if is_text else (b"", value or 0)
        return tagged(number, tagged(1, varint(is_text), 0) + tagged(2, varint(count), 0) + tagged(3, text))
    if schema.format in (TIME, MICRO_TIME):
        if not value:
            return tagged(number, b"")
        seconds, rest = divmod(parse_rfc3339(value), 1_000_000)
        return tagged(number, tagged(1, varint(seconds), 0) + tagged(2, varint(rest * 1000), 0))
    if schema.format == BYTES:
        return tagged(number, base64.b64decode(value))
    if schema.type == STRING:
        return tagged(number, (value or "").encode())
    if schema.type in (BOOLEAN, INTEGER):
        return tagged(number, varint(int(value or 0)), 0)
    below = message_of(schema.go_type)
    if fields_of(below):
        return tagged(number, message(value or {}, below, schema))
    return tagged(
        number, b"" if value is None else tagged(1, json.dumps(value, separators=(",", ":")).encode())
    )


def wrapped(obj: Obj, raw: bytes) -> bytes:
    names = tagged(1, obj["apiVersion"].encode()) + tagged(2, obj["kind"].encode())
    return b"k8s\x00" + tagged(1, names) + tagged(2, raw) + tagged(3, b"") + tagged(4, b"")


def meta(name: str, **fields: Any) -> Obj:
    return {"name": name, "namespace": "default", "creationTimestamp": "2026-01-05T08:00:00Z", **fields}


OBJECTS: dict[str, Obj] = {
    "Pod": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(
            "p" * 130,
            labels={"a": "b", "c": "é"},
            generation=300,
            deletionGracePeriodSeconds=0,
            ownerReferences=[{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u", "controller": False}],
            managedFields=[{"manager": "m", "fieldsV1": {"f:spec": {"f:x": {}}}}],
        ),
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "stdin": True,
                    "resources": {"limits": {"cpu": "500m", "nvidia.com/gpu": "1"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
                    "readinessProbe": {"tcpSocket": {"port": 8080}},
                }
            ],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "s", "secret": {}}],
            "priority": -5,
            "activeDeadlineSeconds": 1 << 40,
            "securityContext": {"supplementalGroups": [1, 0, 70000], "runAsUser": 0},
        },
        "status": {"phase": "Running", "startTime": "2026-01-05T08:00:01Z"},
    },
    "Secret": {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta("s"),
        "data": {"a": "AQID", "b": "/w=="},
    },
    "Lease": {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": meta("l"),
        "spec": {"holderIdentity": "", "renewTime": "2026-01-05T08:00:00.123456Z"},
    },
    "ControllerRevision": {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": meta("r"),
        "data": {"spec": {"template": {"$patch": "replace"}}},
        "revision": 7,
    },
    "CertificateSigningRequest": {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": meta("c"),
        "spec": {
            "request": "AQI=",
            "signerName": "x/y",
            "usages": ["a"],
            "extra": {"k": ["one", "two"], "none": []},
        },
    },
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_is_read_as_it_was_written_and_is_as_long_as_it_says(kind: str) -> None:
    obj = OBJECTS[kind]
    schema = schema_for(obj["apiVersion"], kind)
    assert schema is not None
    data = wrapped(obj, message(obj, message_of(schema.go_type), schema))
    assert size_of(obj, schema) == len(data)
    found = read(data)
    assert without_empty(found) == without_empty(obj)


def without_empty(value: Any) -> Any:
    """Structs that are no pointers are written, and read, with nothing in them; Go's JSON says `{}` as well."""
    if isinstance(value, dict):
        found = {k: without_empty(v) for k, v in value.items()}
        return {k: v for k, v in found.items() if v not in ({}, [], None)}
    return [without_empty(v) for v in value] if isinstance(value, list) else value


def pod(spec: bytes) -> bytes:
    return wrapped({"apiVersion": "v1", "kind": "Pod"}, tagged(2, spec))


def test_numbers_of_a_list_may_come_packed() -> None:
    security = tagged(14, tagged(4, varint(1) + varint(0) + varint(-1)) + tagged(4, varint(9), 0))
    assert read(pod(security))["spec"]["securityContext"]["supplementalGroups"] == [1, 0, -1, 9]


def test_what_is_not_known_is_passed_over() -> None:
    unknown = (
        tagged(900, b"text")
        + tagged(901, b"\0" * 8, 1)
        + tagged(902, b"\0" * 4, 5)
        + tagged(903, varint(7), 0)
    )
    assert read(pod(unknown + tagged(3, b"Never")))["spec"] == {"restartPolicy": "Never"}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (tagged(2, b"\x1a\x09short"), "longer than its message"),
        (tagged(2, varint(3 << 3 | 2)), ""),
        (tagged(2, varint(3 << 3 | 4)), "unknown wire type 4"),
        (b"\xff" * 11, "longer than 64 bits"),
        (tagged(2, varint(7), 0), "a number where a message was expected"),
        (tagged(2, tagged(5, b"x")), "a message where a number was expected"),
        (tagged(2, tagged(3, b"\xff")), "utf-8"),
        (tagged(1, tagged(17, tagged(7, tagged(1, b"{")))), "embedded JSON"),
    ],
)
def test_broken_bytes_are_refused(raw: bytes, why: str) -> None:
    with pytest.raises(StatusError) as refused:
        read(wrapped({"apiVersion": "v1", "kind": "Pod"}, raw))
    assert refused.value.code == 400
    assert why in str(refused.value)
