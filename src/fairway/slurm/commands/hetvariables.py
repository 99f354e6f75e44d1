"""What a heterogeneous job's script finds about every component: SLURM_JOB_ID_HET_GROUP_0 and the others."""

from __future__ import annotations

from fairway.slurm.commands import jobtext
from fairway.slurm.commands.environment import job_layout, repeated
from fairway.slurm.commands.site import Site
from fairway.slurm.model.job import Job

_SUFFIXES = ("HET", "PACK")
"""The second is what such jobs were called before; both are set (env_array_overwrite_het_fmt)."""


def het_variables(site: Site, leader: Job) -> dict[str, str]:
    """Of its components by their offsets; {} for other jobs (_set_het_job_env)."""
    if not leader.het_job_id:
        return {}
    jobs = site.cluster.jobs.values()
    parts = sorted(
        (one for one in jobs if one.het_job_id == leader.het_job_id), key=lambda one: one.het_offset
    )
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
