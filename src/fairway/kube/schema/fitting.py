"""Does a custom object fit its definition's schema? Yes or no, in a fraction of what `values` takes for its words.

A schema becomes a function once; nearly every object fits, and then nobody needs to know more. What no quick answer is
known for is asked of `values`, so that both always agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.kube import goregexp
from fairway.kube.memos import memo

Raw = dict[str, Any]
Fit = Callable[[Any], bool]

_JUNCTORS = frozenset({"anyOf", "oneOf", "allOf", "not"})
_UNUSUAL = frozenset({"multipleOf", "maximum", "minimum", "format", "uniqueItems", "exclusiveMinimum"})
_PLAIN_FORMATS = frozenset({"int32", "int64", "byte", "double", "float"})
_TYPES: dict[str, type] = {"string": str, "boolean": bool, "object": dict, "array": list, "integer": int}
_MAX_KNOWN = 4096

# Schema → its function; pod specs → themselves, once they were found to fit. Kept with what they were made of.
_FITS: dict[int, tuple[Raw, Fit]] = memo()
_POD_SPECS: dict[tuple[int, int], tuple[Raw, Any]] = memo()


def fits(value: Any, raw: Raw, ask: Callable[[Any, Raw], bool]) -> bool:
    """`ask(value, raw)` is the answer of `values`, for what is unusual."""
    return _fit_of(raw, ask)(value)


def _fit_of(raw: Raw, ask: Callable[[Any, Raw], bool]) -> Fit:
    known = _FITS.get(id(raw))
    if known is None or known[0] is not raw:
        if len(_FITS) >= _MAX_KNOWN * 16:
            _FITS.clear()
        known = _FITS[id(raw)] = (raw, _made(raw, ask))
    return known[1]


def _made(raw: Raw, ask: Callable[[Any, Raw], bool]) -> Fit:
    kind = raw.get("type")

    def slow(value: Any) -> bool:
        return ask(value, raw)

    is_plain_format = raw.get("format", "int32") in _PLAIN_FORMATS
    unusual = (_UNUSUAL & raw.keys()) - ({"format"} if is_plain_format else set())
    if _JUNCTORS & raw.keys() or unusual or (kind == "string" and "format" in raw):
        return slow
    if raw.get("x-kubernetes-int-or-string"):
        return _either(raw, slow)
    if kind == "object":
        return _pod_spec(raw, _object(raw, ask, slow)) if _is_pod_spec(raw) else _object(raw, ask, slow)
    if kind == "array":
        return _array(raw, ask, slow)
    if kind == "string":
        return _string(raw, slow)
    if kind in ("integer", "boolean") and "enum" not in raw:
        wanted = _TYPES[kind]
        return lambda value: type(value) is wanted or slow(value)
    return slow


def _either(raw: Raw, slow: Fit) -> Fit:
    if "enum" in raw or "maxLength" in raw or "minLength" in raw:
        return slow
    pattern = raw.get("pattern")
    if not pattern:
        return lambda value: type(value) is str or type(value) is int or slow(value)
    return lambda value: (
        type(value) is int or (type(value) is str and goregexp.is_match(pattern, value)) or slow(value)
    )


def _string(raw: Raw, slow: Fit) -> Fit:
    shortest, longest = raw.get("minLength", 0), raw.get("maxLength")
    pattern, choices = raw.get("pattern"), raw.get("enum")
    if not shortest and longest is None and not pattern and not choices:
        return lambda value: type(value) is str or slow(value)
    known = frozenset(choices or ())

    def fit(value: Any) -> bool:
        if type(value) is not str or (choices and value not in known):
            return slow(value)
        if len(value) < shortest or (longest is not None and len(value) > longest):
            return False
        return not pattern or goregexp.is_match(pattern, value)

    return fit


def _array(raw: Raw, ask: Callable[[Any, Raw], bool], slow: Fit) -> Fit:
    items = raw.get("items")
    fit_item = _fit_of(items, ask) if isinstance(items, dict) else None
    fewest, most = raw.get("minItems", 0), raw.get("maxItems")
    keys = tuple(raw.get("x-kubernetes-list-map-keys") or ())
    kind = raw.get("x-kubernetes-list-type")

    def fit(value: Any) -> bool:
        if type(value) is not list:
            return slow(value)
        if len(value) < fewest or (most is not None and len(value) > most):
            return False
        if fit_item is not None and not all(map(fit_item, value)):
            return False
        if len(value) > 1 and kind in ("map", "set"):
            return _are_different(value, keys if kind == "map" else None) or slow(value)
        return kind != "map" or all(type(item) is dict for item in value) or slow(value)

    return fit


def _are_different(items: list[Any], keys: tuple[str, ...] | None) -> bool:
    """Whether the items of a set, or the keys of those of a map, surely are."""
    seen = set()
    for item in items:
        if keys is None:
            known: Any = item
            is_known = type(item) in (str, int)
        else:
            known = tuple(item.get(k) for k in keys) if type(item) is dict else None
            is_known = known is not None and all(type(k) in (str, int) for k in known)
        if not is_known or known in seen:
            return False
        seen.add(known)
    return True


def _object(raw: Raw, ask: Callable[[Any, Raw], bool], slow: Fit) -> Fit:
    properties: Raw = raw.get("properties") or {}
    extra, required = raw.get("additionalProperties"), tuple(raw.get("required") or ())
    if "enum" in raw or extra is False or "minProperties" in raw:
        return slow
    most = raw.get("maxProperties")
    fit_extra = _fit_of(extra, ask) if isinstance(extra, dict) else None
    known: dict[str, Fit] = {}

    def fit(value: Any) -> bool:
        if type(value) is not dict:
            return slow(value)
        if most is not None and len(value) > most:
            return False
        for name in required:
            if name not in value:
                return False
        for name, member in value.items():
            fit_member = known.get(name)
            if fit_member is None:
                declared = properties.get(name)
                if declared is not None:
                    fit_member = known[name] = _fit_of(declared, ask)
                elif fit_extra is None:
                    continue
                else:
                    fit_member = fit_extra
            if not fit_member(member):
                return False
        return True

    return fit


def _is_pod_spec(raw: Raw) -> bool:
    return "containers" in (raw.get("properties") or ())


def _pod_spec(raw: Raw, fit: Fit) -> Fit:
    """Many objects share one template: a spec that was found to fit fits."""

    def remembered(value: Any) -> bool:
        key = (id(raw), id(value))
        known = _POD_SPECS.get(key)
        if known is not None and known[0] is raw and known[1] is value:
            return True
        if not fit(value):
            return False
        if len(_POD_SPECS) >= _MAX_KNOWN:
            _POD_SPECS.clear()
        _POD_SPECS[key] = (raw, value)
        return True

    return remembered
