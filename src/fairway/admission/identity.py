"""Is what a webhook or a policy made of an object still that object, and one that can be read?

Whoever may change what comes in changes what it says, not what and where it is: that was authorized, and counted.

Source: apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go (Decode into the kind that came in),
registry/rest/{create,update}.go (v1.36). Unlike kube: a new object keeps its name, too.
"""

from __future__ import annotations

from typing import Any

from fairway.admission.request import status_body
from fairway.kube.objects import Obj
from fairway.kube.schema.decoding import decode_error
from fairway.kube.schema.node import schema_for
from fairway.kube.schema.structural import custom_schema

# Deeper than any real object: whoever walks it must not run out of stack.
_MAX_DEPTH = 200


def misfit(before: Obj, after: Any) -> dict[str, Any] | None:
    """The Status that refuses the change; None where it may be."""
    if not isinstance(after, dict):
        return _internal("Object 'Kind' is missing in the object")
    if _is_too_deep(after):
        return _internal(f"the object is nested deeper than {_MAX_DEPTH} levels")
    was, now = _named(before), _named(after)
    if was != now:
        return _internal(f"converting {now} to {was}: unknown conversion")
    broken = decode_error(after, schema_for(before["apiVersion"], before["kind"]) or custom_schema({}))
    if broken is not None:
        return _internal(broken)
    meta, old = after.get("metadata") or {}, before.get("metadata") or {}
    if (meta.get("namespace") or "") != (old.get("namespace") or ""):
        why = "the namespace of the provided object does not match the namespace sent on the request"
        return status_body(400, "BadRequest", why)
    if (meta.get("name") or "") != (old.get("name") or ""):
        return _renamed(before["kind"], str(old.get("name") or ""), str(meta.get("name") or ""))
    return None


def _named(obj: Obj) -> str:
    return f"({obj.get('apiVersion')}).{obj.get('kind')}"


def _renamed(kind: str, old: str, new: str) -> dict[str, Any]:
    why = f'Invalid value: "{new}": field is immutable'
    cause = {"reason": "FieldValueInvalid", "message": why, "field": "metadata.name"}
    message = f'{kind} "{old}" is invalid: metadata.name: {why}'
    return status_body(422, "Invalid", message, {"name": old, "kind": kind, "causes": [cause]})


def _internal(why: str) -> dict[str, Any]:
    said = f"Internal error occurred: {why}"
    return status_body(500, "InternalError", said, {"causes": [{"message": why}]})


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            member
            for item in level
            for member in (item.values() if isinstance(item, dict) else item)
            if isinstance(member, (dict, list))
        ]
        if not level:
            return False
    return True
