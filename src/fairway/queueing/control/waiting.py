"""Which Workloads are there, by LocalQueue, and which of them wait where?

`pending` has what waits in a ClusterQueue, in order; here is how it gets there: through a LocalQueue, which may be
missing, stopped, or lead elsewhere tomorrow.

Source: pkg/cache/queue/manager.go, local_queue.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.queueing.cycle.pending import ClusterQueuePending, PendingWorkloads
from fairway.queueing.facts.gates import FeatureGates
from fairway.queueing.facts.objects import NO_STOP, LocalQueue
from fairway.queueing.facts.workloads import Workload


class Waiting:
    """`local_queues` by key; changed through `set_local_queue` and `drop_local_queue`."""

    def __init__(self, gates: FeatureGates) -> None:
        self.pending = PendingWorkloads(gates)
        self.local_queues: dict[str, LocalQueue] = {}
        self._by_cluster_queue: dict[str, dict[str, None]] = {}
        self._members: dict[str, dict[str, None]] = {}
        """Unfinished Workloads by LocalQueue."""
        self._queued: dict[str, str] = {}
        """The LocalQueue of every workload that waits or is in flight."""
        self._queued_count: dict[str, int] = {}

    def copy(self) -> Waiting:
        twin = Waiting(self.pending.gates)
        twin.pending = self.pending.copy()
        twin.local_queues = dict(self.local_queues)
        twin._by_cluster_queue = {name: dict(keys) for name, keys in self._by_cluster_queue.items()}
        twin._members = {queue: dict(keys) for queue, keys in self._members.items()}
        twin._queued, twin._queued_count = dict(self._queued), dict(self._queued_count)
        return twin

    # Queues

    def set_local_queue(self, queue: LocalQueue) -> None:
        old = self.local_queues.get(queue.key)
        if old is not None and old.cluster_queue != queue.cluster_queue:
            self._by_cluster_queue[old.cluster_queue].pop(queue.key)
        self.local_queues[queue.key] = queue
        self._by_cluster_queue.setdefault(queue.cluster_queue, {})[queue.key] = None

    def drop_local_queue(self, key: str) -> None:
        old = self.local_queues.pop(key, None)
        if old is not None:
            self._by_cluster_queue[old.cluster_queue].pop(key)

    def local_queues_of(self, cluster_queue: str) -> list[str]:
        return list(self._by_cluster_queue.get(cluster_queue, ()))

    def queue_of(self, local_queue: str) -> ClusterQueuePending | None:
        """Where workloads of this LocalQueue wait: None while it is missing or stopped."""
        found = self.local_queues.get(local_queue)
        if found is None or found.stop_policy != NO_STOP:
            return None
        return self.pending.queues.get(found.cluster_queue)

    # Workloads

    def members(self, local_queue: str) -> Iterable[str]:
        """Its unfinished Workloads, queued or not."""
        return self._members.get(local_queue, ())

    def join(self, key: str, local_queue: str) -> None:
        self._members.setdefault(local_queue, {})[key] = None

    def leave(self, key: str, local_queue: str) -> None:
        members = self._members.get(local_queue)
        if members is not None:
            members.pop(key, None)

    def facts_of(self, key: str) -> Workload | None:
        """What is known of a workload that waits; None where it does not, or its LocalQueue is stopped."""
        queue = self.queue_of(self._queued.get(key) or "")
        known = None if queue is None else queue.get(key)
        return None if known is None else known.workload

    def home_of(self, key: str) -> str | None:
        """The LocalQueue through which it waits, or is in flight."""
        return self._queued.get(key)

    def note_queued(self, key: str, local_queue: str) -> None:
        """It waits, having come through this LocalQueue."""
        if key not in self._queued:
            self._queued[key] = local_queue
            self._queued_count[local_queue] = self._queued_count.get(local_queue, 0) + 1

    def note_taken(self, key: str) -> str | None:
        """It waits no longer; the LocalQueue it had come through."""
        local_queue = self._queued.pop(key, None)
        if local_queue is not None:
            self._queued_count[local_queue] -= 1
        return local_queue

    def remove(self, key: str) -> bool:
        """It is to wait no longer: whether there was a queue to take it out of."""
        local_queue = self.note_taken(key)
        found = self.local_queues.get(local_queue or "")
        queue = None if found is None else self.pending.queues.get(found.cluster_queue)
        if queue is None:
            return False
        queue.remove(key)
        return True

    def pending_in(self, cluster_queue: str) -> int:
        queue = self.pending.queues.get(cluster_queue)
        return 0 if queue is None else len(queue)

    def pending_by(self, local_queue: str) -> int:
        return self._queued_count.get(local_queue, 0)
