"""Heterogeneous jobs' environment: SLURM_JOB_ID_HET_GROUP_0 and the others, for scripts, salloc's command and srun."""

from __future__ import annotations

from fairway.kube.integers import natural
from fairway.slurm.commands import jobtext
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.environment import job_layout, repeated
from fairway.slurm.commands.site import Site
from fairway.slurm.model.job import Job
from fairway.slurm.words import hostlist
from fairway.slurm.words.errors import refusals

_SUFFIXES = ("HET", "PACK")
"""The second is what such jobs were called before; both are set (env_array_overwrite_het_fmt)."""
_OF_ONE = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_CPUS_PER_TASK", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES")
"""What is of one component only, and holds for no other."""


def components_of(site: Site, job: Job) -> list[Job]:
    """A heterogeneous job's components by their offsets; another job alone."""
    if not job.het_job_id:
        return [job]
    jobs = site.cluster.jobs.values()
    return sorted((one for one in jobs if one.het_job_id == job.het_job_id), key=lambda one: one.het_offset)


def het_variables(site: Site, leader: Job) -> dict[str, str]:
    """Of its components by their offsets; {} for other jobs (_set_het_job_env)."""
    if not leader.het_job_id:
        return {}
    parts = components_of(site, leader)
    found = {f"SLURM_{suffix}_SIZE": str(len(parts)) for suffix in _SUFFIXES}
    for one in parts:
        for name, value in _of_component(one).items():
            for suffix in _SUFFIXES:
                found[f"{name}_{suffix}_GROUP_{one.het_offset}"] = value
    return found


def _of_component(job: Job) -> dict[str, str]:
    found = {
        "SLURM_JOB_ACCOUNT": job.account,
        "SLURM_JOB_CPUS_PER_NODE": repeated([share.cpus for share in job.shares]),
        "SLURM_JOB_ID": str(job.job_id),
        "SLURM_JOB_NAME": job.request.name,
        "SLURM_JOB_NODELIST": jobtext.node_list(job.nodes),
        "SLURM_JOB_NUM_NODES": str(len(job.nodes)),
        "SLURM_JOB_PARTITION": job.partition,
        "SLURM_JOB_QOS": job.qos,
        "SLURM_JOB_RESERVATION": job.reservation or "",
        "SLURM_TASKS_PER_NODE": repeated(job_layout(job).tasks),
        "SLURM_CPUS_PER_TASK": str(job.request.cpus_per_task or ""),
        "SLURM_NTASKS_PER_NODE": str(job.request.ntasks_per_node or ""),
    }
    if job.mem_per_cpu is not None and not job.request.mem_per_tres:
        found["SLURM_MEM_PER_CPU"] = str(job.mem_per_cpu)
    elif job.mem_per_node and not job.request.mem_per_tres:
        found["SLURM_MEM_PER_NODE"] = str(job.mem_per_node)
    if job.request.num_tasks is not None:
        found["SLURM_NPROCS"] = found["SLURM_NTASKS"] = str(job.num_tasks)
    return {name: value for name, value in found.items() if value}


def allocation_variables(site: Site, leader: Job) -> dict[str, str]:
    """What salloc's command finds of a heterogeneous job: most of it says of which component it is."""
    parts = components_of(site, leader)
    found = {name: value for name, value in het_variables(site, leader).items() if "_MEM_PER_" not in name}
    for one in parts:
        more = {
            "JOBID": str(one.job_id),
            "NNODES": str(len(one.nodes)),
            "NODELIST": jobtext.node_list(one.nodes),
            "NODE_ALIASES": "(null)",
        }
        for name, value in more.items():
            for suffix in _SUFFIXES:
                found[f"SLURM_{name}_{suffix}_GROUP_{one.het_offset}"] = value
    found |= {
        "SLURM_CLUSTER_NAME": site.name,
        "SLURM_JOB_ID": str(leader.job_id),
        "SLURM_SUBMIT_HOST": site.host,
    }
    found["SLURM_SUBMIT_DIR"] = leader.request.work_dir
    if all(one.request.num_tasks is not None for one in parts):
        found["SLURM_NTASKS"] = found["SLURM_NPROCS"] = str(sum(one.num_tasks for one in parts))
    return found


def choose_component(call: Call, asked: str | None) -> None:
    """srun --het-group: from here on the environment is that component's; the first one's without it."""
    size = natural(call.environment.get("SLURM_HET_SIZE"))
    if size is None and asked is None:
        return
    groups = sorted(hostlist.task_numbers(None, asked or "0") or {0})
    if groups[-1] >= (size or 1):
        most = (size or 1) - 1
        call.fail(f"Requested het-group offset exceeds highest hetjob index ({groups[-1]} > {most})")
    if len(groups) > 1:
        number = call.environment.get("SLURM_JOB_ID", "0")
        call.fail(f"Unable to create step for job {number}: {refusals()['NOT_SUPPORTED'][1]}")
    suffix = f"_HET_GROUP_{groups[0]}"
    kept = {name: value for name, value in call.environment.items() if name not in _OF_ONE}
    own = {name.removesuffix(suffix): value for name, value in kept.items() if name.endswith(suffix)}
    call.environment = kept | own
