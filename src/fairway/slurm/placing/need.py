"""What a job asks for, in the terms in which nodes are chosen."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter

Use = tuple[int, int, tuple[int, ...]]
"""What is taken of a node: bitmap of cores, MiB, and for each of its GRES a bitmap of devices (or a count)."""

FREE: Use = (0, 0, ())


@dataclass(frozen=True, slots=True)
class GresNeed:
    """One GRES asked for. 0 is not asked; `per_job` may stand beside another, as what they come to for the job."""

    name: str
    kind: str = ""
    per_job: int = 0
    per_node: int = 0
    per_socket: int = 0
    per_task: int = 0
    cpus_each: int = 0
    mem_each: int = 0
    tasks_each: int = 0

    def cpus_per(self, cpus_per_task: int) -> int:
        return self.cpus_each or self.tasks_each * cpus_per_task

    def total(self, nodes: int, sockets: int, tasks: int) -> int:
        """How many a job over so many nodes and tasks takes; 0: open."""
        return (
            self.per_job
            or self.per_node * nodes
            or self.per_socket * nodes * sockets
            or self.per_task * tasks
        )


@dataclass(frozen=True, slots=True)
class Need:
    """Everything nodes are chosen by. Hashable: equal needs fit alike.

    `num_tasks` 0: not said. `max_nodes` is the number that may be taken (partition and limits applied), `req_nodes`
    the number wished for. Memory in MiB; None and None: all of a node's.
    """

    min_cpus: int = 1
    max_cpus: int | None = None
    min_nodes: int = 1
    max_nodes: int = 500_000
    req_nodes: int = 1
    asked_max_nodes: int = 0
    num_tasks: int = 0
    cpus_per_task: int = 1
    node_min_cpus: int = 1
    tasks_per_node: int = 0
    tasks_per_socket: int = 0
    tasks_per_core: int = 0
    threads_per_core: int = 0
    sockets_per_node: int = 0
    cores_per_socket: int = 0
    mem_per_cpu: int | None = None
    mem_per_node: int | None = None
    mem_set: bool = True
    gres: tuple[GresNeed, ...] = ()
    whole_node: bool = False
    overcommit: bool = False
    contiguous: bool = False
    spread: bool = False
    enforce_binding: bool = False
    block_cores: bool = False
    """Distribution over cores by block, not cyclic."""
    sharing: str = "row"
    """`row`: cores of its own; `shared`: may share them (OverSubscribe); `node`: nodes of its own."""
    max_cpus_per_node: int = 0
    """The partition's MaxCPUsPerNode; 0: none."""
    lln: bool = False
    units: str = "core"
    """What is handed out: `core`, `socket` or `cpu` (CR_Core, CR_Socket, CR_CPU)."""
    counts_memory: bool = True
    one_task_per_core: bool = False
    pack_nodes: bool = False
    serial_at_end: bool = False
    few_switches: int = 0
    """Leaf switches at most; 0: any number."""
    hashed: int = field(default=0, init=False, compare=False, repr=False)
    """Its hash, once somebody asked: needs are keys of everything that is remembered of them."""

    def __hash__(self) -> int:
        if not self.hashed:
            object.__setattr__(self, "hashed", hash(_FIELDS(self)) or 1)
        return self.hashed

    @property
    def min_gres_cpus(self) -> int:
        """CPUs a node's GRES take at least."""
        sockets, tasks = self.sockets_per_node or 1, max(self.tasks_per_node, 1)
        return max(
            (
                one.cpus_each * (one.per_node or one.per_socket * sockets or one.per_task * tasks or 1)
                for one in self.gres
            ),
            default=0,
        )

    @property
    def min_job_gres_cpus(self) -> int:
        sockets, tasks = self.sockets_per_node or 1, max(self.tasks_per_node, 1) * self.min_nodes
        return max(
            (one.cpus_each * one.total(self.min_nodes, sockets, tasks) for one in self.gres), default=0
        )

    def cpus_per_core(self, threads: int) -> int:
        """CPUs of one core this job can use (common_cpus_per_core)."""
        usable = threads
        if self.one_task_per_core and self.min_gres_cpus > 0:
            return threads
        if self.tasks_per_core:
            usable = min(threads, self.tasks_per_core * self.cpus_per_task)
        if self.threads_per_core:
            usable = min(usable, self.threads_per_core)
        return max(usable, 1)


_FIELDS = attrgetter(*(one.name for one in fields(Need) if one.compare))
