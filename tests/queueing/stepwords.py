"""What a step decided, in words: each action a line; of a status what changed in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from fairway.cluster.actions import Action, Create, Delete, Emit, Patch, Replace, SetStatus
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US, rfc3339

NOW_US = 1_800_000_000 * SECOND_US


def ago(seconds: int) -> str:
    return rfc3339(NOW_US - seconds * SECOND_US)


def was(kind: str, status: str = "True", reason: str = "", since_s: int = 100, message: str = "m") -> Obj:
    return {
        "type": kind,
        "status": status,
        "reason": reason or kind,
        "message": message,
        "lastTransitionTime": ago(since_s),
    }


def said(objects: Sequence[Obj], actions: Sequence[Action], again_at_us: int | None = None) -> list[str]:
    """`objects`: what the actions are about, as it was."""
    known = {obj["metadata"]["name"]: obj for obj in objects}
    out = []
    for action in actions:
        if isinstance(action, SetStatus):
            name = action.key.name
            out.append(
                f"{name}: " + ", ".join(_status_changes(known[name].get("status") or {}, action.status))
            )
            known[name] = {**known[name], "status": action.status}
        elif isinstance(action, Replace):
            name = action.obj["metadata"]["name"]
            out.extend(f"{name}: {line}" for line in _changes(known[name], action.obj))
            known[name] = action.obj
        elif isinstance(action, Create):
            meta = action.obj["metadata"]
            marks = meta.get("annotations")
            out.append(f"new {action.obj['kind']} {meta['name']}" + (f" {marks}" if marks else ""))
        elif isinstance(action, Patch):
            out.append(f"{action.key.name}: patch {action.patch}")
        elif isinstance(action, Delete):
            out.append(f"delete {action.key.name}" + (f" {action.uid}" if action.uid else ""))
        else:
            assert isinstance(action, Emit)
            out.append(f"{action.type} {action.reason}: {action.message}")
    if again_at_us is not None:
        out.append(f"again in {(again_at_us - NOW_US) / SECOND_US:g}s")
    return out


def _status_changes(old: Obj, new: Obj) -> list[str]:
    before = {c["type"]: c for c in old.get("conditions") or ()}
    after = {c["type"]: c for c in new.get("conditions") or ()}
    changed = [c for c in after.values() if c != before.get(c["type"])]
    told = [f"{c['type']}={c['status']} {c['reason']}: {c['message']}" for c in changed]
    told += [f"no {kind}" for kind in before if kind not in after]
    for name in sorted({*old, *new} - {"conditions", "schedulingStats"}):
        if old.get(name) != new.get(name):
            told.append(f"{name}: {new[name]}" if name in new else f"no {name}")
    return told or ["the same status"]


def _changes(old: Any, new: Any, path: str = "") -> list[str]:
    """The leaves that differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*old, *(n for n in new if n not in old)]
        return [line for n in names for line in _changes(old.get(n), new.get(n), f"{path}.{n}".lstrip("."))]
    return [] if old == new else [f"{path}: {old} → {new}"]


def written(title: str, told: dict[str, list[str]]) -> str:
    """The file of what is wanted."""
    return f"# {title}\n{yaml.safe_dump(told, sort_keys=False, width=118, allow_unicode=True)}"
