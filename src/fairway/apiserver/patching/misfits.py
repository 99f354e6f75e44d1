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
from fairway.kube.validation.problem import Problem, invalid

_UNMARSHAL = re.compile(r"cannot unmarshal (\w+)( [-\d.e+]+)? into Go .* of type (\S+)$")
_KINDS = {"string": "string", "bool": "bool", "object": "map", "array": "slice"}


def misfit(patch: Any, new: Obj, wrong: str, *, is_strategic: bool) -> StatusError:
    """`wrong` is the decoder's sentence; `new` what the patch made."""
    text = go_text(patch) if is_strategic else msgspec.json.encode(new, order="sorted").decode()
    problem = invalid(("patch",), text, _converters_words(wrong) if is_strategic else wrong)
    return StatusError(422, "Invalid", f' "" is invalid: {problem}', {"causes": [_cause(problem)]})


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
