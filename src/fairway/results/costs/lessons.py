"""What a run tells planners: how many machines it needed when, which stood empty, how much GPU its services use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from math import ceil

import numpy as np

from fairway.catalog.gpus import GpuModel
from fairway.errors import UserError
from fairway.kube.timestamps import HOUR_US
from fairway.metering.ground import UNKNOWN_USE, Stays
from fairway.metering.planning.rightsizing import Service
from fairway.metering.rates import UNPRICED
from fairway.results.billing import Metered
from fairway.results.costs.costing import Costed


@dataclass(frozen=True, slots=True)
class Empty:
    """Time in which machines of one kind had no pod that asked for anything. Stretches shorter than asked for do not
    count; `micros` is what the others cost, before any warm-up."""

    instance_type: str
    capacity_type: str
    machines: int
    stretches: int
    hours: float
    micros: int
    unpriced_hours: float
    micros_per_hour: int
    """Of one machine, the dearest."""


def load_curve(run: Costed, instance_type: str) -> list[float]:
    """Machines of a type needed in each hour of the run: whole ones, enough for the most GPUs held at once on any.

    Raises: UserError where the run has no such machine, or it has no GPUs.
    """
    metered = run.metered
    machines = metered.ledger.machines
    mine = [i for i, name in enumerate(machines.instance_types) if name == instance_type]
    if not mine:
        known = ", ".join(sorted({t for t in machines.instance_types if t})) or "none"
        raise UserError(f"{instance_type}: no machine of this type in the run; it has {known}")
    gpus_each = max(float(machines.gpus[i]) for i in mine)
    if not gpus_each:
        raise UserError(
            f"{instance_type}: has no GPUs; a load curve counts machines by the GPUs held on them"
        )
    stays = metered.stays
    rows = np.flatnonzero(np.isin(stays.machine, mine) & (stays.gpus > 0))
    hours = max(ceil(run.run.outcome.duration_us / HOUR_US), 1)
    edges = np.arange(hours, dtype=np.int64) * HOUR_US
    times = np.concatenate((stays.start_us[rows], stays.end_us[rows], edges))
    deltas = np.concatenate((stays.gpus[rows], -stays.gpus[rows], np.zeros(hours)))
    order = np.argsort(times, kind="stable")
    # What ends when another begins makes room first: levels are read where time moves on.
    held = np.cumsum(deltas[order])
    last = np.append(np.diff(times[order]) > 0, True)
    most = np.zeros(hours)
    at = np.clip(times[order][last] // HOUR_US, 0, hours - 1)
    np.maximum.at(most, at, held[last])
    return [float(ceil(level / gpus_each - 1e-9)) for level in most]


def empty_machines(run: Costed, least_us: int) -> tuple[Empty, ...]:
    """By kind of machine, the dearest first. Only stretches of at least `least_us` count."""
    metered = run.metered
    ledger, stays = metered.ledger, metered.stays
    machines = ledger.machines
    price = _first_prices(metered)
    by_machine: dict[int, list[tuple[int, int]]] = {}
    for row in np.flatnonzero((stays.gpus > 0) | (stays.cpu_milli > 0) | (stays.memory_bytes > 0)).tolist():
        by_machine.setdefault(int(stays.machine[row]), []).append(
            (int(stays.start_us[row]), int(stays.end_us[row]))
        )
    found: dict[tuple[str, str], list[tuple[int, list[int]]]] = {}
    for i in range(len(machines)):
        gaps = _gaps(int(machines.ready_us[i]), int(machines.end_us[i]), sorted(by_machine.get(i, [])))
        long = [gap for gap in gaps if gap >= least_us]
        found.setdefault((machines.instance_types[i], machines.capacity_types[i]), []).append(
            (price[i], long)
        )
    rows = [_empty(kind, machines_) for kind, machines_ in found.items()]
    return tuple(sorted(rows, key=lambda e: (-e.micros, -e.unpriced_hours, e.instance_type, e.capacity_type)))


def _first_prices(metered: Metered) -> list[int]:
    rates = metered.ledger.rates
    price = [UNPRICED] * len(metered.ledger.machines)
    for row in range(len(rates.machine) - 1, -1, -1):
        price[int(rates.machine[row])] = int(rates.micros_per_hour[row])
    return price


def _gaps(start: int, end: int, stays: Iterable[tuple[int, int]]) -> list[int]:
    """Stretches of a life that no stay covers."""
    gaps, at = [], start
    for since, until in stays:
        if since > at:
            gaps.append(since - at)
        at = max(at, until)
    return [*gaps, end - at] if end > at else gaps


def _empty(kind: tuple[str, str], machines: list[tuple[int, list[int]]]) -> Empty:
    priced = [(price, gaps) for price, gaps in machines if price != UNPRICED]
    without = [gaps for price, gaps in machines if price == UNPRICED]
    return Empty(
        instance_type=kind[0],
        capacity_type=kind[1],
        machines=len(machines),
        stretches=sum(len(gaps) for _, gaps in machines),
        hours=sum(sum(gaps) for _, gaps in machines) / HOUR_US,
        micros=sum(price * sum(gaps) // HOUR_US for price, gaps in priced),
        unpriced_hours=sum(map(sum, without)) / HOUR_US,
        micros_per_hour=max((price for price, _ in priced), default=0),
    )


def services_of(run: Costed, model: GpuModel) -> list[Service]:
    """Workloads whose pods hold one whole GPU of a model: what each needs of it, and how many pods ran at once.

    Only those that told their GPU memory, for without it nobody knows which slice holds them.
    """
    stays, owners = run.metered.stays, run.metered.owners.columns
    models = run.metered.ledger.machines.gpu_models
    found: dict[str, list[int]] = {}
    for row in np.flatnonzero((stays.used_memory != UNKNOWN_USE) & (stays.gpus == 1)).tolist():
        if models[int(stays.machine[row])] == model.name:
            owner = int(stays.owner[row])
            name = f"{owners['namespace'][owner]}/{owners['workload'][owner]}"
            found.setdefault(name, []).append(row)
    return [_service(name, stays, rows, model.memory_bytes) for name, rows in sorted(found.items())]


def _service(name: str, stays: Stays, rows: list[int], memory_bytes: int) -> Service:
    used = max(float(stays.used_memory[row]) for row in rows)
    # A GPU that is busy half of the time needs half of its multiprocessors.
    busy = [float(stays.used_sm[row]) for row in rows if stays.used_sm[row] != UNKNOWN_USE]
    changes = sorted(
        change for row in rows for change in ((int(stays.start_us[row]), 1), (int(stays.end_us[row]), -1))
    )
    most = max(accumulate(change for _, change in changes))
    return Service(name, ceil(used * memory_bytes), max(busy, default=0.0), max(most, 1))
