"""What came of a run: typed tables of pods, workloads, nodes, usage intervals and the cluster over time.

Rows are frozen and built when asked for; behind them a table keeps one list per column, so that 100,000 pods
cost a few hundred bytes each and go to Parquet without being touched one by one.

Units: times are µs since 1970, None where it never happened; GPU is milli-GPU (one GPU is 1000); GPU time is
milli-GPU·µs (`GPU_HOUR` of them are one GPU-hour); CPU is milli-CPU; memory is bytes. What nobody measured is
None, never a guess: use of GPUs is known only for pods that say how they use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairway.recorder.queuetables import NO_QUEUES, QueueOutcome
from fairway.recorder.table import Table

GPU_HOUR = 1000 * 3_600_000_000
"""Milli-GPU·µs in one GPU-hour."""

COMPLETE, INTERRUPTED, RUNNING = "complete", "interrupted", "running"
"""How a run stands: ran to its end; stopped before it; not over when this was written."""


@dataclass(frozen=True, slots=True)
class PodRow:
    """One pod, from creation to what became of it."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    owner_kind: str
    """Its controller (`Job`, `ReplicaSet`, …) and, as `root`, the topmost owner (`CronJob`, `Deployment`)."""
    owner_name: str
    root_kind: str
    root_name: str
    priority: int
    priority_class: str
    queue: str
    """Label `kueue.x-k8s.io/queue-name`, its own or its owners'; empty without."""
    gpu_milli: int
    cpu_milli: int
    memory_bytes: int
    devices: Mapping[str, str]
    """The GPUs it asks for by resource, with their counts: `{"nvidia.com/mig-1g.5gb": "2"}`."""
    is_serving: bool
    """Whether it restarts Always: it runs until told otherwise, and its deletion wastes nothing."""
    phase: str
    """The last phase seen: Pending, Running, Succeeded, Failed."""
    reason: str
    """Why, where its status says so: `OOMKilled`, `Error`, `Evicted`, `DeadlineExceeded`, …"""
    node: str
    created_us: int
    scheduled_us: int | None
    started_us: int | None
    """When it was first Running."""
    ready_us: int | None
    finished_us: int | None
    """When it Succeeded, Failed, or was removed before either."""
    deleted_us: int | None
    restarts: int
    refusals: int
    """How often the scheduler gave it a reason that differed from the one before."""
    unschedulable: str
    """The scheduler's last words on why it found no node; kept when it found one later."""
    disruption: str
    """Reason of its DisruptionTarget condition: PreemptionByScheduler, EvictionByEvictionAPI, …; or empty."""
    preempted_by: str
    """`namespace/name` of the pod (or of the Workload of Kueue) it made room for, its UID where that is not known;
    or empty."""
    held_gpu_milli_us: int
    """GPU time allocated to it, from binding to its end (or to the end of the run)."""
    used_gpu_milli_us: int | None
    """GPU time it made use of, by its own account (`fairway.dev/gpu-utilization`)."""
    cluster_queue: str = ""
    """That of its Workload of Kueue; empty without one."""
    queue_eviction: str = ""
    """The eviction of its Workload that ended it: Preempted, PodsReadyTimeout, …; empty otherwise."""
    behaviour: str = ""
    """Its annotations that say how it uses GPUs, as JSON with sorted keys; empty without."""

    @property
    def wait_us(self) -> int | None:
        """From creation to first Running; None while it never ran."""
        return None if self.started_us is None else self.started_us - self.created_us

    @property
    def run_us(self) -> int | None:
        """From first Running to its end; None where one of them is missing."""
        if self.started_us is None or self.finished_us is None:
            return None
        return self.finished_us - self.started_us

    @property
    def is_started(self) -> bool:
        return self.started_us is not None

    @property
    def is_evicted(self) -> bool:
        """Whether something other than its own end, its owner or its user took it away."""
        return bool(self.disruption or self.queue_eviction)

    @property
    def is_wasted(self) -> bool:
        """Whether it started and ended without finishing what it was started for.

        Failed, disrupted, or deleted before it succeeded; a serving pod that is deleted in an orderly way
        has done its work. What checkpoints saved of it is not looked at.
        """
        if self.started_us is None or self.finished_us is None or self.phase == "Succeeded":
            return False
        return self.phase == "Failed" or self.is_evicted or not self.is_serving


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """Something that owns pods: Job, Deployment, JobSet, PyTorchJob, …"""

    kind: str
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    owner_kind: str
    owner_name: str
    priority_class: str
    queue: str
    created_us: int
    started_us: int | None
    """When its first pod was Running, its own or one of a workload it owns."""
    finished_us: int | None
    deleted_us: int | None
    outcome: str
    """Complete, Failed, Running, Waiting (no pod ran yet), Suspended, Idle (has no pods) or Deleted."""
    reason: str
    message: str
    conditions: tuple[str, ...]
    """Types of its conditions that are True, as listed last."""
    pods: int
    """Pods created for it, directly or through what it owns; so are the counts below."""
    pods_started: int
    pods_succeeded: int
    pods_failed: int
    """Failed pods: what its retries cost."""
    gpu_milli: int
    """GPU of the pods it had at once, at most."""
    held_gpu_milli_us: int

    @property
    def wait_us(self) -> int | None:
        return None if self.started_us is None else self.started_us - self.created_us

    @property
    def run_us(self) -> int | None:
        if self.started_us is None or self.finished_us is None:
            return None
        return self.finished_us - self.started_us


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node over its life in the run. GPU time: `capacity = held + idle`, and `idle` is split in three."""

    name: str
    uid: str
    labels: Mapping[str, str]
    instance_type: str
    gpu_model: str
    gpu_milli: int
    """The most it offered; so are CPU and memory. GPUs that fail were there, and were paid for."""
    cpu_milli: int
    memory_bytes: int
    devices: Mapping[str, str]
    """The GPUs it offered by resource, when it offered most."""
    system_cpu_milli: int
    system_memory_bytes: int
    """What it keeps for itself, beside what it offers: capacity less allocatable."""
    created_us: int
    deleted_us: int | None
    lifetime_us: int
    capacity_gpu_milli_us: int
    held_gpu_milli_us: int
    used_gpu_milli_us: int | None
    """None where no pod on it told how it uses GPUs."""
    idle_no_demand_gpu_milli_us: int
    """Idle while no GPU pod was waiting anywhere."""
    idle_in_demand_gpu_milli_us: int
    """Idle while GPU pods were waiting: fragmentation, taints, affinity, or the time to react."""
    idle_closed_gpu_milli_us: int
    """Idle while cordoned or not ready."""
    pods: int
    """Pods that were bound to it."""
    launched_us: int | None = None
    """When its machine was launched; None: nobody launched it here. What never became a node has a lifetime of 0."""

    @property
    def idle_gpu_milli_us(self) -> int:
        return self.capacity_gpu_milli_us - self.held_gpu_milli_us


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One pod held a part of one node for a while: `[start_us, end_us)`. Open (None) only in a partial run."""

    pod: int
    """Row of `Outcome.pods`."""
    namespace: str
    name: str
    node: str
    gpu_milli: int
    cpu_milli: int
    memory_bytes: int
    start_us: int
    end_us: int | None
    used_gpu_milli_us: int | None
    """GPU time it made use of meanwhile, by the pod's own account; None where it says nothing."""
    used_gpu_memory_bytes: int | None
    """Memory of its GPUs it made use of, all together, mean over the interval, by its own account."""


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """The cluster between two moments: time-weighted means over `[start_us, end_us)`."""

    start_us: int
    end_us: int
    gpu_milli_total: float
    gpu_milli_allocated: float
    gpu_milli_told: float
    """Allocated to pods that say how they use GPUs; `used` is out of this."""
    gpu_milli_used: float
    gpu_milli_pending: float
    """Asked for by pods without a node."""
    cpu_milli_total: float
    cpu_milli_allocated: float
    memory_bytes_total: float
    memory_bytes_allocated: float
    nodes: float
    pods_pending: float
    """Without a node (held back by scheduling gates included)."""
    pods_starting: float
    """On a node, not yet Running."""
    pods_running: float
    queue_length: float
    """Workloads (and pods without an owner) that wait: suspended, or with a pod that has no node."""
    fragmentation: float | None
    """Share of free GPU that a GPU pod drawn from those seen so far could not use, just before `end_us`; None:
    no GPU was free, or none asked for. See `demand`."""


