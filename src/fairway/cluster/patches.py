"""Patches: how does an object look after this change?

Three forms, as the API takes them: JSON merge patch (RFC 7386, `mergepatch`), JSON patch (RFC 6902, `jsonpatch`) and
strategic merge (`strategicpatch`), which merges the lists Kubernetes keys by a field. The input is never mutated;
untouched parts are shared.
"""

from __future__ import annotations

from fairway.cluster.jsonpatch import json_patch
from fairway.cluster.mergepatch import merge_patch
from fairway.cluster.strategicpatch import strategic_patch

__all__ = ["json_patch", "merge_patch", "strategic_patch"]
