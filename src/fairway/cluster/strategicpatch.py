"""Strategic merge patch: how kubectl patches built-in kinds.

Lists merge by the key their schema names, or are replaced whole. Directives: `$patch: replace|delete|merge`,
`$retainKeys`, `$deleteFromPrimitiveList/…`, `$setElementOrder/…`. An item that is new and whose order nobody gave
comes first, as upstream has it: patch items keep their order, and what only the server has goes where it still can.

Source: apimachinery pkg/util/strategicpatch/patch.go (v1.36).
"""

from __future__ import annotations

from typing import Any, Final

from fairway.cluster.errors import ApiError, bad_request
from fairway.kube.gojson import go_text
from fairway.kube.schema.node import Schema, schema_for

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


def strategic_patch(obj: Any, patch: Any, schema: Schema | None = None) -> Any:
    """The object after the patch. Without a schema, that of the object's built-in kind; without one of these,
    lists are replaced whole.

    Raises: ApiError (400) for a wrong directive or a list item without its key.
    """
    if schema is None and isinstance(obj, dict):
        schema = schema_for(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
    return _merge(obj, patch, schema)


def _merge(held: Any, patch: Any, schema: Schema | None) -> Any:
    if isinstance(patch, dict):
        if not isinstance(held, dict):
            return _without_directives(patch)
        return _merge_object(held, patch, schema)
    if isinstance(patch, list):
        return _merge_list(held, patch, schema)
    return patch


def _merge_object(held: dict[str, Any], patch: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise ApiError(500, "", f"unknown patch type: {go_text(directive)} in map: {go_text(patch)}")
    retained = None if _RETAIN not in patch else _listed(patch[_RETAIN], "retainKeys")
    out = dict(held) if retained is None else {k: v for k, v in held.items() if k in retained}
    rest = dict(patch)
    for key in [k for k in patch if k.startswith(_ORDER)]:
        _put_in_order(out, held, rest, key, schema)
    for key, value in rest.items():
        if key in (_DIRECTIVE, _RETAIN):
            continue
        if key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            if isinstance(out.get(name), list):
                gone = _listed(value, "primitive list")
                out[name] = [v for v in out[name] if v not in gone]
        elif value is None:
            out.pop(key, None)
        elif key not in out:
            out[key] = _without_directives(value)
        else:
            out[key] = _member(out[key], value, schema.child(key) if schema is not None else None)
    return out


def _listed(value: Any, what: str) -> list[Any]:
    """Raises: ApiError (400)."""
    if not isinstance(value, list):
        raise bad_request(f"invalid patch format of {what}")
    return value


def _member(held: Any, value: Any, schema: Schema | None) -> Any:
    if isinstance(value, dict) and schema is not None and "replace" in schema.merge_strategy:
        return _without_directives(value)
    return _merge(held, value, schema)


def _without_directives(value: Any) -> Any:
    """A patch of what is not there yet: the value itself, without nulls and directives."""
    if isinstance(value, list):
        items = [v for v in value if not (isinstance(v, dict) and v.get(_DIRECTIVE) in ("replace", "delete"))]
        return [_without_directives(v) for v in items]
    if isinstance(value, dict):
        return {
            k: _without_directives(v)
            for k, v in value.items()
            if v is not None and k not in (_DIRECTIVE, _RETAIN) and not k.startswith((_ORDER, _DELETE_FROM))
        }
    return value


# Lists


def _merge_list(held: Any, patch: list[Any], schema: Schema | None) -> list[Any]:
    if not isinstance(held, list) or schema is None or "merge" not in schema.merge_strategy:
        return [_without_directives(p) for p in patch if not _is_replace(p)]
    if any(_is_replace(p) for p in patch):
        return [p for p in patch if not _is_replace(p)]
    merge_key = schema.merge_key
    if not merge_key or not all(isinstance(p, dict) for p in patch):
        merged = [*held, *(p for i, p in enumerate(patch) if p not in held and p not in patch[:i])]
        return _ordered(merged, patch, held, "")
    return _ordered(_merge_by_key(held, patch, merge_key, schema.items), _kept(patch), held, merge_key)


def _is_replace(item: Any) -> bool:
    return isinstance(item, dict) and item.get(_DIRECTIVE) == "replace"


def _kept(patch: list[Any]) -> list[Any]:
    return [p for p in patch if p.get(_DIRECTIVE) != "delete"]


def _merge_by_key(held: list[Any], patch: list[Any], merge_key: str, schema: Schema | None) -> list[Any]:
    out = list(held)
    for item in patch:
        if merge_key not in item:
            said = f"map: {go_text(item)} does not contain declared merge key: {merge_key}"
            raise ApiError(500, "", said)
        wanted = item[merge_key]
        at = next((i for i, o in enumerate(out) if _key_of(o, merge_key) == wanted), None)
        if item.get(_DIRECTIVE) == "delete":
            out = [o for o in out if _key_of(o, merge_key) != wanted]
        elif at is None:
            out.append(_without_directives(item))
        else:
            out[at] = _merge_object(out[at], item, schema)
    return out


def _key_of(item: Any, merge_key: str) -> Any:
    if not merge_key:
        return item
    return item.get(merge_key) if isinstance(item, dict) else None


def _ordered(merged: list[Any], order: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """`merged` with the items of `order` in that order, and the others where the live list lets them be.

    Source: normalizeElementOrder, mergeSortedSlice.
    """
    wanted = [_key_of(item, merge_key) for item in order]
    places = [_key_of(item, merge_key) for item in live]
    ours = [m for m in merged if _key_of(m, merge_key) in wanted]
    ours.sort(key=lambda item: wanted.index(_key_of(item, merge_key)))
    theirs = [m for m in merged if _key_of(m, merge_key) not in wanted]
    out: list[Any] = []
    at = 0
    for item in ours:
        key = _key_of(item, merge_key)
        while at < len(theirs) and key in places:
            other = _key_of(theirs[at], merge_key)
            if other in places and places.index(other) > places.index(key):
                break
            out.append(theirs[at])
            at += 1
        out.append(item)
    return [*out, *theirs[at:]]


def _put_in_order(
    out: dict[str, Any], held: dict[str, Any], rest: dict[str, Any], key: str, schema: Schema | None
) -> None:
    """Applies one `$setElementOrder` and the patch of its list, and takes both from `rest`."""
    name = key.removeprefix(_ORDER)
    order = _listed(rest.pop(key), "setElementOrder list")
    below = schema.child(name) if schema is not None else None
    patch = rest.pop(name, None)
    removed = rest.pop(_DELETE_FROM + name, None)
    if patch is not None:
        _listed(patch, "setElementOrder list")
    if removed is not None:
        _listed(removed, "primitive list")
    live = held.get(name)
    if not isinstance(live, list):
        if patch is not None:
            out[name] = _without_directives(patch)
        return
    merged = live if removed is None else [v for v in live if v not in removed]
    if patch is not None:
        merged = _merge_list(merged, patch, below)
    merge_key = below.merge_key if below is not None else ""
    out[name] = _ordered(merged, order, live, merge_key)
