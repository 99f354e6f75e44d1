"""Free GPUs of a Slurm site that no waiting job can use, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fairway.answers.onslurm.planning import looked
from fairway.ground.slurmground import SlurmMoment
from fairway.slurm.model.job import Job


@dataclass(frozen=True, slots=True)
class NodeFree:
    """`why`: what keeps waiting jobs off its free GPUs; '' where one could use them all."""

    node: str
    gpus: int
    free: int
    usable: int
    why: str


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """`waiting`: pending jobs that ask for GPUs; `unusable` of `free` GPUs none of them fits on."""

    gpus: int
    free: int
    unusable: int
    waiting: int
    nodes: tuple[NodeFree, ...]
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def fragmentation(moment: SlurmMoment) -> Fragmentation:
    """Each waiting job is tried on each node alone, by what one node of it needs."""
    standing = looked(moment)
    cluster = standing.controller.cluster
    waiting = [job for job in cluster.pending.values() if _gpus(job)]
    rows = []
    for node in cluster.nodes:
        total = sum(g.count for g in node.conf.gres if g.name == "gpu")
        if not total:
            continue
        free = sum(
            g.count - node.used_gres.get(g.name, 0).bit_count() for g in node.conf.gres if g.name == "gpu"
        )
        usable, why = 0, "nobody waits for GPUs" if not waiting else ""
        for job in waiting:
            said = _hinders(cluster, node, job, free)
            if not said:
                each = _gpus(job)
                usable = max(usable, free // each * each)
            elif not why:
                why = said
        rows.append(NodeFree(node.name, total, free, usable, "" if usable == free else why))
    return Fragmentation(
        sum(r.gpus for r in rows),
        sum(r.free for r in rows),
        sum(r.free - r.usable for r in rows) if waiting else 0,
        len(waiting),
        tuple(rows),
        (*moment.notes, *standing.left_out[:3]),
    )


def _gpus(job: Job) -> int:
    return sum(count for name, count in job.request.tres_per_node.items() if name.split(":")[0] == "gpu")


def _hinders(cluster: Any, node: Any, job: Job, free: int) -> str:
    """What of this node one node's part of the job lacks; '' for nothing."""
    each, nodes = _gpus(job), max(job.min_nodes, 1)
    if not any(node.index in cluster.partitions[name].nodes for name in job.partitions):
        return f"not in partition {','.join(job.partitions)}"
    if not node.available:
        return f"{node.state}+{'+'.join(sorted(node.flags))}".rstrip("+")
    if free < each:
        return f"{each} GPUs wanted, {free} free"
    cpus = -(-job.min_cpus // nodes)
    if node.conf.cpus - node.used_cpus < cpus:
        return f"{cpus} CPUs wanted, {node.conf.cpus - node.used_cpus} free"
    memory = job.mem_per_node or (job.mem_per_cpu or 0) * cpus
    if node.conf.real_memory - node.used_mem < memory:
        return f"{memory} MiB wanted, {node.conf.real_memory - node.used_mem} free"
    return ""
