"""Which Workloads belong to which job: by kind, namespace and name of the owner, as Kueue indexes them.

By name, not UID: a job that is gone still has to let go of its Workloads' finalizers.

Source: pkg/controller/core/indexer.
"""

from __future__ import annotations

from typing import Final

from fairway.cluster.actions import View
from fairway.cluster.changes import DELETED, Change
from fairway.kube.kinds import group_kind
from fairway.kube.objects import Key, Obj, meta_of

WORKLOAD: Final = "Workload.kueue.x-k8s.io"


class OwnedWorkloads:
    """Follows the Workloads there are."""

    def __init__(self) -> None:
        self._of: dict[Key, dict[str, None]] = {}

    def apply(self, change: Change) -> None:
        """One change of a Workload. O(1)."""
        if change.old is not None and change.type != DELETED:
            if meta_of(change.old).get("ownerReferences") == meta_of(change.obj).get("ownerReferences"):
                return
            for owner in owners_of(change.old):
                self._of.get(owner, {}).pop(change.key.name, None)
        for owner in owners_of(change.obj):
            if change.type == DELETED:
                names = self._of.get(owner)
                if names is not None:
                    names.pop(change.key.name, None)
                    if not names:
                        del self._of[owner]
            else:
                self._of.setdefault(owner, {})[change.key.name] = None

    def has(self, job: Key) -> bool:
        """Whether it has any."""
        return job in self._of

    def of(self, view: View, job: Key) -> list[Obj]:
        """Its Workloads in order of their names."""
        names = self._of.get(job)
        if not names:
            return []
        found = (view.get(Key(WORKLOAD, job.namespace, name)) for name in sorted(names))
        return [obj for obj in found if obj is not None]

    def copy(self) -> OwnedWorkloads:
        twin = OwnedWorkloads()
        twin._of = {owner: dict(names) for owner, names in self._of.items()}
        return twin


def owners_of(workload: Obj) -> list[Key]:
    meta = meta_of(workload)
    namespace = meta.get("namespace") or ""
    return [
        Key(group_kind(ref["apiVersion"], ref["kind"]), namespace, ref["name"])
        for ref in meta.get("ownerReferences") or ()
    ]
