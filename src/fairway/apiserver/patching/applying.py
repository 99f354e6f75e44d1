"""Server-side apply: the manager says what it wants of the object, and nothing more.

1. The applied fields are merged over the live object. 2. What this manager applied before and names no more is
removed, unless somebody else holds it too. 3. Fields that change and belong to others are conflicts, unless forced:
then they change hands.

Source: structured-merge-diff merge/update.go (Apply, prune); apimachinery pkg/util/managedfields/internal:
fieldmanager.go, structuredmerge.go, conflict.go, lastappliedmanager.go, skipnonapplied.go (v1.36).
"""

from __future__ import annotations

import json
from typing import Any

from fairway.apiserver.patching.fieldset import (
    FieldSet,
    difference,
    intersection,
    members,
    path_text,
    union,
)
from fairway.apiserver.patching.managed import (
    APPLY,
    UPDATE,
    Held,
    Identity,
    Managers,
    cap,
    managers_of,
    stripped,
    with_managers,
    without,
)
from fairway.apiserver.patching.tracking import (
    Writer,
    changes,
    conflicts,
    ignored_fields,
    released,
    second,
)
from fairway.apiserver.patching.typing import type_errors
from fairway.apiserver.patching.walk import (
    fields_of,
    merge,
    remove,
    with_parents,
)
from fairway.apiserver.statuses import StatusError, bad_request
from fairway.kube.objects import Obj, annotations_of, meta_of
from fairway.kube.schema.node import Schema

_BEFORE = "before-first-apply"
_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply(
    live: Obj | None,
    applied: Obj,
    writer: Writer,
    now_us: int,
    schema: Schema | None,
    *,
    force: bool = False,
) -> Obj:
    """The object as it is after the apply; `live` itself where nothing changes. `live` None: it is created.

    Raises: StatusError (400 managedFields or another version given; 409 conflicts; 500 no such field).
    """
    check_applied(applied, writer, schema)
    own = Identity(writer.manager, APPLY, writer.api_version, writer.subresource)
    before = managers_of(live) if live is not None else {}
    managers = _first_apply(live, before, writer, now_us, schema)
    base = live if live is not None else _skeleton(applied)
    named = fields_of(applied, schema)
    wanted = without(stripped(named), ignored_fields(writer, schema))
    last = managers.get(own)
    # 1. Merge. 2. Prune.
    merged = merge(_without_managed_fields(base), applied, schema)
    if last is not None:
        # With the name and kind it gives, so that `metadata` itself stays somebody's.
        pruned = _prune(merged, last.fields, {**managers, own: Held(named, "")}, schema)
        # A map that pruning emptied is gone, unless it is applied empty.
        merged = merge(pruned, applied, schema)
    # 3. Conflicts, or fields that change hands.
    changed = changes(base if live is not None else {}, merged, writer, schema)
    found = conflicts(managers, changed, own)
    if found and not force:
        found = _beyond_last_applied(found, base, writer, schema)
        if found:
            raise _conflict(found)
    others = {identity: held for identity, held in managers.items() if identity != own}
    managers = released(others, changed)
    # What is removed was applied before, and is not wanted any more.
    is_same = not (changed.added or changed.modified)
    if wanted:
        keeps_time = is_same and last is not None and last.fields == wanted
        managers[own] = Held(wanted, last.time if keeps_time and last is not None else second(now_us))
    if live is not None and is_same and managers == before:
        return live
    return with_managers(merged, cap(managers))


def check_applied(applied: Obj, writer: Writer, schema: Schema | None) -> None:
    """Before anything is made of it. Raises: StatusError (400, 500)."""
    if _metadata(applied).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    given = applied.get("apiVersion")
    if given != writer.api_version:
        raise bad_request(
            "incorrect version specified in apply patch. Specified patch version:"
            f" {given or ''}, expected: {writer.api_version}"
        )
    wrong = type_errors(applied, schema)
    if wrong:
        raise _untyped(applied, wrong[0] if len(wrong) == 1 else "errors:\n  " + "\n  ".join(wrong))


