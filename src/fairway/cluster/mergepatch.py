"""JSON merge patch (RFC 7386). The input is never mutated; untouched parts are shared."""

from __future__ import annotations

from typing import Any


def merge_patch(obj: Any, patch: Any) -> Any:
    """RFC 7386: null deletes, maps merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    out = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out
