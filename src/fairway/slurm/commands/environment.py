"""The variables a job's script and its tasks find: SLURM_JOB_ID, CUDA_VISIBLE_DEVICES and the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from fairway.slurm.commands import jobtext
from fairway.slurm.commands.site import Site
from fairway.slurm.model.job import Job

PROTOCOL = "9728:109"
"""The protocol's version and select plugin's number, as SLURM_WORKING_CLUSTER tells them."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a step's tasks go: node names and how many tasks each has, in order."""

    nodes: tuple[str, ...]
    tasks: tuple[int, ...]
    order: tuple[int, ...] = ()
    """The node of every task; (): in blocks."""

    def of_task(self, task: int) -> tuple[int, int]:
        """Which node of the step a task is on, and its number there."""
        if self.order:
            return self.order[task], self.order[:task].count(self.order[task])
        for at, count in enumerate(self.tasks):
            if task < count:
                return at, task
            task -= count
        return len(self.nodes) - 1, 0

    def on_node(self, node: int) -> list[int]:
        if self.order:
            return [task for task, at in enumerate(self.order) if at == node]
        first = sum(self.tasks[:node])
        return list(range(first, first + self.tasks[node]))


def repeated(counts: Sequence[int]) -> str:
    """`2(x3),1`: counts a node, equal neighbours told once."""
    parts = []
    for count, group in groupby(counts):
        length = len(list(group))
        parts.append(f"{count}(x{length})" if length > 1 else str(count))
    return ",".join(parts)


