"""What srun asks for within a job: how many tasks, on which nodes, with which GPUs; and what each task finds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fairway.kube.integers import natural
from fairway.slurm.commands import jobtext
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.environment import (
    Layout,
    gpu_variables,
    job_variables,
    layout_of,
    node_variables,
    repeated,
)
from fairway.slurm.commands.hetvariables import components_of
from fairway.slurm.commands.joboptions import JobOptions
from fairway.slurm.commands.jobrequests import _gres
from fairway.slurm.model.job import Job, Step
from fairway.slurm.words import hostlist


@dataclass(frozen=True, slots=True)
class Task:
    """One process to start."""

    number: int
    node: str
    variables: dict[str, str]


def plan_step(call: Call, job: Job, options: JobOptions, whole_job: bool) -> tuple[Step, list[Task]]:
    """The step's record and its tasks. whole_job: srun made the allocation itself."""
    get = options.get
    names = list(job.nodes)
    if get("nodelist"):
        names = [n for n in hostlist.expand(get("nodelist")) if n in job.nodes] or names
    wanted_nodes = get("nodes", (0, 0))[0]
    tasks = get("ntasks") or (job.num_tasks if whole_job or not wanted_nodes else wanted_nodes)
    if not whole_job and not options.is_set("ntasks") and job.request.num_tasks is None and not wanted_nodes:
        tasks = max(len(names) * (get("ntasks-per-node") or 1), 1)
    if options.is_set("ntasks-per-node") and not options.is_set("ntasks"):
        tasks = max(len(names) * get("ntasks-per-node"), 1)
    if wanted_nodes and wanted_nodes <= len(names):
        names = names[:wanted_nodes]
    if tasks < len(names):
        names = names[:tasks]
    cpus = get("cpus-per-task") or job.cpus_per_task
    per_node = get("ntasks-per-node", 0) or (job.ntasks_per_node if whole_job else 0)
    layout = layout_of(job, tasks, names, per_node, cpus, _dealt(get("distribution")))
    gpus = [
        _gpus(job, options, name, count, whole_job)
        for name, count in zip(layout.nodes, layout.tasks, strict=True)
    ]
    step = Step(
        step_id=_next_step(call, job),
        name=str(get("job-name") or ""),
        start=call.now,
        nodes=layout.nodes,
        tasks=tasks,
        cpus=_cpus(job, layout, tasks, cpus, whole_job or not get("exact")),
    )
    return step, _tasks(call, job, step, layout, gpus, options)


def _next_step(call: Call, job: Job) -> str:
    """Components of a heterogeneous job count their steps together."""
    return str(
        len({s.step_id for one in components_of(call.site, job) for s in one.steps if s.step_id.isdecimal()})
    )


def _dealt(distribution: Any) -> int:
    """How many tasks at a time go to each node in turn; 0: blocks."""
    word = str(distribution or "").lower().partition(":")[0].partition(",")[0]
    return (natural(word[6:]) or 0) if word.startswith("plane=") else int(word == "cyclic")


def _cpus(job: Job, layout: Layout, tasks: int, cpus: int, all_of_them: bool) -> int:
    if not all_of_them:
        return tasks * cpus
    return (
        sum(s.cpus for name, s in zip(job.nodes, job.shares, strict=False) if name in layout.nodes)
        or tasks * cpus
    )


def _gpus(job: Job, options: JobOptions, node: str, tasks: int, whole_job: bool) -> int:
    """The devices a step has on a node: as many as asked of the job's, or all."""
    at = job.nodes.index(node)
    bits = job.shares[at].gres.get("gpu", 0) if at < len(job.shares) else 0
    asked = _gres(options.get("gres")) | _gres(_as_gres(options.get("gpus-per-node")))
    count = sum(c for name, c in asked.items() if name.startswith("gpu"))
    if not count and options.get("gpus") and not whole_job:
        count = sum(_gres(_as_gres(options.get("gpus"))).values())
    if str(options.get("gres", "")).lower() == "none":
        return 0
    return _lowest(bits, count) if count else bits


