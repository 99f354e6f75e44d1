"""The ledger as a table that can be asked: what does each team, queue or GPU model owe?

One row per claim, with everything a bill is grouped by beside it. What belongs to nobody has the owner `__idle__`
(`__system__`, and `__unallocated__` for a label that an owner does not carry, are OpenCost's words, too;
`__booting__` is ours).

Two bases. `request`: owners owe what they held. `usage`: they owe what they used of it, and what they held in vain is
idle of its own kind, `allocated-unused`; where nobody measured use, all of it counts as used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from fairway.extras import need
from fairway.metering.cells import HOUR_US
from fairway.metering.ledger import Ledger
from fairway.metering.split import CPU, GPU, MEMORY

if TYPE_CHECKING:
    import polars as pl

IDLE, SYSTEM_OWNER, BOOT_OWNER = "__idle__", "__system__", "__booting__"
NO_LABEL = "__unallocated__"


class Kind(StrEnum):
    """What a row of the bill is."""

    OWNED = "owned"
    UNUSED = "allocated-unused"
    UNALLOCATED = "unallocated"
    SYSTEM = "system"
    BOOTING = "booting"


class Basis(StrEnum):
    REQUEST = "request"
    USAGE = "usage"


class Measure(StrEnum):
    """By what use is judged: the time its multiprocessors were busy, or the memory it had taken."""

    SM = "sm"
    MEMORY = "memory"


MONEY = ("gpu_micros", "cpu_micros", "memory_micros", "micros")
MACHINE_COLUMNS = ("machine", "instance_type", "zone", "capacity_type", "gpu_model")


@dataclass(frozen=True, slots=True)
class Owners:
    """What is known of owners, by their number: `{"namespace": […], "team": […]}`. Empty text: it has no such label."""

    columns: Mapping[str, Sequence[str]]


def bill_of(
    ledger: Ledger,
    owners: Owners,
    *,
    basis: Basis = Basis.REQUEST,
    measure: Measure = Measure.SM,
    origin_us: int = 0,
) -> pl.DataFrame:
    """One row per claim; under `usage` another for what it held in vain. Its `micros` add up to the ledger's total.

    Columns: `kind`, `start_us`, `end_us` (of the cell, since 1970), `owner` (its number, negative: nobody); those of
    the owners and of the machine; `priced`, `micros_per_hour` (of the machine), `gpu_hours`; money by part
    (`gpu_micros`, …) and `micros`, `unused_micros`. Raises: WorldError without Polars.
    """
    need("polars")
    import polars as pl

    at = ledger.cells.machine[ledger.cell]
    unused = ledger.unused_sm if measure == Measure.SM else ledger.unused_memory
    columns: dict[str, pl.Series] = {
        "kind": _kinds(ledger),
        "start_us": pl.Series(ledger.cells.start_us[ledger.cell] + origin_us),
        "end_us": pl.Series(ledger.cells.end_us[ledger.cell] + origin_us),
        "owner": pl.Series(ledger.owner),
    }
    for name, values in owners.columns.items():
        columns[name] = _texts([v or NO_LABEL for v in values], ledger)
    for name, machine_values in zip(MACHINE_COLUMNS, _machine_columns(ledger), strict=True):
        columns[name] = pl.Series(machine_values, dtype=pl.Categorical).gather(at)
    columns |= {
        "priced": pl.Series(ledger.is_priced),
        "micros_per_hour": pl.Series(ledger.cells.micros_per_hour[ledger.cell]),
        "gpu_hours": pl.Series(ledger.gpu_us / HOUR_US),
        "gpu_micros": pl.Series(ledger.micros[:, GPU]),
        "cpu_micros": pl.Series(ledger.micros[:, CPU]),
        "memory_micros": pl.Series(ledger.micros[:, MEMORY]),
        "micros": pl.Series(ledger.debits),
        "unused_micros": pl.Series(unused),
    }
    bill = pl.DataFrame([series.alias(name) for name, series in columns.items()])
    return bill if basis == Basis.REQUEST else _by_usage(bill)


def _kinds(ledger: Ledger) -> pl.Series:
    import polars as pl

    words = pl.Series([k.value for k in Kind], dtype=pl.Enum([k.value for k in Kind]))
    # Owners -1, -2, -3 are unallocated, system, booting.
    return words.gather(np.where(ledger.owner >= 0, 0, 1 - ledger.owner))


def _texts(values: list[str], ledger: Ledger) -> pl.Series:
    """A column of the owners by row; the three nobodies have names too."""
    import polars as pl

    named = pl.Series([*values, BOOT_OWNER, SYSTEM_OWNER, IDLE], dtype=pl.Categorical)
    # Owners -3, -2 and -1 are the last three.
    return named.gather(np.where(ledger.owner >= 0, ledger.owner, len(values) + 3 + ledger.owner))


def _machine_columns(ledger: Ledger) -> tuple[Sequence[str], ...]:
    machines = ledger.machines
    return (
        machines.names,
        machines.instance_types,
        machines.zones,
        machines.capacity_types,
        machines.gpu_models,
    )


def _by_usage(bill: pl.DataFrame) -> pl.DataFrame:
    """Rows of owners less what they did not use; that as rows of its own, which nobody's account bears."""
    import polars as pl

    wasted = pl.col("unused_micros") > 0
    kept = bill.with_columns(
        (pl.col("gpu_micros") - pl.col("unused_micros")).alias("gpu_micros"),
        (pl.col("micros") - pl.col("unused_micros")).alias("micros"),
        pl.lit(0, pl.Int64).alias("unused_micros"),
    )
    in_vain = bill.filter(wasted).with_columns(
        pl.lit(Kind.UNUSED.value, bill.schema["kind"]).alias("kind"),
        pl.lit(0.0).alias("gpu_hours"),
        pl.col("unused_micros").alias("gpu_micros"),
        pl.lit(0, pl.Int64).alias("cpu_micros"),
        pl.lit(0, pl.Int64).alias("memory_micros"),
        pl.col("unused_micros").alias("micros"),
    )
    return pl.concat([kept, in_vain])


def sum_of_hours(hours: pl.Expr) -> pl.Expr:
    """Their sum, in whole microseconds: floats that several threads add differ from run to run in their last digits."""
    import polars as pl

    return (hours * HOUR_US).round().cast(pl.Int64).sum() / HOUR_US


def totals(bill: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Sums by some columns, the dearest first and of equals by name; hours without a price beside them."""
    import polars as pl

    unpriced = pl.when(~pl.col("priced")).then(pl.col("gpu_hours")).otherwise(0.0)
    sums = [pl.col(name).sum() for name in (*MONEY, "unused_micros")]
    hours = [sum_of_hours(pl.col("gpu_hours")), sum_of_hours(unpriced).alias("unpriced_gpu_hours")]
    grouped = bill.lazy().group_by(list(by)).agg(*sums, *hours).collect()
    named = grouped.with_columns(pl.col(c).cast(pl.String) for c in by if grouped.schema[c] != pl.Int64)
    return named.sort(["micros", *by], descending=[True, *[False] * len(by)])
