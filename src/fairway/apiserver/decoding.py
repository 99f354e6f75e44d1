"""What did the client send? A body in JSON or YAML, of the kind the path says, with the fields that kind has.

Unknown fields are refused, warned of or dropped, as `fieldValidation` says (KEP-2885); malformed bodies are 400
in the sentences of kube-apiserver.

Source: apiserver pkg/endpoints/handlers/create.go, rest.go transformDecodeError (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from fairway.apiserver.asking import Ask
from fairway.apiserver.budget import MAX_MEMBERS
from fairway.apiserver.canonical import canonical
from fairway.apiserver.protobuf import reading as protobuf
from fairway.apiserver.resources import Resource
from fairway.apiserver.statuses import (
    StatusError,
    bad_request,
    cannot_be_handled,
    too_large,
    unsupported_media_type,
)
from fairway.kube.gojson import json_error
from fairway.kube.kinds import BY_GROUP_KIND, group_kind
from fairway.kube.objects import Obj
from fairway.kube.schema.node import Schema

_ACCEPTED = ("application/json", "application/yaml", protobuf.MEDIA_TYPE)
_EXCERPT_BYTES = 30
_HEADER = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_SCHEME = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"
_YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "application/apply-patch+yaml")
# Deeper than any real object; a body of brackets must not exhaust the stack of whoever walks it.
MAX_DEPTH = 200
Refusal = Callable[[str], StatusError]
_decode = msgspec.json.Decoder().decode


def media_type(ask: Ask) -> str:
    return ask.request.header("content-type").partition(";")[0].strip().lower()


def body_of(ask: Ask) -> Obj:
    """The body as a mapping.

    Raises: StatusError (400; 415 for a form that is not spoken here, and for protobuf of kinds not known).
    """
    media = media_type(ask)
    if media == protobuf.MEDIA_TYPE:
        return protobuf.read(ask.request.body)
    if media not in ("", "application/json", "*/*") and media not in _YAML_TYPES:
        raise unsupported_media_type(_ACCEPTED)
    return decoded(ask.request.body, ask.resource.kind.kind, is_yaml=media in _YAML_TYPES)


def decoded(body: bytes, kind: str, *, is_yaml: bool) -> Obj:
    """Raises: StatusError (400)."""
    value = _from_yaml(body) if is_yaml else _from_json(body, kind)
    if value is None:
        return {}  # as Go reads null into a struct
    if not isinstance(value, dict):
        why = f"json: cannot unmarshal {_go_kind(value)} into Go value of type {_HEADER}"
        raise _unrecognized(kind, why, body)
    check_form(value)
    return value


def _from_json(body: bytes, kind: str) -> Any:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        why = json_error(body.decode("utf-8", "replace")) or str(broken)
        raise _unrecognized(kind, why, body) from broken


def _unrecognized(kind: str, why: str, body: bytes) -> StatusError:
    """Source: endpoints/handlers/rest.go transformDecodeError, summarizeData."""
    if not body:
        shown = "<empty>"
    elif body.startswith(b"{"):
        shown = body[:_EXCERPT_BYTES].decode("utf-8", "replace")
    else:
        shown = body[:_EXCERPT_BYTES].hex()
    if len(body) > _EXCERPT_BYTES:
        shown += " ..."
    said = f"couldn't get version/kind; json parse error: {why} ({shown})"
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {said}")


def _from_yaml(body: bytes) -> Any:
    from fairway.kube.yamltext import read_documents

    try:
        found, problems = read_documents(body.decode("utf-8"))
    except (UnicodeDecodeError, RecursionError) as broken:
        raise bad_request(f"error parsing YAML: {broken}") from broken
    if problems:
        raise bad_request(f"error parsing YAML: {problems[0].expected}")
    if len(found) != 1:
        raise bad_request(f"expected one object in the body, found {len(found)}")
    return found[0].value


def check_form(value: Any) -> None:
    """Raises: StatusError (400 for a body that is nested too deep; 413 for one of too many objects and lists)."""
    level, members = [value], 0
    for _ in range(MAX_DEPTH):
        members += len(level)
        if members > MAX_MEMBERS:
            raise too_large(f"limit is {MAX_MEMBERS} objects and lists")
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(v for v in item.values() if isinstance(v, (dict, list)))
            else:
                deeper.extend(v for v in item if isinstance(v, (dict, list)))
        if not deeper:
            return
        level = deeper
    raise bad_request(f"the object provided is nested deeper than {MAX_DEPTH} levels")


def of_kind(obj: Obj, resource: Resource) -> Obj:
    """The body, which is of the kind the path is for where it does not say itself.

    Raises: StatusError (400).
    """
    wanted_kind, wanted_version = resource.kind.kind, resource.api_version
    found_kind, found_version = obj.get("kind"), obj.get("apiVersion")
    if (found_kind, found_version) == (wanted_kind, wanted_version):
        return obj
    for name, value in (("apiVersion", found_version), ("kind", found_kind)):
        if value is not None and not isinstance(value, str):
            why = f"json: cannot unmarshal {_go_kind(value)} into Go struct field .{name} of type string"
            raise _unrecognized(wanted_kind, why, msgspec.json.encode(obj))
    if not resource.has_strategic_merge and not (found_kind and found_version):
        missing = "apiVersion" if found_kind else "Kind"
        raise bad_request(f"Object '{missing}' is missing in the body of the request")
    kind, api_version = found_kind or wanted_kind, found_version or wanted_version
    _check_kind(kind, api_version, resource)
    return {**obj, "kind": kind, "apiVersion": api_version}


def _check_kind(kind: str, api_version: str, resource: Resource) -> None:
    """Raises: StatusError (400)."""
    wanted_kind, wanted_version = resource.kind.kind, resource.api_version
    if (kind, api_version) == (wanted_kind, wanted_version):
        return
    version = _version(api_version)
    known = BY_GROUP_KIND.get(group_kind(api_version, kind))
    if resource.has_strategic_merge and (known is None or version not in known.versions):
        why = f'no kind "{kind}" is registered for version "{api_version}" in scheme "{_SCHEME}"'
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {wanted_kind}: {why}')
    if kind == wanted_kind:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({wanted_version})"
        )
    internal = resource.group.partition(".")[0] or "core"
    raise bad_request(
        f'{kind} in version "{version}" cannot be handled as a {wanted_kind}: '
        f"converting ({version}.{kind}) to ({internal}.{wanted_kind}): unknown conversion"
    )


def typed_body(ask: Ask, api_version: str, kind: str) -> Obj:
    """The body with the fields of a kind that is not the resource's own: an Eviction, a Scale, DeleteOptions.

    Raises: StatusError (400).
    """
    return typed(body_of(ask), api_version, kind)


def typed(obj: Obj, api_version: str, kind: str) -> Obj:
    """As Go reads it. Raises: StatusError (400)."""
    from fairway.kube.schema.decoding import decode_error
    from fairway.kube.schema.node import schema_for

    schema = schema_for(api_version, kind)
    if schema is None:
        return obj
    broken = decode_error(obj, schema)
    if broken is not None:
        version = _version(api_version)
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {broken}')
    return canonical(obj, schema)


def schema_of(resource: Resource, version: Obj | None = None) -> Schema | None:
    """The field schema of a resource's kind, None where there is none."""
    from fairway.apiserver.definitions import custom_schema_of
    from fairway.kube.schema.node import schema_for

    if resource.is_custom:
        return custom_schema_of(resource)
    return schema_for(resource.api_version, resource.kind.kind)


