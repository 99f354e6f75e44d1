"""How does kube-apiserver show a value of one of its internal types in a message?

As JSON of the Go struct: every field under its Go name and in Go's order, unset ones too. Types of metav1 have JSON
names of their own, and leave out what is empty. The types are data, made by `tools/internal_types.py`.

Source: apimachinery pkg/util/validation/field/errors.go Error.ErrorBody; pkg/apis/*/types.go (v1.36).
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from fairway.kube import quantity

# Members of a versioned PodSpec that stand in its security context internally.
_POD_CONTEXT = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_DIFF_CONTEXT_LINES = 3


class Typed(NamedTuple):
    """A value that a message shows as this internal type, such as `core.SecurityContext` or `[]core.Toleration`."""

    type: str
    value: Any


class _Field(NamedTuple):
    go: str
    json: str
    type: str
    omits_empty: bool


@cache
def _types() -> dict[str, tuple[_Field, ...]]:
    text = (files(__package__) / "internaltypes.txt").read_text(encoding="utf-8")
    return dict(_type(line) for line in text.splitlines())


def _type(line: str) -> tuple[str, tuple[_Field, ...]]:
    name, _, fields = line.partition(": ")
    split = [field.split() for field in fields.split(", ") if field]
    return name, tuple(_Field(go.rstrip("?"), key, kind, go.endswith("?")) for go, key, kind in split)


def text_of(typed: Typed) -> str:
    """One line, as in `Invalid value: …`."""
    return go_json(_shown(typed.type, typed.value))


def difference(before: Typed, after: Typed) -> str:
    """What `diff.Diff` says: the lines of both as JSON that differ, three others around them."""
    one, other = (_pretty(side).splitlines(keepends=True) for side in (before, after))
    import difflib

    found = list(difflib.unified_diff(one, other, n=_DIFF_CONTEXT_LINES))[2:]
    return "".join(line if line.endswith("\n") else line + "\n" for line in found)


def _pretty(typed: Typed) -> str:
    return _escaped(json.dumps(_shown(typed.type, typed.value), ensure_ascii=False, indent=1))


def go_json(value: Any) -> str:
    """Compact JSON as Go writes it: keys of maps sorted by the caller, HTML's characters escaped."""
    return _escaped(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


def _escaped(text: str) -> str:
    for char, escape in _ESCAPES.items():
        text = text.replace(char, escape)
    return text


def _shown(kind: str, value: Any) -> Any:
    if kind.startswith("*"):
        return None if value is None else _shown(kind[1:], value)
    if kind.startswith("[]"):
        return None if value is None else [_shown(kind[2:], item) for item in value]
    if kind.startswith("{}"):
        return None if value is None else {key: _shown(kind[2:], value[key]) for key in sorted(value)}
    if kind in _types():
        return _struct(kind, value or {})
    if kind == "qty":
        return "0" if value is None else quantity.canonical(value)
    if value is None:
        return {"str": "", "int": 0, "ios": 0, "bool": False}.get(kind)
    return value


def _struct(kind: str, value: dict[str, Any]) -> dict[str, Any]:
    if kind == "core.PodSpec":
        value = _with_context(value)
    out = {}
    for field in _types()[kind]:
        member = value.get(field.json)
        if field.omits_empty and (member is None or (member in ("", 0, [], {}) and member is not False)):
            continue
        out[field.go] = _shown(field.type, member)
    return out


def _with_context(spec: dict[str, Any]) -> dict[str, Any]:
    moved = {name: spec[name] for name in _POD_CONTEXT if name in spec}
    if not moved and spec.get("securityContext") is None:
        return spec
    return {**spec, "securityContext": {**(spec.get("securityContext") or {}), **moved}}
