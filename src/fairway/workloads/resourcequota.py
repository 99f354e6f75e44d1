"""ResourceQuota: what is used of what is allowed, counted afresh.

Admission charges a quota as it lets an object in; this controller corrects the account when objects go, end,
or came in another way.

Source: pkg/controller/resourcequota/resource_quota_controller.go syncResourceQuota (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairway.cluster.actions import NOTHING_TO_DO, Reconciliation, SetStatus, View
from fairway.cluster.changes import DELETED, MODIFIED, Change
from fairway.cluster.quotausage import QUOTA, format_used, is_counted_pod, kinds_counted, quota_key, used
from fairway.kube import quantity
from fairway.kube.kinds import BY_GROUP_KIND
from fairway.kube.objects import Key, spec_of
from fairway.workloads.controller import NO_KEYS, Controller, is_desire_changed


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """Write `status.hard` and `status.used`. O(objects of the kinds it counts in the namespace)."""
    quota = view.get(key)
    if quota is None or "deletionTimestamp" in quota["metadata"]:
        return NOTHING_TO_DO
    hard = spec_of(quota).get("hard") or {}
    status = {
        "hard": {n: quantity.canonical(v) for n, v in hard.items()},
        "used": {n: format_used(n, v) for n, v in used(view, quota).items()},
    }
    if status == (quota.get("status") or {}):
        return NOTHING_TO_DO
    return Reconciliation((SetStatus(key, status),))


def map_change(view: View, change: Change) -> Sequence[Key]:
    """A quota that changed; the quotas of a namespace in which something they count came, ended or went."""
    if change.key.gk == QUOTA and change.type != DELETED and is_desire_changed(change):
        return (change.key,)
    if not change.key.namespace or not _changes_usage(change):
        return NO_KEYS
    quotas = view.objects(QUOTA, change.key.namespace)
    return [quota_key(q) for q in quotas if change.key.gk in kinds_counted(q)]


def _changes_usage(change: Change) -> bool:
    if change.type != MODIFIED or change.old is None:
        return True
    if change.key.gk == "Pod":
        return is_counted_pod(change.obj) != is_counted_pod(change.old)
    return change.key.gk in ("PersistentVolumeClaim", "Service") and change.obj.get("spec") != change.old.get(
        "spec"
    )


def _watched() -> tuple[str, ...]:
    return tuple(sorted(gk for gk, kind in BY_GROUP_KIND.items() if kind.namespaced and gk != "Event"))


CONTROLLER: Final = Controller("resourcequota", QUOTA, _watched(), map_change, reconcile)
