"""What is wanted of a child, against what is there: made, or patched where it says something else."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fairway.cluster.actions import Action, Create, Delete, Patch, View
from fairway.kube.objects import Key, Obj, key_of


def pruned(view: View, owner: Obj, kinds: Collection[str], stays: Collection[Key]) -> list[Action]:
    """Children of these kinds that nothing asks for any more are removed."""
    actions: list[Action] = []
    for child in view.dependents(owner["metadata"]["uid"]):
        there = view.get(child)
        if (
            child.gk in kinds
            and child not in stays
            and there
            and "deletionTimestamp" not in there["metadata"]
        ):
            actions.append(Delete(child, there["metadata"]["uid"]))
    return actions


def brought_to(view: View, wanted: Obj) -> list[Action]:
    key = key_of(wanted)
    present = view.get(key)
    if present is None:
        return [Create(wanted)]
    if "deletionTimestamp" in present["metadata"]:
        return []
    changes: dict[str, Any] = {}
    meta = {
        name: value
        for name in ("labels", "annotations")
        if (value := wanted["metadata"].get(name)) and not _covers(value, present["metadata"].get(name) or {})
    }
    if meta:
        changes["metadata"] = meta
    spec = {
        field: value
        for field, value in wanted.get("spec", {}).items()
        if not _covers(value, present["spec"].get(field))
    }
    if spec:
        changes["spec"] = spec
    return [Patch(key, changes)] if changes else []


def _covers(wanted: Any, present: Any) -> bool:
    """Whether what is there says all that is wanted; the API server's defaults may say more."""
    if isinstance(wanted, dict):
        return isinstance(present, dict) and all(_covers(v, present.get(k)) for k, v in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(present, list) or len(present) != len(wanted):
            return not wanted and not present
        return all(_covers(w, p) for w, p in zip(wanted, present, strict=True))
    return bool(wanted == present or str(wanted) == str(present) or (not wanted and present is None))
