"""Namespace deletion: everything in it goes, then it may.

In: a namespace that is being deleted (or is gone), and what it contains. Out: deletions, the conditions that
say what remains, and at last the namespace without its finalizer.

Source: pkg/controller/namespace/deletion/namespaced_resources_deleter.go, status_condition_utils.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairway.cluster.actions import (
    NOTHING_TO_DO,
    Action,
    Delete,
    Patch,
    Reconciliation,
    SetStatus,
    View,
)
from fairway.cluster.changes import DELETED, Change
from fairway.kube.kinds import BY_GROUP_KIND, kind_named
from fairway.kube.objects import Key, Obj, meta_of, spec_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads.controller import NO_KEYS, Controller, is_desire_changed

NAMESPACE: Final = "Namespace"
FINALIZER: Final = "kubernetes"
# Others get this long to notice that a namespace is going.
# Source: namespace_controller.go namespaceDeletionGracePeriod.
GRACE_US: Final = 5 * SECOND_US

Remaining = dict[str, list[Obj]]

# (condition, holds, reason, message). What can go wrong only between processes cannot go wrong here.
_Row = tuple[str, bool, str, str]
_ALWAYS_FINE: Final[tuple[_Row, ...]] = (
    (
        "NamespaceDeletionDiscoveryFailure",
        False,
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        False,
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        False,
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """Delete what a dying namespace contains; let it go once that is gone. O(kinds + its objects)."""
    namespace = view.get(key)
    if namespace is not None:
        since = meta_of(namespace).get("deletionTimestamp")
        if since is None:
            return NOTHING_TO_DO
        from_us = parse_rfc3339(since) + GRACE_US
        if now_us < from_us:
            return Reconciliation((), from_us)
    remaining = contents(view, key.name)
    actions: list[Action] = [
        Delete(Key(gk, key.name, o["metadata"]["name"]), o["metadata"]["uid"])
        for gk, objects in remaining.items()
        for o in objects
        if "deletionTimestamp" not in o["metadata"]
    ]
    if namespace is None:
        return Reconciliation(tuple(actions))
    status = _next_status(namespace, remaining, now_us)
    if status != (namespace.get("status") or {}):
        actions.append(SetStatus(key, status))
    if not remaining:
        actions.append(_finalized(key, namespace))
    return Reconciliation(tuple(actions))


def contents(view: View, namespace: str) -> Remaining:
    """What the namespace contains, by group kind, sorted.

    Kinds nobody declared are known only where the view can list its kinds.
    """
    kinds = [gk for gk, kind in BY_GROUP_KIND.items() if kind.namespaced]
    listing = getattr(view, "kinds", None)
    if listing is not None:
        kinds += [gk for gk in listing() if kind_named(gk).namespaced]
    found: Remaining = {}
    for gk in sorted(dict.fromkeys(kinds)):
        if gk != "Event" and (objects := view.objects(gk, namespace)):
            found[gk] = objects
    return found


def _finalized(key: Key, namespace: Obj) -> Action:
    """Take the namespace's own finalizer away, wherever it is kept."""
    in_spec = spec_of(namespace).get("finalizers") or []
    in_meta = meta_of(namespace).get("finalizers") or []
    patch: dict[str, Any] = {}
    if FINALIZER in in_spec:
        patch["spec"] = {"finalizers": [f for f in in_spec if f != FINALIZER] or None}
    patch["metadata"] = {"finalizers": [f for f in in_meta if f != FINALIZER] or None}
    return Patch(key, patch)


def _next_status(namespace: Obj, remaining: Remaining, now_us: int) -> dict[str, Any]:
    status = {**(namespace.get("status") or {}), "phase": "Terminating"}
    rows = (*_ALWAYS_FINE, _content_row(remaining), _finalizers_row(remaining))
    conditions: list[dict[str, Any]] = list(status.get("conditions") or ())
    for type_, holds, reason, message in rows:
        conditions = _put(conditions, type_, holds, reason, message, now_us)
    status["conditions"] = conditions
    return status


def _content_row(remaining: Remaining) -> _Row:
    type_ = "NamespaceContentRemaining"
    if not remaining:
        return type_, False, "ContentRemoved", "All content successfully removed"
    parts = [f"{_resource(gk)} has {len(objects)} resource instances" for gk, objects in remaining.items()]
    return type_, True, "SomeResourcesRemain", f"Some resources are remaining: {', '.join(sorted(parts))}"


def _finalizers_row(remaining: Remaining) -> _Row:
    counts: dict[str, int] = {}
    for objects in remaining.values():
        for obj in objects:
            for finalizer in meta_of(obj).get("finalizers") or ():
                counts[finalizer] = counts.get(finalizer, 0) + 1
    type_ = "NamespaceFinalizersRemaining"
    if not counts:
        return type_, False, "ContentHasNoFinalizers", "All content-preserving finalizers finished"
    parts = [f"{name} in {count} resource instances" for name, count in sorted(counts.items())]
    return (
        type_,
        True,
        "SomeFinalizersRemain",
        f"Some content in the namespace has finalizers remaining: {', '.join(parts)}",
    )


def _resource(gk: str) -> str:
    """`pods.`, `jobs.batch`: upstream leaves the dot of the core group."""
    kind = kind_named(gk)
    return f"{kind.plural}.{kind.group}"


def _put(
    conditions: list[dict[str, Any]], type_: str, holds: bool, reason: str, message: str, now_us: int
) -> list[dict[str, Any]]:
    state = "True" if holds else "False"
    made = {
        "type": type_,
        "status": state,
        "lastTransitionTime": rfc3339(now_us),
        "reason": reason,
        "message": message,
    }
    for at, old in enumerate(conditions):
        if old.get("type") == type_:
            if old.get("status") == state:
                made["lastTransitionTime"] = old.get("lastTransitionTime", made["lastTransitionTime"])
            return [*conditions[:at], made, *conditions[at + 1 :]]
    return [*conditions, made]


def map_change(view: View, change: Change) -> Sequence[Key]:
    """A namespace that begins to go or is gone; one that is going, when something left it or came."""
    if change.key.gk == NAMESPACE:
        if change.type == DELETED:
            return (change.key,)
        is_going = "deletionTimestamp" in change.obj["metadata"]
        return (change.key,) if is_going and is_desire_changed(change) else NO_KEYS
    if not change.key.namespace or (change.old is not None and change.type != DELETED):
        return NO_KEYS
    key = Key(NAMESPACE, "", change.key.namespace)
    namespace = view.get(key)
    if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
        return NO_KEYS
    return (key,)


def _watched() -> tuple[str, ...]:
    return (NAMESPACE, *(gk for gk, kind in BY_GROUP_KIND.items() if kind.namespaced and gk != "Event"))


CONTROLLER: Final = Controller("namespace", NAMESPACE, _watched(), map_change, reconcile)
