"""Who owes how much, common costs laid on them by stated rules.

What nobody holds, what nodes keep for themselves, what was held in vain (in a bill by use) and what shared namespaces
owe can be distributed among the others: evenly, in proportion, or by weight. What is not distributed stays as a line of
its own, so the lines always add up to the total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from fairway.errors import UserError
from fairway.metering.bill import BOOT_OWNER, IDLE, NO_LABEL, SYSTEM_OWNER, Kind, sum_of_hours
from fairway.metering.distribution import SharingRule, distribute
from fairway.results.costs.costing import Costed

if TYPE_CHECKING:
    import polars as pl

SHARED_IDLE, SHARED_SYSTEM, SHARED_UNUSED, SHARED_BOOTING = "idle", "system", "unused", "booting"
UNUSED_LINE = "__unused__"
_COMMON = {
    SHARED_IDLE: IDLE,
    SHARED_SYSTEM: SYSTEM_OWNER,
    SHARED_UNUSED: UNUSED_LINE,
    SHARED_BOOTING: BOOT_OWNER,
}
NOBODY = (IDLE, SYSTEM_OWNER, BOOT_OWNER, UNUSED_LINE)
_NAMESPACE = "namespace/"
# Columns that are known of machines too: by these, what nobody holds has a line of its own only within each value.
_OF_MACHINES = ("machine", "instance_type", "zone", "capacity_type", "gpu_model", "kind")


@dataclass(frozen=True, slots=True)
class Shared:
    """One common cost, and the rule by which the others bear it.

    `what`: idle, system, booting, unused, namespace/NAME.
    """

    what: str
    rule: SharingRule = SharingRule.PROPORTIONAL


@dataclass(frozen=True, slots=True)
class Line:
    """One debtor. `micros` is his own, `shared_micros` what he bears of common costs."""

    key: tuple[str, ...]
    micros: int
    shared_micros: int
    gpu_micros: int
    cpu_micros: int
    memory_micros: int
    unused_micros: int
    spot_micros: int
    gpu_hours: float
    unpriced_gpu_hours: float
    unpriced_rows: int
    """Rows of the bill, with GPUs or without, that nobody priced: they are in no sum."""

    @property
    def is_unpriced(self) -> bool:
        """Whether nobody priced any of it: nothing is known to be owed, which is not the same as owing nothing."""
        return bool(self.unpriced_rows) and not self.owed

    @property
    def owed(self) -> int:
        return self.micros + self.shared_micros

    def plus(self, other: Line) -> Line:
        """Two lines of one debtor as one."""
        sums = {
            f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "key"
        }
        return Line(key=self.key, **sums)

    @property
    def is_nobody(self) -> bool:
        return any(k in NOBODY for k in self.key)

    @property
    def name(self) -> str:
        return " ".join(self.key)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Lines by what they owe, the most first; what belongs to nobody last. They add up to the total."""

    by: tuple[str, ...]
    lines: tuple[Line, ...]
    shared: tuple[Shared, ...] = field(default=())

    @property
    def total_micros(self) -> int:
        return sum(line.owed for line in self.lines)


def breakdown(
    run: Costed,
    by: Sequence[str],
    shared: Sequence[Shared] = (),
    weights: Mapping[str, float] | None = None,
) -> Breakdown:
    """The bill by some columns. Raises: UserError for a column it does not have, or a cost that cannot be shared."""
    check_columns(run.bill, by)
    if shared and len(by) != 1:
        raise UserError(f"common costs are shared by one column; --by names {len(by)}: {', '.join(by)}")
    lines = lines_of(run, by, shared, weights)
    _check_shared(lines, by, shared, weights or {})
    return Breakdown(tuple(by), lines, tuple(shared))


def lines_of(
    run: Costed, by: Sequence[str], shared: Sequence[Shared] = (), weights: Mapping[str, float] | None = None
) -> tuple[Line, ...]:
    """Who owes how much; a common cost that this part of the bill does not have, or has no bearer for, stays."""
    lines = {line.key: line for line in _lines(run.bill, by, shared)}
    for one in shared:
        _share(lines, one, weights or {})
    return tuple(sorted(lines.values(), key=lambda line: (line.is_nobody, -line.owed, line.key)))


def _check_shared(
    lines: Sequence[Line], by: Sequence[str], shared: Sequence[Shared], weights: Mapping[str, float]
) -> None:
    """Raises: UserError for what cannot be shared."""
    names = [line.key[0] for line in lines]
    for one in shared:
        if one.what not in _COMMON and not one.what.startswith(_NAMESPACE):
            raise UserError(
                f"--share {one.what}: expected idle, system, booting, unused or namespace/NAME, "
                "such as idle=proportional"
            )
        if by[0] in _OF_MACHINES:
            raise UserError(f"--share {one.what}: by {by[0]} it has no line of its own: it is in every line")
        if one.what.startswith(_NAMESPACE) and one.what not in names:
            raise UserError(f"--share {one.what}: no pod of that namespace held anything in this run")
    strangers = sorted(set(weights) - set(names))
    if strangers:
        known = ", ".join(line.key[0] for line in lines if not line.is_nobody) or "nobody"
        raise UserError(f"a weight is given to {strangers[0]}, which owes nothing: expected one of {known}")


