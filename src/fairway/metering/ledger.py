"""The ledger: for every cell, who owes which part of it.

Claims on a cell: each stay in it (what it held, for how long), the system (what the node keeps for itself), and
nobody (what was not held). A machine that boots is nobody's, under a name of its own. The machine's price is split
into the parts GPU, CPU and memory, and each part is divided by the claims on it. Every cell's debits equal its cost,
exactly.

What an owner held but did not use stays his debt and is noted beside it (`unused_*`), so that a bill by request and
one by use come from the same rows: by use, an owner owes his debit less the unused, and the unused is idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairway.errors import BugError
from fairway.metering.apportion import Floats, Ints, apportion
from fairway.metering.cells import Cells, cells_of
from fairway.metering.ground import UNKNOWN_USE, Machines, Stays
from fairway.metering.rates import UNPRICED, Rates
from fairway.metering.split import CPU, GPU, MEMORY, PARTS, REFERENCE, ReferencePrices, SplitRule, split_of

Bools = npt.NDArray[np.bool_]

UNALLOCATED, SYSTEM, BOOTING = -1, -2, -3
"""Owners that are nobody: not held by anyone; kept by the node for itself; of a machine that is no node yet."""

_NOTHING = 1e-12


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """`period_us`: length of a charge period, 0 for one cell per price; they begin at `phase_us`."""

    rule: SplitRule = SplitRule.RESIDUAL
    reference: ReferencePrices = REFERENCE
    period_us: int = 0
    phase_us: int = 0


@dataclass(frozen=True, slots=True)
class Ledger:
    """Debits, one row per claim: `micros: int64[row, part]`; rows of stays come first, in their order.

    `gpu_us` is the GPU time of the claim (GPU·µs), also where it is unpriced. `unused_sm`, `unused_memory` (µ$ of the
    GPU's part) are 0 where nobody measured the use.
    """

    machines: Machines
    rates: Rates
    cells: Cells
    cell: Ints
    owner: Ints
    stay: Ints
    """The row of the stays, -1 for what is nobody's."""
    micros: Ints
    gpu_us: Floats
    time_us: Ints
    unused_sm: Ints
    unused_memory: Ints

    def __len__(self) -> int:
        return len(self.cell)

    @property
    def total(self) -> int:
        """µ$ of all machines."""
        return int(self.cells.cost.sum())

    @property
    def debits(self) -> Ints:
        """µ$ by row."""
        owed: Ints = self.micros.sum(axis=1)
        return owed

    @property
    def is_priced(self) -> Bools:
        """By row: whether anybody says what its machine costs."""
        priced: Bools = self.cells.micros_per_hour[self.cell] != UNPRICED
        return priced

    def check(self) -> None:
        """Raises: BugError if a cell's debits are not its cost, or a debit is negative."""
        owed = np.zeros(len(self.cells), np.int64)
        np.add.at(owed, self.cell, self.debits)
        wrong = np.flatnonzero(owed != self.cells.cost)
        if len(wrong):
            at = int(wrong[0])
            raise BugError(
                f"cell {at}: {int(owed[at])} µ$ are owed of a cost of {int(self.cells.cost[at])} µ$"
            )
        if len(self.micros) and int(self.micros.min()) < 0:
            raise BugError("a debit is negative")


def ledger_of(machines: Machines, stays: Stays, rates: Rates, options: LedgerOptions | None = None) -> Ledger:
    """The ledger of these machines and stays. O(n log n) in claims."""
    options = options or LedgerOptions()
    cells = cells_of(rates, options.period_us, options.phase_us)
    stay, cell, time_us = _overlaps(stays, cells)
    held = _held(stays, stay, time_us)
    system, free = _rest(machines, cells, cell, held)
    everywhere = np.arange(len(cells))
    claims = np.concatenate((held, system, free))
    rows = np.concatenate((cell, everywhere, everywhere))
    micros = _debits(machines, cells, rows, claims, options)
    idle = np.where(_is_booting(machines, cells), BOOTING, UNALLOCATED)
    nobody = np.full(len(cells), -1)
    columns = _Columns(
        cell=rows,
        owner=np.concatenate((stays.owner[stay], np.full(len(cells), SYSTEM), idle)),
        stay=np.concatenate((stay, nobody, nobody)),
        time_us=np.concatenate((time_us, cells.end_us - cells.start_us, cells.end_us - cells.start_us)),
    )
    # The system and nobody need no row where they claim nothing and owe nothing.
    keep = (columns.stay >= 0) | claims.any(axis=1) | micros.any(axis=1)
    return Ledger(
        machines=machines,
        rates=rates,
        cells=cells,
        cell=columns.cell[keep],
        owner=columns.owner[keep],
        stay=columns.stay[keep],
        micros=micros[keep],
        gpu_us=claims[keep, GPU],
        time_us=columns.time_us[keep],
        unused_sm=_unused(micros[:, GPU], stays.used_sm, columns.stay)[keep],
        unused_memory=_unused(micros[:, GPU], stays.used_memory, columns.stay)[keep],
    )


class _Columns(NamedTuple):
    """Of all claims: stays first, then the system, then what is free."""

    cell: Ints
    owner: Ints
    stay: Ints
    time_us: Ints


def _overlaps(stays: Stays, cells: Cells) -> tuple[Ints, Ints, Ints]:
    """Stay, cell and common time of every pair that has some. A machine's cells follow each other without gaps."""
    if not len(stays) or not len(cells):
        none = np.zeros(0, np.int64)
        return none, none, none
    begin = int(min(cells.start_us.min(), stays.start_us.min()))
    span = int(max(cells.end_us.max(), stays.end_us.max())) - begin
    starts, ends = (cells.machine * span + at - begin for at in (cells.start_us, cells.end_us))
    # A stay that begins before its machine (a clock in doubt) begins with it.
    first = np.searchsorted(ends, stays.machine * span + stays.start_us - begin, "right")
    after = np.searchsorted(starts, stays.machine * span + stays.end_us - begin, "left")
    counts = np.maximum(after - first, 0)
    stay = np.repeat(np.arange(len(stays)), counts)
    cell = first[stay] + np.arange(len(stay)) - np.repeat(np.cumsum(counts) - counts, counts)
    time_us = np.minimum(stays.end_us[stay], cells.end_us[cell]) - np.maximum(
        stays.start_us[stay], cells.start_us[cell]
    )
    some = time_us > 0
    return stay[some], cell[some], time_us[some]


def _held(stays: Stays, stay: Ints, time_us: Ints) -> Floats:
    """`float64[claim, part]`: GPU·µs, milli-CPU·µs, byte·µs."""
    amounts = np.stack((stays.gpus, stays.cpu_milli, stays.memory_bytes), axis=1)
    return amounts[stay].astype(np.float64) * time_us[:, None]


def _rest(machines: Machines, cells: Cells, cell: Ints, held: Floats) -> tuple[Floats, Floats]:
    """What the system keeps and what nobody holds, by cell; nothing is less than nothing."""
    at, length = cells.machine, (cells.end_us - cells.start_us).astype(np.float64)
    zero = np.zeros(len(cells))
    system = np.stack(
        (zero, machines.system_cpu_milli[at] * length, machines.system_memory_bytes[at] * length), axis=1
    )
    system[_is_booting(machines, cells)] = 0.0
    there = np.stack((machines.gpus[at], machines.cpu_milli[at], machines.memory_bytes[at]), axis=1)
    taken = np.stack([np.bincount(cell, held[:, part], len(cells)) for part in (GPU, CPU, MEMORY)], axis=1)
    offered = there * length[:, None]
    free = offered - system - taken
    # Seven sevenths are a whole: what floats leave of it is nothing.
    return system, np.where(free > offered * _NOTHING, free, 0.0)


def _is_booting(machines: Machines, cells: Cells) -> Bools:
    """By cell: nobody can hold any of it, and no system runs."""
    booting: Bools = cells.start_us < machines.ready_us[cells.machine]
    return booting


def _debits(machines: Machines, cells: Cells, rows: Ints, claims: Floats, options: LedgerOptions) -> Ints:
    """`int64[claim, part]`: each cell's cost, first by part and then by claim."""
    price = np.zeros(len(machines))
    # A machine's first price says how its price is made up; a later change does not change the machine.
    first = np.unique(cells.machine, return_index=True)[1]
    price[cells.machine[first]] = cells.micros_per_hour[first]
    weights = split_of(machines, price, options.rule, options.reference).weights[cells.machine]
    owners = np.repeat(np.arange(len(cells)), len(PARTS))
    parts = apportion(cells.cost, owners, weights.ravel()).reshape(weights.shape)
    return np.stack([apportion(parts[:, part], rows, claims[:, part]) for part in (GPU, CPU, MEMORY)], axis=1)


def _unused(gpu_micros: Ints, used: Floats, stay: Ints) -> Ints:
    """µ$ of GPU that were held and not used, rounded down; 0 where nobody measured it."""
    if not len(used):
        return np.zeros(len(stay), np.int64)
    share = np.where(stay >= 0, used[stay], UNKNOWN_USE)
    idle = np.where(share == UNKNOWN_USE, 0.0, 1.0 - np.clip(share, 0.0, 1.0))
    return np.floor(gpu_micros * idle).astype(np.int64)
