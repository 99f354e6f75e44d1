"""A table's columns: `columnDefinitions` from a line of text.

Names are separated by `|`. `*` after a name: shown with `-o wide` only. `:integer`, `:boolean`, `:date`, … is the
type where it is not a string, `:name` the string that names the object.
"""

from __future__ import annotations

from typing import Any

# What kube says of the columns nearly every kind has; other descriptions are shown by nobody and left out.
_DESCRIPTIONS = {
    "Name": "Name must be unique within a namespace.",
    "Age": "CreationTimestamp is a timestamp representing the server time when this object was created.",
    "Created At": "CreationTimestamp is a timestamp representing the server time when this object was created.",
}


def columns(text: str) -> list[dict[str, Any]]:
    """The `columnDefinitions` of a line."""
    return [_column(part.strip()) for part in text.split("|")]


def _column(part: str) -> dict[str, Any]:
    name, _, kind = part.partition(":")
    is_wide = name.endswith("*") or kind.endswith("*")
    name, kind = name.removesuffix("*"), kind.removesuffix("*")
    return {
        "name": name,
        "type": "string" if kind in ("", "name") else kind,
        "format": "name" if kind == "name" else "",
        "description": _DESCRIPTIONS.get(name, ""),
        "priority": 1 if is_wide else 0,
    }