def _metadata(applied: Obj) -> Obj:
    """Of whatever was sent."""
    meta = applied.get("metadata")
    return meta if isinstance(meta, dict) else {}


def _untyped(applied: Obj, why: str) -> StatusError:
    group, _, version = str(applied.get("apiVersion")).rpartition("/")
    meta = _metadata(applied)
    named = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
    said = (
        f"failed to create typed patch object ({named}; {group}/{version}, Kind={applied.get('kind')}): {why}"
    )
    return StatusError(500, "", said)


def _skeleton(applied: Obj) -> Obj:
    return {"apiVersion": applied.get("apiVersion"), "kind": applied.get("kind"), "metadata": {}}


def _without_managed_fields(obj: Obj) -> Obj:
    meta = meta_of(obj)
    if "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {k: v for k, v in meta.items() if k != "managedFields"}}


def _first_apply(
    live: Obj | None, managers: Managers, writer: Writer, now_us: int, schema: Schema | None
) -> Managers:
    """What an object nobody tracked has belongs to `before-first-apply`."""
    if live is None or managers:
        return managers
    everything = changes({}, live, writer, schema)
    fields = union(everything.added, everything.modified)
    if not fields:
        return {}
    identity = Identity(_BEFORE, UPDATE, writer.api_version, writer.subresource)
    return {identity: Held(fields, second(now_us))}


def _prune(merged: Obj, last: FieldSet, managers: Managers, schema: Schema | None) -> Obj:
    """Without what was applied before and now belongs to nobody."""
    owned: FieldSet = {}
    for held in managers.values():
        owned = union(owned, held.fields)
    gone = difference(with_parents(last, schema), with_parents(owned, schema))
    return remove(merged, gone, schema) if gone else merged


def _beyond_last_applied(
    found: dict[Identity, FieldSet], live: Obj, writer: Writer, schema: Schema | None
) -> dict[Identity, FieldSet]:
    """kubectl taking over from its own client-side apply conflicts with nobody over what it applied there."""
    text = annotations_of(live).get(_LAST_APPLIED)
    if writer.manager != _KUBECTL or not text:
        return found
    try:
        config = json.loads(text)
    except ValueError:
        return found
    if not isinstance(config, dict):
        return found
    allowed = fields_of(config, schema)
    left = {identity: difference(fields, intersection(fields, allowed)) for identity, fields in found.items()}
    return {identity: fields for identity, fields in left.items() if fields}


def _conflict(found: dict[Identity, FieldSet]) -> StatusError:
    rows = [
        (_manager_text(identity), path)
        for identity, fields in sorted(found.items(), key=lambda held: _manager_text(held[0]))
        for path in _paths(fields)
    ]
    causes: list[dict[str, Any]] = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in rows
    ]
    return StatusError(409, "Conflict", _conflict_message(rows), {"causes": causes})


def _paths(fields: FieldSet) -> list[str]:
    return [path_text(path) for path in members(fields)]


def _manager_text(identity: Identity) -> str:
    """Source: conflict.go printManager."""
    text = json.dumps(identity.manager, ensure_ascii=False)
    if identity.subresource:
        text += f' with subresource "{identity.subresource}"'
    return f"{text} using {identity.api_version}" if identity.operation == UPDATE else text


def _conflict_message(rows: list[tuple[str, str]]) -> str:
    if len(rows) == 1:
        manager, path = rows[0]
        return f"Apply failed with 1 conflict: conflict with {manager}: {path}"
    lines: list[str] = []
    for manager in dict.fromkeys(manager for manager, _ in rows):
        lines.append(f"conflicts with {manager}:")
        lines.extend(f"- {path}" for owner, path in rows if owner == manager)
    return f"Apply failed with {len(rows)} conflicts: " + "\n".join(lines)
