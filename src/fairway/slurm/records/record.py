"""A job as accounting or scontrol tell it, and the request that would submit it again."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairway.slurm.model.job import JobRequest
from fairway.slurm.words import hostlist
from fairway.slurm.words.durations import INFINITE

PENDING, RUNNING = "PENDING", "RUNNING"


@dataclass(slots=True)
class JobRecord:
    """Seconds since 1970, 0 for never; `limit` minutes; `tres`: what it asked for, else what it had (memory in MiB).

    `label`: as users write it (7, 5_3, 9+1); `nodes`: how many; `nodelist` as it stands ('' none).
    """

    label: str
    name: str
    user: str
    account: str
    partition: str
    qos: str
    state: str
    submit: int
    start: int
    end: int
    limit: int
    nodes: int
    tres: dict[str, int]
    nodelist: str = ""
    eligible: int = 0
    exit_code: int = 0
    priority: int = 0
    reason: str = ""
    dependency: str = ""
    features: str = ""
    alloc: dict[str, int] = field(default_factory=dict)
    line: int = 0
    wanted: str = ""
    """The nodes it asks for by name, a hostlist; `excluded`: those it does not take."""
    excluded: str = ""

    @property
    def gpus(self) -> int:
        return self.alloc.get("gres/gpu", self.tres.get("gres/gpu", 0))

    @property
    def ran_s(self) -> int:
        return max(self.end - self.start, 0) if self.start and self.end else 0

    @property
    def wait_s(self) -> int:
        """From when it could have started."""
        return max(self.start - max(self.eligible, self.submit), 0) if self.start else 0

    @property
    def key(self) -> tuple[str, str, str]:
        """Jobs of one kind: whose they are, and their name without numbers."""
        return self.account, self.user, self.name.rstrip("0123456789-_.")

    def host_names(self) -> tuple[str, ...]:
        if not self.nodelist or self.nodelist in ("None assigned", "(null)"):
            return ()
        return tuple(hostlist.expand(self.nodelist))


def request_of(record: JobRecord) -> JobRequest:
    """What would have been asked for: its resources by node; where tasks were is not recorded."""
    nodes = max(record.nodes or record.tres.get("node", 1), 1)
    cpus = max(record.tres.get("cpu", 1), nodes)
    each = -(-cpus // nodes)
    gpus = {name[5:]: count for name, count in record.tres.items() if name.startswith("gres/")}
    typed = {name.partition(":")[0] for name in gpus if ":" in name}
    gpus = {name: -(-count // nodes) for name, count in gpus.items() if ":" in name or name not in typed}
    memory = record.tres.get("mem", 0)
    return JobRequest(
        name=record.name,
        account=record.account or None,
        partition=record.partition or None,
        qos=record.qos or None,
        time_limit=record.limit if record.limit < INFINITE else None,
        min_nodes=nodes,
        max_nodes=nodes,
        num_tasks=nodes,
        cpus_per_task=each,
        min_cpus=each * nodes,
        ntasks_per_node=1,
        mem_per_node=-(-memory // nodes) if memory else None,
        tres_per_node={name: count for name, count in gpus.items() if count},
        features=record.features or None,
        extra={"label": record.label, "ran_s": record.ran_s, "exit": record.exit_code},
    )
