"""A bill as files: CSV, Parquet, FOCUS columns, and the showback as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairway.catalog.catalog import Catalog
from fairway.catalog.prices import Price
from fairway.errors import UserError
from fairway.kube.plaintext import plain_cell, plain_frame
from fairway.metering.focus import FocusFacts, focus_of
from fairway.results.atomic import replace_file, replace_text
from fairway.results.costs.answers import CostReport
from fairway.results.costs.costing import Costed
from fairway.results.costs.money import exact_dollars

if TYPE_CHECKING:
    import polars as pl

# What the clouds call themselves in their own FOCUS exports.
_PROVIDERS = {"aws": "AWS", "gcp": "Google Cloud", "azure": "Microsoft"}
SUFFIXES = (".csv", ".parquet")


def check_suffix(path: Path) -> None:
    """Raises: UserError for a file that is neither CSV nor Parquet."""
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path}: expected a name that ends in {' or '.join(SUFFIXES)}")


def write_bill(run: Costed, path: Path) -> None:
    """Every row of the bill, µ$ as integers."""
    import polars as pl

    _write(run.bill.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)), path)


def write_focus(run: Costed, catalog: Catalog, path: Path) -> None:
    """The bill in FOCUS columns."""
    _write(focus_of(run.bill, focus_facts(run, catalog)), path)


def focus_facts(run: Costed, catalog: Catalog) -> FocusFacts:
    """What the catalog adds: whose machines these are, where they stand, their prices on demand at the beginning."""
    machines = run.metered.ledger.machines
    places = sorted(set(zip(machines.instance_types, machines.zones, strict=True)))
    prices = {(t, z): catalog.price(t, zone=z, at_us=run.metered.origin_us) for t, z in places}
    types = {t: found for t, _ in places if (found := catalog.instance_type(t)) is not None}
    return FocusFacts(
        account=run.run.name or "fairway",
        providers={t: _PROVIDERS.get(found.provider, found.provider) for t, found in types.items()},
        regions={z: catalog.region_of(z) for _, z in places if catalog.region_of(z)},
        list_micros={at: p.micros_per_hour for at, p in prices.items() if isinstance(p, Price)},
        commitment=run.rules.commitment,
    )


def _write(frame: pl.DataFrame, path: Path) -> None:
    check_suffix(path)
    if path.suffix == ".csv":
        replace_file(path, plain_frame(frame).write_csv)
    else:
        replace_file(path, lambda to: frame.write_parquet(to, compression="zstd"))


def write_showback(report: CostReport, path: Path) -> None:
    """Month by month; dollars with all six places."""
    replace_text(path, showback_csv(report))


def showback_csv(report: CostReport) -> str:
    import csv
    from io import StringIO

    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    by = report.breakdown.by[0]
    dollars = ("owed", "own", "of_shared", "gpu", "cpu", "memory", "in_vain", "spot")
    writer.writerow(("month", by, *(f"{d}_usd" for d in dollars), "gpu_hours", "unpriced_gpu_hours"))
    for month in report.months:
        for line in month.lines:
            parts = (line.gpu_micros, line.cpu_micros, line.memory_micros)
            money = (line.owed, line.micros, line.shared_micros, *parts, line.unused_micros, line.spot_micros)
            hours = (f"{line.gpu_hours:.6f}", f"{line.unpriced_gpu_hours:.6f}")
            # What nobody priced is left empty: it is not nothing.
            texts = ["" if line.is_unpriced else exact_dollars(m) for m in money]
            writer.writerow((month.name, plain_cell(line.name), *texts, *hours))
    return out.getvalue()
