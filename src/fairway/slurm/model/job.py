"""A job: what was asked (`JobRequest`), and what slurmctld keeps of it (`Job`).

Times are whole seconds since 1970, as slurmctld stores them (0: never); limits are minutes, `INFINITE` for none;
memory is MiB. A pending array is one record with the indexes still to start in `array_left`; each task that starts
splits off with a job id of its own, the last one keeps the record's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from fairway.slurm.model.tres import Tres
from fairway.slurm.words.durations import INFINITE

ACTIVE = ("RUNNING", "SUSPENDED")
FINISHED = [
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "REVOKED",
]


@dataclass(slots=True, kw_only=True)
class JobRequest:
    """What sbatch, salloc and srun send (job_desc_msg_t). None: not asked.

    `gpus…`: `tres_per_*` maps a GRES name with its type to a count: `{"gpu:h100": 2}`; `mem_per_tres` and
    `cpus_per_tres` likewise by `gpu`. `begin` and `deadline` are seconds since 1970.
    """

    name: str = ""
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    time_limit: int | None = None
    time_min: int | None = None
    min_nodes: int | None = None
    max_nodes: int | None = None
    num_tasks: int | None = None
    cpus_per_task: int | None = None
    min_cpus: int | None = None
    ntasks_per_node: int | None = None
    ntasks_per_socket: int | None = None
    ntasks_per_core: int | None = None
    ntasks_per_gpu: int | None = None
    sockets_per_node: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    node_min_cpus: int | None = None
    core_spec: int | None = None
    mem_per_node: int | None = None
    mem_per_cpu: int | None = None
    min_tmp_disk: int | None = None
    tres_per_job: dict[str, int] = field(default_factory=dict)
    tres_per_node: dict[str, int] = field(default_factory=dict)
    tres_per_socket: dict[str, int] = field(default_factory=dict)
    tres_per_task: dict[str, int] = field(default_factory=dict)
    cpus_per_tres: dict[str, int] = field(default_factory=dict)
    mem_per_tres: dict[str, int] = field(default_factory=dict)
    gres_flags: tuple[str, ...] = ()
    """`enforce-binding`, `disable-binding`."""
    features: str | None = None
    prefer: str | None = None
    nodelist: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    exclusive: str | None = None
    """`node` (--exclusive), `user`, `mcs`; `ok` for --oversubscribe."""
    contiguous: bool = False
    spread: bool = False
    use_min_nodes: bool = False
    overcommit: bool = False
    distribution: str | None = None
    begin: int = 0
    deadline: int = 0
    array: str | None = None
    dependency: str | None = None
    kill_on_invalid_dep: bool | None = None
    nice: int | None = None
    priority: int | None = None
    hold: str = ""
    """`user` for -H; `admin`."""
    requeue: bool | None = None
    reservation: str | None = None
    licenses: str | None = None
    immediate: bool = False
    reboot: bool = False
    delay_boot: int | None = None
    switches: int | None = None
    batch: bool = True
    het: tuple[JobRequest, ...] = ()
    """The components of a heterogeneous job; then the outer request says nothing else."""
    script: str = ""
    argv: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    work_dir: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    """What no decision depends on and commands print: std_out, std_err, std_in, comment, mail_type, wckey, …"""


_REQUEST = tuple(one.name for one in fields(JobRequest))
_REQUEST_VALUES = attrgetter(*_REQUEST)


def copied(request: JobRequest) -> JobRequest:
    """As `copy`, which looks for the slots each time."""
    made = JobRequest.__new__(JobRequest)
    for name, value in zip(_REQUEST, _REQUEST_VALUES(request), strict=True):
        setattr(made, name, value)
    return made


@dataclass(slots=True)
class NodeShare:
    """What one job has of one node. `cores`: bitmap of core numbers over the node, `gres`: name → bitmap of devices."""

    node: int
    cpus: int
    mem: int
    cores: int
    gres: dict[str, int] = field(default_factory=dict)
    gres_counts: dict[str, int] = field(default_factory=dict)
    """Name → how many, for GRES without devices (no File)."""


@dataclass(slots=True)
class Step:
    """A job step: `batch`, `extern` or a number. Times as a job's."""

    step_id: str
    name: str
    start: int
    end: int = 0
    state: str = "RUNNING"
    exit_code: int = 0
    signal: int = 0
    nodes: tuple[str, ...] = ()
    tasks: int = 1
    cpus: int = 1
    tres: Tres = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Dependency:
    """One term: `kind` (after, afterany, afterok, afternotok, aftercorr, afterburstbuffer, singleton, expand)."""

    kind: str
    job_id: int
    task: int | None = None
    """An index of the array; None: the whole of it."""
    minutes: int = 0
    """`after:1+5`."""
    state: str = "unfulfilled"
    """`fulfilled`, `failed`."""
    any_of: bool = False
    """Terms were joined by `?`."""
    whole_array: bool = False
    """The job was an array when it was named: it is told as `1_*`."""


