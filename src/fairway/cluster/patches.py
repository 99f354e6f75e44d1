"""Patches: how does an object look after this change?

Three forms, as the API takes them: JSON merge patch (RFC 7386), JSON patch (RFC 6902, `jsonpatch`) and strategic
merge (`strategicpatch`), which merges the lists Kubernetes keys by a field. The input is never mutated; untouched
parts are shared.
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.jsonpatch import json_patch
from fairway.cluster.strategicpatch import strategic_patch

__all__ = ["json_patch", "merge_patch", "strategic_patch"]


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
