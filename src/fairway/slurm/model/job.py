"""A job: what was asked (`JobRequest`), and what slurmctld keeps of it (`Job`).

Times are whole seconds since 1970, as slurmctld stores them (0: never); limits are minutes, `INFINITE` for none;
memory is MiB. A pending array is one record with the indexes still to start in `array_left`; each task that starts
splits off with a job id of its own, the last one keeps the record's.

Constructors are written out, here and where a scheduler makes thousands: compiled by mypyc, a dataclass's own stays
interpreted and takes eight times as long (twenty times, if frozen): 13 % of a long run.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(slots=True, init=False)
class JobRequest:
    """What sbatch, salloc and srun send (job_desc_msg_t). None: not asked.

    `gpus…`: `tres_per_*` maps a GRES name with its type to a count: `{"gpu:h100": 2}`; `mem_per_tres` and
    `cpus_per_tres` likewise by `gpu`. `begin` and `deadline` are seconds since 1970.
    """

    name: str
    account: str | None
    partition: str | None
    qos: str | None
    time_limit: int | None
    time_min: int | None
    min_nodes: int | None
    max_nodes: int | None
    num_tasks: int | None
    cpus_per_task: int | None
    min_cpus: int | None
    ntasks_per_node: int | None
    ntasks_per_socket: int | None
    ntasks_per_core: int | None
    ntasks_per_gpu: int | None
    sockets_per_node: int | None
    cores_per_socket: int | None
    threads_per_core: int | None
    node_min_cpus: int | None
    core_spec: int | None
    mem_per_node: int | None
    mem_per_cpu: int | None
    min_tmp_disk: int | None
    tres_per_job: dict[str, int]
    tres_per_node: dict[str, int]
    tres_per_socket: dict[str, int]
    tres_per_task: dict[str, int]
    cpus_per_tres: dict[str, int]
    mem_per_tres: dict[str, int]
    gres_flags: tuple[str, ...]
    """`enforce-binding`, `disable-binding`."""
    features: str | None
    prefer: str | None
    nodelist: tuple[str, ...]
    exclude: tuple[str, ...]
    exclusive: str | None
    """`node` (--exclusive), `user`, `mcs`; `ok` for --oversubscribe."""
    contiguous: bool
    spread: bool
    use_min_nodes: bool
    overcommit: bool
    distribution: str | None
    begin: int
    deadline: int
    array: str | None
    dependency: str | None
    kill_on_invalid_dep: bool | None
    nice: int | None
    priority: int | None
    hold: str
    """`user` for -H; `admin`."""
    requeue: bool | None
    reservation: str | None
    licenses: str | None
    immediate: bool
    reboot: bool
    delay_boot: int | None
    switches: int | None
    batch: bool
    het: tuple[JobRequest, ...]
    """The components of a heterogeneous job; then the outer request says nothing else."""
    script: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    work_dir: str
    extra: dict[str, Any]
    """What no decision depends on and commands print: std_out, std_err, std_in, comment, mail_type, wckey, …"""

    def __init__(
        self, *, name: str = "", account: str | None = None, partition: str | None = None,
        qos: str | None = None, time_limit: int | None = None, time_min: int | None = None,
        min_nodes: int | None = None, max_nodes: int | None = None, num_tasks: int | None = None,
        cpus_per_task: int | None = None, min_cpus: int | None = None, ntasks_per_node: int | None = None,
        ntasks_per_socket: int | None = None, ntasks_per_core: int | None = None,
        ntasks_per_gpu: int | None = None, sockets_per_node: int | None = None,
        cores_per_socket: int | None = None, threads_per_core: int | None = None,
        node_min_cpus: int | None = None, core_spec: int | None = None, mem_per_node: int | None = None,
        mem_per_cpu: int | None = None, min_tmp_disk: int | None = None,
        tres_per_job: dict[str, int] | None = None, tres_per_node: dict[str, int] | None = None,
        tres_per_socket: dict[str, int] | None = None, tres_per_task: dict[str, int] | None = None,
        cpus_per_tres: dict[str, int] | None = None, mem_per_tres: dict[str, int] | None = None,
        gres_flags: tuple[str, ...] = (), features: str | None = None, prefer: str | None = None,
        nodelist: tuple[str, ...] = (), exclude: tuple[str, ...] = (), exclusive: str | None = None,
        contiguous: bool = False, spread: bool = False, use_min_nodes: bool = False,
        overcommit: bool = False, distribution: str | None = None, begin: int = 0, deadline: int = 0,
        array: str | None = None, dependency: str | None = None, kill_on_invalid_dep: bool | None = None,
        nice: int | None = None, priority: int | None = None, hold: str = "", requeue: bool | None = None,
        reservation: str | None = None, licenses: str | None = None, immediate: bool = False,
        reboot: bool = False, delay_boot: int | None = None, switches: int | None = None,
        batch: bool = True, het: tuple[JobRequest, ...] = (), script: str = "", argv: tuple[str, ...] = (),
        environment: dict[str, str] | None = None, work_dir: str = "", extra: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.account, self.partition, self.qos = name, account, partition, qos
        self.time_limit, self.time_min, self.min_nodes = time_limit, time_min, min_nodes
        self.max_nodes, self.num_tasks, self.cpus_per_task = max_nodes, num_tasks, cpus_per_task
        self.min_cpus, self.ntasks_per_node = min_cpus, ntasks_per_node
        self.ntasks_per_socket, self.ntasks_per_core = ntasks_per_socket, ntasks_per_core
        self.ntasks_per_gpu, self.sockets_per_node = ntasks_per_gpu, sockets_per_node
        self.cores_per_socket, self.threads_per_core = cores_per_socket, threads_per_core
        self.node_min_cpus, self.core_spec, self.mem_per_node = node_min_cpus, core_spec, mem_per_node
        self.mem_per_cpu, self.min_tmp_disk, self.gres_flags = mem_per_cpu, min_tmp_disk, gres_flags
        self.features, self.prefer, self.nodelist, self.exclude = features, prefer, nodelist, exclude
        self.exclusive, self.contiguous, self.spread = exclusive, contiguous, spread
        self.use_min_nodes, self.overcommit, self.distribution = use_min_nodes, overcommit, distribution
        self.begin, self.deadline, self.array, self.dependency = begin, deadline, array, dependency
        self.kill_on_invalid_dep, self.nice, self.priority = kill_on_invalid_dep, nice, priority
        self.hold, self.requeue, self.reservation, self.licenses = hold, requeue, reservation, licenses
        self.immediate, self.reboot, self.delay_boot = immediate, reboot, delay_boot
        self.switches, self.batch, self.het, self.script, self.argv = switches, batch, het, script, argv
        self.work_dir = work_dir
        self.tres_per_job = {} if tres_per_job is None else tres_per_job
        self.tres_per_node = {} if tres_per_node is None else tres_per_node
        self.tres_per_socket = {} if tres_per_socket is None else tres_per_socket
        self.tres_per_task = {} if tres_per_task is None else tres_per_task
        self.cpus_per_tres = {} if cpus_per_tres is None else cpus_per_tres
        self.mem_per_tres = {} if mem_per_tres is None else mem_per_tres
        self.environment = {} if environment is None else environment
        self.extra = {} if extra is None else extra


def copied(request: JobRequest) -> JobRequest:
    """As `copy`, which looks for the slots each time."""
    return JobRequest(
        name=request.name, account=request.account, partition=request.partition, qos=request.qos,
        time_limit=request.time_limit, time_min=request.time_min, min_nodes=request.min_nodes,
        max_nodes=request.max_nodes, num_tasks=request.num_tasks, cpus_per_task=request.cpus_per_task,
        min_cpus=request.min_cpus, ntasks_per_node=request.ntasks_per_node,
        ntasks_per_socket=request.ntasks_per_socket, ntasks_per_core=request.ntasks_per_core,
        ntasks_per_gpu=request.ntasks_per_gpu, sockets_per_node=request.sockets_per_node,
        cores_per_socket=request.cores_per_socket, threads_per_core=request.threads_per_core,
        node_min_cpus=request.node_min_cpus, core_spec=request.core_spec, mem_per_node=request.mem_per_node,
        mem_per_cpu=request.mem_per_cpu, min_tmp_disk=request.min_tmp_disk,
        tres_per_job=request.tres_per_job, tres_per_node=request.tres_per_node,
        tres_per_socket=request.tres_per_socket, tres_per_task=request.tres_per_task,
        cpus_per_tres=request.cpus_per_tres, mem_per_tres=request.mem_per_tres,
        gres_flags=request.gres_flags, features=request.features, prefer=request.prefer,
        nodelist=request.nodelist, exclude=request.exclude, exclusive=request.exclusive,
        contiguous=request.contiguous, spread=request.spread, use_min_nodes=request.use_min_nodes,
        overcommit=request.overcommit, distribution=request.distribution, begin=request.begin,
        deadline=request.deadline, array=request.array, dependency=request.dependency,
        kill_on_invalid_dep=request.kill_on_invalid_dep, nice=request.nice, priority=request.priority,
        hold=request.hold, requeue=request.requeue, reservation=request.reservation,
        licenses=request.licenses, immediate=request.immediate, reboot=request.reboot,
        delay_boot=request.delay_boot, switches=request.switches, batch=request.batch, het=request.het,
        script=request.script, argv=request.argv, environment=request.environment,
        work_dir=request.work_dir, extra=request.extra,
    )  # fmt: skip


@dataclass(slots=True, init=False)
class NodeShare:
    """What one job has of one node. `cores`: bitmap of core numbers over the node, `gres`: name → bitmap of devices."""

    node: int
    cpus: int
    mem: int
    cores: int
    gres: dict[str, int]
    gres_counts: dict[str, int]
    """Name → how many, for GRES without devices (no File)."""

    def __init__(
        self, node: int = 0, cpus: int = 0, mem: int = 0, cores: int = 0,
        gres: dict[str, int] | None = None, gres_counts: dict[str, int] | None = None,
    ) -> None:  # fmt: skip
        self.node, self.cpus, self.mem, self.cores = node, cpus, mem, cores
        self.gres = {} if gres is None else gres
        self.gres_counts = {} if gres_counts is None else gres_counts


@dataclass(slots=True, init=False)
class Step:
    """A job step: `batch`, `extern` or a number. Times as a job's."""

    step_id: str
    name: str
    start: int
    end: int
    state: str
    exit_code: int
    signal: int
    nodes: tuple[str, ...]
    tasks: int
    cpus: int
    tres: Tres
    extra: dict[str, Any]

    def __init__(
        self, step_id: str = "", name: str = "", start: int = 0, end: int = 0, state: str = "RUNNING",
        exit_code: int = 0, signal: int = 0, nodes: tuple[str, ...] = (), tasks: int = 1, cpus: int = 1,
        tres: Tres | None = None, extra: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.step_id, self.name, self.start, self.end, self.state = step_id, name, start, end, state
        self.exit_code, self.signal, self.nodes, self.tasks = exit_code, signal, nodes, tasks
        self.cpus = cpus
        self.tres = {} if tres is None else tres
        self.extra = {} if extra is None else extra


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


@dataclass(slots=True, init=False)
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
    priority: int
    priority_by_partition: tuple[int, ...]
    factors: dict[str, float]
    """What made the priority: age, assoc, fs, js, part, qos, tres…, nice, site (weighted, as sprio prints)."""
    nice: int
    state: str
    flags: set[str]
    """COMPLETING, CONFIGURING, REQUEUED, REQUEUE_HOLD, SPECIAL_EXIT, STOPPED, RESIZING: beside the state."""
    reason: str
    waited_for: str
    """The last reason but want of resources and priority that a pass found it waiting for (state_reason_prev_db)."""
    reason_detail: str
    begin: int
    start: int
    """When it started; of a pending job, when the backfill scheduler last thought it would (0: no estimate)."""
    end: int
    suspend_time: int
    pre_suspend_s: int
    resumed: int
    """When it last went on after a suspension."""
    suspended_s: int
    preempt_time: int
    """When it was told to go."""
    preempting_since: int
    """When others were last told to go for it."""
    exit_code: int
    signal: int
    derived_exit: int
    restarts: int
    requeue: bool
    batch: bool
    array_job_id: int
    """0: no array."""
    array_task: int | None
    array_left: list[int]
    array_max_running: int
    """The number after %; 0: no throttle."""
    het_job_id: int
    het_offset: int
    dependencies: list[Dependency]
    dependency_text: str
    min_nodes: int
    max_nodes: int
    """0: as many as it takes."""
    min_cpus: int
    num_tasks: int
    cpus_per_task: int
    ntasks_per_node: int
    mem_per_cpu: int | None
    mem_per_node: int | None
    """Both None: a whole node's memory."""
    features: str | None
    by_preference: bool
    """It started on nodes that have what --prefer names."""
    nodelist: tuple[int, ...]
    exclude: tuple[int, ...]
    whole_node: str
    """`node`, `user`, `mcs`: not shared, or only so; '' shares cores not."""
    share: bool | None
    """True: --oversubscribe, where the partition allows."""
    reservation: str
    licenses: dict[str, int]
    req_tres: Tres
    alloc_tres: Tres
    shares: list[NodeShare]
    """In node order; of a finished job, what it had."""
    nodes: tuple[str, ...]
    batch_host: str
    scheduled_nodes: tuple[str, ...]
    """Where backfill would start it."""
    few_switches: int
    """Leaf switches that it may still wait for so few of (--switches, topology/tree); 0: any number will do."""
    planned_cpus: int
    """All CPUs of the whole nodes it was last planned on; its size counts them."""
    scheduler: str
    """Main, Backfill, Builtin: who last looked."""
    last_sched_eval: int
    steps: list[Step]
    version: int
    """Counts starts and ends: an event for an older one is stale."""
    needs: dict[Any, Any]
    """Partition → what the job needs there (placing.Need), made once; emptied when the job is changed."""

    def __init__(
        self, job_id: int = 0, request: JobRequest | None = None, user: str = "", account: str = "",
        qos: str = "", assoc_id: int = 0, partition: str = "", partitions: tuple[str, ...] = (),
        submit: int = 0, eligible: int = 0, time_limit: int = 0, limit_set: bool = False,
        priority: int = 0, priority_by_partition: tuple[int, ...] = (),
        factors: dict[str, float] | None = None, nice: int = 0, state: str = "PENDING",
        flags: set[str] | None = None, reason: str = "None", waited_for: str = "", reason_detail: str = "",
        begin: int = 0, start: int = 0, end: int = 0, suspend_time: int = 0, pre_suspend_s: int = 0,
        resumed: int = 0, suspended_s: int = 0, preempt_time: int = 0, preempting_since: int = 0,
        exit_code: int = 0, signal: int = 0, derived_exit: int = 0, restarts: int = 0, requeue: bool = True,
        batch: bool = True, array_job_id: int = 0, array_task: int | None = None,
        array_left: list[int] | None = None, array_max_running: int = 0, het_job_id: int = 0,
        het_offset: int = 0, dependencies: list[Dependency] | None = None, dependency_text: str = "",
        min_nodes: int = 1, max_nodes: int = 0, min_cpus: int = 1, num_tasks: int = 1,
        cpus_per_task: int = 1, ntasks_per_node: int = 0, mem_per_cpu: int | None = None,
        mem_per_node: int | None = None, features: str | None = None, by_preference: bool = False,
        nodelist: tuple[int, ...] = (), exclude: tuple[int, ...] = (), whole_node: str = "",
        share: bool | None = None, reservation: str = "", licenses: dict[str, int] | None = None,
        req_tres: Tres | None = None, alloc_tres: Tres | None = None, shares: list[NodeShare] | None = None,
        nodes: tuple[str, ...] = (), batch_host: str = "", scheduled_nodes: tuple[str, ...] = (),
        few_switches: int = 0, planned_cpus: int = 0, scheduler: str = "", last_sched_eval: int = 0,
        steps: list[Step] | None = None, version: int = 0, needs: dict[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        self.job_id, self.user, self.account, self.qos = job_id, user, account, qos
        # All have defaults: `copy` makes an empty one first.
        self.request = JobRequest() if request is None else request
        self.assoc_id, self.partition, self.partitions = assoc_id, partition, partitions
        self.submit, self.eligible, self.time_limit = submit, eligible, time_limit
        self.limit_set, self.priority = limit_set, priority
        self.priority_by_partition, self.nice, self.state = priority_by_partition, nice, state
        self.reason, self.waited_for, self.reason_detail = reason, waited_for, reason_detail
        self.begin, self.start, self.end, self.suspend_time = begin, start, end, suspend_time
        self.pre_suspend_s, self.resumed, self.suspended_s = pre_suspend_s, resumed, suspended_s
        self.preempt_time, self.preempting_since, self.exit_code = preempt_time, preempting_since, exit_code
        self.signal, self.derived_exit, self.restarts = signal, derived_exit, restarts
        self.requeue, self.batch, self.array_job_id = requeue, batch, array_job_id
        self.array_task, self.array_max_running, self.het_job_id = array_task, array_max_running, het_job_id
        self.het_offset, self.dependency_text, self.min_nodes = het_offset, dependency_text, min_nodes
        self.max_nodes, self.min_cpus, self.num_tasks = max_nodes, min_cpus, num_tasks
        self.cpus_per_task, self.ntasks_per_node = cpus_per_task, ntasks_per_node
        self.mem_per_cpu, self.mem_per_node, self.features = mem_per_cpu, mem_per_node, features
        self.by_preference, self.nodelist, self.exclude = by_preference, nodelist, exclude
        self.whole_node, self.share, self.reservation, self.nodes = whole_node, share, reservation, nodes
        self.batch_host, self.scheduled_nodes, self.planned_cpus = batch_host, scheduled_nodes, planned_cpus
        self.scheduler, self.last_sched_eval, self.version = scheduler, last_sched_eval, version
        self.few_switches = few_switches
        self.factors = {} if factors is None else factors
        self.flags = set() if flags is None else flags
        self.array_left = [] if array_left is None else array_left
        self.dependencies = [] if dependencies is None else dependencies
        self.licenses = {} if licenses is None else licenses
        self.req_tres = {} if req_tres is None else req_tres
        self.alloc_tres = {} if alloc_tres is None else alloc_tres
        self.shares = [] if shares is None else shares
        self.steps = [] if steps is None else steps
        self.needs = {} if needs is None else needs

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
