"""Which changes of a pod can change what its owner does?"""

from __future__ import annotations

from fairway.cluster.changes import MODIFIED, Change
from fairway.kube.objects import Obj
from fairway.workloads.pods import is_ready, node_of, phase_of


def is_relevant(change: Change) -> bool:
    """Coming, going, being deleted, changing hands or labels, binding, phase or readiness."""
    if change.type != MODIFIED or change.old is None:
        return True
    new, old = change.obj, change.old
    new_meta: Obj = new["metadata"]
    old_meta: Obj = old["metadata"]
    if new_meta is not old_meta and (
        new_meta.get("deletionTimestamp") != old_meta.get("deletionTimestamp")
        or new_meta.get("ownerReferences") != old_meta.get("ownerReferences")
        or new_meta.get("labels") != old_meta.get("labels")
    ):
        return True
    if phase_of(new) != phase_of(old) or is_ready(new) != is_ready(old):
        return True
    return node_of(new) != node_of(old)
