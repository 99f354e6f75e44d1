"""How is a patch refused after which the object can no longer be read?

A strategic merge patch is applied to the object as a tree and read from there; JSON and merge patches give a text that
is decoded. Both answer 422 about the field `patch`, with what they tried to read.

Source: apiserver pkg/endpoints/handlers/patch.go applyPatchToObject, applyPatchToCurrentObject; apimachinery
pkg/runtime/converter.go (v1.36).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from fairway.apiserver.statuses import StatusError
from fairway.kube.gojson import go_text
from fairway.kube.objects import Obj
from fairway.kube.problem import Problem, invalid

_UNMARSHAL = re.compile(r"cannot unmarshal (\w+)( [-\d.e+]+)? into Go .* of type (\S+)$")
# ObjectMeta's and ManagedFieldsEntry's fields as Go declares, so writes them. What a patch leaves alone stays text.
_DECLARED = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
]
_ENTRY = ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"]
_KINDS = {"string": "string", "bool": "bool", "object": "map", "array": "slice"}


def misfit(patch: Any, new: Obj, wrong: str, *, is_strategic: bool) -> StatusError:
    """`wrong` is the decoder's sentence; `new` what the patch made."""
    text = go_text(patch) if is_strategic else _encoded(patch, new)
    problem = invalid(("patch",), text, _converters_words(wrong) if is_strategic else wrong)
    return StatusError(422, "Invalid", f' "" is invalid: {problem}', {"causes": [_cause(problem)]})


def _encoded(patch: Any, new: Obj) -> str:
    """The patched object's text: sorted, but for metadata that the patch leaves as Go wrote it."""
    tree = {name: _sorted(value) for name, value in sorted(new.items())}
    meta = new.get("metadata")
    if isinstance(meta, dict) and isinstance(patch, dict) and "metadata" not in patch:
        entries = [_declared(entry, _ENTRY) for entry in meta.get("managedFields") or ()]
        tree["metadata"] = _declared(meta | ({"managedFields": entries} if entries else {}), _DECLARED)
    return msgspec.json.encode(tree).decode()


def _declared(value: dict[str, Any], order: list[str]) -> dict[str, Any]:
    known = {name: value[name] for name in order if name in value}
    return known | {name: member for name, member in value.items() if name not in known}


def _sorted(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value, order="sorted"))


def _cause(problem: Problem) -> dict[str, str]:
    return {"reason": "FieldValueInvalid", "message": problem.message, "field": "patch"}


def _converters_words(wrong: str) -> str:
    """What the converter of trees says where the JSON decoder would say `wrong`."""
    found = _UNMARSHAL.search(wrong)
    if found is None:
        return wrong
    given, number, wanted = found[1], found[2], found[3]
    has = _KINDS.get(given) or ("float64" if "." in (number or "") else "int64")
    if wanted.startswith("map["):
        return f"cannot restore map from {has}"
    if wanted.startswith("[]"):
        return f"cannot restore slice from {has}"
    if "." in wanted:
        return f"cannot restore struct from: {has}"
    if wanted == "string" and has == "int64":
        return "cannot convert int64 to string"
    return f"unrecognized type: {wanted}"
