"""What came of queueing: typed tables of Kueue's Workloads, the quota they held, evictions, and queues over time.

All are empty in a run without objects of Kueue. Units are those of `tables`, and amounts of quota as Kueue counts
them: milli-CPU for `cpu`, bytes for memory, whole units of everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairway.recorder.table import Table


@dataclass(frozen=True, slots=True)
class QueuedRow:
    """One Workload of Kueue: what waits in a queue until it is admitted as a whole."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    """Its own; of its job those that Kueue copies."""
    owner_kind: str
    """The job it stands for: the kind and name of its first owner; empty for one made by hand."""
    owner_name: str
    queue: str
    """Its LocalQueue."""
    cluster_queue: str
    """That of its LocalQueue, or the one that admitted it last."""
    priority: int
    priority_class: str
    pods: int
    """How many pods it starts, together or not at all."""
    gpu_milli: int
    """What they ask for together."""
    requests: Mapping[str, str]
    """The same for every resource, as amounts of quota."""
    flavors: Mapping[str, str]
    """By resource: the flavors it was given last, joined by commas."""
    created_us: int
    reserved_us: int | None
    """When it first was given quota, and when it first was admitted (its admission checks passed)."""
    admitted_us: int | None
    finished_us: int | None
    deleted_us: int | None
    evictions: int
    preemptions: int
    """Those of its evictions in which it made room for another."""
    evicted_us: int | None
    """Its last eviction: when, the reason of condition Evicted, of condition Preempted, and for whom."""
    eviction: str
    preemption: str
    preempted_by: str
    outcome: str
    """Finished, Admitted, QuotaReserved, Pending, Inactive or Deleted."""
    reason: str
    """Why it has no quota, while it has none: reason and message of condition QuotaReserved."""
    message: str
    waited_us: int
    """Time without quota while it might have had some, evictions included; until now where it goes on."""
    held_us: int
    """Time with quota."""

    @property
    def wait_us(self) -> int | None:
        """From creation to first admission; None while it never was admitted."""
        return None if self.admitted_us is None else self.admitted_us - self.created_us

    @property
    def run_us(self) -> int | None:
        """From first admission to its end; None where one of them is missing."""
        if self.admitted_us is None or self.finished_us is None:
            return None
        return self.finished_us - self.admitted_us

    @property
    def is_gang(self) -> bool:
        return self.pods > 1


@dataclass(frozen=True, slots=True)
class HoldRow:
    """A Workload held this much quota of one resource in one flavor over `[start_us, end_us)`; None: still."""

    workload: int
    """Row of `QueueOutcome.workloads`."""
    namespace: str
    name: str
    queue: str
    cluster_queue: str
    flavor: str
    resource: str
    amount: int
    start_us: int
    end_us: int | None


@dataclass(frozen=True, slots=True)
class EvictionRow:
    """A Workload lost its quota before it was done."""

    time_us: int
    workload: int
    namespace: str
    name: str
    queue: str
    cluster_queue: str
    reason: str
    """Of condition Evicted: Preempted, PodsReadyTimeout, AdmissionCheck, ClusterQueueStopped, Deactivated…, …"""
    preemption: str
    """Of condition Preempted: InClusterQueue, InCohortReclamation, InCohortFairSharing, …; empty otherwise."""
    preemptor: str
    """`namespace/name` of the Workload it made room for (its UID where that is not known); or empty."""
    preemptor_queue: str
    preemptor_cluster_queue: str
    gpu_milli: int
    """GPU quota it held."""
    ran_us: int
    """How long it had held it."""
    message: str


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One resource of one flavor of one ClusterQueue: time-weighted means over `[start_us, end_us)`."""

    cluster_queue: str
    cohort: str
    """The path of its cohorts from the root, such as `company/research`; empty without."""
    flavor: str
    resource: str
    start_us: int
    end_us: int
    nominal: float
    used: float
    """Held by Workloads with quota reserved, admitted or not: what Kueue counts."""
    borrowed: float
    """Used beyond nominal."""
    lent: float
    """Of its nominal quota, used by others: see `lending`."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One ClusterQueue: time-weighted means over `[start_us, end_us)`."""

    cluster_queue: str
    cohort: str
    start_us: int
    end_us: int
    pending: float
    """Workloads that wait for quota in it."""
    pending_gpu_milli: float
    gangs_pending: float
    """Those of them with more than one pod."""
    reserving: float
    """Workloads that hold quota of it."""
    weighted_share: float
    """Kueue's: thousandths of the cohort's lendable amount that it borrows, of the resource where that is most,
    divided by its weight (by 1 where the weight is 0). 0 while it borrows nothing."""
    dominant_share: float
    """What it uses of all quota of its cohort tree, of the resource where that is most: 0 to 1."""
    weight: float


@dataclass(frozen=True, slots=True)
class FairnessRow:
    """One tree of cohorts with more than one ClusterQueue: over `[start_us, end_us)`."""

    cohort: str
    start_us: int
    end_us: int
    jain: float | None
    """Jain's index over the queues that contend: 1 where all get the same part of what they are entitled to, 1/n where
    one gets everything. A queue contends while it waits for quota or borrows; it gets its dominant share; it is
    entitled to its nominal quota's share of the tree (to its weight, where no queue of the tree has nominal quota;
    one without any beside others that have some is left out). None while fewer than two contend."""
    contenders: float
    """How many they are."""


def _none(row: type) -> Table:  # type: ignore[type-arg]
    return Table.of(row, [])


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """`workloads` in order of creation, `holds` by start, `evictions` by time, the others by name and time."""

    workloads: Table[QueuedRow] = field(default_factory=lambda: _none(QueuedRow))
    holds: Table[HoldRow] = field(default_factory=lambda: _none(HoldRow))
    evictions: Table[EvictionRow] = field(default_factory=lambda: _none(EvictionRow))
    quotas: Table[QuotaRow] = field(default_factory=lambda: _none(QuotaRow))
    queues: Table[QueueRow] = field(default_factory=lambda: _none(QueueRow))
    fairness: Table[FairnessRow] = field(default_factory=lambda: _none(FairnessRow))

    @property
    def is_empty(self) -> bool:
        return not (len(self.workloads) or len(self.queues))


NO_QUEUES = QueueOutcome()
