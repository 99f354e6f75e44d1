"""Which fields does a JSON text have twice?"""

from __future__ import annotations

import json
from typing import Any


def duplicate_fields(data: bytes) -> list[str]:
    """Each field a JSON text has twice: `duplicate field "spec.x"`. The last one counts.

    Raises: ValueError for a text that is no JSON.
    """
    if not _has_duplicates(data):
        return []
    found: list[str] = []
    _find_duplicates(json.loads(data, object_pairs_hook=_Pairs), "", found)
    return [f'duplicate field "{path}"' for path in dict.fromkeys(found)]


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, repeated ones too."""


class _Duplicate(Exception):
    pass


def _has_duplicates(data: bytes) -> bool:
    def refuse(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            raise _Duplicate
        return members

    try:
        json.loads(data, object_pairs_hook=refuse)
    except _Duplicate:
        return True
    return False


def _find_duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, member in value:
            below = f"{path}.{key}" if path else key
            if key in seen:
                found.append(below)
            seen.add(key)
            _find_duplicates(member, below, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _find_duplicates(item, f"{path}[{index}]", found)
