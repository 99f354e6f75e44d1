"""What plans are priced by: a run's own books, the catalog, or what was said on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairway.catalog.catalog import Catalog
    from fairway.results.run import Run


def price_of(catalog: Catalog, instance_type: str, capacity_type: str, zone: str) -> int:
    """µ$ an hour. Raises: UserError where nobody says."""
    from fairway.catalog.prices import Price
    from fairway.errors import UserError

    found = catalog.price(instance_type, capacity_type, zone=zone)
    if not isinstance(found, Price):
        raise UserError(str(found))
    return found.micros_per_hour


def gpu_price_of(catalog: Catalog, price: str, instance_type: str, zone: str) -> int:
    """µ$ of a GPU and hour, from exactly one of its sources; a machine's price is its GPUs'."""
    from decimal import Decimal, InvalidOperation

    from fairway.errors import UserError

    if bool(price) == bool(instance_type):
        raise UserError("expected one of --gpu-price and --instance-type, which say what a GPU costs")
    if instance_type:
        found = catalog.instance_type(instance_type)
        if found is None or not found.gpus:
            raise UserError(
                f"--instance-type {instance_type}: expected a type with GPUs: fairway catalog instances"
            )
        return price_of(catalog, instance_type, "on-demand", zone) // found.gpus
    try:
        micros = int(Decimal(price) * 1_000_000)
    except (InvalidOperation, OverflowError, ValueError):
        micros = -1
    if micros < 0:
        raise UserError(f"--gpu-price {price!r}: expected dollars, 0 or more, such as 4.10")
    return micros


def loaded(run: Path | None, books: list[Path] | None) -> tuple[Run | None, Catalog]:
    """The run, where one is named, and the prices it is billed by."""
    from fairway.catalog.catalog import load_catalog
    from fairway.results.costs.pricing import catalog_of_run
    from fairway.results.rundir import load_run

    if run is None:
        return None, load_catalog(books or ())
    found = load_run(run)
    return found, catalog_of_run(found.info, books or ())
