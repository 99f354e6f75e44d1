"""How fast is the ledger: made out of ten million stays, and asked who owes what?

A month of 500 machines; pods come and go on every GPU, one after the other, of 40 namespaces and 200 teams.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from fairway.bench import BenchRow
from fairway.metering.bill import Owners, bill_of, totals
from fairway.metering.cells import HOUR_US
from fairway.metering.ground import UNKNOWN_USE, Machines, Stays
from fairway.metering.ledger import LedgerOptions, ledger_of
from fairway.metering.rates import Rates

STAYS, STAYS_QUICK = 10_000_000, 500_000
MACHINES, GPUS = 500, 8
MONTH_US = 730 * HOUR_US
# The limits that the ledger set itself.
QUERY_LIMIT_S = 1.0
_OWNERS, _NAMESPACES, _TEAMS = 100_000, 40, 200
_PRICE = 32_770_000
_QUERIES = (("namespace",), ("team",), ("namespace", "gpu_model"), ("kind",))
_REPEATS = 3


def run(quick: bool) -> Iterator[BenchRow]:
    """Making the ledger, then each query; the best of three, since machines are shared."""
    count = STAYS_QUICK if quick else STAYS
    machines, stays = month_of(count)
    rates = Rates(
        np.arange(MACHINES), machines.start_us, machines.end_us, np.full(MACHINES, _PRICE, np.int64), {}
    )
    began = perf_counter()
    ledger = ledger_of(machines, stays, rates, LedgerOptions())
    made_s = perf_counter() - began
    yield BenchRow(f"ledger/{count}/made", count / made_s, "stays/s", 0.0, "none")
    bill = bill_of(ledger, owners_of())
    limit_s = QUERY_LIMIT_S * count / STAYS
    for by in _QUERIES:
        taken_s = min(_timed(bill, by) for _ in range(_REPEATS))
        reference = f"{limit_s:g} s, a limit of ours"
        yield BenchRow(f"ledger/{count}/by-{'+'.join(by)}", taken_s, "s", limit_s / taken_s, reference)


def _timed(bill: object, by: tuple[str, ...]) -> float:
    began = perf_counter()
    totals(bill, by)  # type: ignore[arg-type]
    return perf_counter() - began


def month_of(count: int) -> tuple[Machines, Stays]:
    """Machines for a month, and as many stays back to back on each of their GPUs."""
    machines = Machines(
        names=tuple(f"n-{i}" for i in range(MACHINES)),
        instance_types=("p4d.24xlarge",) * MACHINES,
        zones=("us-east-1a",) * MACHINES,
        capacity_types=tuple("spot" if i % 4 == 0 else "on-demand" for i in range(MACHINES)),
        gpu_models=tuple("A100-SXM4-40GB" if i % 3 else "H100-SXM5-80GB" for i in range(MACHINES)),
        start_us=np.zeros(MACHINES, np.int64),
        ready_us=np.zeros(MACHINES, np.int64),
        end_us=np.full(MACHINES, MONTH_US, np.int64),
        gpus=np.full(MACHINES, float(GPUS)),
        cpu_milli=np.full(MACHINES, 96_000, np.int64),
        memory_bytes=np.full(MACHINES, 1152 * 2**30, np.int64),
        system_cpu_milli=np.full(MACHINES, 2_000, np.int64),
        system_memory_bytes=np.full(MACHINES, 32 * 2**30, np.int64),
    )
    row = np.arange(count, dtype=np.int64)
    lane = row % (MACHINES * GPUS)
    each_us = MONTH_US // -(-count // (MACHINES * GPUS))
    start = row // (MACHINES * GPUS) * each_us
    # Every fifth GPU-stretch is left a third idle, and a third of the pods tell their use.
    end = start + np.where(row % 5 == 0, each_us * 2 // 3, each_us)
    return machines, Stays(
        machine=lane // GPUS,
        owner=row * 7919 % _OWNERS,
        start_us=start,
        end_us=end,
        gpus=np.ones(count),
        cpu_milli=np.full(count, 8_000, np.int64),
        memory_bytes=np.full(count, 64 * 2**30, np.int64),
        used_sm=np.where(row % 3 == 0, 0.5, UNKNOWN_USE),
        used_memory=np.full(count, UNKNOWN_USE),
    )


def owners_of() -> Owners:
    rows = range(_OWNERS)
    return Owners(
        {
            "namespace": [f"ns-{i % _NAMESPACES}" for i in rows],
            "team": [f"team-{i % _TEAMS}" if i % 11 else "" for i in rows],
        }
    )
