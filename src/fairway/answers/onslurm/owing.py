"""Who owes what of a Slurm site? Every second of every allocation, priced by what it holds.

A GPU's rate is the cheapest on-demand price of its model, less what the machine's CPUs and memory cost elsewhere; CPUs
and memory have OpenCost's reference prices. What nobody held is idle, and shown as such: all of it together is the
price of the nodes over the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairway.catalog.catalog import Catalog, load_catalog
from fairway.catalog.prices import Price
from fairway.ground.slurmground import SlurmMoment
from fairway.metering.split import GIB, REFERENCE
from fairway.slurm.model.node import NodeConf
from fairway.slurm.records.record import JobRecord

COLUMNS = ("account", "user", "partition", "qos", "name")
_HOUR = 3600
_MIB_IN_GIB = 1024


@dataclass(frozen=True, slots=True)
class Rates:
    """µ$ an hour. `gpus`: type ('' any) → rate; `unpriced`: types no price is known for, charged as a plain GPU."""

    gpus: dict[str, int]
    unpriced: tuple[str, ...]
    cpu: int = REFERENCE.cpu
    memory_gib: int = REFERENCE.memory_gib


@dataclass(frozen=True, slots=True)
class Owed:
    """`micros` µ$."""

    owner: str
    jobs: int
    gpu_s: int
    cpu_s: int
    micros: int


@dataclass(frozen=True, slots=True)
class SlurmCost:
    """`idle_micros`: of nodes' GPUs, CPUs and memory that nobody held."""

    by: str
    rows: tuple[Owed, ...]
    idle_micros: int
    total_micros: int
    span_s: int
    rates: Rates

    def as_json(self) -> dict[str, Any]:
        return {
            "by": self.by,
            "span": self.span_s,
            "rows": [
                {
                    "owner": row.owner,
                    "jobs": row.jobs,
                    "gpuHours": row.gpu_s / _HOUR,
                    "cpuHours": row.cpu_s / _HOUR,
                    "usd": row.micros / 1e6,
                }
                for row in self.rows
            ],
            "idleUsd": self.idle_micros / 1e6,
            "totalUsd": self.total_micros / 1e6,
            "usdPerGpuHour": {kind or "gpu": rate / 1e6 for kind, rate in self.rates.gpus.items()},
            "unpriced": list(self.rates.unpriced),
        }


def rates_of(nodes: Sequence[NodeConf], books: Sequence[Path] = ()) -> Rates:
    catalog = load_catalog(books)
    kinds = dict.fromkeys(kind for node in nodes for g in node.gres if g.name == "gpu" for kind in g.types)
    found, unpriced = {}, []
    for kind in kinds:
        rate = _rate(catalog, kind)
        if rate is None:
            unpriced.append(kind or "gpu")
        found[kind] = REFERENCE.gpu if rate is None else rate
    return Rates(found, tuple(unpriced))


def _rate(catalog: Catalog, kind: str) -> int | None:
    """The cheapest machine's price of one GPU of the model; of a MIG type nothing is known."""
    model = catalog.gpu(kind) if kind else None
    if model is None:
        return None
    found = []
    for machine in catalog.instance_types():
        if machine.gpus and catalog.gpu(machine.gpu) is model:
            prices = [catalog.price(machine.name, region=region) for region in machine.regions] or [
                catalog.price(machine.name)
            ]
            for price in prices:
                if isinstance(price, Price):
                    rest = price.micros_per_hour - machine.cpu_milli * REFERENCE.cpu // 1000
                    rest -= machine.memory_bytes * REFERENCE.memory_gib // GIB
                    found.append(max(rest, 0) // machine.gpus)
    return min(found, default=None)


def micros_of(tres: dict[str, int], seconds: int, rates: Rates) -> int:
    """Rounded down to whole µ$."""
    typed = {name.partition(":")[2]: count for name, count in tres.items() if name.startswith("gres/gpu:")}
    gpus = tres.get("gres/gpu", sum(typed.values()))
    plain = max(gpus - sum(typed.values()), 0)
    dearest = max(rates.gpus.values(), default=REFERENCE.gpu)
    per_hour = sum(rates.gpus.get(kind, dearest) * count for kind, count in typed.items())
    per_hour += plain * rates.gpus.get("", min(rates.gpus.values(), default=REFERENCE.gpu))
    per_hour += tres.get("cpu", 0) * rates.cpu + tres.get("mem", 0) * rates.memory_gib // _MIB_IN_GIB
    return per_hour * seconds // _HOUR


def owed(moment: SlurmMoment, by: str = "account", books: Sequence[Path] = ()) -> SlurmCost:
    """From the first submission to the moment, or the last job's end."""
    nodes = moment.site.conf.nodes
    rates = rates_of(nodes, books)
    ran = [r for r in moment.records if r.start and r.start < moment.now]
    first = min((r.start for r in ran), default=moment.now)
    last = max((min(r.end or moment.now, moment.now) for r in ran), default=moment.now)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for record in ran:
        seconds = max(min(record.end or last, last) - record.start, 0)
        tres = {**(record.alloc or record.tres)}
        row = sums[_owner(record, by)]
        row[0] += 1
        row[1] += tres.get("gres/gpu", 0) * seconds
        row[2] += tres.get("cpu", 0) * seconds
        row[3] += micros_of(_priced(tres, record, moment), seconds, rates)
    total = sum(_node_micros(node, last - first, rates) for node in nodes)
    rows = tuple(sorted((Owed(k, *v) for k, v in sums.items()), key=lambda row: (-row.micros, row.owner)))
    return SlurmCost(by, rows, total - sum(row.micros for row in rows), total, last - first, rates)


def _owner(record: JobRecord, by: str) -> str:
    return str(getattr(record, by)) or "none"


def _priced(tres: dict[str, int], record: JobRecord, moment: SlurmMoment) -> dict[str, int]:
    """GPUs by type: as accounting says, else as its first node has them."""
    if not tres.get("gres/gpu") or any(name.startswith("gres/gpu:") for name in tres):
        return tres
    names = record.host_names()
    node = next((n for n in moment.site.conf.nodes if names and n.name == names[0]), None)
    kind = next((g.types[0] for g in node.gres if g.name == "gpu"), "") if node else ""
    return {**tres, f"gres/gpu:{kind}": tres["gres/gpu"]} if kind else tres


def _node_micros(node: NodeConf, seconds: int, rates: Rates) -> int:
    tres = {"cpu": node.cpus, "mem": node.real_memory}
    for gres in node.gres:
        if gres.name == "gpu":
            for kind in gres.types:
                tres["gres/gpu"] = tres.get("gres/gpu", 0) + 1
                if kind:
                    tres[f"gres/gpu:{kind}"] = tres.get(f"gres/gpu:{kind}", 0) + 1
    return micros_of(tres, seconds, rates)
