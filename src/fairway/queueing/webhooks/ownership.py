"""Does Kueue manage this job, or somebody above it?

Source: pkg/controller/jobframework/utils.go WorkloadShouldBeSuspended, reconciler.go FindAncestorJobManagedByKueue.
"""

from __future__ import annotations

from fairway.cluster.actions import View
from fairway.kube.kinds import group_kind
from fairway.kube.objects import Key, Obj, controller_of, labels_of, meta_of, namespace_of
from fairway.queueing.webhooks.jobs import queue_name_of
from fairway.queueing.webhooks.settings import FRAMEWORKS, NAMESPACE_LABEL, Settings

_KNOWN = frozenset(FRAMEWORKS.values()) | {"ReplicaSet.apps"}
# Owners above each other; more would be a mistake. Source: managedOwnersChainLimit.
_MAX_OWNERS = 10


def should_be_suspended(view: View, obj: Obj, settings: Settings) -> bool:
    """Whether the job has to wait for Kueue: it names a queue or all do, and nobody above it waits already."""
    if meta_of(obj).get("deletionTimestamp"):
        return False
    named = bool(queue_name_of(obj))
    if not named and not settings.manages_without_queue_name:
        return False
    if has_managed_ancestor(view, obj, settings):
        return False
    return named or in_managed_namespace(view, namespace_of(obj), settings)


def in_managed_namespace(view: View, namespace: str, settings: Settings) -> bool:
    found = view.get(Key("Namespace", "", namespace))
    labels = {NAMESPACE_LABEL: namespace, **(labels_of(found) if found is not None else {})}
    return settings.managed_namespaces.matches(labels)


def has_managed_ancestor(view: View, obj: Obj, settings: Settings) -> bool:
    namespace, current = namespace_of(obj), obj
    for _ in range(_MAX_OWNERS):
        owner = controller_of(current)
        if owner is None:
            return False
        gk = group_kind(owner.get("apiVersion", ""), owner.get("kind", ""))
        if gk not in _KNOWN and gk not in settings.external:
            return False
        parent = view.get(Key(gk, namespace, owner.get("name", "")))
        if parent is None or meta_of(parent).get("uid") != owner.get("uid"):
            return False
        manages = settings.manages_without_queue_name or bool(queue_name_of(parent))
        if settings.manages(gk) and manages:
            return True
        current = parent
    return False


def has_managed_owner(obj: Obj, settings: Settings) -> bool:
    """Whether its controller is a kind of job Kueue manages, by its reference alone."""
    owner = controller_of(obj)
    if owner is None:
        return False
    return settings.manages(group_kind(owner.get("apiVersion", ""), owner.get("kind", "")))
