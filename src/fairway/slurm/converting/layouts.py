"""Nodes, tasks, CPUs, memory and GRES of a request as pods: one pod for each node of the job.

What Slurm leaves open until it has chosen nodes (`--ntasks=64` or `--gpus=16` without `--nodes`) is settled by the
largest node of the partition, where the site's configuration is known; else it is one pod, and said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fairway.slurm.cluster import Cluster
from fairway.slurm.converting.notes import CHANGED, LABELS, LOST
from fairway.slurm.converting.scripts import Part
from fairway.slurm.model.job import JobRequest
from fairway.slurm.model.node import NodeConf
from fairway.slurm.model.partition import Partition

GPU = "nvidia.com/gpu"
MIB = 1 << 20
Say = Callable[[tuple[int, str], str, str, str], None]
"""(where, kind, why, do)."""


@dataclass(slots=True)
class Layout:
    """Of each of `nodes` pods: tasks, CPUs, memory in MiB (None: not asked) and extended resources.

    `gpu_kinds`: types of GPUs asked for by name.
    """

    nodes: int
    tasks: int
    cpus: int
    memory: int | None
    devices: dict[str, int] = field(default_factory=dict)
    gpu_kinds: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        return self.devices.get(GPU, 0)


def layout_of(part: Part, cluster: Cluster | None, say: Say) -> Layout:
    """Adds up as cons_tres would for one node of the job."""
    request = part.request
    partition = _partition(cluster, request)
    largest = _largest(cluster, partition)
    gpus_job = sum(request.tres_per_job.values())
    tasks = request.num_tasks or 0
    if not tasks and request.ntasks_per_gpu and gpus_job:
        tasks = gpus_job * request.ntasks_per_gpu
    nodes = _nodes(part, tasks, largest, say)
    per_node = request.ntasks_per_node or -(-max(tasks, 1) // nodes)
    each = request.cpus_per_task or 1
    devices, kinds = _devices(part, nodes, per_node, say)
    gpus = devices.get(GPU, 0)
    cpus = max(per_node * each, request.node_min_cpus or 0, request.cpus_per_tres.get("gpu", 0) * gpus)
    memory = _memory(part, cpus, gpus, cluster, partition, largest, say)
    return Layout(nodes, per_node, cpus, memory, devices, kinds)


def _partition(cluster: Cluster | None, request: JobRequest) -> Partition | None:
    if cluster is None:
        return None
    name = (request.partition or "").split(",")[0]
    default = next((p for p in cluster.partitions.values() if p.default), None)
    return cluster.partitions.get(name, default) if name else default


def _largest(cluster: Cluster | None, partition: Partition | None) -> NodeConf | None:
    if cluster is None or partition is None or not partition.nodes:
        return None
    return max((cluster.nodes[n].conf for n in partition.nodes), key=lambda c: (_gpus(c), c.cpus))


def _gpus(conf: NodeConf) -> int:
    return sum(gres.count for gres in conf.gres if gres.name == "gpu")


def _nodes(part: Part, tasks: int, largest: NodeConf | None, say: Say) -> int:
    request = part.request
    if request.min_nodes is not None:
        if request.max_nodes and request.max_nodes > request.min_nodes:
            why = f"a gang has one size: {request.min_nodes}, the smallest, is taken"
            say(part.where("nodes"), CHANGED, why, "Make it elastic (torchrun --nnodes MIN:MAX) for more")
        return max(request.min_nodes, 1)
    if request.ntasks_per_node and tasks:
        return max(-(-tasks // request.ntasks_per_node), 1)
    cpus = tasks * (request.cpus_per_task or 1)
    gpus = sum(request.tres_per_job.values()) + sum(request.tres_per_task.values()) * tasks
    if largest is not None:
        most = _gpus(largest)
        return max(-(-cpus // largest.cpus), -(-gpus // most) if most else 1, 1)
    if tasks > 1 or (request.num_tasks is None and sum(request.tres_per_job.values()) > 1):
        where = part.where("ntasks", "gpus", "gpus-per-task", "ntasks-per-gpu")
        why = "Slurm spreads it over as many nodes as it takes; here it is one pod on one node"
        say(where, CHANGED, why, "Say --nodes, or give the site's configuration with --conf")
    return 1


def _devices(part: Part, nodes: int, tasks: int, say: Say) -> tuple[dict[str, int], tuple[str, ...]]:
    """Extended resources of one pod, and the types of GPUs asked for."""
    request, found, kinds = part.request, dict[str, int](), list[str]()
    sockets = request.sockets_per_node or 1
    asked = [
        (request.tres_per_node, 1, 1),
        (request.tres_per_job, 1, nodes),
        (request.tres_per_task, tasks, 1),
        (request.tres_per_socket, sockets, 1),
    ]
    per_node = {name.partition(":")[0] for name in request.tres_per_node}
    for tres, times, over in asked:
        for name, count in tres.items():
            gres, _, kind = name.partition(":")
            if over > 1 or (tres is request.tres_per_task and gres in per_node):
                if gres in per_node:
                    continue
                if count % over:
                    why = f"{count} do not divide into {over} nodes: each pod gets {-(-count // over)}"
                    say(part.where("gpus"), CHANGED, why, "Say --gpus-per-node")
            resource = _resource(part, gres, kind, say)
            if resource:
                found[resource] = found.get(resource, 0) + -(-count * times // over)
            if gres == "gpu" and kind and resource == GPU:
                kinds.append(kind)
    return {name: count for name, count in found.items() if count}, tuple(dict.fromkeys(kinds))


def _resource(part: Part, gres: str, kind: str, say: Say) -> str:
    where = part.where("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
    if gres == "gpu":
        return f"nvidia.com/mig-{kind}" if "g." in kind else GPU
    if gres in ("shard", "mps"):
        why = f"{gres} counts parts of GPUs in a unit of its own"
        say(where, LOST, why, "Ask for nvidia.com/gpu with time-slicing or MPS, or for a MIG profile")
        return ""
    return LABELS + f"gres-{gres}" + (f"-{kind}" if kind else "")


def _memory(
    part: Part,
    cpus: int,
    gpus: int,
    cluster: Cluster | None,
    partition: Partition | None,
    largest: NodeConf | None,
    say: Say,
) -> int | None:
    request = part.request
    if request.mem_per_tres.get("gpu") is not None:
        return request.mem_per_tres["gpu"] * gpus
    if request.mem_per_cpu is not None:
        return request.mem_per_cpu * cpus
    if request.mem_per_node:
        return request.mem_per_node
    if request.mem_per_node == 0:
        if largest is not None:
            return largest.real_memory - largest.mem_spec
        why = "all memory of a node is a number that the script does not say"
        say(part.where("mem"), CHANGED, why, "Say --mem, or give the site's configuration with --conf")
        return None
    if cluster is None or partition is None:
        return None
    per_cpu, per_node = partition.def_mem_per_cpu, partition.def_mem_per_node
    if per_cpu is None and per_node is None:
        per_cpu = cluster.conf.number("DefMemPerCPU", 0) or None
        per_node = cluster.conf.number("DefMemPerNode", 0) or None
    return per_cpu * cpus if per_cpu else per_node
