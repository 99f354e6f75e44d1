"""Where did the money go: to owners, in vain, to the system, to nobody?

    total = used or held by owners + held and not used + kept by nodes + held by nobody

The efficiency score is the share of all dollars that paid for something used: what owners held, less what they held
in vain as far as they tell. Who does not tell counts as using all he holds, so the score is an upper bound, and
`told_share` says how much of what was held it has heard of.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fairway.catalog.prices import UnpricedReason
from fairway.metering.bill import Kind, Measure
from fairway.metering.cells import HOUR_US
from fairway.metering.ground import UNKNOWN_USE
from fairway.metering.ledger import BOOTING, SYSTEM, UNALLOCATED
from fairway.metering.rates import UNPRICED
from fairway.metering.split import GPU
from fairway.results.costs.costing import Costed


@dataclass(frozen=True, slots=True)
class UnpricedStretch:
    """Machines that nobody says the price of, and why."""

    instance_type: str
    capacity_type: str
    zone: str
    machines: int
    machine_hours: float
    gpu_hours: float
    why: str


@dataclass(frozen=True, slots=True)
class CostFigures:
    """µ$ and hours of a run. `idle` is unallocated: nobody asked for it. Shares are None where there is nothing."""

    total_micros: int
    held_micros: int
    """Owed by owners, what they held in vain included."""
    unused_micros: int
    """Of that: GPUs held and not used, by the measure of the rules, as far as told."""
    idle_micros: int
    system_micros: int
    booting_micros: int
    """Of machines that were launched and were no nodes yet."""
    idle_gpu_micros: int
    told_micros: int
    """GPU part of what owners hold whose use somebody told."""
    held_gpu_micros: int
    machine_hours: float
    gpu_hours: float
    held_gpu_hours: float
    idle_gpu_hours: float
    booting_gpu_hours: float
    unpriced_gpu_hours: float
    spot_micros: int
    spot_gpu_hours: float
    unpriced: tuple[UnpricedStretch, ...]

    @property
    def efficiency(self) -> float | None:
        return _share(self.held_micros - self.unused_micros, self.total_micros)

    @property
    def held_share(self) -> float | None:
        return _share(self.held_micros, self.total_micros)

    @property
    def told_share(self) -> float | None:
        return _share(self.told_micros, self.held_gpu_micros)

    @property
    def spot_share(self) -> float | None:
        """Spot's share of the dollars."""
        return _share(self.spot_micros, self.total_micros)

    @property
    def spot_hours_share(self) -> float | None:
        return _share(self.spot_gpu_hours, self.gpu_hours)

    @property
    def idle_hour_micros(self) -> float | None:
        """What an idle GPU-hour cost, of those with a price."""
        return _share(self.idle_gpu_micros, self.idle_gpu_hours)

    @property
    def held_hour_micros(self) -> float | None:
        """What a GPU-hour that somebody held cost, everything idle laid on it: the effective price."""
        return _share(self.total_micros, self.held_gpu_hours)

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "efficiency": self.efficiency,
            "held_share": self.held_share,
            "told_share": self.told_share,
            "spot_share": self.spot_share,
            "spot_hours_share": self.spot_hours_share,
            "idle_hour_micros": self.idle_hour_micros,
            "held_hour_micros": self.held_hour_micros,
        }


def cost_figures(run: Costed) -> CostFigures:
    """O(rows of the ledger)."""
    ledger = run.metered.ledger
    owned, priced = ledger.owner >= 0, ledger.is_priced
    idle, system = ledger.owner == UNALLOCATED, ledger.owner == SYSTEM
    booting = ledger.owner == BOOTING
    by_memory = run.rules.measure == Measure.MEMORY
    unused = ledger.unused_memory if by_memory else ledger.unused_sm
    use = run.metered.stays.used_memory if by_memory else run.metered.stays.used_sm
    stay = ledger.stay
    told = owned & (use[stay] != UNKNOWN_USE) if len(use) else owned
    hours = ledger.gpu_us / HOUR_US
    spot = np.array([c == "spot" for c in ledger.machines.capacity_types], np.bool_)[
        ledger.cells.machine[ledger.cell]
    ]
    debits = ledger.debits
    gpu_micros = ledger.micros[:, GPU]
    cells = ledger.cells
    return CostFigures(
        total_micros=ledger.total,
        held_micros=int(debits[owned].sum()),
        unused_micros=int(unused[owned].sum()),
        idle_micros=int(debits[idle].sum()),
        system_micros=int(debits[system].sum()),
        booting_micros=int(debits[booting].sum()),
        idle_gpu_micros=int(gpu_micros[idle].sum()),
        told_micros=int(gpu_micros[told].sum()),
        held_gpu_micros=int(gpu_micros[owned].sum()),
        machine_hours=float((cells.end_us - cells.start_us).sum() / HOUR_US),
        gpu_hours=float(hours.sum()),
        held_gpu_hours=float(hours[owned & priced].sum()),
        idle_gpu_hours=float(hours[idle & priced].sum()),
        booting_gpu_hours=float(hours[booting & priced].sum()),
        unpriced_gpu_hours=float(hours[~priced].sum()),
        spot_micros=int(debits[spot].sum()),
        spot_gpu_hours=float(hours[spot].sum()),
        unpriced=unpriced_of(run),
    )


def unpriced_of(run: Costed) -> tuple[UnpricedStretch, ...]:
    """Stretches without a price, those of one kind together; most machine-hours first."""
    ledger = run.metered.ledger
    rates, machines = ledger.rates, ledger.machines
    found: dict[tuple[str, str, str, str], tuple[set[str], float, float]] = {}
    for row in np.flatnonzero(rates.micros_per_hour == UNPRICED).tolist():
        at = int(rates.machine[row])
        hours = int(rates.end_us[row] - rates.start_us[row]) / HOUR_US
        reason = rates.reasons[row]
        # Where the zone does not matter, machines in all zones are told together.
        zone = machines.zones[at] if reason.reason == UnpricedReason.NOT_HERE else ""
        why = reason.why
        key = (machines.instance_types[at], machines.capacity_types[at], zone, why)
        names, before, gpus = found.get(key, (set(), 0.0, 0.0))
        names.add(machines.names[at])
        found[key] = (names, before + hours, gpus + hours * float(machines.gpus[at]))
    rows = [
        UnpricedStretch(*key[:3], len(names), hours, gpu_hours, key[3])
        for key, (names, hours, gpu_hours) in found.items()
    ]
    return tuple(
        sorted(rows, key=lambda r: (-r.machine_hours, r.instance_type, r.capacity_type, r.zone, r.why))
    )


def kinds(run: Costed) -> dict[str, int]:
    """µ$ by kind of row, as the bill has them; they add up to the total."""
    import polars as pl

    found = run.bill.group_by("kind").agg(pl.col("micros").sum())
    by = {str(kind): int(micros) for kind, micros in found.iter_rows()}
    return {kind.value: by.get(kind.value, 0) for kind in Kind}


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
