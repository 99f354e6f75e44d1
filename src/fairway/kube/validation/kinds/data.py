"""ConfigMaps and Secrets.

Source: pkg/apis/core/validation/validation.go ValidateConfigMap, ValidateSecret (v1.36).
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import MapKey
from fairway.kube.objects import Obj, annotations_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds.metadata import object_meta, object_meta_update
from fairway.kube.validation.kinds.sameness import immutable, is_same

_MAX_BYTES = 1024 * 1024
_SEALED = "field is immutable when `immutable` is set"
_ACCOUNT = "kubernetes.io/service-account.name"
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


def config_map(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    _config_map(obj, out)


def _config_map(obj: Obj, out: Faults) -> None:
    data, binary, total = obj.get("data") or {}, obj.get("binaryData") or {}, 0
    for key, value in data.items():
        at = ("data", MapKey(key))
        out.invalids(at, key, names.config_key(key))
        if key in binary:
            out.invalid(at, key, "duplicate of key present in binaryData")
        total += len((value or "").encode())
    for key, value in binary.items():
        out.invalids(("binaryData", MapKey(key)), key, names.config_key(key))
        total += len(_bytes(value))
    if total > _MAX_BYTES:
        out.too_long(("",), _MAX_BYTES)


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value or "")
    except (binascii.Error, ValueError, TypeError):
        return b""


def config_map_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    _sealed(new, old, ("data", "binaryData"), out)
    object_meta(new, out, core=True)
    _config_map(new, out)


def _sealed(new: Obj, old: Obj, members: tuple[str, ...], out: Faults) -> None:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        out.forbidden(("immutable",), _SEALED)
    for name in members:
        if not is_same(new.get(name), old.get(name)):
            out.forbidden((name,), _SEALED)


def secret(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    _secret(obj, out)


def _secret(obj: Obj, out: Faults) -> None:
    texts = {key: (value or "").encode() for key, value in (obj.get("stringData") or {}).items()}
    data = {**{key: _bytes(value) for key, value in (obj.get("data") or {}).items()}, **texts}
    for key in data:
        out.invalids(("data", MapKey(key)), key, names.config_key(key))
    if sum(map(len, data.values())) > _MAX_BYTES:
        out.too_long(("data",), _MAX_BYTES)
    kind = obj.get("type") or ""
    if kind == "kubernetes.io/service-account-token":
        if not annotations_of(obj).get(_ACCOUNT):
            out.required(("metadata", "annotations", MapKey(_ACCOUNT)))
    elif kind in _JSON_KEYS:
        _json(data, _JSON_KEYS[kind], out)
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            out.required(("data", MapKey("username")))
            out.required(("data", MapKey("password")))
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            out.required(("data", MapKey("ssh-privatekey")))
    elif kind == "kubernetes.io/tls":
        for key in ("tls.crt", "tls.key"):
            if key not in data:
                out.required(("data", MapKey(key)))


def _json(data: dict[str, bytes], key: str, out: Faults) -> None:
    at = ("data", MapKey(key))
    if key not in data:
        out.required(at)
        return
    try:
        found = json.loads(data[key])
    except ValueError as wrong:
        out.invalid(at, "<secret contents redacted>", _go_words(data[key], wrong))
        return
    if not isinstance(found, (dict, type(None))):
        kinds = {str: "string", bool: "bool", int: "number", float: "number", list: "array"}
        said = f"json: cannot unmarshal {kinds[type(found)]} into Go value of type map[string]interface {{}}"
        out.invalid(at, "<secret contents redacted>", said)


def _go_words(text: bytes, wrong: ValueError) -> str:
    position = getattr(wrong, "pos", 0)
    rest = text.decode("utf-8", "replace")[position:]
    if not rest:
        return "unexpected end of JSON input"
    return f"invalid character '{rest[0]}' looking for beginning of value"


def secret_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    immutable(new.get("type") or "", old.get("type") or "", ("type",), out)
    _sealed(new, old, ("data",), out)
    object_meta(new, out, core=True)
    _secret(new, out)