@dataclass(slots=True)
class Job:
    """The record of a job, or of an array's tasks that have not started."""

    job_id: int
    request: JobRequest
    user: str
    account: str
    qos: str
    assoc_id: int
    partition: str
    """The partition it runs in; of a pending job, the names as asked."""
    partitions: tuple[str, ...]
    submit: int
    eligible: int
    time_limit: int
    """Minutes; its partition's default until it starts where none was asked (then `limit_set` is False)."""
    limit_set: bool
    priority: int = 0
    priority_by_partition: tuple[int, ...] = ()
    factors: dict[str, float] = field(default_factory=dict)
    """What made the priority: age, assoc, fs, js, part, qos, tres…, nice, site (weighted, as sprio prints)."""
    nice: int = 0
    state: str = "PENDING"
    flags: set[str] = field(default_factory=set)
    """COMPLETING, CONFIGURING, REQUEUED, REQUEUE_HOLD, SPECIAL_EXIT, STOPPED, RESIZING: beside the state."""
    reason: str = "None"
    waited_for: str = ""
    """The last reason but want of resources and priority that a pass found it waiting for (state_reason_prev_db)."""
    reason_detail: str = ""
    begin: int = 0
    start: int = 0
    """When it started; of a pending job, when the backfill scheduler last thought it would (0: no estimate)."""
    end: int = 0
    suspend_time: int = 0
    pre_suspend_s: int = 0
    resumed: int = 0
    """When it last went on after a suspension."""
    suspended_s: int = 0
    preempt_time: int = 0
    """When it was told to go."""
    preempting_since: int = 0
    """When others were last told to go for it."""
    exit_code: int = 0
    signal: int = 0
    derived_exit: int = 0
    restarts: int = 0
    requeue: bool = True
    batch: bool = True
    array_job_id: int = 0
    """0: no array."""
    array_task: int | None = None
    array_left: list[int] = field(default_factory=list)
    array_max_running: int = 0
    """The number after %; 0: no throttle."""
    het_job_id: int = 0
    het_offset: int = 0
    dependencies: list[Dependency] = field(default_factory=list)
    dependency_text: str = ""
    min_nodes: int = 1
    max_nodes: int = 0
    """0: as many as it takes."""
    min_cpus: int = 1
    num_tasks: int = 1
    cpus_per_task: int = 1
    ntasks_per_node: int = 0
    mem_per_cpu: int | None = None
    mem_per_node: int | None = None
    """Both None: a whole node's memory."""
    features: str | None = None
    by_preference: bool = False
    """It started on nodes that have what --prefer names."""
    nodelist: tuple[int, ...] = ()
    exclude: tuple[int, ...] = ()
    whole_node: str = ""
    """`node`, `user`, `mcs`: not shared, or only so; '' shares cores not."""
    share: bool | None = None
    """True: --oversubscribe, where the partition allows."""
    reservation: str = ""
    licenses: dict[str, int] = field(default_factory=dict)
    req_tres: Tres = field(default_factory=dict)
    alloc_tres: Tres = field(default_factory=dict)
    shares: list[NodeShare] = field(default_factory=list)
    """In node order; of a finished job, what it had."""
    nodes: tuple[str, ...] = ()
    batch_host: str = ""
    scheduled_nodes: tuple[str, ...] = ()
    """Where backfill would start it."""
    planned_cpus: int = 0
    """All CPUs of the whole nodes it was last planned on; its size counts them."""
    scheduler: str = ""
    """Main, Backfill, Builtin: who last looked."""
    last_sched_eval: int = 0
    steps: list[Step] = field(default_factory=list)
    version: int = 0
    """Counts starts and ends: an event for an older one is stale."""
    needs: dict[Any, Any] = field(default_factory=dict)
    """Partition → what the job needs there (placing.Need), made once; emptied when the job is changed."""

    @property
    def pending(self) -> bool:
        return self.state == "PENDING"

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    @property
    def finished(self) -> bool:
        return self.state not in ACTIVE and self.state != "PENDING"

    @property
    def label(self) -> str:
        """As users write it: 7, 5_3, 5_[4-6], 9+1."""
        if self.het_job_id:
            return f"{self.het_job_id}+{self.het_offset}"
        if self.array_task is not None:
            return f"{self.array_job_id}_{self.array_task}"
        return str(self.job_id)

    @property
    def unlimited(self) -> bool:
        return self.time_limit >= INFINITE