def check_columns(bill: pl.DataFrame, by: Sequence[str]) -> None:
    """Raises: UserError for what no column is called."""
    known = columns_of(bill)
    for name in by:
        if name not in known:
            from difflib import get_close_matches

            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise UserError(f"--by {name}: {hint}expected some of {', '.join(known)}, or label:KEY")


def columns_of(bill: pl.DataFrame) -> list[str]:
    """What a bill can be broken down by."""
    import polars as pl

    return [n for n, t in bill.schema.items() if t in (pl.Categorical, pl.String) or isinstance(t, pl.Enum)]


_SUMS = (
    "micros",
    "gpu_micros",
    "cpu_micros",
    "memory_micros",
    "unused_micros",
    "_unpriced_rows",
)
_HOURS = ("gpu_hours", "_unpriced")


def _lines(bill: pl.DataFrame, by: Sequence[str], shared: Sequence[Shared]) -> list[Line]:
    """Summed twice: rows by what they say, which is quick, then the few sums by who is billed for them."""
    import polars as pl

    unpriced = pl.when(~pl.col("priced")).then(pl.col("gpu_hours")).otherwise(0.0)
    keys = list(dict.fromkeys((*by, "kind", "namespace", "capacity_type")))
    sums = (
        bill.lazy()
        .with_columns(unpriced.alias("_unpriced"), (~pl.col("priced")).cast(pl.Int64).alias("_unpriced_rows"))
        .group_by(keys)
        .agg(*(pl.col(name).sum() for name in _SUMS), *(sum_of_hours(pl.col(name)) for name in _HOURS))
        .with_columns(pl.col(key).cast(pl.String) for key in keys)
        .with_columns(
            pl.when(pl.col("capacity_type") == "spot").then(pl.col("micros")).otherwise(0).alias("_spot")
        )
        .collect()
    )
    renamed = _renamed(sums, by, shared)
    grouped = renamed.group_by(list(by)).agg(
        *(pl.col(name).sum() for name in (*_SUMS, "_spot")), *(sum_of_hours(pl.col(name)) for name in _HOURS)
    )
    return [
        Line(
            key=tuple(row[name] or NO_LABEL for name in by),
            micros=row["micros"],
            shared_micros=0,
            gpu_micros=row["gpu_micros"],
            cpu_micros=row["cpu_micros"],
            memory_micros=row["memory_micros"],
            unused_micros=row["unused_micros"],
            spot_micros=row["_spot"],
            gpu_hours=row["gpu_hours"],
            unpriced_gpu_hours=row["_unpriced"],
            unpriced_rows=row["_unpriced_rows"],
        )
        for row in grouped.sort(list(by)).iter_rows(named=True)
    ]


def _renamed(sums: pl.DataFrame, by: Sequence[str], shared: Sequence[Shared]) -> pl.DataFrame:
    """Shared namespaces, and what was held in vain, are debtors of their own."""
    import polars as pl

    vain = pl.col("kind") == Kind.UNUSED.value
    found = sums.with_columns(vain.alias("_vain"), pl.col("namespace").alias("_namespace"))
    if by[0] not in _OF_MACHINES:
        name = pl.when(pl.col("_vain")).then(pl.lit(UNUSED_LINE)).otherwise(pl.col(by[0]))
        found = found.with_columns(name.alias(by[0]))
    for one in shared:
        if one.what.startswith(_NAMESPACE):
            here = (pl.col("_namespace") == one.what.removeprefix(_NAMESPACE)) & ~pl.col("_vain")
            own = pl.when(here).then(pl.lit(one.what)).otherwise(pl.col(by[0]))
            found = found.with_columns(own.alias(by[0]))
    return found


def _share(lines: dict[tuple[str, ...], Line], one: Shared, weights: Mapping[str, float]) -> None:
    """Take a common cost off its line and lay it on the debtors; what it has borne itself goes with it."""
    name = _COMMON.get(one.what, one.what)
    common = lines.get((name,))
    debtors = {
        line.key[0]: line.micros
        for line in lines.values()
        if not line.is_nobody and not line.key[0].startswith(_NAMESPACE)
    }
    present = {name: weight for name, weight in weights.items() if name in debtors}
    if common is None or not debtors or (one.rule == SharingRule.WEIGHTED and not any(present.values())):
        return
    for debtor, share in distribute(common.owed, debtors, one.rule, present).items():
        line = lines[(debtor,)]
        lines[(debtor,)] = replace(line, shared_micros=line.shared_micros + share)
    lines[(name,)] = replace(
        common,
        micros=0,
        shared_micros=0,
        gpu_micros=0,
        cpu_micros=0,
        memory_micros=0,
        unused_micros=0,
        spot_micros=0,
    )
    # Without hours to tell of there is nothing left to say.
    if not common.gpu_hours:
        del lines[(name,)]
