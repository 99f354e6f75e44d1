"""A head of a queue on its way through one cycle, and what came of it.

Source: pkg/scheduler/scheduler.go entry, pkg/cache/queue/cluster_queue.go RequeueReason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fairway.queueing.accounts import QueueAccount
from fairway.queueing.assignment import Assignment, ScanState
from fairway.queueing.flavorassigner import Nomination
from fairway.queueing.preemption.targets import Target
from fairway.queueing.workloads import TopologyUsage, Usage, Workload


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


@dataclass(frozen=True, slots=True)
class Head:
    """The next workload of a ClusterQueue. `scan`: where its search over flavors stopped last time."""

    workload: Workload
    queue: str
    scan: ScanState | None = None
    is_preemptor: bool = False
    second_pass_iteration: int = 0


@dataclass(frozen=True, slots=True)
class Eviction:
    """A workload to be evicted. `is_under_way`: it is evicted already, nothing new is to be done."""

    workload: Workload
    reason: str
    message: str
    preemptor: Workload | None = None
    is_under_way: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cycle decided about one head.

    `reason`, `message`: of the condition QuotaReserved=False where it was not admitted. `admission`: the
    `status.admission` to write where it was. `considered`: flavors passed over, for the event.
    `replaced_slice`: the older slice of the same job that finishes with this admission.
    """

    head: Head
    status: Status
    message: str
    reason: str
    requeue_reason: RequeueReason
    assignment: Assignment | None
    scan: ScanState | None
    admission: dict[str, Any] | None = None
    considered: str = ""
    evictions: tuple[Eviction, ...] = ()
    replaced_slice: Workload | None = None
    skipped_preemption: bool = False
    recomputation: Recomputation = Recomputation.NONE

    @property
    def is_admitted(self) -> bool:
        return self.status == Status.ASSUMED

    @property
    def updates_status(self) -> bool:
        """Whether message and reason are written to the workload's conditions."""
        return self.status in (Status.NOT_NOMINATED, Status.SKIPPED, Status.PREEMPTION_GATED)


@dataclass(frozen=True, slots=True)
class CycleOutcome:
    """Entries in the order they were processed, then those that were not even nominated."""

    entries: tuple[Outcome, ...]

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


@dataclass(slots=True)
class Entry:
    """An outcome in the making."""

    head: Head
    queue: QueueAccount | None
    assignment: Assignment = field(default_factory=lambda: Assignment([], {}))
    status: Status = Status.NOT_NOMINATED
    message: str = ""
    reason: str = ""
    requeue_reason: RequeueReason = RequeueReason.GENERIC
    targets: list[Target] = field(default_factory=list)
    scan: ScanState | None = None
    nomination: Nomination | None = None
    admission: dict[str, Any] | None = None
    evictions: tuple[Eviction, ...] = ()
    replaced_slice: Workload | None = None
    skipped_preemption: bool = False
    recomputation: Recomputation = Recomputation.NONE

    @property
    def workload(self) -> Workload:
        return self.head.workload

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
            topology = self.assignment.net_topology_usage(self.queue, self.workload, accounted=True)
        return (() if self.workload.has_quota else quota), topology