def check_fields(ask: Ask, obj: Obj, body: bytes | None, refused: Refusal | None = None) -> Obj:
    """The object without the fields its kind does not have; those are refused or warned of.

    `body` is the JSON text, for fields given twice. `refused` makes the error of the decoder's sentence.
    Raises: StatusError (400, or what `refused` makes).
    """
    refused = refused or partial(cannot_be_handled, ask.resource.kind, ask.resource.version)
    from fairway.kube.schema import decoding as schemas
    from fairway.kube.schema.duplicates import duplicate_fields
    from fairway.kube.schema.node import object_meta_schema
    from fairway.kube.schema.shaping import prune

    schema = schema_of(ask.resource)
    meta = obj.get("metadata")
    if meta is not None and not isinstance(meta, dict):
        raise cannot_be_handled(
            ask.resource.kind,
            ask.resource.version,
            f"json: cannot unmarshal {_go_kind(meta)} into Go struct field {ask.resource.kind.kind}.metadata "
            "of type v1.ObjectMeta",
        )
    broken = schemas.metadata_error(obj) if schema is None else schemas.decode_error(obj, schema)
    if broken is not None:
        raise refused(broken)
    if ask.resource.is_custom and meta:
        # Of a custom object, too, the metadata is what Go reads: null in a list is an empty item.
        obj = {**obj, "metadata": canonical(meta, object_meta_schema())}
    if schema is None:
        return obj
    mode = ask.request.option("fieldValidation") or "Warn"
    unknown = schemas.unknown_fields(obj, schema)
    found = [*unknown, *(duplicate_fields(body) if body is not None and mode != "Ignore" else [])]
    if found and mode == "Strict":
        raise refused(schemas.strict_error(found))
    if found and mode == "Warn":
        ask.warnings.extend(found)
    if unknown or ask.resource.is_custom:
        obj = prune(obj, schema)
    return obj if ask.resource.is_custom else canonical(obj, schema)


def _go_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else "array"


def _version(api_version: str) -> str:
    return api_version.rpartition("/")[2]