def layout_of(
    job: Job, tasks: int, nodes: Sequence[str] | None = None, per_node: int = 0, cpus: int = 1, dealt: int = 0
) -> Layout:
    """Tasks in blocks: as many on each node as it has CPUs for, at least one on every node.

    dealt: so many at a time go to each node in turn, while it has CPUs for them (cyclic: 1; plane=N).
    """
    names = list(nodes if nodes is not None else job.nodes)
    room = {
        share_name: max(share, 1)
        for share_name, share in zip(job.nodes, (s.cpus for s in job.shares), strict=False)
    }
    most = [per_node or max(room.get(name, 1) // max(cpus, 1), 1) for name in names]
    if dealt and names:
        return _dealt(names, most, tasks, dealt)
    counts = [1 if tasks >= len(names) else int(at < tasks) for at in range(len(names))]
    left = tasks - sum(counts)
    for at in range(len(names)):
        more = min(left, max(most[at] - counts[at], 0))
        counts[at] += more
        left -= more
    at = 0
    while left > 0 and names:  # more tasks than CPUs: --overcommit
        counts[at % len(names)] += 1
        at, left = at + 1, left - 1
    return Layout(tuple(names), tuple(counts))


def _dealt(names: list[str], most: list[int], tasks: int, size: int) -> Layout:
    order: list[int] = []
    counts = [0] * len(names)
    while len(order) < tasks:
        before = len(order)
        for at in range(len(names)):
            for _ in range(min(size, most[at] - counts[at], tasks - len(order))):
                order.append(at)
                counts[at] += 1
        if len(order) == before:  # more tasks than CPUs: --overcommit
            most = [count + size for count in counts]
    return Layout(tuple(names), tuple(counts), tuple(order))


def job_layout(job: Job) -> Layout:
    tasks = max(job.num_tasks, 1)
    if (
        job.batch and job.request.num_tasks is None and job.request.cpus_per_tres
    ):  # a task for each CPU of its GPUs
        tasks = max(sum(share.cpus for share in job.shares) // max(job.cpus_per_task, 1), tasks)
    return layout_of(job, tasks, per_node=job.ntasks_per_node, cpus=job.cpus_per_task)


def job_variables(site: Site, job: Job) -> dict[str, str]:
    """What salloc's command and every task of a job find."""
    nodes = jobtext.node_list(job.nodes)
    request = job.request
    layout = job_layout(job)
    found = {
        "SLURM_CLUSTER_NAME": site.name,
        "SLURM_JOBID": str(job.job_id),
        "SLURM_JOB_ACCOUNT": job.account,
        "SLURM_JOB_CPUS_PER_NODE": repeated([share.cpus for share in job.shares]),
        "SLURM_JOB_ID": str(job.job_id),
        "SLURM_JOB_NAME": request.name,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(job.nodes)),
        "SLURM_JOB_PARTITION": job.partition,
        "SLURM_JOB_QOS": job.qos,
        "SLURM_NNODES": str(len(job.nodes)),
        "SLURM_NODELIST": nodes,
        "SLURM_SUBMIT_DIR": request.work_dir
        if "submit_dir" not in request.extra
        else str(request.extra["submit_dir"]),
        "SLURM_SUBMIT_HOST": site.host,
        "SLURM_TASKS_PER_NODE": repeated(layout.tasks),
    }
    if request.num_tasks is not None:
        found["SLURM_NPROCS"] = found["SLURM_NTASKS"] = str(job.num_tasks)
    if request.cpus_per_task is not None:
        found["SLURM_CPUS_PER_TASK"] = str(request.cpus_per_task)
    if request.ntasks_per_node is not None:
        found["SLURM_NTASKS_PER_NODE"] = str(request.ntasks_per_node)
    if job.reservation:
        found["SLURM_JOB_RESERVATION"] = job.reservation
    if job.licenses:
        found["SLURM_JOB_LICENSES"] = ",".join(f"{n}:{c}" for n, c in job.licenses.items())
    return found


_TRES = {
    "cpus-per-gpu": "SLURM_CPUS_PER_GPU",
    "gpus": "SLURM_GPUS",
    "gpu-bind": "SLURM_GPU_BIND",
    "gpu-freq": "SLURM_GPU_FREQ",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gpus-per-socket": "SLURM_GPUS_PER_SOCKET",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
    "mem-per-gpu": "SLURM_MEM_PER_GPU",
}
"""Options that sbatch and salloc, but not srun, repeat (env.c, set_env_from_opts)."""
_ASKED = {
    "ntasks-per-gpu": "SLURM_NTASKS_PER_GPU",
    "distribution": "SLURM_DISTRIBUTION",
    "hint": "SLURM_HINT",
    "dependency": "SLURM_JOB_DEPENDENCY",
    "threads-per-core": "SLURM_THREADS_PER_CORE",
    "overcommit": "SLURM_OVERCOMMIT",
}


def asked_variables(values: dict[str, object]) -> dict[str, str]:
    """Variables that repeat options to the steps of the job."""
    found = _repeated(values, _ASKED)
    if values.get("profile"):
        found["SLURM_PROFILE"] = jobtext.profile_words(str(values["profile"]))
    if str(values.get("export", "ALL")).upper() != "ALL":
        found["SLURM_EXPORT_ENV"] = str(values["export"])
    if str(values.get("export", "")).upper() == "NONE":
        found["SLURM_GET_USER_ENV"] = "1"
    if values.get("hint") == "nomultithread":
        found["SLURM_THREADS_PER_CORE"] = "1"
    return found


def tres_variables(values: dict[str, object]) -> dict[str, str]:
    """Variables that repeat sbatch's and salloc's wishes for GPUs to the steps of the job."""
    return _repeated(values, _TRES)


def _repeated(values: dict[str, object], variables: dict[str, str]) -> dict[str, str]:
    return {
        variable: "1" if values[name] is True else str(values[name])
        for name, variable in variables.items()
        if values.get(name)
    }


def gpu_variables(bits: int) -> dict[str, str]:
    """Which GPUs are to be seen, for each maker's library."""
    if not bits:
        return {}
    text = ",".join(str(at) for at in range(bits.bit_length()) if bits >> at & 1)
    return dict.fromkeys(
        ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"), text
    )


def node_variables(
    site: Site, job: Job, node: str, local: int, task: int, node_id: int, own: Sequence[int]
) -> dict[str, str]:
    """What a task finds about the node it is on. own: the tasks of its step on this node."""
    at = job.nodes.index(node) if node in job.nodes else 0
    share = job.shares[at] if at < len(job.shares) else None
    uid = site.uid(job.user)
    found = {
        "SLURMD_NODENAME": node,
        "SLURM_CPUS_ON_NODE": str(share.cpus if share else 1),
        "SLURM_GTIDS": ",".join(str(t) for t in own),
        "SLURM_JOB_GID": str(uid),
        "SLURM_JOB_UID": str(uid),
        "SLURM_JOB_USER": job.user,
        "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(node_id),
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_PROCID": str(task),
        "SLURM_TOPOLOGY_ADDR": node,
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
        "SLURM_WORKING_CLUSTER": f"{site.name}:127.0.0.1:{site.conf.get('SlurmctldPort', '6817')}:{PROTOCOL}",
        "SLURM_CONF": str(site.conf.settings.get("slurm_conf", "/etc/slurm/slurm.conf")),
    }
    gpus = share.gres.get("gpu", 0).bit_count() if share else 0
    if gpus:
        found["SLURM_GPUS_ON_NODE"] = str(gpus)
    return found


def batch_variables(site: Site, job: Job) -> dict[str, str]:
    """What a batch script finds, on the first node of its job."""
    node = job.batch_host or job.nodes[0]
    found = job_variables(site, job) | node_variables(site, job, node, 0, 0, 0, [0])
    found |= {
        "ENVIRONMENT": "BATCH",
        "HOSTNAME": node,
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_TASK_PID": "0",
        "TMPDIR": "/tmp",
    }
    request = job.request
    if job.mem_per_cpu is not None and not request.mem_per_tres:
        found["SLURM_MEM_PER_CPU"] = str(job.mem_per_cpu)
    elif job.mem_per_node and not request.mem_per_tres:
        found["SLURM_MEM_PER_NODE"] = str(job.mem_per_node)
    share = job.shares[0] if job.shares else None
    bits = share.gres.get("gpu", 0) if share else 0
    found |= gpu_variables(bits)
    if bits:
        found["SLURM_JOB_GPUS"] = ",".join(str(at) for at in range(bits.bit_length()) if bits >> at & 1)
    if job.array_task is not None:
        found |= _array_variables(job)
    return found


def _array_variables(job: Job) -> dict[str, str]:
    indexes = array_indexes(job.request.array or str(job.array_task))
    step = indexes[1] - indexes[0] if len(indexes) > 1 else 1
    return {
        "SLURM_ARRAY_JOB_ID": str(job.array_job_id),
        "SLURM_ARRAY_TASK_COUNT": str(len(indexes)),
        "SLURM_ARRAY_TASK_ID": str(job.array_task),
        "SLURM_ARRAY_TASK_MAX": str(indexes[-1]),
        "SLURM_ARRAY_TASK_MIN": str(indexes[0]),
        "SLURM_ARRAY_TASK_STEP": str(step if all(b - a == step for a, b in pairwise(indexes)) else 1),
    }


def array_indexes(text: str) -> list[int]:
    """`0-20:5%2` → 0, 5, 10, 15, 20."""
    found: set[int] = set()
    for part in text.partition("%")[0].split(","):
        span, _, step = part.partition(":")
        low, dash, high = span.partition("-")
        if low.isdecimal() and (not dash or high.isdecimal()):
            found.update(range(int(low), int(high or low) + 1, max(int(step or 1), 1)))
    return sorted(found) or [0]
