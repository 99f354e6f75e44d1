"""What was, by the accounting: waits, use and fairness, by partition and account. Of replays the same figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fairway.slurm.model.node import NodeConf
from fairway.slurm.records.record import JobRecord


@dataclass(frozen=True, slots=True)
class Stay:
    """One job's waiting and holding. Seconds; `start` and `end` since 1970."""

    label: str
    account: str
    partition: str
    wait_s: int
    start: int
    end: int
    gpus: int
    cpus: int

    @property
    def held_s(self) -> int:
        return max(self.end - self.start, 0)


@dataclass(frozen=True, slots=True)
class Group:
    """`share`: of all GPU-seconds (CPU-seconds where there are no GPUs)."""

    name: str
    jobs: int
    wait_p50_s: int
    wait_p90_s: int
    wait_mean_s: int
    gpu_hours: float
    cpu_hours: float
    share: float


@dataclass(frozen=True, slots=True)
class Told:
    """`allocated_gpus`, `allocated_cpus`: of the nodes' over the span, 0 to 1. `jain`: Jain's index of mean
    slowdown-free waits per account, 1 where all wait alike."""

    jobs: int
    span_s: int
    all: Group
    partitions: tuple[Group, ...]
    accounts: tuple[Group, ...]
    allocated_gpus: float
    allocated_cpus: float
    jain: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def stays_of(records: Iterable[JobRecord], now: int) -> list[Stay]:
    return [
        Stay(
            r.label,
            r.account,
            r.partition.split(",")[0],
            r.wait_s,
            r.start,
            min(r.end or now, now),
            r.gpus,
            (r.alloc or r.tres).get("cpu", 0),
        )
        for r in records
        if r.start and r.start < now
    ]


def told(stays: Sequence[Stay], nodes: Sequence[NodeConf]) -> Told:
    gpus = sum(g.count for node in nodes for g in node.gres if g.name == "gpu")
    cpus = sum(node.cpus for node in nodes)
    first = min((s.start for s in stays), default=0)
    last = max((s.end for s in stays), default=0)
    span = max(last - first, 1)
    gpu_s, cpu_s = sum(s.gpus * s.held_s for s in stays), sum(s.cpus * s.held_s for s in stays)
    total = gpu_s or cpu_s
    accounts = _groups(stays, lambda s: s.account, total, bool(gpu_s))
    return Told(
        len(stays),
        span,
        _group("all", list(stays), total, bool(gpu_s)),
        _groups(stays, lambda s: s.partition, total, bool(gpu_s)),
        accounts,
        gpu_s / (gpus * span) if gpus else 0.0,
        cpu_s / (cpus * span) if cpus else 0.0,
        jain([_stretch([s for s in stays if s.account == one.name]) for one in accounts]),
    )


def _stretch(stays: list[Stay]) -> float:
    """Time from submission to end over time held: 1 for who never waits."""
    held = sum(s.held_s for s in stays)
    return (held + sum(s.wait_s for s in stays)) / held if held else 1.0


def jain(values: Sequence[float]) -> float:
    """(Σx)² / n Σx² : 1 where all are alike, 1/n where one has it all."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _groups(stays: Sequence[Stay], key: Callable[[Stay], str], total: int, by_gpu: bool) -> tuple[Group, ...]:
    found: dict[str, list[Stay]] = defaultdict(list)
    for stay in stays:
        found[key(stay)].append(stay)
    return tuple(_group(name or "none", found[name], total, by_gpu) for name in sorted(found))


def _group(name: str, stays: list[Stay], total: int, by_gpu: bool) -> Group:
    waits = sorted(s.wait_s for s in stays) or [0]
    gpu_s, cpu_s = sum(s.gpus * s.held_s for s in stays), sum(s.cpus * s.held_s for s in stays)
    return Group(
        name,
        len(stays),
        waits[min(len(waits) // 2, len(waits) - 1)],
        waits[min(len(waits) * 9 // 10, len(waits) - 1)],
        sum(waits) // len(waits),
        gpu_s / 3600,
        cpu_s / 3600,
        (gpu_s if by_gpu else cpu_s) / total if total else 0.0,
    )
