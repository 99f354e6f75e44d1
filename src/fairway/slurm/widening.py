"""CPUs that come of memory and of GPUs: a job over MaxMemPerCPU is given more of them, and DefCpuPerGPU of them a GPU.

Source: _valid_pn_min_mem in job_mgr.c, _set_gpu_defaults in cons_common.
"""

from __future__ import annotations

from fairway.slurm.cluster import Cluster
from fairway.slurm.model.job import JobRequest
from fairway.slurm.model.partition import Partition


def widen(cluster: Cluster, request: JobRequest, part: Partition) -> None:
    """Memory per CPU over the limit takes so many CPUs a task instead; memory per node, so many CPUs a node."""
    most = part.max_mem_per_cpu or (0 if part.max_mem_per_node else cluster.conf.number("MaxMemPerCPU", 0))
    if not most:
        return
    if request.mem_per_cpu is not None:
        if request.mem_per_cpu > most:
            _widen_tasks(request, -(-request.mem_per_cpu // most))
        return
    asked = request.mem_per_node
    if asked is None:
        return
    whole = asked or (cluster.nodes[part.nodes[0]].conf.real_memory if part.nodes else 0)
    request.node_min_cpus = max(request.node_min_cpus or 1, -(-whole // most))
    if request.ntasks_per_node:
        request.cpus_per_task = -(-request.node_min_cpus // request.ntasks_per_node)


def _widen_tasks(request: JobRequest, ratio: int) -> None:
    request.cpus_per_task = (request.cpus_per_task or 1) * ratio
    request.mem_per_cpu = -(-(request.mem_per_cpu or 0) // ratio)
    if request.num_tasks:
        request.min_cpus = request.num_tasks * request.cpus_per_task
    else:
        request.node_min_cpus = request.cpus_per_task


def default_per_gpu(cluster: Cluster, request: JobRequest, part: Partition) -> None:
    """Where no option says it, DefCpuPerGPU and DefMemPerGPU: the partition's, else the cluster's."""
    asked = (request.tres_per_job, request.tres_per_node, request.tres_per_socket, request.tres_per_task)
    if not any(name.partition(":")[0] == "gpu" for one in asked for name in one):
        return
    cpus, memory = (_default(cluster, part, key) for key in ("DefCpuPerGPU", "DefMemPerGPU"))
    if cpus and request.cpus_per_task is None and not request.cpus_per_tres:
        request.cpus_per_tres = {"gpu": cpus}
    is_said = request.mem_per_cpu is not None or request.mem_per_node is not None
    if memory and not is_said and not request.mem_per_tres:
        request.mem_per_tres = {"gpu": memory}


def _default(cluster: Cluster, part: Partition, key: str) -> int:
    pairs = (pair.partition("=") for pair in part.settings.get("jobdefaults", "").split(","))
    listed = next((value for name, _, value in pairs if name.strip().lower() == key.lower()), "")
    return int(listed) if listed.isdecimal() else cluster.conf.number(key, 0)
