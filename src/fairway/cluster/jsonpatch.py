"""JSON patch (RFC 6902), with the refusals of the library the API server uses.

Source: gopkg.in/evanphx/json-patch.v4 patch.go, as apiserver endpoints/handlers/patch.go calls it (v1.36).
"""

from __future__ import annotations

import copy
from typing import Any, Final

import msgspec

from fairway.cluster.errors import ApiError, bad_request

_MAX_OPERATIONS: Final = 10_000
# What all `copy` operations of one patch may add, in bytes of JSON. Source: server.Config JSONPatchMaxCopyBytes.
_MAX_COPIED_BYTES: Final = 3 * 1024 * 1024


class JsonPatchRefused(ApiError):
    """The patch is well formed and does not fit the object: 422 over HTTP."""

    def __init__(self, why: str) -> None:
        super().__init__(422, "Invalid", why)


def json_patch(obj: Any, operations: Any) -> Any:
    """The object after all operations, in order; the given one is not touched.

    Raises: ApiError (400) for what is no list of operations; JsonPatchRefused for a path that is not there or a
    failed test.
    """
    if not isinstance(operations, list) or not all(isinstance(o, dict) for o in operations):
        kind = "object" if isinstance(operations, dict) else "value"
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > _MAX_OPERATIONS:
        raise ApiError(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {_MAX_OPERATIONS}, got {len(operations)}",
        )
    out = copy.deepcopy(obj)
    copied_bytes = 0
    for operation in operations:
        if operation.get("op") == "copy":
            copied_bytes += _copied_bytes(out, operation)
            if copied_bytes > _MAX_COPIED_BYTES:
                raise JsonPatchRefused(
                    f"Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, "
                    f"exceeding the limit {_MAX_COPIED_BYTES}"
                )
        out = _apply(out, operation)
    return out


def _copied_bytes(doc: Any, operation: dict[str, Any]) -> int:
    source = operation.get("from")
    return len(msgspec.json.encode(_source(doc, source, "copy"))) if isinstance(source, str) else 0


def _apply(doc: Any, operation: dict[str, Any]) -> Any:
    op, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str):
        raise JsonPatchRefused(f"{op} operation does not apply: missing path")
    steps = _pointer(path)
    if op == "add":
        return _add(doc, steps, path, copy.deepcopy(operation.get("value")), op)
    if op == "remove":
        return _remove(doc, steps, path, op)
    if op == "replace":
        return _replace(doc, steps, path, copy.deepcopy(operation.get("value")))
    if op == "test":
        return _test(doc, steps, path, operation.get("value"))
    if op in ("move", "copy"):
        source = operation.get("from")
        if not isinstance(source, str):
            raise JsonPatchRefused(f"{op} operation does not apply: missing from")
        value = _source(doc, source, op)
        if op == "move":
            doc = _remove(doc, _pointer(source), source, op)
        return _add(doc, steps, path, copy.deepcopy(value), op)
    raise JsonPatchRefused(f"Unexpected kind: {op}")


def _pointer(text: str) -> list[str]:
    return [p.replace("~1", "/").replace("~0", "~") for p in text.split("/")[1:]]


class _Missing(Exception):
    """No such place. `args[0]` says what is wrong with the last step."""


def _step(holder: Any, step: str) -> Any:
    if isinstance(holder, list):
        return holder[_index(step, len(holder))]
    if isinstance(holder, dict) and step in holder:
        return holder[step]
    raise _Missing(f"key: {step}: missing value")


def _index(step: str, length: int) -> int:
    """A list's index; negative ones count from the end, as the library allows."""
    try:
        at = int(step)
    except ValueError:
        raise _Missing(f'index: {step}: strconv.Atoi: parsing "{step}": invalid syntax') from None
    if not -length <= at < length:
        raise _Missing(f"index: {step}: invalid index referenced")
    return at % length if length else at


def _holder(doc: Any, steps: list[str], path: str, op: str) -> Any:
    """The object or list that holds the last step."""
    at = doc
    for step in steps[:-1]:
        try:
            at = _step(at, step)
        except _Missing:
            at = None
    if not isinstance(at, (dict, list)):
        raise JsonPatchRefused(f'{op} operation does not apply: doc is missing path: "{path}": missing value')
    return at


def _add(doc: Any, steps: list[str], path: str, value: Any, op: str) -> Any:
    if not steps:
        return value
    holder, last = _holder(doc, steps, path, op), steps[-1]
    if isinstance(holder, dict):
        holder[last] = value
    elif last == "-":
        holder.append(value)
    else:
        try:
            at = _index(last, len(holder) + 1)
        except _Missing as error:
            said = f"Unable to access invalid {error}"
            raise JsonPatchRefused(f"error in {op} for path: '{path}': {said}") from None
        holder.insert(at, value)
    return doc


def _remove(doc: Any, steps: list[str], path: str, op: str) -> Any:
    if not steps:
        return None
    holder, last = _holder(doc, steps, path, op), steps[-1]
    try:
        _step(holder, last)
    except _Missing as error:
        said = "Unable to remove nonexistent" if isinstance(holder, dict) else "Unable to access invalid"
        raise JsonPatchRefused(f"error in {op} for path: '{path}': {said} {error}") from None
    if isinstance(holder, dict):
        del holder[last]
    else:
        del holder[_index(last, len(holder))]
    return doc


def _replace(doc: Any, steps: list[str], path: str, value: Any) -> Any:
    if not steps:
        return value
    try:
        holder = _holder(doc, steps, path, "replace")
    except JsonPatchRefused:
        raise JsonPatchRefused(
            f"replace operation does not apply: doc is missing path: {path}: missing value"
        ) from None
    last = steps[-1]
    try:
        # Of an object, what is not there is put there.
        if not isinstance(holder, dict):
            _step(holder, last)
    except _Missing:
        raise JsonPatchRefused(
            f"replace operation does not apply: doc is missing key: {path}: missing value"
        ) from None
    if isinstance(holder, dict):
        holder[last] = value
    else:
        holder[_index(last, len(holder))] = value
    return doc


def _test(doc: Any, steps: list[str], path: str, wanted: Any) -> Any:
    at = doc
    try:
        for step in steps:
            at = _step(at, step)
    except _Missing:
        at = None
    if not _is_equal(at, wanted):
        raise JsonPatchRefused(f"testing value {path} failed: test failed")
    return doc


def _is_equal(left: Any, right: Any) -> bool:
    """Equal as JSON: `true` is not `1`."""
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_equal(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_is_equal, left, right))
    return bool(left == right)


def _source(doc: Any, source: str, op: str) -> Any:
    at = doc
    try:
        for step in _pointer(source):
            at = _step(at, step)
    except _Missing:
        quoted = source if op == "move" else f'"{source}"'
        raise JsonPatchRefused(
            f"{op} operation does not apply: doc is missing from path: {quoted}: missing value"
        ) from None
    return at
