"""The entries of `metadata.managedFields`: who holds which fields, by what operation, since when?

A manager is a name, an operation (`Apply` or `Update`), an API version and a subresource; its set never names what
the server itself writes (name, uid, resourceVersion, …).

Source: apimachinery pkg/util/managedfields/internal: managedfields.go, stripmeta.go, capmanagers.go (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from fairway.apiserver.patching.fieldset import SELF, FieldSet, is_field_set, recursive_difference, union
from fairway.kube.objects import Obj, meta_of

APPLY = "Apply"
UPDATE = "Update"
# More managers by Update than this are folded into one. Source: DefaultMaxUpdateManagers.
_MAX_UPDATE_MANAGERS = 10
_FOLDED = "ancient-changes"
_MAX_MANAGER_CHARS = 128

SERVER_WRITTEN = frozenset(
    (
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    )
)
_STRIPPED = frozenset("f:" + name for name in SERVER_WRITTEN)


class Identity(NamedTuple):
    """Who a manager is. Ordered as conflicts print them: by the JSON upstream keys them with."""

    manager: str
    operation: str
    api_version: str
    subresource: str


@dataclass(slots=True)
class Held:
    """A manager's fields, and when it last took or gave up one (RFC 3339; empty: unknown)."""

    fields: FieldSet
    time: str


Managers = dict[Identity, Held]


def manager_of(field_manager: str, user_agent: str) -> str:
    """Who a request is: its fieldManager, else the program its User-Agent names. Source: managerOrUserAgent."""
    if field_manager:
        return field_manager
    program = user_agent.partition("/")[0]
    return "".join(c for c in program if c.isprintable())[:_MAX_MANAGER_CHARS]


def managers_of(obj: Obj) -> Managers:
    """The entries of an object. Entries without a usable set are left out."""
    found: Managers = {}
    for entry in meta_of(obj).get("managedFields") or ():
        fields = entry.get("fieldsV1")
        if not isinstance(fields, dict) or entry.get("operation") not in (APPLY, UPDATE):
            continue
        identity = Identity(
            entry.get("manager", ""),
            entry["operation"],
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        held = found.get(identity)
        together = fields if held is None else union(held.fields, fields)
        found[identity] = Held(together, entry.get("time") or "")
    return found


def are_readable(entries: list[Any]) -> bool:
    """Whether every entry decodes. Source: internal/managedfields.go decodeVersionedSet, fieldpath/serialize.go."""
    return all(
        isinstance(entry, dict)
        and entry.get("operation") in (APPLY, UPDATE)
        and bool(entry.get("apiVersion"))
        and entry.get("fieldsType") == "FieldsV1"
        and is_field_set(entry.get("fieldsV1"))
        for entry in entries
    )


def stripped(fields: FieldSet) -> FieldSet:
    """The set without what the server writes itself."""
    out = {e: b for e, b in fields.items() if e not in ("f:apiVersion", "f:kind")}
    metadata = out.get("f:metadata")
    if metadata is not None:
        kept = {e: b for e, b in metadata.items() if e not in _STRIPPED and e != SELF}
        if kept:
            out["f:metadata"] = kept
        else:
            del out["f:metadata"]
    return out


def without(fields: FieldSet, ignored: tuple[str, ...]) -> FieldSet:
    """The set without whole top-level fields (`status` of a write to the main resource)."""
    if not any("f:" + name in fields for name in ignored):
        return fields
    return recursive_difference(fields, {"f:" + name: {} for name in ignored})


def with_managers(obj: Obj, managers: Managers) -> Obj:
    """The object with these entries: Apply before Update, then by time, name, version and subresource."""
    rows = managers.items() if len(managers) < 2 else sorted(managers.items(), key=_rank)
    entries = [_entry(identity, held) for identity, held in rows]
    meta = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    if entries:
        meta["managedFields"] = entries
    return {**obj, "metadata": meta}


def _rank(row: tuple[Identity, Held]) -> tuple[str, ...]:
    identity, held = row
    return (identity.operation, held.time, identity.manager, identity.api_version, identity.subresource)


def _entry(identity: Identity, held: Held) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "manager": identity.manager,
        "operation": identity.operation,
        "apiVersion": identity.api_version,
    }
    if held.time:
        entry["time"] = held.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = in_order(held.fields)
    if identity.subresource:
        entry["subresource"] = identity.subresource
    return entry


def in_order(fields: FieldSet) -> FieldSet:
    """The set with its elements sorted, as it is written."""
    if not fields:
        return fields
    return {element: in_order(fields[element]) for element in sorted(fields)}


def cap(managers: Managers) -> Managers:
    """With more than ten managers by Update, the oldest of them fold into one per version."""
    updates = [(identity, held) for identity, held in managers.items() if identity.operation == UPDATE]
    surplus = len(updates) - _MAX_UPDATE_MANAGERS
    if surplus <= 0:
        return managers
    updates.sort(key=lambda item: (item[1].time, item[0].manager))
    out = dict(managers)
    for identity, held in updates:
        if sum(i.operation == UPDATE for i in out) <= _MAX_UPDATE_MANAGERS:
            break
        if identity.manager == _FOLDED:
            continue
        target = Identity(_FOLDED, UPDATE, identity.api_version, identity.subresource)
        folded = out.pop(target, None)
        del out[identity]
        fields = held.fields if folded is None else union(folded.fields, held.fields)
        time = held.time if folded is None else max(folded.time, held.time)
        out[target] = Held(fields, time)
    return out
