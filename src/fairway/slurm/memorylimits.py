"""A job asks for more memory than MaxMemPerCPU: it is given more CPUs for it. (_valid_pn_min_mem in job_mgr.c.)"""

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
