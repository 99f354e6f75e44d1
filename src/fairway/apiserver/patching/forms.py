"""Which kind of patch is this, and what does the object look like after it?

Server-side apply (`application/apply-patch+yaml`) is not a patch of what is there: see `applying`.

Source: apiserver pkg/endpoints/handlers/patch.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.apiserver.statuses import StatusError, bad_request, unsupported_media_type
from fairway.cluster.jsonpatch import JsonPatchRefused
from fairway.cluster.patches import json_patch, merge_patch, strategic_patch
from fairway.kube.objects import Obj
from fairway.kube.schema.node import Schema

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_YAML = "application/apply-patch+yaml"

_REJECTED = "the server rejected our request due to an error in our request"


def accepted_types(schema: Schema | None) -> tuple[str, ...]:
    """The content types of patches to a kind: custom ones have no strategic merge."""
    if schema is None or schema.is_custom:
        return JSON_PATCH, MERGE_PATCH, APPLY_YAML
    return JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_YAML


def patched(obj: Obj, patch: Any, content_type: str, schema: Schema | None) -> Obj:
    """The object after a JSON, merge or strategic merge patch, already decoded from JSON.

    Raises: StatusError (400 malformed; 415 another content type; 422 does not fit the object).
    """
    named = content_type.partition(";")[0].strip()
    if named not in accepted_types(schema) or named == APPLY_YAML:
        raise unsupported_media_type(accepted_types(schema))
    if named == JSON_PATCH:
        try:
            new = json_patch(obj, patch)
        except JsonPatchRefused as error:
            raise _unprocessable(error.message) from error
    elif not isinstance(patch, dict):
        kind = {str: "string", bool: "bool", list: "array"}.get(type(patch), "number")
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )
    elif named == MERGE_PATCH:
        new = merge_patch(obj, patch)
    else:
        new = strategic_patch(obj, patch, schema)
    if not isinstance(new, dict):
        raise _unprocessable("the patched document is no object")
    return new


def _unprocessable(why: str) -> StatusError:
    """Upstream's answer says nothing of `why`; it is kept for whoever looks at the exception's cause.

    Source: errors.NewGenericServerResponse of 422, with isUnexpectedResponse false.
    """
    error = StatusError(422, "Invalid", _REJECTED, {})
    error.add_note(why)
    return error
