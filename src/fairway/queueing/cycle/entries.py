"""A head of a queue on its way through one cycle, and what came of it.

Source: pkg/scheduler/scheduler.go entry, pkg/cache/queue/cluster_queue.go RequeueReason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fairway.queueing.facts.workloads import TopologyUsage, Usage, Workload
from fairway.queueing.flavors.assignment import Assignment, ScanState
from fairway.queueing.flavors.flavorassigner import Nomination
from fairway.queueing.preemption.targets import Target
from fairway.queueing.quota.accounts import QueueAccount


class Status(StrEnum):
    """How far an entry got."""

    NOT_NOMINATED = ""
    NOMINATED = "nominated"
    SKIPPED = "skipped"
    PREEMPTION_GATED = "preemptionGated"
    WAITING_FOR_PODS_READY = "waitingForPodsReady"
    EVICTED = "evicted"
    ASSUMED = "assumed"


class RequeueReason(StrEnum):
    """Why a workload goes back to its queue: decides whether it is tried again at once."""

    GENERIC = ""
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    PREEMPTION_GATED = "PreemptionGated"
    PENDING_PREEMPTION = "PendingPreemption"
    PENDING_MIGRATION = "PendingMigration"
    PREEMPTION_FAILED = "PreemptionFailed"
    NO_FIT = "NoFit"
    PREEMPTION_NO_CANDIDATES = "PreemptionNoCandidates"


class Recomputation(StrEnum):
    """What came of assigning an entry anew whose targets another entry preempts already."""

    NONE = ""
    DEFERRED_FIT = "deferred_fit"
    NEW_TARGETS = "new_targets"
    SKIPPED = "skipped"


class Head:
    """The next workload of a ClusterQueue. `scan`: where its search over flavors stopped last time."""

    def __init__(
        self,
        workload: Workload,
        queue: str,
        scan: ScanState | None = None,
        is_preemptor: bool = False,
    ) -> None:
        self.workload = workload
        self.queue = queue
        self.scan = scan
        self.is_preemptor = is_preemptor


@dataclass(frozen=True, slots=True)
class Eviction:
    """A workload to be evicted. `is_under_way`: it is evicted already, nothing new is to be done."""

    workload: Workload
    reason: str
    message: str
    preemptor: Workload | None = None
    is_under_way: bool = False


class Outcome:
    """What a cycle decided about one head.

    `reason`, `message`: of the condition QuotaReserved=False where it was not admitted. `admission`: the
    `status.admission` to write where it was. `considered`: flavors passed over, for the event.
    `replaced_slice`: the older slice of the same job that finishes with this admission.
    """

    def __init__(
        self,
        head: Head,
        status: Status,
        message: str,
        reason: str,
        requeue_reason: RequeueReason,
        assignment: Assignment | None,
        scan: ScanState | None,
        admission: dict[str, Any] | None = None,
        considered: str = "",
        evictions: tuple[Eviction, ...] = (),
        replaced_slice: Workload | None = None,
        skipped_preemption: bool = False,
        recomputation: Recomputation = Recomputation.NONE,
    ) -> None:
        self.head = head
        self.status = status
        self.message = message
        self.reason = reason
        self.requeue_reason = requeue_reason
        self.assignment = assignment
        self.scan = scan
        self.admission = admission
        self.considered = considered
        self.evictions = evictions
        self.replaced_slice = replaced_slice
        self.skipped_preemption = skipped_preemption
        self.recomputation = recomputation

    @property
    def is_admitted(self) -> bool:
        return self.status == Status.ASSUMED

    @property
    def updates_status(self) -> bool:
        """Whether message and reason are written to the workload's conditions."""
        return self.status in (Status.NOT_NOMINATED, Status.SKIPPED, Status.PREEMPTION_GATED)


class CycleOutcome:
    """Entries in the order they were processed, then those that were not even nominated."""

    def __init__(self, entries: tuple[Outcome, ...]) -> None:
        self.entries = entries

    def admitted(self) -> tuple[Outcome, ...]:
        return tuple(o for o in self.entries if o.is_admitted)

    def evictions(self) -> tuple[Eviction, ...]:
        """New ones only, each workload once."""
        found: dict[str, Eviction] = {}
        for outcome in self.entries:
            for eviction in outcome.evictions:
                if not eviction.is_under_way:
                    found.setdefault(eviction.workload.key, eviction)
        return tuple(found.values())

    def skipped_preemptions(self) -> dict[str, int]:
        """Per ClusterQueue, how many preemptions had to wait for another one."""
        counts: dict[str, int] = {}
        for outcome in self.entries:
            if outcome.skipped_preemption:
                counts[outcome.head.queue] = counts.get(outcome.head.queue, 0) + 1
        return counts

    @property
    def made_progress(self) -> bool:
        return any(o.status in (Status.ASSUMED, Status.EVICTED) for o in self.entries)


class Entry:
    """An outcome in the making."""

    def __init__(self, head: Head, queue: QueueAccount | None) -> None:
        self.head = head
        self.workload = head.workload
        self.queue = queue
        self.assignment = Assignment([], {})
        self.status = Status.NOT_NOMINATED
        self.message = ""
        self.reason = ""
        self.requeue_reason = RequeueReason.GENERIC
        self.targets: list[Target] = []
        self.scan = head.scan
        self.nomination: Nomination | None = None
        self.admission: dict[str, Any] | None = None
        self.evictions: tuple[Eviction, ...] = ()
        self.replaced_slice: Workload | None = None
        self.skipped_preemption = False
        self.recomputation = Recomputation.NONE

    def take(self, assignment: Assignment, targets: list[Target]) -> None:
        self.assignment = assignment
        self.targets = targets
        self.message = assignment.message()
        self.scan = assignment.scan

    def skip(self, message: str, *, keeps_scan: bool) -> None:
        self.status = Status.SKIPPED
        self.message = message
        if not keeps_scan:
            self.scan = None

    def usage(self) -> tuple[Usage, TopologyUsage]:
        """What admitting it adds: quota unless it holds that already, pods where there are none yet."""
        return self.net_usage(tuple(self.assignment.usage.items()))

    def net_usage(self, quota: Usage) -> tuple[Usage, TopologyUsage]:
        topology: TopologyUsage = ()
        if self.queue is not None and self.queue.topologies:
            topology = self.assignment.net_topology_usage(self.queue, self.workload)
        return (() if self.workload.has_quota else quota), topology
