"""Who owns which fields after a create, an update or a patch?

The writer takes what it changed; everybody else loses what was changed or removed. An object nobody tracked (it has
no managedFields) stays untracked until the first server-side apply.

Source: apimachinery pkg/util/managedfields/internal: fieldmanager.go, structuredmerge.go, managedfieldsupdater.go,
skipnonapplied.go; structured-merge-diff merge/update.go (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway.apiserver.patching.fieldset import SELF, FieldSet, difference, intersection, union
from fairway.apiserver.patching.managed import (
    SERVER_WRITTEN,
    UPDATE,
    Held,
    Identity,
    Managers,
    are_readable,
    cap,
    managers_of,
    stripped,
    with_managers,
    without,
)
from fairway.apiserver.patching.walk import Comparison, compare
from fairway.kube.objects import Obj, meta_of
from fairway.kube.schema.node import Schema
from fairway.kube.timestamps import SECOND_US, rfc3339

_TYPE_META = ("apiVersion", "kind")


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, in which version, through which subresource.

    `ignores` are top-level fields this endpoint leaves as they were, so nobody comes to own them through it: `status`
    on the main resource of a kind with a status subresource, `spec` on `status`. None: by the built-in kind's schema.
    """

    manager: str
    api_version: str
    subresource: str = ""
    ignores: tuple[str, ...] | None = None


def track_update(live: Obj | None, new: Obj, writer: Writer, now_us: int, schema: Schema | None) -> Obj:
    """`new` with the managedFields it has after this write. `live` None: it is created."""
    given = meta_of(new).get("managedFields")
    was_reset = isinstance(given, list) and given in ([{}], [])
    managers = managers_of(new) if given and not was_reset and _is_readable(live, given) else {}
    if live is not None and not managers:
        if was_reset and given:
            return with_managers(new, {})
        managers = managers_of(live)
        if not managers:
            return new if given is None else with_managers(new, {})
    changed = changes(live or {}, new, writer, schema)
    mine = union(changed.added, changed.modified)
    if not mine and not changed.removed:
        return with_managers(new, managers)
    managers = released(managers, changed)
    if mine:
        identity = Identity(writer.manager, UPDATE, writer.api_version, writer.subresource)
        held = managers.get(identity)
        fields = mine if held is None else union(held.fields, mine)
        managers[identity] = Held(fields, second(now_us))
        managers = cap(managers)
    return with_managers(new, managers)


def _is_readable(live: Obj | None, given: Any) -> bool:
    """Whether the entries a client sent can be used: those it got can; of others one bad one spoils all.

    Source: managedfields fieldmanager.go Update: what does not decode gives way to the live object's.
    """
    return (live is not None and given == meta_of(live).get("managedFields")) or are_readable(given)


def changes(live: Obj, new: Obj, writer: Writer, schema: Schema | None) -> Comparison:
    """What this write changes, apart from what the server writes itself or the endpoint ignores."""
    ignored = ignored_fields(writer, schema)
    if not live:
        found = compare({}, _as_written(new, ignored), schema)
        metadata = found.added.get("f:metadata")
        if metadata and SELF in metadata:
            del metadata[SELF]
        return found
    found = compare(live, new, schema)
    return Comparison(*(without(stripped(fields), ignored) if fields else fields for fields in found))


def _as_written(new: Obj, ignored: tuple[str, ...]) -> Obj:
    """A new object without what is not the writer's: it is cheaper to leave out than to strip afterwards."""
    out = {k: v for k, v in new.items() if k not in _TYPE_META and k not in ignored}
    meta = {k: v for k, v in (out.pop("metadata", None) or {}).items() if k not in SERVER_WRITTEN}
    if meta:
        out["metadata"] = meta
    return out


def ignored_fields(writer: Writer, schema: Schema | None) -> tuple[str, ...]:
    if writer.ignores is not None:
        return writer.ignores
    if schema is None or schema.is_custom or "status" not in schema.properties:
        return ()
    return ("spec",) if writer.subresource == "status" else () if writer.subresource else ("status",)


def released(managers: Managers, changed: Comparison) -> Managers:
    """The managers without what was taken from them or removed; those left with nothing are gone."""
    taken = union(changed.added, changed.modified)
    out: Managers = {}
    for identity, held in managers.items():
        fields = difference(held.fields, intersection(held.fields, taken))
        fields = difference(fields, changed.removed)
        if fields:
            out[identity] = Held(fields, held.time)
    return out


def conflicts(managers: Managers, changed: Comparison, own: Identity) -> dict[Identity, FieldSet]:
    """What other managers hold of that which changes."""
    taken = union(changed.added, changed.modified)
    found = {
        identity: intersection(held.fields, taken) for identity, held in managers.items() if identity != own
    }
    return {identity: fields for identity, fields in found.items() if fields}


def second(now_us: int) -> str:
    """The time as entries have it: whole seconds."""
    return rfc3339(now_us // SECOND_US * SECOND_US)