def _as_gres(text: Any) -> str | None:
    return ",".join(f"gpu:{part}" for part in str(text).split(",")) if text else None


def _lowest(bits: int, count: int) -> int:
    found = 0
    for at in range(bits.bit_length()):
        if bits >> at & 1 and found.bit_count() < count:
            found |= 1 << at
    return found


def _tasks(
    call: Call, job: Job, step: Step, layout: Layout, gpus: list[int], options: JobOptions
) -> list[Task]:
    site = call.site
    shared = job_variables(site, job) | {
        "SLURM_STEPID": step.step_id,
        "SLURM_STEP_ID": step.step_id,
        "SLURM_STEP_LAUNCHER_PORT": "40000",
        "SLURM_SRUN_COMM_HOST": "127.0.0.1",
        "SLURM_SRUN_COMM_PORT": "40000",
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_UMASK": "0022",
        "SLURM_STEP_NODELIST": jobtext.node_list(step.nodes),
        "SLURM_STEP_NUM_NODES": str(len(step.nodes)),
        "SLURM_STEP_NUM_TASKS": str(step.tasks),
        "SLURM_STEP_TASKS_PER_NODE": repeated(layout.tasks),
        "SLURM_NPROCS": str(step.tasks),
        "SLURM_NTASKS": str(step.tasks),
        "SLURM_TASK_PID": "0",
    }
    if options.is_set("ntasks-per-node"):
        shared["SLURM_NTASKS_PER_NODE"] = str(options.get("ntasks-per-node"))
    per_task = options.get("gpus-per-task")
    found = []
    for number in range(step.tasks):
        at, local = layout.of_task(number)
        own = layout.on_node(at)
        variables = shared | node_variables(site, job, layout.nodes[at], local, number, at, own)
        bits = gpus[at]
        if per_task:
            each = sum(_gres(_as_gres(per_task)).values())
            bits = _slice(bits, local * each, each)
            variables["SLURMD_TRES_BIND"] = f"gpu:per_task:{each}"
        elif options.get("gpu-bind"):
            bits = _bound(bits, str(options.get("gpu-bind")), local)
        variables |= gpu_variables(bits)
        if bits:
            variables["SLURM_STEP_GPUS"] = variables["CUDA_VISIBLE_DEVICES"]
        if local == 0:
            variables["TMPDIR"] = "/tmp"
        found.append(Task(number, layout.nodes[at], variables))
    return found


def _bound(bits: int, how: str, local: int) -> int:
    """The devices that --gpu-bind leaves a task: `single:2`, `per_task:1`, `map_gpu:1,0`, `mask_gpu:3`."""
    kind, _, text = how.replace("verbose,", "").replace(",verbose", "").partition(":")
    mine = [at for at in range(bits.bit_length()) if bits >> at & 1]
    if not mine or kind not in ("single", "per_task", "map_gpu", "mask_gpu"):
        return bits
    if kind == "per_task":
        count = natural(text) or 0
        return _slice(bits, local * count, count)
    if kind == "single":
        return 1 << mine[local // max(natural(text) or 1, 1) % len(mine)]
    each: list[int] = []
    for part in text.split(","):
        value, _, times = part.partition("*")
        is_hex = re.fullmatch(r"(0x)?[0-9a-f]{1,16}", value.lower())
        if kind == "mask_gpu" or value.lower().startswith("0x"):
            number = int(value, 16) if is_hex else 0
        else:
            number = natural(value) or 0
        each += [number] * min(max(natural(times) or 1, 1), 4096)
    number = each[local % len(each)]
    if kind == "map_gpu":
        return 1 << mine[number] if number < len(mine) else bits
    return sum(1 << at for place, at in enumerate(mine) if number >> place & 1) or bits


def _slice(bits: int, skip: int, count: int) -> int:
    positions = [at for at in range(bits.bit_length()) if bits >> at & 1][skip : skip + count]
    return sum(1 << at for at in positions)
