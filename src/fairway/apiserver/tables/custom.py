"""Lines of custom kinds: the printer columns of their definition.

Source: apiextensions-apiserver pkg/registry/customresource/tableconvertor (v1.36).
"""

from __future__ import annotations

import json
from typing import Any

from fairway.apiserver.tables.ages import INVALID, since
from fairway.apiserver.tables.columns import columns
from fairway.apiserver.tables.jsonpath import JsonPathError, find
from fairway.apiserver.tables.wording import name
from fairway.kube.objects import Obj

_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def with_default(printer_columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The columns shown: a definition that names none gets the age."""
    return printer_columns or [_AGE]


def definitions(printer_columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shown = []
    for column in with_default(printer_columns):
        path = column.get("jsonPath", "")
        said = f"Custom resource definition column (in JSONPath format): {path}"
        shown.append(
            {
                "name": column["name"],
                "type": column.get("type", "string"),
                "format": column.get("format") or "",
                "description": column.get("description") or said,
                "priority": column.get("priority") or 0,
            }
        )
    return [*columns("Name:name"), *shown]


def cells(obj: Obj, printer_columns: list[dict[str, Any]], now_us: int) -> list[Any]:
    return [
        name(obj),
        *(_cell(obj, column, now_us) for column in with_default(printer_columns)),
    ]


def _cell(obj: Obj, column: dict[str, Any], now_us: int) -> Any:
    try:
        values = find(obj, column.get("jsonPath", ""))
    except JsonPathError:
        return None
    if not values:
        return None
    value, kind = values[0], column.get("type", "string")
    if kind == "string":
        return _text(value)
    if kind == "date":
        return (since(value, now_us) if isinstance(value, str) else None) or INVALID
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if kind == "integer" else float(value)


def _text(value: Any) -> str:
    """A value as the JSONPath printer writes it: text bare, the rest as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