@dataclass(frozen=True, slots=True)
class EventCount:
    """How often a component said something (core/v1 Events, repetitions included)."""

    component: str
    type: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """One reason out of the scheduler's refusals, such as `Insufficient nvidia.com/gpu`."""

    reason: str
    told: int
    """Refusals that named it (repetitions of the same words to the same pod not counted)."""
    pods: int
    """Pods whose last refusal named it."""
    pods_never_placed: int
    """Those of them that never got a node."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The largest value of a series, and when it was first reached."""

    value: int
    at_us: int


@dataclass(frozen=True, slots=True)
class ScalingRow:
    """One change of a target's replicas by an autoscaler, or by somebody else between two of its looks."""

    at_us: int
    autoscaler_kind: str
    """HorizontalPodAutoscaler, ScaledObject or ScaledJob; empty for somebody else."""
    autoscaler: str
    kind: str
    namespace: str
    name: str
    before: int
    after: int
    ready: int
    """Ready pods of the target at that time."""
    metric: str
    reason: str
    is_flap: bool
    """Whether it goes against the change before it, less than ten minutes later."""


@dataclass(frozen=True, slots=True)
class BreakRow:
    """A GPU that broke. `ended_us` None: it was not mended by the end of the run, or the card itself was well."""

    node: str
    card: int
    cause: str
    at_us: int
    ended_us: int | None


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """What the requests of a served model got: how they ended, and percentiles of those that were answered (None:
    none was). `queue`, `prefill` and `decode` are where an answer's time went."""

    at_us: int
    """As of when."""
    namespace: str
    name: str
    model: str
    requests: int
    ok: int
    refused: int
    lost: int
    timed_out: int
    too_long: int
    failed: int
    """Answered with an error."""
    unfinished: int
    attained_permille: int
    """Of all requests, those answered within the SLO."""
    tokens_written: int
    tokens_read: int
    preempted: int
    ready_most: int
    waiting_most: int
    ttft_us_p50: int | None
    ttft_us_p95: int | None
    ttft_us_p99: int | None
    tpot_us_p50: int | None
    tpot_us_p95: int | None
    tpot_us_p99: int | None
    end_to_end_us_p50: int | None
    end_to_end_us_p95: int | None
    end_to_end_us_p99: int | None
    queue_us_p50: int | None
    queue_us_p95: int | None
    queue_us_p99: int | None
    prefill_us_p50: int | None
    prefill_us_p95: int | None
    prefill_us_p99: int | None
    decode_us_p50: int | None
    decode_us_p95: int | None
    decode_us_p99: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything a run left behind, as of `ended_us`.

    `pods` in order of creation, `workloads` likewise, `nodes` by name, `intervals` by start.
    """

    began_us: int
    ended_us: int
    status: str
    pods: Table[PodRow]
    workloads: Table[WorkloadRow]
    nodes: Table[NodeRow]
    intervals: Table[IntervalRow]
    series: Table[SeriesRow]
    events: tuple[EventCount, ...]
    """Most frequent first."""
    reasons: tuple[ReasonCount, ...]
    """What kept pods from nodes: by pods, most first."""
    peaks: Mapping[str, Peak]
    """By name of a series' column."""
    integrals: Mapping[str, int]
    """By name of a series' column: its exact integral over the run, value·µs."""
    queues: QueueOutcome = NO_QUEUES
    """What Kueue did; empty without it."""
    scalings: Table[ScalingRow] = field(default_factory=lambda: Table.of(ScalingRow, []))
    """What autoscalers did, in order; empty without them."""
    services: Table[ServiceRow] = field(default_factory=lambda: Table.of(ServiceRow, []))
    """What requests got; empty where nothing is served."""
    breaks: Table[BreakRow] = field(default_factory=lambda: Table.of(BreakRow, []))
    """GPUs that broke, in order."""

    @property
    def duration_us(self) -> int:
        return self.ended_us - self.began_us

    def mean(self, name: str) -> float:
        """The time-weighted mean of a series' column over the run; 0 for a run of no duration."""
        return self.integrals[name] / self.duration_us if self.duration_us else 0.0


__all__ = [
    "COMPLETE",
    "BreakRow",
    "GPU_HOUR",
    "INTERRUPTED",
    "RUNNING",
    "EventCount",
    "IntervalRow",
    "NodeRow",
    "Outcome",
    "Peak",
    "PodRow",
    "ReasonCount",
    "ScalingRow",
    "SeriesRow",
    "Table",
    "WorkloadRow",
]
