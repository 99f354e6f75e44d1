"""Who holds quota, and the counts of it that queues report.

`accounts` has the tree of quotas; here are the sums per ClusterQueue and LocalQueue, and whose pods are not ready
where that blocks admission.

Source: pkg/cache/scheduler/cache.go, clusterqueue.go, localqueue.go.
"""

from __future__ import annotations

from typing import Final

from fairway.kube.objects import Obj, status_of
from fairway.queueing.control.queuestatus import NOTHING_HELD, Held
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.quota.accounts import Accounts


class Holdings:
    """Kept by whoever sees Workloads come and go. Each method says whether a cycle may decide differently now."""

    def __init__(self, accounts: Accounts, *, blocks_admission: bool) -> None:
        self.accounts = accounts
        self.blocks_admission = blocks_admission
        self.not_ready: dict[str, None] = {}
        """Workloads with quota whose pods are not ready; kept only where that blocks admission."""
        self._of_queue: dict[str, Held] = {}
        self._of_local_queue: dict[str, Held] = {}

    def copy(self, accounts: Accounts) -> Holdings:
        """An independent copy, beside a copy of the accounts."""
        twin = Holdings(accounts, blocks_admission=self.blocks_admission)
        twin.not_ready = dict(self.not_ready)
        twin._of_queue = {name: held.copy() for name, held in self._of_queue.items()}
        twin._of_local_queue = {key: held.copy() for key, held in self._of_local_queue.items()}
        return twin

    def of_queue(self, name: str) -> Held:
        return self._of_queue.get(name, NOTHING_HELD)

    def of_local_queue(self, key: str) -> Held:
        return self._of_local_queue.get(key, NOTHING_HELD)

    def hold(self, workload: Workload) -> None:
        """It holds quota from now on, or holds it with other facts."""
        before = self.accounts.holders.get(workload.key)
        if before is not None:
            self._count(before, -1)
        self.accounts.hold(workload)
        self._count(workload, 1)
        self.note_readiness(workload.key, workload.obj)

    def refresh(self, held: Workload, workload: Workload) -> bool:
        """The same quota, told by a newer object."""
        if held.is_admitted != workload.is_admitted:
            self._count(held, -1)
            self._count(workload, 1)
        queue = self.accounts.queues.get(workload.cluster_queue)
        if queue is not None and workload.key in queue.workloads:
            queue.workloads[workload.key] = workload
        self.accounts.holders[workload.key] = workload
        return held.is_evicted != workload.is_evicted

    def release(self, key: str) -> Workload | None:
        """It holds quota no longer; what it held."""
        held = self.accounts.release(key)
        if held is not None:
            self._count(held, -1)
            self.not_ready.pop(key, None)
        return held

    def note_readiness(self, key: str, obj: Obj) -> bool:
        """Follow the condition PodsReady of who holds quota."""
        if not self.blocks_admission:
            return False
        if not conds.is_true(status_of(obj), conds.PODS_READY):
            self.not_ready[key] = None
            return False
        return self.not_ready.pop(key, _ABSENT) is not _ABSENT

    def _count(self, workload: Workload, sign: int) -> None:
        for held_in, name in (
            (self._of_queue, workload.cluster_queue),
            (self._of_local_queue, workload.queue),
        ):
            held = held_in.get(name)
            if held is None:
                held = held_in[name] = Held()
            held.add(workload, sign)


_ABSENT: Final[object] = object()
