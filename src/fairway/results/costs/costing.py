"""A run as a bill: metered once, under stated rules, and cut so finely that days and budgets can be read off it.

The ledger is cut at whole hours (UTC) while that is affordable, at midnights otherwise: months, trends and the hour
in which a budget is spent all come from one bill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway.catalog.catalog import Catalog
from fairway.kube.timestamps import DAY_US, HOUR_US
from fairway.metering.bill import Basis, Measure, bill_of
from fairway.metering.ledger import LedgerOptions
from fairway.metering.rates import Terms
from fairway.metering.split import SplitRule
from fairway.results.billing import LabelNames, Metered, metered
from fairway.results.run import Run

if TYPE_CHECKING:
    import polars as pl

# Above so many machine-hours the bill is cut by days: each cell costs a few hundred bytes.
HOURLY_CELLS_MOST = 200_000


@dataclass(frozen=True, slots=True)
class CostRules:
    """By which rules a bill is made out; every report states them. `labels`: more label keys to bill by."""

    basis: Basis = Basis.REQUEST
    measure: Measure = Measure.SM
    split: SplitRule = SplitRule.RESIDUAL
    commitment: str = ""
    labels: Sequence[str] = field(default=())

    def words(self) -> str:
        """`by request; GPUs cost what CPU and memory leave of a node's price; on 1y terms`."""
        split = {
            SplitRule.RESIDUAL: "GPUs cost what CPU and memory leave of a node's price",
            SplitRule.GPU: "GPUs bear a node's whole price",
            SplitRule.RATIO: "a node's price is split in the ratio of reference prices",
        }[self.split]
        use = f", use by {'memory' if self.measure == Measure.MEMORY else 'SM'}"
        basis = f"by {self.basis.value}{use if self.basis == Basis.USAGE else ''}"
        return f"{basis}; {split}" + (f"; on {self.commitment} terms" if self.commitment else "")


@dataclass(frozen=True, slots=True)
class Costed:
    """A run, its ledger, and the bill made out of it. `period_us`: how long a charge period is at most."""

    run: Run
    rules: CostRules
    metered: Metered
    bill: pl.DataFrame
    period_us: int

    @property
    def is_priced(self) -> bool:
        """Whether any machine of it has a price."""
        return bool(self.metered.ledger.is_priced.any())


def costed(run: Run, catalog: Catalog, rules: CostRules | None = None) -> Costed:
    """The bill of a run. O(n log n) in intervals and machine-hours."""
    rules = rules or CostRules()
    outcome = run.outcome
    hours = sum(life // HOUR_US + 3 for life in outcome.nodes.column("lifetime_us"))
    period_us = HOUR_US if hours <= HOURLY_CELLS_MOST else DAY_US
    options = LedgerOptions(rules.split, period_us=period_us, phase_us=-outcome.began_us % DAY_US)
    found = metered(outcome, catalog, options, Terms(rules.commitment), _labels(rules.labels))
    found.ledger.check()
    bill = bill_of(
        found.ledger,
        found.owners,
        basis=rules.basis,
        measure=rules.measure,
        origin_us=found.origin_us,
    )
    return Costed(run, rules, found, bill, period_us)


def _labels(more: Sequence[str]) -> LabelNames:
    """The labels that always count, and `label:KEY` for others."""
    known = LabelNames()
    return LabelNames({**known.names, **{f"label:{key}": (key,) for key in more}})
